"""What holds for the tasks of every real application."""

from __future__ import annotations

import numpy as np
import pytest

from coda_lib.action import Action
from coda_lib.app_checks import replay
from coda_lib.app_tasks import app_tasks, solution
from coda_lib.envs.apps import app_class
from coda_lib.envs.apps.app import App
from coda_lib.envs.display import lacking
from coda_lib.errors import UserError
from coda_lib.task import GRADES
from coda_lib.trajectory import StopReason

LEAST = 12  # tasks of an application


def installed(kind: str) -> bool:
    try:
        app_class(kind)()
    except UserError:
        return False
    return not lacking()


def check_tasks(kind: str) -> None:
    """Enough tasks, in all grades, each with a script that fits its limit."""
    tasks = app_tasks(kind)
    assert len(tasks) >= LEAST and {task.grade for task in tasks} == set(GRADES)
    assert len({task.instruction for task in tasks}) == len(tasks)
    for task in tasks:
        assert task.board.type == kind and task.board.sort == "Display"
        assert 0 < len(solution(task, (640, 480))) <= task.steps, task.id


def check_task(env: App, task) -> None:
    """Doing nothing fails, however the episode ends; the script solves it."""
    env.reset(task)
    assert not any(env.check(stop, None) for stop in StopReason), f"{task.id}: solved by doing nothing"
    stop, answer = replay(env, task)
    assert env.check(stop, answer), f"{task.id}: not solved by its script: {env.now()}"


def check_refused(env: App, task) -> None:
    """Text that nobody can type is no action: the picture stands, the episode goes on."""
    before, _ = env.reset(task)
    after, _, ended, _, info = env.step(Action.type_text("naïve"))
    assert info["refused"] and not ended
    assert np.array_equal(after, before)
    check_task(env, task)


def parametrized(kind: str):
    return pytest.mark.parametrize("task", app_tasks(kind), ids=lambda task: task.id)
