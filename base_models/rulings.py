"""What a judge that looks is asked about an attempt or a state, and its replies.

A reply says what is wanted, what of it is found, and whether that is the same.  Heads that point are shown
where it is found, in whichever picture; heads that read, where what is wanted stands in the instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from base_models.hindsight import held, reached, reworded, wanted
from base_models.rows import covered, description, texts
from base_models.walks import Walk, by_goal
from coda_lib.judge import Verdict, format_verdict
from coda_lib.models.reading import NOTHING
from sciencedesk.desk.elements import Element
from sciencedesk.goals import Aim, are_apart, sentence
from sciencedesk.space import FEW, space

_MORE = 6  # questions about a state, beside that of an attempt
_SELDOM = 0.1  # share of a walk's states
_EFFECT = 0.25  # share of questions about a choice that no text tells, as far as effects are seen
_STATES = ("on", "off")  # of things that do not say so
_PART = re.compile(r"(?!-,|-$)[^, ][^,]*")  # of what is wanted or found, where that is something
_FOUND = re.compile(r"(?<=\? )([^;?]+)(?= (?:yes|no)(?:;|$))", re.MULTILINE)  # in a reply's line
_WANTED = re.compile(r"(?:^|(?<=; ))(?:no )?([^;?]+)(?=\? )")


@dataclass(frozen=True)
class Part:
    """A part of the screen that a judge is shown: PNG, box (left, top, right, bottom; px), elements."""

    picture: bytes
    box: tuple[int, int, int, int]
    elements: Sequence[Element]


@dataclass(frozen=True)
class Asked:
    """What an attempt is ruled on by, and the judge's reply: what is wanted and found, and the verdict.

    The line 'on? off no; x^2? x^2 yes' puts side by side what is to be compared: a network that gave only
    what holds accepted answers that differ from it (of what it accepted, told what is truly on the screens,
    21 % was right in Algebra).

    Without `whole` the reply ends before the redundant steps: the state at the end does not tell them.
    `read` and `letters` are as of a row: where what is found is seen.
    """

    instruction: str
    reply: str
    success: bool
    whole: bool = True
    read: tuple[tuple[int, int, tuple[int, ...], int], ...] = ()
    letters: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def about(
        cls, instruction: str, compared: Sequence[str], verdict: Verdict, shown: Sequence[Part],
        whole: bool = True,
    ) -> Asked:  # fmt: skip
        """The question with its reply about what is shown."""
        reply = f"{'; '.join(compared)}\n{format_verdict(verdict, details=False)}"
        reply = reply if whole else reply.partition('"Redundant"')[0]
        return cls(instruction, reply, verdict.correct, whole, _read(reply, shown))

    def copied(self, text: str) -> tuple[tuple[int, int, int], ...]:
        """Where what is wanted stands in the end of a prompt, which has the instruction and the answer."""
        line = self.reply.partition("\n")[0]
        return tuple(
            (whole.start(1) + part.start(), first, last - first)
            for whole in _WANTED.finditer(line)
            for part in _PART.finditer(whole[1]) for first, last in _places_of(part.group(), text)
        )  # fmt: skip


def said_of(parts: Sequence[Part]) -> str:
    return " ".join(description(part.elements) for part in parts)


def _read(reply: str, shown: Sequence[Part]) -> tuple[tuple[int, int, tuple[int, ...], int], ...]:
    """Where what a reply's line says is found is seen: in the last of the parts that show it."""
    line, read = reply.partition("\n")[0], []
    said = [(number, part, texts(part.elements)) for number, part in enumerate(shown, -len(shown))]
    for whole in _FOUND.finditer(line):
        for found in (part for part in _PART.finditer(whole[1]) if part.group() not in _STATES):
            word = _word(found.group())
            places = [(covered(element, part.box), number) for number, part, lines in reversed(said)
                      for text, element in lines if word.search(text)][:1]  # fmt: skip
            read += [(whole.start(1) + found.start(), len(found.group()), tuple(tokens), number)
                     for tokens, number in places]  # fmt: skip
    return tuple(read)


def _places_of(text: str, said: str) -> Iterator[tuple[int, int]]:
    """Where a text stands as a word of its own."""
    return (found.span() for found in _word(text).finditer(said))


def _word(text: str) -> re.Pattern[str]:
    """The text as a word of its own: 'x^2' is none of '2*x^2', nor '30' of '30.5', but '08' is of a date."""
    word = re.escape(text)
    alone = rf"(?<![^\s'\"]){word}(?!\.?[^\s.,:;'\"]|:\S)"
    of_date = rf"|{word}(?=-\d\d-\d)|(?<=\d{{4}}-){word}(?=-\d)|(?<=\d{{4}}-\d\d-){word}(?!\d)"
    return re.compile(alone + of_date if text.isdigit() and len(text) > 1 else alone)


class StateQuestions:
    """Draws what else an attempt could have been made at, from how often each aim holds in a walk.

    Yes and no are about equally often the answer to each: otherwise its words would tell the answer, and a
    model would learn not to look (Goyal et al., arXiv 1612.00837).
    """

    def __init__(self, walk: Walk):
        self.space = space(walk[0].app)
        groups = [aims for aims in by_goal(walk[0].app).values() if not aims[0].goal.ask]
        self.aims = [aim for aims in groups for aim in aims]
        sample = walk[:: max(1, len(walk) // 500)]
        self.rates: list[float] = []  # seldom reached values of a goal count alike
        for aims in groups:
            rates = [sum(reached(aim, t.before) for t in sample) / len(sample) for aim in aims]
            seldom = [rate for rate in rates if rate < _SELDOM]
            self.rates += [rate if rate >= _SELDOM else sum(seldom) / len(seldom) for rate in rates]

    def draw(self, state: Mapping[str, Any], parts: Sequence[Part], rng: Random) -> list[Asked]:
        """Up to `_MORE` questions that what is seen of a state answers, three in ten for two things."""
        said = said_of(parts)
        holds, more = [reached(aim, state) for aim in self.aims], {}
        holding = [aim for aim, success in zip(self.aims, holds, strict=True) if success]
        for aim, success, rate in zip(self.aims, holds, self.rates, strict=True):
            if rng.random() * (rate if success else 1 - rate) > min(rate, 1 - rate):
                continue
            aims = [aim]
            others = [other for other in holding if are_apart([aim.goal, other.goal])]
            if others and rng.random() < 0.3:
                pair = rng.sample([aim, rng.choice(others)], 2)
                aims = aims if self.space.is_committed(pair) else pair
            if all(_is_seen(one, state, said) or _is_choice(one) and rng.random() < _EFFECT for one in aims):
                text = sentence([reworded(one, rng) for one in aims])
                verdict = Verdict(success, first_error_step=None if success else 1)
                lines = [comparison(one, wanted(one), state, said, reached(one, state)) for one in aims]
                more[text] = Asked.about(text, lines, verdict, parts, whole=False)
        return rng.sample(list(more.values()), min(len(more), _MORE))


def _is_choice(aim: Aim) -> bool:
    """Whether an aim is one of a few, such as on and off: it may be seen by its effect."""
    return not aim.goal.ask and len(aim.goal.values) < FEW


def _is_seen(aim: Aim, state: Mapping[str, Any], said: str) -> bool:
    """Whether what holds of what an aim is about is said on the screen."""
    parts = [part.group() for part in _PART.finditer(held(aim, state))]
    return bool(parts) and all(part not in _STATES and _said_as(part, said) for part in parts)


def _said_as(part: str, said: str) -> str | None:
    """How it is said, if it is: fields of a date have no zero."""
    return next((way for way in (part, part.lstrip("0")) if way and _word(way).search(said)), None)


def comparison(aim: Aim, asked: str, state: Mapping[str, Any], said: str, success: bool) -> str:
    """What is asked for, what of it holds, as far as that is said, and whether it is the same.

    What of a few choices holds is told in any case: most say it by their effect alone.
    """
    if _is_choice(aim):
        return f"{asked}? {held(aim, state)} {'yes' if success else 'no'}"
    parts = (_said_as(part.group(), said) or NOTHING for part in _PART.finditer(held(aim, state)))
    found = ", ".join(dict.fromkeys(parts)) or NOTHING
    return f"{asked}? {found} {'yes' if success else 'no'}"
