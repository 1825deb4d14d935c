"""Rows for a judge that looks: parts of screens to read out, and attempts in words to rule on.

A reader gets some letters wrong, and so do the accounts to learn from; names are compared, not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random

from base_models.accounts import StateQuestions, Told, within
from base_models.rows import PROMPTS, Row, Rows, description
from base_models.walks import Transition, Walk, Walks, names
from coda_lib.models.reading import changed
from coda_lib.prompts import render
from coda_lib.trajectory import decode_image

_LIKE = ("iIl1j|!", "hnb", "oO0QDe", "rf", "uvw", "mn", "cea", "sS5", "zZ2", "gq9", "8B", ",.", ":;", "-~_")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
MISREAD = (0.0, 0.02, 0.06, 0.1)  # share of letters, drawn for each attempt
SCREENS = 4_000  # single screens of an application
_NEAR = 4  # batches of attempts of like length, of which one is drawn


def part_row(step: Transition, following: Transition | None, rng: Random) -> Row:
    """A screen to read out, or the part of the next one that a step of a walk changed."""
    screen, after = decode_image(step.screen), decode_image(step.next_screen)
    box = changed(screen, after) if following and rng.random() < 0.7 else None
    picture, elements = (after.crop(box), following.elements) if box else (screen, step.elements)
    return Row(render(PROMPTS, "reading", picture=picture), within(elements, box))


def part_sampler(walks: Walks) -> Callable[[Random], Row]:
    """Parts of screens to read out, as a judge's reader gets them."""

    def draw(rng: Random) -> Row:
        walk = rng.choice(walks)
        i = rng.randrange(len(walk))
        following = walk[i + 1] if i + 1 < len(walk) and walk[i + 1].walk == walk[i].walk else None
        return part_row(walk[i], following, rng)

    return draw


def ruling_sampler(
    walks: Walks, attempts: Sequence[Sequence[Told]], letters: int
) -> Callable[[Random], list[Rows]]:
    """Attempts in words to rule on, half of them with other names, with letters that a reader confused.

    Half of the batches are single screens of walks, of which there are more.  Those of a batch are of like
    length, and so are their questions, or half of it were padding; they are as many as have some number of
    `letters` together.
    """
    apps, rng = [walk[0].app for walk in walks], Random("single screens")
    alone = [(app, told) for app, walk in zip(apps, walks, strict=True) for told in _screens(walk, rng)]
    played = [(app, told) for app, of_app in zip(apps, attempts, strict=True) for told in of_app]
    pools = [sorted(pool, key=lambda one: one[1].length) for pool in (alone, played) if pool]

    def draw(rng: Random) -> list[Rows]:
        pool = rng.choice(pools)
        at = rng.randrange(len(pool))
        batch = min(len(pool), max(1, letters // pool[at][1].length))
        near = min(len(pool), _NEAR * batch)
        first = min(max(0, at - near // 2), len(pool) - near)
        like = sorted(pool[first : first + near], key=lambda one: one[1].longest)
        first = rng.randrange(near - batch + 1)
        told = [renamed(one, names(app), rng) if rng.random() < 0.5 else one
                for app, one in like[first : first + batch]]  # fmt: skip
        return [misread(one, rng).rows for one in told]

    return draw


def _screens(walk: Walk, rng: Random) -> Iterator[Told]:
    """Screens of a walk as attempts without steps, each with what could be asked."""
    questions = StateQuestions(walk)
    for step in rng.sample(walk, min(len(walk), SCREENS)):
        end = description(step.elements)
        if asked := questions.draw(step.before, end, rng, whole=True):
            yield Told(("DONE",), (), end, None, tuple(asked))


def misread(told: Told, rng: Random) -> Told:
    """The attempt as a reader that confuses letters would tell it."""
    share = rng.choice(MISREAD)

    def letters(text: str) -> Iterator[str]:
        for letter in text:
            if letter.isspace() or rng.random() >= share:
                yield letter
            elif rng.random() < 0.85:  # some are left out
                like = [group for group in _LIKE if letter in group]
                yield rng.choice(rng.choice(like) if like and rng.random() < 0.7 else _LETTERS)

    changes = tuple("".join(letters(change)) for change in told.changes)
    return replace(told, changes=changes, end="".join(letters(told.end)))


def renamed(told: Told, others: tuple[str, ...], rng: Random) -> Told:
    """The attempt with other names, alike in all that is said of it: names are compared, not known."""
    if told.answer is not None:  # the answer depends on the name
        return told
    replies = [question.reply.partition("\n") for question in told.questions]
    asked = [question.instruction for question in told.questions]
    rename = renaming(
        " ".join([*asked, *(held for held, *_ in replies), told.end, *told.plans, *told.changes]), others, rng
    )
    questions = tuple(
        replace(question, instruction=rename(question.instruction), reply=f"{rename(held)}\n{verdict}")
        for question, (held, _, verdict) in zip(told.questions, replies, strict=True)
    )
    plans, changes = (tuple(map(rename, texts)) for texts in (told.plans, told.changes))
    return replace(told, plans=plans, changes=changes, end=rename(told.end), questions=questions)


def renaming(said: str, others: tuple[str, ...], rng: Random) -> Callable[[str], str]:
    """A function that gives the names that are `said` others, alike in all texts, in capitals or not."""
    lowered = tuple(dict.fromkeys(map(str.lower, others)))
    old = sorted({found.lower() for found in _any_of(lowered).findall(said)})
    new = dict(zip(old, rng.sample(lowered, len(old)), strict=True))
    new |= {name: old for old, name in new.items() if name not in new}  # so that no two things get one name

    def other(match: re.Match[str]) -> str:
        word = match.group()
        name = new[word.lower()]
        return name[0].upper() + name[1:] if word[0].isupper() else name

    return lambda text: _any_of(tuple(new)).sub(other, text) if new else text


@lru_cache
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{longest_first})(?!\w)", re.IGNORECASE)
