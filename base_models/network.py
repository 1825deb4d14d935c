"""The network that is taught: tower and language model, with the helps that only training has.

Attention heads are shown where the asked name is, others where each letter to copy is.  A probe asks each
image token for its row and column, another one where the thing is whose name it shows; patches and tokens
tell their letters.  Without such helps a network matches names and still does not click (measured: 67 %
matched, 5 % inside).

Of those heads each has its line of a token's patches: a token may show two rows of a list, and which head has
found the name says which of them it is.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.utils import logging

from base_models.feeding import near
from base_models.letters import COORDINATES, processor
from base_models.packing import COLUMNS, NOWHERE, ROWS, Looking, Packed
from base_models.plain import HEAD, MERGE, WIDTH, LanguageModel, joined, start
from base_models.seeing import Reader, normalised, reading_loss
from coda_lib.files import atomic_path, reading
from coda_study.owned import replaced_folder

# layers whose first heads are shown where to look: a letter is looked for where the name has been found
FINDING, SPELLING, SHOWN = 2, 4, MERGE
NETWORK, HELPS = "model.safetensors", "helps.safetensors"  # files of what is published
_HELPING = ("probe", "pointed", "reader.head", "reader.merged")
WEIGHTS = {  # of the losses
    "reply": 1.0, "find": 1.0, "spell": 1.0, "place": 0.3, "named": 0.3, "letters": 1.0, "tokens": 1.0,
}  # fmt: skip


class Pointer(nn.Module):
    """Tower, head of letters, language model, and the probe of places."""

    def __init__(self, reader: Reader, vocabulary: int):
        super().__init__()
        self.reader, self.language = reader, LanguageModel(vocabulary)
        self.probe = nn.Linear(WIDTH, COLUMNS + ROWS)
        self.pointed = nn.Linear(WIDTH, MERGE * 2 * len(COORDINATES))
        start(self.probe, 1.0)
        start(self.pointed, 0.0)  # or it shakes a network that has learned without it

    def states(self, batch: Packed, ids: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
        """Last states of the questions' tokens (m, length, width); by layers those of what is shared.

        And, by size of picture, the tower's patches and tokens.  `ids` are the questions' tokens.
        """
        x, patches, merged = self.language.embed_tokens(batch.shared.ids), [], []
        flat = x.flatten(0, 1)
        for group in batch.pictures:
            of_patches, tokens = None, group.tokens
            if tokens is None:
                of_patches, tokens = self.reader.tower(normalised(group.pixels))
            flat = flat.index_copy(0, group.at.flatten(), tokens.flatten(0, 2))
            patches.append(of_patches)
            merged.append(tokens)
        _, layers, kept = self.language(flat.view_as(x), batch.shared.positions, batch.shared.mask)
        before = [(keys[batch.owner], values[batch.owner]) for keys, values in kept]
        x = self.language.embed_tokens(ids)
        last, _, _ = self.language(x, batch.asked.positions, batch.asked.mask, before)
        return last, layers, patches, merged

    def losses(self, batch: Packed) -> dict[str, Tensor]:
        """The loss of replies, and those of the helps."""
        last, layers, patches, merged = self.states(batch, batch.asked.ids)
        learned = batch.labels != NOWHERE
        scores = self.language.logits(last[learned]).float()
        losses = {"reply": F.cross_entropy(scores, batch.labels[learned])}
        for name, layer, looking in (("find", FINDING, batch.finding), ("spell", SPELLING, batch.spelling)):
            if len(looking):
                losses[name] = self._attention_loss(layer, looking, batch.asked.mask)
        if placed := [group for group in batch.pictures if (group.places != NOWHERE).any()]:
            at, places = (
                torch.cat([getattr(g, name).flatten(0, 1) for g in placed]) for name in ("at", "places")
            )
            probed = self.probe(layers[1].flatten(0, 1)[at]).float().split((COLUMNS, ROWS), -1)
            pairs = zip(probed, places.unbind(-1), strict=True)
            losses["place"] = sum(F.cross_entropy(*pair, ignore_index=NOWHERE) for pair in pairs)
        if any(len(group.named) for group in batch.pictures):
            at, line, *where = torch.cat([group.named for group in batch.pictures]).unbind(-1)
            told = self.pointed(layers[SPELLING - 1].flatten(0, 1)[at]).unflatten(-1, (MERGE, -1))
            told = told[torch.arange(len(at)), line].float().chunk(2, -1)
            losses["named"] = sum(F.cross_entropy(*pair) for pair in zip(told, where, strict=True))
        lettered = [
            (reading_loss(self.reader.told(of_patches[group.lettered]), group.told, group.clear),
             reading_loss(self.reader.told_by(tokens[group.lettered]), group.told, group.clear))
            for of_patches, tokens, group in zip(patches, merged, batch.pictures, strict=True)
            if len(group.lettered)
        ]  # fmt: skip
        if lettered:
            losses |= {name: sum(part) / len(part) for name, part in
                       zip(("letters", "tokens"), zip(*lettered, strict=True), strict=True)}  # fmt: skip
        return losses

    def _attention_loss(self, layer: int, looking: Looking, mask: Tensor) -> Tensor:
        """Minus the logarithm of the attention that a layer's heads give to the tokens to look at.

        Of a known line, its head's; the other heads should look at the first token.  Else their mean.
        """
        query, key = self.language.layers[layer].self_attn.seen
        question, at = looking.places.unbind(-1)
        query, key = query[question, :SHOWN, at], key[question, :SHOWN]
        scores = (key @ query[..., None])[..., 0].float() * HEAD**-0.5 + mask[question, :, at].float()
        shares = scores.log_softmax(-1)
        seen = shares.masked_fill(~looking.where[:, None], -1e9).logsumexp(-1)
        known = looking.line != NOWHERE
        own = F.one_hot(looking.line.clamp(min=0), SHOWN).bool()
        of_line = torch.where(own, seen, shares[..., 0] / (SHOWN - 1)).sum(-1)
        return -torch.where(known, of_line, seen.logsumexp(-1) - math.log(SHOWN)).mean()

    @torch.no_grad()
    def chosen(self, batch: Packed) -> Tensor:
        """The most likely token after each of the questions' tokens (m, length)."""
        last, *_ = self.states(batch, batch.asked.ids)
        return self.language.logits(last).argmax(-1)

    def told(self, batch: Packed) -> Tensor:
        """Whether each token to learn is the most likely one; true where nothing is learned (m, length)."""
        batch = near(self, batch)
        return (self.chosen(batch) == batch.labels) | (batch.labels == NOWHERE)

    @torch.no_grad()
    def replies(self, batch: Packed) -> tuple[Tensor, Tensor]:
        """Whether each token is told by those before it, where one is learned; the points (p, 2) as tokens.

        Points are given greedily, both coordinates.
        """
        batch = near(self, batch)
        chosen = self.chosen(batch)
        question, at = batch.points.unbind(-1)
        first, ids = chosen[question, at], batch.asked.ids.clone()
        ids[question, at + 1] = first
        last, *_ = self.states(batch, ids)
        second = self.language.logits(last[question, at + 1]).argmax(-1)
        right = (chosen == batch.labels) | (batch.labels == NOWHERE)
        return right.cpu(), torch.stack((first, second), -1).cpu()

    @classmethod
    def load(cls, path: Path) -> Pointer:
        """What `write` or `publish` wrote.  UserError if it is not there or holds something else."""
        pointer = cls(Reader(), len(processor().tokenizer))
        network = path / NETWORK if path.is_dir() else path
        with reading(network, "network"):
            state = load_file(network)
            if network != path:
                parts = {"visual": "reader.tower", "model": "language"}
                named = ((name.partition("."), weight) for name, weight in state.items())
                state = {f"{parts[part]}.{name}": weight for (part, _, name), weight in named}
                state |= load_file(path / HELPS)
            left = pointer.load_state_dict(state, strict=False)
            if left.unexpected_keys or any(not name.startswith("pointed.") for name in left.missing_keys):
                raise ValueError("it has other weights")
        return pointer

    def write(self, path: Path) -> None:
        """Write all weights, those of the helps too, in 16 bits: enough to go on from."""
        with atomic_path(path) as temporary:
            save_file(self._weights(), temporary)

    def publish(self, folder: Path) -> None:
        """Write what transformers loads, in 16 bits: a checkpoint as on a hub, with the helps beside it."""
        words = processor()
        network = joined(self.reader.tower, self.language, words.tokenizer)
        logging.disable_progress_bar()  # of the weights, which are few
        with replaced_folder(folder) as temporary:
            network.to(torch.bfloat16).save_pretrained(temporary)
            words.save_pretrained(temporary)
            helps = {name: weight for name, weight in self._weights().items() if name.startswith(_HELPING)}
            save_file(helps, temporary / HELPS)

    def _weights(self) -> dict[str, Tensor]:
        return {name: weight.to(torch.bfloat16).contiguous() for name, weight in self.state_dict().items()}


def slow_of(pointer: Pointer) -> set[Tensor]:
    """What reading has trained, which pointing changes slowly, or it is unlearned (measured)."""
    return {*pointer.reader.parameters()}


def weighted(losses: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum of the losses, and these."""
    return sum(WEIGHTS[name] * loss for name, loss in losses.items()), losses
