"""ScienceDesk as a Gymnasium environment: Gymnasium's own check, tasks by seed, and the reward of a solved
task.
"""

from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from coda_lib.action import Action
from coda_lib.applications import ALL_APPS, APPS
from coda_lib.errors import UserError
from coda_lib.task import test_tasks
from sciencedesk.adapters.gym import ID, TEST_SET
from sciencedesk.script import to_action


@pytest.fixture
def make():
    made = []

    def make(*words, **options):
        made.append(gymnasium.make(*words, **options))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.mark.parametrize("app", ALL_APPS)
def test_gymnasiums_own_check_passes_without_a_warning(make, app):
    env = make(ID, app=app, region="train" if app in APPS else TEST_SET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_the_id_can_be_made_with_the_module_in_front():
    make = "gymnasium.make('sciencedesk.adapters.gym:coda/ScienceDesk-v0', app='gis')"
    code = f"import gymnasium; print({make}.reset(seed=1)[1]['task'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gis/")


def test_a_seed_draws_its_task_and_the_regions_share_none(make):
    train, held_out = make(ID, app="gis"), make(ID, app="gis", region="test")
    drawn = [env.reset(seed=seed)[0]["instruction"] for env in (train, train, held_out) for seed in range(6)]
    assert drawn[:6] == drawn[6:12] and len(set(drawn[:6])) == 6
    assert not set(drawn[:6]) & set(drawn[12:])
    assert train.reset(seed=3)[0]["instruction"] == drawn[3]
    assert train.reset()[0]["instruction"] == train.unwrapped.task.instruction != drawn[3]


def test_the_reward_is_1_for_a_solved_task_and_0_otherwise(make):
    env = make(ID, app="gis", region=TEST_SET, render_mode="rgb_array")
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
    for options, fault in (({"app": "chess"}, "unknown application"), ({"app": "gis", "region": "x"}, "unknown region"),
                           ({"app": "spectra"}, "has no task space")):  # fmt: skip
        with pytest.raises(UserError, match=fault):
            make(ID, **options)
    with pytest.raises(UserError, match="unknown task"):
        make(ID, app="gis").reset(options={"task": "gis/Z-99"})
