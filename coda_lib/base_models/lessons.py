"""Tasks that base models learn from, as how-tos and demonstrations; none asks what a test or a train task asks."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache

from PIL import Image

from coda_lib.action import Action
from coda_lib.base_models.hindsight import Hindsight, reached
from coda_lib.base_models.rows import PROMPTS, SIZE, Row, without_pictures
from coda_lib.base_models.walks import perform, random_step
from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class
from coda_lib.envs.sciencedesk.script import ScriptError, to_plan
from coda_lib.explore import Aim, aims, combinations, compose, sentence, train_pool
from coda_lib.planner import Observation, Turn, planner_messages
from coda_lib.task import Task, goal_text, test_tasks
from coda_lib.trajectory import StopReason

Lesson = tuple[tuple[Aim, ...], Task]  # a task, and the aims that make it


@cache
def _taken(app: str) -> frozenset[str]:
    """Instructions and goals of the test and train tasks."""
    tasks = [*test_tasks(app), *train_pool(app, desk_class(app).defaults)]
    return frozenset({task.instruction for task in tasks} | {task.goal for task in tasks})


def is_taken(app: str, parts: Sequence[Aim]) -> bool:
    """Whether a test or a train task asks for these aims, by its instruction or by its goal state."""
    goal = goal_text(app, [item for aim in parts for item in aim.checks])
    return not _taken(app).isdisjoint({sentence(parts), goal})


def make_lessons(app: str, drawn: Iterable[tuple[Aim, ...]], name: str) -> list[Lesson]:
    """The tasks made of these aims, but for those that are taken; `name` is a template of their ids, such as 'judge-{:03d}'."""
    defaults = desk_class(app).defaults
    tasks = ((parts, compose(app, parts, defaults, f"{app}/{name.format(i)}")) for i, parts in enumerate(drawn))
    return [(parts, task) for parts, task in tasks if not is_taken(app, parts)]


@cache
def judge_lessons(app: str) -> list[Lesson]:
    """The judge's tasks."""
    rng = random.Random(f"judge tasks of {app}")
    drawn = [*((aim,) for aim in aims(app)), *combinations(app, 2, rng)[:400], *combinations(app, 3, rng)[:120]]
    return make_lessons(app, drawn, "judge-{:03d}")


def judge_tasks(app: str) -> list[Task]:
    """The tasks of `judge_lessons`."""
    return [task for _, task in judge_lessons(app)]


@cache
def lessons(app: str) -> list[Lesson]:
    """The planner's tasks: no aim of theirs is asked by a test or train task alone.

    A planner that has seen how "plot sin(x)" is done has still to learn that "plot tan(x)" is done the same way.
    """
    rng = random.Random(f"lessons of {app}")
    free = [aim for aim in aims(app) if not is_taken(app, [aim])]
    drawn = [*((aim,) for aim in free), *(parts for size in (2, 3) for parts in combinations(app, size, rng))]
    fit = [parts for parts in drawn if all(aim in free for aim in parts) and not is_taken(app, parts)]
    return make_lessons(app, fit, "lesson-{:03d}")


def draw_lesson(app: str, rng: random.Random) -> Lesson:
    """Half of all lessons have a single aim, a quarter each two and three (where there are any)."""
    single, *several = _by_size(app)
    return rng.choice(single if rng.random() < 0.5 else rng.choice(several or [single]))


@cache
def _by_size(app: str) -> list[list[Lesson]]:
    groups = ([lesson for lesson in lessons(app) if len(lesson[0]) == size] for size in (1, 2, 3))
    return [group for group in groups if group]


def alike(lesson: Lesson, others: Sequence[Lesson]) -> list[Lesson]:
    """The other lessons that differ from this one in a value or in one goal (all others where there are none)."""
    words, others = lesson[1].instruction.split(), [other for other in others if other[1].id != lesson[1].id]

    def is_near(other: Lesson) -> bool:
        theirs = other[1].instruction.split()
        return len(theirs) == len(words) and sum(a != b for a, b in zip(words, theirs, strict=True)) <= 2

    return [other for other in others if is_near(other)] or others


# -- how-tos and demonstrations ------------------------------------------------------------------------------------------


def text_row(instruction: str, past: Sequence[str], plan: str) -> Row:
    """A plan under an instruction, after the plans before it, without a picture."""
    empty = Image.new("RGB", SIZE)
    state = Observation(instruction, tuple(Turn(earlier, "") for earlier in past), empty, empty)
    return without_pictures(Row(planner_messages(state, PROMPTS), plan))


def how_to_row(task: Task, rng: random.Random) -> Row:
    """A step of a task's script, given the steps before it and no picture: the text of a manual."""
    plans = [*map(to_plan, task.solution), *([] if task.ans else ["DONE"])]
    i = rng.randrange(len(plans))
    return text_row(task.instruction, plans[:i], plans[i])


def demonstrate(env: ScienceDesk, parts: Sequence[Aim], task: Task, rng: random.Random, slips: float) -> list[Hindsight]:
    """The decisions of a demonstrator who solves a task by its script, with a share `slips` of random steps.

    After a slip that the script cannot go on from, the script of the present aim starts again.  No decisions where the task is
    not solved within its step limit.
    """
    env.reset(task)
    desk, steps, answer = env.desk, [], None
    for aim in parts:
        script = list(aim.solution)
        while script and (aim.goal.ask or not reached(aim, desk.state())):
            slip = rng.random() < slips
            step = random_step(desk, rng) if slip else script[0]
            try:
                steps.append(perform(desk, step, steps[-1] if steps else None))
            except ScriptError:
                if len(script) == len(aim.solution):
                    return []
                script = list(aim.solution)
                continue
            answer = step.get("answer")
            if not slip:
                script = script[1:]
            elif "type" in script[0]:  # the field to type into may have lost the focus
                script = list(aim.solution)
            if len(steps) >= task.steps:
                return []
    if not env.check(StopReason.ANS if answer else StopReason.DONE, answer):
        return []
    decisions = [Hindsight(task.instruction, tuple(steps[:i]), t.screen, t.step, t.action) for i, t in enumerate(steps)]
    if not task.ans:
        decisions.append(Hindsight(task.instruction, tuple(steps), steps[-1].next_screen, None, Action.done()))
    return decisions


def demonstrations(app: str, count: int, slips: float, seed: int) -> list[list[Hindsight]]:
    """The decisions of `count` demonstrations that solved their task."""
    rng, env, solved = random.Random(f"demonstrations of {app} {seed}"), ScienceDesk(app), []
    while len(solved) < count:
        solved += [decisions] if (decisions := demonstrate(env, *draw_lesson(app, rng), rng, slips)) else []
    env.close()
    return solved
