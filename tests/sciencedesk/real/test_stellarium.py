"""Stellarium on a display of its own: its tasks, resets, faults, and that it costs nothing between steps."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import httpx
import numpy as np
import psutil
import pytest
from app_tests import check_refused, check_task, check_tasks, installed, parametrized

from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.grammar import parse_actions
from coda_lib.trajectory import StopReason
from sciencedesk.board.files import Call
from sciencedesk.board.tasks import app_tasks
from sciencedesk.real.connection import Transport
from sciencedesk.real.stellarium import Stellarium

pytestmark = [
    pytest.mark.apps,
    pytest.mark.skipif(not installed("Stellarium"), reason="Stellarium is not installed"),
]
TASKS = {task.id.rpartition("/")[2]: task for task in app_tasks("Stellarium")}
SERVER_BUTTON = "click(start_box='(487,459)')"  # switches off what the state is read from


@pytest.fixture(scope="module")
def env():
    made = Stellarium()
    yield made
    made.close()


def do(env: Stellarium, *lines: str) -> np.ndarray:
    for line in lines:
        for action in parse_actions(line, env.size):
            seen, *_ = env.step(action)
    return seen


def state(env: Stellarium) -> dict:
    env.display.thaw(env.pid)
    return env.state()


def calls(task, *made: Call):
    return replace(task, board=task.board.model_copy(update={"initialize": list(made)}))


def test_there_are_enough_tasks():
    check_tasks("Stellarium")


@parametrized("Stellarium")
def test_a_task_is_solved_by_its_script_and_not_by_doing_nothing(env, task):
    check_task(env, task)


@pytest.mark.parametrize(
    "name, lines",
    [
        ("A-01", ["hotkey(key='c')"]),
        ("B-01", ["click(start_box='(36,192)')", r"type(content='jupiter\n')"]),
        ("B-04", ["hotkey(key='ctrl =')", "hotkey(key='ctrl =')"]),
        ("C-02", ["hotkey(key=',')", "hotkey(key=';')"]),
    ],
)
def test_another_way_to_the_goal_counts(env, name, lines):
    env.reset(TASKS[name])
    do(env, *lines)
    assert env.check(StopReason.DONE) and not env.check(StopReason.FAIL)


def test_a_reset_brings_everything_back(env):
    before, _ = env.reset(TASKS["A-01"])
    first = state(env)
    pid = env.pid
    do(env, "hotkey(key='c')", "hotkey(key='e')", "hotkey(key='ctrl m')", "hotkey(key='g')",
       "hotkey(key='f3')",
       r"type(content='Saturn\n')", "scroll(start_box='(400,200)', direction='up')", "hotkey(key='l')",
       "hotkey(key='f5')",
       "drag(start_box='(400,100)', end_box='(300,150)')", "hotkey(key='f6')")  # fmt: skip
    assert state(env)["selection"]["name"] == "Saturn" and state(env)["dialogs"]
    after, _ = env.reset(TASKS["A-01"])
    assert state(env) == first and env.pid == pid
    assert np.abs(before.astype(int) - after).max() <= 2  # a fade may be at its last shade


def test_a_dialog_that_was_moved_is_back_in_its_place(env):
    env.reset(TASKS["A-01"])
    first, pid = do(env, "hotkey(key='f5')"), env.pid
    moved = do(env, "drag(start_box='(330,188)', end_box='(350,60)')")
    env.reset(TASKS["A-01"])
    again = do(env, "hotkey(key='f5')")
    assert env.pid != pid and np.mean(again != first) < 0.06 < 0.2 < np.mean(moved != first)


def test_it_costs_nothing_between_steps(env):
    env.reset(TASKS["A-01"])
    env.check(StopReason.DONE)
    process = psutil.Process(env.pid)
    before = process.cpu_times()
    time.sleep(1)
    assert process.cpu_times() == before


def test_nobody_is_answered_without_the_password(env):
    env.reset(TASKS["A-01"])
    env.display.thaw(env.pid)
    stranger = httpx.Client(base_url=env.client.base_url, transport=Transport(env.display, 5))
    reply = stranger.post("scripts/direct", data={"code": "core.quitStellarium();"})
    assert reply.status_code == httpx.codes.UNAUTHORIZED


@pytest.mark.parametrize(
    "call",
    [
        Call(func="call", name="quit"),
        Call(func="call", name="fov", args=["wide"]),
        Call(func="call", name="fov"),
        Call(func="call", name="set", args=["RemoteControl.enabled", False]),
        Call(func="call", name="set", args=["sky_culture", "nobody's"]),
        Call(func="call", name="select", args=["Nowhere 9"]),
        Call(func="call", name="time", args=["tomorrow"]),
    ],
)
def test_what_a_task_may_not_call_is_refused(env, call):
    with pytest.raises(UserError, match=f"A-01: initialize: .*{call.name}"):
        env.reset(calls(TASKS["A-01"], call))


def test_what_a_task_calls_is_done(env):
    made = [("location", [-33.9, 18.4]), ("time", ["2025-06-01T20:30:00"]),
            ("set", ["constellation_art", True]),
            ("select", ["Antares"]), ("view", [90, 40]), ("fov", [20])]  # fmt: skip
    env.reset(calls(TASKS["A-01"], *(Call(func="call", name=name, args=args) for name, args in made)))
    found = state(env)
    assert (
        found["utc"].startswith("2025-06-01T20:30:00") and found["rate"] == 0 and found["constellation_art"]
    )
    assert found["location"]["latitude"] == pytest.approx(-33.9) and found["selection"]["name"] == "Antares"
    assert found["fov"] == pytest.approx(20) and found["view"]["azimuth"] == pytest.approx(90, abs=0.1)


def test_what_cannot_be_typed_is_nothing_done(env):
    check_refused(env, TASKS["A-01"])


def test_a_crash_is_a_fault_and_the_next_episode_begins_anew(env):
    env.reset(TASKS["A-01"])
    os.kill(env.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentFault, match="crashed"):
        do(env, "hotkey(key='c')")
    check_task(env, TASKS["A-01"])


def test_an_agent_that_closes_the_application_has_failed(env):
    env.reset(TASKS["A-01"])
    do(env, "hotkey(key='c')", "hotkey(key='ctrl q')")
    assert env.closed and not env.check(StopReason.DONE)
    check_task(env, TASKS["A-01"])


def test_an_agent_that_switches_the_server_off_has_failed(env):
    env.reset(TASKS["A-01"])
    do(env, "hotkey(key='c')", SERVER_BUTTON)
    assert not env.closed and not env.check(StopReason.DONE)
    check_task(env, TASKS["A-01"])
