"""The applications: one table, from which every list of applications follows.

A new application of ScienceDesk is a row here, a folder in `envs/sciencedesk` and an import in
`envs/sciencedesk/env.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Application:
    """An application of ScienceDesk and the real software of the same field."""

    name: str
    label: str  # in tables and figures
    test_tasks: int = 0  # drawn by a seed; tasks by hand come on top
    board: str | None = None  # ScienceBoard's application, in a virtual machine
    desktop: tuple[str, ...] = ()  # real applications on a display of this machine: classes of `envs.desktop`
    trained: bool = True  # False: novel software, which no model is trained on


# numbers of test tasks as in ScienceBoard (paper, section 5); the paper has no novel software
APPLICATIONS = (
    Application("algebra", "Algebra", 31, board="KAlgebra", desktop=("KAlgebra",)),
    Application("biochem", "Biochem", 29, board="ChimeraX", desktop=("PyMOL",)),
    Application("gis", "GIS", 34, board="GrassGIS", desktop=("GrassGIS",)),
    Application("astron", "Astron", 33, board="Celestia"),
    Application("spectra", "Spectra", 30, trained=False),
)
APPS = tuple(app.name for app in APPLICATIONS if app.trained)  # what CODA trains and evaluates on
NOVEL_APPS = tuple(app.name for app in APPLICATIONS if not app.trained)
ALL_APPS = tuple(app.name for app in APPLICATIONS)
DESKTOP_APPS = tuple(kind for app in APPLICATIONS for kind in app.desktop)
SPACE_APPS = (*ALL_APPS, *DESKTOP_APPS)  # those that may have a task space
# real -> ScienceDesk's
APPLICATION_OF = {kind: app.name for app in APPLICATIONS for kind in (app.board, *app.desktop) if kind}


def software(apps: Iterable[str]) -> str:
    """What applications of a run are, in a word for captions and cards."""
    return "real applications" if set(apps) & set(DESKTOP_APPS) else "ScienceDesk"


App = Literal[(*APPS, *DESKTOP_APPS)]
RealApp = Literal[tuple(APPLICATION_OF)]
