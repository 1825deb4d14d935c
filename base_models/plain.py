"""Qwen2.5-VL's vision tower and language model in plain PyTorch, for training on CPUs.

Parameters have the names of transformers' classes, which load them and give the same features (a test says
so).  Here pictures of one size go through together, windows and rotations are computed once, and attention is
written out: its backward is several times faster for short sequences than the fused kernel's on CPUs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import zip_longest

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig
from transformers import Qwen2_5_VLForConditionalGeneration as Network

from base_models.feeding import ON_GPU
from base_models.side_by_side import average

# px of a patch: a letter; patches of a token on each side.  Tokens of 28 px, as in Qwen2.5-VL, hold parts of
# two lines, and no text was copied from them (measured after 8,000 steps: 13 % of first letters)
PATCH, MERGE = 7, 3
MEAN, DEVIATION = 0.7, 0.3  # of a pixel's channels, by which pictures are normalised
WINDOW = 84  # px; patches see those of their window alone
HIDDEN = -30_000.0  # added to the scores of what is not seen
TOWER_WIDTH, TOWER_LAYERS = 64, 3
# a layer where patches see all others: without it lines of text on the edge of two windows are cut in two
# (measured: 71 % of their letters told, 91 % of the others)
WHOLE = 1
WIDTH, LAYERS, HEAD = 128, 6, 32  # of the language model; width of an attention head, in the tower as well
# m-RoPE: with the usual base of 10,000 and heads of 32 neighbouring columns have nearly one position, and a
# network cannot tell them apart (measured: 8 % of columns right, which is chance, against 55 % with 100)
THETA, SECTIONS = 100.0, (4, 6, 6)


class Norm(nn.Module):
    """Root mean square normalisation."""

    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        return (self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.epsilon))).to(x.dtype)


class Gated(nn.Module):
    """The gated feed-forward part of a layer."""

    def __init__(self, width: int, inner: int, bias: bool):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, inner, bias), nn.Linear(width, inner, bias)
        self.down_proj = nn.Linear(inner, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def rotated(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Queries or keys (…, n, head) turned by their positions' cosines and sines."""
    cos, sin = turns
    first, second = x.chunk(2, -1)
    return (x * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    return (scores if mask is None else scores + mask).softmax(-1) @ value


# -- the vision tower --------------------------------------------------------------------------------------


class TowerAttention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), width // HEAD

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        parts = self.qkv(x).view(*x.shape[:2], 3, self.heads, HEAD).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        seen = attend(rotated(query, turns), rotated(key, turns), value, mask)
        return self.proj(seen.transpose(1, 2).flatten(2))


class TowerLayer(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm1, self.norm2 = Norm(width, 1e-6), Norm(width, 1e-6)
        self.attn, self.mlp = TowerAttention(width), Gated(width, 3 * width, bias=True)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        x = x + self.attn(self.norm1(x), turns, mask)
        return x + self.mlp(self.norm2(x))


class Merger(nn.Module):
    def __init__(self, width: int, out: int):
        super().__init__()
        self.inner = width * MERGE**2
        self.ln_q = Norm(width, 1e-6)
        self.mlp = nn.Sequential(nn.Linear(self.inner, self.inner), nn.GELU(), nn.Linear(self.inner, out))

    def forward(self, patches: Tensor) -> Tensor:
        return self.mlp(self.ln_q(patches).flatten(-2))


class Tower(nn.Module):
    """Patches of `PATCH` px, which in all layers but one see their window alone; tokens of MERGE x MERGE."""

    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Module()
        size = 1, PATCH, PATCH
        self.patch_embed.proj = nn.Conv3d(3, TOWER_WIDTH, size, size, bias=False)
        self.blocks = nn.ModuleList(TowerLayer(TOWER_WIDTH) for _ in range(TOWER_LAYERS))
        self.merger = Merger(TOWER_WIDTH, WIDTH)
        self._turns: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        start(self)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Patches (n, h, w, tower width) and tokens (n, h / MERGE, w / MERGE, width) of n pictures.

        `pixels` (n, 3, height, width) are normalised, both sides multiples of a token's.  Windows at the
        right and lower edge may be partly empty.
        """
        weight, side = self.patch_embed.proj.weight.flatten(1), WINDOW // PATCH
        count, height, width = len(pixels), pixels.shape[2] // PATCH, pixels.shape[3] // PATCH
        pixels = F.pad(pixels.to(weight.dtype), (0, -pixels.shape[3] % WINDOW, 0, -pixels.shape[2] % WINDOW))
        rows, columns = pixels.shape[2] // PATCH, pixels.shape[3] // PATCH
        tiles = pixels.view(count, 3, rows, PATCH, columns, PATCH).permute(0, 2, 4, 1, 3, 5)
        x = F.linear(tiles.flatten(3), weight)
        grid = count, rows // side, side, columns // side, side, x.shape[-1]
        x = x.view(grid).transpose(2, 3).reshape(-1, side * side, grid[-1])
        turns = tuple(part.to(x) for part in self._turns_of(rows, columns))
        inside = tuple(part.repeat(count, 1, 1, 1) for part in turns)
        everywhere = tuple(part.reshape(1, 1, -1, HEAD) for part in turns)
        masks = None, None
        if (rows, columns) != (height, width):
            hidden = torch.zeros(rows, columns, dtype=x.dtype, device=x.device)
            hidden[height:], hidden[:, width:] = HIDDEN, HIDDEN
            hidden = hidden.view(grid[1:-1]).transpose(1, 2).reshape(-1, side * side)
            masks = hidden.repeat(count, 1)[:, None, None], hidden.flatten()
        for number, layer in enumerate(self.blocks):
            if number == WHOLE:
                x = layer(x.view(count, -1, grid[-1]), everywhere, masks[1]).view(x.shape)
            else:
                x = layer(x, inside, masks[0])
        x = x.view(count, grid[1], grid[3], side, side, grid[-1]).transpose(2, 3)
        patches = x.reshape(count, rows, columns, -1)[:, :height, :width]
        merged = patches.unflatten(2, (-1, MERGE)).unflatten(1, (-1, MERGE)).transpose(2, 3)
        return patches, self.merger(merged.flatten(3, 4))

    def _turns_of(self, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines (windows, 1, patches of a window, head) of a picture's patches."""
        if (rows, columns) not in self._turns:
            speeds = 1 / 10_000 ** (torch.arange(0, HEAD // 2, 2).float() / (HEAD // 2))
            places = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
            angles = torch.cat([place[..., None] * speeds for place in places], -1)
            side = WINDOW // PATCH
            angles = angles.view(rows // side, side, columns // side, side, -1).transpose(1, 2)
            angles = angles.reshape(-1, 1, side * side, HEAD // 2).repeat(1, 1, 1, 2)
            self._turns[rows, columns] = angles.cos(), angles.sin()
        return self._turns[rows, columns]


# -- the language model ------------------------------------------------------------------------------------


Seen = tuple[Tensor, Tensor]  # keys and values (n, heads, length, head)


class Attention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.o_proj, self.heads = nn.Linear(width, width, bias=False), width // HEAD
        self.seen: tuple[Tensor, Tensor] | None = None  # the last queries and keys

    def forward(
        self, x: Tensor, turns: tuple[Tensor, Tensor], mask: Tensor, before: Seen | None = None
    ) -> tuple[Tensor, Seen]:
        made = (project(x) for project in (self.q_proj, self.k_proj, self.v_proj))
        query, key, value = (part.view(*x.shape[:2], self.heads, HEAD).transpose(1, 2) for part in made)
        query, key = rotated(query, turns), rotated(key, turns)
        if before:
            key, value = torch.cat((before[0], key), 2), torch.cat((before[1], value), 2)
        self.seen = query, key
        return self.o_proj(attend(query, key, value, mask).transpose(1, 2).flatten(2)), (key, value)


class Layer(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(width, 1e-5), Norm(width, 1e-5)
        self.self_attn, self.mlp = Attention(width), Gated(width, 3 * width, bias=False)

    def forward(
        self, x: Tensor, turns: tuple[Tensor, Tensor], mask: Tensor, before: Seen | None = None
    ) -> tuple[Tensor, Seen]:
        looked, seen = self.self_attn(self.input_layernorm(x), turns, mask, before)
        x = x + looked
        return x + self.mlp(self.post_attention_layernorm(x)), seen


class LanguageModel(nn.Module):
    def __init__(self, vocabulary: int, layers: int = LAYERS, base: float = THETA):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH) for _ in range(layers))
        self.norm = Norm(WIDTH, 1e-5)
        self.speeds = 1 / base ** (torch.arange(0, HEAD, 2).float() / HEAD)
        self.section = torch.repeat_interleave(torch.arange(3), torch.tensor(SECTIONS))
        start(self)

    def forward(
        self, x: Tensor, positions: Tensor, mask: Tensor, before: Sequence[Seen] = ()
    ) -> tuple[Tensor, list[Tensor], list[Seen]]:
        """Last states (n, length, width), those after each layer, and each layer's keys and values.

        `x` are embeddings, `positions` (3, n, length) of time, row and column, `mask` is added to scores,
        `before` has each layer's keys and values of what stands before.
        """
        section, speeds = (part.to(x.device) for part in (self.section, self.speeds))
        angles = positions.float()[section].permute(1, 2, 0) * speeds
        angles = torch.cat((angles, angles), -1)[:, None]
        turns, mask = (angles.cos().to(x.dtype), angles.sin().to(x.dtype)), mask.to(x.dtype)
        states, kept = [], []
        for layer, seen in zip_longest(self.layers, before):
            x, keys = layer(x, turns, mask, seen)
            states.append(x)
            kept.append(keys)
        return self.norm(x), states, kept

    def logits(self, states: Tensor) -> Tensor:
        return F.linear(states, self.embed_tokens.weight)


# -- beginning and stepping --------------------------------------------------------------------------------


def start(network: nn.Module, gain: float = 0.7) -> None:
    """Weights of deviation gain / sqrt(inputs): with the usual 0.02 a narrow network hardly learns."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv3d):
            nn.init.normal_(module.weight, std=gain / math.sqrt(module.weight[0].numel()))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.05)


# products in bfloat16 where the machine has them (four times as fast); elsewhere they are far slower
PRECISION = torch.bfloat16 if ON_GPU or torch.cpu.get_capabilities()["avx512_bf16"] else torch.float32


def configuration(vocabulary: PreTrainedTokenizerFast) -> Qwen2_5_VLConfig:
    """What transformers needs to load a tower and a language model of here."""
    ids = vocabulary.convert_tokens_to_ids
    text = dict(
        vocab_size=len(vocabulary), hidden_size=WIDTH, intermediate_size=3 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // HEAD, num_key_value_heads=WIDTH // HEAD, max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "mrope_section": list(SECTIONS), "rope_theta": THETA},
        bos_token_id=None, eos_token_id=vocabulary.eos_token_id, pad_token_id=vocabulary.pad_token_id,
        rms_norm_eps=1e-5, tie_word_embeddings=True,
    )  # fmt: skip
    vision = dict(
        depth=TOWER_LAYERS, hidden_size=TOWER_WIDTH, intermediate_size=3 * TOWER_WIDTH,
        num_heads=TOWER_WIDTH // HEAD, patch_size=PATCH, spatial_merge_size=MERGE, temporal_patch_size=1,
        out_hidden_size=WIDTH, window_size=WINDOW, fullatt_block_indexes=[WHOLE],
    )  # fmt: skip
    return Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True,
        image_token_id=ids("<|image_pad|>"), video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"), vision_end_token_id=ids("<|vision_end|>"),
    )  # fmt: skip


def joined(tower: Tower, language: LanguageModel, vocabulary: PreTrainedTokenizerFast) -> Network:
    """The network of transformers' class with these weights."""
    network = Network(configuration(vocabulary))
    parts = {"model.visual.": tower, "model.language_model.": language}
    state = {f"{at}{name}": w.float() for at, part in parts.items() for name, w in part.state_dict().items()}
    network.load_state_dict(state | {"lm_head.weight": state["model.language_model.embed_tokens.weight"]})
    return network


class Masters:
    """Networks in `PRECISION`, whose weights in 32 bits an optimizer steps on."""

    def __init__(self, networks: Sequence[nn.Module]):
        weights = [weight for network in networks for weight in network.to(PRECISION).parameters()]
        self._pairs = [(weight, weight.detach().clone().float()) for weight in weights]

    @property
    def weights(self) -> list[Tensor]:
        return [master for _, master in self._pairs]

    def of(self, weights: Collection[Tensor]) -> list[Tensor]:
        """The masters of these weights."""
        return [master for weight, master in self._pairs if weight in weights]

    def take_gradients(self, most: float = 1.0) -> None:
        """Move the networks' gradients to the masters, of norm `most` at most; the mean of all processes'."""
        for weight, master in self._pairs:
            master.grad = None if weight.grad is None else weight.grad.float()
            weight.grad = None
        average([master for weight, master in self._pairs if weight.requires_grad])
        nn.utils.clip_grad_norm_([m for m in self.weights if m.grad is not None], most)

    @torch.no_grad()
    def hand_back(self) -> None:
        for weight, master in self._pairs:
            weight.copy_(master)
