"""ScienceDesk as a Gymnasium environment: Gymnasium's own check, tasks by seed, and the reward of a solved
task.
"""

from __future__ import annotations

import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from coda_lib.action import Action
from coda_lib.applications import APPLICATIONS
from coda_lib.errors import UserError
from coda_lib.task import test_tasks
from sciencedesk.adapters.gym import TEST_SET
from sciencedesk.script import to_action

GIS = "sciencedesk/GIS-v0"


@pytest.fixture
def make():
    made = []

    def make(*words, **options):
        made.append(gymnasium.make(*words, **options))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda application: application.name)
def test_gymnasiums_own_check_passes_without_a_warning(make, application):
    env = make(f"sciencedesk/{application.label}-v0")
    assert env.unwrapped.app == application.name
    assert env.unwrapped.region == ("train" if application.trained else TEST_SET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_a_seed_draws_its_task_and_the_regions_share_none(make):
    train, held_out = make(GIS), make(GIS, region="test")
    drawn = [env.reset(seed=seed)[0]["instruction"] for env in (train, train, held_out) for seed in range(6)]
    assert drawn[:6] == drawn[6:12] and len(set(drawn[:6])) == 6
    assert not set(drawn[:6]) & set(drawn[12:])
    assert train.reset(seed=3)[0]["instruction"] == drawn[3]
    assert train.reset()[0]["instruction"] == train.unwrapped.task.instruction != drawn[3]


def test_the_reward_is_1_for_a_solved_task_and_0_otherwise(make):
    env = make(GIS, region=TEST_SET, render_mode="rgb_array")
    task = next(task for task in test_tasks("gis") if not task.ans)
    observation, info = env.reset(options={"task": task.id})
    assert info["task"] == task.id and observation["instruction"] == task.instruction
    assert (env.render() == observation["screenshot"]).all()
    for line in task.solution:
        _, reward, terminated, truncated, _ = env.step(to_action(env.unwrapped.desk.desk, line))
        assert (reward, terminated, truncated) == (0.0, False, False)
    assert env.step(Action.done())[1:4] == (1.0, True, False)
    env.reset(options={"task": task.id})
    assert env.step(Action.done())[1:4] == (0.0, True, False)
    env.reset(options={"task": task.id})
    ended = [env.step(Action.wait())[1:4] for _ in range(task.steps)]
    assert ended == [(0.0, False, False)] * (task.steps - 1) + [(0.0, False, True)]


def test_what_cannot_be_played_is_named(make):
    for options, fault in (
        ({"app": "chess"}, "unknown application"),
        ({"region": "x"}, "unknown region"),
        ({"app": "spectra", "region": "train"}, "has no task space"),
    ):
        with pytest.raises(UserError, match=fault):
            make(GIS, **options)
    with pytest.raises(UserError, match="unknown task"):
        make(GIS).reset(options={"task": "gis/Z-99"})
