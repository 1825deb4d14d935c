"""Rows of (messages, reply) about one screen of a random walk: what the executor learns from, and screens to read out.

A plan that names something visible, or a text to type, with its action.  What else base models learn from is in `hindsight`
and `judge_rows`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from PIL import Image

from coda_lib.action import Action, format_action
from coda_lib.base_models.architecture import GRID
from coda_lib.base_models.walks import Moment
from coda_lib.envs.sciencedesk.desk import HEIGHT, WIDTH
from coda_lib.envs.sciencedesk.elements import Element
from coda_lib.envs.sciencedesk.script import to_plan
from coda_lib.executor import executor_messages
from coda_lib.judge import judge_messages
from coda_lib.models.chat import Message
from coda_lib.planner import Observation
from coda_lib.trajectory import decode_image

SIZE = (WIDTH, HEIGHT)
PROMPTS = "compact"
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789+-*/^()=. "


@dataclass(frozen=True)
class Row:
    """One example: what the model is asked and what it should reply, all of it or (not `whole`) its beginning.

    `given` stands before the reply and is not learned.
    """

    messages: list[Message]
    reply: str
    whole: bool = True
    given: str = ""

    @property
    def pictures(self) -> list[Image.Image]:
        return [part["image"] for message in self.messages for part in message["content"] if part["type"] == "image"]


def on_grid(action: Action) -> str:
    """The action's text with its coordinates on the grid on which each is one token."""

    def snap(fraction: float | None, side: int) -> float | None:
        return None if fraction is None else min(round(fraction * side / GRID) * GRID, side - GRID) / side

    snapped = Action(
        action.type, snap(action.x, WIDTH), snap(action.y, HEIGHT), snap(action.x2, WIDTH), snap(action.y2, HEIGHT),
        action.text, action.direction,
    )  # fmt: skip
    return format_action(snapped, SIZE)


def grounding_row(moment: Moment, rng: random.Random, words: Sequence[str], even: bool = False) -> Row:
    """A plan about anything visible on a screen, or a text to type, and its action.

    What an application draws itself (planets, atoms, peaks, ticks) moves and is learned last, so it is drawn more often than
    the rest; with `even` everything visible is equally likely.
    """
    clear = unambiguous(moment)
    dice = rng.random()
    rows = [e for e in clear if e.role == "row"]
    sliders = [e for e in clear if e.role == "slider"]
    drawn = [e for e in clear if e.role == "target"]
    if dice < 0.22:
        step = {"type": _word(rng, words) + rng.choice(["\n", ""])}
        action = Action.type_text(step["type"])
    elif dice < 0.26 and not moment.step.keys() & {"click", "type"}:
        step, action = moment.step, moment.action
    elif dice < 0.36 and (sliders or len(rows) > 1):
        step, action = _dragged(sliders[0] if sliders else rng.choice(rows), clear, rng)
    else:
        step, action = _clicked(rng.choice(drawn if drawn and dice < 0.62 and not even else clear), rng)
    return _executor_row(moment, step, action)


def moved_row(moment: Moment, element: Element, rng: random.Random) -> Row:
    """A plan about one element of a screen, and its action."""
    pulled = element.role in ("slider", "row") and rng.random() < 0.3
    step, action = _dragged(element, unambiguous(moment), rng) if pulled else _clicked(element, rng)
    return _executor_row(moment, step, action)


def _dragged(start: Element, clear: Sequence[Element], rng: random.Random) -> tuple[dict, Action]:
    """A slider's handle pulled to a tick, or a row of a list to another."""
    drawn = [e for e in clear if e.role == "target"]
    ticks = [e for e in drawn if e.name.lstrip("-").isdigit()] or drawn
    end = rng.choice(ticks if start.role == "slider" else [e for e in clear if e.role == "row"])
    return {"drag": [start.name, end.name]}, Action.drag(*start.center, *end.center)


def _clicked(element: Element, rng: random.Random) -> tuple[dict, Action]:
    kind = rng.choices(["click", "double", "right"], [0.84, 0.08, 0.08])[0]
    make = {"click": Action.click, "double": Action.double_click, "right": Action.right_click}[kind]
    return {kind: element.name}, make(*element.center)


def _executor_row(moment: Moment, step: dict, action: Action) -> Row:
    picture = decode_image(moment.screen)
    observation = Observation("", (), picture, picture)
    return Row(executor_messages(observation, to_plan(step), PROMPTS), on_grid(action))


def moved(moments: Sequence[Moment]) -> list[tuple[Moment, list[Element]]]:
    """The screens on which something is not where it usually is: a planet, a slider's handle, a layer pulled up its list.

    An executor that knows the usual places by heart is nearly always right, and wrong here.
    """
    places: dict[str, Counter] = {}
    for moment in moments:
        for element in unambiguous(moment):
            places.setdefault(element.name, Counter())[element.box[:2]] += 1
    usual = {name: counts.most_common(1)[0][0] for name, counts in places.items()}
    found = [(m, [e for e in unambiguous(m) if _far(e.box[:2], usual[e.name])]) for m in moments]
    return [(moment, elements) for moment, elements in found if elements]


def _far(place: tuple[int, int], usual: tuple[int, int]) -> bool:
    return abs(place[0] - usual[0]) > GRID or abs(place[1] - usual[1]) > GRID


def _word(rng: random.Random, words: Sequence[str]) -> str:
    """A text to type: one of the applications' own, or any letters, so that copying is learned and not a list."""
    return rng.choice(words) if rng.random() < 0.6 else "".join(rng.choices(_LETTERS, k=rng.randint(1, 8))).strip() or "x"


def copying_row(rng: random.Random, words: Sequence[str]) -> Row:
    """A plan to type a text, without a picture."""
    step = {"type": _word(rng, words) + rng.choice(["\n", ""])}
    messages = [{"role": "user", "content": [{"type": "text", "text": to_plan(step)}]}]
    return Row(messages, on_grid(Action.type_text(step["type"])))


def unambiguous(moment: Moment) -> list[Element]:
    names = [e.name for e in moment.elements]
    return [e for e in moment.elements if names.count(e.name) == 1 and e.role != "value"]


READING = "What is on the screen?"


def description(moment: Moment) -> str:
    """What a screen says, read out: the tab in front, every value and message, every row of a list."""
    said = []
    for element in moment.elements:
        if element.text == "selected":
            said.append(element.name)
        elif element.text:
            said.append(element.text if element.role == "value" else f"{element.name} {element.text}")
    said += [element.name for element in moment.elements if element.role == "row"]
    return ". ".join(said) + "."


def description_row(moment: Moment) -> Row:
    """A screen to read out, asked as a judge is."""
    return Row(judge_messages(READING, [decode_image(moment.screen)], None, PROMPTS), description(moment))


def without_pictures(row: Row) -> Row:
    """The same question in words alone."""
    told = [m | {"content": [part for part in m["content"] if part["type"] != "image"]} for m in row.messages]
    return replace(row, messages=told)


def swap_pictures(row: Row, pictures: Callable[[], Image.Image]) -> Row:
    """The same question about other pictures: what a model that looks must get wrong."""

    def swapped(part: dict) -> dict:
        return {"type": "image", "image": pictures()} if part["type"] == "image" else part

    messages = [message | {"content": [swapped(part) for part in message["content"]]} for message in row.messages]
    return Row(messages, row.reply)
