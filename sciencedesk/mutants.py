"""Mutants: scripts that are nearly right, to find checks that pass what they should not.

A mutant leaves out a step of a task's script, exchanges two steps, takes a value beside the right one, or
types or answers a number that is off by one unit of its last digit.  It must fail the task's check, unless it
ends in the very state of the script, answers a question rightly by what it sees at its end, or
data/tasks/mutants.yaml says why it is right.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from coda_lib.environment import Environment
from coda_lib.files import read_yaml
from coda_lib.paths import DATA
from coda_lib.task import Task, test_tasks
from coda_lib.trajectory import StopReason
from sciencedesk.content import readings
from sciencedesk.goals import Aim, aims
from sciencedesk.make import defaults
from sciencedesk.script import ScriptError, action_of, find
from sciencedesk.space import REGIONS, draw_with_aims, has_space, space

SAME = "ends in the state of the script"
SEEN = "sees the right answer at its end"
KINDS = ("left out", "exchanged", "neighbour", "unit")
_NUMBER = re.compile(r"\d+(\.\d+)?(?!.*\d)", re.DOTALL)  # the last one
_PORTION = 20  # tasks of a draw
Step = Mapping[str, Any]


@dataclass(frozen=True)
class Mutant:
    kind: str  # of KINDS
    change: str  # in words
    steps: tuple[Step, ...]
    looks: bool  # whether a question is answered by what the application shows, whatever the script says


@dataclass(frozen=True)
class Survivor:
    """A mutant that passes its check, and what is other in its end state; `reason` says why it is right."""

    task: Task
    mutant: Mutant
    differs: frozenset[str]  # keys of the state
    reason: str | None


def tasks_and_aims(app: str) -> Iterator[tuple[Sequence[Aim], Task]]:
    """The committed test tasks, and then tasks drawn from the regions in turn, without end."""
    yield from ((parts_of(task), task) for task in test_tasks(app))
    for seed in itertools.count() if has_space(app) else ():
        for region in REGIONS:
            yield from draw_with_aims(space(app), region, _PORTION, seed, defaults(app))


def parts_of(task: Task) -> list[Aim]:
    """The aims of data/tasks/seeds that a committed task was made of; none of a task written by hand."""
    known = {aim.text: aim for aim in aims(task.app)}
    found = (parts for parts in readings(task.instruction, known) if _script(parts) == task.solution)
    return next(found, [])


def _script(parts: Sequence[Aim]) -> tuple[Step, ...]:
    return tuple(step for aim in parts for step in aim.solution)


def mutants(task: Task, parts: Sequence[Aim]) -> Iterator[Mutant]:
    """The mutants of a task that is made of these aims."""
    steps = task.solution
    for i, step in enumerate(steps):
        yield Mutant(KINDS[0], f"without {dict(step)}", steps[:i] + steps[i + 1 :], "answer" not in step)
    for i, (step, other) in enumerate(zip(steps, steps[1:], strict=False)):
        if step != other and "answer" not in other:
            exchanged = (*steps[:i], other, step, *steps[i + 2 :])
            yield Mutant(KINDS[1], f"{dict(other)} before {dict(step)}", exchanged, True)
    for i, aim in enumerate(parts):
        others = [Aim(aim.goal, word) for word in aim.goal.values]
        at = next(place for place, other in enumerate(others) if other.word == aim.word)
        for other in {at - 1, (at + 1) % len(others)}:
            script = _script([*parts[:i], others[other], *parts[i + 1 :]])
            if others[other].checks != aim.checks and script != steps:  # a switch has one script
                yield Mutant(KINDS[2], f"{others[other].text!r} for {aim.text!r}", script, False)
    for i, step in enumerate(steps):
        for kind in step.keys() & {"type", "answer"}:
            for text in _off_by_one(str(step[kind])):
                changed = (*steps[:i], {kind: text}, *steps[i + 1 :])
                yield Mutant(KINDS[3], f"{kind} {text!r} for {dict(step)}", changed, kind == "type")


def _off_by_one(text: str) -> list[str]:
    """The text with its last number a unit of the last digit smaller and greater; none of a text without.

    >>> _off_by_one("1.09 A"), _off_by_one("0"), _off_by_one("Ash")
    (['1.08 A', '1.10 A'], ['1'], [])
    """
    if not (found := _NUMBER.search(text)):
        return []
    number = Decimal(found.group())
    unit = Decimal(1).scaleb(int(number.as_tuple().exponent))
    others = [str(other).zfill(len(found.group())) for other in (number - unit, number + unit) if other >= 0]
    return [text[: found.start()] + other + text[found.end() :] for other in others]


def survivors(env: Environment, task: Task, parts: Sequence[Aim]) -> tuple[int, list[Survivor]]:
    """Play all mutants of a task: their number, and those that pass its check."""
    fact = parts[-1].goal.fact if parts and task.ans else None
    tried, passed = 0, []
    right, answer, _ = _play(env, task, task.solution)
    for mutant in mutants(task, parts):
        tried += 1
        looked = fact if mutant.looks else None
        state, given, solved = _play(env, task, mutant.steps, looked, right.get("tab"))
        if solved:
            differs = frozenset(key for key in right if state[key] != right[key])
            reason = SAME if not differs else SEEN if looked else _listed(task, parts, mutant, differs)
            passed.append(Survivor(task, mutant, differs, reason if given == answer else None))
    return tried, passed


def _play(
    env: Environment, task: Task, steps: Sequence[Step], fact: str | None = None, page: str | None = None
) -> tuple[Mapping[str, Any], str | None, bool]:
    """The end state of a script, its answer, and the verdict on them.

    A step on what is not on the screen does nothing.  With `fact` the answer is what the application shows on
    `page`; on another one nobody sees it.
    """
    _, info = env.reset(task)
    answer = None
    for step in steps:
        try:
            action = action_of(step, lambda name: find(env.elements(), name).center)
        except ScriptError:
            continue
        *_, info = env.step(action)
        answer = step.get("answer", answer)
    if answer is not None and fact:
        answer = str(info["state"][fact]) if info["state"].get("tab") == page else ""
    stop = StopReason.DONE if answer is None else StopReason.ANS
    return info["state"], answer, bool(env.check(stop, answer))


@cache
def _known() -> list[Mapping[str, Any]]:
    return read_yaml(DATA / "tasks" / "mutants.yaml")


def _listed(task: Task, parts: Sequence[Aim], mutant: Mutant, differs: frozenset[str]) -> str | None:
    """Why a survivor is right, as a row of the file says it."""
    goals = {aim.goal.name for aim in parts}
    for row in _known():
        if mutant.kind in row["kinds"] and differs <= {*row["differs"]} and row["app"] == task.app:
            if goals & {*row["goals"]}:
                return row["reason"]
    return None
