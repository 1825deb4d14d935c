"""The random draws of a run: one seed for each stage, and the tasks that it explores and evaluates."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence

from coda_lib.config import Profile
from coda_lib.judge import Rule
from coda_lib.task import Task, test_tasks
from coda_lib.trajectory import trajectory_rows
from coda_study.run import Run, explorers
from sciencedesk.goals import Aim
from sciencedesk.knowledge import kinds_of
from sciencedesk.make import defaults
from sciencedesk.perturb import perturbed
from sciencedesk.space import Weights, draw, draw_with_aims, space

LEAST = 0.1  # weight that each goal has at least, where one that succeeds half of the time has 1.1
Drawn = tuple[tuple[Aim, ...], Task]


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
    """The train tasks of a planner: drawn for it, or the run's generated ones, the same for every planner.

    Those of later rounds are drawn by what the judge said of earlier ones (`learnable`).
    """
    profile = run.explorer().profile()
    if profile.models.generator:
        from coda_study.generator import load_rounds  # few runs have one

        return [task for round in load_rounds(run.generated(app), app) for task in round.tasks]
    return [task for _, task in _drawn(run, app, planner)]


def _drawn(run: Run, app: str, planner: str) -> list[Drawn]:
    """The train tasks of a planner with their aims."""
    profile, rule, tried = run.explorer().profile(), Rule.of(run.profile().judge), []
    for name in explorers(profile, planner):
        goals = {task.id: [aim.goal.name for aim in parts] for parts, task in _drawn(run, app, name)}
        for attempt in trajectory_rows(run.judged(name, app), ["task_id", "verdicts"]):
            accepted = rule.outcome(attempt["verdicts"]).success
            tried += [(goal, accepted) for goal in goals[attempt["task_id"]]]
    return template_draw(profile, planner, app, learnable(tried))


def template_tasks(profile: Profile, planner: str, app: str) -> list[Task]:
    """The train tasks of a planner whose goals nobody has tried: `template_draw`."""
    return [task for _, task in template_draw(profile, planner, app, {})]


def template_draw(profile: Profile, planner: str, app: str, weights: Weights) -> list[Drawn]:
    """A seeded draw from the train region of an application's task space, by weights of its goals.

    Goals that the profile's split of knowledge keeps from exploration are left out.  UserError as of
    `space.draw`.
    """
    wanted = profile.explore[planner]
    if profile.knowledge:
        kinds = kinds_of(app, profile.knowledge)
        weights = {**weights, **{goal: 0.0 for goal, kind in kinds.items() if kind == "unexplored"}}
    seed = stage_seed(profile, "train tasks", planner, app)
    return draw_with_aims(space(app), "train", wanted.tasks, seed, defaults(app), wanted.grades, weights)


def learnable(tried: Sequence[tuple[str, bool]]) -> dict[str, float]:
    """Weights of goals, each `tried` with success or not: p (1 - p) of its success, and a little more.

    What always succeeds has nothing to teach, and what never does has not begun to (sampling for
    learnability, arXiv 2408.15099).  A success is added and a failure, so that what was hardly tried counts.
    """
    counts, successes = (
        Counter(goal for goal, _ in tried),
        Counter(goal for goal, success in tried if success),
    )
    shares = {goal: (successes[goal] + 1) / (count + 2) for goal, count in counts.items()}
    return {goal: LEAST + 4 * share * (1 - share) for goal, share in shares.items()}


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
