"""Profiles: valid, frozen, changed by name, and clear about what is wrong with them."""

from __future__ import annotations

import re

import pytest
import yaml
from pydantic import ValidationError

from coda_lib.applications import APPS
from coda_lib.config import SYSTEMS, load_profile, profile_names, read_profile
from coda_lib.errors import UserError
from coda_lib.paths import PROFILES, REPO, checkpoint_path, require_checkpoint
from coda_study.run import Run


def test_the_profiles():
    assert profile_names() == ["ablations", "desktop", "gpu", "laptop", "paper", "smoke"]
    for name in profile_names():
        profile = load_profile(name)
        assert profile.name == name
        assert profile.systems == SYSTEMS
        assert profile.apps == (("KAlgebra", "PyMOL", "GrassGIS") if name == "desktop" else APPS)


def test_the_numbers_of_the_paper_are_in_all_but_smoke():
    for name in ("laptop", "desktop", "gpu", "paper"):
        profile = load_profile(name)
        runs = 4 if name == "desktop" else 8  # its episodes take longer
        assert (profile.evaluation_runs, profile.test_tasks, profile.step_limit) == (runs, None, None)
        assert (profile.planner.temperature, profile.planner.top_p) == (1.0, 0.9)
        assert (profile.judge.votes, profile.judge.temperature, profile.judge.top_p) == (4, 1.0, 0.6)
    assert load_profile("paper").models.planner == "Qwen/Qwen2.5-VL-32B-Instruct"
    assert load_profile("paper").models.executor == "ByteDance-Seed/UI-TARS-1.5-7B"


def test_every_number_has_a_comment():
    for line in (PROFILES / "laptop.yaml").read_text().splitlines():
        assert "#" in line or not any(character.isdigit() for character in line), line


def test_a_profile_cannot_change():
    with pytest.raises(ValidationError):
        load_profile("smoke").seed = 8


def test_overrides():
    changes = (
        "specialize.steps=10",
        "apps=[gis, astron]",
        "generalize.steps=null",
        "generalize.epochs=1.5",
        "step_limit=9",
    )
    profile = load_profile("smoke", changes)
    assert profile.specialize.steps == 10 and profile.apps == ("gis", "astron") and profile.step_limit == 9
    assert profile.generalize.steps is None and profile.generalize.epochs == 1.5
    assert load_profile("smoke").specialize.steps == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "specialize.stepz=3",
            "profiles/laptop.yaml with --set specialize.stepz=3: specialize.stepz: unknown field",
        ),
        ("planet=mars", "planet: unknown field"),
        ("specialize.steps=0", "specialize.steps: Input should be greater than or equal to 1 (got 0)"),
        ("specialize.group_size=7", "specialize: completions_per_step 128 is no multiple of group_size 7"),
        ("generalize.steps=7", "generalize: give either steps or epochs, not both"),
        ("generalize.epochs=null", "generalize: give either steps or epochs, not neither"),
        ("apps=[gis, gis]", "apps names one twice: gis, gis"),
        (
            "apps=[mars]",
            "apps.0: Input should be 'algebra', 'biochem', 'gis', 'astron', 'KAlgebra', 'PyMOL' or "
            "'GrassGIS' (got 'mars')",
        ),
        ("judge.top_p=1.5", "judge.top_p: Input should be less than or equal to 1 (got 1.5)"),
        ("steps", "--set steps: expected FIELD=VALUE"),
        ("seed.first=1", "seed has no fields of its own"),
        ("name=mine", "a profile's name cannot be changed"),
        ("seed=[", "is not a YAML value"),
    ],
)
def test_a_wrong_override_is_one_line_that_names_it(override, message):
    with pytest.raises(UserError) as caught:
        load_profile("laptop", (override,))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_profile_names_those_there_are():
    with pytest.raises(
        UserError,
        match="unknown profile 'lap': choose one of ablations, desktop, gpu, laptop, paper, smoke",
    ):
        load_profile("lap")


def test_a_wrong_file_is_named_with_its_field(tmp_path):
    values = yaml.safe_load((PROFILES / "smoke.yaml").read_text())
    del values["judge"]["votes"]
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match=r"mine.yaml: judge.votes: missing"):
        read_profile(path)
    path.write_text("a: [1")
    with pytest.raises(UserError, match="mine.yaml is no YAML file, or is damaged: while parsing"):
        read_profile(path)
    path.write_text("- 1")
    with pytest.raises(UserError, match="mine.yaml: expected 'field: value' lines"):
        read_profile(path)


def test_a_run_keeps_its_profile_and_its_file_untouched_when_nothing_changed(tmp_path):
    run = Run(str(tmp_path / "run"))
    assert run.profile("smoke") == load_profile("smoke")
    changed = load_profile("smoke", ("specialize.steps=5",))
    run.store(changed)
    before = run.profile_file.stat().st_mtime_ns
    run.store(changed)
    assert run.profile_file.stat().st_mtime_ns == before
    assert run.profile() == run.profile("smoke") == changed
    with pytest.raises(UserError, match="run run has profile smoke, not laptop"):
        run.profile("laptop")


def test_names_of_runs():
    assert Run("laptop-2").folder == REPO / "results" / "laptop-2"
    for name in ("", "reference", "../x", "a/b", ".hidden"):
        with pytest.raises(UserError, match="names no run"):
            Run(name)


def test_checkpoints_of_planners_and_systems(tmp_path):
    run = Run(str(tmp_path / "run"))
    run.store(load_profile("smoke"))
    assert run.planner_checkpoint("base", "gis") == str(REPO / "data" / "checkpoints" / "planner")
    assert (
        run.planner_checkpoint("specialist", "gis")
        == run.planner_checkpoint("stage1", "gis")
        == str(run.specialist("gis"))
    )
    assert (
        run.planner_checkpoint("stage2", "gis")
        == run.planner_checkpoint("generalist", "gis")
        == str(run.generalist)
    )
    assert run.planner_checkpoint("executor", "gis") is None
    with pytest.raises(UserError, match="unknown planner or system 'stage3'"):
        run.planner_checkpoint("stage3", "gis")


def test_a_checkpoint_is_a_path_or_a_name_on_the_hub(tmp_path):
    assert checkpoint_path("Qwen/Qwen2.5-VL-7B-Instruct") == "Qwen/Qwen2.5-VL-7B-Instruct"
    assert checkpoint_path("data/checkpoints/judge") == str(REPO / "data" / "checkpoints" / "judge")
    assert require_checkpoint("planner", "Qwen/Qwen2.5-VL-7B-Instruct") == "Qwen/Qwen2.5-VL-7B-Instruct"
    with pytest.raises(UserError, match=f"the judge checkpoint {tmp_path} is missing: give the folder"):
        require_checkpoint("judge", str(tmp_path))


@pytest.mark.parametrize("name", ["data/checkpoints/gone", "data/checkpoints/desktop/gone", "data/none"])
def test_a_missing_checkpoints_hint_names_no_command_that_replaces_others(name):
    with pytest.raises(UserError, match=f"the planner checkpoint {name} is missing: ") as caught:
        require_checkpoint("planner", name)
    assert not re.search("base.models|make |coda ", str(caught.value))
    assert ("git status data/checkpoints" in str(caught.value)) is name.startswith("data/checkpoints")


def test_base_planner_and_specialist_explore():
    with pytest.raises(UserError, match="explore: specialist missing"):
        load_profile("smoke", ("explore={base: {tasks: 1, grades: {A: 1}, runs: 1}}",))
