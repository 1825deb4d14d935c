"""Prompt templates (Jinja2) and their rendering into chat messages.

A template has a section for each message, opened by a line `=== system ===` or `=== user ===`; `{{
image(picture) }}` puts a picture where it stands.  Sections that follow each other and end in `of each turn
===` are written once for each turn of the history: they know the `turn`, its `number` and whether it is the
`last` one.

`compact` is the set for tiny models, `full` the one for real ones.  `turns` is `full` with the layout of the
released planner: each past turn is a message of the assistant, and of the past screens only the last one is
shown.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from coda_lib.models.chat import Message, image, text

_SECTION = re.compile(r"^=== (system|user|assistant)( of each turn)? ===\n", re.MULTILINE)
BASIS = {"turns": "full"}  # the set that has the roles which this one lacks
# private-use marks: taken out of every value, so that no text can pose as a picture
_OPEN, _CLOSE = "\ue000", "\ue001"
_JINJA = Environment(undefined=StrictUndefined)


@cache
def _template(prompts: str, role: str) -> list[tuple[bool, list[tuple[str, Template]]]]:
    """Groups of messages: whether a group is of each turn; who speaks and a template for each message in it.

    The file is split before anything is filled in, so that no value can open a message.
    """
    path = Path(__file__).parent / prompts / f"{role}.j2"
    if prompts in BASIS and not path.is_file():
        return _template(BASIS[prompts], role)
    pieces = iter(_SECTION.split(path.read_text(encoding="utf-8"))[1:])
    sections = [
        (bool(each), name, _JINJA.from_string(body))
        for name, each, body in zip(pieces, pieces, pieces, strict=True)
    ]
    return [
        (each, [(name, body) for _, name, body in group]) for each, group in groupby(sections, itemgetter(0))
    ]


def render(prompts: str, role: str, **values: Any) -> list[Message]:
    """The messages that ask `role` (planner, executor, solo or judge) with the prompt set `prompts`."""
    pictures: list[Any] = []

    def place(picture: Any) -> str:
        if isinstance(picture, str):  # what it shows, in words
            return picture
        pictures.append(picture)
        return f"{_OPEN}{len(pictures) - 1}{_CLOSE}"

    values, messages = _clean(values), []
    for each, sections in _template(prompts, role):
        turns = values["history"] if each else [None]
        for number, turn in enumerate(turns, 1):
            known = values | ({"turn": turn, "number": number, "last": number == len(turns)} if each else {})
            for name, body in sections:
                said = body.render(**known, image=place).rstrip("\n")
                messages.append({"role": name, "content": _parts(said, pictures)})
    return messages


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
