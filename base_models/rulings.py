"""Rows for a judge that looks: parts of screens to read out, and attempts in words to rule on.

A reader gets some letters wrong, and so do the accounts to learn from; names are compared, not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from random import Random

from PIL import Image

from base_models.accounts import StateQuestions, Told, derived, elements_in, found_as, places_of
from base_models.packing import TOKEN
from base_models.rows import PROMPTS, Row, Rows, covered, description, texts, value_of
from base_models.seeing import draw_size
from base_models.synthetic_screens import draw_crop
from base_models.walks import Transition, Walk, Walks, by_goal
from coda_lib.models.reading import NOTHING, changed
from coda_lib.prompts import render
from coda_lib.trajectory import decode_image
from sciencedesk.space import FEW

_LIKE = ("iIl1j|!", "hnb", "oO0QDe", "rf", "uvw", "mn", "cea", "sS5", "zZ2", "gq9", "8B", ",.", ":;", "-~_")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
MISREAD = (0.0, 0.0, 0.01, 0.03)  # share of letters, drawn for each attempt
_NAMES = tuple(map(re.compile, (r"-?\d+", r"-?\d+\.\d+", r"[a-z]+", r"[^ ]*")))  # kinds of them
INVENTED, LINES = 0.7, 12  # share of a page's names, and names of it that are read out
SCREENS = 4_000  # single screens of an application
_NEAR = 4  # batches of attempts of like length, of which one is drawn


def part_row(step: Transition, following: Transition | None, rng: Random) -> Row:
    """A screen to read out, or the part of the next one that a step of a walk changed.

    With where each text is: without that a network spelled what was not there (of unseen parts it read 43 %
    exactly after 3,000 steps).
    """
    screen, after = decode_image(step.screen), decode_image(step.next_screen)
    box = changed(screen, after) if following and rng.random() < 0.7 else None
    picture, elements = (after.crop(box), following.elements) if box else (screen, step.elements)
    begin, read = 0, []
    for text, element in texts(elements := elements_in(elements, box)):
        read.append((begin, len(text), covered(element, box or (0, 0, *screen.size)), -1))
        begin += len(text) + len(". ")
    return Row(render(PROMPTS, "reading", picture=picture), description(elements), read=tuple(read))


def page_rows(names: Sequence[str], rng: Random) -> list[Row]:
    """Pages of names to read out, line by line, most of which mean nothing: what is read is not guessed.

    With each letter's place, and of a long page the first names alone.
    """
    size, count = draw_size(rng)
    return [_page_row(names, size, rng) for _ in range(count)]


def _page_row(names: Sequence[str], size: tuple[int, int], rng: Random) -> Row:
    pixels, elements, letters = draw_crop(names, rng, INVENTED, size)
    shown, begin, across = [], 0, size[0] // TOKEN
    for element in elements:
        text = element.text if value_of(element) else element.name
        places = letters[begin : begin + len(text)]
        begin += len(text)
        if all(0 <= x < size[0] and 0 <= y < size[1] for x, y, _ in places):
            tokens = [int(y // TOKEN) * across + int(x // TOKEN) for x, y, _ in places]
            shown.append((int(places[0][1] // TOKEN), places[0][0], text, tokens))
    reply, read, spelled = "", [], []
    for *_, text, tokens in sorted(shown)[:LINES]:
        read.append((len(reply), len(text), sorted({*tokens}), -1))
        spelled += [(len(reply) + i, token) for i, token in enumerate(tokens)]
        reply += f"{text}. "
    picture, is_whole = Image.fromarray(pixels), len(shown) <= LINES
    messages = render(PROMPTS, "reading", picture=picture)
    return Row(messages, reply.rstrip(), is_whole, read=tuple(read), letters=tuple(spelled))


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
        told = [renamed(one, single_names(app), rng) if rng.random() < 0.5 else one
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
    """The attempt as a reader that confuses letters would tell it; what is found is copied as it was read."""
    share = rng.choice(MISREAD)

    def as_read(letter: str) -> str:
        if letter.isspace() or rng.random() >= share:
            return letter
        if rng.random() >= 0.85:  # some are left out
            return ""
        like = [group for group in _LIKE if letter in group]
        return rng.choice(rng.choice(like) if like and rng.random() < 0.7 else _LETTERS)

    texts = (*told.changes, told.end)
    letters = [[*map(as_read, text)] for text in texts]

    def last(part: str) -> str:
        for text, read in zip(reversed(texts), reversed(letters), strict=True):
            if places := [*places_of(part, text)]:
                return "".join(read[slice(*places[-1])]) or NOTHING
        return part

    *changes, end = map("".join, letters)
    questions = tuple(replace(one, reply=found_as(one.reply, last)) for one in told.questions)
    return replace(told, changes=tuple(changes), end=end, questions=questions)


def renamed(told: Told, others: tuple[str, ...], rng: Random) -> Told:
    """The attempt with other names, alike in all that is said of it: names are compared, not known.

    What is wanted and stands in no instruction, such as a derivative, keeps its name.
    """
    if told.answer is not None:  # the answer depends on the name
        return told
    replies = [question.reply.partition("\n") for question in told.questions]
    asked = [question.instruction for question in told.questions]
    said = " ".join([*asked, *(compared for compared, *_ in replies), told.end, *told.plans, *told.changes])
    kept = {name for question in told.questions for name in derived(question)}
    rename = renaming(said, tuple(name for name in others if name.lower() not in kept), rng)
    questions = tuple(
        replace(question, instruction=rename(question.instruction), reply=f"{rename(compared)}\n{verdict}")
        for question, (compared, _, verdict) in zip(told.questions, replies, strict=True)
    )
    plans, changes = (tuple(map(rename, texts)) for texts in (told.plans, told.changes))
    return replace(told, plans=plans, changes=changes, end=rename(told.end), questions=questions)


def renaming(said: str, others: tuple[str, ...], rng: Random) -> Callable[[str], str]:
    """A function that gives the names that are `said` others of their kind, alike in all texts."""
    lowered = tuple(dict.fromkeys(map(str.lower, others)))
    old = sorted({found.lower() for found in _any_of(lowered).findall(said)})
    new: dict[str, str] = {}
    for kind in sorted({*map(_kind, old)}):
        of_kind, free = ([name for name in names if _kind(name) == kind] for names in (old, lowered))
        new |= zip(of_kind, rng.sample(free, len(of_kind)), strict=True)
    new |= {name: old for old, name in new.items() if name not in new}  # so that no two things get one name

    def other(match: re.Match[str]) -> str:
        word = match.group()
        name = new[word.lower()]
        return name[0].upper() + name[1:] if word[0].isupper() else name

    return lambda text: _any_of(tuple(new)).sub(other, text) if new else text


def _kind(name: str) -> int:
    """Whole numbers, others, words or formulas."""
    return next(kind for kind, pattern in enumerate(_NAMES) if pattern.fullmatch(name))


@cache
def single_names(app: str) -> tuple[str, ...]:
    """The single words that stand for nothing but themselves: values of goals that have many."""
    goals = by_goal(app).values()
    words = {aim.word for aims in goals if len(aims) >= FEW for aim in aims}
    few = (aim.word for aims in goals if len(aims) < FEW for aim in aims)
    said = (wording for aims in goals for wording in aims[0].goal.wordings)
    other = {word for text in (*few, *said) for word in re.findall(r"[\w-]+", text.lower())}
    return tuple(sorted(word for word in words if " " not in word and word.lower() not in other))


@lru_cache
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{longest_first})(?!\w)", re.IGNORECASE)
