"""Actions as calls of pyautogui's functions, which drive the screen of a process or of a machine."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import assert_never

from coda_lib.action import Action, ActionError, ActionType, hotkey_keys, to_pixel

Call = tuple[str, tuple, dict]  # name of a pyautogui function, its arguments, its keyword arguments

SCROLL_CLICKS = 5  # notches of the wheel in one scroll action
LONGEST_TEXT = 2_000  # characters that one action may type on a real screen
LONGEST_CHORD = 4  # keys
DRAG_SECONDS = 0.5  # many applications take a drag that jumps for a click

_FUNCTION = frozenset(f"f{number}" for number in range(1, 13))
_MODIFIERS = frozenset("ctrl alt shift win ctrlleft ctrlright altleft altright shiftleft shiftright".split())
_NAMED = frozenset(
    "enter esc tab space backspace delete insert home end pageup pagedown up down left right capslock "
    "numlock scrolllock pause printscreen apps add subtract multiply divide decimal".split()
) | {f"num{digit}" for digit in range(10)}
_CHARACTERS = frozenset(map(chr, range(33, 127))) - frozenset(string.ascii_uppercase)
_KEYS = _CHARACTERS | _FUNCTION | _MODIFIERS | _NAMED


def pyautogui_calls(action: Action, size: tuple[int, int], held: Sequence[str] = ()) -> list[Call]:
    """The pyautogui calls that carry out the action on a screen of `size` (width, height) in pixels.

    Each is (function name, arguments, keyword arguments), never code.  WAIT, DONE, FAIL and ANS give no call.
    ActionError for text that is too long or that pyautogui cannot type (it drops all but ASCII without a
    message), and for keys that `allowed_keys` refuses together with those that are `held`.

    >>> pyautogui_calls(Action.click(0.25, 0.5), size=(336, 252))
    [('click', (84, 126), {})]
    """
    point = to_pixel(action.x, action.y, size) if action.x is not None else ()
    keys_held = [key for key in held if key != "mouse"]
    match action.type:
        case ActionType.CLICK:
            return [("click", point, {})]
        case ActionType.DOUBLE_CLICK:
            return [("doubleClick", point, {})]
        case ActionType.RIGHT_CLICK:
            return [("rightClick", point, {})]
        case ActionType.HOVER:
            return [("moveTo", point, {})]
        case ActionType.DRAG:
            end = to_pixel(action.x2, action.y2, size)
            return [("moveTo", point, {}), ("dragTo", end, {"duration": DRAG_SECONDS, "button": "left"})]
        case ActionType.SCROLL:
            name = "scroll" if action.direction in ("up", "down") else "hscroll"
            clicks = SCROLL_CLICKS if action.direction in ("up", "right") else -SCROLL_CLICKS
            return [*([("moveTo", point, {})] if point else []), (name, (clicks,), {})]
        case ActionType.HOTKEY:
            return [("hotkey", allowed_keys(action.text, keys_held), {})]
        case ActionType.KEY_DOWN:
            return [("keyDown", (key,), {}) for key in allowed_keys(action.text, keys_held)]
        case ActionType.KEY_UP:
            return [("keyUp", (key,), {}) for key in allowed_keys(action.text)]
        case ActionType.MOUSE_DOWN:
            return [("mouseDown", point, {})]
        case ActionType.MOUSE_UP:
            return [("mouseUp", point, {})]
        case ActionType.TYPE:
            if chord := set(keys_held) - {"shift", "shiftleft", "shiftright"}:
                raise ActionError(f"text cannot be typed while {' '.join(sorted(chord))} is held")
            if len(action.text) > LONGEST_TEXT:
                raise ActionError(f"{len(action.text)} characters are too many to type")
            parts = re.findall(r"\r?\n|\t|<|[ -;=-~]+|.", action.text, flags=re.DOTALL)
            return [_typing_call(part) for part in parts]
        case ActionType.WAIT | ActionType.DONE | ActionType.FAIL | ActionType.ANS:
            return []
        case _:
            assert_never(action.type)


def allowed_keys(text: str, held: Sequence[str] = ()) -> tuple[str, ...]:
    """The keys of a chord.  ActionError for unknown keys, none, too many, or for leaving the application."""
    keys = hotkey_keys(text)
    chord = " ".join((*held, *keys))[:60]
    if unknown := [key for key in keys if key not in _KEYS]:
        raise ActionError(f"there is no key {unknown[0][:30]!r}")
    if not 0 < len(keys) <= LONGEST_CHORD:
        raise ActionError(f"a chord has one to {LONGEST_CHORD} keys, not {len(keys)}: {chord!r}")
    together = {*held, *keys}
    modifiers = {key.removesuffix("left").removesuffix("right") for key in together & _MODIFIERS}
    others = together - _MODIFIERS
    leaves = {"ctrl", "alt"} <= modifiers and others & (_FUNCTION | {"delete", "backspace", "esc", "t"})
    if leaves or (modifiers and "printscreen" in others) or "win" in modifiers:
        raise ActionError(f"leaves the application: {chord!r}")
    return keys


def _typing_call(part: str) -> Call:
    if part in ("\n", "\r\n", "\t"):
        return "press", ("tab" if part == "\t" else "enter",), {}
    if part == "<":  # pyautogui's own way types > on an ISO keyboard, which has a key for < without shift
        return "hotkey", ("shift", ","), {}
    if not part.isascii() or not part.isprintable():
        raise ActionError(f"pyautogui cannot type {part!r}")
    return "write", (part,), {}


def held_after(held: Sequence[str], calls: Sequence[Call]) -> tuple[str, ...]:
    """The keys, and `mouse` for its button, that are held down after calls."""
    down = dict.fromkeys(held)
    for name, arguments, _ in calls:
        key = "mouse" if name.startswith("mouse") else arguments[0] if name in ("keyDown", "keyUp") else None
        if name in ("keyDown", "mouseDown"):
            down[key] = None
        elif name in ("keyUp", "mouseUp"):
            down.pop(key, None)
    return tuple(down)


def letting_go(held: Sequence[str]) -> list[Call]:
    """The calls that release what is held down."""
    return [("mouseUp", (), {}) if key == "mouse" else ("keyUp", (key,), {}) for key in held]


def code_of(calls: Sequence[Call]) -> str:
    """The calls as Python: pyautogui's functions on literals, and nothing else.

    >>> code_of(pyautogui_calls(Action.click(0.25, 0.5), size=(336, 252)))
    'pyautogui.click(84, 126)'
    """
    lines = []
    for name, arguments, keywords in calls:
        literals = [*map(repr, arguments), *(f"{key}={value!r}" for key, value in keywords.items())]
        lines.append(f"pyautogui.{name}({', '.join(literals)})")
    return "; ".join(lines)
