"""Formulas typed by the agent, read into SymPy without `eval`: an allow-listed walk over Python's own syntax tree."""

from __future__ import annotations

import ast
import operator

import sympy

_FUNCTIONS = {
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "exp": sympy.exp, "log": sympy.log, "sqrt": sympy.sqrt,
    "abs": sympy.Abs,
}  # fmt: skip
_COMMANDS = {"factor": sympy.factor, "expand": sympy.expand, "diff": sympy.diff, "integrate": sympy.integrate}
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
_CONSTANTS = {"pi": sympy.pi, "e": sympy.E, "x": sympy.Symbol("x"), "y": sympy.Symbol("y")}


class ExpressionError(ValueError):
    """The text is not a formula that the applications understand."""


def parse(text: str, variables: dict[str, float] | None = None) -> sympy.Expr:
    """Read a formula such as '2*x^2', 'sin(x)' or 'factor(x^2-1)'; '^' is a power.  ExpressionError if it is none."""
    try:
        tree = ast.parse(text.replace("^", "**").strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"not a formula: {text!r}") from error
    names = _CONSTANTS | {name: sympy.nsimplify(value) for name, value in (variables or {}).items()}

    def walk(node: ast.AST) -> sympy.Expr:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool) and abs(number) < 1e9:
                return sympy.nsimplify(number)
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](walk(operand))
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                exponent = walk(right)
                if exponent.is_number and abs(float(exponent)) > 12:
                    raise ExpressionError(f"exponent too large in {text!r}")
                return walk(left) ** exponent
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](walk(left), walk(right))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](walk(argument))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _COMMANDS:
                value = walk(argument)
                return _COMMANDS[name](value) if name in ("factor", "expand") else _COMMANDS[name](value, _CONSTANTS["x"])
        raise ExpressionError(f"not understood: {ast.unparse(node)!r} in {text!r}")

    result = walk(tree.body)
    if result.has(sympy.zoo, sympy.nan):
        raise ExpressionError(f"division by zero in {text!r}")
    return result
