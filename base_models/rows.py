"""Training rows (messages, reply) about one screen of a random walk.

The executor learns from plans that name something visible, or a text to type, with their actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from PIL import Image

from base_models.architecture import GRID
from base_models.packing import COLUMNS, ROWS, TOKEN
from base_models.plain import MERGE, PATCH
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
BESIDE = ("target", "field")  # roles of what has its name beside
_LETTER = 6.5  # px of a name, about
WHOLE = (0, 0, *SIZE)  # the part of the screen (left, top, right, bottom) that is all of it
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789+-*/^()=. "


@dataclass(frozen=True)
class Row:
    """One training example: what the model is asked, and its reply, all of it or (not `whole`) its beginning.

    Heads that point are shown where to look at each letter that is `read` (place of the beginning, length,
    tokens that show it, number of the picture).
    Heads that read are shown the very letters: of pictures where they are known (`letters`: place in the
    reply, token, number of the picture), and of what is `copied` from the prompt's last text: places of the
    beginnings in reply and text, and the length.
    """

    messages: list[Message]
    reply: str
    whole: bool = True
    read: tuple[tuple[int, int, Sequence[int], int], ...] = ()
    letters: tuple[tuple[int, int, int], ...] = ()
    copied: tuple[tuple[int, int, int], ...] = ()
    places: tuple[tuple[int, int], ...] = ()  # (column, row) in tokens of pictures that are parts of screens

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


def middle(element: Element) -> tuple[int, int]:
    """An element's middle as numbers of coordinates, column and row."""
    x, y, width, height = element.box
    return round((x + width / 2) / GRID), round((y + height / 2) / GRID)


def typed(rng: Random, texts: Sequence[str]) -> dict[str, Any]:
    """Typing one of these texts, or random letters: the model learns to copy, and no list of texts."""
    if rng.random() < 0.6:
        return {"type": rng.choice(texts) + rng.choice(["\n", ""])}
    return {"type": random_text(rng)}


def random_text(rng: Random) -> str:
    """Letters to type, perhaps with Enter."""
    return ("".join(rng.choices(_LETTERS, k=rng.randint(1, 8))).strip() or "x") + rng.choice(["\n", ""])


def dragged(start: Element, clear: Sequence[Element], rng: Random) -> dict[str, Any]:
    """Dragging a slider's handle to a tick, or a row of a list or a drawn thing to another."""
    alike = [e for e in clear if e.role == ("target" if start.role == "slider" else start.role)]
    if start.role == "slider":
        alike = [e for e in alike if e.name.lstrip("-").isdigit()] or alike
    end = rng.choice(alike)
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


def texts(elements: Sequence[Element]) -> list[tuple[str, Element]]:
    """What there is to read, line by line: the tab in front, every value and message, every row of a list."""
    found = []
    for element in elements:
        if element.text == "selected":
            found.append((element.name, element))
        elif element.text:
            said = element.text if element.role == "value" else f"{element.name} {element.text}"
            found.append((said, element))
    found += [(element.name, element) for element in elements if element.role == "row"]
    return sorted(found, key=lambda one: _line_of(one[1]))


def _line_of(element: Element) -> tuple[int, int]:
    x, y, _, height = element.box
    return int((y + height / 2) // TOKEN), x


def description(elements: Sequence[Element]) -> str:
    """The texts of a screen."""
    return f"{'. '.join(text for text, _ in texts(elements))}."


def with_name(element: Element) -> tuple[float, float, float, float]:
    """The box of an element (left, top, right, bottom) in px with its name, if it is beside.

    The names of drawn things stand to either side, those of fields before or above them.
    """
    x, y, width, height = element.box
    left, right, above, below = 0.0, 0.0, 0, 0
    if element.role == "target":
        left, above, below = 9 + _LETTER * len(element.name), 12, 6
        right = left
    elif element.role == "field":
        left, above = 4 * TOKEN, TOKEN
    return x - left, y - above, x + width + right, y + height + below


def covered(element: Element, part: Sequence[int] = WHOLE) -> list[int]:
    """The tokens of a picture of this part of the screen that an element covers, with its name."""
    across, deep = (part[2] - part[0]) // TOKEN, (part[3] - part[1]) // TOKEN
    x, y, right, bottom = with_name(element)
    columns = range(max(0, int((x - part[0]) // TOKEN)), min(int((right - part[0] - 1) // TOKEN) + 1, across))
    rows = range(max(0, int((y - part[1]) // TOKEN)), min(int((bottom - part[1] - 1) // TOKEN) + 1, deep))
    return [row * across + column for row in rows for column in columns]


def moved(element: Element, part: Sequence[int]) -> Element:
    """An element of a part of the screen at its place on the whole of it."""
    x, y, width, height = element.box
    return replace(element, box=(x + part[0], y + part[1], width, height))


def part_around(element: Element, least: tuple[int, int], rng: Random) -> tuple[int, int, int, int]:
    """Left, top, right and lower edge, in tokens, of a part of the screen that has an element and its name.

    It has at least so many columns and rows: parts of one size go through together.
    """
    x, y, right, bottom = with_name(element)
    edges = []
    for begin, end, size, most in ((x, right, least[0], COLUMNS), (y, bottom, least[1], ROWS)):
        first, last = max(0, int(begin // TOKEN)), min(most, int((end - 1) // TOKEN) + 1)
        size = max(size, last - first)
        low = rng.randint(max(0, last - size), min(first, most - size))
        edges.append((low, low + size))
    (left, right), (top, down) = edges
    return left, top, right, down


def within(element: Element, part: Sequence[int]) -> bool:
    """Whether all of an element lies in a part (left, top, right, bottom) of the screen."""
    x, y, width, height = element.box
    return part[0] <= x and part[1] <= y and x + width <= part[2] and y + height <= part[3]


def line_of(y: float) -> int:
    """The line of a token's patches that has this height in px."""
    return int(y // PATCH) % MERGE


def closer(row: Row, box: Sequence[int], rng: Random) -> Row:
    """The row with the part of its last picture that is around a box, and a token of the one before.

    It has a twentieth to a quarter of the tokens of two screens, and reading wants many rows.
    """
    x, y, width, height = box
    left, top = max(0, x // TOKEN - rng.randint(0, 1)), max(0, y // TOKEN - rng.randint(0, 1))
    right = min(WIDTH // TOKEN, (x + width - 1) // TOKEN + rng.randint(1, 2))
    bottom = min(HEIGHT // TOKEN, (y + height - 1) // TOKEN + rng.randint(1, 2))
    parts = iter([(0, 0, 1, 1), (left, top, right, bottom)])

    def part_of(part: dict[str, Any]) -> dict[str, Any]:
        if part["type"] != "image":
            return part
        return {"type": "image", "image": part["image"].crop([n * TOKEN for n in next(parts)])}

    return replace(row, messages=_with_parts(row, part_of), places=((0, 0), (left, top)))


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
