"""Actions as the pyautogui code of ScienceBoard's and OSWorld's logs, and back.

Code is parsed into a syntax tree, and only calls of known functions on literals are read; nothing is run.
"""

from __future__ import annotations

import ast
from typing import Any

from coda_lib.action import CONTROL, Action, ActionError, ActionType, hotkey_keys
from coda_lib.envs.pyautogui import Call, code_of, pyautogui_calls

Size = tuple[int, int]
_POINTED = {pyautogui_calls(Action(kind, 0, 0), (1, 1))[0][0]: kind for kind in ActionType if kind.arguments == ["start"]}
_KEYS = {"enter": "\n", "return": "\n", "tab": "\t"}


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
    """The call for text that cannot be typed, or for a chord that is refused, which `read_code` reads back."""
    if action.type is ActionType.TYPE:
        return "write", (action.text,), {}
    return "hotkey", hotkey_keys(action.text), {}


def read_code(code: str, size: Size) -> tuple[Action, ...]:
    """The actions of a piece of code.  ActionError names the first statement that is no action.

    >>> read_code("pyautogui.moveTo(84, 126); pyautogui.dragTo(168, 126)", (336, 252)) == (Action.drag(0.25, 0.5, 0.5, 0.5),)
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
        else:
            raise ActionError(f"no action: {ast.unparse(statement)[:120]!r}")

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
        match name:
            case _ if name in _POINTED:
                given = self._read_point(values)
                self.point = given or self.point
                if self.point is None:
                    raise ActionError(f"{name}: no point")
                function = {2: "doubleClick"}.get(values.get("clicks"), name)
                function = "rightClick" if values.get("button") == "right" else function
                if name == "moveTo":
                    self.end()
                    self.pending = Action.hover(*self.point)
                else:
                    if given is None:
                        self._forget_move()
                    self._add(Action(_POINTED[function], *self.point))
            case "dragTo" if self.point is not None:
                start, self.point = self.point, self._read_point(values)
                if self.point is None:
                    raise ActionError("dragTo: no point")
                self._forget_move()
                self._add(Action.drag(*start, *self.point))
            case "scroll" | "hscroll":
                clicks, point = values.get("clicks", 0), self._read_point(values) or self.point or (0.5, 0.5)
                directions = ("up", "down") if name == "scroll" else ("right", "left")
                self._forget_move()
                self._add(Action.scroll(*point, directions[clicks < 0]))
            case "write" | "typewrite" if isinstance(values.get("message"), str):
                self._type(values["message"])
            case "press" if values.get("keys") in _KEYS:
                self._type(_KEYS[values["keys"]])
            case "press" | "keyDown" if isinstance(values.get("keys"), str):
                self._add(Action.hotkey(values["keys"]))
            case "hotkey" if arguments == ["shift", ","]:  # how `pyautogui_calls` types it
                self._type("<")
            case "hotkey" if arguments and all(isinstance(key, str) for key in arguments):
                self._add(Action.hotkey(" ".join(arguments)))
            case "keyUp":
                pass
            case _:
                raise ActionError(f"no action: pyautogui.{name}")

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
    **dict.fromkeys((*_POINTED, "dragTo"), ("x", "y")),
    **dict.fromkeys(("scroll", "hscroll"), ("clicks", "x", "y")),
    **dict.fromkeys(("write", "typewrite"), ("message",)),
    **dict.fromkeys(("press", "keyDown", "keyUp"), ("keys",)),
}


def _name(call: ast.expr | None) -> tuple[str, str]:
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        return call.func.value.id, call.func.attr
    return "", ""


def _literals(call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    try:
        keywords = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        return [ast.literal_eval(argument) for argument in call.args], keywords
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ActionError(f"no literals: {ast.unparse(call)[:120]!r}") from error
