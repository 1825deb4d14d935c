"""The adapter for KAlgebra: drawn goals and the steps to them, walks, and the recipe from end to end."""

from __future__ import annotations

import random

import pandas as pd
import pytest
from app_tests import installed

from coda_lib.base_models.kalgebra import recipe as adapter
from coda_lib.base_models.kalgebra.goals import START, StateGoal, draw_goals, draw_task, draw_text, goal_task, next_step, settings
from coda_lib.base_models.kalgebra.walks import walk
from coda_lib.envs.desktop.kalgebra import KAlgebra
from coda_lib.envs.desktop.kalgebra_scene import scene
from coda_lib.envs.scienceboard.tasks import app_tasks
from coda_lib.envs.sciencedesk.script import action_of
from coda_lib.trajectory import StopReason

here = pytest.mark.skipif(not installed("KAlgebra"), reason="KAlgebra is not installed")
CURVE, OTHER = "x->2*x", "x->x+1"
GOALS = [
    *(goal for goal in settings() if goal.value in ("Dictionary", "Fine", "Lines", "Calculate", False)),
    StateGoal("variable", ("k", 12.0), ("",), "k:=gcd(24, 36)"),
    StateGoal("plots", [CURVE, OTHER], ("",), OTHER),
    StateGoal("surface", "(x,y)->x*y", ("",), "(x,y)->x*y"),
    StateGoal("search", "sinh", ("",), "sinh"),
    StateGoal("plots", [], ("",), about=CURVE),
    StateGoal("shown", [], ("",), about=CURVE),
]


@pytest.fixture(scope="module")
def env():
    made = KAlgebra(fit=adapter.fitted)
    yield made
    made.close()


def pursue(env: KAlgebra, goals: list[StateGoal]) -> int:
    """Take the right steps to goals; returns their number."""
    last, taken = None, 0
    while last := next_step(goals, now := scene(env), last):
        centers = {element.name: element.center for element in now.elements}
        env.step(action_of(last, centers.__getitem__))
        taken += 1
        assert taken <= 20, f"no way to {goals}: {last}"
    return taken


# ---- goals -------------------------------------------------------------------------------------------------------------
def test_what_is_drawn_is_no_task_of_the_test_and_the_same_for_the_same_seed():
    drawn = [draw_task(f"own/{i}", random.Random(i)) for i in range(500)]
    assert drawn == [draw_task(f"own/{i}", random.Random(i)) for i in range(500)]
    instructions = {task.instruction for task in drawn}
    assert len(instructions) > 200 and not instructions & {task.instruction for task in app_tasks("KAlgebra")}
    assert any(" and " in text for text in instructions) and all(draw_text(random.Random(i)).isascii() for i in range(50))


def test_goals_are_drawn_that_do_not_hold_yet():
    for i in range(300):
        goals, _ = draw_goals(START, random.Random(i))
        assert not any(goal.reached(START) for goal in goals)


def test_two_goals_can_be_reached_together():
    plotted = START | {"tab": "2D Graph", "plots": [CURVE], "shown": [CURVE]}
    pairs = {tuple(goal.key for goal in draw_goals(plotted, random.Random(i))[0]) for i in range(2000)}
    assert ("shown", "grid") in pairs and ("shown", "plots") not in pairs


@here
def test_kalgebra_starts_in_the_state_that_goals_expect(env):
    env.reset(goal_task("own", settings()[:1], "Walk about."))
    assert {key: env.snapshot()[key] for key in START if key != "variables"} | {"variables": {}} == START


@here
@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.key} {goal.value}")
def test_the_right_steps_reach_a_goal_within_the_step_limit(env, goal):
    task = goal_task("own", [goal], "Do it.", [CURVE])
    env.reset(task)
    assert not env.check(StopReason.DONE)
    assert 0 < pursue(env, [goal]) <= task.steps
    assert env.check(StopReason.DONE)


@here
def test_goals_are_reached_after_something_else_was_begun(env):
    env.reset(goal_task("own", settings()[:1], "Walk about.", [CURVE]))
    begun = {element.name: element.center for element in scene(env).elements}
    env.step(action_of({"double": CURVE}, begun.__getitem__))  # it is now being edited
    env.step(action_of({"click": "2D Graph menu"}, begun.__getitem__))
    assert scene(env).menu == "2D Graph menu" and scene(env).shows("Zoom In")
    goals = [StateGoal("plots", [CURVE, OTHER], ("",), OTHER), StateGoal("style", "Dots", ("",))]
    pursue(env, goals)
    assert all(goal.reached(env.snapshot()) for goal in goals)


# ---- walks and recipe --------------------------------------------------------------------------------------------------
@here
def test_a_walk_holds_screens_and_right_decisions(env):
    walked = walk(env, random.Random(1), 12)
    assert len(walked.transitions) == 12 and len(walked.decisions) >= 10
    for transition in walked.transitions:
        assert all(0 <= e.center[0] <= 1 and 0 <= e.center[1] <= 1 for e in transition.elements)
    for decision in walked.decisions:
        assert decision.instruction.endswith(".") and all(past.walk == 1 for past in decision.history)


@here
def test_the_recipe_runs_from_walks_to_figures_and_goes_on_where_it_was(tmp_path, monkeypatch):
    small = adapter.AdapterRecipe(walks=2, walk=6, test_walk=4, vision=2, executor=2, planner=2, samples=4, goals=2)
    figures = adapter.adapt(tmp_path, small)
    assert figures["agent"]["goals"] == 2 and 0 <= figures["executor"]["click_inside"] <= 1
    monkeypatch.setattr(adapter, "train_language", None)
    assert adapter.adapt(tmp_path, small) == figures
    monkeypatch.setattr(adapter, "COMMITTED", published := tmp_path / "published")
    adapter.publish(tmp_path, figures, small)
    assert "KAlgebra" in (published / "planner" / "README.md").read_text()
    assert len(pd.read_parquet(published / "goals.parquet")) == 2


def test_a_goal_at_which_the_application_broke_is_counted_apart(tmp_path):
    table = pd.DataFrame({"success": [True, False, True, None], "in_training": [True, False, False, False]})
    table.to_parquet(tmp_path / adapter.GOALS)
    measured = adapter.reach_goals(tmp_path, [], adapter.AdapterRecipe())
    assert (measured["goals"], measured["reached"], measured["broken"]) == (3, 2, 1)
    assert measured["low"] < measured["share_reached"] == 0.6667 < measured["high"]
    assert (measured["never_asked_in_training"], measured["of_these_reached"]) == (2, 1)
