"""The network that is taught: tower and language model, with the helps that only training has.

Two attention heads are shown where the asked name is, a probe asks each image token for its row and column,
and each patch tells its letters.  Without them a network matches names and still does not click (measured:
67 % matched, 5 % inside).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from base_models.packing import COLUMNS, NOWHERE, ROWS, Packed
from base_models.plain import HEAD, PRECISION, WIDTH, LanguageModel, start
from base_models.seeing import Reader, reading_loss

WATCHED_LAYER, WATCHED_HEADS = 2, 2
WEIGHTS = {"reply": 1.0, "attention": 1.0, "place": 0.3, "reading": 1.0}  # of the losses


class Pointer(nn.Module):
    """Tower, head of letters, language model, and the probe of places."""

    def __init__(self, reader: Reader, vocabulary: int):
        super().__init__()
        self.reader, self.language = reader, LanguageModel(vocabulary)
        self.probe = nn.Linear(WIDTH, COLUMNS + ROWS)
        start(self.probe, 1.0)

    def states(self, batch: Packed, ids: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Last states and states by layer (n, length, width), and the tower's patches by size of picture."""
        x, patches = self.language.embed_tokens(ids), []
        flat = x.flatten(0, 1)
        for group in batch.pictures:
            of_patches, tokens = self.reader.tower(group.pixels.to(PRECISION))
            flat = flat.index_copy(0, group.at.flatten(), tokens.flatten(0, 2))
            patches.append(of_patches)
        return *self.language(flat.view_as(x), batch.positions, batch.mask), patches

    def losses(self, batch: Packed) -> dict[str, Tensor]:
        """The loss of replies, and those of the helps."""
        last, layers, patches = self.states(batch, batch.ids)
        learned = batch.labels != NOWHERE
        scores = self.language.logits(last[learned]).float()
        losses = {"reply": F.cross_entropy(scores, batch.labels[learned])}
        if len(batch.watching):
            losses["attention"] = self._attention_loss(batch)
        at, places = (torch.cat([getattr(g, name).flatten(0, 1) for g in batch.pictures])
                      for name in ("at", "places"))  # fmt: skip
        probed = self.probe(layers[1].flatten(0, 1)[at]).float().split((COLUMNS, ROWS), -1)
        losses["place"] = sum(F.cross_entropy(*pair) for pair in zip(probed, places.unbind(-1), strict=True))
        lettered = [
            reading_loss(self.reader.told(of_patches[group.lettered]), group.told, group.clear)
            for of_patches, group in zip(patches, batch.pictures, strict=True)
            if len(group.lettered)
        ]
        return losses | ({"reading": sum(lettered) / len(lettered)} if lettered else {})

    def _attention_loss(self, batch: Packed) -> Tensor:
        """Minus the logarithm of the attention that watched heads give to the tokens to look at."""
        query, key = self.language.layers[WATCHED_LAYER].self_attn.seen
        item, at = batch.watching.unbind(-1)
        query, key = query[item, :WATCHED_HEADS, at], key[item, :WATCHED_HEADS]
        scores = (key @ query[..., None])[..., 0].float() * HEAD**-0.5 + batch.mask[item, :, at].float()
        shares = scores.log_softmax(-1)
        return -shares.masked_fill(~batch.watched[:, None], -1e9).logsumexp(-1).mean()

    @torch.no_grad()
    def replies(self, batch: Packed) -> tuple[Tensor, Tensor]:
        """Whether each learned token is told by those before it (n, length); the points (p, 2) as tokens.

        Points are given greedily, both coordinates.
        """
        last, _, _ = self.states(batch, batch.ids)
        chosen = self.language.logits(last).argmax(-1)
        item, at = batch.points.unbind(-1)
        first, ids = chosen[item, at], batch.ids.clone()
        ids[item, at + 1] = first
        last, _, _ = self.states(batch, ids)
        second = self.language.logits(last[item, at + 1]).argmax(-1)
        return chosen == batch.labels, torch.stack((first, second), -1)


def slow_of(pointer: Pointer) -> set[Tensor]:
    """What reading has trained, which pointing changes slowly."""
    return {*pointer.reader.parameters()} - {*pointer.reader.tower.merger.parameters()}


def weighted(losses: dict[str, Tensor]) -> tuple[Tensor, dict[str, float]]:
    figures = {name: loss.item() for name, loss in losses.items()}
    return sum(WEIGHTS[name] * loss for name, loss in losses.items()), figures
