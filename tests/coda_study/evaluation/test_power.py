"""The calculator: variances are recovered from made-up studies, and a study of the size that it names finds
what it should.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_study.evaluation.power import Spread, designs, estimate, load_pairs
from coda_study.run import Run


def study(
    rng, tasks: int, runs: int, seeds: int, difference: float, by_task: float, by_seed: float, apps: int = 1
) -> list:
    """Successes of two systems; the second is better by `difference`, more or less so by task and by seed."""
    base = [rng.uniform(0.3, 0.5, tasks) for _ in range(apps)]
    gain = [difference + by_task * rng.standard_normal(tasks) for _ in range(apps)]
    drawn = []
    for shift in by_seed * rng.standard_normal(seeds):
        chances = [(p, np.clip(p + g + shift, 0, 1)) for p, g in zip(base, gain, strict=True)]
        drawn.append([tuple(rng.random((tasks, runs)) < p[:, None] for p in pair) for pair in chances])
    return drawn


def test_the_variances_of_a_made_up_study_are_recovered():
    rng = np.random.default_rng(0)
    spread = estimate(study(rng, tasks=2000, runs=8, seeds=40, difference=0.1, by_task=0.1, by_seed=0.06))
    assert spread.tasks == pytest.approx(0.01, rel=0.2)
    assert spread.seeds == pytest.approx(0.0036, rel=0.4)
    assert spread.runs == pytest.approx(0.24 + 0.25, rel=0.05)
    assert spread.mixed < 0.002
    one = estimate(study(rng, tasks=4000, runs=8, seeds=1, difference=0.1, by_task=0.1, by_seed=0.06))
    assert one.seeds is None and one.tasks == pytest.approx(0.01, rel=0.3)


def test_a_study_as_large_as_named_finds_the_difference_as_often_as_said():
    rng, difference = np.random.default_rng(1), 0.08
    spread = Spread(tasks=0.01, runs=0.24 + 0.25)
    tasks = int(spread.tasks_needed(difference, runs=8, seeds=1, power=0.8))
    assert 40 < tasks < 150
    found = 0
    for _ in range(600):
        (((first, second),),) = study(rng, tasks, 8, 1, difference, 0.1, 0)
        found += stats.ttest_1samp(second.mean(axis=1) - first.mean(axis=1), 0).pvalue < 0.05
    assert found / 600 == pytest.approx(0.8, abs=0.06)


def test_detectable_and_needed_say_the_same():
    spread = Spread(tasks=0.002, runs=0.05, mixed=0.001, seeds=0.0001)
    for seeds in (1, 3, 10):
        smallest = spread.detectable(127, 8, seeds)
        assert spread.tasks_needed(smallest * 1.0001, 8, seeds) in (126, 127)
    assert spread.detectable(10**9, 8, 1) > 0.02  # what tasks cannot help with
    assert spread.tasks_needed(0.02, 8, 1) == np.inf and np.isfinite(spread.tasks_needed(0.02, 8, 10))
    table = designs(spread, 0.02)
    assert table.loc["1 seed", "8 runs"] == np.inf and (table.loc["10 seeds"].diff().dropna() <= 0).all()


@pytest.fixture
def run(tmp_path) -> Run:
    """Write the episodes of a small run: 6 tasks of each application, 4 runs, two systems."""
    here, rng = Run(str(tmp_path / "run")), np.random.default_rng(0)
    profile = load_profile("laptop")
    here.store(profile)
    for system, chance in (("base", 0.3), ("stage1", 0.6)):
        for app in profile.apps:
            rows = [
                {"task_id": f"{app}/{t}", "app": app, "system": system, "run": r, "stop": "DONE",
                 "success": bool(solved)}
                for t in range(6) for r, solved in enumerate(rng.random(4) < chance)
            ]  # fmt: skip
            path = here.evaluation(system, app)
            path.parent.mkdir(parents=True, exist_ok=True)
            pd.DataFrame(rows).to_parquet(path, index=False)
    return here


def test_the_command_learns_from_a_run(run, coda):
    code, shown, _ = coda("power", "20", "--run", run.name)
    assert code == 0 and "base against stage1: 24 tasks, 4 runs and 1 seed find a difference of" in shown
    assert "From one training" in shown
    code, shown, _ = coda("power", "20", "--run", run.name, "--run", run.name, "--json")
    told = json.loads(shown)
    assert (
        code == 0
        and told["spread"]["seeds"] == 0
        and told["detectable"] > 0
        and told["tasks"]["1 seed"]["8 runs"] > 0
    )


def test_what_is_missing_is_named(run, coda):
    code, _, error = coda("power", "4", "--run", run.name, "--second", "stage2")
    assert (
        code == 2 and "4 of 8 evaluations are not there" in error and "stage2/algebra.parquet first" in error
    )
    assert coda("power", "0", "--run", run.name)[0] == 2
    path = run.evaluation("stage1", "gis")
    pd.read_parquet(path).iloc[1:].to_parquet(path, index=False)
    with pytest.raises(UserError, match="system 'stage1': 1 of 96 episodes missing: gis/0 run 0"):
        load_pairs(run, "base", "stage1")


def test_seeds_of_different_size_are_not_mixed():
    rng = np.random.default_rng(0)
    (large,), (small,) = study(rng, 30, 8, 1, 0.1, 0, 0), study(rng, 20, 8, 1, 0.1, 0, 0)
    with pytest.raises(UserError, match="different tasks or numbers of runs"):
        estimate([large, small])
    with pytest.raises(UserError, match="a single run of each task"):
        estimate(study(rng, 30, 1, 1, 0.1, 0, 0))
