"""Success by temperature, by kind and grade of the task; agents that look at no screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from coda_lib.config import load_profile
from coda_lib.files import write_table
from coda_lib.task import Task
from coda_lib.task import test_tasks as committed_tasks
from coda_study.evaluation import report, slices, statistics
from coda_study.run import Run
from sciencedesk.knowledge import KINDS, kind_of_task, kinds_of

RUNS = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
APPS = ("algebra", "gis")


def rows(system: str, runs: int, solved: Callable[[Task, int], bool], app: str) -> pd.DataFrame:
    table = [(task.id, app, run, system, solved(task, run), "DONE", 7)
             for task in committed_tasks(app) for run in range(runs)]  # fmt: skip
    return pd.DataFrame(table, columns=["task_id", "app", "run", "system", "success", "stop", "seed"])


@pytest.fixture
def run(tmp_path) -> Run:
    """Give a run whose base planner solves every state task in its first run of two, and stage 2 in both."""
    here = Run(str(tmp_path / "run"))
    here.store(load_profile("smoke", ("apps=[algebra, gis]", "systems=[base, stage2]")))
    for app in APPS:
        for system, last in (("base", 0), ("stage2", 1)):
            sampled = rows(system, 2, lambda task, run, last=last: not task.ans and run <= last, app)
            write_table(here.evaluation(system, app), sampled)
            write_table(here.greedy(system, app), rows(system, 1, lambda task, run: task.grade == "A", app))
        other = [rows(name, 2, lambda task, run: False, app) for name in ("replay", "random")]
        best = rows("best", 2, lambda task, run: True, app).assign(temperature=0.5)
        write_table(here.baselines(app), pd.concat([*other, best]))
    return here


def cell(table: pd.DataFrame, **words: str) -> pd.Series:
    found = table[(table[list(words)] == list(words.values())).all(axis=1)]
    assert len(found) == 1
    return found.iloc[0]


def test_all_of_k_runs_and_some_of_them():
    assert statistics.task_always(RUNS, 4).tolist() == [1, 0, 0, 0]
    assert statistics.task_always(RUNS, 2).tolist() == [1, 0.5, 0, 0]  # C(3, 2) / C(4, 2)
    assert statistics.task_always(RUNS, 1).tolist() == pytest.approx(RUNS.mean(axis=1))
    assert statistics.task_flips(RUNS, 4).tolist() == [0, 1, 1, 0]
    assert statistics.task_flips(RUNS, 1).tolist() == pytest.approx([0, 0, 0, 0])


def test_the_runs_of_a_task_by_temperature(run):
    table = slices.passes([run])
    overall = {"application": "overall", "system": "base"}
    for metric in ("Pass@2", "Flips@2"):
        state = cell(table, temperature="1", metric=metric, **overall)
        shares = [np.mean([task.ans is None for task in committed_tasks(app)]) for app in APPS]
        assert state["value"] == pytest.approx(100 * np.mean(shares)) and state["tasks"] == 65
    assert cell(table, temperature="1", metric="Pass^2", **overall)["value"] == 0
    assert set(table[table["temperature"] == "0"]["metric"]) == {"Average@1"}  # all runs are one
    best = table[table["temperature"] == "best"]
    assert set(best["system"]) == {"base"} and cell(best, metric="Pass^2", **overall)["value"] == 100
    grid = report.passes_grid(table).set_index(["System", "Temperature"])
    assert grid.loc[("Stage-2 generalist", "1"), "Flips@2"].startswith("0.0 [")
    assert grid.loc[("Stage-2 generalist", "0"), "Flips@2"] == ""


def test_state_tasks_and_question_tasks_apart_and_each_grade(run):
    table = slices.kinds([run])
    overall = {"application": "overall", "metric": "Average@2"}
    asked = sum(task.ans is not None for app in APPS for task in committed_tasks(app))
    question, state = (cell(table, slice=name, system="base", **overall) for name in ("question", "state"))
    assert (question["value"], question["solved"], question["tasks"]) == (0, 0, asked)
    assert (state["value"], state["solved"], state["episodes"]) == (50, 65 - asked, 2 * (65 - asked))
    assert cell(table, slice="state", system="stage2", metric="Pass@2", application="gis")["value"] == 100
    grades = table[table["slice"].str.startswith("grade") & (table["system"] == "stage2")]
    grades = grades[(grades["application"] == "overall") & (grades["metric"] == "Pass@2")]
    assert grades["slice"].tolist() == [f"grade {letter}" for letter in "ABCD"]
    assert grades["tasks"].sum() == 65 and grades["solved"].sum() == 2 * (65 - asked)
    assert list(report.kinds_grid(table)["Tasks"][:2]) == [65 - asked, asked]


def test_tasks_by_what_the_base_planner_was_taught(run):
    assert not {*slices.kinds([run])["slice"]} & {*KINDS}
    run.store(run.profile().model_copy(update={"knowledge": 1}))
    table = slices.kinds([run]).query("system == 'base' and metric == 'Average@2' and slice in @KINDS")
    tasks = table[table["application"] != "overall"].groupby("slice")["tasks"].sum()
    assert tasks.to_dict() == {"taught": 30, "novel": 25, "unexplored": 10}
    split = kinds_of("gis", 1)
    assert (split["legend"], split["add"], split["contours"]) == ("taught", "novel", "unexplored")
    asked = {"Turn the legend on.": "taught", "Turn the legend on and add the slope layer.": "novel",
             "Add the slope layer and add contours every 60 m.": "unexplored", "Fly.": KINDS[2]}  # fmt: skip
    task = committed_tasks("gis")[0]
    assert {text: kind_of_task(replace(task, instruction=text), 1) for text in asked} == asked


def test_blind_agents_stand_below_those_that_look(run):
    table = slices.blind([run]).query("application == 'overall'")
    assert table["system"].tolist() == ["base", "replay", "random"]
    assert (table["value"] > 0).tolist() == [True, False, False]
    assert all(table["low"] <= table["value"]) and all(table["high"] > table["value"])
    assert "Blind replay, run chosen by outcome" in set(report.grid(slices.blind([run]))["System"])


def test_a_task_counts_by_the_share_of_its_episodes_however_many_they_are(run):
    played = pd.DataFrame({
        "task_id": ["gis/a", "gis/a", "gis/a", "gis/b"], "app": "gis", "run": [0, 1, 2, 0], "system": "base",
        "success": [True, True, True, False], "stop": "DONE",
    })  # fmt: skip
    table = slices.shares(played, ["base", "stage2"], run.profile())
    assert set(table["value"]) == {50} and set(table["solved"]) == {3} and set(table["tasks"]) == {2}
    with pytest.raises(statistics.EpisodesError, match=r"1 episodes without an outcome .* gis/b run 0"):
        slices.shares(played.assign(stop=["DONE"] * 3 + ["ENVIRONMENT_ERROR"]), ["base"], run.profile())


def test_the_temperatures_that_were_tried_are_a_table_with_the_chosen_one(run):
    for app in APPS:
        tried = [
            rows("base", 1, lambda task, run, good=good: good, app).assign(temperature=temperature)
            for temperature, good in ((0.5, True), (0.0, False))
        ]
        write_table(run.tried(app), pd.concat(tried))
    grid = report.temperatures_grid(slices.temperatures(run))
    assert grid["Temperature"].tolist() == [0.5, 0.0]
    assert grid.loc[0, "GIS"].endswith(" chosen") and "chosen" not in grid.loc[1, "Algebra"]
