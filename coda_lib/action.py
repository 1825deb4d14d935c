"""Keys, actions, and the table of action types.

An `Action` is one low-level operation on a screen of any size: its coordinates are fractions of width and
height.  `ActionType` is the table of all types of action.  `grammar` is the text in which models write them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

DIRECTIONS = ("up", "down", "left", "right")


class ActionError(ValueError):
    """A text that is no action, or an action that cannot be carried out; the message quotes the fault."""


# ---- keys ------------------------------------------------------------------------------------------------
_ALIASES = {
    "control": "ctrl", "return": "enter", "escape": "esc", "del": "delete", "pgup": "pageup",
    "pgdn": "pagedown",
    "arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right", "spacebar": "space",
    "super": "win", "meta": "win", "prior": "pageup", "next": "pagedown",
    "prtsc": "printscreen", "prtscr": "printscreen", "prntscrn": "printscreen",
}  # fmt: skip
# Keys that models write in two words or as X11 does, and a chord that is joined by hyphens.
_TWO_WORDS = re.compile(
    r"\b(page|arrow|back|caps|num|scroll|print)[ _-](up|down|left|right|space|lock|screen)\b"
)
_HYPHEN = re.compile(r"(?<![^\s+-])(ctrl|control|alt|shift|win|super|meta)-(?=.)")


def hotkey_keys(text: str) -> tuple[str, ...]:
    """The keys of a chord in lower case, each by one name.

    >>> hotkey_keys("Control+C")
    ('ctrl', 'c')
    """
    text = _HYPHEN.sub(r"\1 ", _TWO_WORDS.sub(r"\1\2", text.lower().strip()))
    keys = re.findall(r"[^\s+]+|(?:^|(?<=[\s+]))\+$", text)  # a last '+' after a gap is the plus key
    return tuple(_ALIASES.get(key, key) for key in keys)


# ---- the table of action types ---------------------------------------------------------------------------
# argument: its names in the grammar, of which the first is written, and the fields of `Action` that it gives
ARGUMENTS = {
    "start": (("start_box", "start_point", "point"), ("x", "y")),
    "end": (("end_box", "end_point"), ("x2", "y2")),
    "text": (("content",), ("text",)),
    "keys": (("key", "hotkey", "press"), ("text",)),
    "direction": (("direction",), ("direction",)),
}


class ActionType(StrEnum):
    """The table of action types, one row each.

    Columns: name in the grammar of UI-TARS 1.5 (`hover` and `answer` are additions); name in words;
    arguments, of which those with `?` may be missing; effect: "device" (mouse or keyboard), "wait", or "end"
    (of the episode); names in the grammars of other models.  What a type means to the reward, to pyautogui,
    to Qt and in a picture is a `match` in those modules, closed by `assert_never`.
    """

    # fmt: off
    CLICK        = "click",        "click",        "start",           "device", "left_single"
    DOUBLE_CLICK = "left_double",  "double click", "start",           "device"
    RIGHT_CLICK  = "right_single", "right click",  "start",           "device"
    HOVER        = "hover",        "hover",        "start",           "device", "move_to"
    DRAG         = "drag",         "drag",         "start end",       "device", "select"
    SCROLL       = "scroll",       "scroll",       "start? direction", "device"
    TYPE         = "type",         "type",         "text",            "device"
    HOTKEY       = "hotkey",       "hotkey",       "keys",            "device"
    KEY_DOWN     = "press",        "hold key",     "keys",            "device", "keydown"
    KEY_UP       = "release",      "release key",  "keys",            "device", "keyup"
    MOUSE_DOWN   = "mouse_down",   "hold mouse",   "start",           "device"
    MOUSE_UP     = "mouse_up",     "release mouse", "start?",         "device"
    WAIT         = "wait",         "wait",         "",                "wait"
    DONE         = "finished",     "done",         "",                "end"
    FAIL         = "call_user",    "give up",      "",                "end"
    ANS          = "answer",       "answer",       "text",            "end"
    # fmt: on

    def __new__(cls, name: str, label: str, arguments: str, effect: str, older: str = "") -> ActionType:
        kind = str.__new__(cls, name)
        kind._value_, kind.label, kind.older = name, label, older.split()
        kind.arguments = arguments.replace("?", "").split()
        kind.optional = {argument.rstrip("?") for argument in arguments.split() if argument.endswith("?")}
        # of `Action`
        kind.fields = {field for argument in kind.arguments for field in ARGUMENTS[argument][1]}
        kind.control, kind.ends = effect != "device", effect == "end"
        return kind


# a plan that starts with such a word needs no executor
CONTROL = {kind.name: kind for kind in ActionType if kind.control}


@dataclass(frozen=True)
class Action:
    """One operation on a screen of any size.

    Coordinates are fractions of the width (x) and height (y), in [0, 1]: (x, y) is the point of a click,
    hover or scroll and the start of a drag, (x2, y2) the end of a drag; a scroll without a point is where the
    pointer is.  `text` is typed text, an answer, or the keys of a hotkey ('Ctrl+C' is stored as 'ctrl c').
    `direction` belongs to scroll. ValueError for a field that is missing, that the type does not have, or
    whose value is out of range.

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
            if value is None and name in ("x", "y") and "start" in self.type.optional and self.x is self.y:
                continue
            if (value is not None) != (name in self.type.fields):
                fault = "is missing" if value is None else f"does not apply: {value!r}"
                raise ValueError(f"{self.type}: {name} {fault}")
            if name in ("x", "y", "x2", "y2") and value is not None and not 0 <= value <= 1:
                raise ValueError(f"{self.type}: {name} must be a fraction in [0, 1], not {value!r}")
        if self.direction is not None and self.direction not in DIRECTIONS:
            raise ValueError(
                f"{self.type}: direction must be one of {', '.join(DIRECTIONS)}, not {self.direction!r}"
            )
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
