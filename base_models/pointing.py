"""Learning to point and to read out: from a name to the place of the thing that bears it, or to its value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from torch import Tensor

from base_models.accounts import screen_sampler
from base_models.asking import Asking, Named, Page
from base_models.feeding import MANY, batches
from base_models.hindsight import hindsights, solo_row
from base_models.learning import LONG, Encoded, compile_layers, item_of, packed
from base_models.network import Pointer, slow_of, weighted
from base_models.packing import Item, Packed, Shown
from base_models.seeing import HELD_OUT, SIZES, TOWER_RATE, draw_size, letters_right, train
from base_models.walks import Transition, Walk, Walks, Window, opened, random_walk, window_of
from coda_lib.trajectory import decode_image
from sciencedesk.desk.elements import Element

SCREENS, PARTS = 3, 48  # a step
RARE = 4  # things of a new window, at most, that are asked for because they are seldom there
LEAST = ((8, 4), (8, 6), (10, 5), (6, 8))  # columns and rows of a step's parts
# shares of steps: parts of screens, whole ones of a window that no other step has, whole ones of walks, pages
# and crops, what a judge is asked; the rest are instructions
OF_PARTS, FRESH, OF_WALKS, OF_PAGES, TOLD = 0.3, 0.35, 0.1, 0.15, 0.05
UNPOINTED = ("read", "on", "type")  # kinds of questions that are answered in letters


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
    """Go on with screens, as `screens_sampler` draws them.

    With a tower that stands `still` a step takes four tenths of the time.
    Writes STAGE.pt and STAGE.jsonl, which has the replies right about `held` names of `unseen` walks by
    application.
    """
    asking = Asking(names, 0.7, deepcopy(pointer.reader))
    draw_items = screens_sampler(asking, walks, fresh)
    pages = _drawn(Asking(["x"] * 60, 1.0), SIZES[-1][0], held)
    pointer.reader.requires_grad_(not still)
    encoded = Encoded(pointer.reader.tower)
    if still and steps >= LONG:
        compile_layers([*pointer.language.layers, *pointer.reader.tower.blocks])
    screens = {walk[0].app: _by_name(asking, walk, held) for walk in unseen}

    def draw(rng: Random) -> Packed:
        return packed(draw_items(rng))

    def loss_of(batch: Packed) -> tuple[Tensor, dict[str, Tensor]]:
        return weighted(pointer.losses(encoded(batch) if still else batch))

    def measure() -> dict[str, Any]:
        right = {app: shares(pointer, asking, of_app) for app, of_app in screens.items()}
        letters = letters_right(pointer.reader, SIZES[-1][0], 40)
        return {"letters": letters, "pages": shares(pointer, asking, pages), **right}

    train(folder, stage, pointer, draw, loss_of, measure, steps, rate, seed, slow_of(pointer), TOWER_RATE)


def screens_sampler(asking: Asking, walks: Walks, fresh: Sequence[str]) -> Callable[[Random], list[Item]]:
    """Batches of screens: things of walks by name, on parts and whole, and whole ones of `fresh` windows.

    `fresh` are applications, whose windows are opened for this.  Others are pages, so that names stay read,
    screens with what a judge is asked of them, and instructions with the next action, in hindsight of one or
    two steps of a walk, for an executor without a planner.
    """
    decisions, draw_asked = [hindsights(walk[0].app, walk) for walk in walks], screen_sampler(walks)
    named = Named(walks)

    def whole(rng: Random) -> Item:
        step, element = named.draw(rng)
        return asking.draw_screen(rng, step, [element]).item

    def parts(rng: Random) -> list[Item]:
        least = rng.choice(LEAST)
        return [asking.draw_part(rng, *named.draw(rng), least).item for _ in range(MANY * PARTS)]

    def new(rng: Random) -> list[Item]:
        steps = (step for _ in range(MANY) for step in _new_walk(rng.choice(fresh), rng))
        return [asking.draw_screen(rng, step, named.rare(step, RARE, rng)).item for step in steps]

    def crops(rng: Random) -> list[Item]:
        size, count = draw_size(rng)
        return [asking.draw(rng, size).item for _ in range(count)]

    def told(rng: Random) -> list[Item]:
        drawn = filter(None, (draw_asked(rng) for _ in range(MANY * SCREENS)))
        return [item_of(one.rows) for one in drawn] or crops(rng)

    kinds = [
        (OF_PARTS, parts),
        (FRESH if fresh else 0.0, new),
        (OF_WALKS, lambda rng: [whole(rng) for _ in range(MANY * SCREENS)]),
        (OF_PAGES, crops),
        (TOLD, told),
        (1 - OF_PARTS - FRESH - OF_WALKS - OF_PAGES - TOLD, lambda rng: [
            item_of([solo_row(rng.choice(rng.choice(decisions)))]) for _ in range(MANY * SCREENS)]),
    ]  # fmt: skip

    def draw(rng: Random) -> list[Item]:
        ((_, make),) = rng.choices(kinds, [share for share, _ in kinds])
        return make(rng)

    return draw


def _by_name(asking: Asking, walk: Walk, count: int) -> list[Page]:
    """Whole screens, each with a click on one thing; things by name."""
    named, rng = Named([walk]), Random(HELD_OUT)

    def page(step: Transition, element: Element) -> Page:
        question = asking.question({"click": element.name}, [element])
        return asking.page(Shown(np.asarray(decode_image(step.screen))), [(question, element)])

    return [page(*named.draw(rng)) for _ in range(count)]


def _drawn(asking: Asking, size: tuple[int, int], count: int) -> list[Page]:
    return [*batches(lambda rng: asking.draw(rng, size), HELD_OUT, range(count))]


def _new_walk(app: str, rng: Random) -> Iterator[Transition]:
    return islice(random_walk(_new_window(app), rng, length=SCREENS), SCREENS)


@cache
def _new_window(app: str) -> Window:
    """A window of this process, open until its end."""
    return window_of(opened(app))
