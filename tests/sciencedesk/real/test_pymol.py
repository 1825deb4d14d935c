"""PyMOL on a display of its own: its tasks, what its state tells, resets and faults."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from xmlrpc.client import ProtocolError, ServerProxy

import numpy as np
import pandas as pd
import pytest
from app_tests import (
    check_drawn,
    check_perturbed,
    check_refused,
    check_task,
    check_tasks,
    installed,
    parametrized,
)

from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.grammar import parse_actions
from coda_lib.trajectory import StopReason
from sciencedesk.board.files import BoardTask
from sciencedesk.board.tasks import app_tasks
from sciencedesk.real.pymol import PyMOL, ToDisplay

pytestmark = pytest.mark.skipif(not installed("PyMOL"), reason="PyMOL is not installed")
TASKS = {task.id.rpartition("/")[2]: task for task in app_tasks("PyMOL")}


@pytest.fixture(scope="module")
def env():
    made = PyMOL()
    yield made
    made.close()


def act(env: PyMOL, *lines: str) -> np.ndarray:
    for line in lines:
        picture, *_ = env.step(parse_actions(line, env.size)[0])
    return picture


def command(text: str) -> str:
    return f"type(content='{text}\\n')"


def beginning(*items: dict):
    """A task that begins with these."""
    board = TASKS["A-04"].board
    return replace(TASKS["A-04"], board=BoardTask.model_validate(board.model_dump() | {"initialize": items}))


def test_there_are_enough_tasks():
    check_tasks("PyMOL")


@pytest.mark.slow
def test_drawn_tasks_are_solved_by_their_scripts_and_not_by_doing_nothing(env):
    check_drawn(env)


@pytest.mark.slow
def test_perturbed_runs_are_solved_in_their_windows_and_leave_no_trace(env):
    check_perturbed(env, TASKS["A-01"])


@parametrized("PyMOL")
def test_a_task_is_solved_by_its_script_and_not_by_doing_nothing(env, task):
    check_task(env, task)


@pytest.mark.parametrize(
    "name, lines",
    [
        ("A-01", [command("show spheres, pept")]),
        (
            "A-02",
            ["click(start_box='(209,10)')", "click(start_box='(70,280)')", "click(start_box='(260,332)')"],
        ),
        ("A-05", [command("disable ligand")]),
        ("B-01", [command("color 0xff0000, pept")]),
        ("B-02", [command("hide everything"), command("show surface")]),
        ("C-03", [command("show surface"), command("set transparency, 0.5, pept")]),
        ("C-07", [command("distance hb, pept, pept, mode=2")]),
        (
            "D-04",
            [
                command(line)
                for line in ("create inhibitor, organic", "remove solvent|1hpv&organic", "scene F1, store")
            ],
        ),
    ],
)
def test_another_way_to_the_goal_counts(env, name, lines):
    env.reset(TASKS[name])
    act(env, *lines)
    assert env.check(StopReason.DONE), env.snapshot()["objects"]


@pytest.mark.parametrize(
    "name, lines",
    [
        ("A-05", [command("disable all")]),
        ("B-02", [command("show surface")]),
        ("C-01", [command("select acidic, resn ASP")]),
        ("C-02", [command("show spheres")]),
        ("C-06", [command("remove elem H+C")]),
    ],
)
def test_a_part_of_the_goal_or_more_than_it_does_not_count(env, name, lines):
    env.reset(TASKS[name])
    act(env, *lines)
    assert not env.check(StopReason.DONE)


def test_the_state_tells_what_is_measured_selected_and_set(env):
    items = [
        {"func": "call", "name": "fab", "args": ["ACDEFG"], "kwargs": {"name": "pep"}},
        {"func": "call", "name": "angle", "args": ["bend", "pep///1/CA", "pep///3/CA", "pep///6/CA"]},
        {
            "func": "call",
            "name": "dihedral",
            "args": ["side", "pep///3/N", "pep///3/CA", "pep///3/C", "pep///3/CB"],
        },
        {"func": "call", "name": "select", "args": ["ring", "resn PHE"]},
        {"func": "call", "name": "set", "args": ["sphere_color", "red", "pep"]},
    ]
    env.reset(beginning(*items))
    state = env.snapshot()
    assert state["measurements"]["bend"]["angles"] == pytest.approx([174.190], abs=1e-3)
    assert state["measurements"]["side"]["dihedrals"] == pytest.approx([-123.391], abs=1e-3)
    assert state["selections"] == {"ring": 20} and {a["resn"] for a in state["atoms"] if a["selections"]} == {
        "PHE"
    }
    assert (
        state["objects"]["pep"]["settings"] == {"sphere_color": "#ff0000"}
        and state["settings"]["sphere_color"] is None
    )
    assert state["objects"]["pep"]["atoms"] == len(state["atoms"]) == 75


def test_a_click_into_the_picture_shows_what_it_selects(env):
    before, _ = env.reset(beginning({"func": "call", "name": "fab", "args": ["ACDEFG", "pep"]}))
    after = act(env, "click(start_box='(290,239)')")
    assert env.snapshot()["active"] == ["sele"] and np.any(before[133:] != after[133:])
    assert np.any(before[30:90, :360] != after[30:90, :360])  # what it says about that in its console


@pytest.mark.parametrize(
    "lines",
    [
        [
            command("set_view [0,1,0,1,0,0,0,0,-1,0,0,-90,1,2,3,40,100,20]"),
            command("set seq_view"),
            command("bg_color white"),
        ],
        [
            command("fab ACDE"),
            "click(start_box='(290,239)')",
            command("save a.pdb"),
            command("mset 1 x30"),
            command("mplay"),
        ],
        ["click(start_box='(631,142)')", "click(start_box='(590,290)')"],
        ["right_single(start_box='(200,300)')", "hover(start_box='(590,290)')"],
        ["click(start_box='(270,10)')"],
        [
            "click(start_box='(329,10)')",
            "click(start_box='(350,275)')",
            "click(start_box='(527,193)')",
            command("cd /tmp"),
        ],
        ["click(start_box='(425,104)')", command("set internal_gui, 0")],
        ["hotkey(key='ctrl o')", "type(content='half a name')"],
        ["click(start_box='(440,10)')", "click(start_box='(480,53)')", "hover(start_box='(590,104)')"],
        [command("full_screen"), "click(start_box='(60,300)')"],
        [command("alias white, bg_color white"), command("set_key F1, white"), "type(content='not ente')"],
        [command("disable all"), command("window hide")],
    ],
)
def test_a_reset_brings_everything_back(env, lines):
    first, _ = env.reset(TASKS["C-03"])
    state = env.snapshot()
    act(env, *lines)
    again, _ = env.reset(TASKS["C-03"])
    assert env.snapshot() == state
    assert np.array_equal(first, again)


@pytest.mark.parametrize(
    "item",
    [
        {"func": "call", "name": "load", "args": ["/etc/passwd"]},
        {"func": "call", "name": "do", "args": ["quit"]},
        {"func": "call", "name": "example", "args": ["../../../etc/passwd"]},
        {"func": "call", "name": "fragment", "args": ["../../../../../../tmp/evil"]},
        {"func": "call", "name": "set", "args": ["light", "(lambda: open('/tmp/evil', 'w'))()"]},
        {"func": "call", "name": "show", "args": ["no such way"]},
        {"func": "call", "name": "zoom", "kwargs": {"no_such": 1}},
        {"func": "touch", "path": "/etc/passwd"},
        {"func": "tab", "index": 1},
    ],
)
def test_a_task_may_not_begin_with_anything_else(env, item):
    with pytest.raises(UserError, match="PyMOL/A-04"):
        env.reset(beginning(item))


def test_a_task_may_begin_with_a_file(env):
    env.reset(beginning({"func": "touch", "path": "/home/user/ion.xyz", "text": "1\nsodium\nNa 0 0 0\n"}))
    assert env.snapshot()["files"] == ["ion.xyz"]
    act(env, command("load ion.xyz"))
    assert [atom["elem"] for atom in env.snapshot()["atoms"]] == ["Na"]


def test_what_cannot_be_typed_is_nothing_done(env):
    check_refused(env, TASKS["A-01"])


def test_a_crash_is_a_fault_and_the_next_episode_begins_anew(env):
    env.reset(TASKS["A-01"])
    os.kill(env.pid, signal.SIGSEGV)
    with pytest.raises(EnvironmentFault, match="crashed|gone|answer"):
        for _ in range(20):
            act(env, command("bg_color red"))
    check_task(env, TASKS["A-02"])


@pytest.mark.parametrize(
    "lines", [[command("quit")], ["click(start_box='(20,10)')", "hotkey(key='up')", "hotkey(key='enter')"]]
)
def test_an_agent_that_closes_the_application_has_failed(env, lines):
    env.reset(TASKS["A-02"])
    act(env, command("bg_color white"), *lines)
    assert env.closed and not env.check(StopReason.DONE) and env.now() == {}
    act(env, command("bg_color white"))
    check_task(env, TASKS["A-02"])


def test_two_at_a_time_do_not_see_each_other(env):
    other = PyMOL()
    try:
        env.reset(TASKS["A-01"])
        other.reset(TASKS["A-04"])
        act(other, command("fab GAVLIMF, hydrophobic"))
        act(env, command("show spheres"))
        assert other.check(StopReason.DONE) and env.check(StopReason.DONE)
        assert set(env.snapshot()["objects"]) == {"pept"} and set(other.snapshot()["objects"]) == {
            "hydrophobic"
        }
    finally:
        other.close()


def test_who_does_not_know_the_secret_is_not_answered(env):
    env.reset(TASKS["A-01"])
    (port,) = env.display.listening(env.pid)
    for path in ("", "RPC2", "guess"):
        with env.awake(), pytest.raises(ProtocolError, match="404"):
            ServerProxy(f"http://127.0.0.1/{path}", ToDisplay(env.display, port)).state()


@pytest.mark.parametrize("item", [{"key": "#SIZE", "value": 1}, {"key": [[0, 0]], "value": {"(0, 0)": True}}])
def test_what_only_others_answer_is_said(env, item):
    task = TASKS["A-01"]
    evaluate = BoardTask.model_validate(
        task.board.model_dump() | {"evaluate": [{"type": "eqn", **item}]}
    ).evaluate
    env.reset(replace(task, board=task.board.model_copy(update={"evaluate": evaluate})))
    with pytest.raises(UserError, match="PyMOL answers no eqn items"):
        env.check(StopReason.DONE)


def test_the_commands_play_its_drawn_tasks_at_the_size_that_models_see(coda, tmp_path):
    code, shown, _ = coda("episode", "PyMOL/A-01", "--save", str(tmp_path / "steps.png"))
    assert code == 0 and shown.startswith("PyMOL/A-01: ") and (tmp_path / "steps.png").is_file()
    draw = "tasks draw --app PyMOL --region development --count 1 --seed 3".split()
    assert coda(*draw, "--save", f"{tmp_path}/drawn.json")[0] == 0
    code, shown, _ = coda(
        *f"evaluate --tasks {tmp_path}/drawn.json --runs 1 --save {tmp_path}/episodes.parquet --json".split()
    )
    assert code == 0 and json.loads(shown)["results"][0]["app"] == "PyMOL"
    assert list(pd.read_parquet(tmp_path / "episodes.parquet")["success"]) == [
        False
    ]  # the laptop's models do not know PyMOL
