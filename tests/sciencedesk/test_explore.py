"""Exploration: tasks made out of human-written goals, the same ones every time."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coda_lib.applications import ALL_APPS, APPLICATIONS
from coda_lib.errors import UserError
from coda_lib.task import Task, test_tasks
from sciencedesk import goals as goals_module
from sciencedesk.env import desk_class
from sciencedesk.goals import Aim, Goal, aims, are_apart, compose, goals

DEFAULTS = {"grid": False, "digits": 3, "xmin": -5.0, "variables": {}, "locked": False}
GRID = Goal(
    "algebra",
    "grid",
    "turn the grid {v}",
    {"on": True, "off": False},
    [{"click": "View"}, {"click": "Grid"}],
    "grid",
)
DIGITS = Goal(
    "algebra", "digits", "set the precision to {v} digits", {"4": 4, "5": 5},
    [{"click": "Settings"}, {"click": "Precision"}, {"type": "{v}\n"}], "digits",
)  # fmt: skip
RANGE = Goal(
    "algebra", "range", "set the range from {v}", {"-1 to 1": [-1, 1]},
    [{"type": "{0}"}, {"drag": ["{0}", "{1}"]}], check=[{"key": "xmin", "pred": "equals", "value": "{0}"}],
    setup={"locked": True}, area="view",
)  # fmt: skip
MEAN = Goal(
    "algebra", "mean", "what is the {v} mean", {"first": "531"}, [{"click": "{V}"}], ask=True, fact="mean"
)


def first_aim(goal: Goal) -> Aim:
    return Aim(goal, next(iter(goal.values)))


def test_a_goal_with_a_value_is_a_task():
    task = compose("algebra", [first_aim(DIGITS)], DEFAULTS, "algebra/{grade}-01")
    assert (task.id, task.grade, task.instruction) == ("algebra/B-01", "B", "Set the precision to 4 digits.")
    assert task.initialize == () and task.ans is None
    assert task.evaluate == ({"type": "state", "key": "digits", "pred": "equals", "value": 4},)
    assert task.solution == ({"click": "Settings"}, {"click": "Precision"}, {"type": "4\n"})
    assert task.steps == 3 + 1 + 4  # script, DONE, slack


def test_a_task_starts_where_its_goal_does_not_hold():
    assert compose("algebra", [Aim(GRID, "on")], DEFAULTS, "x").settings == {}
    assert compose("algebra", [Aim(GRID, "off")], DEFAULTS, "x").settings == {"grid": True}
    assert compose("algebra", [Aim(DIGITS, "4")], DEFAULTS | {"digits": 4}, "x").settings == {"digits": 5}


def test_goals_are_combined_in_their_order():
    task = compose("algebra", [Aim(GRID, "off"), first_aim(DIGITS)], DEFAULTS, "algebra/{grade}-02")
    assert (
        task.id == "algebra/C-02"
        and task.instruction == "Turn the grid off and set the precision to 4 digits."
    )
    assert [item["key"] for item in task.evaluate] == ["grid", "digits"] and len(task.solution) == 5
    three = compose("algebra", [Aim(GRID, "on"), first_aim(DIGITS), first_aim(RANGE)], DEFAULTS, "{grade}")
    assert three.grade == "D" and three.settings == {"locked": True}


def test_a_question_comes_with_its_answer():
    alone = compose("algebra", [first_aim(MEAN)], DEFAULTS, "{grade}")
    assert (alone.grade, alone.ans, alone.instruction) == ("A", "531", "What is the first mean?")
    assert alone.evaluate == ({"type": "stop", "value": "ANS", "args": ["531"]},)
    assert alone.solution == ({"click": "First"}, {"answer": "531"})
    assert compose("algebra", [Aim(GRID, "on"), first_aim(MEAN)], DEFAULTS, "{grade}").grade == "D"


def test_aims_that_undo_each_other_are_not_combined():
    with pytest.raises(ValueError, match="one area: grid, grid"):
        compose("algebra", [Aim(GRID, "on"), Aim(GRID, "off")], DEFAULTS, "x")


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{v}", "-1 to 1"), ("{0}", -1), ("{1}", 1), ("{value}", [-1, 1]),
        ("from {0} to {1}", "from -1 to 1"), ("{V}!", "-1 to 1!"), (["{0}", {"a": "{1}"}], [-1, {"a": 1}]),
        (7, 7), (None, None), ("plain", "plain"),
    ],
)  # fmt: skip
def test_templates_keep_types_where_they_are_one_placeholder(template, filled):
    assert first_aim(RANGE).fill(template) == filled


def test_words_of_a_script_may_differ_from_those_of_the_instruction():
    goal = replace(
        GRID, values={"the north": "north"}, words={"the north": "North"}, solve=[{"click": "{w}"}]
    )
    assert (
        first_aim(goal).solution == [{"click": "North"}] and first_aim(goal).text == "turn the grid the north"
    )


def test_scripts_are_texts_whatever_the_values_are():
    assert first_aim(RANGE).solution == [{"type": "-1"}, {"drag": ["-1", "1"]}]


def test_an_unknown_application():
    with pytest.raises(UserError, match="'paint'.*algebra, biochem, gis, astron, spectra"):
        goals("paint")


@pytest.mark.parametrize("app", ALL_APPS)
def test_every_human_written_goal_is_whole(app):
    state = set(desk_class(app).defaults)
    for goal in goals(app):
        assert goal.key is None or goal.key in state, goal.name
        assert set(goal.setup) <= state and (goal.key or goal.check or goal.ask), goal.name
        assert goal.ask == (goal.fact is not None) and set(goal.words) <= set(goal.values), goal.name
        texts = json.dumps([aim.solution for aim in aims(app) if aim.goal is goal]) + "".join(goal.values)
        assert "{" not in texts.replace("[{", "").replace(", {", ""), goal.name  # no placeholder is left
    assert len({goal.name for goal in goals(app)}) == len(goals(app))


def combinations(app: str, size: int, rng: random.Random) -> list[tuple[Aim, ...]]:
    """Ordered combinations of aims of different areas, shuffled: all pairs, or some of 4,000 triples; a
    question comes last.
    """
    if size == 2:
        drawn = itertools.permutations(aims(app), 2)
    else:
        drawn = (tuple(rng.sample(aims(app), size)) for _ in range(4000))
    apart = [parts for parts in drawn if are_apart([aim.goal for aim in parts])]
    fit = [parts for parts in apart if not any(aim.goal.ask for aim in parts[:-1])]
    rng.shuffle(fit)
    return fit


def draw_test_tasks(app: str, defaults: Mapping[str, Any], count: int) -> list[Task]:
    """The committed test tasks: about 1/4 of grade A, 1/3 B, 1/4 C, 1/6 D; alone a third of a goal's values.

    Runs read only the files that this seeded drawing gave, data/tasks/test.
    """
    rng = random.Random(f"test tasks of {app}")
    quota = {"A": round(count * 0.25), "C": round(count * 0.25), "D": round(count * 0.16)}
    quota["B"] = count - sum(quota.values())
    values_left = {goal.name: max(1, len(goal.values) // 3) for goal in goals(app)}
    singles = [(aim,) for aim in aims(app)]
    rng.shuffle(singles)
    drawn: dict[str, list[Task]] = {grade: [] for grade in "ABCD"}
    goals_seen: set[str] = set()
    for parts in [*singles, *combinations(app, 2, rng), *combinations(app, 3, rng)]:
        task = compose(app, parts, defaults, f"{app}/{{grade}}-00")
        tasks, name = drawn[task.grade], parts[0].goal.name
        used_up = len(parts) == 1 and not values_left[name]
        if len(tasks) == quota[task.grade] or task.goal in goals_seen or used_up:
            continue
        if len(parts) == 1:
            values_left[name] -= 1
        goals_seen.add(task.goal)
        tasks.append(replace(task, id=f"{app}/{task.grade}-{len(tasks) + 1:02d}"))
    return [task for grade in "ABCD" for task in drawn[grade]]


@pytest.mark.parametrize("app", APPLICATIONS, ids=lambda app: app.name)
def test_the_test_tasks_that_the_seeded_drawing_gives_are_committed(app):
    drawn = draw_test_tasks(app.name, desk_class(app.name).defaults, app.test_tasks)
    committed = {task.id: as_file(task) for task in test_tasks(app.name)}  # these, and any written by hand
    assert [as_file(task) for task in drawn] == [committed[task.id] for task in drawn] and len(
        drawn
    ) == app.test_tasks
    for task in drawn:
        assert task.steps <= 15 and (task.ans is not None) == task.instruction.endswith("?"), task.id


def as_file(task: Task) -> dict:
    """What a task is once it has been written and read."""
    return json.loads(json.dumps(vars(task)))


def test_an_application_without_goals_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(goals_module, "DATA", tmp_path)
    goals.cache_clear()
    with pytest.raises(UserError, match="algebra has no goals for train tasks: write .*algebra.yaml"):
        goals("algebra")
    goals.cache_clear()
