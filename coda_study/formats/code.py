"""Actions as the pyautogui code of ScienceBoard's and OSWorld's logs and of AgentNet, and back.

Code is parsed into a syntax tree, and only calls of known functions on literals are read; nothing is run.
"""

from __future__ import annotations

import ast
from typing import Any

from coda_lib.action import CONTROL, Action, ActionError, ActionType, hotkey_keys
from sciencedesk.pyautogui import Call, code_of, pyautogui_calls

Size = tuple[int, int]
_POINTED = {
    pyautogui_calls(Action(kind, 0, 0), (1, 1))[0][0]: kind
    for kind in ActionType
    if kind.arguments == ["start"]
}
_KEYS = {"enter": "\n", "return": "\n", "tab": "\t"}
_HELD = {ActionType.KEY_DOWN: "keyDown", ActionType.KEY_UP: "keyUp"}
_BUTTONS = {"click": {"left": "click", "primary": "click", "right": "rightClick", "secondary": "rightClick"}}
_BUTTONS |= {
    name: {"left": name, "primary": name}
    for name in ("doubleClick", "tripleClick", "mouseDown", "mouseUp", "dragTo")
}
MANY = 50  # times that one call may repeat an action


def action_code(action: Action, size: Size) -> str:
    """An action on a screen of `size` (width, height) as code: pyautogui's calls, or WAIT, DONE, FAIL, ANS.

    >>> action_code(Action.click(0.25, 0.5), (336, 252)), action_code(Action.answer("4 cm"), (336, 252))
    ('pyautogui.click(84, 126)', 'ANS 4 cm')
    """
    if not action.type.control:
        try:
            return code_of(pyautogui_calls(action, size))
        except ActionError:  # pyautogui cannot do it, and nothing was done; a log holds what the agent wanted
            return code_of([_wanted(action)])
    return action.type.name if action.text is None else f"{action.type.name} {action.text}"


def _wanted(action: Action) -> Call:
    """The call for text that cannot be typed, or for keys that are refused, which `read_code` reads back."""
    if action.type is ActionType.TYPE:
        return "write", (action.text,), {}
    return _HELD.get(action.type, "hotkey"), hotkey_keys(action.text), {}


def read_code(code: str, size: Size) -> tuple[Action, ...]:
    """The actions of a piece of code.  ActionError names the first statement that is no action.

    >>> code = "pyautogui.moveTo(84, 126); pyautogui.dragTo(168, 126)"
    >>> read_code(code, (336, 252)) == (Action.drag(0.25, 0.5, 0.5, 0.5),)
    True
    """
    word, _, text = code.strip().partition(" ")
    kind = CONTROL.get(word)
    if kind and kind.fields:  # ANS
        return (Action(kind, text=text),)
    if kind and not text:
        return (Action(kind),)
    try:
        statements = ast.parse(code.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ActionError(f"not code: {code[:120]!r}") from error
    reader = _Reader(size)
    for statement in statements:
        reader.read(statement)
    reader.end()
    return tuple(reader.actions)


class _Reader:
    """Joins calls into actions: a drag is a move and a drag, typed text is written in parts.

    `point` is the pointer's last position, `pending` a hover or typed text that the next call may continue.
    """

    def __init__(self, size: Size):
        self.size, self.actions, self.point, self.pending = size, [], None, None

    def read(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import | ast.Assign):  # import pyautogui; pyautogui.FAILSAFE = False
            return
        call = statement.value if isinstance(statement, ast.Expr) else None
        module, name = _name(call)
        if module == "time" and name == "sleep":
            self._add(Action.wait())
        elif module == "pyautogui":
            self._call(name, *_literals(call))
        elif module == "computer":
            self._computer(name, *_literals(call))
        else:
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

    def _type(self, text: str) -> None:
        if self.pending and self.pending.type is ActionType.TYPE:
            text, self.pending = self.pending.text + text, None
        self.end()
        self.pending = Action.type_text(text) if text else None

    def _forget_move(self) -> None:
        if self.pending and self.pending.type is ActionType.HOVER:
            self.pending = None

    def _call(self, name: str, arguments: list[Any], keywords: dict[str, Any]) -> None:
        values = dict(zip(_PARAMETERS.get(name, ()), arguments, strict=False)) | keywords
        name, button = {"leftClick": "click"}.get(name, name), str(values.get("button", "left")).lower()
        function = _BUTTONS.get(name, {button: name}).get(button)
        if function is None:
            raise ActionError(f"no action: pyautogui.{name} with the button {button!r}")
        match name:
            case "mouseUp" if self._read_point(values) is None:
                self._add(Action(ActionType.MOUSE_UP))
            case _ if name in (*_POINTED, "tripleClick"):
                given = self._read_point(values)
                self.point = given or self.point
                if self.point is None:
                    raise ActionError(f"{name}: no point")
                if name == "moveTo":
                    self.end()
                    self.pending = Action.hover(*self.point)
                else:
                    if given is None:
                        self._forget_move()
                    self._clicks(function, values)
            case "dragTo" if self.point is not None:
                start, self.point = self.point, self._read_point(values)
                if self.point is None:
                    raise ActionError("dragTo: no point")
                self._forget_move()
                self._add(Action.drag(*start, *self.point))
            case "scroll" | "hscroll":
                clicks, point = (
                    values.get("clicks", 0),
                    self._read_point(values) or self.point or (None, None),
                )
                if not isinstance(clicks, int | float) or not clicks:
                    raise ActionError(f"{name}: {clicks!r} clicks")
                directions = ("up", "down") if name == "scroll" else ("right", "left")
                self._forget_move()
                self._add(Action(ActionType.SCROLL, *point, direction=directions[clicks < 0]))
            case "write" | "typewrite" if isinstance(values.get("message"), str):
                self._type(values["message"])
            case "write" | "typewrite" | "press":
                for key in _keys(values.get("message") or values.get("keys")) * _times(values, "presses"):
                    self._type(_KEYS[key]) if key in _KEYS else self._add(Action.hotkey(key))
            case "keyDown" | "keyUp":
                for key in _keys(values.get("key")):
                    self._add(
                        Action(ActionType.KEY_DOWN if name == "keyDown" else ActionType.KEY_UP, text=key)
                    )
            case "hotkey" if arguments == ["shift", ","]:  # how `pyautogui_calls` types it
                self._type("<")
            case "hotkey":
                keys = _keys(arguments[0] if arguments and isinstance(arguments[0], list) else arguments)
                self._add(Action.hotkey(" ".join(keys)))
            case _:
                raise ActionError(f"no action: pyautogui.{name}")

    def _clicks(self, function: str, values: dict[str, Any]) -> None:
        """So many clicks in one place: two with the left button are a double click, three one and a click."""
        times = 3 if function == "tripleClick" else _times(values, "clicks")
        if function in ("click", "tripleClick") and times > 1:
            self._add(Action(ActionType.DOUBLE_CLICK, *self.point))
            function, times = "click", times - 2
        for _ in range(times):
            self._add(Action(_POINTED[function], *self.point))

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
    **dict.fromkeys(("click", "leftClick"), ("x", "y", "clicks", "interval", "button")),
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
    return ["space" if key == " " else key for key in keys]


def _times(values: dict[str, Any], name: str) -> int:
    times = values.get(name, 1)
    if not isinstance(times, int) or not 1 <= times <= MANY:
        raise ActionError(f"{name} must be a whole number from 1 to {MANY}, not {times!r}")
    return times


def _name(call: ast.expr | None) -> tuple[str, str]:
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
    ):
        return call.func.value.id, call.func.attr
    return "", ""


def _literals(call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    try:
        keywords = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        return [ast.literal_eval(argument) for argument in call.args], keywords
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ActionError(f"no literals: {ast.unparse(call)[:120]!r}") from error
