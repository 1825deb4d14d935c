"""Demonstrations: what a demonstrator decides who solves a task, and what is right there otherwise."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any

from PySide6.QtWidgets import QLabel

from base_models.asking import what_is
from base_models.hindsight import Hindsight, reached, reworded
from base_models.rows import value_of
from base_models.training_tasks import SampledTask, foreign_names, plain_names
from base_models.walks import (
    Transition,
    Walk,
    opened,
    perform,
    random_step,
    screenshot,
    through_faults,
    window_of,
)
from coda_lib.action import Action
from coda_lib.applications import DESKTOP_APPS
from coda_lib.environment import Environment
from coda_lib.task import Task
from coda_lib.trajectory import StopReason
from sciencedesk.desk.desk import Desk
from sciencedesk.desk.elements import Element
from sciencedesk.desk.widgets import Rows
from sciencedesk.goals import Aim, are_apart, sentence
from sciencedesk.perturb import Guide, draw_view, perturbed
from sciencedesk.script import ScriptError, to_action

Step = Mapping[str, Any]  # of a script
Decision = tuple[str, Step | None, Action]  # an instruction, and what is right under it
INSTEAD = 4  # other instructions at a screen of a demonstration
OTHERWISE = 4  # other values that an application is made to show at the end of a question
_LETTER = 8  # px, at most in the mean
_DRAWN = ("reading",)  # facts that pictures show too
ASKED = 2  # other wordings of a question, and other values that its screen shows


def demonstrate(
    env: Environment, parts: Sequence[Aim], task: Task, rng: Random, slips: float, unsolved: bool = False,
    others: Sequence[SampledTask] = (),
) -> list[Hindsight]:  # fmt: skip
    """The decisions of a demonstrator who solves a task by its script, with a share `slips` of random steps.

    What to do after a random step is among them, the random step is not: a planner that learned those is
    half as often right when it is sampled as when the likeliest plan is taken (measured).

    It starts perturbed as in the train region.  After a slip that the script cannot go on from, the script of
    the present aim starts again.  Where the task is not solved within its step limit there are none, or with
    `unsolved` those until then.  Until its first slip at an aim it also tells what is right `instead` under
    other instructions: some of the `others` whose scripts begin alike, and what is done by then.
    """
    if task.ans:  # another start might ask for another value
        task = replace(task, view=draw_view(task.app, rng, "train"))
    else:
        task = perturbed(task, rng.randrange(2**31), "train")
    env.reset(task)
    guide, desk, answer = Guide(env, task), window_of(env), None
    steps: list[Transition] = []
    slipped: set[int] = set()
    instead: dict[int, list[Decision]] = {}
    for number, aim in enumerate(parts):
        script, clean = list(aim.solution), True
        while script and (aim.goal.ask or not reached(aim, desk.state())):
            if clean and others:
                taken = aim.solution[: len(aim.solution) - len(script)]
                instead[len(steps)] = _instead(guide, desk, parts[:number], taken, others, rng)
                if number and not taken:
                    ended = sentence([reworded(aim, rng) for aim in parts[:number]])
                    instead[len(steps)].append((ended, None, Action.done()))
            slip = rng.random() < slips
            clean = clean and not slip
            need = None if slip else guide.before(script[0])
            step = random_step(desk, rng) if slip else need or script[0]
            try:
                steps.append(perform(desk, step, steps[-1] if steps else None))
            except ScriptError:
                if len(script) == len(aim.solution):
                    return _decisions(task, steps, slipped, instead) if unsolved else []
                script, clean = list(aim.solution), False
                continue
            slipped |= {len(steps) - 1} if slip else set()
            answer = step.get("answer")
            if not slip:
                script = script if need else script[1:]
            elif "type" in script[0]:  # the field to type into may have lost the focus
                script = list(aim.solution)
            if len(steps) >= task.steps:
                return _decisions(task, steps, slipped, instead) if unsolved else []
    if not env.check(StopReason.ANS if answer else StopReason.DONE, answer):
        return []
    if others and not task.ans:
        instead[len(steps)] = _instead(guide, desk, parts, [], others, rng)
    decisions = _decisions(task, steps, slipped, instead)
    if not task.ans:
        end = steps[-1].next_screen if steps else screenshot(desk)
        ended = Hindsight(task.instruction, tuple(steps), end, None, Action.done())
        decisions.append(_with(ended, instead.get(len(steps), ())))
    return decisions


def _decisions(
    task: Task, steps: Walk, slipped: Collection[int], instead: Mapping[int, Sequence[Decision]]
) -> list[Hindsight]:
    decided = (Hindsight(task.instruction, tuple(steps[:i]), t.screen, t.step, t.action)
               for i, t in enumerate(steps))  # fmt: skip
    return [_with(decision, instead.get(i, ())) for i, decision in enumerate(decided) if i not in slipped]


def _with(decision: Hindsight, others: Sequence[Decision]) -> Hindsight:
    found = (replace(decision, instruction=ask, step=step, action=action) for ask, step, action in others)
    return replace(decision, instead=tuple(found))


def _instead(
    guide: Guide, desk: Any, done: Sequence[Aim], taken: Sequence[Step], tasks: Sequence[SampledTask],
    rng: Random,
) -> list[Decision]:  # fmt: skip
    """What is right after the steps `taken` under instructions whose scripts begin with them.

    Half of them ask for what is `done`, too.  Nothing else that they ask for holds: no task starts so.
    """
    alike = [aims for aims, _ in tasks if aims[0].solution[: len(taken)] == taken != aims[0].solution]
    state, decisions = desk.state(), []
    for aims in rng.sample(alike, min(len(alike), INSTEAD)):
        before = done if rng.random() < 0.5 and are_apart([aim.goal for aim in (*done, aims[0])]) else ()
        if any(not aim.goal.ask and reached(aim, state) for aim in aims):
            continue
        step, asked = aims[0].solution[len(taken)], (*before, *aims)[: len(before) + 1 if before else None]
        try:
            step = copy(guide).before(step) or step
            if "answer" not in step:  # that another question has here is not known
                text = sentence([reworded(aim, rng) for aim in asked])
                decisions.append((text, step, to_action(desk, step)))
        except ScriptError:  # what it would click is not there
            continue
    return decisions


def demonstrations(
    app: str, tasks: Sequence[SampledTask], count: int, slips: float, seed: int | str, unsolved: bool = False
) -> list[list[Hindsight]]:
    """Decisions of `count` demonstrations that solved their task (`unsolved`: any); see `through_faults`."""
    rng = Random(f"demonstrations of {app} {seed}")
    with closing(opened(app)) as env:
        others = () if app in DESKTOP_APPS else tasks  # the state of a real one takes long to read
        tried = through_faults(lambda: demonstrate(env, *rng.choice(tasks), rng, slips, unsolved, others))
        return list(islice(filter(None, tried), count))


# -- questions ---------------------------------------------------------------------------------------------


def questions(app: str, tasks: Sequence[SampledTask], count: int, seed: int | str) -> list[Hindsight]:
    """The last decisions at `count` questions, their steps by script, most of them with another answer.

    The application is made to show a value that it did not compute, because a planner that meets each of some
    hundred questions with its own value alone learns the value and not to look (measured: of development
    questions, all before it by script, it answered 0 to 10 % rightly).  None where no task asks.
    """
    rng = Random(f"questions of {app} {seed}")
    asked = [task for task in tasks if task[1].ans]
    found: list[Hindsight] = []
    with closing(opened(app)) as env:
        for _ in range(count if asked else 0):
            parts, task = rng.choice(asked)
            if decisions := demonstrate(env, parts, task, rng, 0.0):
                found += _answers(env.desk, parts, decisions[-1], rng)
    return found


def _answers(desk: Desk, parts: Sequence[Aim], last: Hindsight, rng: Random) -> list[Hindsight]:
    """A question's last decision, and the same where its screen shows other values."""
    answer, found = str((last.step or {})["answer"]), []
    others = [another(desk.app, answer, rng) for _ in range(OTHERWISE)]
    for said in (answer, *(() if parts[-1].goal.fact in _DRAWN else others)):
        with shown_instead(desk, answer, said) as shown:
            if shown:
                elements, here = desk.elements(), replace(last, screen=screenshot(desk))
                values = [(what_is(e), value_of(e), e) for e in elements if value_of(e)]
                shows = [e for e in elements if _whole(said).search(e.text or e.name)] or [None]
                asked = rng.sample(values, min(len(values), ASKED))
                asked += [(sentence([reworded(aim, rng) for aim in parts]), said, rng.choice(shows))
                          for _ in range(1 + ASKED)]  # fmt: skip
                *others, own = (_answered(here, *one) for one in asked)
                found.append(replace(own, instead=tuple(others)))
    return found


def _answered(here: Hindsight, asked: str, answer: str, shows: Element | None) -> Hindsight:
    step, box = {"answer": answer}, None
    if shows:  # a label may be much wider than its text
        x, y, width, height = shows.box
        box = x, y, min(width, _LETTER * len(shows.text or shows.name)), height
    return replace(here, instruction=asked, step=step, action=Action.answer(answer), box=box)


def another(app: str, answer: str, rng: Random) -> str:
    """A value that might be in the place of this one: other digits and signs, or another name."""
    if not any(map(str.isdigit, answer)):
        return rng.choice(plain_names(app) or foreign_names(app))

    def changed(match: re.Match[str]) -> str:
        return rng.choice("0123456789" if match.group().isdigit() else "+-")

    return re.sub(r"\d|(?<=x)[+-]", changed, answer)


@contextmanager
def shown_instead(desk: Desk, shown: str, other: str) -> Iterator[bool]:
    """A text in the place of one that labels or lists show; whether any does, or it is the same."""
    whole = _whole(shown)
    items = [item for rows in desk.findChildren(Rows) if rows.isVisible() for item in rows.items()]
    labels = [label for label in desk.findChildren(QLabel) if label.isVisible()]
    found = [(one, one.text()) for one in (*items, *labels) if whole.search(one.text())]
    for one, text in found:
        one.setText(whole.sub(lambda _: other, text))
    try:
        yield bool(found) or shown == other
    finally:
        for one, text in found:
            one.setText(text)


def _whole(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){re.escape(text)}(?![\w.])")
