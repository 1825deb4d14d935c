"""ScienceBoard's lambda expressions: Python's own result on what its files contain, and nothing else."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from itertools import product

import hostile_expressions
import pytest
from board_files import each_edition
from hostile_expressions import EXPRESSIONS, PATTERNS, TEXTS
from hypothesis import given
from hypothesis import strategies as st

from coda_lib.errors import UserError
from coda_lib.paths import REPO
from sciencedesk.board.costs import LambdaError, found
from sciencedesk.board.files import load_board_task
from sciencedesk.board.lambdas import Lambda

DUMP = {
    "time": {"value": 2400000.05, "pause": False},
    "entity": {"Sol": {"position": [1.0, 2.0, 3.0]}, "Earth": {"position": [0.5, -1.0, 0.0]}},
    "rows": [{"name": "a", "value": 1}, {"name": "b", "value": [2, 3]}],
    "a.b._x": "text",
}
LIKE = [  # of each kind that the benchmark's files have, in our own words
    "lambda dump: dump['time']['value']",
    "lambda dump: dump['entity']['Sol']['position'][-1]",
    "lambda dump: (a := dump['entity']['Sol']['position'], b := [x**2 for x in a], "
    "__import__('math').sqrt(sum(b)))[-1]",
    "lambda dump: math.hypot(3, 4) // 2 % 2",
    "lambda dump: 'on ' + __import__('datetime').datetime.today().strftime('%Y-%m-%d')",
    "lambda dump: any([row['name'] == 'b' for row in dump['rows']])",
    "lambda dump: '.'.join([key for key in dump if '.' in key][0].split('.')[:-1] + ['_y'])",
    "lambda dump: sorted({len(key) for key in dump.keys()}, reverse=True)[:2]",
    "lambda dump: {row['name']: row['value'] for row in dump['rows'] if row['name'] != 'a'}",
    "lambda dump: [(k, v) for k, v in dump['time'].items()]",
    "lambda dump: max(abs(x) for x in dump['entity']['Earth']['position']) "
    "if not dump['time']['pause'] else None",
    "lambda dump: 0 < dump['time']['value'] <= 3e6 and 'Mars' not in dump['entity'] or -1",
    "lambda dump: round(float('1.26'), 1) == 1.3 and str(7) + 'x' * 2 == '7xx'",
    "lambda dump: dump.get('nothing', {}).get('more')",
    "lambda dump: [x for row in [[1, 2], [3]] for x in row if x > 1]",
    "lambda dump: '%s is %.2f%% of %-5d|%+03i %x %r %c' % ('a', 2.345, 7, 3, 255, 'b', 'c')",
    "lambda dump: '%(value)s and %(pause)r' % dump['time'] + '%s' % None + '%5s' % True + '%%' % ()",
    "lambda dump: [row['name'] for row in dump['rows'] if '%s!' % row['name'] == 'b!'] + ['%*d' % (6, 42)]",
    "lambda dump: b'bytes'.decode() + 'text'.encode().decode('utf-8') + b'\\xff'.hex() + str(b'ab') "
    "+ str(b'ab', 'ascii')",
    "lambda dump: (b'%d-%s' % (3, b'x'), b'a,b'.split(b','), bytes([65, 66]), bytes('é', 'utf-8'), "
    "bytes(3), b'abc'[1:])",
    "lambda dump: (lambda low: [low(row['name']) for row in dump['rows']])(lambda name: name.lower() == 'a')",
    "lambda dump: (lambda a, twice: twice(twice(a)) + len(dump))(3, lambda n: 2 * n)",
    "lambda dump: [isinstance(v, dict) or isinstance(v, (list, str)) for v in (1, 'a')] "
    "+ [isinstance(True, int)]",
    "lambda dump: [key for key, value in dump.items() if isinstance(value, (list, str))]",
    "lambda dump: b'b' in b'abc' and 98 in b'abc' and b'ab' + b'c' == b'abc' and sum(b'ab') "
    "and b'a' * 3 and list(b'ab')",
]


@pytest.mark.parametrize("source", LIKE)
def test_the_result_is_pythons(source):
    function = Lambda(source)
    assert function(DUMP) == eval(source, {"math": math})(DUMP) and function(DUMP) == function(DUMP)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("lambda dump: dump['no']", KeyError),
        ("lambda dump: dump['rows'][9]", IndexError),
        ("lambda dump: 1 / 0", ZeroDivisionError),
        ("lambda dump: dump['time'] < 1", TypeError),
        ("lambda dump: (5).lower()", AttributeError),
        ("lambda dump: float('x')", ValueError),
        ("lambda dump: '%d' % 'x'", TypeError),
        ("lambda dump: '%s %s' % 'x'", TypeError),
        ("lambda dump: '%(no)s' % dump", KeyError),
        ("lambda dump: b'\\xff'.decode()", UnicodeDecodeError),
        ("lambda dump: 'a' in b'a'", TypeError),
        ("lambda dump: b'a' + 'a'", TypeError),
        ("lambda dump: (lambda a: a)(1, 2)", TypeError),
        ("lambda dump: (lambda a: a(1))(2)", TypeError),
        ("lambda dump: (lambda a: a < 1)(lambda b: b)", TypeError),
    ],
)
def test_what_python_would_raise_is_raised(source, error):
    with pytest.raises(error):
        Lambda(source)(DUMP)


REFUSED = [
    "1 + 1", "lambda", "import os", "lambda x: __import__('os')", "lambda x: __import__('os').system('id')",
    "lambda x: __import__('datetime').datetime.today()",
    "lambda x: __import__('datetime').datetime.today().strftime(x)",
    "lambda x: __import__('datetime').datetime.today().strftime('%999999999d')",
    "lambda x: __import__('datetime').os",
    "lambda x: __import__('datetime').datetime.today().strftime('%Y' * 9)", "lambda x: x.strftime('%Y')",
    "lambda x: __import__('datetime').datetime.today().strftime('" + "%Y" * 21 + "')",
    "lambda x: __import__('datetime').datetime.today().strftime('%c')",
    "lambda x: __import__('math').__dict__", "lambda x: __import__('math').__loader__",
    "lambda x: x.__class__", "lambda x: x.__class__.__mro__[1].__subclasses__()", "lambda x: ().__class__",
    "lambda x: open('/etc/passwd').read()", "lambda x: eval('1')", "lambda x: exec('1')",
    "lambda x: globals()", "lambda x: getattr(x, 'a')", "lambda x: y", "lambda x: x.format(1)",
    "lambda x: '{0.__class__}'.format(x)", "lambda x: f'{x}'", "lambda x: x.items", "lambda x: len",
    "lambda x: [lambda y: y][0](x)", "lambda x: sorted(x, lambda y: y)", "lambda x: (lambda y: y)",
    "lambda x: (lambda y: x(y))(1)", "lambda x: (lambda y=1: y)()", "lambda x: (lambda *y: y)(x)",
    "lambda x: (lambda len: len(x))(lambda y: y)", "lambda x: isinstance(x, type)",
    "lambda x: isinstance(x, x)", "lambda x: isinstance(x)", "lambda x: [dict]", "lambda x: (len, dict)",
    "lambda x: [f for f in [len]][0](x)", "lambda x, y=1: x", "lambda *x: x", "lambda **x: x",
    "lambda x: (yield)", "lambda x: await x", "lambda x: sorted(x, key=len)", "lambda x: max(*x)",
    "lambda x: {**x}", "lambda x: [*x]", "lambda x: x()", "lambda x: x['f']()", "lambda x: 1j",
    "lambda x: ...", "lambda x: x << 3", "lambda x: x @ x", "lambda x: x & 1",
    "lambda x: [y := z for z in x]", "lambda len: len(3)", "lambda x: (abs := x)", "lambda __x: __x",
    "lambda math: math.pi", "lambda x: type(x)", "lambda x: vars(x)", "lambda x: print(x)",
    "lambda x: input()", "lambda x: x.pop()", "lambda x: [c async for c in x]", "lambda x: math",
    "lambda x: math.os", "lambda x: math.factorial(10 ** 6)", "lambda x: " + "(" * 300 + "x" + ")" * 300,
    "lambda x: " + "-" * 3000 + "1", "lambda x: " + "x+" * 5000 + "x", "lambda x: 'a\0b'.\0",
]  # fmt: skip


@pytest.mark.parametrize("source", REFUSED)
def test_everything_else_is_refused_when_it_is_read(source):
    with pytest.raises(LambdaError):
        Lambda(source)


DEAR = [
    "lambda x: 9 ** 9 ** 9", "lambda x: 2 ** 100000", "lambda x: (10 ** 900) * (10 ** 900)",
    "lambda x: 'a' * 10 ** 9", "lambda x: [0] * 10 ** 9", "lambda x: 10 ** 9 * (0,)",
    "lambda x: list(range(10 ** 9))", "lambda x: sum(range(10 ** 9))", "lambda x: '%1000000000d' % 1",
    "lambda x: '%*d' % (10 ** 9, 1)", "lambda x: '%.999999999f' % 1.0", "lambda x: '%s' % ([x] * 9,)",
    "lambda x: bytes(10 ** 9)", "lambda x: b'a' * 10 ** 9", "lambda x: ('é' * 9999).encode('idna')",
    "lambda x: ('%s' * 9999) % ((('a' * 9999),) * 9999)",
    "lambda x: (a := 'a' * 9999, ('%(a)r' * 2000) % {'a': a})",
    "lambda x: [a for a in range(9999) for b in range(9999)]",
    "lambda x: any(False for a in range(9999) for b in range(9999))",
    "lambda x: (a := 'x' * 9999).join([a] * 999)", "lambda x: sum([[1]] * 999, [])",
    "lambda x: (a := [0] * 9999, b := [a] * 9999, c := [b] * 9999, c == [b] * 9999)[-1]",
    "lambda x: (lambda f: f(f))(lambda f: f(f))",
    "lambda x: (lambda f: f(f, 0))(lambda f, n: f(f, n + 1) + f(f, n + 1))",
    "lambda x: (lambda d: d(d(d(d(d(d(d(d([0] * 99)))))))))(lambda y: y + y + y + y + y + y)",
    "lambda x: (lambda f: str(f))(lambda y: y)", "lambda x: (lambda f: '%s' % f)(lambda y: y)",
    "lambda x: (a := (0,), " + "".join(f"a := (a, a), b{i} := 0, " for i in range(25)) + "{a})[-1]",
    "lambda x: str([x] * 9)",
]  # fmt: skip


@pytest.mark.parametrize("source", DEAR)
def test_what_would_cost_too_much_ends_soon(source):
    function, start = Lambda(source), time.perf_counter()
    with pytest.raises(LambdaError, match="costs too much|not allowed"):
        function(1)
    assert time.perf_counter() - start < 5


def test_hostile_expressions_and_patterns_cost_less_than_a_second_and_100_mb():
    assert len(set(EXPRESSIONS)) >= 200 and len(PATTERNS) * len(TEXTS) >= 60
    done = subprocess.run(
        [sys.executable, hostile_expressions.__file__], capture_output=True, text=True, timeout=300,
        check=False, env=os.environ | {"PYTHONPATH": str(REPO)},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr)


def test_what_a_budget_allows_is_as_python_has_it():
    state = {"rows": [{"name": str(n), "value": n} for n in range(5_000)], "text": "one two\n" * 50_000}
    for source in (
        "lambda x: sorted([row['value'] for row in x['rows']])[-1]", "lambda x: len(set(x['text'].split()))",
        "lambda x: sum(row['value'] for row in x['rows'])",
        "lambda x: 'two' in x['text'] and x['text'].count('one')",
        "lambda x: [a + b for a, b in zip(range(9), range(9))]", "lambda x: dict(enumerate(x['text'][:9]))",
        "lambda x: {row['name']: row for row in x['rows']}['77']",
        "lambda x: round(12345, -2) + round(1.005, 2)",
        "lambda x: [(i, name) for i, name in enumerate(sorted(x))]",
        "lambda x: any(row == {'name': '9'} for row in x['rows'])",
        "lambda x: {1, 2}.union([3]).difference(x)", "lambda x: 2 ** 64 in {2 ** 64, 3 ** 99}",
        "lambda x: ''.join(x['text'][:99])",
    ):  # fmt: skip
        assert Lambda(source)(state) == eval(source)(state), source


def test_a_pattern_is_searched_for_as_by_re():
    for pattern, text in product(
        ["a", "^b", r"(?i)A\Z", r"(\w)\1", "é|😀", "$", "(?=x)y"], ["", "a", "ba\n", "aab é", "😀"]
    ):
        assert found(pattern, text) == (re.search(pattern, text) is not None)
    with pytest.raises(LambdaError, match="costs too much: the pattern"):
        found("(a+)+$", "a" * 40 + "!")


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text):
    for source in (text, f"lambda x: {text}"):
        try:
            Lambda(source)
        except LambdaError:
            pass


def test_the_number_of_values_is_that_of_its_names():
    assert Lambda("lambda key, value: abs(key - value) < 0.1")(1, 1.05)
    with pytest.raises(LambdaError, match="1 values for"):
        Lambda("lambda key, value: key")(1)


def _state(kind: int) -> object:
    """A state in which every key of the files leads somewhere."""

    class Any_(dict):
        def __missing__(self, key: str) -> object:
            return [1.0 + kind, 2.0, 3.5] if key == "position" else Any_()

    return Any_()


@each_edition("Celestia", "GrassGIS", "ChimeraX")
def test_every_expression_of_the_task_files_gives_pythons_result(edition, app, folder):
    found = set()

    def collect(value: object) -> None:
        if isinstance(value, str) and value.startswith("lambda"):
            found.add(value)
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
            collect(inner)

    for path in folder.glob("*.json"):
        with suppress(UserError):  # no expression of a file that is refused is given to Python
            load_board_task(path)
            collect(json.loads(path.read_text()))
    compared = 0
    for source in found:
        names = ("models.(1,)._name", "contacts")
        pairs = source.startswith("lambda key, value")
        values = [(2.0, 2.05), (5, 1), names] if pairs else [(_state(0),), (_state(1),), names[:1]]
        for given_ in values:
            try:
                expected = eval(source)(*given_)
            except (
                ArithmeticError,
                AttributeError,
                LookupError,
                TypeError,
            ):  # not a state of this expression's application
                continue
            compared += 1
            assert Lambda(source)(*given_) == expected, source
    assert compared >= len(found) > 15


@pytest.mark.parametrize(
    "body",
    ["__import__('inspect').currentframe().f_back.f_globals", "inspect.stack()", "inspect", "d.f_back",
     "(x for x in d).gi_frame", "d.__traceback__.tb_frame", "__import__('sys')._getframe(1)", "[inspect][0]"],
)  # fmt: skip
def test_inspect_and_frames_are_refused_by_name(body):
    with pytest.raises(LambdaError, match="not allowed: .*: `inspect` and frames are the running program's"):
        Lambda(f"lambda d: {body}")


def test_words_of_a_dump_may_be_those_of_frames():
    assert Lambda("lambda inspect: inspect['f_back'] + inspect['inspect']")({"f_back": 1, "inspect": 2}) == 3
    with pytest.raises(LambdaError) as refused:
        Lambda("lambda d: d.real")
    assert "frames" not in str(refused.value)
