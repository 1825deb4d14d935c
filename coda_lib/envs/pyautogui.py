"""Actions as calls of pyautogui's functions, by which a real screen is driven: here, in a process of its own, or in a machine."""

from __future__ import annotations

import re
from collections.abc import Sequence

from coda_lib.action import CLICK_FAMILY, Action, ActionError, ActionType, KeyRefused, pressed, to_pixel

Call = tuple[str, tuple, dict]  # name of a pyautogui function, its arguments, its keyword arguments

SCROLL_CLICKS = 5  # notches of the wheel in one scroll action
LONGEST_TEXT = 2_000  # characters that one action may type on a real screen
DRAG_SECONDS = 0.5  # a drag that jumps is taken for a click by many applications
_POINTER_CALLS = {
    ActionType.CLICK: "click", ActionType.DOUBLE_CLICK: "doubleClick", ActionType.RIGHT_CLICK: "rightClick",
    ActionType.HOVER: "moveTo",
}  # fmt: skip


def pyautogui_calls(action: Action, size: tuple[int, int]) -> list[Call]:
    """The pyautogui calls that carry out the action on a screen of `size` (width, height) in pixels.

    Each is (function name, arguments, keyword arguments), never code.  WAIT, DONE, FAIL and ANS touch no device and
    give no call.  Raises ActionError for text that pyautogui cannot type (it drops anything but ASCII in silence), or too long
    to type, and for keys that are refused (`keys`).
    """
    point = to_pixel(action.x, action.y, size) if action.x is not None else ()
    match action.type:
        case kind if kind in CLICK_FAMILY:
            return [(_POINTER_CALLS[kind], point, {})]
        case ActionType.DRAG:
            end = to_pixel(action.x2, action.y2, size)
            return [("moveTo", point, {}), ("dragTo", end, {"duration": DRAG_SECONDS, "button": "left"})]
        case ActionType.SCROLL:
            name = "scroll" if action.direction in ("up", "down") else "hscroll"
            clicks = SCROLL_CLICKS if action.direction in ("up", "right") else -SCROLL_CLICKS
            return [("moveTo", point, {}), (name, (clicks,), {})]
        case ActionType.HOTKEY:
            try:
                return [("hotkey", pressed(action.text), {})]
            except KeyRefused as error:
                raise ActionError(str(error)) from error
        case ActionType.TYPE:
            if len(action.text) > LONGEST_TEXT:
                raise ActionError(f"{len(action.text)} characters are too many to type")
            return [_typing_call(part) for part in re.findall(r"\r?\n|\t|<|[ -;=-~]+|.", action.text, flags=re.DOTALL)]
    return []


def _typing_call(part: str) -> Call:
    if part in ("\n", "\r\n", "\t"):
        return "press", ("tab" if part == "\t" else "enter",), {}
    if part == "<":  # pyautogui holds shift down on the key of an ISO keyboard that has < without it: > is what comes
        return "hotkey", ("shift", ","), {}
    if not part.isascii() or not part.isprintable():
        raise ActionError(f"pyautogui cannot type {part!r}")
    return "write", (part,), {}


def code_of(calls: Sequence[Call]) -> str:
    """The calls as Python: of pyautogui's functions on literals, which is all that can come of an `Action`."""
    said = []
    for name, arguments, named in calls:
        given = [*map(repr, arguments), *(f"{key}={value!r}" for key, value in named.items())]
        said.append(f"pyautogui.{name}({', '.join(given)})")
    return "; ".join(said)
