"""Prompt templates (Jinja2) and their rendering into chat messages.

A template has a section for each message, opened by a line `=== system ===` or `=== user ===`; `{{ image(picture) }}` puts a
picture where it stands.  `compact` is the set for tiny models, `full` the one for real ones.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from coda_lib.model import Message, image, text

_SECTION = re.compile(r"^=== (system|user) ===\n", re.MULTILINE)
_OPEN, _CLOSE = "\ue000", "\ue001"  # private-use marks: taken out of every value, so that no text can pose as a picture


@cache
def _template(prompts: str, role: str):
    loader = FileSystemLoader(Path(__file__).parent / prompts)
    return Environment(loader=loader, undefined=StrictUndefined, keep_trailing_newline=False).get_template(f"{role}.j2")


def render(prompts: str, role: str, **values: Any) -> list[Message]:
    """The messages that ask `role` (planner, executor, solo or judge) with the prompt set `prompts`."""
    pictures: list[Any] = []

    def place(picture: Any) -> str:
        pictures.append(picture)
        return f"{_OPEN}{len(pictures) - 1}{_CLOSE}"

    sections = _SECTION.split(_template(prompts, role).render(**_clean(values), image=place))[1:]
    return [
        {"role": name, "content": _parts(body.rstrip("\n"), pictures)}
        for name, body in zip(sections[::2], sections[1::2], strict=True)
    ]


def _parts(body: str, pictures: list[Any]) -> list[dict[str, Any]]:
    pieces = re.split(f"{_OPEN}(\\d+){_CLOSE}", body)
    return [image(pictures[int(piece)]) if i % 2 else text(piece) for i, piece in enumerate(pieces) if piece]


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(_OPEN, "").replace(_CLOSE, "")
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
