"""Attempts told in words: without pictures a judge learns in minutes what steps amount to, and to rule.

They are of tasks of the judge's own, by somebody whose attention slips, who may do another task or stop anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from coda_lib.action import ActionType
from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class
from coda_lib.envs.sciencedesk.script import ScriptError, to_action, to_plan
from coda_lib.envs.sciencedesk.walk import random_step
from coda_lib.explore import aims, combinations, compose
from coda_lib.judge_cases import NOTHING, Case, Question, needless, whole_reply
from coda_lib.judge_rows import alike
from coda_lib.own_tasks import Lesson, is_taken
from coda_lib.trajectory import StopReason
from coda_lib.verdict import Verdict

SLIPS = (0.0, 0.15, 0.3, 0.5)  # share of steps that are anything else, drawn anew for each attempt
FAILED = 0.65  # share of the failed attempts that are kept, so that about as many succeed as fail


def told_lessons(app: str) -> dict[int, list[Lesson]]:
    """Tasks by their number of aims, none of which a test or train task asks for in these words or others."""
    rng, defaults = random.Random(f"told lessons of {app}"), desk_class(app).defaults
    drawn = [*((aim,) for aim in aims(app)), *combinations(app, 2, rng)[:3000], *combinations(app, 3, rng)[:400]]
    found: dict[int, list[Lesson]] = {1: [], 2: [], 3: []}
    for i, parts in enumerate(drawn):
        if not is_taken(app, parts):
            found[len(parts)].append((parts, compose(app, parts, defaults, f"{app}/told-{i:04d}")))
    return found


def told_attempts(app: str, count: int, seed: int) -> list[Case]:
    """So many attempts without pictures: a third at single aims, half at two, the rest at three."""
    env, rng, lessons = ScienceDesk(app), random.Random(f"told attempts {app} {seed}"), told_lessons(app)
    found: list[Case] = []
    while len(found) < count:
        (size,) = rng.choices([1, 2, 3], [0.35, 0.55, 0.1])
        some = lessons[size] or lessons[2]
        case, success = attempt(env, rng.choice(some), some, rng)
        if success or rng.random() < FAILED:
            found.append(case)
    env.close()
    return found


def attempt(env: ScienceDesk, lesson: Lesson, lessons: Sequence[Lesson], rng: random.Random) -> tuple[Case, bool]:
    """One attempt and whether it solved the task; one in four does the script of a task that looks like it."""
    parts, task = lesson
    script: list[dict[str, Any]] = [dict(step) for step in task.solution]
    doing = script if rng.random() < 0.75 else [dict(step) for step in rng.choice(alike(lesson, lessons))[1].solution]
    if rng.random() < 0.1:  # once more, which undoes what a toggle did
        doing = [*doing, *doing]
    slips, gives_up, left = rng.choice(SLIPS), rng.random() < 0.25, list(doing)
    env.reset(task)
    desk, plans, steps, answer = env.desk, [], [], None
    screen = desk.screenshot().tobytes()
    while left and len(plans) < task.steps and not (gives_up and rng.random() < 0.3):
        slipped = rng.random() < slips
        try:
            step = random_step(desk, tuple(desk.elements()), rng) if slipped else left[0]
            action = to_action(desk, step)
        except ScriptError:  # a slip has taken away what this step needs: start again, or stop
            if rng.random() < 0.5:
                break
            slips, left = slips + 0.2, list(doing)
            continue
        if action.type is ActionType.ANS:
            answer = action.text
            break
        desk.perform(action)
        before, screen = screen, desk.screenshot().tobytes()
        plans.append(to_plan(step))
        steps.append(plans[-1] if screen != before else NOTHING)
        if not slipped or rng.random() < 0.3:
            left = left[1:]
    success = env.check(StopReason.DONE if answer is None else StopReason.ANS, answer)
    reply = whole_reply(parts, desk.state(), steps, _ruling(plans, [to_plan(step) for step in script], success))
    plans.append("DONE" if answer is None else f"ANS {answer}")
    return Case((b"",) * len(plans), (Question(task.instruction, answer, reply),), tuple(plans)), success


def _ruling(plans: Sequence[str], script: Sequence[str], success: bool) -> Verdict:
    other = [i for i, plan in enumerate(plans, 1) if plan not in script]
    if success:
        return Verdict(True, needless(plans, script))
    return Verdict(False, tuple(other), (other or [len(plans) + 1])[0])
