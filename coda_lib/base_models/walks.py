"""Random walks through an application: unlimited screens with the names and boxes of all that is visible.

Walks are what base models learn from (appendix notebook).  They use the widget tree and the vocabulary of the seed
goals, but no task and no script: nothing in a walk shows how a workflow goes beyond what two steps of chance happen to
do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from PIL import Image

from coda_lib.action import Action
from coda_lib.envs.sciencedesk.desk import Desk, Element
from coda_lib.envs.sciencedesk.script import to_action, to_plan
from coda_lib.envs.sciencedesk.widgets import Field
from coda_lib.explore import aims
from coda_lib.trajectory import encode_image

_WALK = 24  # steps from one reset to the next


@dataclass(frozen=True)
class Moment:
    """One step of a walk: what was on the screen, what was done, and the state behind it before and after."""

    app: str
    screen: bytes  # PNG
    elements: tuple[Element, ...]
    step: dict[str, Any]  # a script step, in names
    plan: str
    action: Action
    before: dict[str, Any]
    after: dict[str, Any]
    next_screen: bytes
    walk: int  # moments of one walk follow each other


@cache
def typed_words(app: str) -> tuple[str, ...]:
    """The texts that the seed goals type: the closed vocabulary of an application's fields."""
    steps = [step for aim in aims(app) for step in aim.solution]
    return tuple(sorted({step["type"].rstrip() for step in steps if "type" in step}))


@cache
def hotkeys(app: str) -> tuple[str, ...]:
    return tuple(sorted({step["press"] for aim in aims(app) for step in aim.solution if "press" in step} | {"esc"}))


def random_settings(app: str, defaults: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A start other than the default: settings of a few random goals, of their set-ups too."""
    settings: dict[str, Any] = {}
    for aim in rng.sample(aims(app), 3):
        settings |= aim.goal.setup
        if aim.goal.key in defaults:
            settings[aim.goal.key] = rng.choice(list(aim.goal.values.values()))
    if "tab" in defaults and rng.random() < 0.5:
        settings["tab"] = defaults["tab"]
    return settings


def random_step(desk: Desk, elements: tuple[Element, ...], rng: random.Random) -> dict[str, Any]:
    """One thing that a curious person might do on this screen."""
    typing = isinstance(desk.focusWidget(), Field) and desk.focusWidget().isVisible() and desk.menu is None
    if typing and rng.random() < 0.6:
        return {"type": rng.choice(typed_words(desk.app)) + rng.choice(["\n", "\n", ""])}
    dice = rng.random()
    if dice < 0.03:
        return {"press": rng.choice(hotkeys(desk.app))}
    names = [e.name for e in elements]
    clear = [e for e in elements if names.count(e.name) == 1 and e.role != "value"]
    sliders = [e for e in clear if e.role == "slider"]
    rows = [e for e in clear if e.role == "row"]
    targets = [e for e in clear if e.role == "target"]
    if sliders and dice < 0.12:
        ticks = [e for e in targets if e.name.lstrip("-").isdigit()] or targets
        return {"drag": [sliders[0].name, rng.choice(ticks).name]}
    if len(rows) > 1 and dice < 0.15:
        return {"drag": [e.name for e in rng.sample(rows, 2)]}
    if rows and dice < 0.18:
        return {"scroll": [rng.choice(rows).name, rng.choice(["down", "up"])]}
    if rows + targets and dice < 0.26:
        return {rng.choice(["double", "right"]): rng.choice(rows + targets).name}
    return {"click": rng.choice(clear).name}


def walk(desk: Desk, rng: random.Random) -> Iterator[Moment]:
    """An endless random walk; every `_WALK` steps it starts anew from random settings."""
    number = 0
    while True:
        number += 1
        desk.reset(random_settings(desk.app, dict(desk.defaults), rng))
        screen, state = screenshot(desk), desk.state()
        for _ in range(_WALK):
            elements = tuple(desk.elements())
            step = random_step(desk, elements, rng)
            action = to_action(desk, step)
            desk.perform(action)
            after, next_screen = desk.state(), screenshot(desk)
            yield Moment(desk.app, screen, elements, step, to_plan(step), action, state, after, next_screen, number)
            screen, state = next_screen, after


def screenshot(desk: Desk) -> bytes:
    return encode_image(Image.fromarray(desk.screenshot()))
