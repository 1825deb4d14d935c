"""Training by several processes: `accelerate launch` of a stage.

Each process is `python -m coda_study.stages.processes specialize RUN PLANNER APP`, or `generalize RUN`.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import torch

from coda_lib.errors import StageError, UserError
from coda_lib.paths import REPO
from coda_lib.processes import dies_with_its_parent, ended
from coda_study.run import Run

PATIENCE_S = 30.0  # for the processes to end when they are told to


def launch(run: Run, configuration: str, stage: str, *names: str) -> None:
    """Train a stage of a run by the processes of a configuration of `accelerate launch`; shows their output.

    UserError if there is no such file; StageError if a process fails.
    """
    path = REPO / configuration
    if not path.is_file():
        known = "give a configuration of `accelerate launch`, as in profiles/accelerate"
        raise UserError(f"there is no {configuration}: {known}")
    accelerate = ["accelerate.commands.launch", "--config_file", str(path)]
    command = [sys.executable, "-m", *accelerate, "-m", __name__, stage, run.name, *names]
    alone = {"start_new_session": True, "preexec_fn": dies_with_its_parent}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, **alone)
    with ended(process, PATIENCE_S):
        process.wait()
    if process.returncode:
        status = f"exit status {process.returncode}"
        raise StageError(f"training by {configuration} failed ({status}); its output is above")


if __name__ == "__main__":  # one of the processes that `launch` starts
    stage, run, *names = sys.argv[1:]
    torch.set_num_threads(getattr(Run(run).profile(), stage).threads)
    import_module(f"coda_study.stages.{stage}").train(Run(run), *names)
