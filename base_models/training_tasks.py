"""Tasks of the train regions that base models learn from: how-tos and values to copy.

A base planner of the paper copies whatever it is asked for.  A tiny one learns that from steps of scripts
under many other names and numbers, or not at all: it writes a name that it knows from training.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from random import Random
from string import ascii_lowercase

from PIL import Image

from base_models.rows import PROMPTS, SIZE, Row, without_pictures
from base_models.walks import (
    names,
)
from coda_lib.applications import APPS, DESKTOP_APPS
from coda_lib.models.chat import Message
from coda_lib.planner import Observation, Turn, planner_messages
from coda_lib.task import Task
from sciencedesk.goals import Aim
from sciencedesk.make import defaults
from sciencedesk.script import to_plan
from sciencedesk.space import aims_of, draw_with_aims, space

SampledTask = tuple[tuple[Aim, ...], Task]  # a task, and the aims that make it

# A real application has fewer tasks of one or two steps (KAlgebra 492 of grade B, GRASS GIS 731 of grade A)
_PLANNER_GRADES = {"A": 0.25, "B": 0.3, "C": 0.27, "D": 0.18}  # shares
_JUDGE_GRADES = {"A": 0.3, "B": 0.35, "C": 0.25, "D": 0.1}
_WORD = re.compile(r"[A-Za-z]{2,}|\d+\b")  # `2D` is no number
_RENAMED = 0.5  # share of the rows with other names, and of those with other numbers
_MANY = 10  # words of a goal's values from which on these are names or texts, not choices of a menu
_OF_THE_APPLICATION = 0.6  # share of the new names that are of the same application


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


# -- how-tos and values to copy ----------------------------------------------------------------------------


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


def value_row(sampled: SampledTask, others: Sequence[str], rng: Random) -> Row | None:
    """A step of a task's script that names what the instruction names, after the steps before it.

    None if no step does, or if under the new names it asks for what belongs to another region.  In half of
    the rows the names of the task's values are others, in half its numbers.  `others` are names of other
    applications; only a single aim gets names of its own application and other numbers, since two aims might
    together be a task to test with.  A question stays as it is: its answer depends on the name.
    """
    parts, task = sampled
    texts, plain = [task.instruction, *map(to_plan, task.solution)], plain_names(task.app)
    values = sorted({value for aim in parts for value in _words(aim.word)} if task.ans is None else ())
    if rng.random() < _RENAMED:
        lowered = {name.lower() for name in plain}
        near = len(parts) == 1 and rng.random() < _OF_THE_APPLICATION
        old, new = [v for v in values if v in lowered], plain if near else others
        texts = _renamed(texts, dict(zip(old, rng.sample(new, len(old)), strict=True)))
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
    return text_row(instruction, plans[:i], plans[i])


@cache
def _open_words(app: str) -> frozenset[str]:
    """Words (in lower case) and numbers of the values of goals that have many: another may stand for each.

    Words that instructions say of all values, such as `list`, are not among them.
    """
    found: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    said = set()
    for aim in aims_of(app, "train"):
        said |= _words(re.sub(r"\{.*?\}", "", aim.text.replace(aim.word, "")))
        for word in _words(aim.word):
            if word.isdigit() or len(word) > 3:
                found[aim.goal.name, word.isdigit()][word] += 1
    many = [words for words in found.values() if len(words) >= _MANY]
    return frozenset(w for words in many for w, n in words.items() if n <= words.total() / 4) - said


def newly_named(row: Row, app: str, rng: Random) -> Row:
    """The row under made-up words and numbers in the place of its instruction's, in its plans as well.

    A screen shows the old ones: what is to be typed or clicked is copied, or is known by heart (measured:
    under an instruction with `keep gel 4` a planner typed `clean lid 9`, which it was taught).  Numbers are
    those of single aims, as in `value_row`; it stays as it is where it would ask for another region's value.
    """
    said = [part["text"] for message in row.messages for part in message["content"] if "text" in part]
    shown = _words(row.reply) if row.reply.startswith("ANS") else set()  # is read off the screen
    instruction = said[-1].partition("\n")[0]
    old = sorted(_words(instruction) & _open_words(app) - shown)
    if " and " in instruction:
        old = [word for word in old if not word.isdigit()]
    new = {word: _number(len(word), rng) if word.isdigit() else _word(rng) for word in old}
    *texts, reply = _renamed([*said, row.reply], new)
    asked = texts[-1].partition("\n")[0].lower()
    if new and any(text in asked for text in _held_out(app)):
        return row
    left = iter(texts)

    def changed(message: Message) -> Message:
        parts = [part | {"text": next(left)} if "text" in part else part for part in message["content"]]
        return message | {"content": parts}

    return replace(row, messages=[changed(message) for message in row.messages], reply=reply)


def _word(rng: Random) -> str:
    return "".join(rng.choices(ascii_lowercase, k=rng.randint(3, 9)))


def _number(digits: int, rng: Random) -> str:
    return str(rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits))


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _renamed(texts: Sequence[str], new: Mapping[str, str]) -> list[str]:
    """The texts with `new` names in the place of old ones (in lower case), in the same case."""

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
    new = {number: _number(len(number), rng) for number in filter(str.isdigit, values)}
    return [re.sub(r"\d+", lambda match: new.get(match.group(), match.group()), text) for text in texts]


@cache
def foreign_names(app: str) -> tuple[str, ...]:
    """Names of the other applications that mean nothing in this one."""
    known = {name.lower() for name in plain_names(app)}
    return tuple(sorted({name for other in APPS for name in plain_names(other) if name.lower() not in known}))
