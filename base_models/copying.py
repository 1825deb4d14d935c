"""Rows that teach a planner to copy: steps of scripts that name what the instruction names, under other names
and numbers.

A base planner of the paper copies whatever it is asked for.  A tiny one learns that from many names, or not
at all: it writes a name that it knows from training.  The steps before are given, and the pictures, if any,
are of a random screen: these rows teach no workflow.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from base_models.rows import Row
from base_models.text_attempts import names
from base_models.training_tasks import Lesson, lessons, planned_row, text_row
from base_models.walks import Transition
from coda_lib.applications import APPS
from coda_lib.trajectory import decode_image
from sciencedesk.script import to_plan
from sciencedesk.space import space

_WORD = re.compile(r"[A-Za-z]{2,}|\d+")
_RENAMED = 0.5  # share of the rows with other names, and of those with other numbers
_OF_THE_APPLICATION = 0.6  # share of the new names that are of the same application


@cache
def plain_names(app: str) -> tuple[str, ...]:
    """The values of an application's goals that are one word of letters; not Algebra's formulas."""
    return (
        tuple(name for name in names(app) if re.fullmatch(r"[A-Za-z]{2,}", name)) if app != "algebra" else ()
    )


@cache
def _held_out(app: str) -> tuple[str, ...]:
    """What the aims of the development and test regions ask for, in all their wordings."""
    task_space = space(app)
    aims = (
        aim
        for of_goal in task_space.aims.values()
        for aim in of_goal
        if task_space.regions[aim.goal.name, aim.word] != "train"
    )
    return tuple(
        {replace(aim, wording=i).text.lower() for aim in aims for i in range(len(aim.goal.wordings))}
    )


def value_row(
    lesson: Lesson, others: Sequence[str], rng: random.Random, screens: Sequence[Transition] = ()
) -> Row | None:
    """A step of a task's script that names what the instruction names, after the steps before it; None if no
    step does, and if under the new names it asks for what belongs to another region than the train region.

    In half of the rows the names of the task's values are others, in half its numbers, alike in instruction
    and steps.  `others` are names of other applications; only a single aim gets names of its own application
    and other numbers, since two aims might together be a task to test with.  A question stays as it is: its
    answer depends on the name.  With `screens` the row has the pictures before and after one of these steps.
    """
    parts, task = lesson
    texts = [task.instruction, *map(to_plan, task.solution)]
    own = sorted(
        {word.lower() for aim in parts for word in _WORD.findall(aim.word)} if task.ans is None else ()
    )
    if rng.random() < _RENAMED:
        known = [word for word in own if word in {name.lower() for name in plain_names(task.app)}]
        near = len(parts) == 1 and rng.random() < _OF_THE_APPLICATION
        texts = _renamed(texts, known, plain_names(task.app) if near else others, rng)
    if len(parts) == 1 and rng.random() < _RENAMED:
        texts = _renumbered(texts, own, rng)
    instruction, *plans = texts
    if any(text in instruction.lower() for text in _held_out(task.app)):
        return None
    asked = {word.lower() for word in _WORD.findall(instruction)}
    naming = [
        i
        for i, plan in enumerate(plans)
        if any(w.lower() in asked for w in _WORD.findall(plan.partition("'")[2]))
    ]
    if not naming:
        return None
    i = rng.choice(naming)
    if not screens:
        return text_row(instruction, plans[:i], plans[i])
    seen = rng.choice(screens)
    return planned_row(
        instruction, plans[:i], plans[i], decode_image(seen.screen), decode_image(seen.next_screen)
    )


def _renamed(texts: Sequence[str], old: Sequence[str], names: Sequence[str], rng: random.Random) -> list[str]:
    """The texts with some of these names in the place of the `old` ones (in lower case), in the same case."""
    new = dict(zip(old, rng.sample(names, len(old)), strict=True))

    def other(match: re.Match[str]) -> str:
        word = match.group()
        name = new.get(word.lower())
        if name is None:
            return word
        return (
            name.lower() if word.islower() else name.upper() if word.isupper() else name[0].upper() + name[1:]
        )

    return [_WORD.sub(other, text) for text in texts]


def _renumbered(texts: Sequence[str], own: Sequence[str], rng: random.Random) -> list[str]:
    """The texts with other numbers of as many digits in the place of their `own`."""
    new = {}
    for number in (word for word in own if word.isdigit()):
        low = 10 ** (len(number) - 1) if len(number) > 1 else 0
        new[number] = str(rng.randrange(low, 10 ** len(number)))
    return [re.sub(r"\d+", lambda match: new.get(match.group(), match.group()), text) for text in texts]


@cache
def foreign_names(app: str) -> tuple[str, ...]:
    """Names of the other applications that mean nothing in this one."""
    own = {name.lower() for name in plain_names(app)}
    return tuple(sorted({name for other in APPS for name in plain_names(other) if name.lower() not in own}))


def draw_value_row(
    apps: Sequence[str], rng: random.Random, walks: Sequence[Sequence[Transition]] = ()
) -> Row:
    """A `value_row` of a random task of any application, with pictures if it has a walk."""
    while True:
        i = rng.randrange(len(apps))
        row = value_row(rng.choice(lessons(apps[i])), foreign_names(apps[i]), rng, walks[i] if walks else ())
        if row is not None:
            return row
