"""Several runs that differ in nothing but the seed, as one: what another training would have given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from coda_lib.config import Profile
from coda_lib.errors import UserError
from coda_lib.evaluation.tables import load_episodes
from coda_lib.paths import REFERENCE, RESULTS, Run


def load_seeds(runs: Sequence[Run]) -> tuple[pd.DataFrame, Profile]:
    """The episodes of all runs in one table, with their seed, and the first run's profile.

    The runs of a task are numbered on from seed to seed, so that `tables.table1(episodes, ..., k=profile.evaluation_runs)` gives
    the means over the seeds.  UserError if two have the same seed or differ in anything else, naming it.
    """
    profiles = [run.profile() for run in runs]
    first = _settings(profiles[0])
    for run, profile in zip(runs, profiles, strict=True):
        if different := sorted(name for name, value in _settings(profile).items() if value != first[name]):
            raise UserError(f"run {run.name} is another study than {runs[0].name}: it differs in {', '.join(different)}")
    seeds = [profile.seed for profile in profiles]
    if len(set(seeds)) < len(seeds):
        raise UserError(f"the same seed twice says nothing new: the runs have the seeds {', '.join(map(str, seeds))}")
    parts = [load_episodes(run).assign(seed=seed) for run, seed in zip(runs, seeds, strict=True)]
    k = profiles[0].evaluation_runs
    return pd.concat([part.assign(run=part["run"] + i * k) for i, part in enumerate(parts)], ignore_index=True), profiles[0]


def _settings(profile: Profile) -> dict:
    return profile.model_dump(exclude={"seed"})


def siblings(run: Run, folders: Sequence[Path] = (RESULTS, REFERENCE)) -> list[Run]:
    """The run and, of the finished runs in these folders, those of the same study with other seeds, by seed."""
    found = {run.profile().seed: run}
    for path in sorted(path for folder in folders for path in folder.glob("*/tables/table1.csv")):
        other = Run(str(path.parents[1]))
        profile = other.profile()
        if _settings(profile) == _settings(run.profile()):
            found.setdefault(profile.seed, other)
    return [found[seed] for seed in sorted(found)]


def by_seed(episodes: pd.DataFrame) -> pd.DataFrame:
    """Overall Average@k of each system (rows) with each seed (columns), in percent, and the standard deviation between seeds."""
    cells = episodes.astype({"success": float}).groupby(["system", "seed", "app"], sort=False)["success"].mean()
    table = 100 * cells.groupby(["system", "seed"], sort=False).mean().unstack("seed")
    return table.assign(deviation=table.std(axis=1, ddof=1) if table.shape[1] > 1 else np.nan)
