"""Training by two processes is training by one: the same losses, and checkpoints that either reads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from tiny_models import made_up

from coda_lib.action import Action
from coda_lib.config import load_profile
from coda_lib.errors import StageError, UserError
from coda_lib.models.local import load_network
from coda_lib.paths import PROFILES, REPO
from coda_lib.trajectory import save_trajectories
from coda_study.run import Run
from coda_study.stages import generalize

FIXTURES = Path(__file__).parents[2] / "fixtures"

pytest_plugins = ("tiny_checkpoints",)
TWO = "profiles/accelerate/cpu-2.yaml"
ACTS = (
    ("Click 'Grid'.", Action.click(0.25, 0.5)),
    ("Click 'Axes'.", Action.click(0.75, 0.75)),
    ("DONE", Action.done()),
)
CLOSE = 1e-4


def log_of(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def alike(one: Path, other: Path) -> None:
    first, second = log_of(one), log_of(other)
    assert [row["step"] for row in first] == [row["step"] for row in second] and first
    for row, same in zip(first, second, strict=True):
        assert row["loss"] == pytest.approx(same["loss"], abs=CLOSE)
        assert row["grad_norm"] == pytest.approx(same["grad_norm"], rel=1e-2) and row["grad_norm"] > 0
    weights = [load_network(folder, trainable=False, device="cpu").state_dict() for folder in (one, other)]
    assert all(torch.allclose(value, weights[1][name], atol=2e-3) for name, value in weights[0].items())


def grpo(planner: Path, folder: Path, processes: int, steps: int = 2, at_once: int = 4) -> Path:
    script = [str(FIXTURES / "distributed_training.py"), str(planner), str(folder), str(steps), str(at_once)]
    launcher = (
        ["-m", "accelerate.commands.launch", "--config_file", str(REPO / TWO)] if processes == 2 else []
    )
    paths = os.pathsep.join([str(FIXTURES), str(REPO)])
    environment = os.environ | {"PYTHONPATH": paths, "ACCELERATE_USE_CPU": "true"}
    subprocess.run([sys.executable, *launcher, *script], check=True, env=environment)
    return folder


@pytest.mark.slow
def test_stage_1_by_two_processes_is_stage_1_by_one(tiny_planner, tmp_path):
    one, two = (grpo(tiny_planner, tmp_path / str(count), count) for count in (1, 2))
    assert [path.name for path in sorted(two.glob("* of *"))] == ["0 of 2", "1 of 2"] and (
        one / "0 of 1"
    ).exists()
    alike(one, two)
    for folder, processes in ((one, 2), (two, 1)):  # each goes on where the other was
        further = tmp_path / f"on {processes}"
        shutil.copytree(folder, further)
        grpo(tiny_planner, further, processes, steps=4)
    alike(tmp_path / "on 1", tmp_path / "on 2")
    assert [row["step"] for row in log_of(tmp_path / "on 1")] == [1, 2, 3, 4]


@pytest.fixture
def make_run(tmp_path: Path, tiny_planner: Path, tiny_executor: Path):
    def make(name: str, *changes: str) -> Run:
        run = Run(str(tmp_path / name))
        models = (
            f"models.planner={tiny_planner}",
            f"models.executor={tiny_executor}",
            f"models.judge={tiny_planner}",
        )
        run.store(load_profile("smoke", ("apps=[gis]", "generalize.batch_size=4", *models, *changes)))
        save_trajectories(run.judged("specialist", "gis"), [made_up(i, ACTS, app="gis") for i in range(4)])
        return run

    return make


@pytest.mark.slow
def test_stage_2_by_two_processes_is_stage_2_by_one(make_run):
    alone, both = make_run("alone"), make_run("both", f"generalize.accelerate={TWO}")
    alike(generalize.run(alone), generalize.run(both))
    assert torch.load(
        next(both.generalist.glob("checkpoints/*/rng_state_1.pth")), weights_only=False
    )  # of the second process


def test_what_cannot_be_launched_is_said(make_run):
    with pytest.raises(UserError, match="there is no profiles/accelerate/none.yaml: give a configuration"):
        generalize.run(make_run("none", "generalize.accelerate=profiles/accelerate/none.yaml"))


@pytest.mark.slow
def test_samples_that_cannot_be_shared_out_are_said(make_run, capfd):
    with pytest.raises(StageError, match=f"training by {TWO} failed"):
        generalize.run(make_run("odd", f"generalize.accelerate={TWO}", "generalize.batch_size=3"))
    assert "3 samples a step cannot be divided among 2 processes" in capfd.readouterr().err


@pytest.mark.parametrize("path", sorted((PROFILES / "accelerate").glob("*.yaml")), ids=lambda path: path.stem)
def test_configurations_are_what_accelerate_reads(path):
    read, given = load_config_from_file(str(path)), yaml.safe_load(path.read_text())
    assert read.num_processes == given["num_processes"] and str(read.distributed_type).endswith(
        given["distributed_type"]
    )
    for section in ("fsdp_config", "deepspeed_config"):
        assert (getattr(read, section, None) or {}) == given.get(section, {})
