"""Task sets: tasks of one application with the environments for them, played here or by a fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from coda_lib.agent import Agent
from coda_lib.config import FleetSettings
from coda_lib.environment import Environment, Fit
from coda_lib.rollout import rollout
from coda_lib.task import Task
from coda_lib.trajectory import Trajectory
from coda_study.fleet.collect import collect
from coda_study.fleet.workers import LocalWorker, RayWorker, WorkerSpec, join_cluster


@dataclass(frozen=True)
class TaskSet:
    """Tasks of one application and the environments for them."""

    name: str
    tasks: Sequence[Task]
    make_env: Callable[[], Environment]
    side_by_side: int | None = None  # most episodes at a time; None: the profile's
    each: Sequence[Callable[[], Environment]] = ()  # makers, where each environment is a machine of its own
    threads: bool = True  # `Environment.threads`
    unreadable: int = 0  # files of further tasks, left out
    edition: str = ""  # of ScienceBoard, with the SHA-256 of the files in the folder

    def fitted(self, fit: Fit) -> TaskSet:
        """The same with screenshots resized as the models see them."""
        each = [partial(make, fit=fit) for make in self.each]
        return replace(self, make_env=partial(self.make_env, fit=fit), each=each)


def play_tasks(
    task_set: TaskSet,
    agent: Agent,
    jobs: Sequence[tuple[Task, int]],
    seed: int,
    concurrency: int,
    step_limit: int | None,
    fleet: FleetSettings,
    folder: Path,
    **listeners: Callable[..., None],
) -> list[Trajectory]:
    """Play all jobs; one trajectory each, in their order.  A fleet keeps its episodes in `folder`.

    `listeners` are `progress` and `report` of `rollout`.  UserError and StageError as in `fleet.collect`.
    """
    if not fleet.workers:
        side_by_side = task_set.side_by_side or concurrency
        return rollout(agent, jobs, task_set.make_env, seed, side_by_side, step_limit, **listeners)
    if fleet.ray:
        join_cluster(fleet.ray)
    makers = list(task_set.each) or [task_set.make_env] * min(fleet.workers * fleet.side_by_side, len(jobs))
    shares = [makers[i :: fleet.workers] for i in range(fleet.workers)]
    specs = [WorkerSpec(agent, share, task_set.threads, seed, step_limit) for share in shares if share]
    return collect(jobs, specs, folder, RayWorker if fleet.ray else LocalWorker, **listeners)
