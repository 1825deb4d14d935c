"""Regions of the task spaces: nothing crosses, in whatever draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path

import pytest

from coda_lib.applications import APPS, DESKTOP_APPS
from coda_lib.paths import DATA
from coda_lib.task import Task, test_tasks
from sciencedesk.content import goal_state, plain, script_text
from sciencedesk.goals import Aim
from sciencedesk.make import defaults
from sciencedesk.space import REGIONS, Space, content, draw_with_aims, read_space, region, space

REAL = [app for app in DESKTOP_APPS if (DATA / "tasks" / "spaces" / f"{app}.yaml").is_file()]
COMBINED = {"A": 0.07, "B": 0.13, "C": 0.5, "D": 0.3}  # there are fewer test tasks of one aim than 3,000
Drawn = Sequence[tuple[Sequence[Aim], Task]]

SMALL = """
goals:
  - name: light
    say: "set the light azimuth to {v}"
    values: {"75": 75, "75.0": 75.0, "180": 180, "200": 200, "210": 210, "220": 220, "230": 230}
    key: light
    solve: [{click: Light}, {type: "{v}\\n"}]
  - name: height
    ask: true
    say: ["how high is {v}", "what height has {v}"]
    values: {x^2+1: "1", 1+x^2: "1", x+2: "2", 2+x+0: "2", b: "3", c: "4", d: "5", the whole region: "531"}
    solve: [{click: Table}]
  - name: mean
    ask: true
    say: "what is the mean elevation in {v}"
    values: {the whole region: "531"}
    solve: [{click: Mean}]
  - name: hide
    say: "hide {v}"
    values: [Ash, Bay, Elm, Fir, Ivy, Oak]
    check: [{key: hidden, value: "{v}"}]
    solve: [{click: "{v}"}]
  - name: show
    say: "show {v}"
    values: [Ash, Bay, Elm, Fir, Ivy, Oak, Yew]
    check: [{key: shown, value: "{v}"}]
    solve: [{click: "{v}"}]
"""


@pytest.fixture
def small(tmp_path: Path) -> Space:
    (tmp_path / "gis.yaml").write_text(SMALL)
    return read_space("gis", tmp_path / "gis.yaml")


@pytest.mark.parametrize(
    "same",
    [
        [2, 2.0, "2", "2.00", " 2 "], [0.5, ".50", "0.5"], ["x^2+1", "1+x^2", "1 + x**2"],
        ["x-3+y", "y+x-3", "-3+x+y"], ["2*sin(x)", "sin(x)*2", "2.0*sin(x)"],
        ["height > 640", "height>640.0"],
        ["a = 5", "a=5.0"], [["x/2*y", True], ["y*x/2", True]], [{"k": 1}, {"k": 1.0}],
    ],
)  # fmt: skip
def test_numbers_are_compared_as_numbers_and_formulas_as_formulas(same):
    assert len({str(plain(value)) for value in same}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x-3", "3-x"), ("x^2", "2^x"), ("x/2", "2/x"), ("7*8", "56"), ("x+x", "2*x"), (1, True), ("1", True),
        ("C1-C2", "C2-C1"), ("04:49", "4:49"), ("a b", "b a"), ("sin(x)", "cos(x)"), ("", "0"), ("on", "off"),
    ],
)  # fmt: skip
def test_what_differs_stays_apart(one, other):
    assert plain(one) != plain(other)


def where(small: Space, goal: str) -> dict[str, str]:
    return {aim.word: region(small, [aim]) for aim in small.aims[goal]}


def test_aims_of_one_goal_state_or_one_script_share_a_region(small):
    light, height = where(small, "light"), where(small, "height")
    assert light["75"] == light["75.0"] and small.contents["light", "75"] == small.contents["light", "75.0"]
    assert height["x^2+1"] == height["1+x^2"]
    hide, show = where(small, "hide"), where(small, "show")
    assert hide == {word: name for word, name in show.items() if word in hide}  # one click


@pytest.mark.parametrize("app", APPS)
def test_scripts_of_committed_tasks_are_held_out(app):
    """A switch is turned off by the clicks that turn it on."""
    task_space = space(app)
    scripts = {script_text(task.solution) for task in test_tasks(app)}
    found = [aim for aim in chain(*task_space.aims.values()) if script_text(aim.solution) in scripts]
    assert len(found) > 10 and {region(task_space, [aim]) for aim in found} == {"test"}


def test_a_question_of_a_committed_task_is_known_in_any_wording(small):
    """gis/B-08 asks for the mean elevation in the whole region, gis/D-04 turns the legend on before."""
    mean, light = small.aims["mean"][0], small.aims["light"][2]
    assert small.is_committed([mean]) and region(small, [mean]) == "test"
    height = next(aim for aim in small.aims["height"] if aim.word == "the whole region")
    assert not small.is_committed([height]) and not small.is_committed([light, mean])


@pytest.mark.parametrize("app", APPS)
def test_all_that_committed_tasks_of_one_aim_ask_is_left_out(app):
    """In each wording and, of combinations, in each order."""
    task_space = space(app)
    told = {task.instruction[:1].lower() + task.instruction[1:].rstrip("?.") for task in test_tasks(app)}
    asked = [aim for aim in chain(*task_space.aims.values()) if aim.text in told]
    assert len(asked) > 10 and all(task_space.is_committed([aim]) for aim in asked)
    assert all(task_space.is_committed([replace(aim, wording=len(aim.goal.wordings) - 1)]) for aim in asked)
    parts = {part for text in told for part in text.split(" and ")}
    known = [aim for aim in chain(*task_space.aims.values()) if aim.text in parts]
    pairs = [p for p in product(known, repeat=2) if f"{p[0].text} and {p[1].text}" in told]
    assert pairs and all(region(task_space, pair) is region(task_space, pair[::-1]) is None for pair in pairs)


def features(task_space: Space, drawn: Drawn) -> dict[str, set[str]]:
    return {
        "instruction": {task.instruction.lower() for _, task in drawn},
        "content": {content(task_space, parts) for parts, _ in drawn},
        "goal state": {goal_state(task.app, task.evaluate) for _, task in drawn if not task.ans},
        "script": {script_text(task.solution) for _, task in drawn},
        "single aim": {str((parts[0].goal.name, parts[0].word)) for parts, _ in drawn if len(parts) == 1},
    }


def assert_nothing_crosses(app: str, count: int, seeds: Iterable[int]) -> None:
    task_space = space(app)
    drawn: dict[str, Drawn] = {
        name: [pair for seed in seeds for pair in draw_with_aims(
            task_space, name, count if name != "development" else count // 10, seed, defaults(app), COMBINED)]
        for name in REGIONS
    }  # fmt: skip
    of = {name: features(task_space, pairs) for name, pairs in drawn.items()}
    for name, other in (("train", "test"), ("train", "development"), ("development", "test")):
        for feature, values in of[name].items():
            shared = values & of[other][feature]
            assert len(values) > 5 and not shared, (name, other, feature, sorted(shared)[:3])
    for name, pairs in drawn.items():
        held_out = {"test", "development"} - {name}
        for parts, task in pairs:
            alone = {region(task_space, [aim]) for aim in parts}
            assert name in alone and not alone & held_out, task.instruction
            assert not task_space.is_committed(parts), task.instruction
    committed = test_tasks(app)
    for features_of in of.values():
        assert not features_of["instruction"] & {task.instruction.lower() for task in committed}
        states = {goal_state(app, task.evaluate) for task in committed if not task.ans}
        assert not features_of["goal state"] & states
    for name in ("train", "development"):
        assert not of[name]["script"] & {script_text(task.solution) for task in committed}


@pytest.mark.parametrize("app", [*APPS, *REAL])
def test_nothing_crosses_from_one_region_to_another(app):
    assert_nothing_crosses(app, 250, range(2))


@pytest.mark.slow
@pytest.mark.parametrize("app", APPS)
def test_nothing_crosses_in_large_draws(app):
    assert_nothing_crosses(app, 3_000, range(5))
