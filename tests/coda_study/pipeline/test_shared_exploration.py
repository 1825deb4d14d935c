"""Several seeds of a study: all runs use what the first one explored, and none of them explores it again."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from coda_lib.config import Profile, load_profile
from coda_lib.errors import UserError
from coda_lib.files import read_json, write_text
from coda_lib.paths import display
from coda_study.pipeline.drive import preview, reproduce, runs_of_seeds
from coda_study.run import Run

OF_BASE = {"explore/base/algebra", "judge/base/algebra"}


@pytest.fixture
def study(tmp_path: Path, fake_checkpoints) -> dict[Run, Profile]:
    """Give the runs of seeds 7 and 8 with their profiles."""
    changes = (
        *fake_checkpoints,
        "apps=[algebra]",
        "systems=[base, stage2]",
        "ablations={}",
        "ablations.truth={labels: truth}",
    )
    return runs_of_seeds(str(tmp_path / "mine"), load_profile("smoke", changes), (7, 8))


@pytest.fixture
def go(study, fake_notebooks):
    """Give a function that brings the first or the second run up to date and returns what was printed."""

    def go(number: int, until: str = "results", **changes: object) -> str:
        run, profile = list(study.items())[number]
        shown = Console(file=io.StringIO(), width=200, color_system=None)
        reproduce(run, profile.model_copy(update=changes), 2, until, console=shown, notebooks=fake_notebooks)
        return shown.file.getvalue()

    return go


def test_the_profiles_own_seed_has_the_name_and_the_first_seed_explores(tmp_path):
    def told(name: str, *seeds: int) -> list[tuple]:
        runs = runs_of_seeds(name, load_profile("smoke", ("specialize.steps=3",)), seeds)
        assert all(profile.specialize.steps == 3 for profile in runs.values())
        return [(run.name, profile.seed, profile.explored) for run, profile in runs.items()]

    assert told("mine", 7, 8, 9) == [("mine", 7, None), ("mine-seed8", 8, "mine"), ("mine-seed9", 9, "mine")]
    assert told("mine", 8, 7) == [("mine-seed8", 8, None), ("mine", 7, "mine-seed8")]
    assert told(f"{tmp_path}/x/", 7, 8)[1] == (f"{tmp_path}/x-seed8", 8, "x")  # beside the run, not in it


@pytest.mark.parametrize("until", ["results", "ablations"])
def test_the_plan_of_a_second_seed_has_no_exploration_with_the_base_planner(study, fake_notebooks, until):
    (first, second) = (preview(run, profile, until, fake_notebooks) for run, profile in study.items())
    assert set(first) - set(second) == OF_BASE and set(second) < set(
        first
    )  # planned before the first run is there
    run, profile = list(study.items())[1]
    assert {"explore/specialist/algebra", "judge/specialist/algebra"} <= set(second)
    assert preview(run, profile, "judge", fake_notebooks) == []
    assert set(preview(run, profile, until, fake_notebooks, fresh=True)) == set(second)


def test_a_second_seed_reads_the_files_of_the_first(study, go):
    one, two = study
    go(0, "judge")
    shown = go(1)
    assert "seed 8, 2 cores, with the exploration of run mine\n14 stages to run" in shown
    records = {record["stage"]: record for record in map(read_json, (two.folder / "stages").glob("*.json"))}
    assert len(records) == 14 and not OF_BASE & set(records)
    judged, scores = display(one.judged("base", "algebra")), display(one.judge_scores("base", "algebra"))
    assert (
        judged in records["specialize/specialist/algebra"]["inputs"] and judged in records["reward"]["inputs"]
    )
    assert display(one.rollouts("base", "algebra")) in records["judges/algebra"]["inputs"]
    assert display(one.rollouts("base", "algebra")) in records["baselines/algebra"]["inputs"]
    assert scores in records["how_sure"]["inputs"]
    assert not (two.folder / "rollouts" / "base").exists() and not (two.folder / "judged" / "base").exists()
    assert "0 stages to run" in go(1)

    more = load_profile(
        "smoke", ("explore.base.tasks=3",)
    ).explore  # what was trained on the former one is trained again
    go(0, "judge", explore=more)
    shown = go(1)
    assert (
        "14 stages to run" not in shown
        and "specialize/specialist/algebra" in shown
        and "evaluate/base" not in shown
    )


def test_what_the_first_run_lacks_is_one_message(study, go):
    one, two = study
    go(1, "quickstart")  # needs no exploration
    with pytest.raises(
        UserError, match="mine-seed8 uses the exploration of run mine, which has no .*: run mine first"
    ):
        go(1, "explore")
    assert two.profile_file.exists() and not (two.folder / "specialist").exists()
    go(0, "explore")
    go(1, "explore")
    with pytest.raises(UserError, match="mine, which has no .*mine/judged/base/algebra.parquet"):
        go(1, "specialize")
    go(0, "judge")
    one.judge_scores("base", "algebra").unlink()
    with pytest.raises(UserError, match=r"which has no .*mine/judged/base/algebra.json"):
        go(1, "specialize")


def test_a_run_cannot_use_its_own_exploration(go):
    go(0, "quickstart")
    with pytest.raises(UserError, match="run mine cannot use its own exploration"):
        go(0, "quickstart", explored="mine")
    go(1, "quickstart")
    with pytest.raises(UserError, match="run mine cannot use its own exploration"):
        go(0, "explore", explored="mine-seed8")  # which uses that of `mine`


def test_fresh_starts_over_with_tables_over_seeds_there(study, fake_notebooks):
    run, profile = next(iter(study.items()))
    reproduce(run, profile, 2, "quickstart", console=Console(file=io.StringIO()), notebooks=fake_notebooks)
    write_text(run.seeds / "table1.md", "")
    reproduce(
        run,
        profile,
        2,
        "quickstart",
        fresh=True,
        console=Console(file=io.StringIO()),
        notebooks=fake_notebooks,
    )
    assert not run.seeds.exists() and (run.notebooks / "00_quickstart.ipynb").exists()
