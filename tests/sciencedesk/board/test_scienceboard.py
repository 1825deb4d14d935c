"""ScienceBoard's task files: what is read, what is refused and how it is said, and what each item asks of a
state.
"""

from __future__ import annotations

import json

import pytest
from board_files import State

from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.trajectory import StopReason
from sciencedesk.board.check import check_board
from sciencedesk.board.costs import LambdaError
from sciencedesk.board.editions import files
from sciencedesk.board.files import BoardTask, load_board_task

TASK = {
    "type": "KAlgebra", "sort": "VM", "steps": 5, "instruction": "Store 2 in a.", "version": "0.1",
    "snapshot": "clean",
    "initialize": [{"func": "launch", "command": ["kalgebra", "«PORTLIKE»"], "wait": 2.5},
                   {"func": "tab", "index": 1}],
    "evaluate": [{"type": "val", "key": "a", "value": 2}],
}  # fmt: skip


def task(*evaluate, **changes):
    return BoardTask.model_validate(TASK | {"evaluate": list(evaluate)} | changes)


def solved(item, stop=StopReason.DONE, answer=None, **known):
    return check_board(task(item), State(**known), stop, answer)


@pytest.mark.parametrize(
    ("item", "known", "expected"),
    [
        ({"type": "val", "key": "a", "value": 2}, {"variables": {"a": "2.0000000001"}}, True),
        ({"type": "val", "key": "a", "value": 2}, {"variables": {"a": "2.1"}}, False),
        ({"type": "val", "key": "a", "value": 2}, {"variables": {}}, False),
        ({"type": "val", "key": "a", "value": 2}, {"variables": {"a": "vector { 1 }"}}, False),
        ({"type": "var", "key": "a", "value": "1+-i"}, {"variables": {"a": "1+-i"}}, True),
        ({"type": "var", "key": "a", "value": "1+-i"}, {"variables": {"a": "1"}}, False),
        ({"type": "var", "key": "pi", "value": "#UNDEF"}, {"variables": {"a": "1"}}, True),
        ({"type": "var", "key": "a", "value": "#UNDEF"}, {"variables": {"a": "1"}}, False),
        ({"type": "eqn", "key": "#SIZE", "value": 0}, {"plots": 0}, True),
        ({"type": "eqn", "key": "#SIZE", "value": 0}, {"plots": 1}, False),
        ({"type": "eqn", "key": [[1, 2]], "value": {"(1, 2)": True, "color": "#000000"}},
         {"functions": [{"(1, 2)": False}, {"(1, 2)": True, "color": "#000000", "res": 1}]}, True),
        ({"type": "eqn", "key": [[1, 2]], "value": {"(1, 2)": True, "color": "#000000"}},
         {"functions": [{"(1, 2)": True, "color": "#ffffff"}, {"(1, 2)": False, "color": "#000000"}]}, False),
        ({"type": "info", "key": "lambda dump: dump['time']", "value": 3}, {"dump": {"time": 3}}, True),
        ({"type": "info", "key": "lambda dump: dump['time']", "value": 3}, {"dump": {}}, False),
        ({"type": "info", "key": "time", "value": 3, "pred": "lambda key, value: key > value"},
         {"dump": {"time": 4}}, True),
        ({"type": "info", "key": "time", "value": 3, "pred": "lambda key, value: key > value"},
         {"dump": {"time": "4"}}, False),
        ({"type": "states", "key": "a.b", "value": 1.5}, {"dump": {"a.b": 1.5}}, True),
        ({"type": "states", "key": "a.b", "value": 1.5}, {"dump": {"a.c": 1.5}}, False),
        ({"type": "states", "key": "a.b", "value": None}, {"dump": {"a.c": 1.5}}, True),
        ({"type": "states", "key": "a.b", "value": None}, {"dump": {"a.b": None}}, False),
        ({"type": "states", "key": "lambda key: key.endswith('.b')", "pattern": "^x"},
         {"dump": {"a.b": "xy"}}, True),
        ({"type": "states", "key": "lambda key: key.endswith('.b')", "pattern": '"n": 1'},
         {"dump": {"a.b": {"n": 1}}}, True),
        ({"type": "states", "find": "lambda key, value: value == 'bonds'", "pattern": "red",
          "key": "lambda key: '.'.join(key.split('.')[:-1] + ['color'])"},
          {"dump": {"m.n": "bonds", "m.color": "red"}}, True),
        ({"type": "states", "find": "lambda key, value: value == 'bonds'", "value": "red",
          "key": "lambda key: key"},
         {"dump": {"m.n": "atoms"}}, False),
        ({"type": "states", "find": "lambda key, value: value == 'bonds'", "value": None,
          "key": "lambda key: key"},
         {"dump": {"m.n": "atoms"}}, True),
        ({"type": "db", "cmd": "r.info", "kwargs": {"map": "m"}, "key": "lambda out: out.strip()",
          "value": "n=1"},
         {"command": {("r.info", "m"): " n=1\n"}}, True),
        ({"type": "db", "cmd": "r.info", "kwargs": {"map": "m"}, "value": "n=1"},
         {"command": {("r.info", "m"): "n=2"}}, False),
        ({"type": "file", "key": "/a", "value": "x"}, {"file": {"/a": "axb"}}, True),
        ({"type": "file", "key": "/a", "value": "x"}, {"file": {"/a": "ab"}}, False),
        ({"type": "file", "key": "/a", "value": "x"}, {"file": {"/a": None}}, False),
        ({"type": "file", "key": "/a", "value": "lambda: 'x' + str(2)"}, {"file": {"/a": "ax2b"}}, True),
    ],
)  # fmt: skip
def test_an_item_holds_in_its_states_and_in_no_others(item, known, expected):
    assert solved(item, **known) is expected


@pytest.mark.parametrize(
    ("lines", "expected"), [(["b", "a"], True), (["a", "b", "a"], True), (["a"], False), ([], False)]
)
def test_chimeraxs_lines_are_compared_as_a_set(lines, expected):
    item = {"type": "info", "key": "residues", "value": ["a", "b"]}
    chimerax = task(item, type="ChimeraX")
    assert check_board(chimerax, State(info={"residues": lines}), StopReason.DONE, None) is expected


@pytest.mark.parametrize(
    ("item", "stop", "answer", "expected"),
    [
        ({"type": "stop", "value": "FAIL"}, StopReason.FAIL, None, True),
        ({"type": "stop", "value": "FAIL"}, StopReason.DONE, None, False),
        ({"type": "stop", "value": "TIMEOUT"}, StopReason.STEP_LIMIT, None, True),
        ({"type": "stop", "value": "ANS", "args": ["4"]}, StopReason.ANS, " 4 ", True),
        ({"type": "stop", "value": "ANS", "args": ["4"]}, StopReason.ANS, "5", False),
        ({"type": "stop", "value": "ANS", "args": ["4"]}, StopReason.DONE, "4", False),
        ({"type": "stop", "value": "ANS", "args": ["Ursa", "Major"]}, StopReason.ANS, "Ursa Major", True),
        ({"type": "stop", "value": "ANS", "args": ["Ursa", "Major"]}, StopReason.ANS, "Ursa", False),
    ],
)
def test_the_end_of_an_episode_is_checked(item, stop, answer, expected):
    assert solved(item, stop, answer) is expected


def test_all_items_must_hold_and_a_fault_is_no_failure():
    both = task({"type": "val", "key": "a", "value": 2}, {"type": "stop", "value": "DONE"})
    known = State(variables={"a": "2"})
    assert check_board(both, known, StopReason.DONE, None) and not check_board(
        both, known, StopReason.FAIL, None
    )
    with pytest.raises(EnvironmentFault):
        check_board(both, State(), StopReason.DONE, None)
    with pytest.raises(LambdaError, match="costs too much"):
        solved(
            {"type": "info", "key": "lambda dump: [a for a in range(9999) for b in range(9999)]", "value": 1},
            dump={},
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "field steps: "),
        ({"type": "Lean"}, "field type: "),
        ({"sort": "Raw"}, "field sort: "),
        ({"extra": 1}, "field extra: "),
        ({"evaluate": []}, "field evaluate: "),
        ({"evaluate": [{"type": "vals", "key": "a", "value": 1}]}, "field evaluate.0: "),
        ({"evaluate": [{"type": "val", "key": "a"}]}, "field evaluate.0.val.value: "),
        ({"evaluate": [{"type": "val", "key": "a", "value": 1, "vlaue": 2}]}, "field evaluate.0.val.vlaue: "),
        ({"evaluate": [{"type": "eqn", "key": [[1, 2], [1, 2, 3]], "value": {}}]}, "points of one dimension"),
        ({"evaluate": [{"type": "eqn", "key": "#SIZE", "value": {}}]}, "value must be a count"),
        ({"evaluate": [{"type": "states", "key": "a"}]}, "give value or pattern"),
        ({"evaluate": [{"type": "states", "key": "a", "pattern": "("}]}, "not a regular expression"),
        ({"evaluate": [{"type": "info", "key": "lambda d: d.__mro__", "value": 1}]},
         "evaluate.0.info.key: not allowed: 'd.__mro__'"),
        ({"evaluate": [{"type": "info", "key": "a", "value": 1, "pred": "open('x')"}]},
         "evaluate.0.info.pred: not a lambda"),
        ({"type": "ChimeraX", "evaluate": [{"type": "info", "key": "residues", "value": "a"}]},
         "the lines that ChimeraX prints"),
        ({"initialize": [{"func": "format"}]}, "field initialize.0: "),
        ({"initialize": [{"func": "tab", "index": 4}]}, "field initialize.0.tab.index: "),
        ({"initialize": [{"func": "launch", "command": "x", "wait": -1}]},
         "field initialize.0.launch.wait: "),
        ({"penalty": "3"}, "field penalty: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_file_and_field(tmp_path, change, message):
    path = tmp_path / "A-01.json"
    path.write_text(json.dumps(TASK | change))
    with pytest.raises(UserError) as caught:
        load_board_task(path)
    assert str(path) in str(caught.value) and message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", '{"a": ' * 9999])
def test_what_is_no_task_file_is_said_to_be_none(tmp_path, text):
    path = tmp_path / "A-01.json"
    path.write_text(text)
    with pytest.raises(UserError, match="A-01.json"):
        load_board_task(path)


def test_the_command_counts_what_can_be_read(coda, tmp_path):
    (tmp_path / "KAlgebra").mkdir()
    for name, change in {
        "A-01": {},
        "A-02": {"steps": 0},
        "B-01": {"evaluate": [{"type": "stop", "value": "DONE"}]},
    }.items():
        (tmp_path / "KAlgebra" / f"{name}.json").write_text(json.dumps(TASK | change))
    code, shown, _ = coda("tasks", "check", str(tmp_path))
    assert code == 1 and "stop 1, val 1" in shown and "2 of 3 task files can be read" in shown
    assert "A-02.json: field steps" in shown
    code, shown, _ = coda("tasks", "check", str(tmp_path), "--json")
    (row,) = json.loads(shown)["tasks"]
    digest = files((tmp_path / "KAlgebra").glob("*.json")).digest
    assert row == {
        "app": "KAlgebra", "tasks": 2, "of": 3, "checks": {"stop": 1, "val": 1},
        "edition": "no edition of ScienceBoard", "sha256": digest,
    }  # fmt: skip
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "here").symlink_to(tmp_path / "KAlgebra")
    (tmp_path / "linked" / "loop").symlink_to(tmp_path / "linked")
    code, shown, _ = coda("tasks", "check", str(tmp_path / "linked"))
    assert code == 1 and "2 of 3 task files can be read" in shown
    (tmp_path / "empty").mkdir()
    code, _, said = coda("tasks", "check", str(tmp_path / "empty"))
    assert code == 2 and "no task files in" in said
