"""Folders of the kit's own, and the only function that removes something from them.

A folder that the kit makes gets a mark, the file .coda, which says what it is.  Only what the kit itself puts
in such a folder is ever removed: a file of somebody else stays, in a run too, and so does everything in a
folder without a mark.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coda_lib.config import EXPLORERS
from coda_lib.errors import UserError
from coda_lib.files import final_name, reading, require_new, temporary_beside, temporary_name, write_text
from coda_lib.paths import REFERENCE, display

MARK = ".coda"
BELONGS = {  # kind of folder: what the kit puts in it
    "run": frozenset(
        ("ablations", "base_models", "baselines", "claims.json", "curve", "evaluation", "figures", "fleet",
         "generalist", "generated", "judged", "judges", "manifest.json", "notebooks",
         "profile.yaml", "report.html", "rollouts", "seeds", "snakemake.log", ".snakemake", *EXPLORERS[1:],
         "stages", "tables", "timings.json", "usage", "view", "view.html")
    ),
    "view": frozenset(("view", "view.html")),
    "fleet": frozenset(("episodes", "about.json", "status.json")),
    "models": frozenset(("tower", "reader", "executor", "planner", "base_judge", "judge")),
}  # fmt: skip


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a new temporary folder beside `path` to write in; rename it to `path` on success.

    On an exception it is removed and nothing is at `path`.  UserError as of `require_new`.
    """
    require_new(path)
    with temporary_beside(path) as temporary:
        temporary.mkdir()
        yield temporary
        os.replace(temporary, require_new(path))


def kind_of(folder: Path) -> str | None:
    """What the kit marked a folder as: a key of `BELONGS`; None for a folder that is not its own."""
    mark = folder / MARK
    if not mark.is_file():
        return None
    with reading(mark, "text"):
        kind = mark.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    return kind if kind in BELONGS else None


def in_reference(path: Path) -> bool:
    """Whether a path is that of committed results, however it is written."""
    return Path(os.path.realpath(path)).is_relative_to(REFERENCE.resolve())


def is_free(folder: Path) -> bool:
    """Whether nothing of anybody is in a folder: it is not there, or is empty."""
    if not folder.is_dir():
        return not os.path.lexists(folder)
    # a preview leaves .snakemake in a folder that is not made yet, a killed process half a mark
    names = [path.name for path in folder.iterdir()]
    return all(name == ".snakemake" or final_name(name) == MARK != name for name in names)


def claim(folder: Path, kind: str) -> None:
    """Make a folder and mark it, unless it has that mark.  UserError if it holds something else."""
    if kind_of(folder) == kind:
        return
    if kind_of(folder) or not is_free(folder):
        fault = f"holds something else and has no mark of this kit ({MARK})"
        raise UserError(f"{display(folder)} {fault}: name another folder, or empty it")
    folder.mkdir(parents=True, exist_ok=True)
    note = "The command coda made this folder, and removes in it what it put there itself."
    write_text(folder / MARK, f"{kind}\n{note}\n")


def belongs(path: Path) -> bool:
    """Whether the kit put a path there: the nearest marked folder above it is of a kind with such a part."""
    # a link on the way leads elsewhere; one in the end is the thing
    real = Path(os.path.realpath(path.parent)) / path.name
    owner = next((folder for folder in real.parents if kind_of(folder)), None)
    if owner is None or in_reference(real.parent):
        return False
    return final_name(real.relative_to(owner).parts[0]) in BELONGS[kind_of(owner)]


def remove(path: Path) -> None:
    """Remove a file, a link or a folder of the kit if it is there; a folder vanishes at once, by a rename.

    UserError for what does not belong to a folder that the kit marked, and for everything under
    results/reference.
    """
    _require_own(path)
    if path.is_dir() and not path.is_symlink():
        trash = temporary_name(path)
        os.replace(path, trash)
        shutil.rmtree(trash)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write a folder to, which takes the place of the old one on success.

    On an exception `path` stays as it was.  UserError as of `remove`.
    """
    _require_own(path)
    with temporary_beside(path) as temporary:
        yield temporary
        remove(path)
        os.replace(temporary, path)


def _require_own(path: Path) -> None:
    if os.path.lexists(path) and not belongs(path):
        raise UserError(
            f"{display(path)} is not removed: it is not in a folder that this kit marked as its own ({MARK})"
        )
