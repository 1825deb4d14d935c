"""Training rows (messages, reply) about one screen of a random walk.

The executor learns from plans that name something visible, or a text to type, with their actions; the reader
reads screens out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from PIL import Image

from base_models.architecture import GRID
from base_models.walks import Transition
from coda_lib.action import Action
from coda_lib.executor import executor_messages
from coda_lib.grammar import format_action
from coda_lib.models.chat import Message
from coda_lib.planner import Observation
from coda_lib.trajectory import decode_image
from sciencedesk.desk.desk import HEIGHT, WIDTH
from sciencedesk.desk.elements import Element
from sciencedesk.script import action_of, to_plan

SIZE = (WIDTH, HEIGHT)
PROMPTS = "compact"
MOVING = ("row", "target", "slider")  # roles of what has no usual place
READING = "What is on the screen?"
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789+-*/^()=. "


@dataclass(frozen=True)
class Row:
    """One training example: what the model is asked, and its reply, all of it or (not `whole`) its beginning.

    A head that points is shown where to `look`: tokens of the last picture, at the reply's first token.  Of
    what is `copied` from the text of the prompt a head that reads is shown the letters: places of the
    beginnings in reply and text, and the length.
    """

    messages: list[Message]
    reply: str
    whole: bool = True
    look: tuple[int, ...] = ()
    copied: tuple[tuple[int, int, int], ...] = ()

    @property
    def pictures(self) -> list[Image.Image]:
        parts = (part for message in self.messages for part in message["content"])
        return [part["image"] for part in parts if part["type"] == "image"]


Rows = Sequence[Row]  # about the same pictures


def on_grid(action: Action) -> str:
    """The action's text; each coordinate is moved to the nearest number that is one token."""

    def snap(fraction: float | None, side: int) -> float | None:
        return None if fraction is None else min(round(fraction * side / GRID) * GRID, side - GRID) / side

    points = {"x": WIDTH, "y": HEIGHT, "x2": WIDTH, "y2": HEIGHT}
    snapped = {name: snap(getattr(action, name), side) for name, side in points.items()}
    return format_action(replace(action, **snapped), SIZE)


def typed(rng: Random, texts: Sequence[str]) -> dict[str, Any]:
    """Typing one of these texts, or random letters: the model learns to copy, and no list of texts."""
    if rng.random() < 0.6:
        return {"type": rng.choice(texts) + rng.choice(["\n", ""])}
    return {"type": random_text(rng)}


def random_text(rng: Random) -> str:
    """Letters to type, perhaps with Enter."""
    return ("".join(rng.choices(_LETTERS, k=rng.randint(1, 8))).strip() or "x") + rng.choice(["\n", ""])


def dragged(start: Element, clear: Sequence[Element], rng: Random) -> dict[str, Any]:
    """Dragging a slider's handle to a tick, or a row of a list to another."""
    targets = [e for e in clear if e.role == "target"]
    ticks = [e for e in targets if e.name.lstrip("-").isdigit()] or targets
    end = rng.choice(ticks if start.role == "slider" else [e for e in clear if e.role == "row"])
    return {"drag": [start.name, end.name]}


def clicked(element: Element, rng: Random) -> dict[str, Any]:
    return {rng.choices(["click", "double", "right"], [0.84, 0.08, 0.08])[0]: element.name}


def executor_row(screen: Transition, step: dict[str, Any]) -> Row:
    """The executor's prompt for a script step, and its action."""
    picture, centers = decode_image(screen.screen), {e.name: e.center for e in screen.elements}
    messages = executor_messages(Observation("", (), picture, picture), to_plan(step), PROMPTS)
    return Row(messages, on_grid(action_of(step, centers.__getitem__)))


def value_of(element: Element) -> str:
    """The value of a text 'name: value'; empty if it is none or shows none."""
    name, _, value = element.text.partition(": ")
    return value if element.role == "value" and name == element.name and value != "-" else ""


def description(elements: Sequence[Element]) -> str:
    """The texts of a screen: the tab in front, every value and message, every row of a list."""
    texts = []
    for element in elements:
        if element.text == "selected":
            texts.append(element.name)
        elif element.text:
            texts.append(element.text if element.role == "value" else f"{element.name} {element.text}")
    texts += [element.name for element in elements if element.role == "row"]
    return ". ".join(texts) + "."


def without_pictures(row: Row) -> Row:
    """The same row, its messages without the pictures."""
    return replace(row, messages=_with_parts(row, lambda part: part if part["type"] != "image" else None))


def swap_pictures(row: Row, draw: Callable[[], Image.Image]) -> Row:
    """The same question about other pictures; the answer then is wrong for a model that looks."""

    def swapped(part: dict[str, Any]) -> dict[str, Any]:
        return {"type": "image", "image": draw()} if part["type"] == "image" else part

    return Row(_with_parts(row, swapped), row.reply)


def _with_parts(row: Row, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> list[Message]:
    """The messages of a row with each part changed, or left out where `change` gives None."""
    return [m | {"content": list(filter(None, map(change, m["content"])))} for m in row.messages]
