"""Walks through real applications: the same steps as through ScienceDesk, by names, and what they do about
faults.
"""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import numpy as np
import pytest
from app_tests import installed

from base_models.letters import processor
from base_models.training_tasks import development_tasks, judge_tasks, planner_tasks
from base_models.walks import (
    AWAY,
    FAULTS,
    WALK_LENGTH,
    AppWindow,
    Transition,
    opened,
    random_settings,
    random_walk,
    through_faults,
    unambiguous,
    window_of,
)
from coda_lib.action import Action
from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.models.local import load_processor
from coda_lib.paths import CHECKPOINTS
from coda_lib.trajectory import decode_image
from sciencedesk.desk.elements import Element
from sciencedesk.desk.widgets import HEIGHT, WIDTH
from sciencedesk.real.app import SIZE
from sciencedesk.script import action_of

REAL = [
    pytest.param(app, marks=pytest.mark.skipif(not installed(app), reason=f"{app} is not installed"))
    for app in AWAY
]
BUTTONS = [
    Element(name, "button", (10 * i, 0, 9, 9)) for i, name in enumerate(["Reset", "Zoom", "Quit...", "Help"])
]


class Breaking:
    """A window that breaks at each of these actions, counted from 1."""

    app, defaults, view, typing = "PyMOL", {}, {}, False

    def __init__(self, *breaks: int):
        self.breaks, self.actions, self.begun = set(breaks), 0, 0

    def begin(self, settings: dict[str, Any], view: dict[str, Any]) -> None:
        self.begun += 1

    def elements(self) -> list[Element]:
        return BUTTONS

    def state(self) -> dict[str, Any]:
        return {"actions": self.actions}

    def screenshot(self) -> np.ndarray:
        return np.full((252, 336, 3), self.actions % 256, np.uint8)

    def perform(self, action: Action) -> None:
        self.actions += 1
        if self.actions in self.breaks:
            raise EnvironmentFault("it broke")


def test_a_walk_begins_anew_after_a_fault_and_every_so_many_steps():
    window = Breaking(3)
    steps = list(islice(random_walk(window, random.Random(0)), 2 + WALK_LENGTH + 1))
    assert [step.walk for step in steps] == [1, 1, *[2] * WALK_LENGTH, 3] and window.begun == 3
    assert {step.step.get("click") for step in steps} <= {
        "Reset",
        "Zoom",
        None,
    }  # neither a dialog nor what is AWAY


def test_a_walk_through_a_broken_application_ends_with_its_fault():
    window = Breaking(*range(5, 100))
    with pytest.raises(EnvironmentFault, match="it broke"):
        list(random_walk(window, random.Random(0)))
    assert window.begun == FAULTS  # the first one after four steps


def test_what_an_application_breaks_in_is_named_left_out_and_made_good_for(capsys):
    outcomes = iter(["one", EnvironmentFault("PyMOL crashed"), "two"])

    def make() -> str:
        outcome = next(outcomes)
        if isinstance(outcome, EnvironmentFault):
            raise outcome
        return outcome

    assert list(islice(through_faults(make), 2)) == ["one", "two"]
    assert capsys.readouterr().out == "left out: PyMOL crashed\n"


def test_an_application_that_is_broken_for_good_ends_the_collection_with_its_fault():
    calls = []

    def make() -> None:
        calls.append(1)
        raise EnvironmentFault("the display is gone")

    with pytest.raises(EnvironmentFault, match="the display is gone"):
        next(through_faults(make))
    assert len(calls) == FAULTS


@pytest.fixture(scope="module")
def walks() -> dict[str, list[Transition]]:
    return {}


def steps_of(app: str, walks: dict[str, list[Transition]]) -> list[Transition]:
    if app not in walks:
        env = opened(app)
        walks[app] = list(islice(random_walk(window_of(env), random.Random(f"{app} 0")), WALK_LENGTH + 12))
        env.close()
    return walks[app]


@pytest.mark.slow
@pytest.mark.parametrize("app", REAL)
def test_steps_follow_each_other_and_name_what_the_screen_shows(app, walks):
    steps = steps_of(app, walks)
    for one, then in zip(steps, steps[1:], strict=False):
        if one.walk == then.walk:
            assert (one.next_screen, one.after) == (then.screen, then.before)
    for step in steps:
        assert decode_image(step.screen).size == (336, 252)
        centers = {element.name: element.center for element in unambiguous(step.elements)}
        assert step.action == action_of(step.step, centers.__getitem__)
        assert not AWAY[app].intersection(step.step.values())
        assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in (element.center for element in step.elements))


@pytest.mark.slow
@pytest.mark.parametrize("app", REAL)
def test_a_walk_changes_what_tasks_are_about(app, walks):
    changed = {
        key for step in steps_of(app, walks) for key in step.after if step.after[key] != step.before.get(key)
    }
    assert changed


@pytest.mark.slow
@pytest.mark.parametrize("app", REAL)
def test_every_application_takes_the_settings_of_walks(app):
    env, rng = opened(app), random.Random(1)
    window = window_of(env)
    assert isinstance(window, AppWindow)
    for _ in range(4):
        window.begin(random_settings(app, dict(window.defaults), rng), {})
        assert window.elements()
    env.close()


@pytest.mark.parametrize("app", AWAY)
def test_every_application_has_the_lessons_that_the_recipe_draws(app):
    assert (
        len(planner_tasks(app)) == 1_600
        and len(judge_tasks(app)) == 1_200
        and len(development_tasks(app)) == 200
    )


def test_an_application_without_names_says_so():
    class Nameless(Breaking):
        kind = "Nameless"
        closed = False

    from sciencedesk.real.app import App

    with pytest.raises(UserError, match="Nameless does not name its elements"):
        App.named(Nameless())


@pytest.mark.parametrize("folder", ["desktop/planner", "desktop/executor", "desktop/judge",
"desktop/base_judge"])  # fmt: skip
def test_screens_are_seen_at_the_size_they_were_learned_at(folder):
    assert load_processor(str(CHECKPOINTS / folder)).image_processor.resize_rule(SIZE) == (WIDTH, HEIGHT)


def test_models_to_be_trained_see_screens_at_the_size_of_windows():
    assert processor().image_processor.resize_rule(SIZE) == (WIDTH, HEIGHT)
