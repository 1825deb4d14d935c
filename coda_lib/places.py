"""Where tasks are played: in ScienceDesk, on displays of this machine, or in virtual machines."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from coda_lib.app_tasks import app_task
from coda_lib.envs.base import Environment
from coda_lib.envs.screen import Fit
from coda_lib.errors import UserError
from coda_lib.task import Task, test_tasks


@dataclass(frozen=True)
class Place:
    """Tasks of one application, and how to get an environment for them."""

    name: str
    tasks: Sequence[Task]
    make_env: Callable[[], Environment]
    side_by_side: int | None = None  # most episodes at a time; None: as many as the profile says


def desks(apps: Sequence[str], limit: int | None = None) -> list[Place]:
    """ScienceDesk with the test tasks of some applications, or the first `limit` of each."""
    from coda_lib.envs.sciencedesk.env import ScienceDesk

    return [Place(app, test_tasks(app)[:limit], partial(ScienceDesk, app)) for app in apps]


def boards(folder: Path, machines: Path | None = None, limit: int | None = None, fit: Fit | None = None) -> list[Place]:
    """ScienceBoard's task files below a folder, on local applications or, with a file of them, in virtual machines.

    `fit` gives the size at which the models see a screen of a size.
    UserError for a folder without tasks, a file that is wrong, and an application that is not there.
    """
    tasks = sorted(map(app_task, folder.rglob("*.json")), key=lambda task: task.id)
    if not tasks:
        raise UserError(f"no task files in {folder}: expected ScienceBoard's, such as KAlgebra/A-01.json")
    found = []
    for kind, group in groupby(tasks, key=lambda task: task.board.type):
        found.append(Place(kind, list(group)[:limit], *(_virtual(machines, fit) if machines else _local(kind, fit))))
    return found


def _virtual(machines: Path, fit: Fit | None) -> tuple[Callable[[], Environment], int]:
    from coda_lib.envs.scienceboard import Machines, load_machines

    listed = load_machines(machines)
    return Machines(listed, fit=fit), len(listed)


def _local(kind: str, fit: Fit | None) -> tuple[Callable[[], Environment], int]:
    from coda_lib.envs.apps import KINDS, app_class

    if kind not in KINDS:
        raise UserError(f"{kind} runs in a virtual machine: list yours in a file for --machines (data/machines.example.yaml)")
    made = app_class(kind)
    made()  # says at once if it is not installed
    return partial(made, fit=fit), os.cpu_count() or 1
