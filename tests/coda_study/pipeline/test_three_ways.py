"""The smoke profile in process, with all models behind servers, and by a fleet on Ray: an hour, `pytest -m
served`.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
import pytest

from coda_study.run import Run

LIKELIEST = [
    f"{role}.top_p=1e-9" for role in ("planner", "executor", "judge")
]  # chance would draw other numbers elsewhere
SERVED = [f"serving.{role}=started" for role in ("planner", "executor", "judge")]
START_S = 120

pytestmark = pytest.mark.served


@pytest.fixture(scope="module")
def near(tmp_path_factory) -> Run:
    return reproduced(tmp_path_factory.mktemp("near"), [])


@pytest.fixture
def cluster(monkeypatch) -> Iterator[str]:
    """The address of a Ray cluster of this machine."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = [
        Path(sys.executable).with_name("ray"),
        "start",
        "--head",
        "--block",
        f"--port={port}",
        "--node-ip-address=127.0.0.1",
    ]
    head = subprocess.Popen([*start, "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"])
    end = time.monotonic() + START_S
    while not answers(port):
        assert head.poll() is None and time.monotonic() < end, "Ray does not start"
        time.sleep(1)
    yield f"127.0.0.1:{port}"
    head.terminate()
    head.wait(START_S)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def reproduced(folder: Path, how: Sequence[str]) -> Run:
    """The smoke profile, run in a folder with settings."""
    run = Run(str(folder))
    words = [word for setting in (*LIKELIEST, *how) for word in ("--set", setting)]
    command = [
        sys.executable,
        "-m",
        "coda_study.cli.main",
        "reproduce",
        "--profile",
        "smoke",
        "--run",
        run.name,
    ]
    subprocess.run([*command, *words], check=True)
    return run


def check_same(run: Run, near: Run) -> None:
    """Tables, trained weights and every evaluated episode."""
    assert list(run.usage.rglob("*.json"))  # it was served indeed
    tables = sorted(path.name for path in near.tables.glob("*.csv") if path.name != "deviations.csv")
    assert "table1.csv" in tables and len(tables) > 5
    trained = sorted(path.relative_to(near.folder) for path in near.folder.glob("**/model.safetensors"))
    assert len(trained) >= 5
    for path in [near.tables.relative_to(near.folder) / name for name in tables] + trained:
        assert (run.folder / path).read_bytes() == (near.folder / path).read_bytes(), str(path)
    for path in sorted(near.folder.glob("evaluation/*/*.parquet")):
        other = pd.read_parquet(run.folder / path.relative_to(near.folder))
        pd.testing.assert_frame_equal(other, pd.read_parquet(path), obj=path.name)


def test_served_models_give_the_same_tables(near, tmp_path):
    check_same(reproduced(tmp_path / "served", SERVED), near)


def test_a_fleet_on_ray_gives_the_same_tables(near, tmp_path, cluster):
    fleet = ["fleet.workers=2", f"fleet.ray={cluster}", "fleet.side_by_side=4"]
    check_same(reproduced(tmp_path / "ray", [*SERVED, *fleet]), near)
