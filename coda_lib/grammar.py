"""The text in which models write actions: read into an `Action`, and written.

The form is that of UI-TARS 1.5 (`click(start_box='(120,48)')`), whose coordinates are pixels of the image
that the model sees; the grammars of older models are read as well.  Model output is data: regular expressions
read it into an `Action` and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Literal

from coda_lib.action import ARGUMENTS, Action, ActionError, ActionType, to_pixel

Convention = Literal["pixel", "thousandth"]  # UI-TARS 1.5 writes pixels, its predecessors thousandths
LONGEST_REPLY = 20_000  # characters; a longer reply with actions is refused unread, one with a plan cut

# ---- text to actions --------------------------------------------------------------------------------------
_TYPES = {name: kind for kind in ActionType for name in (kind.value, *kind.older)}
_ROLES = {name: argument for argument, (names, _) in ARGUMENTS.items() for name in names}

_FENCED = r"\s*(?:```\w*\s*)?"  # a call may stand in a code fence
_CALL = re.compile(_FENCED + r"(\w+)\s*\(\s*")
_MARK_OF_LINE = re.compile(rf"^[ \t]*Action[:：](?={_FENCED}\w+\s*\()", re.MULTILINE)
_ACTION_MARK = re.compile(rf"(?:^|\s)Action[:：](?={_FENCED}\w+\s*\()")
MARKS = 20  # places where a reply may say `Action:` before its first action
_KEY = re.compile(r"\s*(,?)\s*(\w+)\s*=\s*(['\"])")
_CLOSE = re.compile(r"\s*,?\s*(?:\)|\Z)")  # the last bracket of a reply may be missing
_GAP = re.compile(r"\s*?(?:\Z|\n\s*(?:Action[:：]\s*)?)")  # between two calls
_MARK = re.compile(r"\\.|['\"]", re.DOTALL)  # an escape, or a quote that may be the last one
_NUMBER = r"\s*(-?\d+(?:\.\d+)?)\s*"
_BOX = (
    rf"\s*(?:<\|box_start\|>)?\s*(?:[(\[]{_NUMBER},{_NUMBER}(?:,{_NUMBER},{_NUMBER})?[)\]]"
    rf"|<(?:point|bbox)>{_NUMBER}\s{_NUMBER}(?:\s{_NUMBER}\s{_NUMBER})?</(?:point|bbox)>)"
    r"\s*(?:<\|box_end\|>)?\s*"
)
# A point, a direction or keys end at the first quote of whichever kind: they have none of their own.
_POINT_STRING = re.compile(rf"({_BOX})['\"]")
_PLAIN_STRING = re.compile(r"([^'\"\\]*)['\"](?=\s*(?:[,)]|\Z))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_NEXT_TURN = (
    r"(?:(?:Thought|Reflection|Action_Summary|Observation|User|Assistant)\s*[:：]|<\|im_|<\|endoftext|</s>)"
)
_LAST = ("[EOS]", "```")  # what may stand after the last call
_TURN = re.compile(rf"\s*{_NEXT_TURN}")  # the model's next one, which it imagines: nothing of it is done
_TURN_OF_LINE = re.compile(rf"^[ \t]*{_NEXT_TURN}", re.MULTILINE)
_NAMES, _KEYS = "|".join(_TYPES), "|".join(_ROLES)
# Models forget to escape quotes, so a quote ends its string only where the call goes on or ends after it.
_AFTER_STRING = re.compile(
    rf"\s*+(?:,\s*(?:{_KEYS})\s*=\s*['\"]|\Z"
    rf"|,?\s*\)(?:\s*+(?:\Z|{_NEXT_TURN}|Action\s*[:：])|(?=[^\S\n]*\n)\s*+(?:{_NAMES})\s*\())"
)
_END_IN_TEXT = re.compile(r"['\"]")  # what may be the end of a text that goes on
_CALL_IN_TEXT = re.compile(rf"{_NEXT_TURN}|Action\s*[:：]|\b(?:(?:{_NAMES})\s*\(\s*(?:{_KEYS})\s*=)")


def parse_actions(reply: str, size: tuple[int, int], convention: Convention = "pixel") -> tuple[Action, ...]:
    r"""The actions in a model's reply: one or more calls of the UI-TARS grammar, each on a line of its own.

    Everything up to the first `Action:` that begins a line, or else up to the first one before calls that can
    be read, is the thought, and a further `Thought:` with all after it is the next turn: both are skipped.
    `size` is the (width, height) in pixels of the image that the model saw.  Quoted text may hold the escapes
    of `_ESCAPES`; any other backslash stands for itself.  ActionError, which quotes what cannot be read.

    >>> reply = "Thought: Show the grid.\nAction: click(start_box='(84,63)')"
    >>> (action,) = parse_actions(reply, size=(336, 252))
    >>> action == Action.click(0.25, 0.25)
    True
    """
    if len(reply) > LONGEST_REPLY:
        raise ActionError(f"a reply of {len(reply)} characters: {_quote(reply)}")
    text, scale = reply.rstrip(), _scale(size, convention)
    while text.endswith(_LAST):
        text = text.removesuffix("[EOS]").removesuffix("```").rstrip()
    if _CALL.match(text):
        return _parse_calls(text, 0, scale, remark=True)
    marks = list(islice(_MARK_OF_LINE.finditer(text), MARKS)) or list(
        islice(_ACTION_MARK.finditer(text), MARKS)
    )
    starts = [mark.end() for mark in marks]
    if not starts:
        raise ActionError(f"no action in the reply: {_quote(reply)}")
    first: ActionError | None = None
    for start in starts:
        _parse_call(text, start, scale)  # an action that cannot be read is not passed over
        try:
            return _parse_calls(text, start, scale, remark=len(starts) == 1)
        except ActionError as error:
            first = first or error
            if _TURN_OF_LINE.search(text, start):  # what comes later may be of the next turn
                break
    raise first


def _parse_calls(text: str, position: int, scale: tuple[int, int], remark: bool) -> tuple[Action, ...]:
    """The calls from `position` to the end of the turn, or with `remark` to words that hold no call."""
    actions: list[Action] = []
    while position < len(text) and not (actions and _TURN.match(text, position)):
        action, end = _parse_call(text, position, scale)
        gap = _GAP.match(text, end)
        if gap is None and not _TURN.match(text, end):
            if not remark or text[end] not in " \t.," or _CALL_IN_TEXT.search(text, end):
                raise ActionError(f"no line end after an action: {_quote(text[position:])}")
            return (*actions, action)
        actions.append(action)
        position = gap.end() if gap else end
    return tuple(actions)


def _parse_call(text: str, start: int, scale: tuple[int, int]) -> tuple[Action, int]:
    """The call at position `start`, and the position after it."""
    call = _CALL.match(text, start)
    if call is None or call[1] not in _TYPES:
        raise ActionError(f"not an action: {_quote(text[start:])}")
    kind, position, values = _TYPES[call[1]], call.end(), {}
    # a closing remark is read, and left in the reply
    allowed = {*kind.arguments, "text"} if kind.ends else kind.arguments
    while not (close := _CLOSE.match(text, position)):
        key = _KEY.match(text, position)
        argument = _ROLES.get(key[2]) if key and bool(key[1]) == bool(values) else None
        if argument not in allowed or argument in values:
            raise ActionError(f"{call[1]}: bad arguments: {_quote(text[start:])}")
        plain = _POINT_STRING if argument in ("start", "end") else _PLAIN_STRING
        if argument != "text" and (string := plain.match(text, key.end())):
            values[argument], position = string[1], string.end()
        else:
            values[argument], position = _read_string(text, key.end(), key[3])
    if missing := set(kind.arguments) - kind.optional - values.keys():
        raise ActionError(f"{call[1]}: no {' or '.join(sorted(missing))}: {_quote(text[start:])}")
    return _build(kind, values, scale), close.end()


def _read_string(text: str, position: int, quote: str) -> tuple[str, int]:
    """The string whose opening quote is just before `position`, and the position after its closing quote."""
    for mark in _MARK.finditer(text, position):
        if mark.group() == quote and _AFTER_STRING.match(text, mark.end()):
            raw = text[position : mark.start()]
            if (end := _END_IN_TEXT.search(raw)) and _CALL_IN_TEXT.search(raw, end.end()):
                raise ActionError(f"a text with a further action in it: {_quote(raw)}")
            return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), raw, flags=re.DOTALL), mark.end()
    raise ActionError(f"no closing quote that ends the argument: {_quote(text[position - 1 :])}")


def _build(kind: ActionType, values: dict[str, str], scale: tuple[int, int]) -> Action:
    fields = {}
    for argument in values.keys() & set(kind.arguments):
        match argument:
            case "start" | "end":
                fields |= zip(ARGUMENTS[argument][1], _parse_point(values[argument], scale), strict=True)
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
    match = re.fullmatch(_BOX, box)
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


# ---- actions to text -------------------------------------------------------------------------------------
def format_action(action: Action, size: tuple[int, int], convention: Convention = "pixel") -> str:
    """The action as one line of UI-TARS 1.5's grammar, for an image of `size` (width, height) in px.

    >>> format_action(Action.click(0.25, 0.5), size=(336, 252))
    "click(start_box='(84,126)')"
    """
    scale, written = _scale(size, convention), []
    for argument in action.type.arguments:
        (name, *_), fields = ARGUMENTS[argument]
        values = [getattr(action, field) for field in fields]
        if values[0] is None:
            continue
        value = "({},{})".format(*to_pixel(*values, scale)) if len(values) == 2 else _escape(*values)
        written.append(f"{name}='{value}'")
    return f"{action.type}({', '.join(written)})"


def action_text(actions: Sequence[Action], size: tuple[int, int]) -> str:
    """Actions as the text of the history, in pixels of a screenshot of `size` (width, height)."""
    return "\n\n".join(format_action(action, size) for action in actions)


def _escape(text: str) -> str:
    for char, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = text.replace(char, escaped)
    return text
