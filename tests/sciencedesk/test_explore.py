"""Exploration: tasks made out of human-written goals, the same ones every time."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from coda_lib.applications import ALL_APPS, APPLICATIONS
from coda_lib.errors import UserError
from coda_lib.task import Task, test_tasks
from sciencedesk import goals as goals_module
from sciencedesk.env import desk_class
from sciencedesk.goals import Aim, Goal, aims, combinations, compose, draw_test_tasks, goals

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


@pytest.mark.parametrize("app", ALL_APPS)
@pytest.mark.parametrize("size", [2, 3])
def test_combinations_are_of_different_areas_with_the_question_last(app, size):
    found = combinations(app, size, random.Random(1))
    for parts in found:
        areas = {aim.goal.area or aim.goal.name for aim in parts}
        assert len(areas) == len(parts) == size and not any(aim.goal.ask for aim in parts[:-1])
    assert any(parts[-1].goal.ask for parts in found)

    def names(rng: random.Random) -> list[list[tuple[str, str]]]:
        return [[(aim.goal.name, aim.word) for aim in parts] for parts in combinations(app, size, rng)[:50]]

    assert names(random.Random(1)) == names(random.Random(1)) != names(random.Random(2))


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
