"""Where the home folder cannot be written, caches go beside the runs, and the commands work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from coda_lib.paths import RESULTS
from coda_study.cli.caches import HUB, PLACES, settle_caches


@pytest.fixture
def unset(monkeypatch):
    for variable in (*PLACES, "HF_HUB_CACHE", "HF_TOKEN_PATH"):
        monkeypatch.setenv(variable, "")  # restored after the test, as it was
        monkeypatch.delenv(variable)
    return monkeypatch


@pytest.mark.parametrize("home", ["a file", "a file's folder", "~", "read-only"])
def test_caches_go_beside_the_runs(unset, tmp_path, home):
    (tmp_path / "file").touch()
    places = {"a file": tmp_path / "file", "a file's folder": tmp_path / "file" / "home", "~": "~"}
    if home == "read-only":
        (tmp_path / "home").mkdir(mode=0o555)
        if os.access(tmp_path / "home", os.W_OK):
            pytest.skip("root can write everywhere")
        places[home] = tmp_path / "home"
    unset.setenv("HOME", str(places[home]))
    unset.setenv("MPLCONFIGDIR", "mine")
    settle_caches(tmp_path / "caches")
    assert os.environ["MPLCONFIGDIR"] == "mine"
    others = [os.environ[variable] for variable in PLACES if variable != "MPLCONFIGDIR"]
    assert all(path.startswith(str(tmp_path / "caches")) for path in others) and len({*others}) == len(others)


def test_a_home_that_can_be_written_is_used(unset, tmp_path):
    unset.setenv("HOME", str(tmp_path / "not yet there"))
    settle_caches(tmp_path / "caches")
    assert not [variable for variable in PLACES if variable in os.environ]


def test_what_was_downloaded_is_read_where_it_is(unset, tmp_path):
    (tmp_path / HUB / "hub").mkdir(parents=True)
    unset.setenv("HOME", str(tmp_path))
    settle_caches(tmp_path / "caches")
    assert os.environ["HF_HUB_CACHE"] == str(tmp_path / HUB / "hub") and "HF_TOKEN_PATH" not in os.environ


@pytest.mark.slow
def test_a_picture_and_a_plan_of_a_run_need_no_home(tmp_path):
    """Matplotlib's, fontconfig's and Snakemake's caches; without `settle_caches` the latter fails."""
    (tmp_path / "file").touch()
    environment = {name: value for name, value in os.environ.items() if name not in PLACES}
    environment |= {"HOME": str(tmp_path / "file" / "home")}
    for words in (
        ["episode", "gis/A-01", "--seed", "1", "--save", str(tmp_path / "episode.png")],
        [
            "reproduce",
            "--profile",
            "smoke",
            "--run",
            str(tmp_path / "run"),
            "--until",
            "explore",
            "--dry-run",
        ],
    ):
        command = [sys.executable, "-m", "coda_study.cli.main", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert str(tmp_path / "file") not in done.stderr
    assert (tmp_path / "episode.png").is_file() and (RESULTS / ".cache").is_dir()
