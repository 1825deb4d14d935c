"""Training by several processes: `accelerate launch` of a stage, and what each of its processes does.

`python -m coda_lib.stages.processes RUN specialize APP` or `... RUN generalize` is one process.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from coda_lib.errors import StageError, UserError
from coda_lib.paths import REPO
from coda_lib.processes import dies_with_its_parent, ended
from coda_lib.run import Run

PATIENCE_S = 30.0  # for the processes to end when they are told to


def launch(run: Run, configuration: str, *stage: str) -> None:
    """Train a stage of a run by the processes of a configuration of `accelerate launch`; shows what they print.

    UserError if there is no such file; StageError if a process fails.
    """
    path = REPO / configuration
    if not path.is_file():
        raise UserError(f"there is no {configuration}: give a configuration of `accelerate launch`, as in profiles/accelerate")
    command = [
        sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(path), "-m", "coda_lib.stages.processes",
        run.name, *stage,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, preexec_fn=dies_with_its_parent)
    with ended(process, PATIENCE_S):
        process.wait()
    if process.returncode:
        raise StageError(f"training by {configuration} failed (exit status {process.returncode}); what it said is above")


def main(arguments: Sequence[str]) -> None:
    from coda_lib.stages import _common as stages

    name, stage, *app = arguments
    run = Run(name)
    profile = run.profile()
    settings = getattr(profile, stage)
    stages.use_threads(settings.threads)
    {"specialize": stages.specialize_here, "generalize": stages.generalize_here}[stage](run, *app)


if __name__ == "__main__":
    main(sys.argv[1:])
