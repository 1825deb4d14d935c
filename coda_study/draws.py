"""The random draws of a run: one seed for each stage, and the tasks that it explores and evaluates."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence

from coda_lib.config import Profile
from coda_lib.task import Task, test_tasks
from coda_study.run import Run
from sciencedesk.make import defaults
from sciencedesk.perturb import perturbed
from sciencedesk.space import draw, space


def stage_seed(profile: Profile, *names: str) -> int:
    """A seed below 2^31 for one stage of a run, the same for the same run seed and names."""
    digest = hashlib.sha256("/".join([str(profile.seed), *names]).encode()).digest()
    return int.from_bytes(digest[:4], "big") % 2**31


def runs_of(profile: Profile, tasks: Sequence[Task], runs: int, region: str) -> list[tuple[Task, int]]:
    """Every task of a region `runs` times, runs of one task side by side, as `start_of` has them."""
    return [(start_of(profile, task, run, region), run) for task in tasks for run in range(runs)]


def start_of(profile: Profile, task: Task, run: int, region: str) -> Task:
    """A task as one of its runs starts it: perturbed, if the profile says so."""
    return perturbed(task, run, region) if profile.perturb else task


def train_tasks(run: Run, app: str, planner: str = "base") -> list[Task]:
    """The train tasks of a planner: drawn for it, or the run's generated ones, the same for every planner."""
    profile = run.explorer().profile()
    if profile.models.generator:
        from coda_study.generator import load_rounds  # few runs have one

        return [task for round in load_rounds(run.generated(app), app) for task in round.tasks]
    return template_tasks(profile, planner, app)


def template_tasks(profile: Profile, planner: str, app: str) -> list[Task]:
    """The train tasks of a planner: a seeded draw from the train region of the application's task space.

    UserError as of `space.draw`.
    """
    wanted = profile.explore[planner]
    return drawn_tasks(app, wanted.tasks, wanted.grades, stage_seed(profile, "train tasks", planner, app))


def drawn_tasks(app: str, count: int, grades: Mapping[str, float], seed: int) -> list[Task]:
    """A draw from the train region of an application's task space.  UserError as of `space.draw`."""
    return draw(space(app), "train", count, seed, defaults(app), grades)


def held_out_tasks(run: Run, app: str) -> list[Task]:
    """The test tasks that a run evaluates on: all, or a seeded draw in a smaller profile."""
    tasks, count = test_tasks(app), run.profile().test_tasks
    if count is None or count >= len(tasks):
        return tasks
    return random.Random(stage_seed(run.explorer().profile(), "test tasks", app)).sample(tasks, count)


def sealed_tasks(profile: Profile, app: str) -> list[Task]:
    """The sealed tasks of an application, of all grades, if the profile has some.  UserError as of `draw`."""
    if not (wanted := profile.sealed):
        return []
    return draw(space(app), "test", wanted.tasks, wanted.seed, defaults(app))
