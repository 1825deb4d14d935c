"""The folders of the kit."""

from __future__ import annotations

from pathlib import Path

from coda_lib.errors import UserError

REPO = Path(__file__).resolve().parent.parent
INSTALLED = Path(__file__).with_name("data")  # of the distribution coda-lib, which takes the tasks along
DATA = INSTALLED if INSTALLED.is_dir() else REPO / "data"
CHECKPOINTS = DATA / "checkpoints"
TASKS = DATA / "tasks"
NOTEBOOKS = REPO / "notebooks"
PROFILES = REPO / "profiles"
RESULTS = REPO / "results"
REFERENCE = RESULTS / "reference"


def checkpoint_path(name: str) -> str:
    """What `from_pretrained` takes: a path of this repository made absolute, or a hub name as it is."""
    is_path = name.startswith(("data/", "results/", "/", "./"))
    return str(REPO / name) if is_path else name


def require_checkpoint(role: str, name: str) -> str:
    """Return `checkpoint_path(name)`; raises UserError if that is a path where no checkpoint is."""
    path = checkpoint_path(name)
    if not path.strip():
        raise UserError(f"the name of the {role} checkpoint is empty: give a folder or a name on the hub")
    if Path(path).is_absolute() and not (Path(path) / "config.json").is_file():
        advice = "give the folder of a checkpoint, or a name on the hub"
        if Path(path).is_relative_to(CHECKPOINTS):
            advice = "`git status data/checkpoints` says whether it is one that was committed and is gone"
        raise UserError(f"the {role} checkpoint {name} is missing: {advice}")
    return path


def display(path: Path) -> str:
    """Return the path relative to the repository where it lies inside, as a person would type it."""
    return str(path.relative_to(REPO)) if path.is_relative_to(REPO) else str(path)
