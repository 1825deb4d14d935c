"""Checkpoints of random weights and prompts of random words, to measure released sizes without released
weights.
"""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from PIL import Image
from transformers import AutoModelForImageTextToText
from transformers.utils import logging

from base_models.architecture import CHAT_TEMPLATE, tokenizer
from coda_lib.action import Action
from coda_lib.config import Hardware
from coda_lib.dataset import grpo_rows
from coda_lib.executor import executor_messages
from coda_lib.models.chat import Message
from coda_lib.models.local import ImageTextProcessor, ScreenshotProcessor, encode
from coda_lib.planner import Observation, planner_messages
from coda_lib.trajectory import Step, StopReason, Trajectory, encode_image
from coda_study.cost import Network

_VOCABULARY = 2000  # tokens that prompts and plans use, at most; the networks have all of their configuration
_TOKENS = {
    "image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}  # fmt: skip


class Noise:
    """Networks, prompts and a screen of the sizes that `hardware` assumes; its words are those of the
    prompts' templates.
    """

    def __init__(self, hardware: Hardware, prompts: str, seed: int):
        self.hardware, self.prompts, self.rng = hardware, prompts, np.random.default_rng(seed)
        width, height = hardware.screen
        self.screen = Image.fromarray(self.rng.integers(256, size=(height, width, 3), dtype=np.uint8))
        state = Observation("Click the button.", (), self.screen, self.screen)
        messages = [
            *planner_messages(state, prompts),
            *executor_messages(state, "Click the button.", prompts),
        ]
        texts = [
            part["text"] for message in messages for part in message["content"] if part["type"] == "text"
        ]
        self.tokenizer = tokenizer(texts, _VOCABULARY)
        vocabulary = self.tokenizer.get_vocab()
        self.words = sorted(
            number for piece, number in vocabulary.items() if piece[0] == "Ġ" and piece[1:].isalpha()
        )

    def checkpoint(self, folder: Path, network: Network) -> ImageTextProcessor:
        """Write random weights of 16 bits as a checkpoint; returns its processor."""
        logging.disable_progress_bar()  # of the shards that are written
        config, vision = copy.deepcopy(network.config), network.config.vision_config
        for name, token in _TOKENS.items():
            setattr(config, name, self.tokenizer.convert_tokens_to_ids(token))
        config.text_config.eos_token_id = self.tokenizer.eos_token_id
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
        pictures = ScreenshotProcessor(
            patch_size=vision.patch_size, merge_size=vision.spatial_merge_size,
            temporal_patch_size=vision.temporal_patch_size,
            image_mean=[0.5] * 3, image_std=[0.3] * 3,
            size=dict(zip(("shortest_edge", "longest_edge"), self.hardware.pixels, strict=True)),
        )  # fmt: skip
        processor = ImageTextProcessor(pictures, self.tokenizer, CHAT_TEMPLATE)
        processor.save_pretrained(folder)
        return processor

    def text(self, tokens: int) -> str:
        """Random words of one token each."""
        return self.tokenizer.decode(self.rng.choice(self.words, tokens))

    def rows(self, processor: ImageTextProcessor, count: int) -> Dataset:
        """States as rows of stage 1, each with a screen of its own, labelled with a click.

        The planner's prompt has as many text tokens as `hardware` says.  ValueError if the template alone has
        more.
        """
        return grpo_rows(
            [self._episode(processor, number) for number in range(count)], self.prompts, lambda _: [0]
        )

    def _episode(self, processor: ImageTextProcessor, number: int) -> Trajectory:
        screen = Image.fromarray(np.roll(np.asarray(self.screen), 64 * number, axis=1))
        shortest = Observation(self.text(1), (), screen, screen)
        messages = planner_messages(shortest, self.prompts)
        resize_rule = processor.image_processor.resize_rule
        width, height = resize_rule(screen.size)
        pictures = 2 * (width // resize_rule.factor) * (height // resize_rule.factor)
        missing = self.hardware.prompt_tokens + pictures - prompt_tokens(processor, messages)
        png = encode_image(screen)
        step = Step(png, "", "", (Action.click(0.5, 0.5),))
        words = shortest.instruction + self.text(missing)
        return Trajectory("noise", "noise", words, "noise", 0, (step,), png, StopReason.DONE)


def prompt_tokens(processor: ImageTextProcessor, messages: list[Message]) -> int:
    return encode(processor, [messages])["input_ids"].shape[1]
