"""Several seeds of one study: means over the seeds, and nothing mixed that is not the same study."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from coda_lib.applications import APPS
from coda_lib.config import load_profile
from coda_lib.errors import StageError, UserError
from coda_lib.files import write_text
from coda_lib.task import test_tasks as committed_tasks
from coda_study.evaluation import report, statistics, tables
from coda_study.evaluation.tables import by_seed, load_seeds, siblings
from coda_study.pipeline import drive as pipeline
from coda_study.run import Run
from tools import reference
from tools.reference import pool

SYSTEMS = ("base", "stage1")
FIXED = ("systems=[base, stage1]", "bootstrap_resamples=300")


def write_run(folder, seed: int, *changes: str, tasks: int = 5, runs: int = 4) -> Run:
    """A run in which both systems succeed by chance."""
    here = Run(str(folder / f"seed{seed}"))
    fixed = (f"seed={seed}", f"evaluation_runs={runs}", *FIXED)
    here.store(load_profile("laptop", (*fixed, *changes)))
    play(here, seed, tasks, runs)
    return here


def play(here: Run, seed: int, tasks: int = 5, runs: int = 4) -> None:
    rng = np.random.default_rng(seed)
    for system in SYSTEMS:
        for app in APPS:
            rows = [
                {"task_id": task.id, "app": app, "run": r, "system": system, "stop": "DONE",
                 "success": bool(solved)}
                for task in committed_tasks(app)[:tasks] for r, solved in enumerate(rng.random(runs) < 0.3)
            ]  # fmt: skip
            here.evaluation(system, app).parent.mkdir(parents=True, exist_ok=True)
            pd.DataFrame(rows).to_parquet(here.evaluation(system, app), index=False)


@pytest.fixture
def runs(tmp_path) -> list[Run]:
    return [write_run(tmp_path, seed) for seed in (1, 2, 3)]


def test_figures_are_means_over_the_seeds(runs):
    episodes, profile = load_seeds(runs)
    cells = ["metric", "system", "application"]
    table = tables.table1(episodes, SYSTEMS, k=profile.evaluation_runs).set_index(cells)
    alone = [tables.table1(tables.load_episodes(run), SYSTEMS).set_index(cells) for run in runs]
    for cell in table.index:
        assert cell[0] in ("Average@4", "Pass@4")
        assert table.loc[cell, "value"] == pytest.approx(np.mean([one.loc[cell, "value"] for one in alone]))
    assert set(table["runs"]) == {12}
    assert (
        "20 tasks (Algebra 5, Biochem 5, GIS 5, Astron 5), 4 runs per task and seed, 3 seeds."
        in report.caption(table.reset_index(), "three")
    )
    matrix = tables.success_matrices(episodes, SYSTEMS)["base", "gis"]  # its runs are of different trainings
    mixed = statistics.task_pass(matrix, 4).mean()
    assert 100 * mixed != pytest.approx(table.loc[("Pass@4", "base", "gis"), "value"])
    apart = by_seed(episodes)
    assert apart.loc["base", 2] == pytest.approx(alone[1].loc[("Average@4", "base", "overall"), "value"])
    assert apart.loc["base", "deviation"] == pytest.approx(
        np.std([apart.loc["base", s] for s in (1, 2, 3)], ddof=1)
    )


def test_comparisons_pair_the_seeds_too(runs):
    episodes, profile = load_seeds(runs)
    compared = tables.comparisons(episodes, SYSTEMS, 300, k=profile.evaluation_runs)
    apart = by_seed(episodes)
    row = compared.query("metric == 'Average@4' and application == 'overall'").iloc[0]
    assert row["difference"] == pytest.approx((apart.loc["stage1"] - apart.loc["base"])[[1, 2, 3]].mean())


def test_only_the_seed_may_differ(runs, tmp_path):
    other = write_run(tmp_path / "other", 4, "specialize.steps=5")
    with pytest.raises(UserError, match="seed4 is another study than .*seed1: it differs in specialize"):
        load_seeds([*runs, other])
    with pytest.raises(UserError, match="two runs have the same seed: the seeds are 1, 1"):
        load_seeds([runs[0], runs[0]])
    sharing = write_run(tmp_path, 5, "explored=seed1")
    assert set(load_seeds([runs[0], sharing])[0]["seed"]) == {1, 5}
    runs[1].evaluation("stage1", "gis").unlink()
    with pytest.raises(UserError, match="1 of 8 evaluations are not there"):
        load_seeds(runs)


def test_the_command(runs, tmp_path, coda):
    code, shown, _ = coda("seeds", *(run.name for run in runs), "--save", str(tmp_path / "three"))
    assert code == 0 and "seeds 1, 2, 3, measured" in shown and "deviation" in shown
    assert {path.name for path in (tmp_path / "three").iterdir()} >= {
        "table1.csv",
        "table1.md",
        "comparisons.tex",
    }
    code, shown, _ = coda("seeds", *(run.name for run in runs), "--json")
    told = json.loads(shown)
    assert (
        code == 0
        and len(told["table1"]) == 20
        and len(told["comparisons"]) == 10
        and told["by_seed"][0]["system"] == "base"
    )
    assert coda("seeds", runs[0].name, "nowhere")[0] == 2


@pytest.fixture
def study(tmp_path, coda, monkeypatch):
    """Give a function that reproduces a study of several seeds, whose runs are played at once; and the list
    of these runs.
    """
    played: list[Run] = []

    def reproduce(run, profile, cores, until, fresh, console, notebooks, cluster) -> pipeline.Outcome:
        if profile.seed == 13:
            raise StageError("stage judge/base/gis failed")
        played.append(run)
        run.store(profile)
        play(run, profile.seed)
        write_text(run.table1, f"table of {run.folder.name}\n")
        return pipeline.Outcome(1, 60, (run.table1,) if until == "results" else ())

    monkeypatch.setattr(pipeline, "reproduce", reproduce)
    changes = [word for change in (*FIXED, "evaluation_runs=4") for word in ("--set", change)]
    return lambda *words: coda("reproduce", "--run", str(tmp_path / "mine"), *changes, *words), played


def test_one_call_for_several_seeds_ends_with_the_tables_over_them(tmp_path, study, coda):
    reproduce, played = study
    code, shown, _ = reproduce("--seeds", "7", "8", "9", "--cores", "1")
    assert code == 0 and [run.folder.name for run in played] == ["mine", "mine-seed8", "mine-seed9"]
    assert [run.profile().explored for run in played] == [None, "mine", "mine"]
    folder = tmp_path / "mine" / "seeds"
    assert shown.index("table of mine-seed9\n") < shown.index("run laptop, seeds 7, 8, 9, measured.")
    assert shown.endswith("".join(f"{folder}/comparisons.{kind}\n" for kind in ("csv", "md", "tex")))
    assert (folder / "table1.md").read_text() in shown and f"{folder}/table1.tex" in shown
    assert coda("seeds", *(run.name for run in played), "--save", str(tmp_path / "by-hand"))[0] == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "by-hand").iterdir()
    }


@pytest.mark.parametrize(
    ("words", "names", "home"),
    [
        ("--seeds 8 7", ["mine-seed8", "mine"], "mine"),
        ("--seeds 9 --seeds 8", ["mine-seed9", "mine-seed8"], "mine-seed9"),  # there is no run `mine`
        ("--seeds 7 8 --until ablations", ["mine", "mine-seed8"], "mine"),
        ("--seeds 7 8 --until judge", ["mine", "mine-seed8"], None),
        ("--until real_apps --seeds 7 8", ["mine", "mine-seed8"], None),
        ("--seeds 7", ["mine"], None),
        ("--seeds 8", ["mine-seed8"], None),
    ],
)
def test_where_the_tables_over_seeds_are(tmp_path, study, words, names, home):
    reproduce, played = study
    code, shown, _ = reproduce(*words.split())
    assert code == 0 and [run.folder.name for run in played] == names
    assert [path.parent for path in tmp_path.glob("*/seeds")] == ([tmp_path / home] if home else [])
    assert ("seeds/table1.md" in shown) == (home is not None) == ("measured" in shown)


def test_a_failure_in_one_seed_ends_the_command(tmp_path, study):
    reproduce, played = study
    code, shown, errors = reproduce("--seeds", "7", "13", "9")
    assert (code, errors) == (1, "error: stage judge/base/gis failed\n") and [
        run.folder.name for run in played
    ] == ["mine"]
    assert not (tmp_path / "mine" / "seeds").exists() and f"{tmp_path / 'mine'}: done in 1 min" in shown


def finish(run: Run) -> None:
    run.tables.mkdir()
    (run.tables / "table1.csv").write_text("")


def test_siblings_are_finished_runs_of_the_same_study(tmp_path, runs):
    other, sharing = write_run(tmp_path, 4, "specialize.steps=9"), write_run(tmp_path, 5, "explored=seed1")
    for run in (*runs[1:], other, sharing):
        finish(run)
    assert [run.profile().seed for run in siblings(runs[1], [tmp_path])] == [2, 3, 5]
    assert [run.profile().seed for run in siblings(runs[0], [tmp_path])] == [
        1,
        2,
        3,
        5,
    ]  # itself, finished or not
    assert [run.profile().seed for run in siblings(other, [tmp_path])] == [4]


def test_the_kept_runs_are_pooled_over_their_seeds(tmp_path, runs, monkeypatch):
    monkeypatch.setattr(reference, "REFERENCE", tmp_path)
    for run in runs:
        finish(run)
    folder = pool(runs[0].folder)
    table = pd.read_csv(folder / "table1.csv")
    assert set(table["runs"]) == {12} and "seeds 1, 2, 3" in (folder / "beside_paper.md").read_text()
    assert list(pd.read_csv(folder / "by_seed.csv")["system"]) == list(SYSTEMS)
    state = pd.read_csv(folder / "kinds.csv").query("slice == 'state' and application == 'overall'")
    assert set(state["runs"]) == {12} and set(state["metric"]) == {"Average@4", "Pass@4"}
    assert not (folder / "passes.csv").exists()  # nothing was played at temperature 0
