"""Prompt templates (Jinja2) and their rendering into chat messages.

A template has a section for each message, opened by a line `=== system ===` or `=== user ===`; `{{ image(picture) }}` puts a
picture where it stands.  `compact` is the set for tiny models, `full` the one for real ones.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from coda_lib.models.chat import Message, image, text

_SECTION = re.compile(r"^=== (system|user) ===\n", re.MULTILINE)
_OPEN, _CLOSE = "\ue000", "\ue001"  # private-use marks: taken out of every value, so that no text can pose as a picture
_JINJA = Environment(undefined=StrictUndefined)


@cache
def _template(prompts: str, role: str) -> tuple[tuple[str, Template], ...]:
    """A template for each message; split before anything is filled in, so that no value can open a message."""
    pieces = _SECTION.split((Path(__file__).parent / prompts / f"{role}.j2").read_text(encoding="utf-8"))[1:]
    return tuple((name, _JINJA.from_string(body)) for name, body in zip(pieces[::2], pieces[1::2], strict=True))


def render(prompts: str, role: str, **values: Any) -> list[Message]:
    """The messages that ask `role` (planner, executor, solo or judge) with the prompt set `prompts`."""
    pictures: list[Any] = []

    def place(picture: Any) -> str:
        pictures.append(picture)
        return f"{_OPEN}{len(pictures) - 1}{_CLOSE}"

    values = _clean(values)
    return [
        {"role": name, "content": _parts(body.render(**values, image=place).rstrip("\n"), pictures)}
        for name, body in _template(prompts, role)
    ]


def _parts(body: str, pictures: list[Any]) -> list[dict[str, Any]]:
    pieces = re.split(f"{_OPEN}(\\d+){_CLOSE}", body)
    return [image(pictures[int(piece)]) if i % 2 else text(piece) for i, piece in enumerate(pieces) if piece]


def _clean(value: Any) -> Any:
    if isinstance(value, str):  # '<|' opens the tokenizer's own marks, of pictures and of messages
        return value.replace(_OPEN, "").replace(_CLOSE, "").replace("<|", "< |")
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
