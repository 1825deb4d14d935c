"""What the vision towers learn to read: letters and the names of what covers a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import Qwen2_5_VLForConditionalGeneration as Network
from transformers.vision_utils import get_vision_window_index

from base_models.rows import Shown
from sciencedesk.desk.desk import HEIGHT, WIDTH

_LETTERS = 3  # of a patch that are told: it has room for two or three
_SPELLED = 12  # letters of a name that are told
_SYMBOLS = 97  # none, printable ASCII, any other


def fast_products() -> torch.autocast:
    """Products in bfloat16 where the processor has them; elsewhere they would be far slower."""
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu.get_capabilities()["avx512_bf16"])


class Reading:
    """What the vision tower has to tell of each patch of a screen, by its last layer: the letters in it, and
    what covers it.

    Of a name the first eight letters and the last four are told, so that names are spelled, not known by
    heart.  Names are told of all screens, letters of pages alone.  An element weighs as much as the root of
    its patches.
    """

    def __init__(self, network: Network, seed: int):
        torch.manual_seed(seed)
        self._vision = network.config.vision_config
        self.heads = nn.ModuleList(
            [nn.Linear(self._vision.hidden_size, n * _SYMBOLS) for n in (_LETTERS, _SPELLED)]
        )
        self._chance = torch.Generator().manual_seed(seed)

    def state_dict(self) -> dict[str, Any]:
        return {"heads": self.heads.state_dict(), "chance": self._chance.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.heads.load_state_dict(state["heads"])
        self._chance.set_state(state["chance"])

    def loss(
        self, patches: torch.Tensor, grid: torch.Tensor, shown: Sequence[Shown], names: float = 1.0
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """The loss of the tower's patches (n, width), and the shares of right letters, and of patches with
        their whole name.

        `grid` (screens, 3) are the screens' sizes in patches, `shown` is what they show; `names` is the
        weight of names.  Of the empty patches, which are most, one in twenty is drawn: else the tower would
        learn to say so.
        """
        patches = self._in_order(patches, grid)
        letters, of_page = (
            torch.from_numpy(np.concatenate(part)) for part in zip(*map(self._letters, shown), strict=True)
        )
        spelled, weight = (
            torch.from_numpy(np.concatenate(part)) for part in zip(*map(self._names, shown), strict=True)
        )
        some = torch.rand(len(patches), generator=self._chance) < 0.05
        of_letters, right = self._told(
            0, patches, letters, (((letters > 0).any(-1) | some) & of_page).float()
        )
        weight = torch.where(some & (weight == 0), weight[weight > 0].mean(), weight)
        of_names, spelt = self._told(1, patches, spelled, weight)
        known, named = right[letters > 0].float().mean(), spelt.all(-1)[spelled.any(-1)].float().mean()
        return of_letters + names * of_names, {"letters": known.item(), "names": named.item()}

    def _told(
        self, number: int, patches: torch.Tensor, label: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss of a head, 0 without a weight, and whether it is right: (n, slots)."""
        drawn, right = weight > 0, torch.zeros(label.shape, dtype=torch.bool)
        with fast_products():
            logits = self.heads[number](patches[drawn]).float().view(-1, label.shape[1], _SYMBOLS)
        right[drawn] = logits.argmax(-1) == label[drawn]
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), label[drawn].flatten(), reduction="none")
        each = losses.view(-1, label.shape[1]).mean(-1)
        return (each * weight[drawn]).sum() / weight.sum().clamp(min=1e-6), right

    def _in_order(self, patches: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        """The patches as they came in: the tower works on them in the order of its windows."""
        merged, window, patch = (
            self._vision.spatial_merge_size,
            self._vision.window_size,
            self._vision.patch_size,
        )
        order, _ = get_vision_window_index(
            grid, spatial_merge_size=merged, window_size=window, patch_size=patch
        )
        return patches.view(-1, merged**2, patches.shape[-1])[torch.argsort(order)].flatten(0, 1)

    def _in_patches(self, slots: int) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Labels (rows, columns, slots), all 0, and a function that orders them as the tower's patches."""
        k = self._vision.spatial_merge_size
        rows, columns = HEIGHT // self._vision.patch_size, WIDTH // self._vision.patch_size
        return (
            np.zeros((rows, columns, slots), np.int64),
            lambda grid: (
                grid.reshape(rows // k, k, columns // k, k, -1).swapaxes(1, 2).reshape(rows * columns, -1)
            ),
        )

    def _letters(self, shown: Shown) -> tuple[np.ndarray, np.ndarray]:
        """Labels (patches, slots): the first letters whose middle lies in each patch; whether they are known."""
        grid, ordered = self._in_patches(_LETTERS)
        patch, count = self._vision.patch_size, Counter()
        for x, y, letter in sorted(shown.letters):
            place = int(y // patch), int(x // patch)
            if (
                letter != " "
                and place[0] < len(grid)
                and 0 <= place[1] < grid.shape[1]
                and count[place] < _LETTERS
            ):
                grid[place][count[place]] = _symbol(letter)
                count[place] += 1
        labels = ordered(grid)
        return labels, np.full(len(labels), bool(shown.letters))

    def _names(self, shown: Shown) -> tuple[np.ndarray, np.ndarray]:
        """Labels (patches, slots): the topmost element's name; its weight (patches), 0 without one."""
        grid, ordered = self._in_patches(_SPELLED)
        patch, weight = self._vision.patch_size, np.zeros(grid.shape[:2], np.float32)
        for element in sorted(shown.elements, key=lambda e: -e.box[2] * e.box[3]):
            x, y, w, h = element.box
            covered = (slice(round(y / patch), max(round(y / patch) + 1, round((y + h) / patch))),
                       slice(round(x / patch), max(round(x / patch) + 1,
                       round((x + w) / patch))))  # fmt: skip
            if weight[covered].size:
                grid[covered], weight[covered] = _spelling(element.name), weight[covered].size ** -0.5
        return ordered(grid), ordered(weight)[:, 0]


@cache
def _spelling(name: str) -> np.ndarray:
    return np.array(
        [0 if letter == "\0" else _symbol(letter) for letter in f"{name[:8]:\0<8}{name[-4:]:\0>4}"]
    )


def _symbol(letter: str) -> int:
    """A letter's number; 0 is no letter."""
    return ord(letter) - 31 if " " <= letter <= "~" else _SYMBOLS - 1
