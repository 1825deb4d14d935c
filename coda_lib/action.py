"""Actions, and the text in which models write them.

An `Action` is one low-level operation on a screen, independent of that screen's size: coordinates are fractions of its
width and height.  The text form is the one of UI-TARS 1.5 (`click(start_box='(120,48)')`), whose coordinates are
pixels of the image the model was shown; older dialects of the grammar are read as well.

Model output is data: it is read by regular expressions into an `Action` and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

_ALIASES = {
    "control": "ctrl", "return": "enter", "escape": "esc", "del": "delete", "pgup": "pageup", "pgdn": "pagedown",
    "arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right", "spacebar": "space",
    "super": "win", "meta": "win",
}  # fmt: skip
_FUNCTION = frozenset(f"f{number}" for number in range(1, 13))
_MODIFIERS = frozenset(("ctrl", "alt", "shift", "win", "ctrlleft", "ctrlright", "altleft", "altright", "shiftleft", "shiftright"))
_NAMED = frozenset(
    ("enter", "esc", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown", "up", "down", "left",
     "right", "capslock", "numlock", "scrolllock", "pause", "printscreen", "apps")
)  # fmt: skip
KEYS = frozenset(map(chr, range(33, 127))) - frozenset(map(chr, range(65, 91))) | _FUNCTION | _MODIFIERS | _NAMED
MOST = 4  # keys of a chord


class KeyRefused(ValueError):
    """A key that there is not, or a chord that no model may press; the message quotes it."""


def hotkey_keys(text: str) -> tuple[str, ...]:
    """The keys of a chord in lower case and under one name each: 'Ctrl+C', 'control c' -> ('ctrl', 'c')."""
    keys = re.findall(r"[^\s+]+|(?:^|(?<=[\s+]))\+$", text.lower().strip())  # a last '+' after a gap is the plus key
    return tuple(_ALIASES.get(key, key) for key in keys)


def pressed(text: str) -> tuple[str, ...]:
    """The keys of a chord that may be pressed.  KeyRefused says what is wrong with any other."""
    keys = hotkey_keys(text)
    said = " ".join(keys)[:60]
    if unknown := [key for key in keys if key not in KEYS]:
        raise KeyRefused(f"there is no key {unknown[0][:30]!r}")
    if not 0 < len(keys) <= MOST:
        raise KeyRefused(f"a chord has one to {MOST} keys, not {len(keys)}: {said!r}")
    held = {key.removesuffix("left").removesuffix("right") or key for key in keys if key in _MODIFIERS}
    others = set(keys) - _MODIFIERS
    leaves = {"ctrl", "alt"} <= held and others & (_FUNCTION | {"delete", "backspace", "esc", "t"})
    if leaves or (held and "printscreen" in others) or "win" in held:
        raise KeyRefused(f"leaves the application: {said!r}")
    return keys


Convention = Literal["pixel", "thousandth"]  # UI-TARS 1.5 writes pixels, its predecessors thousandths

DIRECTIONS = ("up", "down", "left", "right")
LONGEST_REPLY = 20_000  # characters; a reply beyond it is refused unread


class ActionError(ValueError):
    """A text that is no action, or an action that cannot be carried out; the message quotes what is wrong."""


class ActionType(StrEnum):
    """The kinds of action; the values are the names in the UI-TARS 1.5 grammar (`hover` and `answer` are additions)."""

    CLICK = "click"
    DOUBLE_CLICK = "left_double"
    RIGHT_CLICK = "right_single"
    HOVER = "hover"
    DRAG = "drag"
    TYPE = "type"
    HOTKEY = "hotkey"
    SCROLL = "scroll"
    WAIT = "wait"
    DONE = "finished"
    FAIL = "call_user"
    ANS = "answer"


CLICK_FAMILY = frozenset(
    (ActionType.CLICK, ActionType.DOUBLE_CLICK, ActionType.RIGHT_CLICK, ActionType.HOVER)
)  # the actions that are a kind and a point

_POINT, _SPAN = frozenset({"x", "y"}), frozenset({"x", "y", "x2", "y2"})
_FIELDS = {
    **dict.fromkeys(CLICK_FAMILY, _POINT),
    **dict.fromkeys((ActionType.TYPE, ActionType.HOTKEY, ActionType.ANS), frozenset({"text"})),
    **dict.fromkeys((ActionType.WAIT, ActionType.DONE, ActionType.FAIL), frozenset()),
    ActionType.DRAG: _SPAN,
    ActionType.SCROLL: _POINT | {"direction"},
}


@dataclass(frozen=True)
class Action:
    """One operation on a screen of any size.

    Coordinates are fractions of the width (x) and height (y), in [0, 1]: (x, y) is the point of a click, hover or
    scroll and the start of a drag, (x2, y2) the end of a drag.  `text` is typed text, an answer, or the keys of a
    hotkey ('Ctrl+C' is stored as 'ctrl c').  `direction` belongs to scroll.  A missing, superfluous or bad field is a
    ValueError.
    """

    type: ActionType
    x: float | None = None
    y: float | None = None
    x2: float | None = None
    y2: float | None = None
    text: str | None = None
    direction: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", ActionType(self.type))
        for name in ("x", "y", "x2", "y2", "text", "direction"):
            value = getattr(self, name)
            if (value is not None) != (name in _FIELDS[self.type]):
                fault = "is missing" if value is None else f"does not apply: {value!r}"
                raise ValueError(f"{self.type}: {name} {fault}")
            if name in _SPAN and value is not None and not 0 <= value <= 1:
                raise ValueError(f"{self.type}: {name} must be a fraction in [0, 1], not {value!r}")
        if self.type is ActionType.SCROLL and self.direction not in DIRECTIONS:
            raise ValueError(f"scroll: direction must be one of {', '.join(DIRECTIONS)}, not {self.direction!r}")
        if self.type is ActionType.HOTKEY:
            object.__setattr__(self, "text", " ".join(hotkey_keys(self.text)))
            if not self.text:
                raise ValueError("hotkey: text names no key")

    @classmethod
    def click(cls, x: float, y: float) -> Action:
        return cls(ActionType.CLICK, x, y)

    @classmethod
    def double_click(cls, x: float, y: float) -> Action:
        return cls(ActionType.DOUBLE_CLICK, x, y)

    @classmethod
    def right_click(cls, x: float, y: float) -> Action:
        return cls(ActionType.RIGHT_CLICK, x, y)

    @classmethod
    def hover(cls, x: float, y: float) -> Action:
        return cls(ActionType.HOVER, x, y)

    @classmethod
    def drag(cls, x: float, y: float, x2: float, y2: float) -> Action:
        return cls(ActionType.DRAG, x, y, x2, y2)

    @classmethod
    def type_text(cls, text: str) -> Action:
        return cls(ActionType.TYPE, text=text)

    @classmethod
    def hotkey(cls, keys: str) -> Action:
        return cls(ActionType.HOTKEY, text=keys)

    @classmethod
    def scroll(cls, x: float, y: float, direction: str) -> Action:
        return cls(ActionType.SCROLL, x, y, direction=direction)

    @classmethod
    def wait(cls) -> Action:
        return cls(ActionType.WAIT)

    @classmethod
    def done(cls) -> Action:
        return cls(ActionType.DONE)

    @classmethod
    def fail(cls) -> Action:
        return cls(ActionType.FAIL)

    @classmethod
    def answer(cls, text: str) -> Action:
        return cls(ActionType.ANS, text=text)


def to_pixel(x: float, y: float, size: tuple[int, int]) -> tuple[int, int]:
    """The pixel of an image of `size` (width, height) that the fractions (x, y) name; 1.0 is the last one."""
    return min(round(x * size[0]), size[0] - 1), min(round(y * size[1]), size[1] - 1)


# ---- text to actions -------------------------------------------------------------------------------------------------
_NAMES = {kind.value: kind for kind in ActionType} | {
    "left_single": ActionType.CLICK, "select": ActionType.DRAG, "press": ActionType.HOTKEY,
    "keydown": ActionType.HOTKEY, "release": ActionType.HOTKEY, "keyup": ActionType.HOTKEY,
}  # fmt: skip
_ROLES = {
    "start_box": "start", "start_point": "start", "point": "start", "end_box": "end", "end_point": "end",
    "content": "text", "key": "keys", "hotkey": "keys", "press": "keys", "direction": "direction",
}  # argument name -> what it gives  # fmt: skip
_NEEDED = {
    **dict.fromkeys(CLICK_FAMILY, {"start"}),
    **dict.fromkeys((ActionType.TYPE, ActionType.ANS), {"text"}),
    **dict.fromkeys((ActionType.WAIT, ActionType.DONE, ActionType.FAIL), set()),
    ActionType.DRAG: {"start", "end"},
    ActionType.HOTKEY: {"keys"},
    ActionType.SCROLL: {"start", "direction"},
}
_MAY_REMARK = (ActionType.DONE, ActionType.FAIL)  # their content is a closing remark: read, and left in the reply

_CALL = re.compile(r"\s*(\w+)\s*\(\s*")
_ACTION_MARK = re.compile(r"(?:^|\s)Action:(?=\s*\w+\s*\()")
_KEY = re.compile(r"\s*(,?)\s*(\w+)\s*=\s*(['\"])")
_CLOSE = re.compile(r"\s*,?\s*\)")
_GAP = re.compile(r"\s*?(?:\Z|\n\s*(?:Action:\s*)?)")  # between two calls
_MARK = re.compile(r"\\.|['\"]", re.DOTALL)  # an escape, or a quote that may be the last one
_NUMBER = r"\s*(-?\d+(?:\.\d+)?)\s*"
_BOX = re.compile(
    rf"\s*(?:<\|box_start\|>)?\s*(?:\({_NUMBER},{_NUMBER}(?:,{_NUMBER},{_NUMBER})?\)|<point>{_NUMBER}\s{_NUMBER}</point>)"
    r"\s*(?:<\|box_end\|>)?\s*"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
# Models forget to escape quotes, so a quote ends its string only where the call goes on or ends after it.
_AFTER_STRING = re.compile(
    rf"\s*(?:,\s*(?:{'|'.join(_ROLES)})\s*=\s*['\"]|,?\s*\)\s*?(?:\Z|\n\s*(?:Action:\s*)?(?:{'|'.join(_NAMES)})\s*\())"
)


def parse_actions(reply: str, size: tuple[int, int], convention: Convention = "pixel") -> tuple[Action, ...]:
    """The actions in a model's reply: one or more calls of the UI-TARS grammar, each on a line of its own.

    Everything up to the first `Action:` that a call follows (the thought) is skipped.  `size` is the (width, height) in
    pixels of the image the model saw.  In quoted text the escapes of `_ESCAPES` count, any other backslash stands for
    itself.  Raises ActionError, which quotes what could not be read.
    """
    if len(reply) > LONGEST_REPLY:
        raise ActionError(f"a reply of {len(reply)} characters: {_quote(reply)}")
    text, position, actions, scale = reply.rstrip(), 0, [], _scale(size, convention)
    if not _CALL.match(text):
        mark = _ACTION_MARK.search(text)
        if mark is None:
            raise ActionError(f"no action in the reply: {_quote(reply)}")
        position = mark.end()
    while position < len(text):
        action, end = _parse_call(text, position, scale)
        gap = _GAP.match(text, end)
        if gap is None:
            raise ActionError(f"no line end after an action: {_quote(text[position:])}")
        actions.append(action)
        position = gap.end()
    return tuple(actions)


def _parse_call(text: str, position: int, scale: tuple[int, int]) -> tuple[Action, int]:
    """The call that starts at `position`, and the position after it."""
    begin, call = position, _CALL.match(text, position)
    if call is None or call[1] not in _NAMES:
        raise ActionError(f"not an action: {_quote(text[begin:])}")
    kind, position, given = _NAMES[call[1]], call.end(), {}
    allowed = {"text"} if kind in _MAY_REMARK else _NEEDED[kind]
    while not (close := _CLOSE.match(text, position)):
        key = _KEY.match(text, position)
        role = _ROLES.get(key[2]) if key and bool(key[1]) == bool(given) else None
        if role not in allowed or role in given:
            raise ActionError(f"{call[1]}: bad arguments: {_quote(text[begin:])}")
        given[role], position = _read_string(text, key.end(), key[3])
    if missing := _NEEDED[kind] - given.keys():
        raise ActionError(f"{call[1]}: no {' or '.join(sorted(missing))}: {_quote(text[begin:])}")
    return _build(kind, given, scale), close.end()


def _read_string(text: str, position: int, quote: str) -> tuple[str, int]:
    """The string whose opening quote is just before `position`, and the position after its closing quote."""
    for mark in _MARK.finditer(text, position):
        if mark.group() == quote and _AFTER_STRING.match(text, mark.end()):
            raw = text[position : mark.start()]
            return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), raw, flags=re.DOTALL), mark.end()
    raise ActionError(f"no closing quote that ends the argument: {_quote(text[position - 1 :])}")


def _build(kind: ActionType, given: dict[str, str], scale: tuple[int, int]) -> Action:
    x, y = _parse_point(given["start"], scale) if "start" in given else (None, None)
    x2, y2 = _parse_point(given["end"], scale) if "end" in given else (None, None)
    text = None if kind in _MAY_REMARK else given.get("text", given.get("keys"))
    direction = given["direction"].strip().lower() if "direction" in given else None
    try:
        return Action(kind, x, y, x2, y2, text, direction)
    except ValueError as error:
        raise ActionError(str(error)) from error


def _parse_point(box: str, scale: tuple[int, int]) -> tuple[float, float]:
    """The centre of a box as fractions; a unit beyond the edge is put down to rounding, more is an ActionError."""
    found = _BOX.fullmatch(box)
    if found is None:
        raise ActionError(f"not a point or box: {_quote(box)}")
    numbers = [float(number) for number in found.groups() if number is not None]
    for number, limit in zip(numbers, scale * 2, strict=False):
        if not -1 <= number <= limit + 1:
            raise ActionError(f"{_quote(box)} is off the screen of {scale[0]}x{scale[1]}")
    x, y = (numbers[0] + numbers[-2]) / 2, (numbers[1] + numbers[-1]) / 2
    return min(max(x / scale[0], 0.0), 1.0), min(max(y / scale[1], 0.0), 1.0)


def _scale(size: tuple[int, int], convention: Convention) -> tuple[int, int]:
    if convention not in ("pixel", "thousandth"):
        raise ValueError(f"convention must be 'pixel' or 'thousandth', not {convention!r}")
    return size if convention == "pixel" else (1000, 1000)


def _quote(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")


# ---- actions to text ----------------------------------------------------------------------------------------------------
def format_action(action: Action, size: tuple[int, int], convention: Convention = "pixel") -> str:
    """The action as one canonical line of the UI-TARS 1.5 grammar, for an image of `size` (width, height) in pixels."""
    scale, arguments = _scale(size, convention), []
    if action.x is not None:
        arguments.append("start_box='({},{})'".format(*to_pixel(action.x, action.y, scale)))
    if action.x2 is not None:
        arguments.append("end_box='({},{})'".format(*to_pixel(action.x2, action.y2, scale)))
    if action.text is not None:
        name = "key" if action.type is ActionType.HOTKEY else "content"
        arguments.append(f"{name}='{_escape(action.text)}'")
    if action.direction is not None:
        arguments.append(f"direction='{action.direction}'")
    return f"{action.type}({', '.join(arguments)})"


def _escape(text: str) -> str:
    for char, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(char, escaped)
    return text
