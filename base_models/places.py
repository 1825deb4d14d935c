"""An experiment on positions: can a language model tell in which column of a screen a token stands?

With m-RoPE's usual base of 10,000 and narrow heads, neighbouring columns have nearly one position.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from base_models.plain import HIDDEN, LanguageModel, Masters

COLUMNS, ROWS = 12, 6  # tokens of a screen here
_MARKED, _FIRST = COLUMNS + ROWS, COLUMNS + ROWS + 3  # after it what asks for column and row
_KINDS = 50  # of tokens that are not marked
BATCH, MEASURED = 32, 500  # screens a step, and behind each figure
RATE, WARM_UP = 3e-3, 50


def places_told(base: float, steps: int, every: int, seed: int = 0) -> Iterator[dict[str, float]]:
    """Teach a model of two layers to tell column and row of the one marked token among those of a screen.

    Gives every so many steps the shares that it tells of new screens; chance is 1 / COLUMNS and 1 / ROWS.
    """
    torch.manual_seed(seed)
    model = LanguageModel(_FIRST + _KINDS, layers=2, base=base)
    masters = Masters([model])
    optimizer = torch.optim.AdamW(masters.weights, lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / WARM_UP, total_iters=WARM_UP)
    for step in range(1, steps + 1):
        scores, places = _asked(model, BATCH)
        F.cross_entropy(scores.flatten(0, 1).float(), places.flatten()).backward()
        masters.take_gradients()
        optimizer.step()
        schedule.step()
        masters.hand_back()
        if step % every == 0:
            with torch.no_grad():
                scores, places = _asked(model, MEASURED)
            column, row = (scores.argmax(-1) == places).float().mean(0).tolist()
            yield {"step": step, "column": round(column, 3), "row": round(row, 3)}


def _asked(model: LanguageModel, count: int) -> tuple[Tensor, Tensor]:
    """Scores (n, 2, vocabulary) of column and row, and the right tokens (n, 2), of so many new screens."""
    size = ROWS * COLUMNS
    ids = _FIRST + torch.randint(_KINDS, (count, size))
    marked = torch.randint(size, (count,))
    ids[torch.arange(count), marked] = _MARKED
    ids = torch.cat((ids, torch.tensor([_MARKED + 1, _MARKED + 2]).expand(count, -1)), 1)
    grid = torch.arange(size)
    after = max(ROWS, COLUMNS) + torch.arange(2)
    axes = torch.zeros(size, dtype=torch.long), grid // COLUMNS, grid % COLUMNS
    positions = torch.stack([torch.cat((axis, after)) for axis in axes])[:, None].expand(-1, count, -1)
    mask = torch.full((size + 2, size + 2), HIDDEN).triu(1)
    states, *_ = model(model.embed_tokens(ids), positions, mask)
    places = torch.stack((marked % COLUMNS, COLUMNS + marked // COLUMNS), 1)
    return model.logits(states[:, -2:]), places
