"""Stages as jobs of clusters: the profiles that ship, planned, and a whole run through a `kubectl` that is
not one.
"""

from __future__ import annotations

import io
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from coda_lib.config import load_profile
from coda_lib.errors import StageError, UserError
from coda_lib.files import read_json
from coda_lib.paths import PROFILES, REPO
from coda_study.pipeline.drive import preview, reproduce
from coda_study.run import Run

CLUSTERS = ("slurm", "kubernetes")
SMALL = ("apps=[algebra]", "systems=[base, stage2]")
KUBECTL = f"""#!{sys.executable}
import json, os, subprocess, sys, yaml
from pathlib import Path
state, (verb, *words) = Path(__file__).parent, sys.argv[1:]
assert words[:2] == ["--namespace", "default"], words
if verb == "create":
    job, number = yaml.safe_load(sys.stdin), len(list(state.glob("[0-9]*.yaml")))
    (state / f"{{number}}.yaml").write_text(yaml.safe_dump(job))
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    end = f'"$@" > {{state}}/{{number}}.log 2>&1; echo $? > {{state}}/{{number}}.end'
    quiet = {{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}}
    subprocess.Popen(["/bin/sh", "-c", end, "sh", *command], **quiet)
    print(f"job.batch/coda-{{number}}")
elif verb == "get":
    end = state / (words[-1].rpartition("-")[2] + ".end")
    code = end.read_text().strip() if end.exists() else None
    print({{None: "found//", "0": "found/1/"}}.get(code, "found//1"), end="")
elif verb == "delete":
    (state / "deleted").open("a").write(" ".join(words) + "\\n")
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(str(tmp_path / "run"))


@pytest.fixture
def kubernetes(tmp_path: Path) -> Path:
    """A cluster of the shipped profile, whose `kubectl` runs jobs here and keeps what it was given."""
    folder = tmp_path / "kubernetes"
    shutil.copytree(PROFILES / "kubernetes", folder)
    settings = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(settings.replace("latency-wait: 60", "latency-wait: 2"))
    program = folder / "kubectl"
    program.write_text(KUBECTL)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_profiles_plan_the_same_stages_as_this_machine(run, fake_notebooks, fake_checkpoints, cluster):
    profile = load_profile("smoke", fake_checkpoints)
    here = preview(run, profile, "results", fake_notebooks)
    assert (
        sorted(preview(run, profile, "results", fake_notebooks, cluster=PROFILES / cluster)) == sorted(here)
        and len(here) > 40
    )


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_profiles_speak_of_rules_that_there_are(cluster):
    rules = set(re.findall(r"^rule (\w+):", (REPO / "Snakefile").read_text(), re.MULTILINE))
    settings = yaml.safe_load((PROFILES / cluster / "config.yaml").read_text())
    assert (
        {"explore", "judge", "specialize", "generalize", "evaluate"}
        < settings["set-resources"].keys()
        <= rules
    )


@pytest.mark.slow
def test_a_run_through_kubernetes(run, fake_notebooks, fake_checkpoints, kubernetes):
    profile, shown = load_profile("smoke", (*fake_checkpoints, *SMALL)), io.StringIO()
    reproduce(run, profile, 1, "results", False, Console(file=shown, width=200), fake_notebooks, kubernetes)
    assert "cluster kubernetes" in shown.getvalue() and run.table1.parent.exists()
    done = [read_json(path) for path in (run.folder / "stages").glob("*.json")]
    assert {one["state"] for one in done} == {"done"}
    jobs = [yaml.safe_load(path.read_text()) for path in kubernetes.glob("*.yaml") if path.stem.isdigit()]
    assert len(jobs) == len(done)
    gpus = [
        job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
        for job in jobs
    ]
    assert set(gpus) == {"0", "1"}
    assert (
        reproduce(run, profile, 1, "results", False, Console(file=shown), fake_notebooks, kubernetes).stages
        == 0
    )


@pytest.mark.slow
def test_a_job_that_fails_is_said(run, fake_notebooks, fake_checkpoints, kubernetes):
    notebook = fake_notebooks / "04_judge.ipynb"
    notebook.write_text(notebook.read_text().replace("write_text(", "raise_nothing_known("))
    with pytest.raises(StageError, match="judge/base/algebra"):
        profile = load_profile("smoke", (*fake_checkpoints, *SMALL))
        reproduce(run, profile, 1, "judge", False, Console(file=io.StringIO()), fake_notebooks, kubernetes)


def test_the_jobs_of_kubernetes_are_what_was_asked_for(tmp_path, kubernetes):
    script = tmp_path / "script.sh"
    script.write_text("exit 3")
    env = {"PATH": f"{kubernetes}:/usr/bin:/bin"}
    said = subprocess.run(
        ["coda-submit", "4", "6000", "1", str(script)], env=env, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "job.batch/coda-0"
    job = yaml.safe_load((kubernetes / "0.yaml").read_text())["spec"]
    (container,) = job["template"]["spec"]["containers"]
    assert job["backoffLimit"] == 0 and container["command"] == ["/bin/sh", str(script)]
    assert container["resources"]["requests"] == {"cpu": "4", "memory": "6000M"}
    until = time.monotonic() + 30
    while not (kubernetes / "0.end").exists() and time.monotonic() < until:
        time.sleep(0.01)
    status = subprocess.run(
        ["coda-status", "job.batch/coda-0"], env=env, capture_output=True, text=True, check=True
    )
    assert status.stdout == "failed\n"
    subprocess.run(["coda-cancel", "job.batch/coda-0", "job.batch/coda-1"], env=env, check=True)
    assert "coda-0 job.batch/coda-1" in (kubernetes / "deleted").read_text()


def test_a_folder_that_is_no_cluster_is_said(run, fake_notebooks, fake_checkpoints, tmp_path):
    with pytest.raises(UserError, match="no config.yaml: name a folder such as profiles/slurm"):
        preview(run, load_profile("smoke", fake_checkpoints), "results", fake_notebooks, cluster=tmp_path)
