"""Voting rules, recomputed from votes as data: what they accept, what they cost, and what their labels are
worth.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from tiny_models import NO, YES, made_up

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.judge import Rule, Verdict, format_verdict, score
from coda_lib.trajectory import Step, load_trajectories, save_trajectories
from coda_study.evaluation.statistics import wilson
from coda_study.evaluation.votes import (
    apply,
    cast,
    compare_rules,
    difference,
    grouped,
    judge_table,
    load_votes,
    table2_rules,
    voting_rules,
)
from coda_study.run import Run

UNCLEAN = format_verdict(Verdict(True, (1,)))


def voting(votes: int, *changes: str) -> tuple[Rule, ...]:
    return voting_rules(load_profile("laptop", (f"judge.votes={votes}", *changes)).judge)


def table(*trajectories: tuple[bool | None, dict[str, list[str]]]) -> pd.DataFrame:
    """Votes of trajectories of three steps, each given as its truth and the replies of each judge."""
    return pd.DataFrame(
        {"task_id": f"gis/{i}", "run": 0, "planner": "base", "app": "gis", "success": truth, "steps": 3,
         "broken": False,
         "judge": judge, "vote": vote, "reply": reply}
        for i, (truth, said) in enumerate(trajectories) for judge, replies in said.items() for vote,
        reply in enumerate(replies)
    )  # fmt: skip


def test_a_unanimous_rule_asks_until_the_first_no():
    votes = table(
        (True, {"judge": [YES, YES]}), (False, {"judge": [YES, NO]}), (False, {"judge": [NO]}), (True,
         {"judge": ["perhaps"]}),
        (True, {"judge": [YES, UNCLEAN]}),
    )  # fmt: skip
    found = apply(voting(2)[1], cast(votes))
    assert found["accepted"].tolist() == [True, False, False, False, True]
    assert found["clean"].tolist() == [True, False, False, False, False]
    assert found["valid"].tolist() == [True, True, True, False, True]
    assert found["calls"].tolist() == [2, 2, 1, 1, 2]
    row = compare_rules(votes, voting(2)).set_index("rule").loc["voting@2"]
    assert (row["trajectories"], row["successes"], row["accepted"]) == (5, 3, 2)
    assert (
        row["precision"] == 100
        and row["recall"] == pytest.approx(200 / 3)
        and row["coverage"] == 80
        and row["calls"] == 1.6
    )
    assert row["labels"] == 3 and row["wrong_labels"] == 0
    assert compare_rules(votes, voting(1)).loc[0, "wrong_labels"] == pytest.approx(
        100 / 3
    )  # 3 of 9 labels, of the second


def test_judges_vote_in_their_order_and_the_cheap_one_filters():
    votes = table(
        (True, {"low": [YES, YES], "judge": [YES, YES]}), (False, {"low": [NO], "judge": [YES, YES]}),
        (False, {"low": [YES, YES], "judge": [NO]}),
    )  # fmt: skip
    found = apply(Rule("multi-resolution", (("low", 2), ("judge", 2)), 4), cast(votes))
    assert found["accepted"].tolist() == [True, False, False] and found["calls"].tolist() == [4, 1, 3]
    with pytest.raises(UserError, match="voting@2: trajectory gis/2 0 base has no vote 2 of 'low'"):
        apply(voting_of("low", 2), cast(table(*[(True, {"low": [YES, YES]})] * 2, (True, {"low": [YES]}))))
    with pytest.raises(UserError, match="no vote 1 of 'base'"):
        apply(voting_of("base", 1), cast(votes))


def voting_of(judge: str, votes: int) -> Rule:
    return Rule(f"voting@{votes}", ((judge, votes),), needed=votes)


def test_a_majority_needs_fewer_and_stops_as_soon_as_it_is_decided():
    votes = table(
        (True, {"judge": [YES, NO, YES, YES]}), (False, {"judge": [NO, NO]}), (True, {"judge": [YES, YES,
         YES]}),
        (True, {"judge": [YES, UNCLEAN, NO, YES]}), (True, {"judge": [YES, "perhaps", NO]}),
    )  # fmt: skip
    (*_, rule) = voting(4, "judge.rule=majority")
    found = apply(rule, cast(votes))
    assert rule.name == "majority@4" and found["accepted"].tolist() == [True, False, True, True, False]
    assert found["clean"].tolist() == [True, False, True, False, False] and found["valid"].tolist() == [
        True
    ] * 4 + [False]
    assert found["calls"].tolist() == [4, 2, 3, 4, 3]


@pytest.mark.parametrize(
    "change", ["rule=unanimous", "rule=majority", "rule=single", "{rule: agreement, agree: 3}"]
)
def test_every_rule_of_a_profile_finds_its_votes_where_each_judge_stopped(change):
    """What the run's judge and others leave out is never asked for by a rule of Table 2, for any replies."""
    settings = load_profile("laptop").judge
    settings = type(settings)(
        **(settings.model_dump() | yaml.safe_load("{" + change.strip("{}").replace("=", ": ") + "}"))
    )
    own, half = Rule.of(settings), dict(table2_rules(settings)[3].ballots)["judge"]
    rng = np.random.default_rng(0)
    given = []
    for _ in range(300):
        replies = {}
        for judge, votes in {"judge": own.votes, "low": half, "base": half}.items():
            drawn = [
                str(reply) for reply in rng.choice([YES, UNCLEAN, NO, "?"], votes, p=[0.5, 0.2, 0.2, 0.1])
            ]
            replies[judge] = drawn[: next((n for n in range(votes) if not own.undecided(drawn[:n])), votes)]
        given.append((True, replies))
    for rule in (*table2_rules(settings), *voting_rules(settings)):
        assert len(apply(rule, cast(table(*given)))) == 300


def attempts(tasks: int, runs: int) -> pd.DataFrame:
    """One vote on each of several attempts at a task; attempts at a task are solved and accepted alike."""
    rng = np.random.default_rng(0)
    chances = np.repeat(rng.random((tasks, 2)) ** 2, runs, axis=0)
    outcomes = rng.random(chances.shape) < chances
    votes = table(*((bool(truth), {"judge": [YES if yes else NO]}) for truth, yes in outcomes))
    return votes.assign(
        task_id=[f"gis/{i // runs:03d}" for i in range(len(votes))], run=[i % runs for i in range(len(votes))]
    )


def test_where_tasks_are_many_the_interval_is_about_that_of_resampled_tasks():
    votes, rng = attempts(60, 8), np.random.default_rng(1)
    (row,) = compare_rules(votes, voting(1)).to_dict("records")
    truth, yes = (
        votes["success"].to_numpy(bool).reshape(60, 8),
        votes["reply"].eq(YES).to_numpy().reshape(60, 8),
    )
    drawn = [100 * truth[tasks][yes[tasks]].mean() for tasks in rng.integers(0, 60, (4000, 60))]
    assert (row["precision_low"], row["precision_high"]) == pytest.approx(
        np.percentile(drawn, [2.5, 97.5]), abs=2.5
    )
    single = wilson(truth[yes].sum(), yes.sum())
    assert row["precision"] == pytest.approx(100 * single.value)
    assert row["precision_high"] - row["precision_low"] > 120 * (
        single.high - single.low
    )  # attempts at a task are alike


def test_with_one_attempt_at_a_task_the_interval_is_wilsons():
    votes = attempts(60, 1)
    (row,) = compare_rules(votes, voting(1)).to_dict("records")
    share = wilson((votes["success"] & votes["reply"].eq(YES)).sum(), votes["success"].sum())
    expected = [100 * figure for figure in (share.value, share.low, share.high)]
    assert [row["recall"], row["recall_low"], row["recall_high"]] == pytest.approx(expected)


def test_a_difference_of_two_rules_is_paired_over_tasks():
    votes = attempts(60, 8)
    again = votes.assign(vote=1, reply=votes["reply"].where(votes["run"] % 2 == 0, NO))
    both = pd.concat([votes, again[votes["reply"].eq(YES)]])
    value, low, high = difference(both, "recall", *voting(2), 2000)
    separate = compare_rules(both, voting(2))
    assert value == pytest.approx(separate["recall"][1] - separate["recall"][0]) and low < value < high < 0


def test_the_judges_table_has_both_shares_of_each_application():
    votes = pd.concat([attempts(20, 4), attempts(20, 4).assign(app="algebra", success=False)])
    table = judge_table(votes, voting(1)[0])
    assert table["application"].tolist() == ["algebra", "algebra", "gis", "gis"]
    assert table["measure"].tolist() == ["precision", "recall"] * 2
    row = compare_rules(votes[votes["app"] == "gis"], voting(1)).iloc[0]
    assert table.iloc[2, 2:].tolist() == [
        row["precision"],
        row["precision_low"],
        row["precision_high"],
        row["accepted"],
    ]
    assert table["of"][1] == 0 and np.isnan(table["value"][1]) and table["value"][0] == 0 < table["high"][0]


def test_nothing_accepted_has_no_precision_and_what_broke_has_no_truth():
    votes = table((True, {"judge": [NO]}), (None, {"judge": [YES]}))
    (row,) = compare_rules(votes, voting(1)).to_dict("records")
    assert (
        row["trajectories"] == 1
        and np.isnan(row["precision"])
        and row["recall"] == 0
        and np.isnan(row["wrong_labels"])
    )


@pytest.fixture
def run(tmp_path) -> Run:
    here = Run(str(tmp_path / "trial"))
    here.store(load_profile("laptop"))
    broken = Step(made_up().steps[0].screenshot, "", "?", (), "no action")
    played = [
        made_up(1, success=True), made_up(2, success=False), made_up(3, success=False, verdicts=[YES, NO]),
        made_up(4, success=True, steps=(broken,)), made_up(5, success=True, verdicts=["{"]),
        made_up(6, success=None, verdicts=[NO]),
    ]  # fmt: skip
    save_trajectories(here.judged("base", "algebra"), played)
    save_trajectories(here.judged("specialist", "algebra"), [made_up(1, planner="specialist", verdicts=[NO])])
    return here


def test_votes_of_a_run_say_what_the_pipeline_said(run):
    votes = load_votes(run)
    assert len(votes) == 4 * 3 + 2 + 1 + 1 + 1
    rule = voting(4)[-1]
    of_base = compare_rules(votes[votes["planner"] == "script"], [rule]).iloc[0]
    asked = score(load_trajectories(run.judged("base", "algebra")), rule)
    assert (of_base["trajectories"], of_base["successes"]) == (asked.trajectories, asked.successes) == (5, 3)
    assert of_base["accepted"] == asked.true_positive + asked.false_positive == 3
    assert of_base["labels"] == 4 and of_base["wrong_labels"] == 50  # the broken one is not clean
    votes.to_parquet(run.votes, index=False)
    pd.testing.assert_frame_equal(compare_rules(load_votes(run), voting(4)), compare_rules(votes, voting(4)))
    apart = grouped(votes, ["planner"], voting(2))
    assert apart["planner"].tolist() == ["script", "script", "specialist", "specialist"]
    with pytest.raises(UserError, match="1 votes are there twice, of trajectory algebra/T-01 0 script first"):
        cast(pd.concat([votes, votes.head(1)]))


def test_a_run_that_shares_an_exploration_has_its_votes(run, tmp_path):
    other = Run(str(tmp_path / "other"))
    other.store(load_profile("laptop", ("seed=8", f"explored={run.folder.name}")))
    save_trajectories(
        other.judged("specialist", "algebra"), [made_up(2, planner="specialist", verdicts=[YES, NO])]
    )
    save_trajectories(other.judged("round1", "algebra"), [made_up(3, planner="round1", verdicts=[NO])])
    votes = load_votes(other)
    assert list(votes["planner"].unique()) == ["script", "round1", "specialist"]
    of_base = load_votes(run).query("planner == 'script'").reset_index(drop=True)
    pd.testing.assert_frame_equal(votes.query("planner == 'script'").reset_index(drop=True), of_base)
    assert votes.query("planner == 'specialist'")["vote"].tolist() == [0, 1]


def test_the_command(run, coda):
    code, shown, _ = coda("judge", "votes", run.name)
    assert code == 0 and "voting@4" in shown and "66.7 [20.8, 93.9]" in shown
    code, shown, _ = coda("judge", "votes", run.name, "--by", "planner", "--json")
    told = json.loads(shown)
    assert (
        code == 0 and len(told) == 8 and told[-1]["planner"] == "specialist" and told[-1]["precision"] is None
    )
    assert coda("judge", "votes", run.name, "--by", "mood")[0] == 2
    run.judged("base", "algebra").unlink()
    run.judged("specialist", "algebra").unlink()
    code, _, error = coda("judge", "votes", run.name)
    assert code == 2 and "has no votes" in error
