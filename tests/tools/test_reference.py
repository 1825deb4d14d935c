"""The committed reference run and what README and docs/ show of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import LABEL, made_up

from coda_lib.agent import load_agent
from coda_lib.config import GeneralizeSettings, load_profile
from coda_lib.dataset import sft_rows
from coda_lib.errors import UserError
from coda_lib.files import read_json, write_text
from coda_lib.paths import CHECKPOINTS, REFERENCE, REPO
from coda_lib.rollout import jobs, rollout
from coda_lib.task import test_tasks as held_out
from coda_lib.trainer import generalize
from coda_lib.trajectory import load_trajectories, save_trajectories
from coda_study.evaluation.ablations import TABLES
from coda_study.evaluation.replay import without_screens
from coda_study.run import Run
from sciencedesk import ScienceDesk
from tools import pages, reference


def test_an_unfinished_run_is_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="is not finished"):
        reference.copy_run(Run(str(tmp_path)))


def test_a_run_without_the_votes_of_the_run_that_explored_is_refused(tmp_path) -> None:
    run = Run(str(tmp_path / "run"))
    run.store(load_profile("smoke", ["explored=first"]))
    write_text(run.report, "a report")
    save_trajectories(run.judged("specialist", "gis"), [made_up()])
    with pytest.raises(
        UserError, match=f"no votes on the base planner's attempts; they are in {tmp_path / 'first'}"
    ):
        reference.copy_run(run)


def test_what_is_small_is_copied_and_of_one_run_its_planners_and_notebooks_too(tmp_path, monkeypatch) -> None:
    committed = tmp_path / "reference"
    monkeypatch.setattr(reference, "REFERENCE", committed)
    run, shown = Run(str(tmp_path / "run")), Run(str(tmp_path / reference.SHOWN))
    for one in (run, shown):
        one.store(load_profile("smoke"))
        for name in ("manifest.json", "report.html", "tables/table2.csv", "evaluation/base/gis.parquet",
                     "generalist/metrics.jsonl", "generalist/done.json", "generalist/config.json",
                     "notebooks/00_quickstart.ipynb", "notebooks/03_explore-base-gis.ipynb",
                     "notebooks/03_explore-base-algebra.ipynb",
                     "specialist/gis/groups/1.parquet", "specialist/algebra/groups/1.parquet",
                     "curve/10-judged.parquet", "curve/10-truth.parquet"):  # fmt: skip
            write_text(one.folder / name, name)
        save_file({"weight": torch.full((2, 3), 1.0078125)}, one.generalist / "model.safetensors")
        for path in (one.judged("base", "gis"), one.trajectories("base", "gis")):
            save_trajectories(path, [made_up()])
        assert reference.copy_run(one) == committed / one.folder.name

    def names(name: str) -> set[str]:
        return {
            str(path.relative_to(committed / name))
            for path in (committed / name).rglob("*")
            if path.is_file()
        }

    small = {"manifest.json", "profile.yaml", "report.html", "judged/votes.parquet", "tables/table2.csv",
             "evaluation/base/gis.parquet", "evaluation/base/gis.actions.parquet", "generalist/metrics.jsonl",
             "curve/10-truth.parquet"}  # fmt: skip
    assert names("run") == small
    planner = {f"generalist/{name}" for name in ("model.safetensors", "config.json", "README.md")}
    notebooks = {"notebooks/00_quickstart.ipynb", "notebooks/03_explore-base-gis.ipynb"}
    assert names(reference.SHOWN) == small | planner | notebooks | {"specialist/gis/groups/1.parquet"}
    kept = Run(str(committed / reference.SHOWN))
    assert load_file(kept.generalist / "model.safetensors")["weight"].dtype == torch.bfloat16
    assert load_trajectories(kept.actions("base", "gis"), screens=False) == [without_screens(made_up())]


def test_weights_that_16_bit_cannot_hold_are_not_committed(tmp_path) -> None:
    save_file({"weight": torch.full((2, 3), 1.001)}, weights := tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="was played with weights of 32 bit: train it again"):
        reference.halve(weights)
    assert load_file(weights)["weight"].dtype == torch.float32


def test_a_committed_planner_replays_the_episodes_of_the_trained_one(tmp_path) -> None:
    profile = load_profile("smoke")
    rows = sft_rows([made_up(0), made_up(1)], profile.prompts, LABEL)
    few = GeneralizeSettings(steps=2, batch_size=2, learning_rate=1e-3)
    trained = generalize(rows, CHECKPOINTS / "planner", few, tmp_path / "trained", 7)
    shutil.copytree(trained, committed := tmp_path / "committed")
    reference.halve(committed / "model.safetensors")

    def played(planner: Path) -> bytes:
        agent, todo = load_agent(profile, "stage2", str(planner)), jobs(held_out("gis")[:3], 2)
        save_trajectories(path := tmp_path / "played", rollout(agent, todo, lambda: ScienceDesk("gis"), 7))
        return path.read_bytes()

    assert played(trained) == played(committed)


def test_of_real_applications_a_few_episodes_keep_their_screenshots(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(reference, "REFERENCE", tmp_path / "reference")
    run = Run(str(tmp_path / "run"))
    run.store(load_profile("smoke", ["apps=[PyMOL]"]))
    write_text(run.report, "a report")
    save_trajectories(run.judged("base", "PyMOL"), [made_up()])
    played = [made_up(task_id=f"PyMOL/{task:02}", run=number) for task in range(12) for number in range(2)]
    save_trajectories(run.trajectories("base", "PyMOL"), played)
    write_text(run.evaluation("base", "PyMOL"), "episodes")
    kept = Run(str(reference.copy_run(run)))
    assert kept.evaluation("base", "PyMOL").read_text() == "episodes"
    assert load_trajectories(kept.trajectories("base", "PyMOL")) == played[: 2 * reference.PICTURED : 2]
    assert load_trajectories(kept.actions("base", "PyMOL"), screens=False) == [
        without_screens(each) for each in played
    ]


@pytest.mark.skipif(not (REFERENCE / "laptop").is_dir(), reason="no reference run is committed")
@pytest.mark.parametrize(
    ("page", "name"),
    [
        pytest.param(page, name, marks=pytest.mark.slow if name == "commands" else ())
        for page, parts in pages.PARTS.items()
        for name in parts
    ],
)
def test_the_pages_show_the_reference_run_word_for_word(page, name) -> None:
    assert pages.marked(name, pages.PARTS[page][name](REFERENCE / "laptop")) in (REPO / page).read_text()


def test_renewing_replaces_what_is_between_the_marks_and_nothing_else(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        pages, "PARTS", {"page.md": {"a": lambda folder: f"of {folder}", "b": lambda folder: r"\1"}}
    )
    write_text(tmp_path / "page.md", "x\n<!-- a -->old<!-- /a -->\ny\n<!-- b --><!-- /b -->\n")
    pages.show("RUN", tmp_path)
    a, b = pages.marked("a", "of RUN"), pages.marked("b", r"\1")
    assert (tmp_path / "page.md").read_text() == f"x\n{a}\ny\n{b}\n"
    write_text(tmp_path / "page.md", "<!-- a -->without an end")
    with pytest.raises(UserError, match="page.md has no part between <!-- a --> and <!-- /a -->"):
        pages.show("RUN", tmp_path)


@pytest.mark.skipif(not (REFERENCE / "laptop").is_dir(), reason="no reference run is committed")
def test_the_reference_run_has_the_ablations_beside_it() -> None:
    places = (
        REFERENCE / "ablations" / "tables",
        REFERENCE / "ablations" / "seeds",
    )  # the later ones are over all seeds
    tables = {path.name: path.read_bytes() for place in places for path in place.glob("*.csv")}
    beside = {path.name: path.read_bytes() for path in (REFERENCE / "laptop" / "ablations").glob("*.csv")}
    assert (
        beside
        and beside == {name: tables[name] for name in beside}
        and set(beside) == {f"{part}.csv" for part in TABLES}
    )


@pytest.mark.skipif(not (REFERENCE / "laptop").is_dir(), reason="no reference run is committed")
@pytest.mark.parametrize(
    "name", sorted(path.parents[1].name for path in REFERENCE.glob("*/tables/table1.csv"))
)
def test_the_tables_of_a_reference_run_are_those_of_its_episodes_and_votes(
    tmp_path, monkeypatch, name
) -> None:
    for part in ("save", "html_report"):  # the pictures and the page are made of the tables
        monkeypatch.setattr(reference, part, lambda *of, **how: None)
    shutil.copytree(REFERENCE / name, tmp_path / name)
    reference.renew(Run(str(tmp_path / name)))
    for table in sorted((REFERENCE / name / "tables").glob("*.csv")):
        assert (tmp_path / name / "tables" / table.name).read_text() == table.read_text(), table.name


@pytest.mark.skipif(not (REFERENCE / "laptop").is_dir(), reason="no reference run is committed")
def test_the_reference_run_is_of_committed_code() -> None:
    manifest = read_json(REFERENCE / "laptop" / "manifest.json")
    assert manifest["code"]["commit"] and not manifest["code"]["changed"]
