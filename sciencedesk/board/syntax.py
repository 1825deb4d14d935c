"""What may stand in the lambdas of ScienceBoard's files: an allow-listed part of Python's syntax tree."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Iterator
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType, TracebackType

from sciencedesk.board.costs import LambdaError, quote

DEPTH = 60  # of nesting
LENGTH = 4_000  # characters of an expression

BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
COMPARE = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
FUNCTIONS = {
    f.__name__: f for f in
    (abs, all, any, bool, bytes, dict, enumerate, float, int, isinstance, len, list, max, min, range, round,
     set, sorted, str, sum, tuple, zip)
}  # fmt: skip
# those that may be the second argument of `isinstance`
TYPES = {t.__name__: t for t in (bool, bytes, dict, float, int, list, set, str, tuple)}
MAKING = (bytes, dict, list, set, sorted, str, tuple)  # functions whose result is new
SHALLOW = (any, all, bool, dict, enumerate, len, list, range, tuple, zip)  # that look at no item's items
METHODS = {
    str: {"count", "encode", "endswith", "find", "index", "isdigit", "join", "lower", "lstrip", "rstrip",
          "split", "startswith", "strip", "upper"},
    bytes: {"count", "decode", "endswith", "find", "hex", "index", "isdigit", "join", "lower", "lstrip",
            "rstrip", "split", "startswith", "strip", "upper"},
    list: {"count", "index"},
    tuple: {"count", "index"},
    dict: {"get", "items", "keys", "values"},
    set: {"difference", "intersection", "issubset", "issuperset", "union"},
}  # fmt: skip
COPYING = ("decode", "encode", "hex", "lower", "split", "upper")  # methods of texts with large results
_METHOD_NAMES = frozenset().union(*METHODS.values())
MATH = {
    name: getattr(math, name) for name in
    ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "exp", "log", "log10", "pi", "e", "hypot",
     "floor", "ceil", "fabs", "degrees", "radians", "isclose")
}  # fmt: skip
TODAY = tuple(f"__import__('datetime').datetime.{name}()" for name in ("today", "now"))
_STATES = (FrameType, TracebackType, GeneratorType, CoroutineType, AsyncGeneratorType)
# what leads to the frames of the running program: f_back, tb_frame, gi_code and the like
FRAMES = {name for kind in _STATES for name in dir(kind) if re.match("[a-z]+_", name)}
FRAMES |= {"inspect", "currentframe", "_getframe", "_current_frames", "__traceback__"}
DATE = re.compile(r"(?:%[Ymdyj]|[ ./_-]){1,20}")  # short formats of a date that mean the same everywhere
_LOOPS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NODES = (
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp, ast.BoolOp,
    ast.Compare, ast.IfExp, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Call, *_LOOPS, ast.comprehension,
    ast.keyword, ast.NamedExpr, ast.Lambda, ast.arguments, ast.arg, ast.expr_context, ast.boolop, ast.cmpop,
    *BINARY, *UNARY,
)  # fmt: skip


def parse(source: str) -> ast.Lambda:
    """The syntax tree of a lambda.  LambdaError quotes the part that is not allowed."""
    try:
        tree = ast.parse(source.strip(), mode="eval").body if len(source) <= LENGTH else None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LambdaError(f"not an expression: {quote(source)} ({error})") from error
    if not isinstance(tree, ast.Lambda):
        raise LambdaError(f"not a lambda of at most {LENGTH} characters: {quote(source)}")
    try:
        _check(tree, source)
    except RecursionError as error:  # of what quotes a deep expression
        raise LambdaError(f"nested too deeply: {quote(source)}") from error
    return tree


def _check(tree: ast.Lambda, source: str) -> None:
    nodes = list(ast.walk(tree))
    bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    called = {id(node.func) for node in calls} | {id(kind) for node in calls for kind in types_of(node)}
    # a function of its own is called at once, or given to one that is
    called |= {id(given) for node in calls if isinstance(node.func, ast.Lambda) for given in node.args}
    looped = {id(inner) for node in nodes if isinstance(node, _LOOPS) for inner in ast.walk(node)}
    for node, depth in _nodes(tree):
        if depth > DEPTH:
            raise LambdaError(f"nested too deeply: {quote(source)}")
        if not isinstance(node, _NODES) or not _is_plain(node, tree, bound, called, looped):
            why = ": `inspect` and frames are the running program's own" if _reaches_frames(node) else ""
            raise LambdaError(f"not allowed: {quote(ast.unparse(node))} in {quote(source)}{why}")


def _reaches_frames(node: ast.AST) -> bool:
    for part in ast.walk(node):
        match part:
            # a text, too: that of __import__('…')
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
                if name in FRAMES:
                    return True
    return False


def _nodes(tree: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        if not (is_math(node) or is_today(node)):
            waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


def types_of(node: ast.Call) -> list[ast.Name]:
    """The names of types in `isinstance(value, types)`; none for other calls."""
    if not isinstance(node.func, ast.Name) or node.func.id != "isinstance" or len(node.args) != 2:
        return []
    kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else node.args[1:]
    return kinds if all(isinstance(kind, ast.Name) and kind.id in TYPES for kind in kinds) else []


def is_math(node: ast.AST) -> bool:
    """Whether the node is `math.NAME` or, as ScienceBoard's files have it, `__import__('math').NAME`."""
    named = isinstance(node, ast.Attribute) and node.attr in MATH
    return named and ast.unparse(node.value) in ("math", "__import__('math')")


def is_today(node: ast.AST) -> bool:
    """Whether the node is `strftime` of today's date, written as in `TODAY`, with a format of `DATE`."""
    match node:
        case ast.Call(ast.Attribute(today, "strftime"), [ast.Constant(str(form))], []):
            return ast.unparse(today) in TODAY and DATE.fullmatch(form) is not None
    return False


def _is_plain(node: ast.AST, tree: ast.Lambda, bound: set[str], called: set[int], looped: set[int]) -> bool:
    """Whether a node of an allowed type is allowed as it is used."""
    match node:
        case ast.Lambda(args=args):
            plain = not (args.posonlyargs or args.kwonlyargs or args.vararg or args.kwarg or args.defaults)
            return plain and (node is tree or id(node) in called)
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            return not name.startswith("__") and name not in (*FUNCTIONS, "math")
        case ast.Name(id=name):
            return name in bound or (name in FUNCTIONS and id(node) in called)
        case ast.NamedExpr():
            return id(node) not in looped  # it would bind outside of the comprehension
        case ast.Constant(value=value):
            return isinstance(value, str | bytes | int | float | bool | None)
        case ast.Attribute(attr=name):
            return is_math(node) or (name in _METHOD_NAMES and id(node) in called)
        case ast.Call(func=function, args=given, keywords=keywords):
            if any(isinstance(value, ast.Starred) for value in given):
                return False
            if any(keyword.arg != "reverse" for keyword in keywords):
                return False
            if isinstance(function, ast.Name):  # a parameter of an inner function, or a function of the list
                parameters = [arg for arg in ast.walk(tree) if isinstance(arg, ast.arg)]
                if function.id not in {arg.arg for arg in parameters if arg not in tree.args.args}:
                    return function.id in FUNCTIONS and (function.id != "isinstance" or bool(types_of(node)))
            return isinstance(function, ast.Name | ast.Attribute | ast.Lambda)
        case ast.Dict(keys=keys):
            return None not in keys
        case ast.comprehension(is_async=asynchronous):
            return not asynchronous
    return True
