"""Task sets with their environments: ScienceDesk, real applications on this machine, or virtual machines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from coda_lib.agent import Agent
from coda_lib.applications import DESKTOP_APPS
from coda_lib.config import FleetSettings
from coda_lib.environment import Environment, Fit
from coda_lib.errors import UserError
from coda_lib.rollout import rollout
from coda_lib.task import Task, test_tasks
from coda_lib.trajectory import Trajectory
from coda_study.fleet.collect import collect
from coda_study.fleet.workers import LocalWorker, RayWorker, WorkerSpec, join_cluster
from sciencedesk.board.files import board_files
from sciencedesk.board.tasks import app_task
from sciencedesk.make import environment


@dataclass(frozen=True)
class TaskSet:
    """Tasks of one application and the environments for them."""

    name: str
    tasks: Sequence[Task]
    make_env: Callable[[], Environment]
    side_by_side: int | None = None  # most episodes at a time; None: the profile's
    each: Sequence[
        Callable[[], Environment]
    ] = ()  # makers of single environments, where each is a machine of its own
    threads: bool = True  # `Environment.threads`
    unreadable: int = 0  # files of further tasks, left out

    def fitted(self, fit: Fit) -> TaskSet:
        """The same with screenshots resized as the models see them."""
        return replace(
            self,
            make_env=partial(self.make_env, fit=fit),
            each=[partial(make, fit=fit) for make in self.each],
        )


def play_tasks(
    task_set: TaskSet, agent: Agent, jobs: Sequence[tuple[Task, int]], seed: int, concurrency: int, step_limit: int | None,
    fleet: FleetSettings, folder: Path, **listeners: Callable[..., None],
) -> list[Trajectory]:  # fmt: skip
    """Play all jobs; one trajectory each, in their order.  A fleet, if there is one, keeps its episodes in
    `folder`.

    `listeners` are `progress` and `report` of `rollout`.  UserError and StageError as in `fleet.collect`.
    """
    if not fleet.workers:
        return rollout(
            agent,
            jobs,
            task_set.make_env,
            seed,
            task_set.side_by_side or concurrency,
            step_limit,
            **listeners,
        )
    if fleet.ray:
        join_cluster(fleet.ray)
    makers = list(task_set.each) or [task_set.make_env] * min(fleet.workers * fleet.side_by_side, len(jobs))
    shares = [makers[i :: fleet.workers] for i in range(fleet.workers)]
    specs = [WorkerSpec(agent, share, task_set.threads, seed, step_limit) for share in shares if share]
    return collect(jobs, specs, folder, RayWorker if fleet.ray else LocalWorker, **listeners)


def space_sets(
    apps: Sequence[str], limit: int | None = None, tasks: Sequence[Task] | None = None
) -> list[TaskSet]:
    """The test tasks of applications, or those among `tasks`; of each application the first `limit`.

    UserError if there are none, and for an application that is not installed.
    """
    of = {
        app: test_tasks(app) if tasks is None else [task for task in tasks if task.app == app] for app in apps
    }
    if not any(of.values()):
        raise UserError(f"no task of {', '.join(apps)} among these tasks")
    return [
        TaskSet(app, some[:limit], *_local(app), threads=True) if app in DESKTOP_APPS
        else TaskSet(app, some[:limit], partial(environment, app), threads=False)
        for app, some in of.items() if some
    ]  # fmt: skip


def board_sets(
    folder: Path,
    machines: Path | None = None,
    limit: int | None = None,
    leave_out: Callable[[str], None] | None = None,
) -> list[TaskSet]:
    """ScienceBoard's task files below a folder, on local applications or in the virtual machines of the file
    `machines`.

    `leave_out` is told of each file that cannot be read; without it such a file is a UserError, which says
    how to leave it out. UserError also for a folder without tasks, and an application that is not installed.
    """
    tasks, unreadable = [], Counter()
    for path in board_files(folder):
        try:
            tasks.append(app_task(path))
        except UserError as error:
            if leave_out is None:
                raise UserError(f"{error}; --leave-out plays the others") from error
            leave_out(f"left out: {error}")
            unreadable[path.parent.name] += 1
    if not tasks:
        raise UserError(f"no task file in {folder} can be read")
    if repeated := [name for name, count in Counter(task.id for task in tasks).items() if count > 1]:
        raise UserError(
            f"two task files below {folder} are {repeated[0]}: each is played under its own name; move one away"
        )
    sets = []
    for kind, group in groupby(sorted(tasks, key=lambda task: task.id), key=lambda task: task.board.type):
        made = TaskSet(kind, list(group)[:limit], *(_virtual(machines) if machines else _local(kind)))
        sets.append(replace(made, unreadable=unreadable[kind]))
    return sets


def _virtual(machines: Path) -> tuple[Callable[[], Environment], int, Sequence[Callable[[], Environment]]]:
    from sciencedesk.board.machine import Machines, load_machines

    listed = load_machines(machines)
    return Machines(listed), len(listed), [Machines([machine]) for machine in listed]


def _local(kind: str) -> tuple[Callable[[], Environment], int]:
    from sciencedesk.real import app_class

    if kind not in DESKTOP_APPS:
        raise UserError(
            f"{kind} runs in a virtual machine: list yours in a file for --machines (data/machines.example.yaml)"
        )
    app = app_class(kind)
    app()  # UserError if it is not installed
    return app, os.cpu_count() or 1
