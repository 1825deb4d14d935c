"""Batches for training: pictures and texts once, then all that is asked about them.

Each question sees what stands before all of them and itself, at the positions that it has in a prompt of its
own: to the network this is the same as a prompt for each question, at a fraction of the cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from base_models.plain import MERGE, PATCH, PRECISION
from base_models.seeing import letters_of_patches, normalised
from base_models.synthetic_screens import Letters
from sciencedesk.desk.widgets import HEIGHT, WIDTH

TOKEN = PATCH * MERGE  # px
COLUMNS, ROWS = WIDTH // TOKEN, HEIGHT // TOKEN  # of a whole screen
NOWHERE = -100
_BESIDE, _SHARED = -1, 0  # parts of a sequence: padding, what all questions see; then the questions


@dataclass(frozen=True)
class Shown:
    """A picture, its place (column, row) in tokens on the whole screen, and the letters of a page."""

    pixels: np.ndarray
    place: tuple[int, int] = (0, 0)
    letters: Letters | None = None

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of its tokens."""
        return self.pixels.shape[0] // TOKEN, self.pixels.shape[1] // TOKEN


@dataclass(frozen=True)
class Question:
    """Tokens of a question and of its reply, and where in the reply points follow.

    `watch` has, by tokens of the reply, the tokens of the last picture that show what comes next.
    """

    prompt: Sequence[int]
    reply: Sequence[int]
    points: Sequence[int] = ()
    watch: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Item:
    """Texts and pictures that all the questions see, and the questions."""

    shared: Sequence[Sequence[int] | Shown]
    questions: Sequence[Question]


@dataclass(frozen=True)
class Pictures:
    """Pictures of one size: pixels (n, 3, height, width), and the places of their tokens in a flat batch."""

    pixels: Tensor
    at: Tensor  # (n, tokens)
    places: Tensor  # (n, tokens, 2): column and row
    lettered: Tensor  # the pictures whose letters are known
    told: Tensor  # letters of their patches
    clear: Tensor  # whether these count


@dataclass(frozen=True)
class Packed:
    """Items side by side."""

    ids: Tensor  # (n, length)
    labels: Tensor  # (n, length), NOWHERE where nothing is learned; each stands where its token is predicted
    positions: Tensor  # (3, n, length) of time, row and column
    mask: Tensor  # (n, 1, length, length), added to scores
    pictures: Sequence[Pictures]
    points: Tensor  # (p, 2): item and position of tokens that are followed by a point
    watching: Tensor  # (k, 2): item and position of tokens that should look
    watched: Tensor  # (k, length): where


class _Sequence:
    """An item laid out as the chat template does, with the positions of Qwen2.5-VL."""

    def __init__(self, item: Item, image: int):
        self.ids: list[int] = []
        self.positions: list[tuple[int, int, int]] = []
        self.parts: list[int] = []
        self.labels: list[int] = []
        self.begins: list[int] = []  # of the pictures
        self.points: list[int] = []
        self.watch: list[tuple[int, list[int]]] = []
        self.next = 0
        for piece in item.shared:
            self._show(piece, image) if isinstance(piece, Shown) else self._write(piece, _SHARED)
        after = self.next
        for number, question in enumerate(item.questions, 1):
            self.next, begin = after, len(self.ids) + len(question.prompt)
            self._write([*question.prompt, *question.reply], number)
            self.labels[begin - 1 : begin - 1 + len(question.reply)] = question.reply
            self.points += [begin + token for token in question.points]
            for token, seen in question.watch.items():
                self.watch.append((begin + token, [self.begins[-1] + at for at in seen]))

    def _write(self, ids: Sequence[int], part: int) -> None:
        self.ids += ids
        self.positions += [(n, n, n) for n in range(self.next, self.next + len(ids))]
        self._add(len(ids), part)
        self.next += len(ids)

    def _show(self, shown: Shown, image: int) -> None:
        (rows, columns), (right, down) = shown.grid, shown.place
        self.begins.append(len(self.ids))
        self.ids += [image] * (rows * columns)
        self.positions += [
            (self.next, self.next + down + row, self.next + right + column)
            for row in range(rows)
            for column in range(columns)
        ]
        self._add(rows * columns, _SHARED)
        self.next += max(ROWS, COLUMNS)  # of a whole screen, whatever the crop's size

    def _add(self, count: int, part: int) -> None:
        self.parts += [part] * count
        self.labels += [NOWHERE] * count


def pack(items: Sequence[Item], image: int, padding: int) -> Packed:
    """The batch of these items; `image` and `padding` are tokens."""
    sequences = [_Sequence(item, image) for item in items]
    length = max(len(sequence.ids) for sequence in sequences)

    def padded(values: Sequence[Sequence[int]], fill: int) -> Tensor:
        return torch.tensor([[*value, *[fill] * (length - len(value))] for value in values])

    parts = padded([sequence.parts for sequence in sequences], _BESIDE)
    own = parts[:, None] == parts[:, :, None]
    seen = (own | (parts[:, None] == _SHARED)) & torch.ones(length, length, dtype=torch.bool).tril()
    mask = torch.zeros(seen.shape, dtype=PRECISION).masked_fill(~seen, -30_000.0)[:, None]
    positions = [padded([[p[axis] for p in s.positions] for s in sequences], 0) for axis in range(3)]
    watch = [(i, at, tokens) for i, sequence in enumerate(sequences) for at, tokens in sequence.watch]
    points = [(i, at) for i, sequence in enumerate(sequences) for at in sequence.points]
    watched = torch.zeros(len(watch), length, dtype=torch.bool)
    for k, (_, _, tokens) in enumerate(watch):
        watched[k, tokens] = True
    return Packed(
        padded([s.ids for s in sequences], padding), padded([s.labels for s in sequences], NOWHERE),
        torch.stack(positions), mask, _pictures(items, sequences, length),
        *(torch.tensor(pairs, dtype=torch.long).view(-1, 2)
          for pairs in (points, [(i, at) for i, at, _ in watch])), watched,
    )  # fmt: skip


def _pictures(items: Sequence[Item], sequences: Sequence[_Sequence], length: int) -> list[Pictures]:
    by_size: dict[tuple[int, ...], list[tuple[Shown, int]]] = defaultdict(list)
    for i, (item, sequence) in enumerate(zip(items, sequences, strict=True)):
        shown = [piece for piece in item.shared if isinstance(piece, Shown)]
        for picture, begin in zip(shown, sequence.begins, strict=True):
            by_size[picture.pixels.shape[:2]].append((picture, i * length + begin))
    groups = []
    for (height, width), placed in by_size.items():
        pictures = [picture for picture, _ in placed]
        rows, columns = pictures[0].grid
        down, right = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        grid = torch.stack((right.flatten(), down.flatten()), -1)
        known = [k for k, picture in enumerate(pictures) if picture.letters is not None]
        of_patches = [letters_of_patches(pictures[k].letters, (width, height)) for k in known]
        told, clear = (np.stack(part) for part in zip(*of_patches, strict=True)) if known else ([], [])
        groups.append(Pictures(
            normalised([picture.pixels for picture in pictures]),
            torch.tensor([begin for _, begin in placed])[:, None] + torch.arange(rows * columns),
            torch.stack([grid + torch.tensor(picture.place) for picture in pictures]),
            torch.tensor(known, dtype=torch.long), torch.as_tensor(told), torch.as_tensor(clear),
        ))  # fmt: skip
    return groups
