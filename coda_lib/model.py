"""Chat models: messages with images in, text out, in batches.

A message is {'role': 'system'|'user'|'assistant', 'content': [{'type': 'text', 'text': …} | {'type': 'image', 'image': PIL}]}.
Models that run in this process are in `network`, served ones in `endpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from PIL import Image

Message = dict[str, Any]


@dataclass(frozen=True)
class Sampling:
    """How replies are drawn; temperature 0 is greedy."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 64


class ChatModel(Protocol):
    name: str

    def generate(self, conversations: Sequence[list[Message]], sampling: Sampling, seed: int) -> list[str]:
        """One reply for each conversation, in order."""


class ReplayModel:
    """Recorded or scripted replies, so that everything that asks a model can be tested and shown without one."""

    def __init__(self, replies: Iterable[str] | Callable[[list[Message]], str], name: str = "replay"):
        self.name = name
        self._replies = replies if callable(replies) else iter(replies)

    def generate(self, conversations: Sequence[list[Message]], sampling: Sampling, seed: int) -> list[str]:
        if callable(self._replies):
            return [self._replies(conversation) for conversation in conversations]
        return [next(self._replies) for _ in conversations]


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def image(picture: Image.Image) -> dict[str, Any]:
    return {"type": "image", "image": picture}
