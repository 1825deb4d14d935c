"""The numbers of tasks, runs and training seeds that settle a difference between two systems.

Model: on task t, trained with seed s, two systems differ in their chance of success by d + T_t + S_s + I_ts;
a measurement adds the noise of k runs of each.  With n tasks and m seeds the mean difference has the variance

    (tasks + (mixed + runs / k) / m) / n + seeds / m

where `tasks`, `seeds` and `mixed` are the variances of T, S and I, and `runs` is that of one run of each
system.  More runs and more seeds cannot replace tasks, and only more seeds show how much one training differs
from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt

import numpy as np
import pandas as pd
from scipy.stats import norm

from coda_lib.errors import UserError
from coda_study.evaluation.statistics import LEVEL
from coda_study.evaluation.tables import load_episodes, success_matrices
from coda_study.run import Run

POWER = 0.8  # probability of detecting a real difference; the usual choice
SEEDS, RUNS = (1, 3, 5, 10), (1, 8, 32)  # designs to compare

# successes of two systems on the same tasks of an application, (tasks x runs) each
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Spread:
    """Variances of a difference between two systems (of shares of successes), mean over the applications.

    With a single seed `seeds` is unknown (None), and `mixed` is part of `tasks`.
    """

    tasks: float
    runs: float
    mixed: float = 0.0
    seeds: float | None = None

    def variance(self, tasks: float, runs: int, seeds: int) -> float:
        """Variance of the mean difference over so many tasks in all, runs of each and seeds."""
        return self._per_task(runs, seeds) / tasks + (self.seeds or 0.0) / seeds

    def detectable(self, tasks: float, runs: int, seeds: int, power: float = POWER) -> float:
        """The smallest difference that such a study detects with probability `power` (two-sided, 5 %)."""
        return _z(power) * sqrt(self.variance(tasks, runs, seeds))

    def tasks_needed(self, difference: float, runs: int, seeds: int, power: float = POWER) -> float:
        """The number of tasks to detect a difference; infinite where the seeds' variance alone hides it."""
        variance = (difference / _z(power)) ** 2 - (self.seeds or 0.0) / seeds
        return ceil(self._per_task(runs, seeds) / variance) if variance > 0 else inf

    def _per_task(self, runs: int, seeds: int) -> float:
        return self.tasks + (self.mixed + self.runs / runs) / seeds


def _z(power: float) -> float:
    return float(norm.ppf((1 + LEVEL) / 2) + norm.ppf(power))


def estimate(seeds: Sequence[Sequence[Pair]]) -> Spread:
    """The variances behind measured successes: for each seed a pair of matrices for each application.

    By the method of moments; a negative estimate becomes zero.  UserError with a single run a task, which
    cannot separate a hard task from an unlucky run, and if the seeds have different tasks or numbers of runs.
    """
    shapes = {tuple(matrix.shape for pair in seed for matrix in pair) for seed in seeds}
    if len(shapes) > 1:
        different = "the runs have different tasks or numbers of runs"
        raise UserError(f"{different}: give runs of one profile that differ in the seed")
    k, count = seeds[0][0][0].shape[1], len(seeds)
    if k < 2:
        raise UserError("a single run of each task does not show how much runs differ")
    matrices = [matrix.astype(float) for seed in seeds for pair in seed for matrix in pair]
    # of one run of each system
    noise = 2 * float(np.mean([matrix.var(axis=1, ddof=1).mean() for matrix in matrices]))
    gaps = [  # (seeds x tasks) for each application
        np.stack([second.mean(axis=1) - first.mean(axis=1) for first, second in pairs])
        for pairs in zip(*seeds, strict=True)
    ]
    between = float(np.mean([gap.mean(axis=0).var(ddof=1) for gap in gaps]))
    if count == 1:
        return Spread(max(0.0, between - noise / k), noise)
    rest = float(np.mean([_residual(gap) for gap in gaps]))
    overall = np.mean([gap.mean(axis=1) for gap in gaps], axis=0)
    tasks = len(gaps) ** 2 / sum(1 / gap.shape[1] for gap in gaps)
    return Spread(
        tasks=max(0.0, between - rest / count),
        runs=noise,
        mixed=max(0.0, rest - noise / k),
        seeds=max(0.0, float(overall.var(ddof=1)) - rest / tasks),
    )


def _residual(gap: np.ndarray) -> float:
    """Variance of (seeds x tasks) that neither the seed nor the task explains."""
    residual = gap - gap.mean(axis=0) - gap.mean(axis=1, keepdims=True) + gap.mean()
    return float((residual**2).sum() / ((gap.shape[0] - 1) * (gap.shape[1] - 1)))


def load_pairs(run: Run, first: str, second: str) -> list[Pair]:
    """The successes of two systems of a run for each application.  UserError names what is missing."""
    apps = run.profile().apps
    matrices = success_matrices(load_episodes(run, (first, second)), (first, second), apps)
    return [(matrices[first, app].to_numpy(), matrices[second, app].to_numpy()) for app in apps]


def designs(spread: Spread, difference: float, power: float = POWER) -> pd.DataFrame:
    """Numbers of tasks that settle a difference: rows are numbers of seeds, columns are numbers of runs."""
    table = {f"{k} runs": [spread.tasks_needed(difference, k, m, power) for m in SEEDS] for k in RUNS}
    return pd.DataFrame(table, index=pd.Index([f"{m} seeds" if m > 1 else "1 seed" for m in SEEDS]))
