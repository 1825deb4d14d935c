"""Rows that teach a planner to copy: steps of scripts that name what the instruction names.

They come under other names and numbers.  A base planner of the paper copies whatever it is asked for.  A tiny
one learns that from many names, or not at all: it writes a name that it knows from training.  The steps
before are given, and the pictures, if any, are of a random screen: these rows teach no workflow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from random import Random

from base_models.rows import Row
from base_models.text_attempts import names
from base_models.training_tasks import SampledTask, planned_row, planner_tasks, text_row
from base_models.walks import Walk, Walks
from coda_lib.applications import APPS
from coda_lib.trajectory import decode_image
from sciencedesk.script import to_plan
from sciencedesk.space import space

_WORD = re.compile(r"[A-Za-z]{2,}|\d+")
_RENAMED = 0.5  # share of the rows with other names, and of those with other numbers
_OF_THE_APPLICATION = 0.6  # share of the new names that are of the same application


@cache
def plain_names(app: str) -> tuple[str, ...]:
    """The values of an application's goals that are one word of letters; Algebra's are parts of formulas."""
    return tuple(name for name in names(app) if app != "algebra" and re.fullmatch(r"[A-Za-z]{2,}", name))


@cache
def _held_out(app: str) -> tuple[str, ...]:
    """What the aims of the development and test regions ask for, in all their wordings."""
    task_space = space(app)
    texts = set()
    for aim in chain.from_iterable(task_space.aims.values()):
        if task_space.regions[aim.goal.name, aim.word] != "train":
            texts |= {replace(aim, wording=i).text.lower() for i in range(len(aim.goal.wordings))}
    return tuple(texts)


def value_row(sampled: SampledTask, others: Sequence[str], rng: Random, screens: Walk = ()) -> Row | None:
    """A step of a task's script that names what the instruction names, after the steps before it.

    None if no step does, and if under the new names it asks for what belongs to another region than the train
    region.  In half of the rows the names of the task's values are others, in half its numbers, alike in
    instruction and steps.  `others` are names of other applications; only a single aim gets names of its own
    application and other numbers, since two aims might together be a task to test with.  A question stays as
    it is: its answer depends on the name.  With `screens` the row has the pictures before and after a step.
    """
    parts, task = sampled
    texts, plain = [task.instruction, *map(to_plan, task.solution)], plain_names(task.app)
    values = sorted({value for aim in parts for value in _words(aim.word)} if task.ans is None else ())
    if rng.random() < _RENAMED:
        lowered = {name.lower() for name in plain}
        near = len(parts) == 1 and rng.random() < _OF_THE_APPLICATION
        texts = _renamed(texts, [v for v in values if v in lowered], plain if near else others, rng)
    if len(parts) == 1 and rng.random() < _RENAMED:
        texts = _renumbered(texts, values, rng)
    instruction, *plans = texts
    if any(text in instruction.lower() for text in _held_out(task.app)):
        return None
    asked = _words(instruction)
    naming = [i for i, plan in enumerate(plans) if asked & _words(plan.partition("'")[2])]
    if not naming:
        return None
    i = rng.choice(naming)
    if not screens:
        return text_row(instruction, plans[:i], plans[i])
    seen = rng.choice(screens)
    previous, current = decode_image(seen.screen), decode_image(seen.next_screen)
    return planned_row(instruction, plans[:i], plans[i], previous, current)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _renamed(texts: Sequence[str], old: Sequence[str], names: Sequence[str], rng: Random) -> list[str]:
    """The texts with some of these names in the place of the `old` ones (in lower case), in the same case."""
    new = dict(zip(old, rng.sample(names, len(old)), strict=True))

    def other(match: re.Match[str]) -> str:
        word = match.group()
        name = new.get(word.lower())
        if name is None:
            return word
        if word.islower():
            return name.lower()
        return name.upper() if word.isupper() else name[0].upper() + name[1:]

    return [_WORD.sub(other, text) for text in texts]


def _renumbered(texts: Sequence[str], values: Sequence[str], rng: Random) -> list[str]:
    """The texts with other numbers of as many digits in the place of those among the values."""
    new = {}
    for number in filter(str.isdigit, values):
        low = 10 ** (len(number) - 1) if len(number) > 1 else 0
        new[number] = str(rng.randrange(low, 10 ** len(number)))
    return [re.sub(r"\d+", lambda match: new.get(match.group(), match.group()), text) for text in texts]


@cache
def foreign_names(app: str) -> tuple[str, ...]:
    """Names of the other applications that mean nothing in this one."""
    known = {name.lower() for name in plain_names(app)}
    return tuple(sorted({name for other in APPS for name in plain_names(other) if name.lower() not in known}))


def draw_value_row(apps: Sequence[str], rng: Random, walks: Walks = ()) -> Row:
    """A `value_row` of a random task of any of the applications, with pictures if there are `walks` of each."""
    while True:
        i = rng.randrange(len(apps))
        sampled, screens = rng.choice(planner_tasks(apps[i])), walks[i] if walks else ()
        if row := value_row(sampled, foreign_names(apps[i]), rng, screens):
            return row
