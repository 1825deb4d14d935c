"""The costs of a network against what torch counts, and against what is published of the real ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

from coda_lib.models.chat import image, text
from coda_lib.models.local import encode, load_network, load_processor
from coda_lib.paths import CHECKPOINTS
from coda_study.cost import Network


def counted(path, size: tuple[int, int], words: str, reply: int) -> tuple[Network, int, int, int]:
    """A network, the tokens of a prompt, and what torch counts for reading it and for writing a reply."""
    processor, network = load_processor(path), load_network(path, trainable=False, device="cpu").eval()
    network.set_attn_implementation("eager")  # torch's own kernel is not counted on every machine
    picture = Image.fromarray(np.zeros((size[1], size[0], 3), np.uint8))
    inputs = encode(processor, [[{"role": "user", "content": [image(picture), text(words), image(picture)]}]])
    with FlopCounterMode(display=False) as reading, torch.no_grad():
        network(**inputs, logits_to_keep=1)
    with FlopCounterMode(display=False) as writing, torch.no_grad():
        network.generate(**inputs, max_new_tokens=reply, min_new_tokens=reply, do_sample=False)
    return (
        Network(network.config),
        inputs["input_ids"].shape[1],
        reading.get_total_flops(),
        writing.get_total_flops(),
    )


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_operations_are_those_that_torch_counts(role):
    size, reply = (336, 252), 12
    network, tokens, reading, writing = counted(CHECKPOINTS / role, size, "Click 'Plot'. " * 8, reply)
    assert network.forward_flops(tokens, [size, size], 1) == pytest.approx(reading, rel=0.02)
    assert network.reply_flops(tokens, [size, size], reply) == pytest.approx(writing, rel=0.02)
