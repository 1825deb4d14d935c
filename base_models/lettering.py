"""Where each letter of a text stands on a real screen, as a tower that tells letters sees it.

An application says where its widgets are and not where their letters are.  Heads that read are shown the very
letters, or a network spells what is not there; on pages these are known, here they are found.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image

from base_models.plain import MERGE
from base_models.seeing import Reader, normalised, stacked, symbol

SURE = -1.0  # nats: mean log probability of its letters above which a text counts as found
_WIDEST = 2  # patches from a letter to the next one, at most


@torch.no_grad()
def letter_scores(reader: Reader, picture: Image.Image) -> np.ndarray:
    """Log probabilities of letters (rows, columns, symbols) of a picture's patches, the better slot's."""
    patches, _ = reader.tower(normalised(stacked([np.asarray(picture)])))
    return reader.told(patches)[0].float().log_softmax(-1).amax(-2).numpy()


def tokens_of_letters(scores: np.ndarray, text: str, tokens: Sequence[int]) -> tuple[int, list[int]] | None:
    """The line of patches and the token of each letter of a text that stands in one line on some of `tokens`.

    None if it stands nowhere there.  Letters follow each other to the right, at most two in a patch side by
    side.
    """
    across = scores.shape[1] // MERGE
    rows, columns = np.divmod(np.asarray(tokens), across)
    top, left = rows.min() * MERGE, columns.min() * MERGE
    region = scores[top : (rows.max() + 1) * MERGE, left : (columns.max() + 1) * MERGE]
    best, came = np.zeros(region.shape[:2]), []
    for letter in text:
        before = np.full((_WIDEST + 1, *best.shape), -np.inf)
        for step in range(_WIDEST + 1 if came else 1):
            before[step, :, step:] = best[:, : best.shape[1] - step]
        came.append(before.argmax(0))
        best = before.max(0) + (0.0 if letter == " " else region[..., symbol(letter)])
    row, column = np.unravel_index(best.argmax(), best.shape)
    if best[row, column] < SURE * len(text):
        return None
    found = []
    for steps in reversed(came):
        found.append(int((top + row) // MERGE * across + (left + column) // MERGE))
        column -= steps[row, column]
    return int(top + row) % MERGE, found[::-1]
