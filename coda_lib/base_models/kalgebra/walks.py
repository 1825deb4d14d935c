"""Walks through KAlgebra by somebody who pursues goals of our own, with slips: what the adapter learns from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from coda_lib.action import Action
from coda_lib.base_models.hindsight import Hindsight
from coda_lib.base_models.kalgebra.goals import ALL, draw_plots, draw_text, draw_wish, next_step, own_task, settings
from coda_lib.base_models.kalgebra.scene import Scene, scene
from coda_lib.base_models.walks import Moment
from coda_lib.envs.base import EnvironmentFault
from coda_lib.envs.desktop.kalgebra import KAlgebra
from coda_lib.envs.sciencedesk.script import action_of, to_plan
from coda_lib.trajectory import encode_image

_AVOIDED = {
    "Session menu", "Help menu", "Quit", "Load Script...", "Recent Scripts", "Save Script...", "Export Log...", "Save",
    "Insert ans...", "Full Screen", "Full Screen Mode", "Float", "Close",
}  # fmt: skip; what leads out of the window
_WALK = 24  # steps from one reset to the next
_SLIPS = 0.25  # share of steps that are anything else
_FAULTS = 10
_PATIENCE = 14  # steps after which a goal is given up


@dataclass(frozen=True)
class Walk:
    """What was seen and done, and what would have been right, in the order in which it came."""

    moments: list[Moment]
    decisions: list[Hindsight]


def random_step(now: Scene, rng: random.Random) -> dict[str, Any]:
    """One thing that a curious person might do on this screen."""
    if now.typing and rng.random() < 0.3:
        return {"type": draw_text(rng) + rng.choice(["\n", ""])}
    if rng.random() < 0.1:
        return {"press": rng.choice(["esc", ALL])}
    names = [element.name for element in now.elements]
    clear = [e for e in now.elements if names.count(e.name) == 1 and e.role != "value" and e.name not in _AVOIDED]
    chosen = rng.choice(clear)
    return {"double" if chosen.role == "row" and rng.random() < 0.3 else "click": chosen.name}


def walk(env: KAlgebra, rng: random.Random, moments: int) -> Walk:
    """A walk of so many steps; every `_WALK` it starts anew, and after a fault.  EnvironmentFault after `_FAULTS` of them."""
    done, faults, number = Walk([], []), 0, 0
    while len(done.moments) < moments:
        number += 1
        try:
            for _ in _stroll(env, rng, number, done):
                if len(done.moments) >= moments:
                    break
        except EnvironmentFault:
            faults += 1
            if faults == _FAULTS:
                raise
    return done


def _stroll(env: KAlgebra, rng: random.Random, number: int, done: Walk) -> Iterator[None]:
    """From one reset to the next: goals one after the other, a step an iteration."""
    picture, _ = env.reset(own_task(f"walk {number}", settings()[:1], "Walk about.", draw_plots(rng)))
    now, screen = scene(env), _png(picture)
    goals, asked, history, previous = [], "", [], screen
    for _ in range(_WALK):
        wanted = next_step(goals, now, history[-1].step if history else None)
        if goals and wanted is None:
            done.decisions.append(Hindsight(asked, tuple(history), previous, screen, None, Action.done(), after=now.state))
        if wanted is None or len(history) > _PATIENCE:
            goals, asked = draw_wish(now.state, rng)
            history, previous, wanted = [], screen, next_step(goals, now, None)
        places = {element.name: element.center for element in now.elements}
        step = random_step(now, rng)
        try:
            right = Hindsight(asked, tuple(history), previous, screen, wanted, action_of(wanted, places.__getitem__))
        except KeyError:  # what it takes is not in sight, as after a slip
            goals = []
        else:
            done.decisions.append(right)
            step = wanted if rng.random() > _SLIPS else step
        action = action_of(step, places.__getitem__)
        picture, *_ = env.step(action)
        if env.closed:
            return
        then, next_screen = scene(env), _png(picture)
        moment = Moment(env.kind, screen, now.elements, step, to_plan(step), action, now.state, then.state, next_screen, number)
        done.moments.append(moment)
        history.append(moment)
        previous, screen, now = screen, next_screen, then
        yield


def _png(picture: np.ndarray) -> bytes:
    return encode_image(Image.fromarray(picture))
