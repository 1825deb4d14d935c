"""Table 2 of a run: what several judges, alone and together, make of the same mix of its trajectories (paper, section 4)."""

from __future__ import annotations

import pandas as pd

from coda_lib.config import Profile
from coda_lib.errors import UserError
from coda_lib.evaluation.paper import load_table2
from coda_lib.evaluation.statistics import RESAMPLES
from coda_lib.evaluation.votes import LOW, Rule, compare, find_votes, voting
from coda_lib.paths import Run, display

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
