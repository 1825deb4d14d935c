"""Keys, the table of action types, and the text in which models write actions.

An `Action` is one low-level operation on a screen of any size: its coordinates are fractions of width and height.  `ActionType`
is the table of all types of action.  The text form is that of UI-TARS 1.5 (`click(start_box='(120,48)')`), whose coordinates
are pixels of the image that the model sees; the grammars of older models are read as well.

Model output is data: regular expressions read it into an `Action` and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Convention = Literal["pixel", "thousandth"]  # UI-TARS 1.5 writes pixels, its predecessors thousandths

DIRECTIONS = ("up", "down", "left", "right")
LONGEST_REPLY = 20_000  # characters; a longer reply with actions is refused unread, one with a plan cut


class ActionError(ValueError):
    """A text that is no action, or an action that cannot be carried out; the message quotes the fault."""


# ---- keys ------------------------------------------------------------------------------------------------------------
_ALIASES = {
    "control": "ctrl", "return": "enter", "escape": "esc", "del": "delete", "pgup": "pageup", "pgdn": "pagedown",
    "arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right", "spacebar": "space",
    "super": "win", "meta": "win",
}  # fmt: skip


def hotkey_keys(text: str) -> tuple[str, ...]:
    """The keys of a chord in lower case, each by one name.

    >>> hotkey_keys("Control+C")
    ('ctrl', 'c')
    """
    keys = re.findall(r"[^\s+]+|(?:^|(?<=[\s+]))\+$", text.lower().strip())  # a last '+' after a gap is the plus key
    return tuple(_ALIASES.get(key, key) for key in keys)


# ---- the table of action types ---------------------------------------------------------------------------------------
_ARGUMENTS = {  # argument: its names in the grammar, of which the first is written, and the fields of `Action` that it gives
    "start": (("start_box", "start_point", "point"), ("x", "y")),
    "end": (("end_box", "end_point"), ("x2", "y2")),
    "text": (("content",), ("text",)),
    "keys": (("key", "hotkey", "press"), ("text",)),
    "direction": (("direction",), ("direction",)),
}


class ActionType(StrEnum):
    """The table of action types, one row each.

    Columns: name in the grammar of UI-TARS 1.5 (`hover` and `answer` are additions); name in words; arguments; effect: "device"
    (mouse or keyboard), "wait", or "end" (of the episode); names in the grammars of older models.  What a type means to the
    reward, to pyautogui, to Qt and in a picture is a `match` in those modules, closed by `assert_never`.
    """

    # fmt: off
    CLICK        = "click",        "click",        "start",           "device", "left_single"
    DOUBLE_CLICK = "left_double",  "double click", "start",           "device"
    RIGHT_CLICK  = "right_single", "right click",  "start",           "device"
    HOVER        = "hover",        "hover",        "start",           "device"
    DRAG         = "drag",         "drag",         "start end",       "device", "select"
    SCROLL       = "scroll",       "scroll",       "start direction", "device"
    TYPE         = "type",         "type",         "text",            "device"
    HOTKEY       = "hotkey",       "hotkey",       "keys",            "device", "press keydown release keyup"
    WAIT         = "wait",         "wait",         "",                "wait"
    DONE         = "finished",     "done",         "",                "end"
    FAIL         = "call_user",    "give up",      "",                "end"
    ANS          = "answer",       "answer",       "text",            "end"
    # fmt: on

    def __new__(cls, name: str, label: str, arguments: str, effect: str, older: str = "") -> ActionType:
        kind = str.__new__(cls, name)
        kind._value_, kind.label, kind.arguments, kind.older = name, label, arguments.split(), older.split()
        kind.fields = {field for argument in kind.arguments for field in _ARGUMENTS[argument][1]}  # of `Action`
        kind.control, kind.ends = effect != "device", effect == "end"
        return kind


CONTROL = {kind.name: kind for kind in ActionType if kind.control}  # a plan that starts with such a word needs no executor


@dataclass(frozen=True)
class Action:
    """One operation on a screen of any size.

    Coordinates are fractions of the width (x) and height (y), in [0, 1]: (x, y) is the point of a click, hover or
    scroll and the start of a drag, (x2, y2) the end of a drag.  `text` is typed text, an answer, or the keys of a
    hotkey ('Ctrl+C' is stored as 'ctrl c').  `direction` belongs to scroll.  ValueError for a field that is missing, that
    the type does not have, or whose value is out of range.

    >>> Action.click(0.25, 0.5) == Action("click", x=0.25, y=0.5)
    True
    >>> Action("click", x=0.25)
    Traceback (most recent call last):
    ValueError: click: y is missing
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
            if (value is not None) != (name in self.type.fields):
                fault = "is missing" if value is None else f"does not apply: {value!r}"
                raise ValueError(f"{self.type}: {name} {fault}")
            if name in ("x", "y", "x2", "y2") and value is not None and not 0 <= value <= 1:
                raise ValueError(f"{self.type}: {name} must be a fraction in [0, 1], not {value!r}")
        if self.direction is not None and self.direction not in DIRECTIONS:
            raise ValueError(f"{self.type}: direction must be one of {', '.join(DIRECTIONS)}, not {self.direction!r}")
        if "keys" in self.type.arguments:
            object.__setattr__(self, "text", " ".join(hotkey_keys(self.text)))
            if not self.text:
                raise ValueError(f"{self.type}: text names no key")

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
    """The pixel of an image of `size` (width, height) at the fractions (x, y); 1.0 is the last one."""
    return min(round(x * size[0]), size[0] - 1), min(round(y * size[1]), size[1] - 1)


# ---- text to actions -------------------------------------------------------------------------------------------------
_TYPES = {name: kind for kind in ActionType for name in (kind.value, *kind.older)}
_ROLES = {name: argument for argument, (names, _) in _ARGUMENTS.items() for name in names}

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
    rf"\s*(?:,\s*(?:{'|'.join(_ROLES)})\s*=\s*['\"]|,?\s*\)\s*?(?:\Z|\n\s*(?:Action:\s*)?(?:{'|'.join(_TYPES)})\s*\())"
)


def parse_actions(reply: str, size: tuple[int, int], convention: Convention = "pixel") -> tuple[Action, ...]:
    r"""The actions in a model's reply: one or more calls of the UI-TARS grammar, each on a line of its own.

    Everything up to the first `Action:` before a call (the thought) is skipped.  `size` is the (width, height) in pixels of the
    image that the model saw.  Quoted text may hold the escapes of `_ESCAPES`; any other backslash stands for itself.
    ActionError, which quotes what cannot be read.

    >>> (action,) = parse_actions("Thought: Show the grid.\nAction: click(start_box='(84,63)')", size=(336, 252))
    >>> action == Action.click(0.25, 0.25)
    True
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


def _parse_call(text: str, start: int, scale: tuple[int, int]) -> tuple[Action, int]:
    """The call at position `start`, and the position after it."""
    call = _CALL.match(text, start)
    if call is None or call[1] not in _TYPES:
        raise ActionError(f"not an action: {_quote(text[start:])}")
    kind, position, values = _TYPES[call[1]], call.end(), {}
    allowed = {*kind.arguments, "text"} if kind.ends else kind.arguments  # a closing remark is read, and left in the reply
    while not (close := _CLOSE.match(text, position)):
        key = _KEY.match(text, position)
        argument = _ROLES.get(key[2]) if key and bool(key[1]) == bool(values) else None
        if argument not in allowed or argument in values:
            raise ActionError(f"{call[1]}: bad arguments: {_quote(text[start:])}")
        values[argument], position = _read_string(text, key.end(), key[3])
    if missing := set(kind.arguments) - values.keys():
        raise ActionError(f"{call[1]}: no {' or '.join(sorted(missing))}: {_quote(text[start:])}")
    return _build(kind, values, scale), close.end()


def _read_string(text: str, position: int, quote: str) -> tuple[str, int]:
    """The string whose opening quote is just before `position`, and the position after its closing quote."""
    for mark in _MARK.finditer(text, position):
        if mark.group() == quote and _AFTER_STRING.match(text, mark.end()):
            raw = text[position : mark.start()]
            return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), raw, flags=re.DOTALL), mark.end()
    raise ActionError(f"no closing quote that ends the argument: {_quote(text[position - 1 :])}")


def _build(kind: ActionType, values: dict[str, str], scale: tuple[int, int]) -> Action:
    fields = {}
    for argument in kind.arguments:
        match argument:
            case "start" | "end":
                fields |= zip(_ARGUMENTS[argument][1], _parse_point(values[argument], scale), strict=True)
            case "direction":
                fields["direction"] = values["direction"].strip().lower()
            case "text" | "keys":
                fields["text"] = values[argument]
    try:
        return Action(kind, **fields)
    except ValueError as error:
        raise ActionError(str(error)) from error


def _parse_point(box: str, scale: tuple[int, int]) -> tuple[float, float]:
    """The centre of a box as fractions.  ActionError beyond the edge, but for one unit, which is rounding."""
    match = _BOX.fullmatch(box)
    if match is None:
        raise ActionError(f"not a point or box: {_quote(box)}")
    numbers = [float(number) for number in match.groups() if number is not None]
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


# ---- actions to text -------------------------------------------------------------------------------------------------
def format_action(action: Action, size: tuple[int, int], convention: Convention = "pixel") -> str:
    """The action as one canonical line of the UI-TARS 1.5 grammar, for an image of `size` (width, height) in pixels.

    >>> format_action(Action.click(0.25, 0.5), size=(336, 252))
    "click(start_box='(84,126)')"
    """
    scale, written = _scale(size, convention), []
    for argument in action.type.arguments:
        (name, *_), fields = _ARGUMENTS[argument]
        values = [getattr(action, field) for field in fields]
        value = "({},{})".format(*to_pixel(*values, scale)) if len(values) == 2 else _escape(*values)
        written.append(f"{name}='{value}'")
    return f"{action.type}({', '.join(written)})"


def _escape(text: str) -> str:
    for char, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(char, escaped)
    return text
