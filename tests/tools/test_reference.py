"""The committed reference run and what README and docs/ show of it."""

from __future__ import annotations

import shutil

import pytest
from tiny_models import made_up

from coda_lib.errors import UserError
from coda_lib.evaluation.ablations import TABLES
from coda_lib.files import read_json, write_json, write_text
from coda_lib.paths import REFERENCE, REPO
from coda_lib.run import Run
from coda_lib.trajectory import save_trajectories
from tools import reference


def test_an_unfinished_run_is_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="is not finished"):
        reference.copy_run(Run(str(tmp_path)))


def test_small_files_are_copied_and_trajectories_are_not(tmp_path, monkeypatch) -> None:
    run, committed = Run(str(tmp_path / "run")), tmp_path / "reference"
    monkeypatch.setattr(reference, "REFERENCE", committed)
    write_json(run.manifest, {})
    for name in ("report.html", "tables/table1.csv", "evaluation/base/gis.parquet", "evaluation/base/gis.trajectories.parquet",
                 "generalist/model.safetensors", "generalist/metrics.jsonl"):  # fmt: skip
        write_text(run.folder / name, name)
    save_trajectories(run.judged("base", "gis"), [made_up()])
    assert reference.copy_run(run) == committed / "run"
    names = {str(path.relative_to(committed / "run")) for path in committed.rglob("*") if path.is_file()}
    small = {"manifest.json", "report.html", "judged/votes.parquet"}
    assert names == small | {"tables/table1.csv", "evaluation/base/gis.parquet", "generalist/metrics.jsonl"}


@pytest.mark.skipif(not (REFERENCE / "laptop").is_dir(), reason="no reference run is committed")
@pytest.mark.parametrize(
    ("page", "name"),
    [
        pytest.param(page, name, marks=pytest.mark.slow if name == "commands" else ())
        for page, parts in reference.PARTS.items()
        for name in parts
    ],
)
def test_the_pages_show_the_reference_run_word_for_word(page, name) -> None:
    assert reference.marked(name, reference.PARTS[page][name](REFERENCE / "laptop")) in (REPO / page).read_text()


def test_renewing_replaces_what_is_between_the_marks_and_nothing_else(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(reference, "PARTS", {"page.md": {"a": lambda folder: f"of {folder}", "b": lambda folder: r"\1"}})
    write_text(tmp_path / "page.md", "x\n<!-- a -->old<!-- /a -->\ny\n<!-- b --><!-- /b -->\n")
    reference.show("RUN", tmp_path)
    a, b = reference.marked("a", "of RUN"), reference.marked("b", r"\1")
    assert (tmp_path / "page.md").read_text() == f"x\n{a}\ny\n{b}\n"
    write_text(tmp_path / "page.md", "<!-- a -->without an end")
    with pytest.raises(UserError, match="page.md has no part between <!-- a --> and <!-- /a -->"):
        reference.show("RUN", tmp_path)


@pytest.mark.skipif(not (REFERENCE / "laptop").is_dir(), reason="no reference run is committed")
def test_the_reference_run_has_the_ablations_beside_it() -> None:
    tables = {path.name: path.read_bytes() for path in (REFERENCE / "ablations" / "tables").glob("*.csv")}
    beside = {path.name: path.read_bytes() for path in (REFERENCE / "laptop" / "ablations").glob("*.csv")}
    assert beside and beside == {name: tables[name] for name in beside} and set(beside) == {f"{part}.csv" for part in TABLES}


@pytest.mark.skipif(not (REFERENCE / "laptop").is_dir(), reason="no reference run is committed")
@pytest.mark.parametrize("name", sorted(path.parents[1].name for path in REFERENCE.glob("*/tables/table1.csv")))
def test_the_tables_of_a_reference_run_are_those_of_its_episodes_and_votes(tmp_path, monkeypatch, name) -> None:
    for part in ("save", "html_report"):  # the pictures and the page are made of the tables
        monkeypatch.setattr(reference, part, lambda *of: None)
    shutil.copytree(REFERENCE / name, tmp_path / name)
    reference.renew(Run(str(tmp_path / name)))
    for table in sorted((REFERENCE / name / "tables").glob("*.csv")):
        assert (tmp_path / name / "tables" / table.name).read_text() == table.read_text(), table.name


@pytest.mark.skipif(not (REFERENCE / "laptop").is_dir(), reason="no reference run is committed")
def test_the_reference_run_is_of_committed_code() -> None:
    manifest = read_json(REFERENCE / "laptop" / "manifest.json")
    assert manifest["code"]["commit"] and not manifest["code"]["changed"]
