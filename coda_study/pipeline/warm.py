"""A process that has imported what notebooks import, and forks each stage: a new Python takes seconds to.

The stages of a run on this machine start so (`drive`), the jobs of a cluster do not.  `python -m
coda_study.pipeline.warm start ADDRESS STAGE ...` is `coda_study.pipeline.runner STAGE ...` in a fork.  What
is forked has imported libraries, and nothing of the kit: each stage reads the kit's code as it is when the
stage begins.  It has computed nothing and has no threads of its own.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, NoReturn

LIBRARIES = (
    "papermill", "ipykernel.kernelapp", "matplotlib_inline.backend_inline", "matplotlib.pyplot", "pandas",
    "scipy.stats", "torch", "transformers.models.qwen2_5_vl", "trl.trainer.grpo_trainer",
    "trl.trainer.sft_trainer", "pydantic", "gymnasium", "statsmodels.stats.contingency_tables",
    "statsmodels.stats.proportion", "rapidfuzz.distance", "PySide6.QtTest",
)  # fmt: skip
ENOUGH = 3  # stages that are sooner done with such a process than without


@contextmanager
def warmed(folder: Path, stages: int, output: IO[str]) -> Iterator[Path | None]:
    """Yield the address of such a process, which ends with the block and with this process.

    None where it does not pay, and on other systems than Linux, whose libraries do not all survive a fork.
    """
    if stages < ENOUGH or sys.platform != "linux":
        yield None
        return
    from coda_lib.files import socket_folder
    from coda_lib.processes import dies_with_its_parent
    from coda_study.pipeline.kernel import THREAD_VARIABLES

    # the second leaves CUDA to the forks
    alone = dict.fromkeys(THREAD_VARIABLES, "1") | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    with socket_folder() as place, socket.socket(socket.AF_UNIX) as door:
        address = Path(place) / "stages"
        door.bind(str(address))
        door.listen(128)
        # the folder tells runs apart
        command = [sys.executable, "-m", __name__, "serve", str(door.fileno()), str(folder)]
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        how = {"pass_fds": [door.fileno()], "env": os.environ | alone, "preexec_fn": dies_with_its_parent}
        process = subprocess.Popen(command, **streams, **how)
        try:
            yield address
        finally:
            process.kill()
            process.wait()


def serve(door: socket.socket) -> NoReturn:
    """Fork a process for each stage that asks."""
    del sys.path[0]  # the present folder; a kernel puts its own there
    for library in LIBRARIES:
        with suppress(ImportError):  # a stage that needs it will say so
            import_module(library)
    gc.freeze()  # what was imported is nobody's garbage: forks need not look at it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # each asker hears of the end of its stage by itself
    while True:
        asker, _ = door.accept()
        if not os.fork():
            break
        asker.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    door.close()
    _run(asker)


def _run(asker: socket.socket) -> NoReturn:
    """The stage that is asked for, with the asker's folder and streams; it stops when the asker hangs up."""
    _, streams, _, _ = socket.recv_fds(asker, 1, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    with asker.makefile() as file:
        order = json.loads(file.readline())
    os.chdir(order["folder"])
    from coda_study.pipeline import runner
    from coda_study.pipeline.kernel import Fork, leave

    code = runner.main(order["words"], Fork(), asker.fileno())
    asker.send(bytes([code]))
    leave(code)


def ask(address: str, words: Sequence[str]) -> int:
    """Have a stage run; returns its exit code when its process has ended."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        signal.signal(signal.SIGTERM, lambda *_: server.shutdown(socket.SHUT_WR))
        socket.send_fds(server, [b"."], [0, 1, 2])
        server.sendall(json.dumps({"folder": os.getcwd(), "words": words}).encode() + b"\n")
        with server.makefile("rb") as file:
            code = file.read()
    if not code:
        print(f"the process of stage {words[0]} was killed; it may have run out of memory", file=sys.stderr)
    return code[0] if code else 1


if __name__ == "__main__":
    what, where, *words = sys.argv[1:]
    sys.exit(ask(where, words) if what == "start" else serve(socket.socket(fileno=int(where))))
