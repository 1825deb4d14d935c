"""`coda export`: what a hub's library loads back, cards with the right head, and nothing written over."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml
from datasets import load_dataset
from tiny_models import NO, YES, made_up, save_tiny

from coda_lib.config import load_profile
from coda_lib.files import write_text
from coda_lib.task import parse_task
from coda_lib.trajectory import save_trajectories
from coda_study.draws import train_tasks
from coda_study.formats.export import LEFT_OUT, export
from coda_study.run import Run

APPS = ("algebra", "gis")


@pytest.fixture
def run(tmp_path) -> Run:
    """A run that has judged the base planner's rollouts and trained a specialist and a generalist."""
    run = Run(str(tmp_path / "run"))
    run.store(load_profile("smoke", ("apps=[algebra,gis]", "explore.base.tasks=2")))
    for app in APPS:
        judged = made_up(1, verdicts=[YES]), made_up(2, success=False, verdicts=[NO])
        named = [replace(trajectory, app=app, task_id=f"{app}/A-01") for trajectory in judged]
        save_trajectories(run.judged("base", app), named)
    for folder in (run.specialist("gis"), run.generalist):
        save_tiny(folder)
        (folder / "checkpoints").mkdir()
        write_text(folder / "checkpoints" / "optimizer.pt", "of the trainer")
        for name in LEFT_OUT:
            write_text(folder / name, "{}")
    return run


def head(path) -> dict:
    return yaml.safe_load(path.read_text().split("---")[1])


def test_datasets_loads_the_trajectories_and_the_tasks_back(run, tmp_path):
    counts = export(run, tmp_path / "out")

    def load(name, split):
        return load_dataset(str(tmp_path / "out/dataset"), name, split=split, cache_dir=str(tmp_path / "c"))

    rows = load("trajectories", "base")
    assert len(rows) == counts["trajectories of base"] == 4
    good, bad = rows[0], rows[1]
    ours = made_up(1)
    facts = (good["instruction"], good["success"], good["stop"], good["app"])
    assert facts == (ours.instruction, True, "DONE", "algebra")
    assert good["positive_steps"] == [0, 1] and bad["positive_steps"] == [] and bad["success"] is False
    assert good["steps"][0]["screenshot"].convert("RGB").tobytes() == ours.steps[0].image.tobytes()
    assert [step["plan"] for step in good["steps"]] == ["Click 'Grid'.", "DONE"]
    assert good["steps"][0]["action"] == "click(start_box='(21,42)')" and good["verdicts"] == [YES]
    tasks, drawn = load("tasks", "train"), train_tasks(run, "algebra")
    assert len(tasks) == counts["train tasks"] == 4
    assert len(load("tasks", "test")) == counts["test tasks"] == 65
    assert parse_task(json.loads(tasks[0]["file"]), tasks[0]["task_id"], "row") == drawn[0]


def test_models_are_whole_and_carry_a_card(run, tmp_path):
    export(run, tmp_path / "out")
    models = tmp_path / "out" / "models"
    assert {path.name for path in models.iterdir()} == {"specialist-gis", "generalist"}
    names = {path.name for path in (models / "generalist").iterdir()}
    assert {"config.json", "model.safetensors", "README.md"} <= names
    assert not names & {"checkpoints", *LEFT_OUT}
    card = (models / "specialist-gis" / "README.md").read_text()
    assert head(models / "specialist-gis" / "README.md")["license"] == "apache-2.0"
    assert "coda evaluate --planner FOLDER --app gis --profile smoke\n" in card
    assert "decoupled GRPO" in card and "seed 7" in card and "not measured" in card
    configs = head(tmp_path / "out/dataset/README.md")["configs"]
    assert [config["config_name"] for config in configs] == ["trajectories", "tasks"]


def test_nothing_is_written_over_and_an_unfinished_run_is_named(coda, run, tmp_path):
    write_text(tmp_path / "out" / "mine.txt", "mine")
    code, _, message = coda("export", str(run.folder), str(tmp_path / "out"))
    assert code == 2 and "is there already" in message
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
    run.judged("base", "gis").unlink()
    code, _, message = coda("export", str(run.folder), str(tmp_path / "new"))
    assert code == 2 and "no judged trajectories" in message and not (tmp_path / "new").exists()
