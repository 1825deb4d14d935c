"""The task sets of `coda evaluate`: ScienceDesk, real applications on this machine, or virtual machines."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from coda_lib.applications import DESKTOP_APPS
from coda_lib.environment import Environment
from coda_lib.errors import UserError
from coda_lib.task import Task, test_tasks
from coda_study.fleet.tasksets import TaskSet
from sciencedesk.board.editions import files
from sciencedesk.board.files import board_files
from sciencedesk.board.machine import Machines, load_machines
from sciencedesk.board.tasks import app_task
from sciencedesk.make import environment
from sciencedesk.real import app_class

Report = Callable[[str], None]


def space_sets(
    apps: Sequence[str], limit: int | None = None, tasks: Sequence[Task] | None = None
) -> list[TaskSet]:
    """The test tasks of applications, or those among `tasks`; of each application the first `limit`.

    UserError if there are none, and for an application that is not installed.
    """
    sets = []
    for app in apps:
        wanted = test_tasks(app) if tasks is None else [task for task in tasks if task.app == app]
        if wanted and app in DESKTOP_APPS:
            sets.append(TaskSet(app, wanted[:limit], *_local(app)))
        elif wanted:
            sets.append(TaskSet(app, wanted[:limit], partial(environment, app), threads=False))
    if not sets:
        raise UserError(f"no task of {', '.join(apps)} among these tasks")
    return sets


def board_sets(
    folder: Path, machines: Path | None = None, limit: int | None = None, leave_out: Report | None = None
) -> list[TaskSet]:
    """ScienceBoard's task files below a folder, on local applications or in the machines of a file.

    `leave_out` is told of each file that cannot be read; without it such a file is a UserError, which says
    how to leave it out. UserError also for a folder without tasks, and an application that is not installed.
    """
    tasks, unreadable, paths = [], Counter(), defaultdict(list)
    for path in board_files(folder):
        try:
            tasks.append(app_task(path))
            paths[tasks[-1].board.type].append(path)
        except UserError as error:
            if leave_out is None:
                raise UserError(f"{error}; --leave-out plays the others") from error
            leave_out(f"left out: {error}")
            unreadable[path.parent.name] += 1
            paths[path.parent.name].append(path)
    if not tasks:
        raise UserError(f"no task file in {folder} can be read")
    if repeated := [name for name, count in Counter(task.id for task in tasks).items() if count > 1]:
        two = f"two task files below {folder} are {repeated[0]}"
        raise UserError(f"{two}: each is played under its own name; move one away")
    sets = []
    for kind, group in groupby(sorted(tasks, key=lambda task: task.id), key=lambda task: task.board.type):
        environments = _virtual(machines) if machines else _local(kind)
        about = {"unreadable": unreadable[kind], "edition": str(files(paths[kind]))}
        sets.append(TaskSet(kind, list(group)[:limit], *environments, **about))
    return sets


def _virtual(machines: Path) -> tuple[Callable[[], Environment], int, Sequence[Callable[[], Environment]]]:
    listed = load_machines(machines)
    return Machines(listed), len(listed), [Machines([machine]) for machine in listed]


def _local(kind: str) -> tuple[Callable[[], Environment], int]:
    if kind not in DESKTOP_APPS:
        need = "list yours in a file for --machines (data/machines.example.yaml)"
        raise UserError(f"{kind} runs in a virtual machine: {need}")
    app = app_class(kind)
    app()  # UserError if it is not installed
    return app, os.cpu_count() or 1
