"""Learning to see: the letters of crops by patches, before anything is pointed at.

A patch of 7 px tells its own letters, of words that mean nothing at random places, so that reading cannot be
knowing by heart; crops give five times as many steps a second as whole screens.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from base_models.feeding import DEVICE, MANY, Draw, batches, near
from base_models.journal import Journal
from base_models.plain import (
    DEVIATION,
    MEAN,
    MERGE,
    PATCH,
    TOWER_WIDTH,
    WIDTH,
    Masters,
    Tower,
    start,
)
from base_models.side_by_side import number
from base_models.synthetic_screens import Letters, draw_crop
from coda_lib.files import atomic_path, reading

# px of pictures, how many a step has, share of the steps
SIZES = (((168, 84), 8, 0.6), ((252, 168), 3, 0.25), ((336, 252), 2, 0.15))
RATE, WARM_UP = 2.5e-3, 100
SYMBOLS = 97  # no letter, the printable ones of ASCII, and any other
SLOTS = 2  # letters that a patch tells
EMPTY = 0.05  # weight of a patch without letters: most have none
EVERY, MEASURED = 500, 2000  # steps between two saved states, and between two measurements
TOWER_RATE = (
    0.2  # of the rate, once it reads: the full one unlearns letters (measured: 93 % to 67 in 2,000 steps)
)
HELD_OUT = 1_000_003  # seed of the crops that measure: words that no training drew

_OF_TOKENS = ("tower.merger.", "merged.")
Loss = Callable[[Any], tuple[Tensor, dict[str, Tensor]]]  # of a batch, with its figures


def stacked(pictures: Sequence[np.ndarray]) -> Tensor:
    """Pictures (height, width, 3) of one size in 8 bits: (n, height, width, 3)."""
    return torch.from_numpy(np.stack(pictures))


def normalised(pictures: Tensor) -> Tensor:
    """Pixels (n, 3, height, width) of pictures as of `stacked`."""
    return ((pictures / 255 - MEAN) / DEVIATION).permute(0, 3, 1, 2).contiguous()


def symbol(letter: str) -> int:
    """A letter's number; 0 is no letter."""
    return ord(letter) - 31 if " " <= letter <= "~" else SYMBOLS - 1


def letters_of_patches(letters: Letters, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The first letters in each patch (rows, columns, SLOTS); whether all are of one line (rows, columns)."""
    width, height = size
    told = np.zeros((height // PATCH, width // PATCH, SLOTS), np.int64)
    clear, count, line = np.ones(told.shape[:2], bool), np.zeros(told.shape[:2], int), {}
    for x, y, letter in sorted(letters):
        place = int(y // PATCH), int(x // PATCH)
        if letter == " " or not (0 <= y < height and 0 <= x < width):
            continue
        clear[place] &= abs(line.setdefault(place, y) - y) <= 3
        if count[place] < SLOTS:
            told[place][count[place]] = symbol(letter)
            count[place] += 1
    return told, clear


def draw_size(rng: Random) -> tuple[tuple[int, int], int]:
    """The size in px of a step's pictures, and how many it has."""
    size, count, _ = rng.choices(SIZES, [share for *_, share in SIZES])[0]
    return size, MANY * count


class Crops:
    """Batches of crops with their letters."""

    def __init__(self, names: Sequence[str], invented: float):
        self.names, self.invented = names, invented

    def draw(self, rng: Random, size: tuple[int, int], count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Pictures in 8 bits, letters of patches and whether these count, of `count` crops."""
        drawn = [draw_crop(self.names, rng, self.invented, size) for _ in range(count)]
        told, clear = zip(*(letters_of_patches(letters, size) for _, _, letters in drawn), strict=True)
        pictures = stacked([pixels for pixels, *_ in drawn])
        return pictures, torch.from_numpy(np.stack(told)), torch.from_numpy(np.stack(clear))

    def drawn(self, rng: Random) -> tuple[Tensor, Tensor, Tensor]:
        """The same, of as many of one size as a step has."""
        return self.draw(rng, *draw_size(rng))


class Reader(nn.Module):
    """The tower with heads that tell the letters of each patch, and those of a merged token's patches.

    The merger is taught letters too: from tokens of a merger that only pointing had trained, a linear head
    told 11 % of the letters (from patches 92 %), and a language model copied no text.
    """

    def __init__(self):
        super().__init__()
        self.tower, self.head = Tower(), nn.Linear(TOWER_WIDTH, SLOTS * SYMBOLS)
        self.merged = nn.Linear(WIDTH, MERGE**2 * SLOTS * SYMBOLS)
        start(self.head, 1.0)
        start(self.merged, 1.0)

    @classmethod
    def load(cls, path: Path) -> Reader:
        """A reader that `write` wrote.  UserError if the file is not there or holds something else."""
        reader = cls()
        with reading(path, "reader"):
            kept = reader.load_state_dict(load_file(path), strict=False)
            if kept.unexpected_keys or any(not name.startswith(_OF_TOKENS) for name in kept.missing_keys):
                raise ValueError(f"it has not the weights of {cls.__name__}")
        return reader

    def write(self, path: Path) -> None:
        """Write all weights but those of tokens, which the letters of patches do not train."""
        state = {
            name: weight for name, weight in self.state_dict().items() if not name.startswith(_OF_TOKENS)
        }
        with atomic_path(path) as temporary:
            save_file({name: weight.float().contiguous() for name, weight in state.items()}, temporary)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (n, rows, columns, SLOTS, SYMBOLS) of the letters of patches, by these and by tokens."""
        patches, tokens = self.tower(normalised(pictures))
        return self.told(patches), self.told_by(tokens)

    def told(self, patches: Tensor) -> Tensor:
        return self.head(patches).unflatten(-1, (SLOTS, SYMBOLS))

    def told_by(self, tokens: Tensor) -> Tensor:
        """The same scores by tokens (n, rows / MERGE, columns / MERGE, width)."""
        scores = self.merged(tokens).unflatten(-1, (MERGE, MERGE, SLOTS, SYMBOLS))
        return scores.transpose(2, 3).flatten(3, 4).flatten(1, 2)


def reading_loss(scores: Tensor, told: Tensor, clear: Tensor) -> Tensor:
    losses = F.cross_entropy(scores.float().flatten(0, -2), told.flatten(), reduction="none").view(told.shape)
    weight = torch.where((told > 0).any(-1), 1.0, EMPTY) * clear
    return (losses.mean(-1) * weight).sum() / weight.sum()


@torch.no_grad()
def letters_right(
    reader: Reader, size: tuple[int, int], count: int, seed: int = HELD_OUT, by_tokens: bool = False
) -> float:
    """The share of letters of invented words that patches or tokens tell: which it is, where there is one."""
    right = total = 0
    for crops in _held_crops(size, count, seed):
        pictures, told, clear = near(reader, crops)
        counted = (told > 0) & clear[..., None]
        which = reader(pictures)[by_tokens][..., 1:].argmax(-1) + 1
        right += (which == told)[counted].sum().item()
        total += counted.sum().item()
    return round(right / total, 4)


@cache
def _held_crops(size: tuple[int, int], count: int, seed: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    crops = Crops(["x"] * 60, 1.0)
    return [*batches(lambda rng: crops.draw(rng, size, 20), seed, range(count // 20))]


def whiten(tower: Tower, pictures: Tensor) -> None:
    """Begin the patch embedding with the principal components of patches, all of one variance."""
    count, _, height, width = pictures.shape
    tiles = pictures.view(count, 3, height // PATCH, PATCH, width // PATCH, PATCH)
    tiles = tiles.permute(0, 2, 4, 1, 3, 5).reshape(-1, 3 * PATCH**2)
    values, vectors = torch.linalg.eigh(torch.cov(tiles[tiles.std(-1) > 0.05].T))
    values, vectors = values.flip(0)[:TOWER_WIDTH], vectors.flip(1)[:, :TOWER_WIDTH]
    weight = 0.5 * (vectors / (values + values[0] * 2e-4).sqrt()).T
    with torch.no_grad():
        tower.patch_embed.proj.weight.copy_(weight.view_as(tower.patch_embed.proj.weight))


def train_letters(folder: Path, names: Sequence[str], steps: int, seed: int = 7) -> Reader:
    """Teach a tower letters; goes on where it was interrupted.

    Writes letters.pt and letters.jsonl, which has the shares of letters told on held-out crops by width.
    """
    torch.manual_seed(seed)
    reader, crops = Reader(), Crops(names, 0.7)
    ((pictures, *_),) = batches(lambda rng: crops.draw(rng, SIZES[0][0], 300), seed + 1, range(1))
    whiten(reader.tower, normalised(pictures))

    def loss_of(batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        pictures, told, clear = batch
        loss = reading_loss(reader(pictures)[0], told, clear)
        return loss, {"loss": loss}

    def measure() -> dict[str, float]:
        return {str(size[0]): letters_right(reader, size, 80) for size, *_ in SIZES}

    train(folder, "letters", reader, crops.drawn, loss_of, measure, steps, RATE, seed)
    return reader


def train_tokens(folder: Path, reader: Reader, names: Sequence[str], steps: int, seed: int = 9) -> None:
    """Teach the merger of a tower that reads to hand letters on; goes on where it was interrupted.

    Writes tokens.pt and tokens.jsonl, which has the shares of letters that tokens tell on held-out crops.
    """
    torch.manual_seed(seed)
    crops = Crops(names, 0.7)

    def loss_of(batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        pictures, told, clear = batch
        losses = [reading_loss(scores, told, clear) for scores in reader(pictures)]
        return sum(losses), dict(zip(("patches", "tokens"), losses, strict=True))

    def measure() -> dict[str, float]:
        return {f"{size[0]}{' by tokens' * told}": letters_right(reader, size, 80, by_tokens=told)
                for size, *_ in SIZES for told in (False, True)}  # fmt: skip

    slow = {*reader.tower.parameters(), *reader.head.parameters()} - {*reader.tower.merger.parameters()}
    train(folder, "tokens", reader, crops.drawn, loss_of, measure, steps, RATE, seed, slow, TOWER_RATE)


def train(
    folder: Path, stage: str, network: nn.Module, draw: Draw, loss_of: Loss,
    measure: Callable[[], dict[str, Any]], steps: int, rate: float, seed: int,
    slow: Collection[Tensor] = (), slowness: float = 1.0,
) -> None:  # fmt: skip
    """Take a stage's steps of AdamW; keeps its state in STAGE.pt, and goes on from there.

    `draw` gives a batch, `loss_of` its loss with figures.  The journal STAGE.jsonl has the running averages
    of these every `MEASURED` steps, with what `measure` finds.  The `slow` weights have `slowness` times the
    rate.
    """
    torch.set_flush_denormal(True)  # without it a masked softmax takes twice as long
    writes = number() == 0
    masters, log = Masters([network.to(DEVICE)]), Journal(folder / f"{stage}.jsonl", writes)
    rates = [(masters.of(slow), slowness), (masters.of({*network.parameters()} - {*slow}), 1.0)]
    groups = [{"params": weights, "lr": share * rate} for weights, share in rates if weights]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step, steps))
    path = folder / f"{stage}.pt"
    state = restored(path, masters, optimizer, schedule, log)
    began, averages = time.time() - state.get("seconds", 0.0), state.get("averages", {})
    left = range(state.get("done", 0) + 1, steps + 1)
    drawn = batches(draw, seed if writes else f"{seed}/{number()}", left)
    for done, batch in zip(left, drawn, strict=True):
        loss, figures = loss_of(near(network, batch))
        loss.backward()
        masters.take_gradients()
        optimizer.step()
        schedule.step()
        masters.hand_back()
        for name, figure in figures.items():
            new = figure.detach().float()
            averages[name] = 0.98 * averages.get(name, new) + 0.02 * new
        seconds = time.time() - began
        if writes and (done % MEASURED == 0 or done == steps):
            told = {name: round(float(average), 4) for name, average in averages.items()}
            log({"stage": stage, "step": done, "seconds": round(seconds), **told, **measure()})
        if writes and (done % EVERY == 0 or done == steps):
            kept = {"done": done, "averages": averages, "seconds": seconds}
            save(path, kept, masters, optimizer, schedule, log)


def rate_at(step: int, steps: int) -> float:
    """The share of the rate: a warm-up, then a cosine to 0."""
    return min(1.0, (step + 1) / WARM_UP) * (0.5 + 0.5 * math.cos(math.pi * step / max(1, steps)))


def save(
    path: Path, state: dict[str, Any], masters: Masters, optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler, log: Journal,
) -> None:  # fmt: skip
    parts = {"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(), "log": log.state_dict()}
    with atomic_path(path) as temporary:
        torch.save(parts | {"state": state, "weights": masters.weights}, temporary)


def restored(
    path: Path, masters: Masters, optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler, log: Journal,
) -> dict[str, Any]:  # fmt: skip
    """Load what `save` wrote, if it is there; the state, else {}."""
    if not path.is_file():
        return {}
    kept = torch.load(path, map_location=DEVICE, weights_only=True)
    with torch.no_grad():
        for weight, saved in zip(masters.weights, kept["weights"], strict=True):
            weight.copy_(saved)
    masters.hand_back()
    optimizer.load_state_dict(kept["optimizer"])
    schedule.load_state_dict(kept["schedule"])
    log.load_state_dict(kept["log"])
    return kept["state"]
