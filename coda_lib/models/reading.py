"""What a judge that looks is shown of an attempt: what each step changed, and the end.

A judge that gets the instruction beside nine small screens can learn which instructions are hard, and not
look (measured: 72 % right with an attempt's own screens, 70 % with another's).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from PIL import Image, ImageChops

from coda_lib.errors import UserError
from coda_lib.trajectory import Trajectory, decode_image, digest

Reader = Callable[[Sequence[Image.Image]], list[str]]  # what each picture shows, in words
NOTHING = "-"  # of a step that changed nothing
CELL = 84  # px: parts are cut on a grid of so many, whole image tokens of 28 px and of 21


@dataclass(frozen=True)
class Account:
    """An attempt, without its task: pictures, or what is read out of them."""

    changes: tuple[Image.Image | str, ...]  # what each plan's step changed; NOTHING if it changed nothing
    end: Image.Image | str  # the last screen


Accounts = Callable[[Sequence[Trajectory]], list[Account]]  # of each attempt


def pictured(trajectories: Sequence[Trajectory]) -> list[Account]:
    """The attempts in pictures at 1:1."""
    told = []
    for trajectory in trajectories:
        screens = [decode_image(png) for png in trajectory.screenshots]
        parts = [(after, changed(before, after)) for before, after in pairwise(screens)]
        told.append(Account(tuple(after.crop(box) if box else NOTHING for after, box in parts), screens[-1]))
    return told


def read_out(reader: Reader, trajectories: Sequence[Trajectory]) -> list[Account]:
    """The attempts in words; equal pictures are read out once."""
    seen = [(*account.changes, account.end) for account in pictured(trajectories)]
    shown = {digest(part): part for parts in seen for part in parts if part != NOTHING}
    texts = dict(zip(shown, reader(list(shown.values())), strict=True))
    told = [[part if part == NOTHING else texts[digest(part)] for part in parts] for parts in seen]
    return [Account(tuple(changes), end) for *changes, end in told]


def changed(before: Image.Image, after: Image.Image) -> tuple[int, int, int, int] | None:
    """The part of `after` (left, top, right, bottom), on a grid of `CELL` px, that holds all that differs."""
    if before.size != after.size:
        return 0, 0, *after.size
    if box := ImageChops.difference(before, after).getbbox():
        ends = (min(-(-end // CELL) * CELL, side) for end, side in zip(box[2:], after.size, strict=True))
        return box[0] // CELL * CELL, box[1] // CELL * CELL, *ends
    return None


def character_reader() -> Reader:
    """RapidOCR, which nobody trained here, on pictures at twice the size.  UserError if it is missing."""
    try:
        from rapidocr_onnxruntime import RapidOCR
    except ImportError as error:
        raise UserError("judge.shows=words needs RapidOCR: pip install '.[ocr]'") from error
    engine = RapidOCR()

    def read(pictures: Sequence[Image.Image]) -> list[str]:
        doubled = [picture.resize((2 * picture.width, 2 * picture.height)) for picture in pictures]
        found = [engine(np.asarray(picture)[:, :, ::-1])[0] or [] for picture in doubled]  # it wants BGR
        return [". ".join(text for _, text, _ in lines) for lines in found]

    return read
