"""Actions as the pyautogui code of ScienceBoard's and OSWorld's logs and of AgentNet, and back.

Code is parsed into a syntax tree, and only calls of known functions on literals are read; nothing is run.
"""

from __future__ import annotations

import ast
from typing import Any

from coda_lib.action import CONTROL, Action, ActionError, ActionType, hotkey_keys
from sciencedesk.pyautogui import code_of, pyautogui_calls

Size = tuple[int, int]
_POINTED = {
    pyautogui_calls(Action(kind, 0, 0), (1, 1))[0][0]: kind
    for kind in ActionType
    if kind.arguments == ["start"]
}
_KEYS = {"enter": "\n", "return": "\n", "tab": "\t"}
_CHARACTERS = {" ": "space", "\n": "enter", "\r": "enter", "\t": "tab"}  # keys that pyautogui takes as well
_HELD = {"keyDown": ActionType.KEY_DOWN, "keyUp": ActionType.KEY_UP}
_LEFT_BUTTON = ("click", "doubleClick", "tripleClick", "mouseDown", "mouseUp", "dragTo")  # by default
MANY = 50  # times that one call may repeat an action


def action_code(action: Action, size: Size) -> str:
    """An action on a screen of `size` (width, height) as code: pyautogui's calls, or WAIT, DONE, FAIL, ANS.

    >>> action_code(Action.click(0.25, 0.5), (336, 252)), action_code(Action.answer("4 cm"), (336, 252))
    ('pyautogui.click(84, 126)', 'ANS 4 cm')
    """
    if action.type.control:
        return action.type.name if action.text is None else f"{action.type.name} {action.text}"
    try:
        return code_of(pyautogui_calls(action, size))
    except ActionError:  # pyautogui cannot do it, and nothing was done; a log holds what the agent wanted
        names = {ActionType.TYPE: "write", **{kind: name for name, kind in _HELD.items()}}
        arguments = (action.text,) if action.type is ActionType.TYPE else hotkey_keys(action.text)
        return code_of([(names.get(action.type, "hotkey"), arguments, {})])


def read_code(code: str, size: Size) -> tuple[Action, ...]:
    """The actions of a piece of code.  ActionError, and nothing else, names the first that is none.

    >>> code = "pyautogui.moveTo(84, 126); pyautogui.dragTo(168, 126)"
    >>> read_code(code, (336, 252)) == (Action.drag(0.25, 0.5, 0.5, 0.5),)
    True
    """
    word, _, text = code.strip().partition(" ")
    kind = CONTROL.get(word)
    if kind and (kind.fields or not text):  # of these only ANS has a text
        return (Action(kind, text=text if kind.fields else None),)
    reader = _Reader(size)
    try:
        for statement in ast.parse(code.strip()).body:
            reader.read(statement)
    except ActionError:
        raise
    except (ValueError, TypeError, RecursionError, MemoryError, OverflowError, SyntaxError) as error:
        raise ActionError(f"not code: {code[:120]!r}") from error
    reader.end()
    return tuple(reader.actions)


class _Reader:
    """Joins calls into actions: a drag is a move and a drag, typed text is written in parts.

    `point` is the pointer's last position, `pending` a hover or typed text that the next call may continue,
    `copied` a text that ctrl+v types.
    """

    def __init__(self, size: Size):
        self.size, self.actions, self.point, self.pending, self.copied = size, [], None, None, None

    def read(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Import() | ast.Assign() | ast.Expr(ast.Constant(str())):
                pass  # import pyautogui; pyautogui.FAILSAFE = False; UI-TARS' thought, as a string
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("pyperclip"), "copy")) as call):
                (self.copied,), _ = _literals(call)
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("time"), "sleep"))):
                self._add(Action.wait())
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("pyautogui"), name)) as call):
                self._call(name, *_literals(call))
            case ast.Expr(ast.Call(ast.Attribute(ast.Name("computer"), name)) as call):
                self._computer(name, *_literals(call))
            case _:
                raise ActionError(f"no action: {ast.unparse(statement)[:120]!r}")

    def _computer(self, name: str, arguments: list[Any], keywords: dict[str, Any]) -> None:
        """The functions that OpenCUA and AgentNet add to pyautogui's."""
        match name, keywords.get("status"):
            case "terminate", "success" | "failure" as status:
                self._add(Action.done() if status == "success" else Action.fail())
            case "wait", _:
                self._add(Action.wait())
            case "tripleClick" | "triple_click", _:
                self._call("tripleClick", arguments, keywords)
            case _:
                raise ActionError(f"no action: computer.{name}")

    def end(self) -> None:
        """Add the pending action."""
        if self.pending:
            self.actions.append(self.pending)
            self.pending = None

    def _add(self, action: Action) -> None:
        self.end()
        self.actions.append(action)

    def _forget_hover(self) -> None:
        if self.pending and self.pending.type is ActionType.HOVER:
            self.pending = None

    def _call(self, name: str, arguments: list[Any], keywords: dict[str, Any]) -> None:
        name = "click" if name == "leftClick" else name
        if name == "hotkey":
            return self._hotkey(arguments or keywords.get("keys"))
        values = dict(zip(_PARAMETERS.get(name, ()), arguments, strict=False)) | keywords
        button = str(values.get("button", "left")).lower()
        if name == "click" and button in ("right", "secondary"):
            name = "rightClick"
        elif name in _LEFT_BUTTON and button not in ("left", "primary"):
            raise ActionError(f"no action: pyautogui.{name} with the button {button!r}")
        match name:
            case _ if name in (*_POINTED, "tripleClick"):
                self._at_point(name, values)
            case "dragTo" if self.point is not None:
                self._drag(values)
            case "scroll" | "hscroll":
                self._scroll(name, values)
            case "write" | "typewrite" if isinstance(values.get("message"), str):
                self._type(values["message"])
            case "write" | "typewrite" | "press":
                for key in _keys(values.get("message") or values.get("keys")) * _times(values, "presses"):
                    self._type(_KEYS[key]) if key in _KEYS else self._add(Action.hotkey(key))
            case "keyDown" | "keyUp":
                for key in _keys(values.get("key")):
                    self._add(Action(_HELD[name], text=key))
            case _:
                raise ActionError(f"no action: pyautogui.{name}")

    def _at_point(self, name: str, values: dict[str, Any]) -> None:
        """A hover, clicks, or a button held or released, at a point of its own or where the pointer is."""
        point = self._read_point(values)
        if name == "mouseUp" and point is None:
            return self._add(Action(ActionType.MOUSE_UP))
        self.point = point or self.point
        if self.point is None:
            raise ActionError(f"{name}: no point")
        if name == "moveTo":
            self.end()
            self.pending = Action.hover(*self.point)
            return
        if point is None:
            self._forget_hover()
        times = 3 if name == "tripleClick" else _times(values, "clicks")
        if name in ("click", "tripleClick") and times > 1:  # two are a double click, three one and a click
            self._add(Action(ActionType.DOUBLE_CLICK, *self.point))
            name, times = "click", times - 2
        for _ in range(times):
            self._add(Action(_POINTED[name], *self.point))

    def _drag(self, values: dict[str, Any]) -> None:
        start, self.point = self.point, self._read_point(values)
        if self.point is None:
            raise ActionError("dragTo: no point")
        self._forget_hover()
        self._add(Action.drag(*start, *self.point))

    def _scroll(self, name: str, values: dict[str, Any]) -> None:
        clicks = values.get("clicks", 0)
        point = self._read_point(values) or self.point or (None, None)
        if not isinstance(clicks, int | float) or not clicks:
            raise ActionError(f"{name}: {clicks!r} clicks")
        directions = ("up", "down") if name == "scroll" else ("right", "left")
        self._forget_hover()
        self._add(Action(ActionType.SCROLL, *point, direction=directions[clicks < 0]))

    def _hotkey(self, named: Any) -> None:
        keys = _keys(named[0] if isinstance(named, list) and named and isinstance(named[0], list) else named)
        if keys == ["shift", ","]:  # how `pyautogui_calls` types it
            return self._type("<")
        if keys == ["ctrl", "v"] and isinstance(self.copied, str):
            return self._type(self.copied)
        self._add(Action.hotkey(" ".join(keys)))

    def _type(self, text: str) -> None:
        if self.pending and self.pending.type is ActionType.TYPE:
            text, self.pending = self.pending.text + text, None
        self.end()
        self.pending = Action.type_text(text) if text else None

    def _read_point(self, values: dict[str, Any]) -> tuple[float, float] | None:
        x, y = values.get("x"), values.get("y")
        if x is None or y is None:
            return None
        if not all(isinstance(value, int | float) for value in (x, y)):
            raise ActionError(f"no point: {x!r}, {y!r}")
        if not (0 <= x <= self.size[0] and 0 <= y <= self.size[1]):
            raise ActionError(f"({x}, {y}) is off the screen of {self.size[0]}x{self.size[1]}")
        return x / self.size[0], y / self.size[1]


_PARAMETERS = {
    **dict.fromkeys((*_POINTED, "tripleClick", "dragTo"), ("x", "y")),
    "click": ("x", "y", "clicks", "interval", "button"),
    **dict.fromkeys(("scroll", "hscroll"), ("clicks", "x", "y")),
    **dict.fromkeys(("write", "typewrite"), ("message",)),
    "press": ("keys", "presses"),
    **dict.fromkeys(("keyDown", "keyUp"), ("key",)),
}


def _keys(named: Any) -> list[str]:
    """The keys of a call: one, or a list of them."""
    keys = [named] if isinstance(named, str) else named
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) and key for key in keys):
        raise ActionError(f"no keys: {str(named)[:60]!r}")
    return [_CHARACTERS.get(key, key) for key in keys]


def _times(values: dict[str, Any], name: str) -> int:
    times = values.get(name, 1)
    if not isinstance(times, int) or not 1 <= times <= MANY:
        raise ActionError(f"{name} must be a whole number from 1 to {MANY}, not {times!r}")
    return times


def _literals(call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    try:
        keywords = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        return [ast.literal_eval(argument) for argument in call.args], keywords
    except ValueError as error:
        raise ActionError(f"no literals: {ast.unparse(call)[:120]!r}") from error
