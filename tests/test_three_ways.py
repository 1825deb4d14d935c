"""The whole smoke profile in process, with all models behind servers, and by a fleet on Ray: half an hour, `pytest -m served`."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

from coda_lib.paths import Run

LIKELIEST = [f"{role}.top_p=1e-9" for role in ("planner", "executor", "judge")]  # chance would draw other numbers elsewhere
SERVED = [f"serving.{role}=started" for role in ("planner", "executor", "judge")]
WAYS = {"near": [], "served": SERVED, "ray": [*SERVED, "fleet.workers=2", "fleet.ray=local", "fleet.side_by_side=4"]}


@pytest.mark.served
def test_the_tables_do_not_depend_on_where_models_run_and_who_plays(tmp_path):
    runs = {name: Run(str(tmp_path / name)) for name in WAYS}
    for name, how in WAYS.items():
        words = [word for setting in (*LIKELIEST, *how) for word in ("--set", setting)]
        command = [sys.executable, "-m", "coda_lib.cli", "reproduce", "--profile", "smoke", "--run", runs[name].name, *words]
        subprocess.run(command, check=True)
    near = runs.pop("near")
    tables = sorted(path.name for path in near.tables.glob("*.csv") if path.name != "deviations.csv")
    assert "table1.csv" in tables and len(tables) > 5
    for run in runs.values():
        assert [path.name for path in sorted(run.usage.rglob("*.json"))]  # it was served indeed
        for name in tables:
            assert (run.tables / name).read_bytes() == (near.tables / name).read_bytes(), f"{run.folder.name}: {name}"
        for path in sorted(near.folder.glob("evaluation/*/*.parquet")):
            other = pd.read_parquet(run.folder / path.relative_to(near.folder))
            pd.testing.assert_frame_equal(other, pd.read_parquet(path), obj=f"{run.folder.name}: {path.name}")
