"""Tasks: the files, what makes one malformed, and that every task is solvable, and on one side only."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coda_lib.applications import ALL_APPS
from coda_lib.errors import UserError
from coda_lib.task import GRADES, Task, check, holds, load_task, task_record, test_tasks
from coda_lib.trajectory import StopReason
from sciencedesk.env import ScienceDesk
from sciencedesk.script import idle, solve

WHOLE: dict[str, Any] = {
    "type": "gis", "sort": "ScienceDesk", "version": "1", "snapshot": "default", "grade": "D",
    "instruction": "Turn the grid on and what is the mean elevation?", "steps": 9,
    "initialize": [{"func": "set", "key": "grid", "value": False}],
    "evaluate": [{"type": "state", "key": "grid", "pred": "equals", "value": True},
                 {"type": "stop", "value": "ANS", "args": ["531"]}],
    "ans": "531", "solution": [{"click": "View"}, {"click": "Grid"}, {"answer": "531"}],
}  # fmt: skip


def write(folder: Path, raw: Any, name: str = "D-07.json") -> Path:
    path = folder / "gis" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(raw if isinstance(raw, str) else json.dumps(raw), encoding="utf-8")
    return path


def test_a_task_file_is_read_and_written(tmp_path):
    task = load_task(write(tmp_path, WHOLE))
    assert (task.id, task.app, task.grade, task.steps, task.ans) == ("gis/D-07", "gis", "D", 9, "531")
    assert task.settings == {"grid": False} and task.solution[-1] == {"answer": "531"}
    again = load_task(write(tmp_path, json.loads(json.dumps(task_record(task))), "D-08.json"))
    assert again == Task(**(vars(task) | {"id": "gis/D-08"}))
    assert json.loads(json.dumps(task_record(task))) == WHOLE


def test_what_a_task_file_may_leave_out(tmp_path):
    few = {key: WHOLE[key] for key in ("type", "sort", "steps", "instruction", "initialize")}
    goal = {"evaluate": [{"type": "state", "key": "grid", "value": True}]}
    task = load_task(write(tmp_path, few | goal, "B-01.json"))
    assert task.grade == "B" and task.ans is None and task.solution == ()  # the grade is in the file's name


@pytest.mark.parametrize("field", ["type", "sort", "steps", "instruction", "initialize", "evaluate"])
def test_a_missing_field_is_named(tmp_path, field):
    path = write(tmp_path, {key: value for key, value in WHOLE.items() if key != field})
    with pytest.raises(UserError) as caught:
        load_task(path)
    assert str(caught.value) == f"{path}: field {field!r} must be there"


BAD = [
    *((("type",), value, "type") for value in ("paint", "", None, 3, [], {})),
    *((("sort",), value, "sort") for value in ("ScienceBoard", None, 1)),
    *((("grade",), value, "grade") for value in ("E", "", None, 1, ["A"])),
    *((("instruction",), value, "instruction") for value in ("", "  ", None, 7, ["Do it"])),
    *((("steps",), value, "steps") for value in (0, -1, 2.5, "9", None, True, [9])),
    *((("initialize",), value, "initialize") for value in (None, {}, "set", [1], [None])),
    *((("initialize", 0, "func"), value, "initialize[0].func") for value in ("eval", None, 1)),
    *((("initialize", 0, "key"), value, "initialize[0].key") for value in (None, 1, "", ["grid"])),
    (("initialize", 0), {"func": "set", "key": "grid"}, "initialize[0].value"),
    *((("evaluate",), value, "evaluate") for value in (None, {}, [], [1], "grid")),
    *((("evaluate", 0, "type"), value, "evaluate[0].type") for value in ("pixels", None, 1, [])),
    *((("evaluate", 0, "key"), value, "evaluate[0].key") for value in (None, 1, "", ["grid"])),
    *((("evaluate", 0, "pred"), value, "evaluate[0].pred") for value in ("eval", "", None, 1, ["equals"])),
    (("evaluate", 0), {"type": "state", "key": "grid"}, "evaluate[0].value"),
    *(
        (("evaluate", 0), {"type": "state", "key": "grid", "pred": pred, "value": value}, "evaluate[0].value")
        for pred, values in {"at_least": ("3", None, [3]), "before": ("ab", 3, {})}.items()
        for value in values
    ),
    (("evaluate", 0, "value"), json.loads("[" * 500 + "]" * 500), "evaluate[0]"),
    (("initialize", 0, "value"), json.loads('{"a": ' * 40 + "1" + "}" * 40), "initialize[0]"),
    (("solution", 0), {"type": "x" * 20_000}, "solution[0]"),
    (("evaluate", 0, "value"), [0] * 9_000, "evaluate[0]"),
    *((("evaluate", 1, "value"), value, "evaluate[1].value") for value in ("STOP", None, 1, [])),
    *((("evaluate", 1, "args"), value, "evaluate[1].args") for value in ("531", None, [531], [""], {})),
    *((("ans",), value, "ans") for value in (531, "", ["531"], False)),
    *((("solution",), value, "solution") for value in (None, "click", [1], {})),
    *((("solution", 0), value, "solution[0]") for value in ({}, {"click": "A", "type": "b"})),
]


@pytest.mark.parametrize(("place", "value", "field"), BAD, ids=lambda value: json.dumps(value)[:30])
def test_a_bad_field_is_named_with_its_file(tmp_path, place, value, field):
    raw = copy.deepcopy(WHOLE)
    inner = raw
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path = write(tmp_path, raw)
    with pytest.raises(UserError) as caught:
        load_task(path)
    assert str(caught.value).startswith(f"{path}: field {field!r} must be ")


@pytest.mark.parametrize("text", ["", "{", '{"type": "gis",}', "nonsense"])
def test_a_file_that_is_no_json(tmp_path, text):
    path = write(tmp_path, text)
    with pytest.raises(UserError, match="is no JSON file, or is damaged: .* line 1 column") as caught:
        load_task(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("raw", [[], "task", 3, None])
def test_a_json_file_that_is_no_object(tmp_path, raw):
    path = write(tmp_path, json.dumps(raw))
    with pytest.raises(UserError, match="must be an object"):
        load_task(path)


def test_a_file_that_is_no_text(tmp_path):
    path = write(tmp_path, "")
    path.write_bytes(b'{"type": "\xff"}')
    with pytest.raises(UserError, match="is no JSON file, or is damaged: .*utf-8") as caught:
        load_task(path)
    assert str(path) in str(caught.value)


def test_an_unknown_setting_is_named_at_the_start_of_an_episode(tmp_path):
    task = load_task(write(tmp_path, WHOLE | {"initialize": [{"func": "set", "key": "gird", "value": True}]}))
    with pytest.raises(
        UserError, match=r"task gis/D-07: initialize: gis has no setting 'gird'; it has .*\bgrid\b"
    ):
        ScienceDesk("gis").reset(task)


def test_no_test_tasks_for_an_unknown_application():
    with pytest.raises(UserError, match="'paint'.*algebra, biochem, gis, astron, spectra"):
        test_tasks("paint")


@pytest.mark.parametrize(
    ("stop", "answer", "state", "solved"),
    [
        (StopReason.ANS, "531", True, True), (StopReason.ANS, " 531\n", True, True),
        (StopReason.ANS, "531", False, False), (StopReason.ANS, "532", True, False), (StopReason.ANS, "",
         True, False),
        (StopReason.ANS, None, True, False), (StopReason.DONE, "531", True, False),
        (StopReason.FAIL, None, True, False), (StopReason.STEP_LIMIT, None, True, False),
        (StopReason.ENVIRONMENT_ERROR, "531", True, False),
    ],
)  # fmt: skip
def test_a_question_wants_the_answer_and_every_goal(tmp_path, stop, answer, state, solved):
    assert check(load_task(write(tmp_path, WHOLE)), {"grid": state}, stop, answer) is solved


def test_answers_are_compared_without_case():
    raw = WHOLE | {"evaluate": [{"type": "stop", "value": "ANS", "args": ["Ivy"]}]}
    task = Task("gis/x", "gis", "A", "?", 1, (), tuple(raw["evaluate"]))
    assert check(task, {}, StopReason.ANS, "ivy") and not check(task, {}, StopReason.ANS, "Ivy Oak")


def test_the_goal_is_what_is_asked_for_in_any_order():
    first = Task("gis/a", "gis", "A", "one", 3, (), tuple(WHOLE["evaluate"]))
    second = Task("gis/b", "gis", "B", "two", 5, (), tuple(WHOLE["evaluate"][::-1]))
    assert first.goal == second.goal
    assert first.goal != Task("astron/a", "astron", "A", "one", 3, (), tuple(WHOLE["evaluate"])).goal


# -- the tasks that the kit comes with ---------------------------------------------------------------------


@pytest.fixture(scope="module", params=ALL_APPS)
def tasks(request) -> tuple[str, list[Task]]:
    """Give an application and its test tasks."""
    return request.param, test_tasks(request.param)


def test_every_task_is_solved_by_its_script_and_not_by_doing_nothing(tasks):
    app, test = tasks
    env = ScienceDesk(app)
    assert [task.id for task in test if not solve(env, task)] == []
    assert [task.id for task in test if idle(env, task)] == []


def test_no_task_is_there_twice(tasks):
    _, test = tasks
    for what in ("id", "instruction", "goal"):
        assert [value for value, n in Counter(getattr(task, what) for task in test).items() if n > 1] == []


def test_grades_and_step_limits(tasks):
    app, test = tasks
    assert {task.grade for task in test} == set(GRADES)
    for task in test:
        assert task.app == app and task.id.startswith(f"{app}/")
        assert len(task.solution) < task.steps, task.id
        stops = [item["value"] for item in task.evaluate if item["type"] == "stop"]
        assert (task.ans is not None) == ("ANS" in stops), task.id


@pytest.mark.parametrize("pred", ["contains", "excludes", "at_least", "before", "has_row", "equals"])
def test_what_cannot_be_said_of_a_value_does_not_hold(pred):
    for actual in (None, True, 3, 2.5, "text", [], [[]], [3], {}, {"a": 1}):
        for value in (None, True, 3, "x", [1], {"a": 1}, [[]]):
            item = {"type": "state", "key": "k", "pred": pred, "value": value}
            assert holds(item, {"k": actual}) in (True, False) and holds(item, {}) is False


def test_a_file_too_large_to_be_a_task_is_not_read(tmp_path):
    path = write(tmp_path, json.dumps(WHOLE) + " " * 2_000_000)
    with pytest.raises(UserError, match="at most 1000000 bytes"):
        load_task(path)


def test_an_application_without_test_tasks_names_those_that_have_some(tmp_path):
    (tmp_path / "gis").mkdir()
    with pytest.raises(UserError, match="no test tasks for application 'PyMOL'; there are gis$"):
        test_tasks("PyMOL", tmp_path)
