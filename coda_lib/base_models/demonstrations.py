"""What the base planner knows of workflows: how-tos in words, and demonstrations by somebody whose attention slips.

They stand for what a large planner has read and seen of an application before anybody trains it on tasks.  None is about what
a test or a train task asks (`own_tasks.lessons`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from PIL import Image

from coda_lib.action import Action
from coda_lib.base_models.hindsight import Hindsight, reached
from coda_lib.base_models.lessons import Lesson, lessons
from coda_lib.base_models.rows import PROMPTS, SIZE, Row, without_pictures
from coda_lib.base_models.walks import Moment, random_step, screenshot
from coda_lib.envs.sciencedesk.env import ScienceDesk
from coda_lib.envs.sciencedesk.script import ScriptError, to_action, to_plan
from coda_lib.explore import Aim
from coda_lib.planner import Observation, Turn, planner_messages
from coda_lib.task import Task
from coda_lib.trajectory import StopReason

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
