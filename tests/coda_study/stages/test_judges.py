"""Table 2 of a run: the votes of its judges on the mix, and the outcome of its rules."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest
from PIL import Image
from tiny_models import NO, YES, made_up

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.judge import Judge
from coda_lib.models.chat import ReplayModel
from coda_lib.trajectory import save_trajectories
from coda_study.evaluation.votes import load_table2_votes, table2, table2_rules, votes_and_rules
from coda_study.run import Run
from coda_study.stages import judges


@pytest.fixture
def run(tmp_path) -> Run:
    """Give a run with twenty trajectories of each planner, every fourth solved and one broken by the
    environment.
    """
    made = Run(str(tmp_path / "run"))
    made.store(load_profile("laptop", ("apps=[gis]", "judges.trajectories=8")))
    for planner, path in {
        "base": made.rollouts("base", "gis"), "specialist": made.rollouts("specialist", "gis"),
        "stage2": made.trajectories("stage2", "gis"),
    }.items():  # fmt: skip
        some = [
            made_up(task_id=f"gis/{i}", app="gis", planner=planner, success=i % 4 == 0) for i in range(20)
        ]
        save_trajectories(path, [replace(some[0], task_id="gis/broken", success=None), *some[1:]])
    return made


@pytest.fixture
def scripted(monkeypatch) -> dict[str, list[tuple[int, int]]]:
    """Let the judges answer by name, and give the sizes of the screenshots that each was shown."""
    shown: dict[str, list[tuple[int, int]]] = {"judge": [], "low": [], "base": []}

    def judge(name: str, votes: int, resolution: float) -> Judge:
        def reply(messages) -> str:
            shown[name] += [p["image"].size for m in messages for p in m["content"] if p["type"] == "image"]
            return NO if name == "base" else YES

        return Judge(ReplayModel(reply), votes=votes, resolution=resolution)

    made = {"judge": ("judge", 4, 1.0), "low": ("low", 2, 0.5), "base": ("base", 2, 1.0)}
    monkeypatch.setattr(
        judges, "load_judges", lambda profile, rule: {n: lambda a=a: judge(*a) for n, a in made.items()}
    )
    return shown


def test_the_mix_has_as_many_of_each_planner_and_nothing_without_truth(run):
    drawn = judges.mix(run, "gis")
    assert pd.Series([t.planner for t in drawn]).value_counts().to_dict() == {
        "base": 8,
        "specialist": 8,
        "stage2": 8,
    }
    assert "gis/broken" not in {t.task_id for t in drawn}
    assert [(t.planner, t.task_id) for t in drawn] == [(t.planner, t.task_id) for t in judges.mix(run, "gis")]


def test_every_judge_gives_all_its_votes_and_the_low_one_sees_small_pictures(run, scripted):
    votes = judges.run(run, "gis")
    assert votes.groupby("judge")["vote"].agg(["size", "nunique"]).to_dict() == {
        "size": {"base": 48, "judge": 96, "low": 48}, "nunique": {"base": 2, "judge": 4, "low": 2},
    }  # fmt: skip
    (full,), (small,) = set(scripted["judge"]), set(scripted["low"])
    assert small == tuple(round(side / 2) for side in full) and set(scripted["base"]) == {full}
    pd.testing.assert_frame_equal(load_table2_votes(run), votes)


def test_table_2_stands_beside_the_papers(run, scripted):
    judges.run(run, "gis")
    profile = run.profile()
    table = table2(load_table2_votes(run), profile).set_index("rule")
    assert list(table.index) == [rule.name for rule in table2_rules(profile.judge)]
    assert list(table["accepted"]) == [0, 24, 24, 24, 0]  # the base judge says no, alone and in the ensemble
    assert list(table["calls"]) == [1, 1, 4, 4, 3] and list(table["small"]) == [0, 0, 0, 2, 0]
    assert list(table["paper_precision"]) == [41.5, 43.7, 58.6, 65.7, 69.5]
    assert list(table["paper_recall"]) == [80.1, 80.1, 75.3, 77.9, 74.2]


def test_each_judge_is_loaded_with_its_checkpoint_its_votes_and_its_resolution(monkeypatch):
    loaded = []
    replay = ReplayModel(lambda _: YES)
    monkeypatch.setattr(
        "coda_lib.models.local.LocalModel", lambda path, batch_size: loaded.append(path) or replay
    )
    profile = load_profile("laptop", ("judges.low_resolution=0.5",))
    made = {name: load() for name, load in judges.load_judges(profile, rule=None).items()}
    assert {name: (judge.votes, judge.resolution) for name, judge in made.items()} == {
        "judge": (4, 1), "low": (2, 0.5), "base": (2, 1),
    }  # fmt: skip
    assert [path.rpartition("/")[2] for path in loaded] == ["judge", "judge", "base_judge"]
    assert not any(judge.rule for judge in made.values())


def test_the_command_tells_the_rules_of_table_2(run, scripted, coda):
    code, _, message = coda("judge", "votes", run.name, "--table2")
    assert code == 2 and "the votes of Table 2 are not there" in message
    judges.run(run, "gis")
    code, shown, _ = coda("judge", "votes", run.name, "--table2")
    assert code == 0 and all(rule.name in shown for rule in table2_rules(run.profile().judge))
    code, shown, _ = coda("judge", "votes", run.name, "--table2", "--json")
    assert code == 0 and [row["accepted"] for row in json.loads(shown)] == [0, 24, 24, 24, 0]


def test_claims_rest_on_the_mix_where_there_is_one(run, scripted):
    votes, asked = votes_and_rules([run])
    assert votes.empty and [rule.name for rule in asked] == ["single", "voting@2", "voting@3", "voting@4"]
    rated = judges.run(run, "gis")
    votes, asked = votes_and_rules([run])
    assert len(votes) == len(rated) and asked == table2_rules(run.profile().judge)


def test_a_picture_at_full_resolution_is_the_picture():
    picture = Image.new("RGB", (40, 30), "red")
    assert Judge(ReplayModel(lambda _: YES))._resized(picture) is picture
    assert Judge(ReplayModel(lambda _: YES), resolution=0.75)._resized(picture).size == (30, 22)


def test_votes_that_are_not_there_are_named(run):
    with pytest.raises(UserError, match="the votes of Table 2 are not there, .*gis.parquet first"):
        load_table2_votes(run)


def test_smoke_asks_once():
    profile = load_profile("smoke")
    assert [dict(rule.ballots) for rule in table2_rules(profile.judge)] == [
        {"base": 1}, {"judge": 1}, {"judge": 1}, {"low": 1, "judge": 1}, {"judge": 1, "base": 1},
    ]  # fmt: skip
