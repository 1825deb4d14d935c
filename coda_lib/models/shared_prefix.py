"""Prompts that share a beginning, encoded once: for several replies, and for the loss of a group.

A GRPO group is G plans for one state, so stock training encodes each state's pictures and prompt G times in
every pass.  Here a state is encoded once, with the same log-probabilities and the same gradient (compare
Prefix Grouper, arXiv 2506.05433).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import Cache, DynamicCache, GenerationConfig, Qwen2_5_VLForConditionalGeneration
from transformers.cache_utils import DynamicLayer


@dataclass(frozen=True)
class Prompt:
    """A prompt of n tokens without padding, its pictures in place."""

    ids_n: torch.Tensor
    positions_3n: torch.Tensor  # temporal, height and width, as of Qwen2.5-VL's multimodal rotary embedding
    embedded_nd: torch.Tensor
    pictures_end: int  # tokens up to the last one of a picture, which it includes

    def part(self, start: int | None, stop: int | None) -> Prompt:
        cut = slice(start, stop)
        return Prompt(self.ids_n[cut], self.positions_3n[:, cut], self.embedded_nd[cut], self.pictures_end)


def prompts_of(
    network: Qwen2_5_VLForConditionalGeneration, inputs: Any, seen: torch.Tensor | None = None
) -> list[Prompt]:
    """The prompts of a padded batch; `seen` are the features of its pictures, where known already."""
    ids_BL, mask_BL = inputs["input_ids"], inputs["attention_mask"].bool()
    embedded_BLd = network.get_input_embeddings()(ids_BL)
    is_picture_BL = ids_BL == network.config.image_token_id
    if inputs.get("image_grid_thw") is None:
        positions_3BL = (mask_BL.cumsum(-1) - 1).expand(3, -1, -1)
    else:
        grids = inputs["image_grid_thw"]
        seen = features(network, inputs["pixel_values"], grids) if seen is None else seen
        embedded_BLd = embedded_BLd.masked_scatter(is_picture_BL[..., None], seen.to(embedded_BLd))
        positions_3BL = network.model.get_rope_index(
            ids_BL, is_picture_BL.int(), image_grid_thw=grids, attention_mask=mask_BL
        )[0]
    prompts = []
    for b, real in enumerate(mask_BL):
        pictures = is_picture_BL[b, real].nonzero()
        end = int(pictures[-1]) + 1 if len(pictures) else 0
        prompts.append(Prompt(ids_BL[b, real], positions_3BL[:, b, real], embedded_BLd[b, real], end))
    return prompts


def distinct(names: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """The index of the first of each name, in order, and for each name which of these it is.

    >>> distinct(["b", "a", "b"])
    ([0, 1], [0, 1, 0])
    """
    order = {name: n for n, name in enumerate(dict.fromkeys(names))}
    return [names.index(name) for name in order], [order[name] for name in names]


def of_like_length(lengths: Sequence[int], waste: float = 0.1) -> list[list[int]]:
    """Indices in parts with a share `waste` of padding at most, short to long; one part if it has a third.

    >>> of_like_length([100, 30, 101, 33])
    [[1, 3], [0, 2]]
    >>> of_like_length([100, 80, 101, 79])  # rounding depends on the part, and is that of `generate` here
    [[0, 1, 2, 3]]
    """
    if 3 * sum(lengths) >= 2 * max(lengths) * len(lengths):
        return [list(range(len(lengths)))]
    parts: list[list[int]] = []
    real = 0  # tokens of the last part
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        real += lengths[i]
        if not parts or real < (1 - waste) * lengths[i] * (len(parts[-1]) + 1):
            parts.append([])
            real = lengths[i]
        parts[-1].append(i)
    return parts


def features(
    network: Qwen2_5_VLForConditionalGeneration, pixels: torch.Tensor, grids_K3: torch.Tensor
) -> torch.Tensor:
    """Features of K pictures, one below another: image tokens x width."""
    return torch.cat(network.model.get_image_features(pixels, grids_K3).pooler_output)


def sample(
    network: Qwen2_5_VLForConditionalGeneration, prompts: Sequence[Prompt], rows: Sequence[int],
    config: GenerationConfig,
    pictures: Sequence[Hashable] | None = None,
) -> torch.Tensor:  # fmt: skip
    """A reply for each of `rows`, indices of `prompts`: ids, replies x longest, padded behind the end.

    Each prompt is encoded once, and replies that have ended are no longer computed.  `pictures` names the
    beginning of each prompt up to its last picture; equal beginnings are encoded once, too.  The tokens are
    those of `network.generate` on the repeated prompts, drawn from the same random numbers, up to rounding.
    """
    device, config = network.device, network._prepare_generation_config(config)[0]
    if (
        pictures is not None
        and len(set(pictures)) < len(pictures)
        and all(prompt.pictures_end for prompt in prompts)
    ):
        first = {name: prompt for name, prompt in reversed(list(zip(pictures, prompts, strict=True)))}
        order = {name: index for index, name in enumerate(first)}
        state = _State.of(network, [prompt.part(None, prompt.pictures_end) for prompt in first.values()])
        state = state.select([order[name] for name in pictures])
        state = state.read(network, [prompt.part(prompt.pictures_end, None) for prompt in prompts])
    else:
        state = _State.of(network, prompts)
    state = state.select(rows)
    ids_NL = pad_sequence([prompts[r].ids_n for r in rows], True, config.pad_token_id, padding_side="left")
    longest = ids_NL.shape[1]
    warp = network._get_logits_processor(config, input_ids_seq_length=longest, logits_processor=[])
    ends = torch.as_tensor(config.eos_token_id, device=device)
    ended_N = torch.zeros(len(rows), dtype=torch.bool, device=device)
    open_M = torch.arange(len(rows), device=device)  # the replies that `state` has a row for
    while True:
        scores_MV = warp(ids_NL[open_M], network.lm_head(state.last_Nd).float())
        scores_NV = scores_MV.new_zeros(len(rows), scores_MV.shape[1])
        scores_NV[open_M] = scores_MV
        if config.do_sample:  # for ended replies too: as many random numbers are drawn as by `generate`
            token_N = torch.multinomial(torch.softmax(scores_NV, dim=-1), 1)[:, 0]
        else:
            token_N = scores_NV.argmax(dim=-1)
        token_N = token_N.masked_fill(ended_N, config.pad_token_id)
        ids_NL = torch.cat([ids_NL, token_N[:, None]], dim=1)
        ended_N = ended_N | torch.isin(token_N, ends)
        if ended_N.all() or ids_NL.shape[1] - longest == config.max_new_tokens:
            return ids_NL[:, longest:]
        still = (~ended_N[open_M]).nonzero()[:, 0]
        if 2 * len(still) <= len(open_M):  # not at each end: taking rows out copies all others
            state, open_M = state.select(still), open_M[still]
        state = state.step(network, token_N[open_M])


class _RoomyLayer(DynamicLayer):
    """Keys and values with room for more: transformers' own layer copies all of them for every token."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if not start or end > self.room[0].shape[-2]:
            more = end // 4 + 32
            self.room = tuple(
                new.new_empty((*new.shape[:-2], end + more, new.shape[-1]))
                for new in (key_states, value_states)
            )
            if start:
                self.room[0][..., :start, :], self.room[1][..., :start, :] = self.keys, self.values
        for room, new in zip(self.room, (key_states, value_states), strict=True):
            room[..., start:end, :] = new
        self.keys, self.values = (room[..., :end, :] for room in self.room)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self.room = self.keys, self.values  # full


@dataclass
class _State:
    """What a network has read: keys, values and mask; the last token's hidden state and position."""

    cache: Cache
    mask_NL: torch.Tensor
    last_Nd: torch.Tensor
    position_N: torch.Tensor  # all three are equal: the last token is text

    @classmethod
    def of(cls, network: Qwen2_5_VLForConditionalGeneration, prompts: Sequence[Prompt]) -> _State:
        """Prompts of like length are read together: each is padded to the longest of these, not of all."""
        config = network.config.get_text_config()
        # a layer with a window forgets, so rows cannot be joined later
        if set(config.layer_types) != {"full_attention"}:
            return cls._empty(DynamicCache(config=config), prompts).read(network, prompts)
        parts = of_like_length([len(prompt.ids_n) for prompt in prompts])
        states = []
        for part in parts:
            alike = [prompts[i] for i in part]
            states.append(cls._empty(Cache(layer_class_to_replicate=_RoomyLayer), alike).read(network, alike))
        return (
            states[0] if len(states) == 1 else cls._joined(states).select(np.argsort(np.concatenate(parts)))
        )

    @classmethod
    def _empty(cls, cache: Cache, prompts: Sequence[Prompt]) -> _State:
        nothing = prompts[0].ids_n.new_zeros(len(prompts), 0)
        return cls(cache, nothing, nothing, nothing)

    @classmethod
    def _joined(cls, states: Sequence[_State]) -> _State:
        """One state with the rows of all, one below another, padded behind what each has read."""
        masks = [state.mask_NL for state in states]
        longest = max(mask.shape[1] for mask in masks)
        cache = Cache(layer_class_to_replicate=_RoomyLayer)
        for i, layers in enumerate(zip(*(state.cache.layers for state in states), strict=True)):
            cache.update(*(
                torch.cat([pad(kept, (0, 0, 0, longest - kept.shape[-2])) for kept in of_states])
                for of_states in ([layer.keys for layer in layers], [layer.values for layer in layers])
            ), i)  # fmt: skip
        last, position = (
            torch.cat(parts) for parts in zip(*((s.last_Nd, s.position_N) for s in states), strict=True)
        )
        return cls(
            cache, torch.cat([pad(mask, (0, longest - mask.shape[1])) for mask in masks]), last, position
        )

    def read(self, network: Qwen2_5_VLForConditionalGeneration, prompts: Sequence[Prompt]) -> _State:
        """Read one more prompt, or one more part of it, in each row."""
        embedded_NLd = pad_sequence([prompt.embedded_nd for prompt in prompts], batch_first=True)
        positions_3NL = pad_sequence([prompt.positions_3n.T for prompt in prompts], batch_first=True).permute(
            2, 0, 1
        )
        real_NL = pad_sequence([torch.ones_like(prompt.ids_n) for prompt in prompts], batch_first=True)
        last_N = real_NL.sum(dim=1) - 1
        every = torch.arange(len(prompts), device=last_N.device)
        hidden_NLd = self._forward(network, embedded_NLd, positions_3NL, real_NL)
        return _State(self.cache, self.mask_NL, hidden_NLd[every, last_N], positions_3NL[0, every, last_N])

    def step(self, network: Qwen2_5_VLForConditionalGeneration, token_N: torch.Tensor) -> _State:
        position_N = self.position_N + 1
        embedded_N1d = network.get_input_embeddings()(token_N[:, None])
        positions_3N1 = position_N[None, :, None].expand(3, -1, -1)
        hidden_N1d = self._forward(network, embedded_N1d, positions_3N1, torch.ones_like(token_N)[:, None])
        return _State(self.cache, self.mask_NL, hidden_N1d[:, 0], position_N)

    def select(self, rows: Sequence[int]) -> _State:
        """These rows, each as often as it is named."""
        index = torch.as_tensor(rows, device=self.mask_NL.device)
        self.cache.batch_select_indices(index)
        return _State(self.cache, self.mask_NL[index], self.last_Nd[index], self.position_N[index])

    def _forward(
        self, network: Any, embedded: torch.Tensor, positions: torch.Tensor, real: torch.Tensor
    ) -> torch.Tensor:
        self.mask_NL = torch.cat([self.mask_NL, real], dim=1)
        where = {"attention_mask": self.mask_NL, "position_ids": positions, "past_key_values": self.cache}
        return network.model.language_model(inputs_embeds=embedded, use_cache=True, **where).last_hidden_state


@dataclass(frozen=True)
class GroupRows:
    """One row for each state: its prompt but for the last token, then that token and a plan, G times.

    Each plan attends to the prompt and to itself, at the positions that it would have behind the prompt
    alone.  The last token of the prompt opens every plan, so that each token of a plan is predicted by the
    one before it.
    """

    ids_SL: torch.Tensor
    positions_3SL: torch.Tensor
    mask_S1LL: torch.Tensor  # which tokens attend to which
    labels_SL: torch.Tensor  # the plans' tokens, else -100
    # row and column of each plan's tokens; any column for padding
    places_NT: tuple[torch.Tensor, torch.Tensor]

    @classmethod
    def of(
        cls, prompts_SP: torch.Tensor, real_SP: torch.Tensor, positions_3SP: torch.Tensor,
        plans_NT: torch.Tensor, real_NT: torch.Tensor, states: Sequence[int],
    ) -> GroupRows:  # fmt: skip
        """`states` are the rows of `prompts_SP`, which are padded on the left, that the plans belong to."""
        device, prompt, tokens = plans_NT.device, prompts_SP.shape[1], plans_NT.shape[1]
        length_N, ends, start_N = real_NT.sum(dim=1) + 1, [prompt - 1] * len(prompts_SP), []
        for state, length in zip(states, length_N.tolist(), strict=True):
            start_N.append(ends[state])
            ends[state] += length
        nth_T = torch.arange(tokens + 1, device=device)
        column_NT = torch.tensor(start_N, device=device)[:, None] + nth_T
        state_N1 = torch.as_tensor(states, device=device)[:, None]
        real = nth_T < length_N[:, None]
        places = state_N1.expand_as(column_NT)[real], column_NT[real]

        def filled(prompts: torch.Tensor, plans: torch.Tensor, nothing: int = 0) -> torch.Tensor:
            """Prompts, and behind them plans of one token more, which comes first."""
            whole = prompts.new_full((*prompts.shape[:-1], max(ends)), nothing)
            whole[..., : prompt - 1] = prompts[..., :-1]
            whole[..., *places] = plans[..., real]
            return whole

        def opened(prompts: torch.Tensor, plans: torch.Tensor) -> torch.Tensor:
            return filled(prompts, torch.cat([prompts[..., state_N1[:, 0], -1:], plans], dim=-1))

        number_NT = torch.arange(len(plans_NT), device=device)[:, None].expand_as(column_NT)
        segment_SL = filled(torch.full_like(prompts_SP, -1), number_NT, nothing=-2)
        labels_NT = torch.nn.functional.pad(plans_NT.masked_fill(real_NT == 0, -100), (1, 0), value=-100)
        return cls(
            opened(prompts_SP, plans_NT),
            opened(positions_3SP, positions_3SP[:, state_N1[:, 0], -1:] + nth_T[1:]),
            _attention(opened(real_SP, real_NT.to(real_SP)).bool(), segment_SL),
            filled(torch.full_like(prompts_SP, -100), labels_NT, nothing=-100),
            (state_N1, column_NT[:, 1:].clamp(max=max(ends) - 1)),
        )


def _attention(real_SL: torch.Tensor, segment_SL: torch.Tensor) -> torch.Tensor:
    """True where a token attends: to earlier real tokens of the prompt (segment -1) and its plan."""
    place_L = torch.arange(segment_SL.shape[1], device=segment_SL.device)
    own_SLL = (segment_SL[:, None] == -1) | (segment_SL[:, :, None] == segment_SL[:, None])
    before_LL = place_L <= place_L[:, None]
    # padding, too: a row of the softmax without a token would be no number
    itself_LL = place_L == place_L[:, None]
    return ((own_SLL & before_LL & real_SL[:, None]) | itself_LL)[:, None]
