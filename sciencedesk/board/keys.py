"""Whether the keys of ScienceBoard's tasks are right: by SymPy, or as data/scienceboard/keys.yaml has it.

What KAlgebra's tasks ask for is written here as SymPy has it, read from their instructions and not from their
keys.  A key calls points true or false, or is a number; each is compared with what is asked.  B-06 and C-09
are as KAlgebra plots: an equation without z is the graph of left minus right, and the point of a polar curve
is (angle, radius).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import sympy as sp
from sympy import Point as P

from coda_lib.files import load_rows
from sciencedesk.board.check import NEAR
from sciencedesk.board.editions import EDITIONS, FOLDER
from sciencedesk.board.files import BoardTask, Equation, Part, Point, Stop, Value, Variable

x, y, z = sp.symbols("x y z", real=True)
_PARABOLA = x**2 - sp.log(x) - 1
_TANGENT = _PARABOLA.subs(x, 1) + sp.diff(_PARABOLA, x).subs(x, 1) * (x - 1)
_LEFT = (x**2 - x) * sp.exp(x) - 1
PLOTS = {  # KAlgebra task: the two sides of each equation that is asked for
    "A-02": [(y, sp.log(x) ** 2)],
    "A-03": [(x**2 + y**2 - z**2, sp.S(1))],
    "B-01": [(y, x**2)],
    "B-04": [(y, sp.exp(x) - 1)],
    "B-05": [(y, sp.sin(x + sp.pi / 4))],
    "B-06": [(z, x**2 - y**2 - 2)],
    "B-07": [(z, sp.sin(x**2) + sp.sin(y**2) - sp.exp(sp.sin(x) + sp.sin(y)))],
    "C-07": [(y, sp.diff(sp.log(x + 1) + (x**2 - x), x))],
    "C-08": [(y, _PARABOLA), (y, _TANGENT)],
    "C-09": [(y, 2 * x)],
    "C-10": [(y, (1 / x - sp.log(x)).subs(x, (x**2 + 1) * sp.exp(x) - 1))],
    "C-11": [(x, (y + 2) * sp.log(y))],
    "C-12": [(P(x, y).distance(P(1, 0)) * P(x, y).distance(P(-1, 0)), sp.S(16))],
    "C-13": [(y, sp.Piecewise((_LEFT, x < 0), (_LEFT.subs(x, -x), True)))],
    "C-14": [(x**2 + y**2 + z**2, (2 * sp.sqrt(2) / 2) ** 2)],
    "C-15": [(sp.Plane(P(1, 0, 0), P(0, 2, 0), P(0, 0, 3)).equation(x, y, z), sp.S(0))],
    "C-16": [(3 * x + y - z, sp.S(2))],
    "C-17": [((x + z) ** 2 + y**2, sp.S(1))],
}


def _zeros(of: sp.Expr) -> sp.Expr:
    """Number of zeros of an odd function with all of them below 2: changes of sign in steps of 1/50."""
    signs = [of.subs(x, sp.S(i) / 50).evalf() > 0 for i in range(1, 101)]
    return sp.S(2 * sum(before != after for before, after in zip(signs, signs[1:], strict=False)))


NUMBERS = {  # KAlgebra task: the number that is asked for
    "A-01": sp.conjugate(1 + sp.I),
    "C-01": sp.log(3, 2),
    "C-02": sp.Max(sp.exp(sp.pi), sp.pi**sp.E),
    "C-03": sp.fibonacci(24),
    "C-04": sp.harmonic(20),
    "C-05": sp.Matrix([-1, sp.cbrt(3)]).dot(sp.Matrix([sp.sqrt(3), 2])),
    "C-06": sp.Abs(6 - (-1)) / sp.sqrt(3**2 + 4**2 + 5**2),
    "D-01": sp.Max(sp.log(2) / 2, sp.log(3) / 3),  # ln(n)/n rises up to e and falls from there
    "D-02": sp.Ellipse(P(0, 0), 4, 3).area,
    "D-03": _zeros(2 * sp.sin(x) - x - 1 / (2 * x)),
}


class Key(Part):
    """A row of data/scienceboard/keys.yaml: a file that differs between the editions, or a doubtful key."""

    task: str
    changed: str = ""  # by the corrected edition
    wrong: dict[str, str] = {}  # edition: what is wrong with its key
    # edition: a point of its key, and whether it calls it true; SymPy then says whether that is wrong
    points: dict[str, tuple[Point, bool]] = {}
    how: str = "not decided"  # how that was decided

    def fault(self, edition: str) -> str | None:
        """What is wrong with the key of this edition, if anything is."""
        if edition in self.points:
            return point_fault(self.task.partition("/")[2], *self.points[edition])
        return self.wrong.get(edition)


@cache
def load_keys() -> Mapping[str, Key]:
    """The rows of data/scienceboard/keys.yaml by their tasks."""
    return {key.task: key for key in load_rows(FOLDER / "keys.yaml", Key)}


def decided() -> list[tuple[str, Key, str]]:
    """Edition, key and fault of each key that is wrong or doubtful, the release first."""
    keys = load_keys().values()
    return [(edition, key, said) for edition in EDITIONS for key in keys if (said := key.fault(edition))]


def doubt(edition: str, name: str, board: BoardTask) -> str | None:
    """What is wrong with the key of an edition's task such as KAlgebra/C-12: by SymPy, or as it is listed."""
    app, _, stem = name.partition("/")
    if app == "KAlgebra":
        return next(faults(stem, board), None)
    return load_keys()[name].fault(edition) if name in load_keys() else None


def point_fault(name: str, point: Sequence[float], on: bool, plot: int = 0) -> str | None:
    """What is wrong with calling a point true or false in a KAlgebra task such as C-12, if anything is."""
    at = dict(zip((x, y, z), point, strict=False))
    left, right = (side.subs(at).evalf() for side in PLOTS[name][plot])
    if bool(sp.Abs(left - right) <= NEAR * max(1, sp.Abs(left), sp.Abs(right))) == on:
        return None
    where = ", ".join(f"{number:.4g}" for number in point)
    sides = " and ".join(f"{complex(side) if side.has(sp.I) else float(side):.4g}" for side in (left, right))
    called = "a point" if on else "no point"
    return f"it calls ({where}) {called} of what is asked for, whose sides there are {sides}"


def faults(name: str, board: BoardTask) -> Iterator[str]:
    """What is wrong with the key of a KAlgebra task of an edition, such as C-12: nothing, if it is right."""
    plot = -1
    for item in board.evaluate:
        match item:
            case Equation(key=list() as points, value=called):
                plot += 1
                found = (point_fault(name, point, called[str(tuple(point))], plot) for point in points)
                yield from filter(None, found)
            case Value(value=said) | Stop(args=[said]):
                yield from _number_fault(name, float(said))
            case Variable(value=said) if said != "#UNDEF":  # KAlgebra writes 1-i as 1+-i
                yield from _number_fault(name, complex(said.replace("+-", "-").replace("i", "1j")))


def _number_fault(name: str, said: complex) -> Iterator[str]:
    if abs(complex(NUMBERS[name]) - said) > NEAR:
        yield f"it says {said:.12g}, and what is asked for is {complex(NUMBERS[name]):.12g}"
