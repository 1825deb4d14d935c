"""Checkpoints of random weights and prompts of random words, to measure released sizes without released weights."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from PIL import Image
from transformers import AutoModelForImageTextToText
from transformers.utils import logging

from coda_lib.action import Action
from coda_lib.base_models.architecture import CHAT_TEMPLATE, tokenizer
from coda_lib.bench.cost import Network
from coda_lib.config import Hardware
from coda_lib.dataset import grpo_rows
from coda_lib.executor import executor_messages
from coda_lib.models.chat import Message
from coda_lib.models.local import ImageTextProcessor, ScreenshotProcessor, encode
from coda_lib.planner import Observation, planner_messages
from coda_lib.trajectory import Step, StopReason, Trajectory, encode_image

_VOCABULARY = 2000  # tokens that prompts and plans use, at most; the networks have all of their configuration
_TOKENS = {
    "image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>", "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}  # fmt: skip


class Noise:
    """Networks, prompts and a screen of the sizes that `hardware` assumes; its words are those of the prompts' templates."""

    def __init__(self, hardware: Hardware, prompts: str, seed: int):
        self.hardware, self.prompts, self.rng = hardware, prompts, np.random.default_rng(seed)
        width, height = hardware.screen
        self.screen = Image.fromarray(self.rng.integers(256, size=(height, width, 3), dtype=np.uint8))
        state = Observation("Click the button.", (), self.screen, self.screen)
        messages = [*planner_messages(state, prompts), *executor_messages(state, "Click the button.", prompts)]
        texts = [part["text"] for message in messages for part in message["content"] if part["type"] == "text"]
        self.tokenizer = tokenizer(texts, _VOCABULARY)
        vocabulary = self.tokenizer.get_vocab()
        self.words = sorted(number for piece, number in vocabulary.items() if piece[0] == "Ġ" and piece[1:].isalpha())

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
            patch_size=vision.patch_size, merge_size=vision.spatial_merge_size, temporal_patch_size=vision.temporal_patch_size,
            image_mean=[0.5] * 3, image_std=[0.3] * 3,
            size=dict(zip(("shortest_edge", "longest_edge"), self.hardware.pixels, strict=True)),
        )  # fmt: skip
        processor = ImageTextProcessor(pictures, self.tokenizer, CHAT_TEMPLATE)
        processor.save_pretrained(folder)
        return processor

    def text(self, tokens: int) -> str:
        """Random words of one token each."""
        return self.tokenizer.decode(self.rng.choice(self.words, tokens))

    def state(self, processor: ImageTextProcessor, tokens: int) -> Observation:
        """A first step whose planner's prompt has so many tokens, pictures too.  ValueError if the template alone has more."""
        shortest = Observation(self.text(1), (), self.screen, self.screen)
        missing = tokens - prompt_tokens(processor, planner_messages(shortest, self.prompts))
        return Observation(shortest.instruction + self.text(missing), (), self.screen, self.screen)

    def rows(self, state: Observation) -> Dataset:
        """The state as a row of stage 1, labelled with a click."""
        png = encode_image(self.screen)
        step = Step(png, "", "", (Action.click(0.5, 0.5),))
        episode = Trajectory("noise", "noise", state.instruction, "noise", 0, (step,), png, StopReason.DONE)
        return grpo_rows([episode], self.prompts, lambda _: [0])


def prompt_tokens(processor: ImageTextProcessor, messages: list[Message]) -> int:
    return encode(processor, [messages])["input_ids"].shape[1]
