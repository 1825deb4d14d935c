"""What a network that sees looks at: letters told by patches, attention of heads that find names, replies.

Each is shown beside the same about another picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes

from base_models.asking import Page
from base_models.learning import packed
from base_models.network import FINDING, SHOWN, Pointer
from base_models.packing import TOKEN, Shown
from base_models.plain import HEAD, PATCH
from base_models.rows import Row, swap_pictures
from base_models.seeing import SYMBOLS, letters_of_patches, normalised, stacked
from coda_lib.models.chat import Sampling
from coda_lib.models.local import LocalModel
from coda_study.owned import claim
from coda_study.show.figures import GREEN, GREY, VERMILION, Sheet, styled


@torch.no_grad()
def letters_told(pointer: Pointer, page: Page, labels: Page | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The letter that each patch of a page's picture tells (rows, columns), and the right ones ("" for none).

    With `labels` the right ones are those of another page.
    """
    shown, other = picture_of(page), picture_of(labels or page)
    patches, _ = pointer.reader.tower(normalised(stacked([shown.pixels])))
    told = pointer.reader.told(patches)[0, :, :, 0, 1:].argmax(-1).numpy() + 1
    right, _ = letters_of_patches(other.letters, other.pixels.shape[1::-1])
    return np.vectorize(_letter)(told), np.vectorize(_letter)(right[..., 0])


@torch.no_grad()
def attention(pointer: Pointer, page: Page, number: int, shown: Page | None = None) -> np.ndarray:
    """The attention (rows, columns of tokens) of the head that finds, as the reply's point is chosen.

    To question `number` of a page, about its picture or that of another page.  Each head has a line of a
    token's patches: this is the one that looks most at the picture.
    """
    page = page.seen_as(picture_of(shown).pixels) if shown else page
    question = page.item.questions[number]
    batch = packed([page.item])
    pointer.states(batch, batch.asked.ids)
    query, key = pointer.language.layers[FINDING].self_attn.seen
    at = len(question.prompt) + question.points[0]
    scores = (key[number, :SHOWN] @ query[number, :SHOWN, at, :, None])[..., 0].float() * HEAD**-0.5
    (pictures,) = batch.pictures
    shares = (scores + batch.asked.mask[number, :, at].float()).softmax(-1)[:, pictures.at[0]]
    return max(shares, key=torch.sum).view(picture_of(page).grid).numpy()


def reply_table(pointer: Pointer, rows: Sequence[Row]) -> pd.DataFrame:
    """The first lines of replies to some rows, greedy: right ones, own, and with the next row's last picture.

    Asked as the kit asks a model.
    """
    turned = [swap_pictures(row, lambda other=other: other.pictures[-1])
              for row, other in zip(rows, [*rows[1:], rows[0]], strict=True)]  # fmt: skip
    with TemporaryDirectory() as folder:
        claim(models := Path(folder) / "models", "models")
        pointer.publish(models / "network")
        model = LocalModel(models / "network", device="cpu")
        asked, greedy = [row.messages for row in (*rows, *turned)], Sampling(temperature=0.0)
        replies = [reply.partition("\n")[0] for reply in model.generate(asked, greedy, 0)]
    return pd.DataFrame({
        "asked": [row.messages[-1]["content"][-1]["text"].strip().splitlines()[0] for row in rows],
        "right": [row.reply.partition("\n")[0] for row in rows],
        "reply": replies[: len(rows)],
        "with another screen": replies[len(rows) :],
    })  # fmt: skip


def picture_of(page: Page) -> Shown:
    return next(part for part in page.item.shared if isinstance(part, Shown))


@styled
def letters_figure(pointer: Pointer, page: Page, other: Page) -> Sheet:
    """The letters told by patches where a page has one, right and wrong, beside another picture's."""
    sheet = Sheet(figsize=(11, 3.3))
    for ax, shown, title in zip(sheet.subplots(1, 2), (page, other), ("its own picture", "another picture"),
                                strict=True):  # fmt: skip
        told, right = letters_told(pointer, shown, page)
        hits = told[right != ""] == right[right != ""]
        _picture(ax, shown, f"{title}: {hits.mean():.0%} of {hits.size} letters told")
        for row, column in np.argwhere(right != ""):
            good = told[row, column] == right[row, column]
            place = (column + 0.5) * PATCH, (row - 0.7) * PATCH
            ax.text(*place, told[row, column], color=GREEN if good else VERMILION, ha="center", va="center",
                    fontsize=10, weight="bold")  # fmt: skip
    return sheet


@styled
def attention_figure(pointer: Pointer, page: Page, other: Page, numbers: Sequence[int]) -> Sheet:
    """Where the heads look for the names of some questions, beside the same with another picture."""
    sheet = Sheet(figsize=(11, 3.6 * len(numbers)))
    for axes, number in zip(sheet.subplots(len(numbers), 2, squeeze=False), numbers, strict=True):
        element = page.about[number]
        for ax, shown in zip(axes, (page, other), strict=True):
            weights = attention(pointer, page, number, None if shown is page else other)
            _picture(ax, shown, f"{element.name}: {weights.max():.0%} on one token")
            rows, columns = weights.shape
            ax.imshow(weights, cmap="Reds", alpha=0.6, extent=(0, columns * TOKEN, rows * TOKEN, 0), vmin=0)
    return sheet


def _letter(symbol: int) -> str:
    return "" if symbol == 0 else chr(symbol + 31) if symbol < SYMBOLS - 1 else "?"


def _picture(ax: Axes, page: Page, title: str) -> None:
    ax.imshow(picture_of(page).pixels, alpha=0.45)
    ax.set_title(title, color=GREY)
    ax.set_axis_off()
