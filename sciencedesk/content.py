"""What a task asks and how its script goes, as texts to compare.

Numbers count as numbers and formulas as formulas, however they are written: 2, 2.0 and "2.00" are one, and so
are x^2+1 and 1+x^2.  Nothing is computed: 7*8 is not 56.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from coda_lib.task import Task, goal_text

Meaning = TypeVar("Meaning")
_CHAINS = {ast.Add: ("+", ""), ast.Sub: ("+", "-"), ast.Mult: ("*", ""), ast.Div: ("*", "/")}
_CHUNK = re.compile(r"[^\s<>=,]+")  # what may be a number or a formula
_SPACED = re.compile(r"\s*([-+*/^=<>,])\s*")


def plain(value: Any) -> Any:
    """A value as it is compared, and so the values inside of it; numbers become text.

    >>> plain([2, 2.0, "2.00", "x^2+1", "1 + x^2", "x+x", {"a = 5.0": True}])
    ['2', '2', '2', '((x^2)+1)', '((x^2)+1)', '(x+x)', {'a=5': True}]
    """
    match value:
        case Mapping():
            return {plain(key): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case bool() | None:
            return value
    return _text(str(value))


def goal_state(app: str, items: Iterable[Mapping[str, Any]]) -> str:
    """The state that a task's conditions ask for."""
    return goal_text(app, [{"pred": "equals"} | plain(item) for item in items])


def script_text(steps: Sequence[Mapping[str, Any]]) -> str:
    """A script, a step a line; that of a question ends in the answer."""
    return "\n".join(json.dumps(plain(step)) for step in steps)


def joined(contents: Iterable[str]) -> str:
    """What several aims ask, in any order."""
    return "\n".join(sorted(contents))


def readings(instruction: str, known: Mapping[str, Meaning]) -> Iterator[list[Meaning]]:
    """An instruction as one to three aims that 'and' joins; `known` has those of each text."""
    parts = (instruction[:1].lower() + instruction[1:].rstrip("?.")).split(" and ")
    for count in range(min(3, len(parts))):
        for cuts in itertools.combinations(range(1, len(parts)), count):
            said = [" and ".join(parts[i:j]) for i, j in itertools.pairwise((0, *cuts, len(parts)))]
            if all(text in known for text in said):
                yield [known[text] for text in said]


def contents_of(task: Task, known: Mapping[str, str]) -> Iterator[str]:
    """What a task asks, its script, and the goal state if it asks no question.

    `known` has what each text of an aim asks.
    """
    yield from map(joined, readings(task.instruction, known))
    yield script_text(task.solution)
    if not task.ans:
        yield goal_state(task.app, task.evaluate)


@cache
def _text(text: str) -> str:
    return _CHUNK.sub(lambda chunk: _formula(chunk.group()), _SPACED.sub(r"\1", text.strip()))


def _formula(text: str) -> str:
    """A formula with the operands of sums and products in alphabetical order; any other text as it is."""
    try:
        return _written(ast.parse(text.replace("^", "**"), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return text


def _written(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return f"{number:.12g}"
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return f"({_written(left)}^{_written(right)})"
        case ast.BinOp(op=op) if type(op) in _CHAINS:
            sign = _CHAINS[type(op)][0]
            return f"({sign.join(sorted(_operands(node, sign)))})"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"-{_written(operand)}"
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return f"{name}({','.join(map(_written, arguments))})"
    return ast.unparse(node)


def _operands(node: ast.expr, sign: str) -> list[str]:
    """The operands of a sum or a product, in any depth, each with - or / before it where that belongs."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if _CHAINS.get(type(op), ("", ""))[0] == sign:
            inverse = _CHAINS[type(op)][1]
            last = [inverse + _written(right)] if inverse else _operands(right, sign)
            return _operands(left, sign) + last
    return [_written(node)]
