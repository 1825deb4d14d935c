"""The manifest of a run."""

from __future__ import annotations

import subprocess

from coda_lib.config import load_profile
from coda_lib.files import read_json, sha256, write_json, write_text
from coda_study.evaluation.provenance import (
    build_manifest,
    code_state,
    hardware,
    package_versions,
    write_manifest,
)
from coda_study.run import Run


def git(folder, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_state_of_the_code(tmp_path):
    assert code_state(tmp_path) == {"commit": None, "changed": None}
    git(tmp_path, "init", "-q")
    assert code_state(tmp_path) == {"commit": None, "changed": False}
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-q", "-m", "a")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert code_state(tmp_path) == {"commit": commit, "changed": False}
    (tmp_path / "a").write_text("2")
    assert code_state(tmp_path) == {"commit": commit, "changed": True}


def test_versions_and_hardware():
    versions = package_versions()
    assert versions["torch"].startswith("2.13.0") and versions["python"].startswith("3.")
    machine = hardware()
    assert machine["cores"] >= 1 and machine["memory_gib"] > 0.1 and machine["processor"]


def record(stage: str, started: float, **changes) -> dict:
    empty = {"inputs": {}, "outputs": {}, "state": "done", "wall_s": 2.5, "peak_rss_mb": 100.0, "error": None}
    return (
        {"stage": stage, "notebook": "03_explore.ipynb", "parameters": ["app=gis"], "started": started}
        | empty
        | changes
    )


def test_the_manifest_joins_what_the_stages_recorded(tmp_path):
    run, profile = Run(str(tmp_path / "run")), load_profile("smoke")
    write_json(
        run.stage_record("judge"),
        record("judge", 2.0, inputs={"rollouts": "r", "data": "d"}, peak_rss_mb=300.5),
    )
    write_json(run.stage_record("explore"), record("explore", 1.0, outputs={"rollouts": "r"}))
    write_json(run.stage_record("broken"), record("broken", 3.0, state="failed", outputs={"x": "y"}))
    write_text(run.table1, "table")
    manifest = build_manifest(run, profile)
    assert list(manifest["stages"]) == ["explore", "judge"]
    assert manifest["inputs"] == {
        "data": "d"
    }  # what one stage writes and another reads is no input of the run
    assert manifest["outputs"] == {"rollouts": "r", str(run.table1): sha256(run.table1)}
    assert manifest["wall_s"] == 5.0 and manifest["peak_rss_mb"] == 300.5 and manifest["seed"] == 7
    assert manifest["profile"]["specialize"]["group_size"] == 4
    write_manifest(run, profile)
    assert read_json(run.manifest)["stages"] == manifest["stages"]


def test_a_manifest_of_nothing(tmp_path):
    manifest = build_manifest(Run(str(tmp_path / "run")), load_profile("smoke"))
    assert manifest["stages"] == {} and manifest["peak_rss_mb"] == 0
