"""`coda export`: what a hub's library loads back, cards with the right head, and nothing written over."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
import yaml
from datasets import load_dataset
from tiny_models import NO, YES, made_up, save_tiny

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.files import sha256, write_json, write_text
from coda_lib.task import parse_task
from coda_lib.trajectory import save_trajectories
from coda_study.draws import train_tasks
from coda_study.evaluation.provenance import build_manifest
from coda_study.formats.export import LEFT_OUT, TASKS, TRAJECTORIES, export
from coda_study.formats.metadata import PROFILES
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


def test_croissant_reads_what_was_exported(run, tmp_path):
    mlcroissant = pytest.importorskip("mlcroissant")
    export(run, tmp_path / "out")
    data = mlcroissant.Dataset(tmp_path / "out" / "dataset" / "croissant.json")
    assert not data.metadata.ctx.issues.errors and not data.metadata.ctx.issues.warnings
    rows = load_dataset(str(tmp_path / "out/dataset"), "trajectories", split="base", cache_dir=str(tmp_path))
    read = list(data.records("trajectories/base"))
    assert len(read) == len(rows) == 4

    def value(record, column):
        found = record[f"trajectories/base/{column}"]
        return found.decode() if isinstance(found, bytes) else found

    assert [value(one, "instruction") for one in read] == rows["instruction"]
    assert [list(value(one, "positive_steps")) for one in read] == rows["positive_steps"]
    assert [value(one, "success") for one in read] == rows["success"]
    pictures = [value(one, "final_screenshot").convert("RGB").tobytes() for one in read]
    assert pictures == [one.convert("RGB").tobytes() for one in rows["final_screenshot"]]
    described = {field.id.split("/", 2)[2] for one in data.metadata.record_sets for field in one.fields}
    assert described >= set(TRAJECTORIES) | set(TASKS)


def test_the_crate_says_which_workflow_made_which_files_from_which_settings(run, tmp_path):
    rocrate = pytest.importorskip("rocrate.rocrate")
    write_text(run.figures / "a.svg", "<svg/>")
    commit = "a" * 40
    manifest = build_manifest(run, run.profile()) | {"code": {"commit": commit, "changed": False}}
    write_json(run.manifest, manifest)
    export(run, tmp_path / "out")
    crate = rocrate.ROCrate(tmp_path / "out")
    workflow, (action,) = crate.mainEntity, crate.get_by_type("CreateAction")
    assert (
        workflow["identifier"] == f"swh:1:rev:{commit}"
        and workflow["programmingLanguage"]["name"] == "Snakemake"
    )
    assert {one.id for one in crate.root_dataset["conformsTo"]} > set(PROFILES)  # and that of workflows
    assert action["instrument"] == workflow and action["endTime"] == manifest["written"]
    assert [one.id for one in action["object"]] == ["run/profile.yaml"]
    made = {one.id: one for one in action["result"]}
    there = {
        str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()
    }
    assert made.keys() == there - {"ro-crate-metadata.json", "run/Snakefile", "run/profile.yaml"}
    assert {
        "dataset/croissant.json",
        "models/generalist/model.safetensors",
        "run/figures/a.svg",
    } < made.keys()
    assert all(one["sha256"] == sha256(tmp_path / "out" / name) for name, one in made.items())
    torch = crate.get("#torch")
    assert (
        torch["softwareVersion"] == manifest["versions"]["torch"]
        and torch in workflow["softwareRequirements"]
    )


def test_a_changed_checkout_has_no_identifier(run, tmp_path):
    rocrate = pytest.importorskip("rocrate.rocrate")
    write_json(
        run.manifest, build_manifest(run, run.profile()) | {"code": {"commit": "a" * 40, "changed": True}}
    )
    export(run, tmp_path / "out")
    assert "identifier" not in rocrate.ROCrate(tmp_path / "out").mainEntity.properties()


def test_without_the_libraries_nothing_is_written(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rocrate", None)
    with pytest.raises(UserError, match=r"pip install --editable '\.\[hub\]'"):
        export(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
