"""Walks through KAlgebra of a demonstrator with 25 % random steps, who pursues drawn goals: the data of the adapter."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from PIL import Image

from coda_lib.action import Action
from coda_lib.base_models.hindsight import Hindsight
from coda_lib.base_models.kalgebra.goals import ALL, draw_goals, draw_plots, draw_text, goal_task, next_step, settings
from coda_lib.base_models.walks import WALK_LENGTH, Transition, unambiguous
from coda_lib.base_models.windows import AWAY
from coda_lib.envs.base import EnvironmentFault
from coda_lib.envs.desktop.kalgebra import KAlgebra
from coda_lib.envs.desktop.kalgebra_scene import Scene, scene
from coda_lib.envs.sciencedesk.script import action_of, to_plan
from coda_lib.trajectory import encode_image

_AVOIDED = AWAY["KAlgebra"] | {"Load Script...", "Save Script...", "Insert ans..."}
_SLIPS = 0.25  # share of random steps
_FAULTS = 10
_PATIENCE = 14  # steps after which a goal is given up


@dataclass(frozen=True)
class Walk:
    """The steps taken, and the right decisions at each point, in order."""

    transitions: list[Transition]
    decisions: list[Hindsight]


def random_step(now: Scene, rng: random.Random) -> dict[str, Any]:
    """A random script step that the screen allows."""
    if now.typing and rng.random() < 0.3:
        return {"type": draw_text(rng) + rng.choice(["\n", ""])}
    if rng.random() < 0.1:
        return {"press": rng.choice(["esc", ALL])}
    target = rng.choice([e for e in unambiguous(now.elements) if e.name not in _AVOIDED])
    return {"double" if target.role == "row" and rng.random() < 0.3 else "click": target.name}


def walk(env: KAlgebra, rng: random.Random, length: int) -> Walk:
    """A walk of so many steps; it starts anew every `WALK_LENGTH` steps and after a fault.

    EnvironmentFault after `_FAULTS` of them.
    """
    done, faults, number = Walk([], []), 0, 0
    while len(done.transitions) < length:
        number += 1
        try:
            _stroll(env, rng, number, done, length)
        except EnvironmentFault:
            faults += 1
            if faults == _FAULTS:
                raise
    return done


def _stroll(env: KAlgebra, rng: random.Random, number: int, done: Walk, length: int) -> None:
    """From one reset to the next, or until the walk has its length: one goal after the other."""
    picture, _ = env.reset(goal_task(f"walk {number}", settings()[:1], "Walk about.", draw_plots(rng)))
    now, screen = scene(env), encode_image(Image.fromarray(picture))
    goals, instruction, history = [], "", []
    for _ in range(WALK_LENGTH):
        right = next_step(goals, now, history[-1].step if history else None)
        if goals and right is None:
            done.decisions.append(Hindsight(instruction, tuple(history), screen, None, Action.done(), after=now.state))
        if right is None or len(history) > _PATIENCE:
            goals, instruction = draw_goals(now.state, rng)
            history, right = [], next_step(goals, now, None)
        centers = {element.name: element.center for element in now.elements}
        step = random_step(now, rng)
        try:
            decision = Hindsight(instruction, tuple(history), screen, right, action_of(right, centers.__getitem__))
        except KeyError:  # what the right step names is not visible, as after a random step
            goals = []
        else:
            done.decisions.append(decision)
            step = right if rng.random() > _SLIPS else step
        action = action_of(step, centers.__getitem__)
        picture, *_ = env.step(action)
        if env.closed:
            return
        then, next_screen = scene(env), encode_image(Image.fromarray(picture))
        taken = Transition(
            env.kind, screen, now.elements, step, to_plan(step), action, now.state, then.state, next_screen, number
        )
        done.transitions.append(taken)
        history.append(taken)
        screen, now = next_screen, then
        if len(done.transitions) == length:
            return
