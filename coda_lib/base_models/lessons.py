"""Tasks that base models may learn from: they ask what neither a test nor a train task asks, in its words or in others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from coda_lib.envs.sciencedesk.env import desk_class
from coda_lib.explore import Aim, aims, combinations, compose, sentence, train_pool
from coda_lib.task import Task, goal_text, test_tasks


@cache
def _taken(app: str) -> frozenset[str]:
    """Instructions and goals of the test and train tasks, of which base models must know nothing."""
    others = [*test_tasks(app), *train_pool(app, desk_class(app).defaults)]
    return frozenset({task.instruction for task in others} | {task.goal for task in others})


def is_taken(app: str, parts: Sequence[Aim]) -> bool:
    """Whether a test or a train task asks for these aims, in these words or in others."""
    goal = goal_text(app, [item for aim in parts for item in aim.checks])
    return not _taken(app).isdisjoint({sentence(parts), goal})


Lesson = tuple[tuple[Aim, ...], Task]  # a task, and the aims that make it


@cache
def judge_lessons(app: str) -> tuple[Lesson, ...]:
    """Tasks for the judge to learn from: of the same goals, but neither test nor train tasks."""
    rng = random.Random(f"judge tasks of {app}")
    drawn = [*((aim,) for aim in aims(app)), *combinations(app, 2, rng)[:400], *combinations(app, 3, rng)[:120]]
    defaults = desk_class(app).defaults
    tasks = [(parts, compose(app, parts, defaults, f"{app}/judge-{i:03d}")) for i, parts in enumerate(drawn)]
    return tuple((parts, task) for parts, task in tasks if not is_taken(app, parts))


def judge_tasks(app: str) -> list[Task]:
    """The tasks of `judge_lessons`."""
    return [task for _, task in judge_lessons(app)]


@cache
def lessons(app: str) -> tuple[Lesson, ...]:
    """Aims and the tasks that they make, for demonstrations: not one of these aims is asked by a test or train task alone.

    So a planner that has seen how "plot sin(x)" is done has still to find out that "plot tan(x)" goes the same way.
    """
    rng = random.Random(f"lessons of {app}")
    free = [aim for aim in aims(app) if not is_taken(app, [aim])]
    drawn = [*((aim,) for aim in free), *(parts for size in (2, 3) for parts in combinations(app, size, rng))]
    fit = [parts for parts in drawn if all(aim in free for aim in parts) and not is_taken(app, parts)]
    defaults = desk_class(app).defaults
    return tuple((parts, compose(app, parts, defaults, f"{app}/lesson-{i:03d}")) for i, parts in enumerate(fit))


def alike(lesson: Lesson, lessons: Sequence[Lesson]) -> list[Lesson]:
    """Tasks that differ from this one in a value or in one goal: the attempts that are hardest to tell apart."""
    words, others = lesson[1].instruction.split(), [other for other in lessons if other[1].id != lesson[1].id]
    near = [other for other in others if len(other[1].instruction.split()) == len(words)]
    near = [o for o in near if sum(a != b for a, b in zip(words, o[1].instruction.split(), strict=True)) <= 2]
    return near or others
