"""What stands beside Table 1: agents that look at no screen, and the base planner at its best temperature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest

from coda_lib.action import Action
from coda_lib.agent import DualAgent
from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.planner import Planner
from coda_lib.task import Task
from coda_lib.trajectory import Step, StopReason, Trajectory, save_trajectories
from coda_study.draws import held_out_tasks, runs_of, template_tasks
from coda_study.evaluation import slices
from coda_study.run import Run
from coda_study.stages import baselines, evaluate, explore
from sciencedesk import ScienceDesk
from sciencedesk.perturb import held_back, perturbed, walk

pytest_plugins = ("tiny_checkpoints",)

SMALL = ("explore.base.tasks=3", "explore.base.runs=1", "test_tasks=6", "evaluation_runs=3", "seed=11")


def run_of(tmp_path: Path, *changes: str) -> Run:
    here = Run(str(tmp_path / "run"))
    here.store(load_profile("smoke", ("apps=[algebra]", *SMALL, *changes)))
    return here


def scripted(jobs: Sequence[tuple[Task, int]], solved: Callable[[int], bool]) -> list[Trajectory]:
    """The scripts of tasks as episodes of their runs, without screens; some are said to have failed."""
    desk, played = ScienceDesk("algebra"), []
    for task, run in jobs:
        steps = [Step(b"", str(step), "", (action,)) for step, action in walk(desk, task)]
        answer = steps[-1].actions[0].text if steps[-1].actions[0].type.ends else None
        steps += [] if answer else [Step(b"", "DONE", "", (Action.done(),))]
        stop = StopReason.ANS if answer else StopReason.DONE
        assert desk.check(stop, answer)
        ended = (b"", stop, answer, solved(run))
        played.append(Trajectory(task.id, task.app, task.instruction, "base", run, tuple(steps), *ended))
    return played


def recorded(here: Run, solved: Callable[[int], bool] = lambda run: True) -> tuple[Path, Path]:
    """Files of a planner that does every task by its script: attempts at test tasks, and at train tasks."""
    profile = here.profile()
    tests = runs_of(profile, held_out_tasks(here, "algebra"), profile.evaluation_runs, "test")
    trains = runs_of(profile, template_tasks(profile, "base", "algebra"), 1, "train")
    files = here.trajectories("base", "algebra"), here.rollouts("base", "algebra")
    for path, jobs in zip(files, (tests, trains), strict=True):
        save_trajectories(path, scripted(jobs, solved if path == files[0] else lambda run: True))
    return files


def test_where_all_runs_start_alike_a_recording_passes_all_and_random_clicks_do_not(tmp_path):
    here = run_of(tmp_path)
    played = baselines.blind(here, "algebra", *recorded(here)).astype({"success": int})
    assert played.groupby("system").size().to_dict() == {"nearest": 18, "random": 18, "replay": 18}
    solved = played.groupby("system")["success"].mean()
    assert solved["replay"] == 1 and solved["random"] <= 0.1
    assert {"nearest"} & set(played["system"]) and not played[["task_id", "run", "system"]].duplicated().any()


def test_perturbed_a_recording_is_played_in_the_other_runs_alone_and_fails(tmp_path):
    here = run_of(tmp_path, "perturb=true", "test_tasks=16", "evaluation_runs=4")
    files = recorded(here, solved=lambda run: run == 2)
    played = baselines.blind(here, "algebra", *files).query("system == 'replay'")
    assert set(played["run"]) == {0, 1, 3} and len(played) == 48
    assert played["success"].sum() <= 0.1 * len(played)


def test_without_a_solved_run_there_is_nothing_to_repeat(tmp_path):
    here = run_of(tmp_path, "perturb=true", "test_tasks=2")
    test, _ = recorded(here, solved=lambda run: False)
    played = baselines.blind(here, "algebra", test).query("system == 'replay'")
    assert set(played["run"]) == {1, 2} and set(played["steps"]) == {1} and not played["success"].any()
    single = run_of(tmp_path / "single", "perturb=true", "test_tasks=2", "evaluation_runs=1")
    test, _ = recorded(single)
    assert set(baselines.blind(single, "algebra", test)["system"]) == {"random"}  # there is no other run


def test_a_recording_of_another_perturbation_is_refused(tmp_path):
    test, _ = recorded(run_of(tmp_path / "alike"))
    other = run_of(tmp_path / "perturbed", "perturb=true")
    with pytest.raises(UserError, match=r"algebra/\w-\d+, run \d, was asked '.*', and now is '.*': evaluate"):
        baselines.blind(other, "algebra", test)


def test_the_nearest_task_is_that_with_the_same_words_in_any_order():
    tasks = [
        Task("a", "gis", "A", text, 5, (), ()) for text in ("Open the map.", "Add the roads to the map.")
    ]
    assert baselines.nearest("To the map add the roads.", tasks) is tasks[1]
    assert baselines.nearest("Open a map.", tasks) is tasks[0] and baselines.nearest("Open.", []) is None


def test_the_first_solved_run_of_a_task_is_repeated():
    def episode(run: int, success: bool) -> Trajectory:
        return Trajectory("gis/A-01", "gis", "x", "base", run, (), b"", StopReason.DONE, None, success)

    found = baselines.first_solved([episode(3, True), episode(0, False), episode(1, True)])
    assert {name: trajectory.run for name, trajectory in found.items()} == {"gis/A-01": 1}


def test_of_equally_good_temperatures_the_one_tried_first_is_chosen():
    table = pd.DataFrame(
        {"temperature": [1.0, 1.0, 0.5, 0.5, 0.0], "success": [True, None, True, True, False]}
    )
    assert baselines.best_temperature(table) == 1.0
    assert baselines.best_temperature(table.iloc[2:]) == 0.5


def test_planner_and_executor_are_sampled_at_the_temperature():
    planner, executor = (
        Planner(ReplayModel([]), Sampling(1, 0.9, 7)),
        Executor(ReplayModel([]), Sampling(1, 0.8)),
    )
    agent = baselines.at(DualAgent(planner, executor, "base"), 0.5, "best")
    assert agent.name == "best" and agent.planner.sampling == Sampling(0.5, 0.9, 7)
    assert agent.executor.sampling == Sampling(0.5, 0.8)


@pytest.fixture(scope="module")
def perturbed_run(tmp_path_factory, tiny_planner, tiny_executor) -> Run:
    """A perturbed run of untrained models with its evaluation and baselines."""
    models = [f"models.planner={tiny_planner}", f"models.executor={tiny_executor}"]
    few = (
        "planner.max_new_tokens=3",
        "executor.max_new_tokens=3",
        "step_limit=2",
        "systems=[base, executor]",
    )
    temperatures = "baselines={temperatures: [0.0, 1.0], tasks: 2}"
    folder = tmp_path_factory.mktemp("perturbed")
    here = run_of(folder, "perturb=true", "test_tasks=4", temperatures, *few, *models)
    explore.run(here, "base", "algebra")
    for system in ("base", "executor"):
        evaluate.run(here, system, "algebra")
    baselines.run(here, "algebra")
    return here


def test_a_perturbed_run_has_all_its_tables(perturbed_run):
    steady = slices.passes([perturbed_run])
    assert set(zip(steady["temperature"], steady["system"], strict=True)) == {
        *(("0", name) for name in ("base", "executor")), *(("1", name) for name in ("base", "executor")),
        ("best", "base"),
    }  # fmt: skip
    assert set(steady["metric"]) == {"Average@3", "Pass@3", "Pass^3", "Flips@3"} and set(steady["runs"]) == {
        3
    }
    unseen = slices.blind([perturbed_run])
    counts = unseen.query("application == 'overall'").set_index("system")["episodes"].to_dict()
    assert counts == {"base": 12, "executor": 12, "replay": 8, "nearest": 12, "random": 12}
    assert unseen.query("system in ['replay', 'nearest', 'random']")["solved"].sum() == 0
    tried = slices.temperatures(perturbed_run)
    assert tried["temperature"].tolist() == [0, 1] and tried["chosen"].sum() == 1
    assert tried["episodes"].tolist() == [2, 2]


def test_factors_tell_runs_that_training_never_had_from_the_others(perturbed_run, monkeypatch):
    table = slices.factors([perturbed_run]).query("application == 'overall' and system == 'base'")
    counts = table.set_index(["factor", "slice"])["episodes"]
    assert set(table["factor"]) == {"theme", "text", "layout", "place", "any"}
    tasks = held_out_tasks(perturbed_run, "algebra")
    views = [held_back(perturbed(task, run, "test").view, task.app) for task in tasks for run in range(3)]
    for factor in ("theme", "text", "layout", "place"):
        held = sum(view[factor] for view in views)
        assert counts.get((factor, "held back"), 0) == held
        assert counts.get((factor, "seen"), 0) == len(views) - held
    assert counts["any", "held back"] == sum(any(view.values()) for view in views)


def test_the_stage_is_the_same_again_and_leaves_no_fleet_behind(perturbed_run):
    paths = perturbed_run.baselines("algebra"), perturbed_run.tried("algebra")
    before = [path.read_bytes() for path in paths]
    baselines.run(perturbed_run, "algebra")
    assert [path.read_bytes() for path in paths] == before
