"""The paper's claims, data/claims.yaml, on a run or several seeds: supported, contradicted or undecided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from coda_lib.applications import APPS, DESKTOP_APPS, App
from coda_lib.config import Profile, Section, System
from coda_lib.files import load_rows
from coda_lib.judge import Rule
from coda_lib.paths import DATA
from coda_study.evaluation.paper import LABELS, OVERALL, Provenance, load_table1, load_table2
from coda_study.evaluation.statistics import RESAMPLES, settles
from coda_study.evaluation.tables import (
    BESIDE,
    PAPER_MODELS,
    Matrices,
    compare,
    load_seeds,
    numbered_on,
    played_beside,
    read_episodes,
    success_matrices,
)
from coda_study.evaluation.votes import TRAJECTORY, difference
from coda_study.run import Run

CLAIMS = DATA / "claims.yaml"
JOINT = "joint"  # the ablation with one planner for all applications
COLUMNS = [
    "claim", "metric", "application", "reported", "difference", "low", "high", "verdict", "rests_on",
]  # fmt: skip


class DifferenceTest(Section):
    """The second system is better than the first."""

    kind: Literal["difference"]
    first: System | Literal["joint"]
    second: System
    metrics: tuple[Literal["Average", "Pass"], ...]
    application: App | Literal["overall"] = "overall"


class RulesTest(Section):
    """The second voting rule is better than the first, on the same votes."""

    kind: Literal["rules"]
    measure: Literal["precision", "recall"]
    first: str
    second: str
    paper: tuple[str, str]  # their rows of the paper's Table 2


class Untested(Section):
    """No run of the kit can decide this."""

    kind: Literal["untested"]
    needs: str


class Claim(Section):
    id: str
    claim: str
    source: str
    test: Annotated[DifferenceTest | RulesTest | Untested, Field(discriminator="kind")]


def load_claims(path: Path = CLAIMS) -> list[Claim]:
    """The claims.  UserError names file, claim and field of what is missing or unknown."""
    return load_rows(path, Claim)


def load_systems(runs: Sequence[Run]) -> tuple[pd.DataFrame, tuple[str, ...], Profile]:
    """Episodes and names of several seeds' systems, with `JOINT` where all have that ablation; the profile.

    Episodes and profile are those of `load_seeds`, with its errors.
    """
    episodes, profile = load_seeds(runs)
    if not all(run.ablation(JOINT).is_file() for run in runs):
        return episodes, profile.systems, profile
    joint = numbered_on([read_episodes(run.ablation(JOINT)) for run in runs], profile.evaluation_runs)
    return pd.concat([episodes, joint]), (*profile.systems, JOINT), profile


def decide_claims(
    claims: Sequence[Claim], episodes: pd.DataFrame, votes: pd.DataFrame, rules: Sequence[Rule],
    systems: Sequence[str], apps: Sequence[str], resamples: int = RESAMPLES, seed: int = 0,
    provenance: Provenance = Provenance.MEASURED, k: int | None = None,
) -> pd.DataFrame:  # fmt: skip
    """A run's verdict on each claim, a row per claim and metric; claims about `rules` rest on the `votes`.

    With the episodes of several seeds (`load_systems`) it is theirs together: a task's score is the mean over
    the seeds, each of which has `k` of its runs (default: all).

    Columns: claim, metric, application, reported (the paper's difference, if it gives one), difference, low,
    high (percentage points; the 95 % interval), verdict, rests_on, provenance.  The verdict is `supported`
    where the whole interval lies above zero, `contradicted` where it lies below, `undecided` otherwise, and
    `not tested` in a smoke run and where the run lacks the systems or votes.

    Raises EpisodesError that names missing episodes: no claim rests silently on fewer tasks.
    """
    matrices, drawing = success_matrices(episodes, systems, apps), (resamples, seed)
    rows = []
    for claim in claims:
        match claim.test:
            case Untested(needs=needs):
                decided = [{"rests_on": f"needs {needs}"}]
            case RulesTest() as test:
                decided = [_of_rules(test, votes, rules, *drawing)]
            case DifferenceTest() as test:
                decided = _of_systems(test, matrices, systems, apps, *drawing, k)
        rows += [{"claim": claim.claim, "verdict": _verdict(row, provenance)} | row for row in decided]
    return pd.DataFrame(rows, columns=COLUMNS).assign(provenance=str(provenance))


def elsewhere(
    claims: Sequence[Claim], runs: Sequence[Run], resamples: int, seed: int, provenance: Provenance
) -> Iterator[pd.DataFrame]:
    """`decide_claims` about systems once more: at sealed tasks and at temperature 0, where played."""
    profile = runs[0].profile()
    for of, episodes, k in played_beside(runs):
        systems = [claim.model_copy(update={"test": claim.test.model_copy(update={"metrics": ("Average",)})})
                   for claim in claims if isinstance(claim.test, DifferenceTest)]  # fmt: skip
        table = decide_claims(
            systems,
            episodes,
            pd.DataFrame(),
            (),
            profile.systems,
            profile.apps,
            resamples,
            seed,
            provenance,
            k,
        )
        table = table[table["difference"].notna()]
        yield table.assign(metric=table["metric"] + f", {BESIDE[of]}")


def _of_systems(
    test: DifferenceTest, matrices: Matrices, systems: Sequence[str], apps: Sequence[str],
    resamples: int, seed: int, k: int | None,
) -> list[dict]:  # fmt: skip
    pair = (test.first, test.second)
    # a study of real applications has other ones
    everything = apps if set(apps) <= set(DESKTOP_APPS) else APPS
    wanted = (*pair, *(everything if test.application == OVERALL else [test.application]))
    if absent := [name for name in wanted if name not in (*systems, *apps)]:
        return [{"rests_on": f"the run has no {' and no '.join(absent)}"}]
    paper = load_table1().set_index(["metric", "model", "application"])["value"]
    where = "all applications" if test.application == OVERALL else LABELS[test.application]
    rows = []
    for family in test.metrics:
        gap = compare(matrices, family, pair, test.application, resamples, seed, apps=apps, k=k)
        models = [(f"{family}@8", PAPER_MODELS.get(name), test.application) for name in pair]
        before, after = (paper.get(model, np.nan) for model in models)
        runs = f"{k or gap['runs']} runs each"
        if k not in (None, gap["runs"]):
            runs += f" with {gap['runs'] // k} seeds"
        rests_on = f"{pair[0]} and {pair[1]}, {where}: {gap['tasks']} tasks, {runs}"
        rows.append(gap | {"reported": after - before, "rests_on": rests_on})
    return rows


def _of_rules(test: RulesTest, votes: pd.DataFrame, rules: Sequence[Rule], resamples: int, seed: int) -> dict:
    known = {} if votes.empty else {rule.name: rule for rule in rules}
    if absent := [name for name in (test.first, test.second) if name not in known]:
        return {"rests_on": f"the run has no {' and no '.join(absent)}"}
    value, low, high = difference(votes, test.measure, known[test.first], known[test.second], resamples, seed)
    if np.isnan(value):
        return {"rests_on": "no trajectory was accepted, or none succeeded"}
    paper = load_table2().query("benchmark == 'scienceboard' and measure == @test.measure")
    before, after = (paper.set_index("method")["value"][row] for row in test.paper)
    return {
        "metric": test.measure, "application": OVERALL, "reported": after - before,
        "difference": value, "low": low, "high": high,
        "rests_on": f"{len(votes.groupby(TRAJECTORY))} trajectories",
    }  # fmt: skip


def _verdict(gap: dict, provenance: Provenance) -> str:
    if "low" not in gap or provenance == Provenance.SMOKE:
        return "not tested"
    if not settles(gap["low"], gap["high"]):
        return "undecided"
    return "supported" if gap["difference"] > 0 else "contradicted"
