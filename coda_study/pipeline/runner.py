"""Run one stage: its notebook, a record of what it read, wrote and cost, and training that resumes.

`python -m coda_study.pipeline.runner STAGE ...` is what the Snakefile calls, by itself or in a fork
(`pipeline.warm`).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from coda_lib.errors import StageError, expected, one_line
from coda_lib.files import read_json, sha256, write_json
from coda_lib.paths import display
from coda_study.owned import remove
from coda_study.pipeline.kernel import Fork
from coda_study.pipeline.notebook import execute, read_parameters, source_hash
from coda_study.run import Run

PARTS_OF_TRAINING = "checkpoints"  # folder of a resumable stage that its trainer resumes from; no result
DONE = "done.json"  # hashes of what a resumable stage made: its only output for Snakemake
FINGERPRINT = "fingerprint.json"  # of everything that a resumable stage was started with


@dataclass(frozen=True)
class Record:
    """What is known of a stage of a run; files are named by path, with their SHA-256 (`_hash`)."""

    stage: str
    notebook: str
    parameters: list[str]
    state: str  # running, done or failed
    started: float  # seconds since the epoch
    wall_s: float | None = None
    peak_rss_mb: float | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    error: str | None = None


def run_stage(
    run: Run,
    stage: str,
    notebook: Path,
    executed: Path,
    parameters: Sequence[str],  # name=value
    inputs: Sequence[Path] = (),
    outputs: Sequence[Path] = (),
    settings: str = "",
    resumable: Path | None = None,
    kernel: Fork | None = None,
) -> None:
    """Execute the notebook of a stage and keep a record of it (results/<run>/stages/).

    A `resumable` stage trains into the folder of that name. What an interrupted attempt left there is kept if
    it was started with the same notebook, parameters, settings and inputs, and removed otherwise; at the end
    done.json lists the hashes of what was made. Raises what `execute` raises, and StageError if an output is
    missing afterwards.
    """
    started = time.time()
    hashes = {display(path.resolve()): _hash(path) for path in inputs}
    record = Record(stage, notebook.name, list(parameters), "running", started, inputs=hashes)
    write_json(run.stage_record(stage), asdict(record))
    try:
        if resumable:
            _prepare(resumable, {"parameters": list(parameters), "settings": settings, "inputs": hashes})
        peak_rss_mb = execute(notebook, executed, read_parameters(notebook, parameters), kernel)
        if missing := [path.absolute() for path in outputs if path.name != DONE and not path.exists()]:
            names = ", ".join(map(str, missing))
            raise StageError(f"{display(notebook)} ended without an error but did not write {names}")
        if resumable:
            write_json(resumable / DONE, {"files": _hash_folder(resumable)})
    except BaseException as error:
        _finish(run, record, state="failed", error=_message(run, error))
        raise
    hashes = {display(path.resolve()): sha256(path) for path in outputs}
    _finish(run, record, state="done", outputs=hashes, peak_rss_mb=peak_rss_mb)


def _hash(path: Path) -> str:
    """Of an input; of a notebook that may have been saved with outputs, that of its sources."""
    return source_hash(path) if path.suffix == ".ipynb" else sha256(path)


def _message(run: Run, error: BaseException) -> str:
    """What a person is told; the traceback of a bug is in the log, as `main` does not catch it."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return "stopped"
    bug = f"{one_line(error)}; the traceback of this bug is in {run.folder / 'snakemake.log'}"
    return expected(error) or bug


def _finish(run: Run, record: Record, **changes: Any) -> None:
    finished = replace(record, wall_s=round(time.time() - record.started, 2), **changes)
    write_json(run.stage_record(record.stage), asdict(finished))


def _prepare(folder: Path, fingerprint: dict[str, Any]) -> None:
    known = folder / FINGERPRINT
    if folder.exists() and not (known.exists() and read_json(known) == fingerprint):
        remove(folder)
    write_json(known, fingerprint)


def _hash_folder(folder: Path) -> dict[str, str]:
    """SHA-256 of each file under the folder, without the trainer's checkpoints and this module's own."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith((DONE, FINGERPRINT, PARTS_OF_TRAINING)):
            hashes[name] = sha256(path)
    return hashes


def _stop(*_: Any) -> None:
    """End the notebook's process, which may be deaf while it computes, then unwind."""
    for child in psutil.Process().children(recursive=True):
        child.kill()
    raise KeyboardInterrupt


def _stop_with(starter: int) -> None:
    """Stop once the other end of a pipe or socket closes: the process that started this is gone."""
    while os.read(starter, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)
    os._exit(1)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    about = {"prog": "python -m coda_study.pipeline.runner", "description": "Run the notebook of one stage."}
    parser = argparse.ArgumentParser(**about)
    parser.add_argument("stage")
    parser.add_argument("--run", type=Run, required=True)
    parser.add_argument("--notebook", type=lambda name: Path(name).resolve(), required=True)
    parser.add_argument("--executed", type=Path, required=True)
    parser.add_argument("--set", dest="parameters", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--inputs", nargs="*", type=Path, default=[])
    parser.add_argument("--outputs", nargs="*", type=Path, default=[])
    parser.add_argument("--settings", default="", help="what else the stage depends on, as text")
    parser.add_argument("--resumable", type=Path, help="folder that the stage trains into")
    parser.add_argument("--attached", action="store_true", help="end when standard input closes")
    return parser.parse_args(argv)


def main(argv: Sequence[str], kernel: Fork | None = None, asker: int | None = None) -> int:
    """Run a stage; `asker` is a socket to the process that asked a warm process for it, if one did."""
    arguments = vars(_parse(argv))
    signal.signal(signal.SIGTERM, _stop)
    starters = [sys.stdin.fileno()] if arguments.pop("attached") else []
    for starter in [*starters, *([] if asker is None else [asker])]:
        threading.Thread(target=_stop_with, args=(starter,), daemon=True).start()
    try:
        run_stage(**arguments, kernel=kernel)
    except Exception as error:
        if (message := expected(error)) is None:
            raise
        print(message, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{arguments['stage']} was stopped", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
