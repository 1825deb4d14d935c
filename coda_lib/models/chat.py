"""Chat models: messages with images in, text out, in batches.

A message is {'role': 'system'|'user'|'assistant', 'content': [{'type': 'text', 'text': …} | {'type': 'image',
'image': PIL}]}. Models that run in this process are in `network`, served ones in `endpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil, floor, sqrt
from typing import Any, Protocol

from PIL import Image

from coda_lib.config import SamplingSettings

Message = dict[str, Any]


@dataclass(frozen=True)
class Sampling:
    """How replies are drawn; temperature 0 is greedy."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 64

    @classmethod
    def of(cls, settings: SamplingSettings) -> Sampling:
        """Those of a role in a profile."""
        return cls(settings.temperature, settings.top_p, settings.max_new_tokens)

    @property
    def greedy(self) -> Sampling:
        return replace(self, temperature=0.0)


class ChatModel(Protocol):
    name: str

    def generate(self, conversations: Sequence[list[Message]], sampling: Sampling, seed: int) -> list[str]:
        """One reply for each conversation, in order."""


class ReplayModel:
    """Recorded or scripted replies, so that what asks a model can be tested and shown without one."""

    def __init__(self, replies: Iterable[str] | Callable[[list[Message]], str], name: str = "replay"):
        self.name = name
        self._replies = replies if callable(replies) else iter(replies)

    def generate(self, conversations: Sequence[list[Message]], sampling: Sampling, seed: int) -> list[str]:
        if callable(self._replies):
            return [self._replies(conversation) for conversation in conversations]
        return [next(self._replies) for _ in conversations]


@dataclass
class Usage:
    """What the requests of a served model came to; the last four count replies that are no whole text."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    empty: int = 0
    cut: int = 0  # at the most tokens that a reply may have
    refused: int = 0  # by the model, or by a filter of the server
    tool_calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


@dataclass(frozen=True)
class ResizeRule:
    """At which size a network sees pictures, computed as by Qwen2-VL's image processor."""

    factor: int  # pixels: sides are multiples of it
    least: int  # pixels of a whole picture
    most: int

    def __call__(self, size: tuple[int, int]) -> tuple[int, int]:
        """The (width, height) at which a picture of `size` is seen; replies are in its pixels."""
        width, height = (max(self.factor, round(side / self.factor) * self.factor) for side in size)
        if self.least <= width * height <= self.most:
            return width, height
        pixels = size[0] * size[1]
        if width * height > self.most:  # written as there, for a rounding error can make a side another one
            shrink = sqrt(pixels / self.most)
            width, height = (
                max(self.factor, floor(side / shrink / self.factor) * self.factor) for side in size
            )
        else:
            grow = sqrt(self.least / pixels)
            width, height = (ceil(side * grow / self.factor) * self.factor for side in size)
        return width, height


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def image(picture: Image.Image) -> dict[str, Any]:
    return {"type": "image", "image": picture}
