"""Formulas that are typed, read into SymPy without `eval`: an allow-listed walk over Python's syntax tree.

A formula may be anything that a model can write, so what would keep SymPy busy for minutes is refused:
numbers of hundreds of digits, functions of huge numbers, products of hundreds of terms, and integrals that
are in no small table.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings

import sympy

from sciencedesk.desk.entries import Refusal

_X = sympy.Symbol("x")
_CONSTANTS = {"pi": sympy.pi, "e": sympy.E, "x": _X, "y": sympy.Symbol("y")}
_FUNCTIONS = {
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "exp": sympy.exp, "log": sympy.log,
    "sqrt": sympy.sqrt, "abs": sympy.Abs,
}  # fmt: skip
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
_DRAWN = (sympy.sin, sympy.cos, sympy.tan, sympy.exp, sympy.log, sympy.Abs)  # functions that NumPy draws
_EXPONENT = 12  # the largest exponent
_ARGUMENT = 1e9  # the largest number that a function is taken of; of exp, what a float holds
_EXP_ARGUMENT = 700
_BITS = 512  # the longest numerator or denominator
_TERMS = 500  # the longest expansion


class ExpressionError(Refusal):
    """The text is not a formula that the applications understand."""


def parse(text: str, variables: dict[str, float] | None = None) -> sympy.Expr:
    """Read a formula such as '2*x^2' or 'factor(x^2-1)'; '^' is a power.  ExpressionError if it is none."""
    try:
        # a warning of '1and x', say: it is refused below
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
            tree = ast.parse(text.replace("^", "**").strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"not a formula: {text!r}") from error
    names = _CONSTANTS | {name: sympy.nsimplify(value) for name, value in (variables or {}).items()}

    def walk(node: ast.AST) -> sympy.Expr:
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as number) if abs(number) < 1e9:
                return sympy.nsimplify(number)
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](walk(operand))
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return _power(walk(left), walk(right))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](walk(left), walk(right))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
                return _applied(name, walk(argument))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _COMMANDS:
                return _COMMANDS[name](_sized(walk(argument)))
        raise ExpressionError(f"not understood: {ast.unparse(node)!r}")

    try:
        return _sized(walk(tree.body))
    except ExpressionError as error:
        raise ExpressionError(f"{error} in {text!r}") from error
    except RecursionError as error:  # Python 3.13 parses what is nested deeper than a function can walk
        raise ExpressionError(f"not a formula: {text!r}") from error


def number(value: sympy.Expr) -> float:
    """The real part of a formula without variables.  ExpressionError if it has none, or is too large."""
    try:
        real = float(sympy.re(value.evalf()))
    except (TypeError, OverflowError) as error:
        raise ExpressionError(f"no number: {value}") from error
    if not math.isfinite(real):
        raise ExpressionError(f"no number: {value}")
    return real


def require_drawable(value: sympy.Expr, variables: str) -> None:
    """ExpressionError if NumPy cannot compute the formula from these variables alone."""
    if {str(symbol) for symbol in value.free_symbols} - set(variables):
        raise ExpressionError(f"a plot is a function of {' and '.join(variables)}")
    unknown = {f.func for f in value.atoms(sympy.Function)} - set(_DRAWN)
    if unknown or value.has(sympy.Integral, sympy.Derivative, sympy.AccumBounds):
        raise ExpressionError(f"cannot be drawn: {value}")


def _sized(value: sympy.Expr) -> sympy.Expr:
    if value.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo):
        raise ExpressionError("division by zero")
    if any(_bits(number) > _BITS for number in value.atoms(sympy.Rational)):
        raise ExpressionError("number too large")
    return value


def _bits(value: sympy.Rational) -> int:
    return max(abs(value.p), value.q).bit_length()


def _applied(name: str, argument: sympy.Expr) -> sympy.Expr:
    """Refuse numbers with so many digits that SymPy would not end, as in exp(exp(9^9))."""
    if argument.is_number and name not in ("sqrt", "abs", "log"):
        try:
            size = abs(complex(argument.evalf()))
        except (TypeError, OverflowError) as error:
            raise ExpressionError(f"no number: {argument}") from error
        if not size <= (_EXP_ARGUMENT if name == "exp" else _ARGUMENT):
            raise ExpressionError(f"no number: {name}({argument})")
    return _FUNCTIONS[name](argument)


def _power(base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
    if exponent.is_number and not (exponent.is_real and abs(number(exponent)) * _degree(base) <= _EXPONENT):
        raise ExpressionError("exponent too large")
    if base.is_Rational and exponent.is_Rational and _bits(base) * abs(exponent) > _BITS:
        raise ExpressionError("number too large")
    return base**exponent


def _degree(value: sympy.Expr) -> float:
    """The largest numeric exponent inside, at least 1: powers of powers multiply."""
    return max([1.0, *(abs(float(p.exp)) for p in value.atoms(sympy.Pow) if p.exp.is_Rational)])


def _terms(value: sympy.Expr) -> int:
    """The greatest number of terms of an expansion."""
    if value.is_Add:
        return sum(_terms(part) for part in value.args)
    if value.is_Mul:
        return math.prod(_terms(part) for part in value.args)
    if value.is_Pow and value.exp.is_Integer:
        power, inner = abs(int(value.exp)), _terms(value.base)
        return math.comb(power + inner - 1, inner - 1)
    return max((_terms(part) for part in value.args), default=1)


def derivative(value: sympy.Expr) -> sympy.Expr:
    """The derivative by x.  ExpressionError for an absolute value, which has one of real numbers only."""
    if value.has(sympy.Abs):
        raise ExpressionError("no derivative is known")
    return sympy.diff(value, _X)


def _factored(value: sympy.Expr) -> sympy.Expr:
    powers = _short(value).atoms(sympy.Pow)
    if not all(power.exp.is_Integer and power.exp > 0 for power in powers) or value.has(sympy.Function):
        raise ExpressionError("only polynomials have factors")
    return sympy.factor(value)


def _expanded(value: sympy.Expr) -> sympy.Expr:
    return sympy.expand(_short(value))


def _short(value: sympy.Expr) -> sympy.Expr:
    if _terms(value) > _TERMS:
        raise ExpressionError("too many terms")
    return value


def _integral(value: sympy.Expr) -> sympy.Expr:
    """The integral over x of a sum of terms of a small table; SymPy may look for others for minutes."""
    parts = [term.as_independent(_X) for term in sympy.Add.make_args(_expanded(value))]
    if not all(_in_table(varying) for _, varying in parts):
        raise ExpressionError("no integral is known")
    return sympy.Add(*(constant * sympy.integrate(varying, _X) for constant, varying in parts))


def _in_table(term: sympy.Expr) -> bool:
    """Whether a term is 1, x^n, f(a x + b), x^n f(a x + b) or (a x + b)^q with sin, cos, exp or log as f."""
    factors = [factor for factor in sympy.Mul.make_args(term) if factor != 1]
    powers = [f for f in factors if f == _X or (f.is_Pow and f.base == _X and f.exp.is_Integer and f.exp > 0)]
    others = [f for f in factors if f not in powers]
    if len(others) == 1 and isinstance(others[0], sympy.sin | sympy.cos | sympy.exp | sympy.log):
        return _is_linear(others[0].args[0])
    if len(factors) == len(others) == 1 and others[0].is_Pow:
        root = others[0]
        return root.exp.is_Rational and root.exp.q < 10 and _is_linear(root.base)
    return not others


def _is_linear(value: sympy.Expr) -> bool:
    """Whether a formula is a x + b with a and b rational, or rational multiples of pi."""
    if not value.is_polynomial(_X) or sympy.degree(value, _X) > 1:
        return False
    return all(c.is_Rational or (c / sympy.pi).is_Rational for c in (value.coeff(_X, 0), value.coeff(_X, 1)))


_COMMANDS = {"factor": _factored, "expand": _expanded, "diff": derivative, "integrate": _integral}
