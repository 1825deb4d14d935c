"""Where tasks are played: in ScienceDesk, on displays of this machine, or in virtual machines."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from coda_lib.agent import Agent
from coda_lib.applications import DESKTOP_APPS
from coda_lib.config import FleetSettings
from coda_lib.envs.base import Environment
from coda_lib.envs.scienceboard.tasks import app_task
from coda_lib.envs.screen import Fit
from coda_lib.errors import UserError
from coda_lib.fleet.collect import collect
from coda_lib.fleet.workers import Crew, LocalWorker, RayWorker, join_cluster
from coda_lib.rollout import rollout
from coda_lib.task import Task, test_tasks
from coda_lib.trajectory import Trajectory


@dataclass(frozen=True)
class Place:
    """Tasks of one application, and how to get an environment for them."""

    name: str
    tasks: Sequence[Task]
    make_env: Callable[[], Environment]
    side_by_side: int | None = None  # most episodes at a time; None: as many as the profile says
    each: Sequence[Callable[[], Environment]] = ()  # where environments are one of a kind, such as machines: what makes each
    threads: bool = True  # `Environment.threads`

    def fitted(self, fit: Fit) -> Place:
        """The same for screens, each shown at the size at which the models see it."""
        return replace(self, make_env=partial(self.make_env, fit=fit), each=[partial(make, fit=fit) for make in self.each])


def played(
    place: Place, agent: Agent, jobs: Sequence[tuple[Task, int]], seed: int, concurrency: int, step_limit: int | None,
    fleet: FleetSettings, folder: Path, **tell: Callable[..., None],
) -> list[Trajectory]:  # fmt: skip
    """All jobs, one trajectory each, in their order: by a fleet, which keeps its episodes in `folder`, or without one.

    UserError and StageError as of `fleet.collect`.
    """
    if not fleet.workers:
        return rollout(agent, jobs, place.make_env, seed, place.side_by_side or concurrency, step_limit, **tell)
    if fleet.ray:
        join_cluster(fleet.ray)
    makers = list(place.each) or [place.make_env] * min(fleet.workers * fleet.side_by_side, len(jobs))
    hands = [makers[i :: fleet.workers] for i in range(fleet.workers)]
    crews = [Crew(agent, hand, place.threads, seed, step_limit) for hand in hands if hand]
    return collect(jobs, crews, folder, RayWorker if fleet.ray else LocalWorker, **tell)


def desks(apps: Sequence[str], limit: int | None = None) -> list[Place]:
    """ScienceDesk with the test tasks of some applications, or the first `limit` of each."""
    from coda_lib.envs.sciencedesk.env import ScienceDesk

    return [Place(app, test_tasks(app)[:limit], partial(ScienceDesk, app), threads=ScienceDesk.threads) for app in apps]


def boards(folder: Path, machines: Path | None = None, limit: int | None = None) -> list[Place]:
    """ScienceBoard's task files below a folder, on local applications or, with a file of them, in virtual machines.

    UserError for a folder without tasks, a file that is wrong, and an application that is not there.
    """
    tasks = sorted(map(app_task, folder.rglob("*.json")), key=lambda task: task.id)
    if not tasks:
        raise UserError(f"no task files in {folder}: expected ScienceBoard's, such as KAlgebra/A-01.json")
    found = []
    for kind, group in groupby(tasks, key=lambda task: task.board.type):
        found.append(Place(kind, list(group)[:limit], *(_virtual(machines) if machines else _local(kind))))
    return found


def _virtual(machines: Path) -> tuple[Callable[[], Environment], int, Sequence[Callable[[], Environment]]]:
    from coda_lib.envs.scienceboard.machine import Machines, load_machines

    listed = load_machines(machines)
    return Machines(listed), len(listed), [Machines([machine]) for machine in listed]


def _local(kind: str) -> tuple[Callable[[], Environment], int]:
    from coda_lib.envs.desktop import app_class

    if kind not in DESKTOP_APPS:
        raise UserError(f"{kind} runs in a virtual machine: list yours in a file for --machines (data/machines.example.yaml)")
    made = app_class(kind)
    made()  # says at once if it is not installed
    return made, os.cpu_count() or 1
