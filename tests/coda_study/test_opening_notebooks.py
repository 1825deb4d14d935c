"""Notebooks opened by a person: in a fresh clone after `make check`, without it, with wrong parameters."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import papermill
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.files import sha256
from coda_lib.paths import NOTEBOOKS, REFERENCE, REPO, RESULTS
from coda_study import notebooks
from coda_study.notebooks import RANGES, check_parameters, fault_of, inputs, open_run, task_number
from coda_study.pipeline.dependencies import PACKAGES
from coda_study.pipeline.notebook import declared_parameters
from coda_study.run import Run

STORY = [path.name for path in sorted(NOTEBOOKS.glob("*.ipynb")) if path.name < "11"]
ANSWERS = [f"solutions/{name}" for name in STORY if name > "03"]
SMALL = (
    "apps=[algebra]", "explore.base.tasks=6", "explore.specialist.tasks=4", "test_tasks=1",
    "evaluation_runs=1", "specialize.steps=1", "generalize.steps=1", "bootstrap_resamples=50",
)  # fmt: skip
CHECK = f"""
from coda_lib.config import load_profile
from coda_lib.files import write_json
from coda_study.run import Run
from coda_study.stages import baselines, evaluate, explore, generalize, judge, judges, specialize
run = Run("check")
run.store(load_profile("smoke", {SMALL}))
for planner in ("base", "specialist"):
    if planner == "specialist":
        specialize.run(run, planner, "algebra")
    explore.run(run, planner, "algebra")
    judge.run(run, planner, "algebra")
generalize.run(run)
for system in run.profile().systems:
    evaluate.run(run, system, "algebra")
baselines.run(run, "algebra")
judges.run(run, "algebra")
write_json(run.manifest, {{}})
"""  # the stages of `make check` in one process, which takes a tenth of the time


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A clone of the kit in which a check has been run."""
    folder = tmp_path_factory.mktemp("clone")
    for name in PACKAGES:
        shutil.copytree(REPO / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "results").mkdir()
    for name in ("data", "profiles", "notebooks", "results/reference"):
        (folder / name).symlink_to(REPO / name)
    environment = os.environ | {"PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, "-c", CHECK], cwd=folder, env=environment, check=True)
    return folder


def opened(clone: Path, name: str, folder: Path, first: str = "") -> nbformat.NotebookNode:
    """A notebook of which all cells were run in a folder, `first` at the end of its parameters."""
    book = nbformat.read(NOTEBOOKS / name, as_version=4)
    (parameters,) = [cell for cell in book.cells if "parameters" in cell.metadata.get("tags", [])]
    parameters.source += f"\n{first}"
    client = NotebookClient(book, timeout=600, kernel_name="python3")
    client.execute(cwd=str(folder), env=os.environ | {"PYTHONPATH": str(clone)})
    return book


def fault(clone: Path, name: str, folder: Path, first: str = "") -> list[str]:
    """What a person sees of the failure of a notebook, as lines."""
    with pytest.raises(CellExecutionError) as caught:
        opened(clone, name, folder, first)
    return str(caught.value).strip().splitlines()


def printed(book: nbformat.NotebookNode) -> str:
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    return "".join(output.text for output in outputs if output.output_type == "stream")


def hashes(folder: Path) -> dict[str, str]:
    return {str(path): sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.long
@pytest.mark.parametrize("name", STORY[::-1])
def test_every_notebook_runs_right_after_a_check_in_any_order(clone, tmp_path, name):
    before = hashes(clone / "results" / "check")
    said = printed(opened(clone, name, tmp_path))
    shown = said.count("shown is the small run of `make check`, in a copy (results/check-copy).")
    assert shown == (name[:2] not in ("00", "01", "02")), said
    if shown:
        assert "Your own is made by `coda reproduce --profile laptop --until " in said
    assert hashes(clone / "results" / "check") == before
    assert {path.name for path in (clone / "results").iterdir() if path.is_dir()} <= {
        "check", "check-copy", "reference",
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_run_right_after_a_check_too(clone, tmp_path, name):
    said = printed(opened(clone, name, tmp_path, "committed = False"))
    assert "shown is the small run of `make check`, in a copy (results/check-copy)." in said


@pytest.mark.slow
def test_where_nothing_is_there_one_line_names_the_command(clone, tmp_path):
    manifest = clone / "results" / "check" / "manifest.json"
    manifest.rename(manifest.with_suffix(".away"))  # an unfinished check does not count
    try:
        *_, line = seen = fault(clone, "05_reward.ipynb", tmp_path)
    finally:
        manifest.with_suffix(".away").rename(manifest)
    needed = "results/laptop/judged/base/algebra.parquet is not there: it is made by"
    assert line == f"error: {needed} `coda reproduce --profile laptop --until judge`"
    assert not any("Traceback" in text for text in seen)


@pytest.mark.parametrize(
    ("place", "until"),
    [
        ("tables/curve.csv", "curve"), ("tables/table1.csv", "results"),
        ("ablations/transfer/gis.parquet", "ablations"), ("notes.txt", ""),
    ],
)  # fmt: skip
def test_a_file_of_a_run_that_a_cell_misses_is_one_line(place, until):
    made = f": it is made by `coda reproduce --profile laptop --run nobodys --until {until}`"
    line = f"results/nobodys/{place} is not there{made * bool(until)}"
    for reader in (pd.read_csv, pd.read_parquet):
        with pytest.raises(FileNotFoundError) as caught:
            reader(RESULTS / "nobodys" / place)
        assert notebooks.absent(caught.value) == line


def test_a_folder_that_is_no_run_has_no_command():
    for name in (
        str(RESULTS / "no run" / "tables" / "a.csv"),
        bytes(RESULTS / "no run" / "tables" / "a.csv"),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            open(name)
        assert notebooks.absent(caught.value) == "results/no run/tables/a.csv is not there"


def test_of_any_other_file_the_traceback_is_shown(tmp_path):
    for path in (tmp_path / "a.csv", RESULTS / "a.csv", REFERENCE / "laptop" / "tables" / "a.csv"):
        with pytest.raises(FileNotFoundError) as caught:
            pd.read_csv(path)
        assert notebooks.absent(caught.value) == ""


@pytest.mark.slow
def test_papermill_takes_no_other_run_and_its_copy_keeps_the_traceback(clone, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(clone))
    source, copy = NOTEBOOKS / "05_reward.ipynb", tmp_path / "copy.ipynb"
    for given, message in (
        ({"run": "laptop"}, "results/laptop/judged/base/algebra.parquet is not there"),
        ({"rnu": "check"}, "unknown parameter 'rnu': this notebook declares profile, run, app, group"),
        ({"run": "check"}, "run check has profile smoke, not laptop"),
        ({"group": "abc"}, "parameter group must be int, not 'abc'"),
    ):
        with pytest.raises(papermill.PapermillExecutionError, match=message) as caught:
            papermill.execute_notebook(source, copy, given, progress_bar=False, cwd=str(tmp_path))
        assert len(caught.value.traceback) > 2 and "Traceback" in copy.read_text()
    assert not (clone / "results" / "laptop").exists()


@pytest.mark.slow
def test_a_wrong_parameter_is_one_line(clone, tmp_path):
    *_, line = fault(clone, "00_quickstart.ipynb", tmp_path, "runs = 0")
    assert line == "error: parameter runs must be at least 1, not 0"


def test_every_whole_number_of_a_notebook_has_a_range():
    books = [*NOTEBOOKS.glob("*.ipynb"), *NOTEBOOKS.glob("solutions/*.ipynb")]
    whole = {name for book in books for name, kind in declared_parameters(book).items() if kind == "int"}
    assert whole == RANGES.keys()


@pytest.mark.parametrize(
    ("name", "kind", "wrong", "right", "message"),
    [
        ("runs", "int", 0, 1, "parameter runs must be at least 1, not 0"),
        ("states", "int", 0, 16, "parameter states must be at least 1, not 0"),
        ("group", "int", "abc", 2, "parameter group must be int, not 'abc'"),
        ("group", "int", 1, 8, "parameter group must be at least 2, not 1"),
        ("threads", "int", 2.5, 2, "parameter threads must be int, not 2.5"),
        ("threads", "int", True, 1024, "parameter threads must be int, not True"),
        ("seed", "int", -1, 0, "parameter seed must be at least 0, at most 4294967295, not -1"),
        ("profile", "str", "labtop", "laptop", "parameter profile is 'labtop': choose one of ablations, "),
        ("app", "str", "Algebra", "spectra", "parameter app is 'Algebra': choose one of algebra, biochem"),
        ("planner", "str", "stage1", "round1", "parameter planner is 'stage1': choose one of base, round1"),
        ("system", "str", "specialist", "stage2", "parameter system is 'specialist': choose one of base, "),
        ("kind", "str", "pymol", "PyMOL", "parameter kind is 'pymol': choose one of "),
        ("committed", "bool", 1, True, "parameter committed must be bool, not 1"),
    ],
)
def test_values_that_a_parameter_cannot_have(name, kind, wrong, right, message):
    assert fault_of(name, kind, right) is None
    assert fault_of(name, kind, wrong).startswith(message)
    names = {"profile": "smoke", "run": "x", "__annotations__": {"profile": str, "run": str}}
    names["__annotations__"][name] = {"int": int, "str": str, "bool": bool}[kind]
    check_parameters(names | {name: right})
    with pytest.raises(UserError) as caught:
        check_parameters(names | {name: wrong})
    assert str(caught.value).startswith(message)


def test_a_task_beyond_the_last_is_one_line():
    assert task_number("abc", 2) == "c"
    with pytest.raises(UserError, match="^parameter number must be at most 2, the last task's, not 3$"):
        task_number("abc", 3)


def test_a_run_has_one_profile_and_names_of_its_own(tmp_path):
    run = Run(str(tmp_path / "mine"))
    run.store(load_profile("smoke", ("seed=8",)))
    with pytest.raises(UserError, match="run mine has profile smoke, not laptop: give profile smoke"):
        open_run(run.name, "laptop", "explore", "base", "gis")
    assert open_run(run.name, "smoke", "explore", "base", "gis") == run
    command = (
        f"`coda reproduce --profile smoke --run {run.name} --until explore_specialists`, with each --set"
    )
    with pytest.raises(UserError, match=command):
        open_run(run.name, "smoke", "judge", "specialist", "gis")
    with pytest.raises(UserError, match="profile smoke has no ablation 'turth'; it has everything, truth"):
        open_run(run.name, "smoke", "variant", "turth")
    with pytest.raises(UserError, match="planner is 'base': choose one that is trained"):
        open_run(run.name, "smoke", "specialize", "base", "gis")


def test_what_every_stage_reads_is_listed_and_has_a_command(tmp_path):
    run, profile = Run(str(tmp_path / "run")), load_profile("smoke")
    for book in NOTEBOOKS.glob("*.ipynb"):
        source = "".join(line for cell in json.loads(book.read_text())["cells"] for line in cell["source"])
        calls = [part.partition(")")[0] for part in source.split("(run, profile, ")[1:]]
        for call in calls:
            stage, *names = call.removeprefix("threads, ").replace('"', "").split(", ")
            given = {"planner": "specialist", "app": "gis", "system": "stage1", "variant": "truth"}
            for path in inputs(run, profile, stage, *(given[name] for name in names)):
                assert "--until" in notebooks._command(run, profile, path, "")
