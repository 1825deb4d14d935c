"""What a Qwen2.5-VL network costs: parameters, floating point operations, bytes.

A multiplication and an addition are two operations.  Attention counts over all pairs of tokens, the masked
half included. tests/coda_study/test_cost.py compares the formulas with what torch counts in a small network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration


@dataclass(frozen=True)
class Network:
    """A network given by its configuration; no weights are loaded."""

    config: Qwen2_5_VLConfig

    @cached_property
    def parameters(self) -> int:
        """Number of parameters, counted on torch's meta device; tied ones count once."""
        with torch.device("meta"):
            network = Qwen2_5_VLForConditionalGeneration(self.config)
        return sum(parameter.numel() for parameter in network.parameters())

    @property
    def patch(self) -> int:
        """Side of an image token in pixels."""
        return self.config.vision_config.patch_size * self.config.vision_config.spatial_merge_size

    @property
    def _keys(self) -> int:
        """Width of the keys (and of the values) of a layer."""
        t = self.config.text_config
        return t.num_key_value_heads * t.hidden_size // t.num_attention_heads

    def image_tokens(self, size: tuple[int, int]) -> int:
        """Tokens of a picture of (width, height) after resizing (`models.chat.ResizeRule`)."""
        return (size[0] // self.patch) * (size[1] // self.patch)

    def vision_flops(self, size: tuple[int, int]) -> int:
        """Operations of the forward pass of one picture of (width, height)."""
        v = self.config.vision_config
        patches, tokens = self.image_tokens(size) * v.spatial_merge_size**2, self.image_tokens(size)
        embedding = 3 * v.temporal_patch_size * v.patch_size**2 * v.hidden_size
        layer = 4 * v.hidden_size**2 + 3 * v.hidden_size * v.intermediate_size
        merged = v.hidden_size * v.spatial_merge_size**2
        whole = len(set(v.fullatt_block_indexes))
        window = min(patches, (v.window_size // v.patch_size) ** 2)
        pairs = patches * (whole * patches + (v.depth - whole) * window)
        linear = patches * (embedding + v.depth * layer) + tokens * (merged**2 + merged * v.out_hidden_size)
        return 2 * linear + 4 * pairs * v.hidden_size

    def text_flops(self, tokens: int, logits: int, past: int = 0) -> int:
        """Operations of the forward pass of `tokens` after `past` cached ones; `logits` get logits."""
        t = self.config.text_config
        layer = t.hidden_size * (2 * t.hidden_size + 2 * self._keys + 3 * t.intermediate_size)
        linear = tokens * t.num_hidden_layers * layer + logits * t.hidden_size * t.vocab_size
        return 2 * linear + 4 * t.num_hidden_layers * tokens * (past + tokens) * t.hidden_size

    def forward_flops(self, tokens: int, pictures: Sequence[tuple[int, int]], logits: int) -> int:
        """Operations of the forward pass of a sequence of `tokens`, image tokens included."""
        return self.text_flops(tokens, logits) + sum(map(self.vision_flops, pictures))

    def reply_flops(self, prompt: int, pictures: Sequence[tuple[int, int]], reply: int) -> int:
        """Operations of reading a prompt and writing a reply token by token with a cache."""
        written = sum(self.text_flops(1, 1, prompt + i) for i in range(reply - 1))
        return self.forward_flops(prompt, pictures, 1) + written

    def adapter_parameters(self, rank: int) -> int:
        """Parameters of low-rank adapters on every linear layer of the language model."""
        t = self.config.text_config
        inner = (t.hidden_size, t.hidden_size, self._keys, self._keys, *[t.intermediate_size] * 3)
        return rank * t.num_hidden_layers * sum(t.hidden_size + size for size in inner)

    def activation_bytes(self, samples: int, tokens: int, logits: int, width: int = 2) -> int:
        """Peak bytes of a backward pass with gradient checkpointing: every layer's input, the inside of one
        layer with its gradients, and the logits of `logits` tokens of each sample, twice and in 32 bits.
        """
        t = self.config.text_config
        inside = 8 * t.hidden_size + 2 * self._keys + 6 * t.intermediate_size
        layers = tokens * (t.num_hidden_layers * t.hidden_size + inside) * width
        return samples * (layers + 2 * 4 * logits * t.vocab_size)

    def cache_bytes(self, tokens: int) -> int:
        """Keys and values of one sequence, 16 bits each."""
        return 2 * 2 * tokens * self.config.text_config.num_hidden_layers * self._keys
