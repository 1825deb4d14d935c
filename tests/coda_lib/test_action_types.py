"""Every user of the table of action types knows every type: a type added to the table alone fails here, by
the user's name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from actions import example, unknown

from coda_lib.action import CONTROL, Action, ActionType
from coda_lib.environment import STOPS
from coda_lib.grammar import format_action, parse_actions
from coda_lib.paths import REPO
from coda_lib.planner import control_action
from coda_lib.reward import similarity
from coda_lib.trajectory import StopReason
from coda_study.formats.code import action_code, read_code
from coda_study.show.figures import Sheet
from coda_study.show.pictures import _mark
from sciencedesk.desk import hands
from sciencedesk.env import ScienceDesk
from sciencedesk.pyautogui import pyautogui_calls
from sciencedesk.real.display_process import CALLS

SIZE = (336, 252)


@cache
def window():
    return ScienceDesk("gis").desk


# What each module does with an action of any type, and of a type that it does not know.
USERS: dict[str, Callable[[Callable[..., Action]], object]] = {
    "reward.similarity": lambda action: similarity(action(), action(x=0.5, text="b"), 2),
    "envs.pyautogui.pyautogui_calls": lambda action: pyautogui_calls(action(), SIZE),
    "envs.sciencedesk.hands.perform": lambda action: hands.perform(window(), action()),
    "show.pictures._mark": lambda action: _mark(Sheet().add_subplot(), action(), SIZE, "red"),
}
users = pytest.mark.parametrize("use", USERS.values(), ids=USERS)


@users
@pytest.mark.parametrize("kind", ActionType)
def test_every_user_knows_every_type(use, kind):
    use(lambda **values: example(kind, **values))


@users
def test_every_user_refuses_a_type_that_it_does_not_know(use):
    with pytest.raises(AssertionError, match="'punch'"):
        use(unknown)


@pytest.mark.parametrize("kind", ActionType)
def test_a_type_survives_the_grammar_and_the_code_of_other_projects(kind):
    action = example(kind, x=0.25, y=0.5, x2=0.5, y2=0.25)
    assert parse_actions(format_action(action, SIZE), SIZE) == (action,)
    assert read_code(action_code(action, SIZE), SIZE) == (action,)
    for name in kind.older:
        assert parse_actions(format_action(action, SIZE).replace(kind, name, 1), SIZE) == (action,)


@pytest.mark.parametrize("kind", ActionType)
def test_a_type_acts_on_the_screen_or_is_a_plan_by_itself(kind):
    action = example(kind)
    plan = " ".join(filter(None, [kind.name, action.text]))
    assert (control_action(plan) == action) == kind.control == (kind.name in CONTROL)
    assert (pyautogui_calls(action, SIZE) == []) == kind.control
    assert STOPS.get(kind) == (StopReason[kind.name] if kind.ends else None)


def test_a_display_takes_the_calls_of_every_type_and_no_others():
    texts = {"text": "a<\n"}
    actions = [example(kind, **texts if kind is ActionType.TYPE else {}) for kind in ActionType]
    actions.append(Action.scroll(0.5, 0.5, "left"))
    assert {name for action in actions for name, _, _ in pyautogui_calls(action, SIZE)} == CALLS


def test_the_prompt_of_real_models_names_every_type_but_hover_and_those_of_other_projects():
    prompt = (REPO / "coda_lib" / "prompts" / "full" / "solo.j2").read_text(encoding="utf-8")
    of_others = [ActionType.KEY_DOWN, ActionType.KEY_UP, ActionType.MOUSE_DOWN, ActionType.MOUSE_UP]
    assert [kind for kind in ActionType if f"{kind}(" not in prompt] == [ActionType.HOVER, *of_others]


def test_labels_tell_the_types_apart():
    assert len({kind.label for kind in ActionType}) == len(ActionType)


def test_a_type_with_a_point_is_drawn():
    for kind in ActionType:
        axes = Sheet().add_subplot()
        _mark(axes, example(kind), SIZE, "red")
        assert bool(axes.lines) == ("x" in kind.fields), kind
