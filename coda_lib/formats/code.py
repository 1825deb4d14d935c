"""Actions as the pyautogui code in which ScienceBoard's and OSWorld's logs keep them, and back.

Code is read by its syntax tree, a call of a known function on literals at a time; nothing is run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from coda_lib.action import Action, ActionError, ActionType
from coda_lib.envs.pyautogui import code_of, pyautogui_calls

Size = tuple[int, int]
_WORDS = {ActionType.WAIT: "WAIT", ActionType.DONE: "DONE", ActionType.FAIL: "FAIL"}
_BY_WORD = {word: kind for kind, word in _WORDS.items()}
_POINTED = {"click": Action.click, "doubleClick": Action.double_click, "rightClick": Action.right_click, "moveTo": Action.hover}
_KEYS = {"enter": "\n", "return": "\n", "tab": "\t"}


def action_code(action: Action, size: Size) -> str:
    """An action on a screen of `size` (width, height) as code: pyautogui's calls, or WAIT, DONE, FAIL, ANS."""
    if action.type is ActionType.ANS:
        return f"ANS {action.text}"
    if action.type in _WORDS:
        return _WORDS[action.type]
    return code_of(pyautogui_calls(action, size))


def read_code(code: str, size: Size) -> tuple[Action, ...]:
    """The actions of a piece of code.  ActionError names the first thing that is none."""
    word, _, rest = code.strip().partition(" ")
    if word == "ANS":
        return (Action.answer(rest),)
    if code.strip() in _BY_WORD:
        return (Action(_BY_WORD[code.strip()]),)
    try:
        statements = ast.parse(code.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ActionError(f"not code: {code[:120]!r}") from error
    reader = _Reader(size)
    for statement in statements:
        reader.read(statement)
    return tuple(reader.finish())


class _Reader:
    """Puts calls together: a drag is a move and a drag, typed text is written in parts."""

    def __init__(self, size: Size):
        self.size, self.found, self.place, self.moved, self.text = size, [], None, False, ""

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

    def finish(self) -> Iterator[Action]:
        self._end_text()
        self._end_move()
        return iter(self.found)

    def _add(self, action: Action) -> None:
        self._end_text()
        self._end_move()
        self.found.append(action)

    def _end_text(self) -> None:
        if self.text:
            text, self.text = self.text, ""
            self._add(Action.type_text(text))

    def _end_move(self) -> None:
        if self.moved:
            self.moved = False
            self.found.append(Action.hover(*self.place))

    def _call(self, name: str, arguments: list[Any], named: dict[str, Any]) -> None:
        given = dict(zip(_PARAMETERS.get(name, ()), arguments, strict=False)) | named
        match name:
            case "click" | "doubleClick" | "rightClick" | "moveTo":
                self._end_text()
                place = self._point(given) or self.place
                if place is None:
                    raise ActionError(f"{name}: where is not said")
                many = {2: "doubleClick"}.get(given.get("clicks"), name)
                many = "rightClick" if given.get("button") == "right" else many
                if name == "moveTo":
                    self._end_move()
                    self.place, self.moved = place, True
                else:
                    self.moved = self.moved and self._point(given) is not None
                    self._add(_POINTED[many](*place))
                    self.place = place
            case "dragTo" if self.place is not None:
                end, self.moved = self._point(given), False
                if end is None:
                    raise ActionError("dragTo: where to is not said")
                self._add(Action.drag(*self.place, *end))
                self.place = end
            case "scroll" | "hscroll":
                clicks, place = given.get("clicks", 0), self._point(given) or self.place or (0.5, 0.5)
                ways = ("up", "down") if name == "scroll" else ("right", "left")
                self.moved = False
                self._add(Action.scroll(*place, ways[clicks < 0]))
            case "write" | "typewrite" if isinstance(given.get("message"), str):
                self._end_move()
                self.text += given["message"]
            case "press" if given.get("keys") in _KEYS:
                self._end_move()
                self.text += _KEYS[given["keys"]]
            case "press" | "keyDown" if isinstance(given.get("keys"), str):
                self._add(Action.hotkey(given["keys"]))
            case "hotkey" if arguments == ["shift", ","]:  # how `calls` types it
                self._end_move()
                self.text += "<"
            case "hotkey" if arguments and all(isinstance(key, str) for key in arguments):
                self._add(Action.hotkey(" ".join(arguments)))
            case "keyUp":
                pass
            case _:
                raise ActionError(f"no action of ours: pyautogui.{name}")

    def _point(self, given: dict[str, Any]) -> tuple[float, float] | None:
        x, y = given.get("x"), given.get("y")
        if x is None or y is None:
            return None
        if not all(isinstance(value, int | float) for value in (x, y)):
            raise ActionError(f"no point: {x!r}, {y!r}")
        if not (0 <= x <= self.size[0] and 0 <= y <= self.size[1]):
            raise ActionError(f"({x}, {y}) is off the screen of {self.size[0]}x{self.size[1]}")
        return x / self.size[0], y / self.size[1]


_PARAMETERS = {
    **dict.fromkeys(("click", "doubleClick", "rightClick", "moveTo", "dragTo"), ("x", "y")),
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
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        return [ast.literal_eval(argument) for argument in call.args], named
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise ActionError(f"no literals: {ast.unparse(call)[:120]!r}") from error
