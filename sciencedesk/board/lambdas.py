"""The lambda expressions in ScienceBoard's task files, interpreted without `eval`.

The benchmark's own code evaluates these strings as Python.  Here an allow-listed part of Python's syntax tree
(`syntax`) is interpreted: values, arithmetic, `%` of texts, comparisons, subscripts, comprehensions, some
functions and methods, `:=`, functions of `math`, today's date, and lambdas that are called at once or given
to one that is. Anything else is an error when the file is loaded; an expression that costs too much (`costs`)
is an error when it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sciencedesk.board import syntax
from sciencedesk.board.costs import ITEM, SIZED, Budget, LambdaError, quote


class Lambda:
    """A function such as `lambda dump: dump['time']`.  LambdaError quotes what is not allowed."""

    def __init__(self, source: str) -> None:
        self.source, self.tree = source, syntax.parse(source)
        self.parameters = [argument.arg for argument in self.tree.args.args]

    def __call__(self, *values: Any) -> Any:
        if len(values) != len(self.parameters):
            raise LambdaError(f"{len(values)} values for {quote(self.source)}")
        evaluation = _Evaluation(self.source)
        try:
            return evaluation.of(self.tree.body, dict(zip(self.parameters, values, strict=True)))
        except (RecursionError, MemoryError) as error:
            raise evaluation.too_much() from error


class _Evaluation(Budget):
    """One call, and what is left of its budget."""

    def of(self, node: ast.AST, names: dict[str, Any]) -> Any:
        self.pay(1)
        return getattr(self, f"_{type(node).__name__.lower()}")(node, names)

    def _all(self, nodes: Sequence[ast.AST], names: dict[str, Any]) -> list[Any]:
        return [self.of(node, names) for node in nodes]

    def _constant(self, node: ast.Constant, names: dict[str, Any]) -> Any:
        return node.value

    def _name(self, node: ast.Name, names: dict[str, Any]) -> Any:
        if node.id not in names:
            raise NameError(f"name {node.id!r} is not defined")
        return names[node.id]

    def _attribute(self, node: ast.Attribute, names: dict[str, Any]) -> Any:
        return syntax.MATH[node.attr]

    def _namedexpr(self, node: ast.NamedExpr, names: dict[str, Any]) -> Any:
        names[node.target.id] = value = self.of(node.value, names)
        return value

    def _subscript(self, node: ast.Subscript, names: dict[str, Any]) -> Any:
        value, index = self.of(node.value, names), self.of(node.slice, names)
        if not isinstance(index, slice):
            self.weighed(index)
            return value[index]
        self.counted(value)
        return self.kept(value[index])

    def _slice(self, node: ast.Slice, names: dict[str, Any]) -> slice:
        return slice(*(part and self.of(part, names) for part in (node.lower, node.upper, node.step)))

    def _binop(self, node: ast.BinOp, names: dict[str, Any]) -> Any:
        left, right, kind = self.of(node.left, names), self.of(node.right, names), type(node.op)
        if kind is ast.Mod and isinstance(left, str | bytes):
            self.formatted(left, self.weighed(right))
        if before := {ast.Mult: self.product, ast.Pow: self.power, ast.Add: self.sum}.get(kind):
            before(left, right)
        if kind is ast.Sub and isinstance(left, set):
            self.counted(left)
        return self.kept(self.weighed(syntax.BINARY[kind](left, right)))

    def _unaryop(self, node: ast.UnaryOp, names: dict[str, Any]) -> Any:
        return syntax.UNARY[type(node.op)](self.of(node.operand, names))

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
            if not isinstance(kind, ast.Is | ast.IsNot):
                self.weighed(left)
                within = isinstance(kind, ast.In | ast.NotIn)
                if within and isinstance(right, str | bytes):
                    self.scanned(right, [left], stripped=False)
                elif not (within and isinstance(right, dict | set)):  # these find by hash
                    self.weighed(right)
            value = syntax.COMPARE[type(kind)](left, right)
            if not value:
                break
            left = right
        return value

    def _ifexp(self, node: ast.IfExp, names: dict[str, Any]) -> Any:
        return self.of(node.body if self.of(node.test, names) else node.orelse, names)

    def _list(self, node: ast.List, names: dict[str, Any]) -> list[Any]:
        return self.kept(self.weighed(self._all(node.elts, names)))

    def _tuple(self, node: ast.Tuple, names: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self._list(node, names))

    def _set(self, node: ast.Set, names: dict[str, Any]) -> set[Any]:
        return set(self._list(node, names))

    def _dict(self, node: ast.Dict, names: dict[str, Any]) -> dict[Any, Any]:
        keys, values = self.weighed(self._all(node.keys, names)), self._all(node.values, names)
        return self.kept(self.weighed(dict(zip(keys, values, strict=True))))

    def _call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        if kinds := syntax.types_of(node):
            return isinstance(self.of(node.args[0], names), tuple(syntax.TYPES[kind.id] for kind in kinds))
        match node.func:
            case ast.Name(id=name) if name in syntax.FUNCTIONS:
                call = partial(self._of_function, syntax.FUNCTIONS[name])
            case ast.Attribute(attr="strftime"):  # `parse` allows it for today's date alone
                self.pay(5)
                return datetime.now().strftime(node.args[0].value)  # where it is judged, as in the benchmark
            case ast.Attribute(attr=name) if syntax.is_math(node.func):
                call = syntax.MATH[name]
            case ast.Attribute(value=value, attr=name):
                call = partial(self._of_method, self.of(value, names), name)
            case _:  # a function of the expression's own
                call = self.of(node.func, names)
        given = self._all(node.args, names)
        return call(*given, **{keyword.arg: self.of(keyword.value, names) for keyword in node.keywords})

    def _lambda(self, node: ast.Lambda, names: dict[str, Any]) -> Callable[..., Any]:
        """A function of the expression's own, which is called in it."""
        parameters = [argument.arg for argument in node.args.args]

        def call(*given: Any) -> Any:
            if len(given) != len(parameters):
                raise TypeError(f"{len(given)} values for {quote(ast.unparse(node))}")
            self.pay(1 + len(names) // 50)  # they are copied
            return self.of(node.body, names | dict(zip(parameters, given, strict=True)))

        return call

    def _of_function(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if function in (dict, enumerate, set, zip):
            given = [self.listed(value) for value in given]
        for value in given:
            (self.counted if function in syntax.SHALLOW else self.weighed)(value)
        if function is range:
            self.ranged(given)
        elif function is round:
            self.rounded(*given[:2])
        elif function is bytes and isinstance((*given, "")[0], int):
            self.ranged(given[:1])
        elif function is str and not isinstance((*given, "")[0], str | bytes | int | float | bool | None):
            raise LambdaError(f"not allowed: str of a {type(given[0]).__name__} in {quote(self.source)}")
        elif function is sum and not all(isinstance(start, int | float) for start in given[1:]):
            raise LambdaError(f"not allowed: sum of what is no number in {quote(self.source)}")
        if function not in syntax.MAKING:
            return function(*given, **named)
        if function in (str, bytes):
            self.encoded(given[1:])
        self.afford(sum(ITEM * len(value) for value in given if isinstance(value, (str, bytes, *SIZED))))
        return self.kept(self.weighed(function(*given, **named)))

    def _of_method(self, value: Any, name: str, *given: Any, **named: Any) -> Any:
        kind = dict if isinstance(value, Mapping) else type(value)
        if name not in syntax.METHODS.get(kind, ()):
            raise AttributeError(f"{type(value).__name__!r} object has no attribute {name!r}")
        given = [self.weighed(self.listed(part)) for part in given]
        if name in ("encode", "decode"):
            self.encoded(given)
        if kind in (str, bytes):
            self.scanned(value, given or [""], stripped="strip" in name)
            self.afford({"split": ITEM}.get(name, 4) * len(value) if name in syntax.COPYING else 0)
        elif kind is not dict:
            self.weighed(value)
        if name == "join":
            self.joined(value, given)
        made = getattr(value, name)(*given, **named)
        return self.kept(self.weighed(made)) if kind in (str, bytes, set) else made

    def _listcomp(self, node: ast.ListComp, names: dict[str, Any]) -> list[Any]:
        return self.kept(self.weighed(list(self._generatorexp(node, names))))

    def _setcomp(self, node: ast.SetComp, names: dict[str, Any]) -> set[Any]:
        return self.kept(set(self._listcomp(node, names)))

    def _generatorexp(self, node: ast.GeneratorExp, names: dict[str, Any]) -> Iterator[Any]:
        return (self.of(node.elt, inner) for inner in self._loops(node.generators, names))

    def _dictcomp(self, node: ast.DictComp, names: dict[str, Any]) -> dict[Any, Any]:
        loops = self._loops(node.generators, names)
        items = [(self.of(node.key, inner), self.of(node.value, inner)) for inner in loops]
        return self.kept(dict(self.weighed(items)))

    def _loops(self, loops: Sequence[ast.comprehension], names: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The names inside a comprehension, for each of its iterations."""
        if not loops:
            yield names
            return
        first, *rest = loops
        for value in self.of(first.iter, names):
            self.pay(1 + len(names) // 50)  # they are copied
            inner = names | _bound(first.target, value)
            if all(self.of(test, inner) for test in first.ifs):
                yield from self._loops(rest, inner)


def _bound(target: ast.AST, value: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if not isinstance(target, ast.Tuple | ast.List):
        raise LambdaError(f"not allowed: {ast.unparse(target)!r} in the place of a name")
    parts = value if isinstance(value, (str, *SIZED)) else list(value)
    if len(parts) != len(target.elts):
        raise ValueError(f"{len(parts)} values to unpack into {len(target.elts)} names")
    names = [_bound(inner, part) for inner, part in zip(target.elts, parts, strict=True)]
    return {name: part for inner in names for name, part in inner.items()}
