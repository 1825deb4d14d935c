"""A model behind a server of its own, with OpenAI's chat API: vLLM or `transformers serve`.

`python -m coda_lib.models.server MODEL OPTION …` is `transformers serve` with the kit's processor.  By itself
it takes the tokenizer alone where torchvision is missing, and drops every picture without a word.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import httpx

from coda_lib.errors import UserError
from coda_lib.models.endpoint import EndpointModel
from coda_lib.processes import dies_with_its_parent, ended, group_dies_with_us

HOST = "127.0.0.1"
PATIENCE_S = 20.0  # for a server that was told to end
LAST_LINES = 15  # of a server's log, where it failed


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    model: EndpointModel
    engine: str  # vllm or transformers
    process: subprocess.Popen[bytes]
    log: IO[str]

    def wait(self) -> None:
        """Until it ends, which it should not do by itself: UserError with the last lines of its log."""
        self.process.wait()
        raise UserError(f"the server of {self.model.name} ended; its last words:\n{_last_words(self.log)}")


@contextmanager
def served(
    model: str | Path,
    port: int | None = None,
    deadline_s: float = 1800.0,
    options: Sequence[str] = (),
    vllm: Path | None = None,
) -> Iterator[Server]:
    """Start a server for a checkpoint (folder or hub name), wait until it answers, stop it in the end.

    It listens on this machine alone, on a free port if none is given, and calls the model by the name given
    here; `options` are words of vLLM's own command line.  `vllm` is its command, which may belong to another
    environment; by default it is the one of this environment, and used only where there is a GPU.  UserError
    if the port is taken, if there is no vLLM where it is needed, if the server ends, or if it does not answer
    within `deadline_s`.
    """
    port = _free(port)
    engine, command = _command(str(model), port, options, vllm)
    with NamedTemporaryFile(
        "w+", prefix="coda-serve-", suffix=".log", encoding="utf-8", errors="replace"
    ) as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=dies_with_its_parent,
        )  # fmt: skip
        # its engine is a process of its own
        engine_too = group_dies_with_us(process.pid) if engine == "vllm" else nullcontext()
        with engine_too, ended(process, PATIENCE_S):
            server = Server(EndpointModel(f"http://{HOST}:{port}/v1", str(model)), engine, process, log)
            _wait(server, f"http://{HOST}:{port}/health", deadline_s)
            yield server


def _command(model: str, port: int, options: Sequence[str], vllm: Path | None) -> tuple[str, list[str]]:
    import torch

    address = ["--host", HOST, "--port", str(port)]
    if not vllm and not torch.cuda.is_available():
        return "transformers", [sys.executable, "-m", "coda_lib.models.server", model, *address]
    vllm = vllm or Path(sys.executable).with_name("vllm")
    if not vllm.is_file():
        raise UserError(
            f"no vLLM at {vllm}: pip install --editable '.[gpu]', or name its command with --vllm"
        )
    return "vllm", [str(vllm), "serve", model, *address, *options]


def _wait(server: Server, health: str, deadline_s: float) -> None:
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        if server.process.poll() is not None:
            server.wait()
        try:
            if httpx.get(health, timeout=5.0, trust_env=False).is_success and server.process.poll() is None:
                return
        except httpx.TransportError:  # not yet
            pass
        time.sleep(0.2)
    raise UserError(
        f"the server of {server.model.name} does not answer after {deadline_s:.0f} s; "
        f"its last words:\n{_last_words(server.log)}"
    )


def _free(port: int | None) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was used a moment ago is free
        try:
            probe.bind((HOST, port or 0))
        except OSError as error:
            raise UserError(f"port {port} is taken ({error.strerror}): choose another with --port") from error
        return probe.getsockname()[1]


def _last_words(log: IO[str]) -> str:
    log.seek(0)
    return "\n".join(log.read().strip().splitlines()[-LAST_LINES:])


def main(arguments: Sequence[str]) -> None:
    """`transformers serve` with these arguments."""
    from transformers import AutoProcessor
    from transformers.cli.transformers import main as transformers

    from coda_lib.models.local import load_processor

    AutoProcessor.from_pretrained = staticmethod(lambda path, **_: load_processor(path))
    sys.argv = ["transformers", "serve", *arguments]
    transformers()


if __name__ == "__main__":
    main(sys.argv[1:])
