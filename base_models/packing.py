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

from base_models.plain import HIDDEN, MERGE, PATCH
from base_models.seeing import letters_of_patches, stacked
from base_models.synthetic_screens import Letters
from sciencedesk.desk.widgets import HEIGHT, WIDTH

TOKEN = PATCH * MERGE  # px
COLUMNS, ROWS = WIDTH // TOKEN, HEIGHT // TOKEN  # of a whole screen
NOWHERE = -100
# by tokens of a reply, the tokens to look at: of what is shared, from the first picture on (without one, from
# the beginning), and ~n for token n of the question itself
Looks = Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Shown:
    """A picture, its place (column, row) in tokens on the whole screen, and the letters of a page.

    Without a place it is a picture of its own, with positions of its own size, as transformers gives them.
    `named` says where things are whose names are known to stand on tokens: of a token and a line of its
    patches, the numbers of column and row of a thing's middle.
    """

    pixels: np.ndarray
    place: tuple[int, int] | None = (0, 0)
    letters: Letters | None = None
    named: Sequence[tuple[int, int, int, int]] = ()

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of its tokens."""
        return self.pixels.shape[0] // TOKEN, self.pixels.shape[1] // TOKEN


@dataclass(frozen=True)
class Question:
    """Tokens of a question and of its reply, and where in the reply points follow.

    `find` is where heads that point should look, `spell` where heads that read should.  `found_in` and
    `spelled_in` have the line of patches of those tokens, if only one shows it.
    """

    prompt: Sequence[int]
    reply: Sequence[int]
    points: Sequence[int] = ()
    find: Looks = field(default_factory=dict)
    spell: Looks = field(default_factory=dict)
    found_in: Mapping[int, int] = field(default_factory=dict)
    spelled_in: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Item:
    """Texts and pictures that all the questions see, and the questions."""

    shared: Sequence[Sequence[int] | Shown]
    questions: Sequence[Question]


@dataclass(frozen=True)
class Pictures:
    """Pictures of one size in 8 bits (n, height, width, 3), and the places of their tokens in a flat batch.

    Those that have been encoded already have their `tokens` (n, rows, columns, width).  In `named` (k, 4) the
    first number is the place of a token in that batch.
    """

    pixels: Tensor
    at: Tensor  # (n, tokens)
    places: Tensor  # (n, tokens, 2): column and row; NOWHERE of those without a place
    lettered: Tensor  # the pictures whose letters are known
    told: Tensor  # letters of their patches
    clear: Tensor  # whether these count
    tokens: Tensor | None = None
    named: Tensor = field(default_factory=lambda: torch.zeros(0, 4, dtype=torch.long))


@dataclass(frozen=True)
class Tokens:
    """Sequences side by side: tokens (n, length), positions (3, n, length) of time, row and column."""

    ids: Tensor
    positions: Tensor
    seen: Tensor  # (n, length, all tokens): what each token sees

    @property
    def mask(self) -> Tensor:
        """What is added to scores (n, 1, length, all tokens)."""
        return torch.where(self.seen, 0.0, HIDDEN)[:, None]


@dataclass(frozen=True)
class Looking:
    """Where heads should look."""

    places: Tensor  # (k, 2): question and position
    where: Tensor  # (k, all tokens)
    line: Tensor  # (k,): of the tokens' patches; NOWHERE if any

    def __len__(self) -> int:
        return len(self.line)


@dataclass(frozen=True)
class Packed:
    """What the questions of a batch share, an item a row; and the questions, each a row."""

    shared: Tokens
    asked: Tokens  # they see what is shared, too
    owner: Tensor  # (m,): the item of a question
    labels: Tensor  # (m, length), NOWHERE where nothing is learned; each stands where its token is predicted
    pictures: Sequence[Pictures]
    points: Tensor  # (p, 2): question and position of tokens that are followed by a point
    finding: Looking
    spelling: Looking


class _Prefix:
    """What an item's questions share, laid out as the chat template does, at Qwen2.5-VL's positions."""

    def __init__(self, item: Item, image: int):
        self.ids: list[int] = []
        self.positions: list[tuple[int, int, int]] = []
        self.begins: list[int] = []  # of the pictures
        self.end = 0  # the position that follows
        for piece in item.shared:
            if isinstance(piece, Shown):
                self._show(piece, image)
            else:
                self.ids += piece
                self.positions += [(n, n, n) for n in range(self.end, self.end + len(piece))]
                self.end += len(piece)

    def _show(self, shown: Shown, image: int) -> None:
        (rows, columns), (right, down) = shown.grid, shown.place or (0, 0)
        self.begins.append(len(self.ids))
        self.ids += [image] * (rows * columns)
        grid = ((row, column) for row in range(rows) for column in range(columns))
        self.positions += [
            (self.end, self.end + down + row, self.end + right + column) for row, column in grid
        ]
        # a crop takes as much room as the whole screen that it stands for
        self.end += max(ROWS, COLUMNS) if shown.place else max(rows, columns)


def pack(items: Sequence[Item], image: int, padding: int) -> Packed:
    """The batch of these items; `image` and `padding` are tokens."""
    prefixes = [_Prefix(item, image) for item in items]
    asked = [(i, question) for i, item in enumerate(items) for question in item.questions]
    shared = _padded([prefix.ids for prefix in prefixes], padding)
    ids = _padded([[*question.prompt, *question.reply] for _, question in asked], padding)
    before, (count, length) = shared.shape[1], ids.shape
    labels = torch.full_like(ids, NOWHERE)
    for row, (_, question) in zip(labels, asked, strict=True):
        begin = len(question.prompt) - 1
        row[begin : begin + len(question.reply)] = torch.tensor(question.reply)
    owner = torch.tensor([i for i, _ in asked])
    places = [_padded([[p[axis] for p in prefix.positions] for prefix in prefixes], 0) for axis in range(3)]
    ends = torch.tensor([prefix.end for prefix in prefixes])[owner]
    inside = torch.arange(before) < torch.tensor([len(prefix.ids) for prefix in prefixes])[:, None]
    first = inside[:, None] & torch.ones(before, before, dtype=torch.bool).tril()
    own = torch.ones(length, length, dtype=torch.bool).tril().expand(count, -1, -1)
    seen = torch.cat((inside[owner][:, None].expand(-1, length, -1), own), -1)

    def looking(looks: str, lines: str) -> Looking:
        found = [
            (m, len(question.prompt) + at, getattr(question, lines).get(at, NOWHERE),
             prefixes[i].begins[0] if prefixes[i].begins else 0, tokens)
            for m, (i, question) in enumerate(asked)
            for at, tokens in getattr(question, looks).items()
        ]  # fmt: skip
        where = torch.zeros(len(found), before + length, dtype=torch.bool)
        for row, (*_, begin, tokens) in zip(where, found, strict=True):
            row[[begin + token if token >= 0 else before + ~token for token in tokens]] = True
        places = _pairs([(m, at) for m, at, *_ in found])
        return Looking(places, where, torch.tensor([line for _, _, line, *_ in found], dtype=torch.long))

    return Packed(
        Tokens(shared, torch.stack(places), first),
        Tokens(ids, (ends[:, None] + torch.arange(length)).expand(3, -1, -1), seen),
        owner, labels, _pictures(items, prefixes, before),
        _pairs([(m, len(q.prompt) + at) for m, (_, q) in enumerate(asked) for at in q.points]),
        looking("find", "found_in"), looking("spell", "spelled_in"),
    )  # fmt: skip


def _pairs(pairs: Sequence[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2)


def _padded(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    length = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (length - len(row))] for row in rows])


def _pictures(items: Sequence[Item], prefixes: Sequence[_Prefix], length: int) -> list[Pictures]:
    by_size: dict[tuple[int, int], list[tuple[Shown, int]]] = defaultdict(list)
    for i, (item, prefix) in enumerate(zip(items, prefixes, strict=True)):
        shown = [piece for piece in item.shared if isinstance(piece, Shown)]
        for picture, begin in zip(shown, prefix.begins, strict=True):
            by_size[picture.pixels.shape[:2]].append((picture, i * length + begin))
    groups = []
    for (height, width), placed in by_size.items():
        pictures = [picture for picture, _ in placed]
        rows, columns = pictures[0].grid
        down, right = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        grid, nowhere = (
            torch.stack((right.flatten(), down.flatten()), -1),
            torch.full((rows * columns, 2), NOWHERE),
        )
        known = [k for k, picture in enumerate(pictures) if picture.letters is not None]
        of_patches = [letters_of_patches(pictures[k].letters, (width, height)) for k in known]
        told, clear = (np.stack(part) for part in zip(*of_patches, strict=True)) if known else ([], [])
        groups.append(Pictures(
            stacked([picture.pixels for picture in pictures]),
            torch.tensor([begin for _, begin in placed])[:, None] + torch.arange(rows * columns),
            torch.stack([grid + torch.tensor(p.place) if p.place else nowhere for p in pictures]),
            torch.tensor(known, dtype=torch.long), torch.as_tensor(told), torch.as_tensor(clear),
            named=torch.tensor([(begin + token, *where) for picture, begin in placed
                                for token, *where in picture.named], dtype=torch.long).view(-1, 4),
        ))  # fmt: skip
    return groups
