"""Claims: decided by the interval of the paired difference, on all episodes or not at all."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from tiny_models import NO, YES

from coda_lib.applications import APPS
from coda_lib.config import SYSTEMS, load_profile
from coda_lib.errors import UserError
from coda_lib.files import write_table
from coda_study.evaluation.claims import CLAIMS, JOINT, Claim, decide_claims, load_claims, load_systems
from coda_study.evaluation.paper import Provenance
from coda_study.evaluation.statistics import EpisodesError
from coda_study.evaluation.votes import COLUMNS, TRAJECTORY, difference, votes_and_rules, voting_rules
from coda_study.run import Run


def episodes(chances: dict[str, float], tasks: int = 12, runs: int = 4, seed: int = 0) -> pd.DataFrame:
    """Episodes of systems that succeed with these chances, whatever the task."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"task_id": f"{app}/{t}", "app": app, "run": r, "system": system, "stop": "DONE",
         "success": bool(rng.random() < chance)}
        for system, chance in chances.items() for app in APPS for t in range(tasks) for r in range(runs)
    )  # fmt: skip


PRECISE = "Four agreeing votes of the judge are more precise than one"
BOTH = (SYSTEMS, APPS)
RULES = voting_rules(load_profile("laptop").judge)
NONE = (pd.DataFrame(columns=COLUMNS), RULES)
# Ten trajectories that succeeded and ten that did not: the judge says yes once to each, and again only to
# those that did.
VOTES = pd.DataFrame(
    {"task_id": f"gis/{i}", "run": 0, "planner": "base", "app": "gis", "success": i < 10, "steps": 1,
     "broken": False,
     "judge": "judge", "vote": vote, "reply": YES if vote == 0 or i < 10 else NO}
    for i in range(20) for vote in range(4)
)  # fmt: skip
CAST = (VOTES, RULES)
TEST = {"kind": "difference", "first": "base", "second": "stage1", "metrics": ["Pass"]}


def verdicts(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    return {(row.claim, row.metric): row.verdict for row in table.itertuples() if isinstance(row.metric, str)}


def test_each_verdict_follows_from_its_interval():
    chances = {"base": 0.3, "executor": 0.31, "stage1": 0.6, "stage2": 0.1}
    table = decide_claims(load_claims(), episodes(chances), *CAST, *BOTH, 500)
    said = verdicts(table)
    assert said["Specialists beat the base planner", "Average@4"] == "supported"
    assert said["The generalist beats the specialists", "Average@4"] == "contradicted"
    assert said["A planner in front of the executor beats the executor alone", "Average@4"] == "undecided"
    tested = table.dropna(subset="difference")
    assert ((tested["low"] <= tested["difference"]) & (tested["difference"] <= tested["high"])).all()
    overall = tested[
        (tested["claim"] == "Specialists beat the base planner") & (tested["metric"] == "Average@4")
    ].iloc[0]
    assert overall["reported"] == pytest.approx(14.39 - 7.57)
    assert overall["rests_on"] == "base and stage1, all applications: 48 tasks, 4 runs each"
    gis = tested[tested["application"] == "gis"].iloc[0]
    assert gis["reported"] == pytest.approx(7.72 - 1.47) and "GIS: 12 tasks" in gis["rests_on"]


def test_what_a_run_lacks_is_not_tested_and_says_why():
    played, two = episodes({"base": 0.3, "stage1": 0.6}), ("base", "stage1")
    table = decide_claims(load_claims(), played, *NONE, two, APPS, 100).set_index("claim")
    row = table.loc["The generalist beats the specialists"]
    assert row["verdict"] == "not tested" and row["rests_on"] == "the run has no stage2"
    assert table.loc[PRECISE, "rests_on"] == "the run has no single and no voting@4"
    tuned = "Fine-tuning the judge mainly improves its recall"
    assert table.loc[tuned, "rests_on"] == "the run has no base judge and no single"
    voted = decide_claims(load_claims(), played, *CAST, two, APPS, 100).set_index("claim")
    assert voted.loc[tuned, "rests_on"] == "the run has no base judge"
    clear = episodes({"base": 0.0, "stage1": 1.0})
    smoke = decide_claims(load_claims(), clear, *CAST, two, APPS, 100, provenance=Provenance.SMOKE)
    assert set(smoke["verdict"]) == {"not tested"}
    part = decide_claims(
        load_claims(), clear[clear["app"] != "gis"], *NONE, two, ("algebra", "biochem", "astron"), 100
    )
    assert (
        part.set_index("claim").loc["Specialists beat the base planner", "rests_on"] == "the run has no gis"
    )


def test_a_run_with_the_ablation_says_whether_one_training_for_all_is_worse(tmp_path):
    claim = (
        "One reinforcement learning over all applications at once is worse than "
        "specialists followed by distillation"
    )
    run = Run(str(tmp_path / "run"))
    run.store(load_profile("laptop"))
    found = episodes({"base": 0.3, "executor": 0.3, "stage1": 0.5, "stage2": 0.7, JOINT: 0.2})
    for pair, part in found[found["system"] != JOINT].groupby(["system", "app"]):
        write_table(run.evaluation(*pair), part)
    assert load_systems([run])[1] == SYSTEMS
    write_table(run.ablation(JOINT), found[found["system"] == JOINT])
    both, systems, _ = load_systems([run])
    table = decide_claims(load_claims(), both, *NONE, systems, APPS, 300).set_index("claim")
    assert systems == (*SYSTEMS, JOINT) and set(table.loc[claim, "verdict"]) == {"supported"}
    assert table.loc[claim, "reported"].isna().all() and (table.loc[claim, "low"] > 0).all()


def test_voting_rules_are_compared_on_the_same_trajectories():
    table = decide_claims(
        load_claims(), episodes(dict.fromkeys(SYSTEMS, 0.5), 3, 2), *CAST, *BOTH, 2000
    ).set_index("claim")
    row = table.loc[PRECISE]
    assert (row["difference"], row["verdict"], row["rests_on"]) == (50, "supported", "20 trajectories")
    assert row["reported"] == pytest.approx(58.6 - 43.7) and 20 < row["low"] < 40 and 60 < row["high"] < 80
    assert difference(VOTES, "recall", *(RULES[i] for i in (0, 3)), 100) == (0, 0, 0)
    never = VOTES.assign(reply=NO)
    assert np.isnan(difference(never, "precision", *RULES[:2], 100)).all()
    played = episodes(dict.fromkeys(SYSTEMS, 0.5), 3, 2)
    none = decide_claims(load_claims(), played, never, RULES, *BOTH, 100).set_index("claim").loc[PRECISE]
    assert (
        none["verdict"] == "not tested"
        and none["rests_on"] == "no trajectory was accepted, or none succeeded"
    )


def test_missing_episodes_are_named_and_nothing_is_decided():
    fewer = episodes(dict.fromkeys(SYSTEMS, 0.5)).drop(index=3)
    with pytest.raises(EpisodesError, match="system 'base': 1 of 192 episodes missing: algebra/0 run 3"):
        decide_claims(load_claims(), fewer, *CAST, *BOTH, 100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": TEST | {"metrics": ["Median"]}}, "metrics.0: Input should be 'Average'"),
        ({"test": TEST | {"second": "stage3"}}, "second: Input should be 'base'"),
        ({"test": {"kind": "belief"}}, "0.test: Input tag 'belief'"),
        ({"why": "because"}, "0.why: Extra inputs are not permitted"),
    ],
)
def test_a_bad_claim_is_named(tmp_path, change, message):
    claim = {"id": "x", "claim": "c", "source": "s", "test": {"kind": "untested", "needs": "n"}} | change
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump([claim]))
    with pytest.raises(UserError, match=message):
        load_claims(tmp_path / "claims.yaml")


def test_every_claim_is_there_once_and_says_where_it_is_made():
    claims = load_claims(CLAIMS)
    assert len({claim.id for claim in claims}) == len(claims) == len({claim.claim for claim in claims}) > 10
    assert all(isinstance(claim, Claim) and claim.source for claim in claims)


@pytest.fixture
def seeds(tmp_path) -> list[Run]:
    """Three runs in which stage 1 is a little better: too little for one of them, not for the three.  Each
    has the same votes.
    """
    runs, tasks, attempts = [], 14, 4
    for seed in (1, 5, 8):
        here = Run(str(tmp_path / f"seed{seed}"))
        here.store(
            load_profile(
                "laptop", (f"seed={seed}", f"evaluation_runs={attempts}", "bootstrap_resamples=1000")
            )
        )
        chances = {"base": 0.3, "executor": 0.3, "stage1": 0.36, "stage2": 0.3}
        for pair, part in episodes(chances, tasks, attempts, seed).groupby(["system", "app"]):
            write_table(here.evaluation(*pair), part)
        write_table(here.votes, VOTES)
        runs.append(here)
    return runs


def test_several_runs_are_decided_together(seeds, coda):
    claim, names = "Specialists beat the base planner", [run.name for run in seeds]
    told = [
        json.loads(coda("claims", *some, "--json")[1]) for some in ([names[0]], [names[1]], [names[2]], names)
    ]
    rows = [
        next(row for row in rows if (row["claim"], row["metric"]) == (claim, "Average@4")) for rows in told
    ]
    assert [row["verdict"] for row in rows] == ["undecided"] * 3 + ["supported"]
    assert rows[3]["difference"] == pytest.approx(np.mean([row["difference"] for row in rows[:3]]))
    assert rows[3]["high"] - rows[3]["low"] < min(row["high"] - row["low"] for row in rows[:3])
    assert rows[3]["rests_on"] == "base and stage1, all applications: 56 tasks, 4 runs each with 3 seeds"
    passed = [
        next(row for row in rows if row["metric"] == "Pass@4" and row["claim"] == claim) for rows in told
    ]
    assert passed[3]["difference"] == pytest.approx(np.mean([row["difference"] for row in passed[:3]]))
    code, shown, _ = coda("claims", *names)
    assert code == 0 and "these runs" in shown and "seeds 1, 5, 8 together" in shown


def test_the_votes_of_several_runs_count_by_task_and_not_as_more_tasks(seeds):
    (one, rules), (three, same) = votes_and_rules(seeds[:1]), votes_and_rules(seeds)
    assert (
        rules == same
        and len(three) == 3 * len(one)
        and not three.duplicated([*TRAJECTORY, "judge", "vote"]).any()
    )
    gaps = [difference(votes, "precision", rules[0], rules[3], 2000) for votes in (one, three)]
    assert gaps[0] == pytest.approx(gaps[1])  # the same replies on the same tasks say nothing more


def test_runs_of_other_studies_are_not_decided_together(seeds, coda, tmp_path):
    other = Run(str(tmp_path / "other"))
    other.store(load_profile("laptop", ("seed=4", "evaluation_runs=5")))
    code, _, error = coda("claims", seeds[0].name, other.name)
    assert code == 2 and "is another study than" in error and "evaluation_runs" in error
    assert "two runs have the same seed" in coda("claims", seeds[0].name, seeds[0].name)[2]


def test_the_command(tmp_path, coda):
    here, profile = Run(str(tmp_path / "trial")), load_profile("laptop", ("bootstrap_resamples=200",))
    here.store(profile)
    table = episodes({"base": 0.3, "executor": 0.3, "stage1": 0.6, "stage2": 0.6})
    for (system, app), part in table.groupby(["system", "app"]):
        here.evaluation(system, app).parent.mkdir(parents=True, exist_ok=True)
        part.to_parquet(here.evaluation(system, app), index=False)
    code, shown, _ = coda("claims", here.name)
    assert (
        code == 0
        and "Specialists beat the base planner" in shown
        and "supported" in shown
        and "not tested" in shown
    )
    code, shown, _ = coda("claims", here.name, "--json")
    told = json.loads(shown)
    assert code == 0 and told[0]["verdict"] == "supported" and told[-1]["difference"] is None
    here.evaluation("stage2", "gis").unlink()
    code, _, error = coda("claims", here.name)
    assert code == 2 and "1 of 16 evaluations are not there" in error and "stage2/gis.parquet first" in error
    assert coda("claims", "no-such-run")[0] == 2
