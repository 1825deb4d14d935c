"""Votes of judges as data, and what every voting rule would have made of them (the paper's Table 2, for a run).

A vote is one reply of one judge about one trajectory.  A rule asks for votes in an order and stops at the first that is no "yes",
as a run of the kit does; so rules can be compared offline, in seconds, on the same replies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from coda_lib.config import Profile
from coda_lib.errors import UserError
from coda_lib.evaluation.paper import load_table2
from coda_lib.evaluation.statistics import LEVEL, RESAMPLES
from coda_lib.judge import VerdictError, parse_verdict
from coda_lib.paths import display
from coda_lib.run import Run
from coda_lib.trajectory import Trajectory

ASKED = ["task_id", "run", "planner"]  # what names a trajectory of a run
LOW = "low"  # the judge that is shown small screenshots
INVALID, NO, YES, CLEAN = -1, 0, 1, 2  # what a vote says: no verdict, failed, solved, solved and clean
COLUMNS = [*ASKED, "app", "success", "steps", "broken", "judge", "vote", "reply"]


@dataclass(frozen=True)
class Rule:
    """Unanimity of so many votes of each judge, asked in this order."""

    name: str
    ballots: tuple[tuple[str, int], ...]  # (judge, number of its votes)


def voting(votes: int, judge: str = "judge") -> tuple[Rule, ...]:
    """One vote of a judge, two, and so on up to `votes`."""
    return tuple(Rule("single" if n == 1 else f"voting@{n}", ((judge, n),)) for n in range(1, votes + 1))


def load_votes(run: Run) -> pd.DataFrame:
    """All votes of a run, as `find_votes`.  UserError if nothing was judged."""
    votes = find_votes(run)
    if votes.empty:
        raise UserError(f"run {run.name} has no votes: {display(run.votes.parent)} holds no judged trajectories")
    return votes


def find_votes(run: Run) -> pd.DataFrame:
    """All votes of a run, if there are any.

    A row each with task_id, run, planner, app, success (the application's own check; None where the environment broke), steps,
    broken (a step had no action), judge, vote (from 0), reply.
    From `Run.votes` if it is there, else from the judged trajectories.
    """
    if run.votes.is_file():
        return pd.read_parquet(run.votes)
    parts = [_votes(path) for path in sorted(run.votes.parent.glob("*/*.parquet"))]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def _votes(path: Path) -> pd.DataFrame:
    columns = [*ASKED, "app", "success", "verdicts", "steps.list.element.error"]  # without the pictures
    return _ballots(
        (*(row[name] for name in (*ASKED, "app", "success")), [step["error"] for step in row["steps"]], "judge", row["verdicts"])
        for row in pq.ParquetFile(path).read(columns).to_pylist()
    )


def votes_of(trajectories: Iterable[Trajectory], judge: str) -> pd.DataFrame:
    """The verdicts of trajectories as votes of a judge of that name; a row each as in `find_votes`."""
    return _ballots(
        (t.task_id, t.run, t.planner, t.app, t.success, [step.error for step in t.steps], judge, t.verdicts) for t in trajectories
    )


def _ballots(judged: Iterable[tuple]) -> pd.DataFrame:
    rows = [
        (*named, len(errors), any(errors), judge, vote, reply)
        for *named, errors, judge, verdicts in judged for vote, reply in enumerate(verdicts)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def apply(rule: Rule, ballots: pd.DataFrame) -> pd.DataFrame:
    """What a rule says of each trajectory (index as `ballots`): said, clean, valid (bool), calls (votes asked), small (of
    these, about small screenshots).

    `ballots` is `cast`'s.  UserError names the first trajectory that lacks a vote which the rule would have asked for.
    """
    asking = pd.Series(True, ballots.index)
    clean, valid = ~ballots["broken"], pd.Series(True, ballots.index)
    calls, small = pd.Series(0, ballots.index), pd.Series(0, ballots.index)
    for ballot in ((judge, vote) for judge, count in rule.ballots for vote in range(count)):
        vote = ballots[ballot] if ballot in ballots else pd.Series(np.nan, ballots.index)
        if (lacking := asking & vote.isna()).any():
            trajectory = " ".join(map(str, lacking.idxmax()))
            raise UserError(f"{rule.name}: trajectory {trajectory} has no vote {ballot[1] + 1} of {ballot[0]!r}")
        calls += asking
        small += asking & (ballot[0] == LOW)
        valid &= ~asking | (vote != INVALID)
        asking &= vote >= YES
        clean &= vote == CLEAN
    return pd.DataFrame({"said": asking, "clean": asking & clean, "valid": valid, "calls": calls, "small": small})


def cast(votes: pd.DataFrame) -> pd.DataFrame:
    """A row per trajectory (index ASKED): app, success, steps, broken, and for each vote a column (judge, number).

    NaN stands for a vote that was not asked for.  UserError if a vote is there twice.
    """
    meta = votes.groupby(ASKED)[["app", "success", "steps", "broken"]].first()
    said = votes.assign(said=[_verdict(reply) for reply in votes["reply"]])
    if (twice := said.duplicated([*ASKED, "judge", "vote"])).any():
        trajectory = " ".join(map(str, said[twice].iloc[0][ASKED]))
        raise UserError(f"{twice.sum()} votes are there twice, of trajectory {trajectory} first")
    wide = said.pivot(index=ASKED, columns=["judge", "vote"], values="said")
    return meta.join(wide.set_axis(wide.columns.to_flat_index(), axis="columns"))


def _verdict(reply: str) -> int:
    try:
        verdict = parse_verdict(reply)
    except VerdictError:
        return INVALID
    return CLEAN if verdict.clean else YES if verdict.correct else NO


def compare(votes: pd.DataFrame, rules: Iterable[Rule], resamples: int = RESAMPLES, seed: int = 0) -> pd.DataFrame:
    """Table 2 of a run, a row per rule.

    Columns: rule, trajectories, successes, accepted, precision, precision_low, precision_high, recall, recall_low, recall_high
    (percent, 95 % by bootstrap over trajectories; empty where nothing was accepted or there was no success), coverage (percent of
    trajectories with a verdict), calls (votes asked per trajectory), small (of these, about small screenshots), labels (steps of
    clean trajectories, which would be trained on), wrong_labels (percent of them from trajectories that failed).  Trajectories
    without truth are left out.
    """
    ballots = cast(votes[votes["success"].notna()])
    return pd.DataFrame([_row(rule, ballots.join(apply(rule, ballots)), resamples, seed) for rule in rules])


def _row(rule: Rule, found: pd.DataFrame, resamples: int, seed: int) -> dict:
    truth, said = found["success"].astype(bool), found["said"]
    right, wrong, lost = (int(of.sum()) for of in (truth & said, said & ~truth, truth & ~said))
    labels = found["steps"].where(found["clean"], 0)
    # Resampling trajectories changes nothing but how many of them are of each kind: the counts are drawn directly.
    kinds = np.array([right, wrong, lost, len(found) - right - wrong - lost])
    drawn = np.random.default_rng(seed).multinomial(len(found), kinds / max(1, len(found)), resamples)
    return {
        "rule": rule.name, "trajectories": len(found), "successes": right + lost, "accepted": right + wrong,
        **_share("precision", right, wrong, drawn[:, 0], drawn[:, 1]),
        **_share("recall", right, lost, drawn[:, 0], drawn[:, 2]),
        "coverage": 100 * found["valid"].mean(), "calls": found["calls"].mean(),
        "small": found["small"].mean(), "labels": int(labels.sum()),
        "wrong_labels": 100 * labels[~truth].sum() / labels.sum() if labels.sum() else np.nan,
    }  # fmt: skip


def difference(
    votes: pd.DataFrame, measure: str, first: Rule, second: Rule, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float, float]:
    """Second rule minus first in `measure` (precision or recall) on the same trajectories: percentage points, 95 % interval.

    The interval is a paired bootstrap over trajectories.  NaN where a rule accepts nothing, or nothing succeeded.
    """
    ballots = cast(votes[votes["success"].notna()])
    truth = ballots["success"].to_numpy(bool)
    said = [apply(rule, ballots)["said"].to_numpy() for rule in (first, second)]
    kind = truth * 4 + said[0] * 2 + said[1]
    counts = np.bincount(kind, minlength=8)
    drawn = np.vstack([counts, np.random.default_rng(seed).multinomial(len(kind), counts / len(kind), resamples)])
    truths, *saids = (np.array([code >> bit & 1 for code in range(8)], bool) for bit in (2, 1, 0))
    shares = []
    for yes in saids:
        of = yes if measure == "precision" else truths
        with np.errstate(invalid="ignore"):
            shares.append(100 * drawn[:, yes & truths].sum(axis=1) / drawn[:, of].sum(axis=1))
    gap = shares[1] - shares[0]
    tail = 50 * (1 - LEVEL)
    low, high = np.nanpercentile(gap[1:], [tail, 100 - tail]) if np.isfinite(gap[0]) else (np.nan, np.nan)
    return float(gap[0]), float(low), float(high)


def _share(name: str, part: int, rest: int, parts: np.ndarray, rests: np.ndarray) -> dict[str, float]:
    """Percent of part in part + rest with the interval that the resampled counts give."""
    if not part + rest:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"), np.nan)
    some = parts + rests > 0
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(100 * parts[some] / (parts + rests)[some], [tail, 100 - tail])
    return {name: 100 * part / (part + rest), f"{name}_low": float(low), f"{name}_high": float(high)}


def grouped(votes: pd.DataFrame, by: Sequence[str], rules: Sequence[Rule], **drawing: int) -> pd.DataFrame:
    """`compare` for each group of trajectories, by application or planner for instance."""
    parts = [compare(of, rules, **drawing).assign(**dict(zip(by, name, strict=True))) for name, of in votes.groupby(list(by))]
    columns = [name for name in parts[0] if name not in by]
    return pd.concat(parts, ignore_index=True)[[*by, *columns]]


PAPER_ROWS = (  # of the paper's Table 2, in the order of `rules`
    "Qwen2.5-VL-72B-single", "72B-GUI-Judge", "72B-voting@4", "72B-voting@4 w/ multi-res", "72B-voting@4 Ensemble",
)  # fmt: skip


def rules(profile: Profile) -> tuple[Rule, ...]:
    """The rules of Table 2, in its order, with the profile's number of votes."""
    votes, half = profile.judge.votes, half_of(profile)
    return (
        Rule("base judge", (("base", 1),)),
        Rule("single", (("judge", 1),)),
        Rule(f"voting@{votes}", (("judge", votes),)),
        Rule("two resolutions", ((LOW, half), ("judge", half))),
        Rule("ensemble", (("judge", half), ("base", half))),
    )


def half_of(profile: Profile) -> int:
    """The votes of each where two judges, or two resolutions, share them."""
    return max(1, profile.judge.votes // 2)


def load_ratings(run: Run) -> pd.DataFrame:
    """The votes behind Table 2 of a run.  UserError names what is missing."""
    paths = [run.raters(app) for app in run.profile().apps]
    if absent := [path for path in paths if not path.is_file()]:
        raise UserError(f"run {run.name}: the votes of Table 2 are not there, {display(absent[0])} first")
    return pd.concat(map(pd.read_parquet, paths), ignore_index=True)


def table2(ratings: pd.DataFrame, profile: Profile, resamples: int = RESAMPLES, seed: int = 0) -> pd.DataFrame:
    """Table 2 of a run, columns as of `votes.compare`, with the paper's on ScienceBoard: paper_precision, paper_recall."""
    paper = load_table2().query("benchmark == 'scienceboard'").pivot(index="method", columns="measure", values="value")
    reported = paper.loc[list(PAPER_ROWS)].add_prefix("paper_").reset_index(drop=True)
    return compare(ratings, rules(profile), resamples, seed).join(reported)


def votes_and_rules(run: Run) -> tuple[pd.DataFrame, tuple[Rule, ...]]:
    """The votes behind Table 2 and its rules; of a run without them, the votes of its judge, if any, and the rules of these."""
    profile = run.profile()
    if all(run.raters(app).is_file() for app in profile.apps):
        return load_ratings(run), rules(profile)
    return find_votes(run), voting(profile.judge.votes)
