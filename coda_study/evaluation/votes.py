"""Votes of judges as data, and the outcome of every voting rule on them; Table 2 of the paper for a run.

A vote is one reply of one judge about one trajectory.  A rule asks for votes in an order and stops when the
outcome is decided, as a run does; so rules can be compared offline, in seconds, on the same replies.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from coda_lib.config import EXPLORERS, JudgeSettings, Profile
from coda_lib.errors import UserError
from coda_lib.judge import JudgeScore, Rule, read_verdict
from coda_lib.paths import display
from coda_lib.trajectory import Trajectory, trajectory_rows
from coda_study.evaluation.paper import LABELS, load_table2
from coda_study.evaluation.statistics import RESAMPLES, TAILS, Estimate, precision_and_recall, resampled_sums
from coda_study.evaluation.tables import numbered_on, read_table
from coda_study.run import Run

TRAJECTORY = ["task_id", "run", "planner"]  # what names a trajectory of a run
LOW = "low"  # the judge that is shown small screenshots
INVALID, NO, YES, CLEAN = -1, 0, 1, 2  # a vote: no verdict, not correct, correct, correct and clean
COLUMNS = [*TRAJECTORY, "app", "success", "steps", "broken", "judge", "vote", "reply"]
PAPER_ROWS = (  # of the paper's Table 2, in the order of `table2_rules`
    "Qwen2.5-VL-72B-single", "72B-GUI-Judge", "72B-voting@4", "72B-voting@4 w/ multi-res",
    "72B-voting@4 Ensemble",
)  # fmt: skip


# ---- Table 2 and its rules -------------------------------------------------------------------------------


def table2(votes: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """`compare_rules` of a run, with the paper's on ScienceBoard: paper_precision, paper_recall."""
    paper = load_table2().query("benchmark == 'scienceboard'")
    paper = paper.pivot(index="method", columns="measure", values="value")
    reported = paper.loc[list(PAPER_ROWS)].add_prefix("paper_").reset_index(drop=True)
    return compare_rules(votes, table2_rules(profile.judge)).join(reported)


def table2_rules(settings: JudgeSettings) -> tuple[Rule, ...]:
    """The rows of Table 2: single votes, the rule of the profile, and the same over votes of two judges."""
    half = half_of(settings)
    return (
        Rule("base judge", (("base", 1),), needed=1),
        Rule("single", (("judge", 1),), needed=1),
        Rule.of(settings),
        Rule.of(settings, (LOW, half), ("judge", half), name="two resolutions"),
        Rule.of(settings, ("judge", half), ("base", half), name="ensemble"),
    )


def half_of(settings: JudgeSettings) -> int:
    """The votes of each judge where two share them."""
    return max(1, Rule.of(settings).votes // 2)


def voting_rules(settings: JudgeSettings) -> tuple[Rule, ...]:
    """The rule of the profile over one vote of its judge, over two, and so on up to all."""
    counts = range(1, Rule.of(settings).votes + 1)
    return tuple(Rule.of(settings, ("judge", n), name="single" if n == 1 else "") for n in counts)


def compare_rules(votes: pd.DataFrame, rules: Iterable[Rule]) -> pd.DataFrame:
    """Table 2 of a run, a row per rule.

    Columns: rule, trajectories, successes, accepted, precision, precision_low, precision_high, recall,
    recall_low, recall_high (percent, 95 % as of `statistics.ratio`; empty where nothing was accepted or there
    was no success), coverage (percent of trajectories with a verdict in every vote), calls (votes asked per
    trajectory), small (of these, on small screenshots), labels (steps of clean trajectories, which would be
    trained on), wrong_labels (percent of them from trajectories that failed). Trajectories without an outcome
    are left out.
    """
    ballots = cast(votes[votes["success"].notna()])
    return pd.DataFrame([_row(rule, ballots.join(apply(rule, ballots))) for rule in rules])


def _row(rule: Rule, judged: pd.DataFrame) -> dict:
    truth = judged["success"].astype(bool)
    score = JudgeScore.of(judged["accepted"], truth)
    labels = judged["steps"].where(judged["clean"], 0)
    tasks = judged.index.get_level_values("task_id")
    precision, recall = precision_and_recall(tasks, judged["accepted"], truth)
    return {
        "rule": rule.name, "trajectories": score.trajectories, "successes": score.successes,
        "accepted": score.accepted,
        **_percent("precision", precision), **_percent("recall", recall),
        "coverage": 100 * judged["valid"].mean(), "calls": judged["calls"].mean(),
        "small": judged["small"].mean(), "labels": int(labels.sum()),
        "wrong_labels": 100 * labels[~truth].sum() / labels.sum() if labels.sum() else np.nan,
    }  # fmt: skip


def _percent(name: str, share: Estimate) -> dict[str, float]:
    return {name: 100 * share.value, f"{name}_low": 100 * share.low, f"{name}_high": 100 * share.high}


def grouped(votes: pd.DataFrame, by: Sequence[str], rules: Sequence[Rule]) -> pd.DataFrame:
    """`compare_rules` for each group of trajectories, by application or planner for instance."""
    parts = {names: compare_rules(group, rules) for names, group in votes.groupby(list(by))}
    return pd.concat(parts, names=by).reset_index(by).reset_index(drop=True)


def judge_table(votes: pd.DataFrame, rule: Rule) -> pd.DataFrame:
    """Precision and recall of a rule in each application, with the intervals of `compare_rules`.

    Columns: application, measure, value, low, high (percent; empty where there is none), of (trajectories).
    """
    table, rows = grouped(votes, ["app"], [rule]).set_index("app"), []
    for app in sorted(table.index, key=list(LABELS).index):
        for measure, whole in (("precision", "accepted"), ("recall", "successes")):
            share = table.loc[app, [measure, f"{measure}_low", f"{measure}_high"]]
            rows.append((app, measure, *share, int(table.loc[app, whole])))
    return pd.DataFrame(rows, columns=["application", "measure", "value", "low", "high", "of"])


def difference(
    votes: pd.DataFrame, measure: str, first: Rule, second: Rule, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float, float]:
    """Second rule minus first in `measure` (precision or recall) on the same trajectories, percentage points.

    The 95 % interval is a paired bootstrap over tasks.  NaN if a rule accepts nothing or nothing succeeded.
    """
    ballots = cast(votes[votes["success"].notna()])
    truth, kinds = ballots["success"].astype(bool), {}
    for i, rule in enumerate((first, second)):
        accepted = apply(rule, ballots)["accepted"]
        kinds |= {f"right{i}": accepted & truth, f"of{i}": accepted if measure == "precision" else truth}
    counts = pd.DataFrame(kinds).groupby(level="task_id").sum().to_numpy()
    sums = np.vstack([counts.sum(axis=0), resampled_sums(counts, np.random.default_rng(seed), resamples)])
    with np.errstate(invalid="ignore"):
        gap = 100 * (sums[:, 2] / sums[:, 3] - sums[:, 0] / sums[:, 1])
    low, high = np.nanpercentile(gap[1:], TAILS) if np.isfinite(gap[0]) else (np.nan, np.nan)
    return float(gap[0]), float(low), float(high)


# ---- rules on votes --------------------------------------------------------------------------------------


def cast(votes: pd.DataFrame) -> pd.DataFrame:
    """By trajectory (index TRAJECTORY): app, success, steps, broken, and a column (judge, number) per vote.

    A vote is INVALID, NO, YES or CLEAN, NaN where it was not asked for.  UserError if a vote is there twice.
    """
    trajectories = votes.groupby(TRAJECTORY)[["app", "success", "steps", "broken"]].first()
    if (twice := votes.duplicated([*TRAJECTORY, "judge", "vote"])).any():
        trajectory = " ".join(map(str, votes[twice].iloc[0][TRAJECTORY]))
        raise UserError(f"{twice.sum()} votes are there twice, of trajectory {trajectory} first")
    values = votes.assign(value=[_value(reply) for reply in votes["reply"]])
    wide = values.pivot(index=TRAJECTORY, columns=["judge", "vote"], values="value")
    return trajectories.join(wide.set_axis(wide.columns.to_flat_index(), axis="columns"))


def _value(reply: str) -> int:
    verdict = read_verdict(reply)
    if verdict is None:
        return INVALID
    return CLEAN if verdict.clean else YES if verdict.correct else NO


def apply(rule: Rule, ballots: pd.DataFrame) -> pd.DataFrame:
    """The outcome of a rule for each trajectory of `cast`'s `ballots`, in their order.

    Columns: accepted, clean, valid (every vote asked is a verdict), calls (votes asked), small (of these, on
    small screenshots). UserError names the first trajectory that lacks a vote which the rule asks for.
    """
    correct, clean, calls, small = (pd.Series(0, ballots.index) for _ in range(4))
    valid = pd.Series(True, ballots.index)
    for judge, number in ((judge, number) for judge, count in rule.ballots for number in range(count)):
        asked = rule.is_open(correct, clean, calls)
        vote = ballots[judge, number] if (judge, number) in ballots else pd.Series(np.nan, ballots.index)
        if (lacking := asked & vote.isna()).any():
            trajectory = " ".join(map(str, lacking.idxmax()))
            raise UserError(f"{rule.name}: trajectory {trajectory} has no vote {number + 1} of {judge!r}")
        calls, small = calls + asked, small + (asked & (judge == LOW))
        correct, clean = correct + (asked & (vote >= YES)), clean + (asked & (vote == CLEAN))
        valid &= ~asked | (vote != INVALID)
    accepted, clean = correct >= rule.needed, (clean >= rule.needed) & ~ballots["broken"]
    columns = {"accepted": accepted, "clean": clean, "valid": valid, "calls": calls, "small": small}
    return pd.DataFrame(columns)


# ---- votes of a run --------------------------------------------------------------------------------------


def votes_and_rules(runs: Sequence[Run]) -> tuple[pd.DataFrame, tuple[Rule, ...]]:
    """The votes behind Table 2 and its rules; unless all runs have these, `find_votes` and `voting_rules`.

    The runs have the same profile but for the seed; the attempts at a task are numbered on from run to run.
    """
    profile = runs[0].profile()
    whole = all(run.judges(app).is_file() for run in runs for app in profile.apps)
    parts = [(load_table2_votes if whole else find_votes)(run) for run in runs]
    most = max((part["run"].max() + 1 for part in parts if len(part)), default=0)
    return numbered_on(parts, most), (table2_rules if whole else voting_rules)(profile.judge)


def load_table2_votes(run: Run) -> pd.DataFrame:
    """The votes behind Table 2 of a run.  UserError names what is missing."""
    paths = [run.judges(app) for app in run.profile().apps]
    if absent := [path for path in paths if not path.is_file()]:
        raise UserError(f"run {run.name}: the votes of Table 2 are not there, {display(absent[0])} first")
    return pd.concat(map(_read_votes, paths), ignore_index=True)


def load_votes(run: Run) -> pd.DataFrame:
    """All votes of the judge of a run, as `find_votes`.  UserError if there are none."""
    votes = find_votes(run)
    if votes.empty:
        folder = display(run.votes.parent)
        raise UserError(f"run {run.name} has no votes: {folder} holds no judged trajectories")
    return votes


def find_votes(run: Run) -> pd.DataFrame:
    """All votes of a run's judge, from `Run.votes` or else from judged trajectories; may be empty.

    Columns: task_id, run, planner, app, success (the application's own check; None where the environment
    failed), steps (their number), broken (a step had no action), judge, vote (from 0), reply.
    """
    if os.path.lexists(run.votes):
        return _read_votes(run.votes)
    folders = [run.judged(planner, "").parent for planner in EXPLORERS]
    parts = [_stored_votes(path) for folder in folders for path in sorted(folder.glob("*.parquet"))]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def _read_votes(path: Path) -> pd.DataFrame:
    kinds = ("text", "whole", "text", "text", "truth", "whole", "truth", "text", "whole", "text")
    return read_table(path, **dict(zip(COLUMNS, kinds, strict=True)))


def _stored_votes(path: Path) -> pd.DataFrame:
    about = [*TRAJECTORY, "app", "success"]
    rows = trajectory_rows(path, [*about, "verdicts", "steps.list.element.error"])  # without the screenshots
    return _vote_rows(
        (*(row[name] for name in about), [step["error"] for step in row["steps"]], "judge", row["verdicts"])
        for row in rows
    )


def votes_of(trajectories: Iterable[Trajectory], judge: str) -> pd.DataFrame:
    """The verdicts of trajectories as votes of a judge of that name; columns as of `find_votes`."""
    return _vote_rows(
        (t.task_id, t.run, t.planner, t.app, t.success, [step.error for step in t.steps], judge, t.verdicts)
        for t in trajectories
    )


def _vote_rows(judged: Iterable[tuple]) -> pd.DataFrame:
    rows = [
        (*trajectory, len(errors), any(errors), judge, vote, reply)
        for *trajectory, errors, judge, verdicts in judged for vote, reply in enumerate(verdicts)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)
