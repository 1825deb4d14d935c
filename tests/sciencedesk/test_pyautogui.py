"""Actions as pyautogui calls."""

from __future__ import annotations

import pytest

from coda_lib.action import Action, ActionError
from sciencedesk.pyautogui import pyautogui_calls

SIZE = (336, 252)


@pytest.mark.parametrize(
    ("action", "calls"),
    [
        (Action.click(0.25, 0.5), [("click", (84, 126), {})]),
        (Action.click(1.0, 1.0), [("click", (335, 251), {})]),  # the last pixel, not one off the screen
        (Action.double_click(0.25, 0.5), [("doubleClick", (84, 126), {})]),
        (Action.right_click(0.25, 0.5), [("rightClick", (84, 126), {})]),
        (Action.hover(0.25, 0.5), [("moveTo", (84, 126), {})]),
        (
            Action.drag(0.25, 0.5, 0.5, 0.5),
            [("moveTo", (84, 126), {}), ("dragTo", (168, 126), {"duration": 0.5, "button": "left"})],
        ),
        (Action.scroll(0.25, 0.5, "up"), [("moveTo", (84, 126), {}), ("scroll", (5,), {})]),
        (Action.scroll(0.25, 0.5, "down"), [("moveTo", (84, 126), {}), ("scroll", (-5,), {})]),
        (Action.scroll(0.25, 0.5, "right"), [("moveTo", (84, 126), {}), ("hscroll", (5,), {})]),
        (Action.scroll(0.25, 0.5, "left"), [("moveTo", (84, 126), {}), ("hscroll", (-5,), {})]),
        (Action.hotkey("Ctrl+Shift+S"), [("hotkey", ("ctrl", "shift", "s"), {})]),
        (Action.type_text("it's"), [("write", ("it's",), {})]),
        (Action.type_text("a\n\r\nb\tc\n"), [
            ("write", ("a",), {}), ("press", ("enter",), {}), ("press", ("enter",), {}),
            ("write", ("b",), {}), ("press", ("tab",), {}), ("write", ("c",), {}), ("press", ("enter",), {}),
        ]),
        (Action.type_text(""), []),
        (Action.wait(), []),
        (Action.done(), []),
        (Action.fail(), []),
        (Action.answer("3"), []),
    ],
)  # fmt: skip
def test_pyautogui_calls(action, calls):
    assert pyautogui_calls(action, SIZE) == calls


@pytest.mark.parametrize("text", ["café", "a\x00", "a\rb"])
def test_what_pyautogui_would_drop_in_silence_is_an_error(text):
    with pytest.raises(ActionError, match="cannot type"):
        pyautogui_calls(Action.type_text(text), SIZE)
