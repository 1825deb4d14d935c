"""Every human-written goal of every application is solvable by its script, and not by doing nothing."""

from __future__ import annotations

import pytest

from coda_lib.applications import ALL_APPS
from sciencedesk.env import ScienceDesk
from sciencedesk.goals import aims, compose
from sciencedesk.script import idle, solve


@pytest.mark.parametrize("app", ALL_APPS)
def test_each_aim_is_solved_by_its_script_alone(app: str) -> None:
    env = ScienceDesk(app)
    for aim in aims(app):
        task = compose(app, [aim], env.desk.defaults, f"{app}/seed")
        assert solve(env, task), f"{task.instruction} {task.solution} {env.desk.state()}"
        if aim.goal.fact:
            assert str(env.desk.state()[aim.goal.fact]) == str(aim.value), task.instruction
        assert not idle(env, task), task.instruction


@pytest.mark.parametrize("app", ALL_APPS)
def test_visible_names_are_unique(app: str) -> None:
    env = ScienceDesk(app)
    for aim in aims(app):
        task = compose(app, [aim], env.desk.defaults, f"{app}/seed")
        solve(env, task)
        names = [e.name for e in env.desk.elements() if e.role != "value"]
        assert len(names) == len(set(names)), f"{task.instruction}: {names}"
