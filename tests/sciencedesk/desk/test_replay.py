"""Episodes that are drawn again from their actions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coda_lib.action import Action
from coda_lib.agent import ScriptAgent
from coda_lib.applications import ALL_APPS
from coda_lib.errors import UserError
from coda_lib.rollout import jobs, rollout
from coda_lib.task import test_tasks as tasks_of
from coda_lib.trajectory import DIGEST, StopReason, load_trajectories, save_trajectories
from coda_study.evaluation.replay import Replay, replayed, without_screens
from sciencedesk.env import ScienceDesk
from sciencedesk.script import read_step, to_action


def played(app: str, count: int) -> tuple[dict, list]:
    tasks = tasks_of(app)[:count]
    agent = ScriptAgent({task.instruction: task.solution for task in tasks}, read_step)
    return {task.id: task for task in tasks}, rollout(
        agent, jobs(tasks, 1), lambda: ScienceDesk(app), seed=1, concurrency=3
    )


@pytest.mark.parametrize("app", ALL_APPS)
def test_screens_and_outcomes_come_back_from_actions_whatever_was_played_before(app, tmp_path) -> None:
    tasks, episodes = played(app, 12)
    save_trajectories(path := tmp_path / "kept.parquet", [without_screens(episode) for episode in episodes])
    assert path.stat().st_size < 25_000
    with pytest.raises(UserError, match="kept.parquet has no screenshots, but their digests"):
        load_trajectories(path)
    kept, count = load_trajectories(path, screens=False), Replay()
    assert {len(step.screenshot) for episode in kept for step in episode.steps} == {DIGEST}
    assert replayed(kept[::-1], app, tasks, count)[::-1] == episodes  # in one window, in another order
    screens = sum(len(episode.steps) + 1 for episode in episodes)
    assert count == Replay(len(episodes), len(episodes), screens, screens, 0) and count.exact


def test_what_differs_is_counted() -> None:
    tasks, (episode, other, broken) = played("algebra", 3)
    first = without_screens(episode)
    wrong = replace(first, final_screenshot=bytes(DIGEST), success=not episode.success)
    changed = replace(tasks[other.task_id], instruction="something else")
    count, kept = (
        Replay(),
        [wrong, without_screens(other), replace(without_screens(broken), stop=StopReason.ENVIRONMENT_ERROR)],
    )
    (back,) = replayed(kept, "algebra", tasks | {other.task_id: changed}, count)
    assert back == replace(episode, success=not episode.success)
    screens = len(episode.steps) + 1
    assert count == Replay(1, 0, screens, screens - 1, 2) and not count.exact
    assert str(count).endswith("0 outcomes are the same; 2 episodes left out")


def test_a_field_looks_the_same_in_a_window_that_was_typed_in_before() -> None:
    desk = ScienceDesk("astron").desk

    def dialog() -> np.ndarray:
        desk.reset({})
        for name in ("Time", "Set date"):
            desk.perform(to_action(desk, {"click": name}))
        return desk.screenshot()

    fresh = dialog()
    desk.perform(Action.type_text("2005"))
    assert np.array_equal(dialog(), fresh)
