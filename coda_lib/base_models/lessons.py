"""Tasks that base models may learn from: they ask what neither a test nor a train task asks, in its words or in others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from PIL import Image

from coda_lib.action import Action
from coda_lib.base_models.hindsight import Hindsight, reached
from coda_lib.base_models.rows import PROMPTS, SIZE, Row, without_pictures
from coda_lib.base_models.walks import Moment, random_step, screenshot
from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class
from coda_lib.envs.sciencedesk.script import ScriptError, to_action, to_plan
from coda_lib.explore import Aim, aims, combinations, compose, sentence, train_pool
from coda_lib.planner import Observation, Turn, planner_messages
from coda_lib.task import Task, goal_text, test_tasks
from coda_lib.trajectory import StopReason


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


_UNSEEN = Image.new("RGB", SIZE)  # stands where a how-to has no picture


def how_to_row(task: Task, rng: random.Random) -> Row:
    """The next plan of a task's script, told without a picture: of a workflow as a manual describes it."""
    plans = [*map(to_plan, task.solution), *([] if task.ans else ["DONE"])]
    i = rng.randrange(len(plans))
    state = Observation(task.instruction, tuple(Turn(plan, "") for plan in plans[:i]), _UNSEEN, _UNSEEN)
    return without_pictures(Row(planner_messages(state, PROMPTS), plans[i]))


def demonstrate(env: ScienceDesk, parts: Sequence[Aim], task: Task, rng: random.Random, slips: float) -> list[Hindsight]:
    """The decisions of one who solves a task, but does anything else in a share `slips` of the steps.

    Whoever has lost the way starts again with the aim at hand; who has not solved the task within its limit of steps shows
    nothing.
    """
    env.reset(task)
    desk, moments, answer = env.desk, [], None
    for aim in parts:
        left = list(aim.solution)
        while left and (aim.goal.ask or not reached(aim, desk.state())):
            slipped = rng.random() < slips
            try:
                step = random_step(desk, tuple(desk.elements()), rng) if slipped else left[0]
                action = to_action(desk, step)
            except ScriptError:
                if len(left) == len(aim.solution):
                    return []
                left = list(aim.solution)
                continue
            moments.append(_perform(desk, step, action))
            answer = step.get("answer")
            if not slipped:
                left = left[1:]
            elif "type" in left[0]:  # the field that was to be typed into may have lost the focus
                left = list(aim.solution)
            if len(moments) >= task.steps:
                return []
    if not env.check(StopReason.ANS if answer else StopReason.DONE, answer):
        return []
    return _decisions(task, moments)


def _perform(desk: Any, step: dict[str, Any], action: Action) -> Moment:
    screen, before, elements = screenshot(desk), desk.state(), tuple(desk.elements())
    desk.perform(action)
    return Moment(desk.app, screen, elements, step, to_plan(step), action, before, desk.state(), screenshot(desk), 0)


def _decisions(task: Task, moments: Sequence[Moment]) -> list[Hindsight]:
    found = [
        Hindsight(
            task.instruction, tuple(moments[:i]), moments[max(0, i - 1)].screen, moment.screen, moment.step, moment.action
        )
        for i, moment in enumerate(moments)
    ]  # fmt: skip
    if task.ans:
        return found
    last = moments[-1]
    return [*found, Hindsight(task.instruction, tuple(moments), last.screen, last.next_screen, None, Action.done())]


def demonstrations(app: str, count: int, slips: float, seed: int) -> list[list[Hindsight]]:
    """The decisions of so many demonstrations."""
    rng, env, found = random.Random(f"demonstrations of {app} {seed}"), ScienceDesk(app), []
    while len(found) < count:
        found += [decisions] if (decisions := demonstrate(env, *draw_lesson(app, rng), rng, slips)) else []
    env.close()
    return found


def draw_lesson(app: str, rng: random.Random) -> Lesson:
    """Half of all lessons are about a single aim, a quarter each about two and three (where there are any)."""
    single, *several = _by_size(app)
    return rng.choice(single if rng.random() < 0.5 else rng.choice(several or [single]))


@cache
def _by_size(app: str) -> list[list[Lesson]]:
    sizes = ([lesson for lesson in lessons(app) if len(lesson[0]) == n] for n in (1, 2, 3))
    return [some for some in sizes if some]
