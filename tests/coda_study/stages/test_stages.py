"""The stages of a run with untrained models: what each reads and writes, and the same bytes for the same
seed.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from tiny_models import NO, YES, made_up

from coda_lib.agent import DualAgent, SoloAgent
from coda_lib.config import FleetSettings, Profile, load_profile
from coda_lib.errors import UserError
from coda_lib.judge import Judge, Rule
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.models.local import LocalModel
from coda_lib.task import Task
from coda_lib.task import test_tasks as committed_tasks
from coda_lib.trajectory import Trajectory, load_trajectories, save_trajectories
from coda_study import draws
from coda_study.draws import train_tasks
from coda_study.run import Run
from coda_study.stages import ablations, common, evaluate, explore, generalize, judge, specialize
from sciencedesk.knowledge import kinds_of

pytest_plugins = ("tiny_checkpoints",)

SETTINGS = (
    "apps=[algebra, gis]", "explore.base.tasks=2", "explore.base.runs=2", "explore.specialist.tasks=2",
    "explore.specialist.runs=2", "test_tasks=2", "evaluation_runs=2", "step_limit=2",
    "planner.max_new_tokens=3", "executor.max_new_tokens=3", "judge.max_new_tokens=3", "judge.votes=2",
    "seed=11",
    "specialize.steps=2", "generalize.steps=2",
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, tiny_planner: Path, tiny_executor: Path) -> Run:
    """Give a run of its own, with untrained models and very small numbers."""
    folders = {"planner": tiny_planner, "executor": tiny_executor, "judge": tiny_planner}
    models = [f"models.{role}={folder}" for role, folder in folders.items()]
    here = Run(str(tmp_path / "run"))
    here.store(load_profile("smoke", (*SETTINGS, *models)))
    return here


def smoke(*changes: str) -> Profile:
    return load_profile("smoke", changes)


def put(run: Run, planner: str, app: str, judged: list[Trajectory]) -> None:
    save_trajectories(run.judged(planner, app), judged)


# ---- labels ----------------------------------------------------------------------------------------------
def test_labels_can_need_several_attempts_with_the_same_plans():
    first, same, other = made_up(run=0), made_up(run=1), made_up(run=2)
    other = replace(other, steps=tuple(replace(step, plan="Click 'Other'.") for step in other.steps))
    failed = made_up(run=3, verdicts=(NO,))
    judged = [first, same, other, failed]

    def labels(repeats: int) -> list[int]:
        label = common.judge_labels(smoke(f"judge.repeats={repeats}", "judge.rule=single"), judged)
        return [len(label(trajectory)) for trajectory in judged]

    assert [labels(n) for n in (1, 2, 3)] == [[2, 2, 2, 0], [2, 2, 0, 0], [0, 0, 0, 0]]


# ---- seeds, tasks, agents --------------------------------------------------------------------------------
def test_every_stage_has_a_seed_of_its_own():
    profile, other = smoke(), smoke("seed=8")
    names = [
        ("explore", "base", "gis"),
        ("explore", "base", "algebra"),
        ("evaluate", "base", "gis"),
        ("explore", "basegis"),
        (),
    ]
    seeds = [draws.stage_seed(p, *n) for p in (profile, other) for n in names]
    assert len(set(seeds)) == len(seeds) and all(0 <= seed < 2**31 for seed in seeds)
    assert seeds[: len(names)] == [
        draws.stage_seed(smoke("explore.base.tasks=9"), *n) for n in names
    ]  # of nothing but the seed


def test_train_tasks_are_a_seeded_draw_from_the_train_region():
    few = "explore.base.tasks=9"
    drawn = draws.template_tasks(smoke(few), "base", "gis")
    assert len({task.id for task in drawn}) == 9 and all("-train-" in task.id for task in drawn)
    assert drawn == draws.template_tasks(smoke(few, "explore.base.runs=5"), "base", "gis")
    assert drawn != draws.template_tasks(smoke(few, "seed=8"), "base", "gis")
    assert drawn != draws.template_tasks(
        smoke("explore.specialist.tasks=9"), "specialist", "gis"
    )  # each planner has its own


def test_goals_that_succeed_now_and_then_are_drawn_most():
    tried = [("plot", True)] * 30 + [("line", False)] * 30 + [("tab", i % 2 == 0) for i in range(30)]
    weights = draws.learnable([*tried, ("grid", True)])
    assert 1.09 < weights["tab"] <= 1.1 and weights["grid"] > 0.9
    assert all(0.2 < weights[goal] < 0.25 for goal in ("plot", "line"))
    profile = smoke("explore.base.tasks=100", "explore.base.grades={A: 1}")

    def counts(chances: dict[str, float]) -> Counter[str]:
        drawn = draws.template_draw(profile, "base", "algebra", chances)
        return Counter(aim.goal.name for (aim,), _ in drawn)

    ((first, often), *_) = counts({}).most_common(1)
    assert counts({first: 0.05})[first] < often < counts({first: 20})[first]


def test_goals_that_are_never_explored_are_not_drawn():
    profile = smoke("explore.base.tasks=200", "explore.base.grades={A: 1, B: 1}", "knowledge=1")
    drawn = {aim.goal.name for parts, _ in draws.template_draw(profile, "base", "gis", {}) for aim in parts}
    kinds = kinds_of("gis", 1)
    assert {kinds[goal] for goal in drawn} == {"taught", "novel"}


def test_a_round_is_drawn_by_what_the_judge_said_of_those_before(tmp_path):
    run = Run(str(tmp_path / "run"))
    run.store(smoke("explore.round1={tasks: 40, grades: {A: 1}, runs: 1}", "explore.base.tasks=40"))
    base, attempt = train_tasks(run, "gis"), made_up(0, app="gis")

    def drawn(*votes: str) -> list[Task]:
        put(run, "base", "gis", [replace(attempt, task_id=task.id, verdicts=votes) for task in base])
        return train_tasks(run, "gis", "round1")

    accepted = drawn(YES)
    assert accepted == drawn(NO)  # there is as little to learn
    put(run, "base", "gis", [])
    assert accepted != train_tasks(run, "gis", "round1")


def test_held_out_tasks_are_the_committed_ones(tmp_path):
    here = Run(str(tmp_path / "run"))

    def draw(*changes: str) -> list[Task]:
        here.store(smoke(*changes))
        return draws.held_out_tasks(here, "astron")

    everything, drawn = committed_tasks("astron"), draw("test_tasks=4")
    assert len({task.id for task in drawn}) == 4 and all(task in everything for task in drawn)
    assert draw("test_tasks=null") == everything
    assert draw("test_tasks=4", "seed=8") != drawn


def test_runs_that_share_an_exploration_have_its_files_and_its_tasks(tmp_path):
    runs = [Run(str(tmp_path / name)) for name in ("one", "two", "three")]
    for seed, (run, explored) in enumerate(zip(runs, ("null", "one", "two"), strict=True)):
        run.store(smoke(f"seed={seed}", f"explored={explored}", "explore.base.tasks=3"))
    one, two, three = runs
    assert [run.explorer() for run in runs] == [one] * 3
    for run in (two, three):
        for kind in ("rollouts", "judged", "judge_scores"):
            assert getattr(run, kind)("base", "gis") == getattr(one, kind)("base", "gis")
            assert getattr(run, kind)("specialist", "gis").is_relative_to(run.folder)
        assert run.generated("gis") == one.generated("gis")
        assert run.evaluation("base", "gis").is_relative_to(run.folder)
        assert train_tasks(run, "gis") == train_tasks(one, "gis")
        assert draws.held_out_tasks(run, "gis") == draws.held_out_tasks(one, "gis")
    two.store(smoke("seed=1", "explore.base.tasks=3"))
    assert train_tasks(two, "gis") != train_tasks(one, "gis")
    assert draws.held_out_tasks(two, "gis") != draws.held_out_tasks(one, "gis")


def test_train_tasks_of_some_grades():
    drawn = draws.template_tasks(
        smoke("explore.base.tasks=8", "explore.base.grades={B: 1, C: 3}"), "base", "gis"
    )
    assert [task.grade for task in drawn] == ["B"] * 2 + ["C"] * 6


def test_the_agent_of_each_system(run, tiny_planner, tiny_executor):
    for name in ("base", "specialist", "generalist", "stage1", "stage2"):
        folder = {"base": None, "specialist": run.specialist("gis"), "stage1": run.specialist("gis")}.get(
            name, run.generalist
        )
        if folder is not None:
            with pytest.raises(UserError, match=f"no checkpoint at {folder}"):
                common.system_agent(run, name, "gis")
            continue
        agent = common.system_agent(run, name, "gis")
        assert isinstance(agent, DualAgent) and agent.name == name
        assert (agent.planner.model.name, agent.executor.model.name) == (
            str(tiny_planner),
            str(tiny_executor),
        )
        assert (agent.planner.sampling, agent.planner.prompts) == (Sampling(1.0, 0.9, 3), "compact")
        assert agent.planner.model.batch_size == run.profile().concurrency
    alone = common.system_agent(run, "executor", "gis")
    assert (
        isinstance(alone, SoloAgent)
        and alone.name == "executor"
        and alone.executor.model.name == str(tiny_executor)
    )
    with pytest.raises(UserError, match="unknown planner or system 'stage3'"):
        common.system_agent(run, "stage3", "gis")


def test_threads_are_those_of_the_stage(tmp_path):
    common.begin(str(tmp_path / "run"), "smoke", 2, "curve")
    assert torch.get_num_threads() == 2
    common.begin(str(tmp_path / "run"), "smoke", 1, "curve")
    assert torch.get_num_threads() == 1


# ---- exploring and judging -------------------------------------------------------------------------------
def test_explore_rolls_out_the_planner_on_the_train_tasks_and_always_the_same_way(run):
    told = []
    found = explore.run(run, "base", "gis", lambda *now: told.append(now))
    tasks = train_tasks(run, "gis")
    assert [(t.task_id, t.run) for t in found] == [(task.id, n) for task in tasks for n in range(2)]
    assert load_trajectories(run.rollouts("base", "gis")) == found and told[-1] == (4, 4)
    assert {t.planner for t in found} == {"base"} and all(
        1 <= len(t.steps) <= 2 and t.verdicts == () for t in found
    )
    assert all(step.plan for t in found for step in t.steps)  # noise, but kept
    before = run.rollouts("base", "gis").read_bytes()
    run.rollouts("base", "gis").unlink()
    explore.run(run, "base", "gis")
    assert run.rollouts("base", "gis").read_bytes() == before


def test_the_judges_votes_are_written_beside_the_rollouts(run):
    rollouts = [made_up(0, verdicts=()), made_up(1, verdicts=(), success=False)]
    save_trajectories(run.rollouts("base", "gis"), rollouts)
    judged, found = judge.run(run, "base", "gis")
    assert load_trajectories(run.judged("base", "gis")) == judged
    assert [t.steps for t in judged] == [t.steps for t in rollouts]
    assert [len(t.verdicts) for t in judged] == [1, 1]  # noise: no verdict, and no use in asking again
    assert (found.trajectories, found.successes, found.invalid_votes, found.true_positive) == (2, 1, 2, 0)
    assert judge.run(run, "base", "gis")[0] == judged


def test_a_stage_without_the_one_before_is_one_clear_message(run):
    for call in (
        lambda: judge.run(run, "base", "gis"),
        lambda: specialize.run(run, "specialist", "gis"),
        lambda: generalize.run(run),
    ):
        with pytest.raises(UserError, match=r"\.parquet: it is not there"):
            call()


# ---- training --------------------------------------------------------------------------------------------
def test_training_without_a_clean_trajectory_is_one_clear_message(run):
    for app in ("algebra", "gis"):
        put(run, "base", app, [made_up(0, verdicts=(NO, NO))])
        put(run, "specialist", app, [made_up(0, verdicts=(NO, NO))])
    with pytest.raises(UserError, match="specialize: no positive step"):
        specialize.run(run, "specialist", "gis")
    with pytest.raises(UserError, match="generalize: no positive step"):
        generalize.run(run)


def test_stage_1_and_2_write_planners_that_can_be_rolled_out(run, tiny_planner):
    put(run, "base", "gis", [made_up(0), made_up(1)])
    assert specialize.run(run, "specialist", "gis") == run.specialist("gis")
    put(run, "specialist", "gis", [made_up(2)])
    put(run, "specialist", "algebra", [made_up(3)])
    assert generalize.run(run) == run.generalist
    for folder in (run.specialist("gis"), run.generalist):
        steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert steps == [1, 2]
    fresh, taught = (LocalModel(path).network for path in (tiny_planner, run.generalist))
    assert not torch.equal(fresh.lm_head.weight, taught.lm_head.weight)
    assert common.system_agent(run, "stage1", "gis").planner.model.name == str(run.specialist("gis"))
    assert common.system_agent(run, "stage2", "algebra").planner.model.name == str(run.generalist)


def test_the_generalist_learns_from_every_application_and_from_a_fresh_planner(
    run, monkeypatch, tiny_planner
):
    put(run, "specialist", "gis", [made_up(2)])
    put(run, "specialist", "algebra", [made_up(3), made_up(4)])
    put(run, "base", "gis", [made_up(5)])  # stage 2 does not look at these
    asked = {}
    monkeypatch.setattr(
        "coda_study.stages.generalize.generalize",
        lambda rows, planner, settings, folder, seed, progress: asked.update(locals()),
    )
    generalize.run(run)
    text = json.dumps([row["prompt"] for row in asked["rows"]])
    assert [f"({number})" in text for number in (2, 3, 4, 5)] == [True, True, True, False]
    assert asked["planner"] == str(tiny_planner) and asked["folder"] == run.generalist


@pytest.mark.parametrize(("rule", "steps"), [("unanimous", 0), ("majority", 2)])
def test_every_stage_labels_by_the_rule_of_the_profile(run, monkeypatch, rule, steps):
    settings = run.profile().judge.model_copy(update={"rule": rule, "votes": 3})
    run.store(run.profile().model_copy(update={"judge": settings, "apps": ("gis",)}))
    made = Judge(ReplayModel([YES, NO, YES]), votes=3, rule=Rule.of(settings))
    monkeypatch.setattr(judge.Judge, "load", lambda profile: made)
    rows = {}
    monkeypatch.setattr(
        specialize, "specialize", lambda given, *more, **named: rows.update(stage1=len(given))
    )
    monkeypatch.setattr(generalize, "generalize", lambda given, *more: rows.update(stage2=len(given)))
    for planner in ("base", "specialist"):
        save_trajectories(run.rollouts(planner, "gis"), [made_up(0, verdicts=())])
        made.model = ReplayModel([YES, NO, YES])
        judge.run(run, planner, "gis")
    score = json.loads(run.judge_scores("base", "gis").read_text())
    assert (score["positive_actions"], score["true_positive"]) == (steps, steps // 2)
    specialize.run(run, "specialist", "gis")
    generalize.run(run)
    assert rows == {"stage1": steps, "stage2": steps}
    assert len(ablations.training_rows(run, "gis", "voting")) == steps


# ---- evaluation ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("system", ["base", "executor"])
def test_evaluation_writes_one_row_an_episode_and_always_the_same(run, system):
    table = evaluate.run(run, system, "algebra")
    tasks = draws.held_out_tasks(run, "algebra")
    assert table.task_id.tolist() == [task.id for task in tasks for _ in range(2)] and table.run.tolist() == [
        0,
        1,
        0,
        1,
    ]
    assert set(table.system) == {system} and set(table.app) == {"algebra"} and set(table.seed) == {11}
    assert table.steps.max() <= 2 and set(table.success) == {False}
    pd.testing.assert_frame_equal(
        pd.read_parquet(run.evaluation(system, "algebra")), table, check_dtype=False
    )
    paths = run.evaluation(system, "algebra"), run.greedy(system, "algebra")
    greedy = pd.read_parquet(paths[1])
    assert (
        greedy.task_id.tolist() == [task.id for task in tasks]
        and set(greedy.run) == {0}
        and set(greedy.system) == {system}
    )
    before = [path.read_bytes() for path in paths]
    evaluate.run(run, system, "algebra")
    assert [path.read_bytes() for path in paths] == before


def test_sealed_tasks_are_a_draw_of_their_own_from_the_test_region(run):
    assert not draws.sealed_tasks(run.profile(), "algebra") and not run.sealed("base", "algebra").exists()
    profile = smoke("apps=[algebra]", "sealed={tasks: 3, seed: 5, runs: 2}", *SETTINGS[1:-2])
    models = {name: value for name, value in run.profile().models}
    run.store(profile.model_copy(update={"models": type(profile.models)(**models)}))
    evaluate.run(run, "base", "algebra")
    sealed, drawn = (
        pd.read_parquet(run.sealed("base", "algebra")),
        draws.sealed_tasks(run.profile(), "algebra"),
    )
    assert sealed.task_id.tolist() == [task.id for task in drawn for _ in range(2)]
    assert not {task.instruction for task in drawn} & {
        task.instruction for task in committed_tasks("algebra")
    }
    other = smoke("sealed={tasks: 3, seed: 6}")
    assert {task.id for task in draws.sealed_tasks(other, "algebra")}.isdisjoint(sealed.task_id)


def test_a_greedy_agent_has_the_same_models_and_no_chance(run):
    sampled = common.system_agent(run, "base", "algebra")
    greedy = sampled.greedy()
    assert greedy.planner.model is sampled.planner.model and greedy.executor.model is sampled.executor.model
    assert greedy.name == sampled.name and sampled.planner.sampling.temperature == 1
    assert greedy.planner.sampling.temperature == greedy.executor.sampling.temperature == 0
    assert greedy.planner.sampling.max_new_tokens == sampled.planner.sampling.max_new_tokens
    assert common.system_agent(run, "executor", "algebra").greedy().executor.sampling.temperature == 0


def test_ablations_and_transfer_play_by_the_fleet_of_the_profile(run, monkeypatch):
    used = []
    monkeypatch.setattr(common, "play_tasks", lambda *given, progress: used.append(given[-2:]) or [])
    run.store(run.profile().model_copy(update={"fleet": FleetSettings(workers=2)}))
    evaluate.play_held_out(run, SimpleNamespace(name="joint"), "algebra")
    assert used == [(FleetSettings(workers=2), run.fleet("ablation", "joint", "algebra"))]
