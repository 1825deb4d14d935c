"""KAlgebra on a display of its own: its tasks, ScienceBoard's own files, resets and faults."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import psutil
import pytest
from app_tests import (
    check_drawn,
    check_perturbed,
    check_refused,
    check_task,
    check_tasks,
    installed,
    parametrized,
    play_script,
)

from coda_lib.action import Action
from coda_lib.environment import EnvironmentFault
from coda_lib.task import test_tasks
from coda_lib.trajectory import StopReason
from sciencedesk.board.tasks import app_tasks
from sciencedesk.perturb import walk
from sciencedesk.real.kalgebra import KAlgebra, calculate, question

pytestmark = pytest.mark.skipif(not installed("KAlgebra"), reason="KAlgebra is not installed")
TASKS = {task.id.rpartition("/")[2]: task for task in app_tasks("KAlgebra")}
INPUT = Action.click(150 / 640, 430 / 480)


@pytest.fixture(scope="module")
def env():
    made = KAlgebra()
    yield made
    made.close()


def test_there_are_enough_tasks():
    check_tasks("KAlgebra")


@pytest.mark.slow
def test_drawn_tasks_are_solved_by_their_scripts_and_not_by_doing_nothing(env):
    check_drawn(env)


@pytest.mark.slow
def test_perturbed_runs_are_solved_in_their_windows_and_leave_no_trace(env):
    check_perturbed(env, TASKS["A-01"])


def test_a_tab_whose_middle_lies_beside_a_button_that_scrolls_is_scrolled_to(env):
    """A click there is the button's."""
    task = next(t for t in test_tasks("KAlgebra") if t.solution[0] == {"click": "3D Graph"})
    settings = {"func": "set", "key": "tab", "value": "Calculator"}
    start = replace(task, initialize=(settings,), view={"window": [2, 1, 605, 441], "desktop": "#5b7a5b"})
    steps = [step for step, _ in walk(env, start)]
    assert steps[0] == {"click": "Scroll Right"} and env.check(StopReason.DONE)


@parametrized("KAlgebra")
def test_a_task_is_solved_by_its_script_and_not_by_doing_nothing(env, task):
    check_task(env, task)


def test_another_way_to_the_goal_counts(env):
    env.reset(TASKS["C-01"])
    for action in (Action.click(490 / 640, 60 / 480), Action.type_text("x->(diff(x^3-3*x:x))(x)\n")):
        env.step(action)
    assert env.check(StopReason.STEP_LIMIT)


def test_a_reset_brings_everything_back(env):
    env.reset(TASKS["A-02"])
    first = env.snapshot()
    play_script(env, TASKS["D-03"])
    assert env.snapshot() != first
    env.reset(TASKS["A-02"])
    assert env.snapshot() == first


def test_resets_leave_nothing_open(env):
    env.reset(TASKS["A-02"])
    before = psutil.Process().num_fds()
    for _ in range(3):
        env.reset(TASKS["A-02"])
    assert psutil.Process().num_fds() == before


def test_the_picture_shows_what_was_done(env):
    before, _ = env.reset(TASKS["A-01"])
    env.step(INPUT)
    after, *_ = env.step(Action.type_text("2+2\n"))
    assert before.shape == after.shape == (480, 640, 3) and np.any(before != after)
    assert env.snapshot()["console"] == [("2+2", "4")]


def test_complex_numbers_are_whole(env):
    env.reset(TASKS["A-01"])
    env.step(INPUT)
    env.step(Action.type_text("p:=conjugate(1+i)\n"))
    with env.awake():
        assert env.variables()["p"] == "1+-i" and env.variables()["pi"].startswith("3.14159")


def test_pages_that_fill_the_screen_are_read_as_well(env):
    env.reset(TASKS["A-02"])
    env.step(Action.click(335 / 640, 37 / 480))  # 'Full Screen'
    assert env.snapshot()["tab"] == "Calculator"
    env.step(Action.click(222 / 640, 15 / 480))
    assert env.check(StopReason.DONE), env.now()


def test_what_cannot_be_typed_is_nothing_done(env):
    check_refused(env, TASKS["A-01"])


def test_a_crash_is_a_fault_and_the_next_episode_begins_anew(env):
    env.reset(TASKS["A-01"])
    os.kill(env.pid, signal.SIGSEGV)
    with pytest.raises(EnvironmentFault, match="crashed|gone"):
        for _ in range(20):
            env.step(INPUT)
    check_task(env, TASKS["A-01"])


def test_an_agent_that_closes_the_application_has_failed(env):
    env.reset(TASKS["B-01"])
    for _ in range(5):
        env.step(Action.hotkey("ctrl q"))
    assert env.closed and not env.check(StopReason.DONE)
    check_task(env, TASKS["B-01"])


@pytest.mark.parametrize(
    "plot, point, asked",
    [
        ("x->x^2", (3, 9), ("(x->x^2)(3)", 9)),
        ("x^2", (3, 9), ("(x->x^2)(3)", 9)),
        ("y->y^2", (9, 3), ("(y->y^2)(3)", 9)),
        ("q->6*sin(3*q)", (1, 2), ("(q->6*sin(3*q))(1)", 2)),
        ("x^2+y^2=9", (3, 0), ("((x, y)->(x^2+y^2)-(9))(3, 0)", 0.0)),
        ("(x, y)->x*y", (2, 3, 6), ("((x, y)->x*y)(2, 3)", 6)),
        ("x*y", (2, 3, 6), ("((x, y)->x*y)(2, 3)", 6)),
        ("x^2+y^2+z^2=8", (0, 2, 2), ("((x, y, z)->(x^2+y^2+z^2)-(8))(0, 2, 2)", 0.0)),
        ("x^2-y^2=2", (3, 1, 6), ("((x, y, z)->(x^2-y^2)-(2))(3, 1, 6)", 6)),
    ],
)
def test_whether_a_plot_goes_through_a_point_is_asked_of_the_calculator(plot, point, asked):
    assert question(plot, point) == asked
    assert float(calculate([asked[0]])[0]) == pytest.approx(asked[1]) or plot.startswith("q")


def test_the_calculator_answers_line_by_line():
    assert calculate(["r:=a->q->a*q", "1+", "(q->(r(2))(q))(4)", "conjugate(1+i)"])[2:] == ["8", "1+-i"]
    assert "Error" in calculate(["1+"])[0]
    assert calculate(["sum(k:k=1..1000000000)"]) == [""]


def test_every_printable_character_arrives_as_it_was_typed(env):
    env.reset(TASKS["A-04"])
    text = "".join(map(chr, range(33, 127)))
    env.step(Action.click(500 / 640, 84 / 480))
    env.step(Action.type_text(text))
    assert env.snapshot()["search"] == text


def test_pictures_are_given_out_at_the_size_at_which_models_see_them():
    env = KAlgebra(fit=lambda size: (size[0] // 2, size[1] // 2))
    seen, _ = env.reset(TASKS["A-02"])
    assert seen.shape == env.observation_space.shape == env.render().shape == (240, 320, 3)
    assert play_script(env, TASKS["A-02"]).stop == StopReason.DONE and env.check(StopReason.DONE)
    env.close()
