"""Learning to point and to read out: from a name to the place of the thing that bears it, or to its value.

Crops take the positions and coordinates of a random place of the whole screen, or what was learned on them
would be lost on whole screens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from torch import Tensor

from base_models.accounts import screen_sampler
from base_models.feeding import MANY, batches
from base_models.hindsight import hindsights, solo_row
from base_models.learning import Encoded, item_of, packed
from base_models.lettering import letter_scores, tokens_of_letters
from base_models.letters import COORDINATES, across, down, letter_tokenizer
from base_models.network import Pointer, slow_of, weighted
from base_models.packing import COLUMNS, ROWS, TOKEN, Item, Packed, Question, Shown
from base_models.rows import MOVING, clicked, covered, dragged, on_grid, random_text, typed, value_of
from base_models.seeing import HELD_OUT, SIZES, TOWER_RATE, Reader, draw_size, letters_right, train
from base_models.synthetic_screens import draw_crop
from base_models.walks import (
    Transition,
    Walks,
    Window,
    opened,
    random_walk,
    typed_words,
    unambiguous,
    window_of,
)  # fmt: skip
from coda_lib.trajectory import decode_image
from sciencedesk.desk.elements import Element
from sciencedesk.script import action_of, to_plan

ASKED = 8  # about a picture, at most
SCREENS = 3  # a step
FRESH = 0.35  # of steps: their screens are of a window that no other step has
UNPOINTED = ("read", "on", "type")  # kinds of questions that are answered in letters
TYPED = 0.1  # of questions: a text to type, for which nothing has to be looked for


About = tuple[Question, Element | str | None]


@dataclass(frozen=True)
class Page:
    """A picture with its questions, and of each the element that it is about (or its kind, or None)."""

    item: Item
    about: Sequence[Element | str | None]

    def seen_as(self, pixels: np.ndarray) -> Page:
        """The same questions about another picture."""
        shared = [replace(p, pixels=pixels) if isinstance(p, Shown) else p for p in self.item.shared]
        return replace(self, item=replace(self.item, shared=shared))


class Asking:
    """Pages with questions; `names` are those that real screens have, a share `invented` is made up.

    On real screens a `reader` finds where the letters of values stand.
    """

    def __init__(self, names: Sequence[str], invented: float, reader: Reader | None = None):
        self.tokenizer, self.names, self.invented = letter_tokenizer(), names, invented
        self.reader = reader
        ids = self.tokenizer.convert_tokens_to_ids
        self.columns = {ids(across(n)): n for n in COORDINATES}
        self.rows = {ids(down(n)): n for n in COORDINATES}
        self.around = self.encode("<|im_start|>user\n<|vision_start|>"), self.encode("<|vision_end|>")

    def encode(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def pack(self, pages: Sequence[Page]) -> Packed:
        return packed([page.item for page in pages])

    def draw(self, rng: Random, size: tuple[int, int]) -> Page:
        """A crop with at least one question."""
        while True:
            pixels, elements, letters = draw_crop(self.names, rng, self.invented, size)
            place = rng.randint(0, COLUMNS - size[0] // TOKEN), rng.randint(0, ROWS - size[1] // TOKEN)
            names, begin, across = [element.name for element in elements], 0, size[0] // TOKEN
            texts = [element.text if value_of(element) else element.name for element in elements]
            asked: list[About] = []
            continued: list[About] = []
            for element, text in zip(elements, texts, strict=True):
                tokens = [int(y // TOKEN) * across + int(x // TOKEN) if 0 <= x < size[0] and 0 <= y < size[1]
                          else None for x, y, _ in letters[begin : begin + len(text)]]  # fmt: skip
                begin += len(text)
                if names.count(element.name) == 1:
                    asked.append(self._about(rng, element, tokens, place))
                known = rng.randint(2, 4)
                if len(text) > known and [t[:known] for t in texts].count(text[:known]) == 1:
                    question = self._reading(f"Read on: {text[:known]}", text[known:], tokens[known:])
                    continued.append((question, "on"))
            if asked:
                asked = rng.sample(asked, min(len(asked), ASKED))
                asked += rng.sample(continued, min(len(continued), ASKED))
                if rng.random() < TYPED * len(asked):
                    asked.append((self._question({"type": random_text(rng)}, ()), None))
                return self._page(Shown(pixels, place, letters), asked)

    def draw_screen(self, rng: Random, step: Transition) -> Page:
        """The screen before a step of a walk, with questions mostly about what is not always at one place."""
        clear, picture = unambiguous(step.elements, step.before), decode_image(step.screen)
        moving = [e for e in clear if e.role in MOVING]
        values = [e for e in step.elements if value_of(e)]
        asked: list[About] = []
        for element in rng.sample(moving, min(len(moving), ASKED)) + rng.sample(clear, min(len(clear), 4)):
            drag = element.role == "slider" or (element.role == "row" and rng.random() < 0.1)
            steps = dragged(element, clear, rng) if drag else clicked(element, rng)
            asked.append((self._question(steps, step.elements), element))
        scores = letter_scores(self.reader, picture) if self.reader and values else None
        for element in rng.sample(values, min(len(values), 3)):
            value, seen = value_of(element), covered(element)
            letters = () if scores is None else tokens_of_letters(scores, value, seen) or ()
            asked.append((self._reading(what_is(element), value, letters, seen), element))
        asked.append((self._question(typed(rng, typed_words(step.app)), ()), None))
        if not step.step.keys() & {"click", "type"}:
            asked.append((self._question(step.step, step.elements), None))
        return self._page(Shown(np.asarray(picture)), asked)

    def _page(self, shown: Shown, asked: Sequence[About]) -> Page:
        questions, about = zip(*asked, strict=True)
        return Page(Item((self.around[0], shown, self.around[1]), questions), about)

    def _about(
        self, rng: Random, element: Element, tokens: Sequence[int | None], place: tuple[int, int]
    ) -> About:
        """A question about an element of a crop, each letter of whose text stands on one of `tokens`."""
        x, y, width, height = element.box
        element = replace(element, box=(x + place[0] * TOKEN, y + place[1] * TOKEN, width, height))
        seen = sorted({token for token in tokens if token is not None})
        if value := value_of(element):
            return self._reading(what_is(element), value, tokens[-len(value) :], seen), element
        return self._question(clicked(element, rng), [element], seen), element

    def _reading(
        self, text: str, answer: str, tokens: Sequence[int | None], seen: Sequence[int] = ()
    ) -> Question:
        """A question that is answered by what stands on the tokens `seen`, or else on `tokens`.

        If these are as many as letters, each has its own.
        """
        begin, seen = "ANS ", seen or sorted({token for token in tokens if token is not None})
        made = self.tokenizer(
            f"{begin}{answer}<|im_end|>", add_special_tokens=False, return_offsets_mapping=True
        )
        at = {number - 1: start - len(begin) for number, (start, _) in enumerate(made["offset_mapping"])}
        letters = tokens if len(tokens) == len(answer) else ()
        spell = {number: [letters[letter]] for number, letter in at.items()
                 if 0 <= letter < len(letters) and letters[letter] is not None}  # fmt: skip
        find = dict.fromkeys(spell or [0], seen) if seen else {}
        return Question(self._prompt(f"{text}\n"), made["input_ids"], find=find, spell=spell)

    def _prompt(self, text: str) -> list[int]:
        return self.encode(f"{text}<|im_end|>\n<|im_start|>assistant\n")

    def _question(
        self, step: Mapping[str, Any], elements: Sequence[Element], seen: Sequence[int] | None = None
    ) -> Question:
        """The question of a script step: its plan is asked, its action is the reply.

        `seen` are the tokens that show the name of the only element; else they are those that it covers.
        """
        ((_, what),) = step.items()
        named = {element.name: element for element in elements}
        reply = self.encode(on_grid(action_of(step, lambda name: named[name].center)) + "<|im_end|>")
        points = [at - 1 for at, token in enumerate(reply) if token in self.columns]
        targets = what if isinstance(what, list | tuple) else [what]
        look = [covered(named[name]) if seen is None else seen for name in targets[: len(points)]]
        find = {at: tokens for at, tokens in zip(points, look, strict=True) if tokens}
        return Question(self._prompt(to_plan(step)), reply, points, find)


def what_is(element: Element) -> str:
    return f"What is the {element.name.lower()}?"


def answered(
    pointer: Pointer, asking: Asking, pages: Sequence[Page], shown: Sequence[Page] | None = None
) -> list[tuple[str, bool]]:
    """Kind and success of each question; `shown` have the pictures that are looked at, if others.

    A click counts if it is inside the element (kind: its role), any other reply if it is exact (`read`,
    `type`, and so on).
    """
    others = shown or pages
    asked = [page.seen_as(next(p for p in other.item.shared if isinstance(p, Shown)).pixels)
             for page, other in zip(pages, others, strict=True)]  # fmt: skip
    batch = asking.pack(asked)
    right, points = pointer.replies(batch)
    found = dict(zip(map(tuple, batch.points.tolist()), points.tolist(), strict=True))
    questions = [
        (q, about) for page in pages for q, about in zip(page.item.questions, page.about, strict=True)
    ]
    hits = []
    for number, (question, element) in enumerate(questions):
        if element and question.points:
            point = found[number, len(question.prompt) + question.points[0]]
            x, y = asking.columns.get(point[0], -1), asking.rows.get(point[1], -1)
            left, top, width, height = element.box
            hits.append((element.role, left <= x < left + width and top <= y < top + height))
        else:
            kind = element if isinstance(element, str) else "read" if element else "type"
            hits.append((kind, bool(right[number].all())))
    return hits


def shares(pointer: Pointer, asking: Asking, pages: Sequence[Page]) -> dict[str, float]:
    """Shares of right replies by kind, of all clicks, and of those with the picture of another page."""
    own, other = defaultdict(list), []
    for i in range(0, len(pages), 20):
        some = pages[i : i + 20]
        for kind, hit in answered(pointer, asking, some):
            own[kind].append(hit)
        turned = answered(pointer, asking, some, [*some[1:], some[0]])
        other += [hit for kind, hit in turned if kind not in UNPOINTED]
    clicks = [hit for kind, hits in own.items() if kind not in UNPOINTED for hit in hits]
    figures = own | {"clicks": clicks, "other": other}
    return {name: round(float(np.mean(hits)), 3) for name, hits in sorted(figures.items()) if hits}


def train_pointing(
    folder: Path, pointer: Pointer, names: Sequence[str], steps: int, held: int, rate: float = 2e-3,
    seed: int = 7,
) -> None:  # fmt: skip
    """Teach a language model to point with a tower that reads; goes on where it was interrupted.

    Writes pointing.pt and pointing.jsonl, which has the letters told and the replies right on `held` pages of
    invented names a size.
    """
    asking, unseen = Asking(names, 0.7), Asking(["x"] * 60, 1.0)
    pages = {size: _drawn(unseen, size, held) for size, *_ in SIZES}

    def draw(rng: Random) -> Packed:
        size, count = draw_size(rng)
        return asking.pack([asking.draw(rng, size) for _ in range(count)])

    def loss_of(batch: Packed) -> tuple[Tensor, dict[str, Tensor]]:
        return weighted(pointer.losses(batch))

    def measure() -> dict[str, Any]:
        right = {str(size[0]): shares(pointer, unseen, of_size) for size, of_size in pages.items()}
        return {"letters": letters_right(pointer.reader, SIZES[-1][0], 40), **right}

    slow = slow_of(pointer)
    train(folder, "pointing", pointer, draw, loss_of, measure, steps, rate, seed, slow, TOWER_RATE)


def train_screens(
    folder: Path, pointer: Pointer, names: Sequence[str], walks: Walks, unseen: Walks, steps: int,
    held: int, rate: float = 1.5e-3, seed: int = 8, stage: str = "screens", still: bool = False,
    fresh: Sequence[str] = (),
) -> None:  # fmt: skip
    """Go on with whole screens, in half of the steps: of walks, and most of `fresh` windows, seen once.

    `fresh` are applications, whose windows are opened for this.

    Of the others most are pages, so that names stay read; the rest are screens with what a judge is asked of
    them, and instructions with the next action, in hindsight of one or two steps of a walk, for an executor
    without a planner.  With a tower that stands `still` a step takes four tenths of the time.
    Writes STAGE.pt and STAGE.jsonl, which has the replies right on `held` screens of `unseen` walks by
    application.
    """
    decisions, draw_asked = [hindsights(walk[0].app, walk) for walk in walks], screen_sampler(walks)
    asking, rng = Asking(names, 0.7, deepcopy(pointer.reader)), Random(HELD_OUT)
    pages = _drawn(Asking(["x"] * 60, 1.0), SIZES[-1][0], held)
    pointer.reader.requires_grad_(not still)
    encoded = Encoded(pointer.reader.tower)
    screens = {
        walk[0].app: [asking.draw_screen(rng, rng.choice(walk)) for _ in range(held)] for walk in unseen
    }

    def draw(rng: Random) -> Packed:
        dice, screens = rng.random(), MANY * SCREENS
        if dice < FRESH and fresh:
            seen = (step for _ in range(MANY) for step in _new_walk(rng.choice(fresh), rng))
            items = [asking.draw_screen(rng, step).item for step in seen]
        elif dice < 0.5:
            items = [asking.draw_screen(rng, rng.choice(rng.choice(walks))).item for _ in range(screens)]
        elif dice < 0.8:
            size, count = draw_size(rng)
            items = [asking.draw(rng, size).item for _ in range(count)]
        elif dice < 0.92 and (told := list(filter(None, (draw_asked(rng) for _ in range(screens))))):
            items = [item_of(one.rows) for one in told]
        else:
            items = [item_of([solo_row(rng.choice(rng.choice(decisions)))]) for _ in range(screens)]
        return packed(items)

    def loss_of(batch: Packed) -> tuple[Tensor, dict[str, Tensor]]:
        return weighted(pointer.losses(encoded(batch) if still else batch))

    def measure() -> dict[str, Any]:
        right = {app: shares(pointer, asking, of_app) for app, of_app in screens.items()}
        letters = letters_right(pointer.reader, SIZES[-1][0], 40)
        return {"letters": letters, "pages": shares(pointer, asking, pages), **right}

    train(folder, stage, pointer, draw, loss_of, measure, steps, rate, seed, slow_of(pointer), TOWER_RATE)


def _drawn(asking: Asking, size: tuple[int, int], count: int) -> list[Page]:
    return [*batches(lambda rng: asking.draw(rng, size), HELD_OUT, range(count))]


def _new_walk(app: str, rng: Random) -> Iterator[Transition]:
    return islice(random_walk(_new_window(app), rng, length=SCREENS), SCREENS)


@cache
def _new_window(app: str) -> Window:
    """A window of this process, open until its end."""
    return window_of(opened(app))
