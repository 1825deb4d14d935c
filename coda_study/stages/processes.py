"""Training by several processes: `accelerate launch` of a stage.

Each process runs the stage's own module, such as `python -m coda_study.stages.specialize RUN APP`.
"""

from __future__ import annotations

import subprocess
import sys

from coda_lib.errors import StageError, UserError
from coda_lib.paths import REPO
from coda_lib.processes import dies_with_its_parent, ended
from coda_study.run import Run

PATIENCE_S = 30.0  # for the processes to end when they are told to


def launch(run: Run, configuration: str, stage: str, *app: str) -> None:
    """Train a stage of a run by the processes of a configuration of `accelerate launch`; shows what they
    print.

    UserError if there is no such file; StageError if a process fails.
    """
    path = REPO / configuration
    if not path.is_file():
        raise UserError(
            f"there is no {configuration}: give a configuration of `accelerate launch`, as in "
            "profiles/accelerate"
        )
    accelerate = ["accelerate.commands.launch", "--config_file", str(path)]
    command = [sys.executable, "-m", *accelerate, "-m", f"coda_study.stages.{stage}", run.name, *app]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, start_new_session=True, preexec_fn=dies_with_its_parent
    )
    with ended(process, PATIENCE_S):
        process.wait()
    if process.returncode:
        raise StageError(
            f"training by {configuration} failed (exit status {process.returncode}); its output is above"
        )
