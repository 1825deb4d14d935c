"""Tasks that base models learn from, as how-tos and demonstrations, drawn from the train regions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import cache
from itertools import islice
from random import Random

from PIL import Image

from base_models.hindsight import Hindsight, reached
from base_models.rows import PROMPTS, SIZE, Row, without_pictures
from base_models.walks import Walk, perform, random_step, screenshot
from base_models.windows import opened, through_faults, window_of
from coda_lib.action import Action
from coda_lib.applications import DESKTOP_APPS
from coda_lib.environment import Environment
from coda_lib.planner import Observation, Turn, planner_messages
from coda_lib.task import Task
from coda_lib.trajectory import StopReason
from sciencedesk.goals import Aim
from sciencedesk.make import defaults
from sciencedesk.script import ScriptError, to_plan
from sciencedesk.space import draw_with_aims, space

SampledTask = tuple[tuple[Aim, ...], Task]  # a task, and the aims that make it

# A real application has fewer tasks of one or two steps (KAlgebra 492 of grade B, GRASS GIS 731 of grade A)
_PLANNER_GRADES = {"A": 0.25, "B": 0.3, "C": 0.27, "D": 0.18}  # shares
_JUDGE_GRADES = {"A": 0.3, "B": 0.35, "C": 0.25, "D": 0.1}


@cache
def planner_tasks(app: str) -> tuple[SampledTask, ...]:
    """The tasks that the planner learns from."""
    return _sampled(app, "train", 1_600 if app in DESKTOP_APPS else 3_000, 0, _PLANNER_GRADES)


@cache
def judge_tasks(app: str) -> tuple[SampledTask, ...]:
    """The tasks that the judge learns from."""
    return _sampled(app, "train", 1_200 if app in DESKTOP_APPS else 1_500, 1, _JUDGE_GRADES)


@cache
def development_tasks(app: str) -> tuple[SampledTask, ...]:
    """Tasks of the development region, for the figures of the cards."""
    return _sampled(app, "development", 200, 2, _PLANNER_GRADES)


def _sampled(app: str, region: str, count: int, seed: int, mix: dict[str, float]) -> tuple[SampledTask, ...]:
    return tuple(draw_with_aims(space(app), region, count, seed, defaults(app), mix))


def similar_tasks(sampled: SampledTask, others: Sequence[SampledTask]) -> list[SampledTask]:
    """The other tasks that differ from this one in a value or in one goal (all others where none does)."""
    words = sampled[1].instruction.split()
    others = [other for other in others if other[1].id != sampled[1].id]

    def is_near(other: SampledTask) -> bool:
        theirs = other[1].instruction.split()
        return len(theirs) == len(words) and sum(a != b for a, b in zip(words, theirs, strict=True)) <= 2

    return [other for other in others if is_near(other)] or others


# -- how-tos and demonstrations ----------------------------------------------------------------------------


def text_row(instruction: str, past: Sequence[str], plan: str) -> Row:
    """A plan under an instruction, after the plans before it, without a picture."""
    empty = Image.new("RGB", SIZE)
    return without_pictures(planned_row(instruction, past, plan, empty, empty))


def planned_row(
    instruction: str, past: Sequence[str], plan: str, previous: Image.Image, current: Image.Image
) -> Row:
    """A plan under an instruction, after the plans before it, with the pictures of two screens."""
    state = Observation(instruction, tuple(Turn(earlier, "") for earlier in past), previous, current)
    return Row(planner_messages(state, PROMPTS), plan)


def how_to_row(task: Task, rng: Random) -> Row:
    """A step of a task's script, given the steps before it and no picture: the text of a manual."""
    plans = [*map(to_plan, task.solution), *([] if task.ans else ["DONE"])]
    i = rng.randrange(len(plans))
    return text_row(task.instruction, plans[:i], plans[i])


def demonstrate(
    env: Environment, parts: Sequence[Aim], task: Task, rng: Random, slips: float, unsolved: bool = False
) -> list[Hindsight]:
    """The decisions of a demonstrator who solves a task by its script, with a share `slips` of random steps.

    After a slip that the script cannot go on from, the script of the present aim starts again.  Where the
    task is not solved within its step limit there are none, or with `unsolved` those until then.
    """
    env.reset(task)
    desk, steps, answer = window_of(env), [], None
    for aim in parts:
        script = list(aim.solution)
        while script and (aim.goal.ask or not reached(aim, desk.state())):
            slip = rng.random() < slips
            step = random_step(desk, rng) if slip else script[0]
            try:
                steps.append(perform(desk, step, steps[-1] if steps else None))
            except ScriptError:
                if len(script) == len(aim.solution):
                    return _decisions(task, steps) if unsolved else []
                script = list(aim.solution)
                continue
            answer = step.get("answer")
            if not slip:
                script = script[1:]
            elif "type" in script[0]:  # the field to type into may have lost the focus
                script = list(aim.solution)
            if len(steps) >= task.steps:
                return _decisions(task, steps) if unsolved else []
    if not env.check(StopReason.ANS if answer else StopReason.DONE, answer):
        return []
    decisions = _decisions(task, steps)
    if not task.ans:
        end = steps[-1].next_screen if steps else screenshot(desk)
        decisions.append(Hindsight(task.instruction, tuple(steps), end, None, Action.done()))
    return decisions


def _decisions(task: Task, steps: Walk) -> list[Hindsight]:
    ask = task.instruction
    return [Hindsight(ask, tuple(steps[:i]), t.screen, t.step, t.action) for i, t in enumerate(steps)]


def demonstrations(
    app: str, count: int, slips: float, seed: int | str, unsolved: bool = False
) -> list[list[Hindsight]]:
    """The decisions of `count` demonstrations that solved their task, or any.  Faults as in `through_faults`."""
    rng, tasks = Random(f"demonstrations of {app} {seed}"), planner_tasks(app)
    with closing(opened(app)) as env:
        tried = through_faults(lambda: demonstrate(env, *rng.choice(tasks), rng, slips, unsolved))
        return list(islice(filter(None, tried), count))
