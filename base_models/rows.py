"""Training rows (messages, reply) about one screen of a random walk.

The executor learns from plans that name something visible, or a text to type, with their actions; the reader
reads screens out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from random import Random
from typing import Any

from PIL import Image

from base_models.architecture import GRID
from base_models.walks import Transition, Walk, unambiguous
from coda_lib.action import Action
from coda_lib.executor import executor_messages
from coda_lib.grammar import format_action
from coda_lib.judge import judge_messages
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
class LabelledScreen:
    """What a screen shows: its elements and, of a page of names, its letters with middles (x, y) in px."""

    screen: bytes  # PNG
    elements: tuple[Element, ...]
    letters: tuple[tuple[float, float, str], ...] = ()


@dataclass(frozen=True)
class Row:
    """One training example: what the model is asked, and its reply, all of it or (not `whole`) its beginning.

    The text `given` stands before the reply and is not learned.  `screen` is its one picture, if what it
    shows is to be learned.
    """

    messages: list[Message]
    reply: str
    whole: bool = True
    given: str = ""
    screen: LabelledScreen | None = None

    @property
    def pictures(self) -> list[Image.Image]:
        parts = (part for message in self.messages for part in message["content"])
        return [part["image"] for part in parts if part["type"] == "image"]


def on_grid(action: Action) -> str:
    """The action's text; each coordinate is moved to the nearest number that is one token."""

    def snap(fraction: float | None, side: int) -> float | None:
        return None if fraction is None else min(round(fraction * side / GRID) * GRID, side - GRID) / side

    points = {"x": WIDTH, "y": HEIGHT, "x2": WIDTH, "y2": HEIGHT}
    snapped = {name: snap(getattr(action, name), side) for name, side in points.items()}
    return format_action(replace(action, **snapped), SIZE)


def grounding_row(transition: Transition, rng: Random, texts: Sequence[str], even: bool = False) -> Row:
    """A plan about anything visible on a screen, or one of `texts` to type, and its action.

    What an application draws itself (planets, atoms, peaks, ticks) moves and is learned last.  It is drawn
    more often than the rest; with `even` all elements are equally likely.
    """
    clear = unambiguous(transition.elements)
    dice = rng.random()
    rows, sliders, targets = ([e for e in clear if e.role == role] for role in ("row", "slider", "target"))
    if dice < 0.22:
        step = typed(rng, texts)
    elif dice < 0.26 and not transition.step.keys() & {"click", "type"}:
        step = transition.step
    elif dice < 0.36 and (sliders or len(rows) > 1):
        step = dragged(sliders[0] if sliders else rng.choice(rows), clear, rng)
    else:
        step = clicked(rng.choice(targets if targets and dice < 0.62 and not even else clear), rng)
    return _executor_row(transition, step)


def element_row(screen: Transition | LabelledScreen, element: Element, rng: Random) -> Row:
    """A plan about one element of a screen, and its action."""
    clear = unambiguous(screen.elements)
    in_list = element.role == "row" and sum(e.role == "row" for e in clear) > 1
    drag = element.role == "slider" or (in_list and rng.random() < 0.2)
    step = dragged(element, clear, rng) if drag else clicked(element, rng)
    return _executor_row(screen, step)


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


def _executor_row(screen: Transition | LabelledScreen, step: dict[str, Any]) -> Row:
    picture, centers = decode_image(screen.screen), {e.name: e.center for e in screen.elements}
    messages = executor_messages(Observation("", (), picture, picture), to_plan(step), PROMPTS)
    return Row(messages, on_grid(action_of(step, centers.__getitem__)), screen=labelled(screen))


def value_of(element: Element) -> str:
    """The value of a text 'name: value'; empty if it is none or shows none."""
    name, _, value = element.text.partition(": ")
    return value if element.role == "value" and name == element.name and value != "-" else ""


def labelled(screen: Transition | LabelledScreen) -> LabelledScreen:
    """What a step of a walk shows."""
    return screen if isinstance(screen, LabelledScreen) else LabelledScreen(screen.screen, screen.elements)


def moving(walk: Walk) -> list[tuple[Transition, list[Element]]]:
    """Each screen with its elements that are not always at one place: rows, drawn objects, handles, menus.

    An executor that knows the usual points by heart is right nearly everywhere else, and wrong here.
    """
    clear, places = [unambiguous(transition.elements) for transition in walk], defaultdict(set)
    for element in chain.from_iterable(clear):
        places[element.name].add(element.box[:2])
    return [
        (transition, [e for e in elements if e.role in MOVING or len(places[e.name]) > 1])
        for transition, elements in zip(walk, clear, strict=True)
    ]


def copying_row(rng: Random, texts: Sequence[str]) -> Row:
    """A plan to type a text, without a picture."""
    step = typed(rng, texts)
    messages = [{"role": "user", "content": [{"type": "text", "text": to_plan(step)}]}]
    return Row(messages, on_grid(Action.type_text(step["type"])))


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


def description_row(transition: Transition) -> Row:
    """A screen to read out, in the judge's prompt."""
    messages = judge_messages(READING, [decode_image(transition.screen)], None, PROMPTS)
    return Row(messages, description(transition.elements))


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
