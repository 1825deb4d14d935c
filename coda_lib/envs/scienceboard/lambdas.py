"""The lambda expressions in ScienceBoard's task files, interpreted without `eval`.

The benchmark's own code evaluates these strings as Python.  Here an allow-listed part of Python's syntax tree is interpreted:
values, arithmetic, comparisons, subscripts, comprehensions, some functions and methods, `:=`, and functions of `math`.  Anything
else is an error when the file is loaded; an expression that costs too much is an error when it runs.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

DEPTH = 60  # of nesting
LENGTH = 4_000  # characters of an expression
STEPS = 1_000_000  # nodes of the expression and items of its values that one call may cost
SIZE = 10_000  # items of a range, characters of a text, or repetitions of a sequence
BITS = 4_096  # of an integer that it makes

BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
COMPARE = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
FUNCTIONS = {
    f.__name__: f for f in
    (abs, all, any, bool, dict, enumerate, float, int, len, list, max, min, range, round, set, sorted, str, sum, tuple, zip)
}  # fmt: skip
METHODS = {
    str: {"count", "endswith", "find", "index", "isdigit", "join", "lower", "lstrip", "rstrip", "split", "startswith", "strip",
          "upper"},
    list: {"count", "index"},
    tuple: {"count", "index"},
    dict: {"get", "items", "keys", "values"},
    set: {"difference", "intersection", "issubset", "issuperset", "union"},
}  # fmt: skip
_METHOD_NAMES = frozenset().union(*METHODS.values())
MATH = {
    name: getattr(math, name) for name in
    ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "exp", "log", "log10", "pi", "e", "hypot", "floor", "ceil",
     "fabs", "degrees", "radians", "isclose")
}  # fmt: skip
_LOOPS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NODES = (
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp,
    ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Call, *_LOOPS, ast.comprehension, ast.keyword,
    ast.NamedExpr, ast.Lambda, ast.arguments, ast.arg, ast.expr_context, ast.boolop, ast.cmpop, *BINARY, *UNARY,
)  # fmt: skip


class LambdaError(ValueError):
    """An expression that is not allowed, or that costs too much; the message quotes it."""


def quote(source: str) -> str:
    return repr(source if len(source) <= 200 else source[:197] + "...")


def parse(source: str) -> ast.Lambda:
    """The syntax tree of a lambda.  LambdaError quotes the part that is not allowed."""
    try:
        tree = ast.parse(source.strip(), mode="eval").body if len(source) <= LENGTH else None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LambdaError(f"not an expression: {quote(source)} ({error})") from error
    if not isinstance(tree, ast.Lambda):
        raise LambdaError(f"not a lambda of at most {LENGTH} characters: {quote(source)}")
    _check(tree, source)
    return tree


def _check(tree: ast.Lambda, source: str) -> None:
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    looped = {id(inner) for node in ast.walk(tree) if isinstance(node, _LOOPS) for inner in ast.walk(node)}
    for node, depth in _nodes(tree):
        if depth > DEPTH:
            raise LambdaError(f"nested too deeply: {quote(source)}")
        if not isinstance(node, _NODES) or not _is_plain(node, tree, bound, called, looped):
            raise LambdaError(f"not allowed: {quote(ast.unparse(node))} in {quote(source)}")


def _nodes(tree: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        if not is_math(node):
            waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


def is_math(node: ast.AST) -> bool:
    """Whether the node is `math.NAME`, written as ScienceBoard's files do, which import nothing: `__import__('math').NAME`."""
    return isinstance(node, ast.Attribute) and node.attr in MATH and ast.unparse(node.value) in ("math", "__import__('math')")


def _is_plain(node: ast.AST, tree: ast.Lambda, bound: set[str], called: set[int], looped: set[int]) -> bool:
    """Whether a node of an allowed type is allowed as it is used."""
    match node:
        case ast.Lambda(args=args):
            return node is tree and not (args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg or args.defaults)
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            return not name.startswith("__") and name not in (*FUNCTIONS, "math")
        case ast.Name(id=name):
            return name in bound or (name in FUNCTIONS and id(node) in called)
        case ast.NamedExpr():
            return id(node) not in looped  # it would bind outside of the comprehension
        case ast.Constant(value=value):
            return isinstance(value, str | int | float | bool | None)
        case ast.Attribute(attr=name):
            return is_math(node) or (name in _METHOD_NAMES and id(node) in called)
        case ast.Call(func=function, args=given, keywords=keywords):
            plain = not any(isinstance(one, ast.Starred) for one in given) and all(k.arg == "reverse" for k in keywords)
            named = isinstance(function, ast.Name) and function.id in FUNCTIONS
            return plain and (named or isinstance(function, ast.Attribute))
        case ast.Dict(keys=keys):
            return None not in keys
        case ast.comprehension(is_async=asynchronous):
            return not asynchronous
    return True


class Lambda:
    """A function such as `lambda dump: dump['time']['value']`, with the values and exceptions of Python.

    LambdaError quotes the part that is not allowed.
    """

    def __init__(self, source: str) -> None:
        self.source, self.tree = source, parse(source)
        self.parameters = [argument.arg for argument in self.tree.args.args]

    def __call__(self, *values: Any) -> Any:
        if len(values) != len(self.parameters):
            raise LambdaError(f"{len(values)} values for {quote(self.source)}")
        return _Evaluation(self.source).of(self.tree.body, dict(zip(self.parameters, values, strict=True)))


class _Evaluation:
    """One call, and its cost so far."""

    def __init__(self, source: str) -> None:
        self.source, self.steps = source, 0

    def of(self, node: ast.AST, names: dict[str, Any]) -> Any:
        self._pay(1)
        return getattr(self, f"_{type(node).__name__.lower()}")(node, names)

    def _pay(self, steps: int) -> None:
        self.steps += steps
        if self.steps > STEPS:
            raise self._too_much()

    def _too_much(self) -> LambdaError:
        return LambdaError(f"costs too much: {quote(self.source)}")

    def _weighed(self, value: Any) -> Any:
        """The same value; its cost is the number of items in it, repeated ones included, as for comparing or copying it."""
        waiting = [value]
        while waiting:
            self._pay(1)
            inner = waiting.pop()
            if isinstance(inner, dict):
                waiting += [*inner.keys(), *inner.values()]
            elif isinstance(inner, list | tuple | set):
                waiting += inner
        return value

    def _all(self, nodes: Sequence[ast.AST], names: dict[str, Any]) -> list[Any]:
        return [self.of(node, names) for node in nodes]

    def _constant(self, node: ast.Constant, names: dict[str, Any]) -> Any:
        return node.value

    def _name(self, node: ast.Name, names: dict[str, Any]) -> Any:
        if node.id not in names:
            raise NameError(f"name {node.id!r} is not defined")
        return names[node.id]

    def _attribute(self, node: ast.Attribute, names: dict[str, Any]) -> Any:
        return MATH[node.attr]

    def _namedexpr(self, node: ast.NamedExpr, names: dict[str, Any]) -> Any:
        names[node.target.id] = value = self.of(node.value, names)
        return value

    def _subscript(self, node: ast.Subscript, names: dict[str, Any]) -> Any:
        return self.of(node.value, names)[self.of(node.slice, names)]

    def _slice(self, node: ast.Slice, names: dict[str, Any]) -> slice:
        return slice(*(part and self.of(part, names) for part in (node.lower, node.upper, node.step)))

    def _binop(self, node: ast.BinOp, names: dict[str, Any]) -> Any:
        left, right, kind = self.of(node.left, names), self.of(node.right, names), type(node.op)
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * max(right, 1) if kind is ast.Pow else left.bit_length() + right.bit_length()
            if kind in (ast.Pow, ast.Mult) and bits > BITS:
                raise self._too_much()
        elif kind is ast.Mult and _repeated(left, right) > SIZE:
            raise self._too_much()
        elif kind is ast.Mod and isinstance(left, str):
            raise LambdaError(f"not allowed: a format with '%' in {quote(self.source)}")
        return self._weighed(BINARY[kind](left, right))

    def _unaryop(self, node: ast.UnaryOp, names: dict[str, Any]) -> Any:
        return UNARY[type(node.op)](self.of(node.operand, names))

    def _boolop(self, node: ast.BoolOp, names: dict[str, Any]) -> Any:
        value, last = None, isinstance(node.op, ast.Or)
        for part in node.values:
            value = self.of(part, names)
            if bool(value) == last:
                break
        return value

    def _compare(self, node: ast.Compare, names: dict[str, Any]) -> Any:
        left, value = self.of(node.left, names), True
        for kind, part in zip(node.ops, node.comparators, strict=True):
            right = self.of(part, names)
            self._weighed([left, right])
            value = COMPARE[type(kind)](left, right)
            if not value:
                break
            left = right
        return value

    def _ifexp(self, node: ast.IfExp, names: dict[str, Any]) -> Any:
        return self.of(node.body if self.of(node.test, names) else node.orelse, names)

    def _list(self, node: ast.List, names: dict[str, Any]) -> list[Any]:
        return self._weighed(self._all(node.elts, names))

    def _tuple(self, node: ast.Tuple, names: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self._list(node, names))

    def _set(self, node: ast.Set, names: dict[str, Any]) -> set[Any]:
        return set(self._list(node, names))

    def _dict(self, node: ast.Dict, names: dict[str, Any]) -> dict[Any, Any]:
        return self._weighed(dict(zip(self._all(node.keys, names), self._all(node.values, names), strict=True)))

    def _call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        function = self._function(node.func, names)
        given = self._weighed(self._all(node.args, names))
        named = {keyword.arg: self.of(keyword.value, names) for keyword in node.keywords}
        if function is range and len(range(*given)) > SIZE:
            raise self._too_much()
        if function is str and not isinstance((*given, "")[0], str | int | float | bool | None):
            raise LambdaError(f"not allowed: str of a {type(given[0]).__name__} in {quote(self.source)}")
        if function is sum and not all(isinstance(start, int | float) for start in given[1:]):
            raise LambdaError(f"not allowed: sum of what is no number in {quote(self.source)}")
        return self._weighed(function(*given, **named))

    def _function(self, node: ast.AST, names: dict[str, Any]) -> Callable[..., Any]:
        if isinstance(node, ast.Name):
            return FUNCTIONS[node.id]
        if is_math(node):
            return MATH[node.attr]
        value = self.of(node.value, names)
        kind = dict if isinstance(value, Mapping) else type(value)
        if node.attr not in METHODS.get(kind, ()):
            raise AttributeError(f"{type(value).__name__!r} object has no attribute {node.attr!r}")
        return self._joined(value) if node.attr == "join" else getattr(value, node.attr)

    def _joined(self, between: str) -> Callable[[Any], str]:
        def join(parts: Any) -> str:
            parts = list(parts)
            if sum(map(len, parts)) + len(between) * len(parts) > SIZE:
                raise self._too_much()
            return between.join(parts)

        return join

    def _listcomp(self, node: ast.ListComp, names: dict[str, Any]) -> list[Any]:
        return self._weighed([self.of(node.elt, inner) for inner in self._loops(node.generators, names)])

    def _setcomp(self, node: ast.SetComp, names: dict[str, Any]) -> set[Any]:
        return set(self._listcomp(node, names))

    def _generatorexp(self, node: ast.GeneratorExp, names: dict[str, Any]) -> Iterator[Any]:
        return (self.of(node.elt, inner) for inner in self._loops(node.generators, names))

    def _dictcomp(self, node: ast.DictComp, names: dict[str, Any]) -> dict[Any, Any]:
        turns = self._loops(node.generators, names)
        return self._weighed({self.of(node.key, inner): self.of(node.value, inner) for inner in turns})

    def _loops(self, generators: Sequence[ast.comprehension], names: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The names inside a comprehension, for each of its iterations."""
        if not generators:
            yield names
            return
        first, *rest = generators
        for value in self.of(first.iter, names):
            inner = names | _bound(first.target, value)
            if all(self.of(test, inner) for test in first.ifs):
                yield from self._loops(rest, inner)


def _bound(target: ast.AST, value: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if not isinstance(target, ast.Tuple | ast.List):
        raise LambdaError(f"not allowed: {ast.unparse(target)!r} in the place of a name")
    parts = list(value)
    if len(parts) != len(target.elts):
        raise ValueError(f"{len(parts)} values to unpack into {len(target.elts)} names")
    return {name: part for inner, part in zip(target.elts, parts, strict=True) for name, part in _bound(inner, part).items()}


def _repeated(left: Any, right: Any) -> int:
    """Items of a sequence that is multiplied by a number; 0 for other operands."""
    items, times = (right, left) if isinstance(left, int) else (left, right)
    return len(items) * times if isinstance(items, str | list | tuple) and isinstance(times, int) else 0
