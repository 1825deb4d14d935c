"""What the vision towers learn to read: letters and the names of what covers a screen (`train_vision`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import Qwen2_5_VLForConditionalGeneration as Network
from transformers.vision_utils import get_vision_window_index

from base_models.rows import LabelledScreen
from sciencedesk.desk.desk import HEIGHT, WIDTH

_LETTERS = 3  # slots for the letters of a patch: it has room for two or three
_SPELLED = 12  # slots for the letters of a name
_SYMBOLS = 97  # none, printable ASCII, any other


def fast_products() -> torch.autocast:
    """Products in bfloat16 where the processor has them (four times as fast); elsewhere far slower."""
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu.get_capabilities()["avx512_bf16"])


class ReadingHeads:
    """What the vision tower's last layer has to tell of each patch: the letters in it, and what covers it.

    Of a name the first eight letters and the last four are labels, so that names are spelled, not known by
    heart.  Names are labels on all screens, letters on pages alone.  An element weighs as much as the root of
    its patches.
    """

    def __init__(self, network: Network, seed: int):
        torch.manual_seed(seed)
        self._vision = network.config.vision_config
        width = self._vision.hidden_size
        self.heads = nn.ModuleList([nn.Linear(width, n * _SYMBOLS) for n in (_LETTERS, _SPELLED)])
        self._chance = torch.Generator().manual_seed(seed)

    def state_dict(self) -> dict[str, Any]:
        return {"heads": self.heads.state_dict(), "chance": self._chance.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.heads.load_state_dict(state["heads"])
        self._chance.set_state(state["chance"])

    def loss(
        self, patches: torch.Tensor, grid: torch.Tensor, screens: Sequence[LabelledScreen], names: float = 1.0
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """The loss of a tower's patches (n, width); shares of right letters, of patches with the whole name.

        `grid` (screens, 3) are the screens' sizes in patches; `names` is the weight of names.  Of the empty
        patches, which are most, one in twenty is drawn: else the tower would learn to say so.
        """
        patches = self._in_order(patches, grid)
        letters, of_page = _joined(map(self._letters, screens))
        spelled, weight = _joined(map(self._names, screens))
        drawn = torch.rand(len(patches), generator=self._chance) < 0.05
        has_weight = (((letters > 0).any(-1) | drawn) & of_page).float()
        of_letters, right = self._head_loss(0, patches, letters, has_weight)
        weight = torch.where(drawn & (weight == 0), weight[weight > 0].mean(), weight)
        of_names, spelt = self._head_loss(1, patches, spelled, weight)
        known, named = right[letters > 0].float().mean(), spelt.all(-1)[spelled.any(-1)].float().mean()
        return of_letters + names * of_names, {"letters": known.item(), "names": named.item()}

    def _head_loss(
        self, number: int, patches: torch.Tensor, label: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """A head's loss, 0 where nothing has a weight; whether it is right by patch and letter (n, slots)."""
        drawn, right = weight > 0, torch.zeros(label.shape, dtype=torch.bool)
        with fast_products():
            logits = self.heads[number](patches[drawn]).float().view(-1, label.shape[1], _SYMBOLS)
        right[drawn] = logits.argmax(-1) == label[drawn]
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), label[drawn].flatten(), reduction="none")
        by_patch = losses.view(-1, label.shape[1]).mean(-1)
        return (by_patch * weight[drawn]).sum() / weight.sum().clamp(min=1e-6), right

    def _in_order(self, patches: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        """The patches as they came in: the tower works on them in the order of its windows."""
        vision = self._vision
        sizes = vision.spatial_merge_size, vision.window_size, vision.patch_size
        order, _ = get_vision_window_index(grid, *sizes)
        merged = patches.view(-1, sizes[0] ** 2, patches.shape[-1])
        return merged[torch.argsort(order)].flatten(0, 1)

    def _no_labels(self, slots: int) -> np.ndarray:
        """Labels (rows, columns, slots), all 0."""
        side = self._vision.patch_size
        return np.zeros((HEIGHT // side, WIDTH // side, slots), np.int64)

    def _by_patch(self, grid: np.ndarray) -> np.ndarray:
        """Labels (rows, columns[, slots]) as (patches, slots), in the order of the tower's patches."""
        k, (rows, columns) = self._vision.spatial_merge_size, grid.shape[:2]
        tiles = grid.reshape(rows // k, k, columns // k, k, -1).swapaxes(1, 2)
        return tiles.reshape(rows * columns, -1)

    def _letters(self, screen: LabelledScreen) -> tuple[np.ndarray, np.ndarray]:
        """Labels (patches, slots): first letters whose middle lies in each patch; whether they are known."""
        grid, patch, count = self._no_labels(_LETTERS), self._vision.patch_size, Counter()
        for x, y, letter in sorted(screen.letters):
            place = row, column = int(y // patch), int(x // patch)
            is_inside = row < len(grid) and 0 <= column < grid.shape[1]
            if letter != " " and is_inside and count[place] < _LETTERS:
                grid[place][count[place]] = _symbol(letter)
                count[place] += 1
        labels = self._by_patch(grid)
        return labels, np.full(len(labels), bool(screen.letters))

    def _names(self, screen: LabelledScreen) -> tuple[np.ndarray, np.ndarray]:
        """Labels (patches, slots): spelled name of the element on top; its weight (patches), 0 without."""
        grid = self._no_labels(_SPELLED)
        weight = np.zeros(grid.shape[:2], np.float32)
        for element in sorted(screen.elements, key=lambda e: -e.box[2] * e.box[3]):
            x, y, w, h = (side / self._vision.patch_size for side in element.box)
            top, left = round(y), round(x)
            covered = np.s_[top : max(top + 1, round(y + h)), left : max(left + 1, round(x + w))]
            if weight[covered].size:
                grid[covered], weight[covered] = _spelling(element.name), weight[covered].size ** -0.5
        return self._by_patch(grid), self._by_patch(weight)[:, 0]


def _joined(labels: Iterable[tuple[np.ndarray, ...]]) -> list[torch.Tensor]:
    """The labels of several screens, each kind in one tensor."""
    return [torch.from_numpy(np.concatenate(parts)) for parts in zip(*labels, strict=True)]


@cache
def _spelling(name: str) -> np.ndarray:
    letters = f"{name[:8]:\0<8}{name[-4:]:\0>4}"
    return np.array([0 if letter == "\0" else _symbol(letter) for letter in letters])


def _symbol(letter: str) -> int:
    """A letter's number; 0 is no letter."""
    return ord(letter) - 31 if " " <= letter <= "~" else _SYMBOLS - 1
