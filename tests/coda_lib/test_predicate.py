"""Checks on an application's state: data in, truth out."""

from __future__ import annotations

import pytest

from coda_lib.task import PREDICATES, holds

STATE = {
    "grid": True, "digits": 4, "xmin": -1.0, "tab": "Plot 2D", "functions": ["sin(x)", "x^2"],
    "variables": {"a": 5.0},
    "look": {"All": {"deep": 1}}, "console": [["2^10", "1024"], ["3*7", "21"]], "dotted.key": 7,
    "nothing": None,
    "layers": ["Peaks", "Slope", "Elevation"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "pred", "value", "expected"),
    [
        ("grid", "equals", True, True),
        ("grid", "equals", False, False),
        ("grid", "equals", 1, True),
        ("digits", "equals", 4.0, True),
        ("digits", "equals", "4", False),
        ("xmin", "equals", -1, True),
        ("xmin", "equals", -1 + 1e-12, True),
        ("xmin", "equals", -1.01, False),
        ("tab", "equals", "Plot 2D", True),
        ("tab", "equals", "plot 2d", False),
        ("functions", "equals", ["sin(x)", "x^2"], True),
        ("functions", "equals", ["x^2", "sin(x)"], False),
        ("nothing", "equals", None, True),
        ("unknown", "equals", None, False),
        ("variables.a", "equals", 5, True),
        ("look.All.deep", "equals", 1, True),
        ("dotted.key", "equals", 7, True),
        ("variables.b", "equals", 5, False),
        ("grid.on", "equals", True, False),
        ("functions", "contains", "x^2", True),
        ("functions", "contains", "x", False),
        ("variables", "contains", "a", True),
        ("unknown", "contains", "a", False),
        ("functions", "excludes", "x^3", True),
        ("functions", "excludes", "x^2", False),
        ("unknown", "excludes", "a", False),
        ("variables.b", "absent", None, True),
        ("variables.a", "absent", None, False),
        ("digits", "at_least", 4, True),
        ("digits", "at_least", 5, False),
        ("unknown", "at_least", 0, False),
        ("layers", "before", ["Peaks", "Elevation"], True),
        ("layers", "before", ["Elevation", "Peaks"], False),
        ("layers", "before", ["Peaks", "Contours"], False),
        ("unknown", "before", ["a", "b"], False),
        ("console", "has_row", "2^10", True),
        ("console", "has_row", "1024", False),
        ("unknown", "has_row", "2^10", False),
    ],
)
def test_each_predicate(key, pred, value, expected):
    assert holds({"type": "state", "key": key, "pred": pred, "value": value}, STATE) is expected


def test_equality_is_meant_where_no_predicate_is_named():
    assert holds({"key": "digits", "value": 4}, STATE) and not holds({"key": "digits", "value": 5}, STATE)


def test_every_predicate_is_tested_here():
    (marker,) = (m for m in test_each_predicate.pytestmark if m.name == "parametrize")
    assert {case[1] for case in marker.args[1]} == set(PREDICATES)


def test_an_unknown_predicate_is_an_error():
    with pytest.raises(KeyError, match="eval"):
        holds({"key": "digits", "pred": "eval", "value": "1"}, STATE)


def test_a_check_changes_nothing():
    state, value = {"layers": [["Peaks"], ["Slope"]]}, [["Peaks"], ["Slope"]]
    before = repr((state, value))
    for pred in PREDICATES:
        holds({"key": "layers", "pred": pred, "value": value}, state)
    assert repr((state, value)) == before
