"""Average@k, Pass@k, their intervals, and paired comparisons of two systems.

Everything starts from a success matrix (tasks x runs, bool): one system, k independent runs of every task.
The runs of one task are not independent of each other, so uncertainty is always over *tasks*: both metrics
are means over tasks of a score per task.  A figure has Wilson's interval with as many trials as its tasks are
worth (`wilson_over_tasks`), a difference the wider of a bootstrap's and of Student's t, over tasks and seeds
(`paired_difference`).  Whether there is a difference is said by its interval alone (`settles`).  Functions
that resample take a NumPy generator; the same generator state gives the same figures.

SciPy computes the bootstrap of means and the quantiles of t; statsmodels Wilson and Newcombe.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from operator import itemgetter

import numpy as np
import pandas as pd
from scipy import special, stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from coda_lib.errors import UserError

# StopReason.ENVIRONMENT_ERROR, spelt out so that tables do not import the agent; a test holds them equal.
ENVIRONMENT_ERROR = "ENVIRONMENT_ERROR"
LEVEL = 0.95  # of every interval
TAILS = (50 * (1 - LEVEL), 100 - 50 * (1 - LEVEL))  # percentiles at its ends
RESAMPLES = 10_000  # of differences
PRIOR = 2.0  # successes for which `wilson_over_tasks` assumes the worst case (Agresti and Coull)

Pairs = Sequence[tuple[str, int]]  # (task_id, run) of episodes


_WITHOUT = f"without an outcome ({ENVIRONMENT_ERROR}, or success not recorded)"
_AGAIN = "Run these episodes again; no table is made from the others."


class EpisodesError(UserError):
    """The episodes do not form a full matrix of tasks x runs.

    Attributes: `missing`, `broken` and `repeated`, each a tuple of (task_id, run).  `broken` are episodes
    without an outcome: the environment failed, which says nothing about the agent.
    """

    def __init__(self, message: str, missing: Pairs = (), broken: Pairs = (), repeated: Pairs = ()) -> None:
        super().__init__(message)
        self.missing, self.broken, self.repeated = tuple(missing), tuple(broken), tuple(repeated)


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval and the method of the interval.

    The method is `Wilson`; of differences `wider of bootstrap and t`, with several seeds `..., over seeds
    too`, or `Newcombe`.
    """

    value: float
    low: float
    high: float
    method: str


def format_interval(value: float, low: float, high: float, form: str = ".1f") -> str:
    """`12.9 [5.1, 22.4]`."""
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def settles(low: float, high: float) -> bool:
    """Whether the interval of a difference leaves out 0: the rule of every verdict and of bold figures."""
    return low > 0 or high < 0


def success_matrix(
    episodes: pd.DataFrame,
    tasks: Collection[str] | None = None,
    runs: Collection[int] | None = None,
    name: str = "",
) -> pd.DataFrame:
    """Successes of one system (tasks x runs, bool; index task_id sorted, columns run sorted).

    `episodes` has a row per episode with task_id, run, stop, success.  `tasks` and `runs` are the expected
    ones (default: all that occur); messages begin with `name`.

    Raises EpisodesError that names tasks and runs where an episode is missing, occurs twice, belongs to no
    expected task, or has no outcome (stop ENVIRONMENT_ERROR, or success not recorded).  Nothing is dropped
    and nothing counts as zero.
    """
    name = name or "these episodes"
    if episodes.empty:
        raise EpisodesError(f"{name}: no episodes")
    tasks = sorted(episodes["task_id"].unique() if tasks is None else tasks)
    runs = sorted(episodes["run"].unique() if runs is None else runs)
    broken = _broken(episodes)
    repeated = _pairs(episodes[episodes.duplicated(["task_id", "run"])])
    found, expected = set(_pairs(episodes)), set(product(tasks, runs))
    missing = sorted(expected - found)
    problems = {
        f"of {len(expected)} episodes missing": missing,
        _WITHOUT: broken,
        "recorded more than once": repeated,
        "of a task or run that is not expected": sorted(found - expected),
    }
    if any(problems.values()):
        listed = "; ".join(f"{len(of)} {problem}: {_spell(of)}" for problem, of in problems.items() if of)
        raise EpisodesError(f"{name}: {listed}. {_AGAIN}", missing, broken, repeated)
    return episodes.pivot(index="task_id", columns="run", values="success").astype(bool)


def require_outcomes(episodes: pd.DataFrame) -> None:
    """EpisodesError that names episodes without an outcome, as in `success_matrix`, if there are some."""
    if broken := _broken(episodes):
        raise EpisodesError(f"{len(broken)} episodes {_WITHOUT}: {_spell(broken)}. {_AGAIN}", broken=broken)


def _broken(episodes: pd.DataFrame) -> Pairs:
    return _pairs(episodes[(episodes["stop"] == ENVIRONMENT_ERROR) | episodes["success"].isna()])


def _pairs(episodes: pd.DataFrame) -> Pairs:
    return sorted(set(zip(episodes["task_id"], episodes["run"].astype(int), strict=True)))


def _spell(pairs: Pairs, shown: int = 12) -> str:
    """`algebra/A-01 runs 2, 3; gis/B-04 run 0`, at most `shown` tasks."""
    runs = {task: [str(run) for _, run in group] for task, group in groupby(pairs, key=itemgetter(0))}
    spelt = [f"{task} run{'s' * (len(of) > 1)} {', '.join(of)}" for task, of in list(runs.items())[:shown]]
    rest = [f"and {len(runs) - shown} more tasks"] if len(runs) > shown else []
    return "; ".join(spelt + rest)


def task_average(successes: np.ndarray | pd.DataFrame) -> np.ndarray:
    """Share of runs that succeed, per task: (tasks x runs) -> (tasks,)."""
    return np.asarray(successes, dtype=float).mean(axis=1)


def task_pass(successes: np.ndarray | pd.DataFrame, k: int) -> np.ndarray:
    """Unbiased chance of a success among k of n runs: 1 - C(n-c, k) / C(n, k); (tasks x runs) -> (tasks,)."""
    successes = np.asarray(successes, dtype=bool)
    n = successes.shape[1]
    if not 1 <= k <= n:
        raise ValueError(f"Pass@{k} needs 1 <= k <= runs, and there are {n} runs")
    failures = n - successes.sum(axis=1)
    return 1.0 - special.comb(failures, k) / special.comb(n, k)


def task_always(successes: np.ndarray | pd.DataFrame, k: int) -> np.ndarray:
    """Unbiased chance that k of n runs all succeed: C(c, k) / C(n, k); (tasks x runs) -> (tasks,).

    Pass^k of arXiv 2406.12045.
    """
    return 1.0 - task_pass(~np.asarray(successes, dtype=bool), k)


def task_flips(successes: np.ndarray | pd.DataFrame, k: int) -> np.ndarray:
    """Chance that of k of n runs some succeed and some do not: (tasks x runs) -> (tasks,)."""
    return task_pass(successes, k) - task_always(successes, k)


def wilson(successes: float, trials: float) -> Estimate:
    """Proportion of independent trials with Wilson's interval."""
    low, high = proportion_confint(successes, trials, alpha=1 - LEVEL, method="wilson")
    return Estimate(float(successes / trials), float(low), float(high), "Wilson")


def precision_and_recall(
    tasks: Sequence[str], accepted: Sequence[bool], success: Sequence[bool]
) -> tuple[Estimate, Estimate]:
    """`ratio` of the accepted trajectories that are successes, and of the successes that are accepted.

    `tasks`, `accepted` and `success` have an entry for each trajectory.  Every table about judges takes both
    from here.
    """
    yes, truth = np.asarray(accepted, bool), np.asarray(success, bool)
    counts = pd.DataFrame(np.column_stack([yes & truth, yes, truth])).groupby(np.asarray(tasks)).sum()
    right, accepted_of_task, successes = counts.to_numpy().T
    return ratio(right, accepted_of_task), ratio(right, successes)


def ratio(parts: np.ndarray, wholes: np.ndarray) -> Estimate:
    """sum(parts) / sum(wholes), trajectories of each task, (tasks,) both; NaN if `wholes` are zero.

    The trajectories of a task are not independent: the interval is `wilson_over_tasks`, a task weighing as
    much as it has trajectories.
    """
    parts, wholes = parts[wholes > 0], wholes[wholes > 0]
    if not wholes.size:
        return Estimate(np.nan, np.nan, np.nan, "none")
    value, weights, tasks = float(parts.sum() / wholes.sum()), wholes / wholes.sum(), len(wholes)
    squares = np.sum((weights * (parts / wholes - value)) ** 2)
    variance = squares * tasks / (tasks - 1) if tasks > 1 else np.inf
    return wilson_over_tasks(value, 1 / np.sum(weights**2), variance)


def resampled_sums(counts: np.ndarray, rng: np.random.Generator, resamples: int = RESAMPLES) -> np.ndarray:
    """Sums of counts (tasks x kinds) over as many tasks, drawn with replacement: (resamples x kinds)."""
    tasks = len(counts)
    return rng.multinomial(tasks, np.full(tasks, 1 / tasks), resamples) @ counts


def mean_over_tasks(strata: Sequence[np.ndarray]) -> Estimate:
    """Unweighted mean over applications of the mean score per task, with the interval of `wilson_over_tasks`.

    `strata` holds one array of scores per task (tasks,), from 0 to 1, for each application; Overall has
    several.  For one application whose scores are 0 or 1, as those of Pass@k, it is `wilson`.
    """
    value = float(np.mean([np.mean(scores) for scores in strata]))
    spreads = [np.var(scores, ddof=1) if len(scores) > 1 else value * (1 - value) for scores in strata]
    variance = sum(spread / len(scores) for spread, scores in zip(spreads, strata, strict=True))
    return wilson_over_tasks(value, _effective_tasks(strata), variance / len(strata) ** 2)


def wilson_over_tasks(value: float, tasks: float, variance: float) -> Estimate:
    """Wilson's interval of `value`, a mean of shares per task, of `tasks`, or more if these differ little.

    A mean of scores from 0 to 1 varies most if every score is 0 or 1: then its variance is `value` (1 -
    `value`) / `tasks`.  The tasks count for more by the ratio of that to the `variance` estimated from the
    data.  As few successes (or failures) say little about a variance, `PRIOR` is added to both: without a
    success it stays Wilson's of `tasks`.

    Where tasks are resampled instead, an application without a success adds nothing to the width, and the
    interval of a low rate holds the truth in 86 to 92 % of cases instead of 95 %.  docs/reproducibility.md
    has the simulation.
    """
    worst = value * (1 - value) * tasks
    effect = min(1.0, (variance * tasks**2 + PRIOR) / (worst + PRIOR))
    return replace(wilson(value * tasks / effect, tasks / effect), value=value)


def paired_difference(
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Second minus first on the same tasks, with the wider interval of a bootstrap's and Student's t.

    `first` and `second` hold one array of scores for each application, (tasks,) or (tasks, seeds), tasks in
    the same order.  Tasks are resampled within their application, both systems with the same tasks; of
    several seeds the seeds are resampled as well (`_seed_noise`), since each is a training of its own.  A few
    of them tell little of how much they vary, which t makes up for (`_t_margin`).

    Where every task has the same difference the bootstrap's place is taken by Newcombe's interval for two
    proportions, with tasks as the trials.
    """
    pairs = zip(first, second, strict=True)
    of_seeds = [(np.asarray(after) - np.asarray(before)).reshape(len(before), -1) for before, after in pairs]
    gaps = [gap.mean(axis=1) for gap in of_seeds]
    value = float(np.mean([gap.mean() for gap in gaps]))
    means, method = _resample(gaps, rng, resamples), "wider of bootstrap and t"
    if means is None:
        tasks, method = _effective_tasks(gaps), "Newcombe"
        before, after = (float(np.mean([np.mean(scores) for scores in side])) for side in (first, second))
        low, high = newcombe(before, tasks, after, tasks)
    else:
        if of_seeds[0].shape[1] > 1:
            means, method = means + _seed_noise(of_seeds, rng, resamples), f"{method}, over seeds too"
        low, high = map(float, np.percentile(means, TAILS))
    margin = _t_margin(of_seeds)
    return Estimate(value, max(-1.0, min(low, value - margin)), min(1.0, max(high, value + margin)), method)


def _seed_noise(gaps: Sequence[np.ndarray], rng: np.random.Generator, resamples: int) -> np.ndarray:
    """What drawing seeds adds to the mean of gaps, (tasks, seeds) for each application: (resamples,).

    A seed is drawn for all applications at once: the planner of stage 2 is trained for all of them.  Drawing
    from S seeds varies too little by (S - 1) / S, which is made up for.  The noise of episodes counts here
    and over tasks: the interval is rather wide.
    """
    of_seed = np.mean([gap.mean(axis=0) for gap in gaps], axis=0)
    seeds = len(of_seed)
    shares = rng.multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    return shares @ (of_seed - of_seed.mean()) * np.sqrt(seeds / (seeds - 1))


def _t_margin(gaps: Sequence[np.ndarray]) -> float:
    """Half the width of an interval of Student's t for the mean of gaps, (tasks, seeds) for each application.

    Tasks and seeds each have a standard error, widened by the quantile of their own degrees of freedom; the
    margin is the root of the sum of squares (Howe, JASA 69, 1974, for the sum of two means).  One quantile
    with Satterthwaite's degrees of freedom holds the truth in 87 % of cases where two seeds differ much.
    """
    of_seed = np.mean([gap.mean(axis=0) for gap in gaps], axis=0)
    errors = [(len(of_seed) - 1, np.var(of_seed, ddof=1) / len(of_seed))] if len(of_seed) > 1 else []
    if tasks := sum(len(gap) - 1 for gap in gaps):
        spreads = [np.var(gap.mean(axis=1), ddof=1) / len(gap) for gap in gaps if len(gap) > 1]
        errors.append((tasks, sum(spreads) / len(gaps) ** 2))
    quantile = (1 + LEVEL) / 2
    return float(np.sqrt(sum(stats.t.ppf(quantile, freedom) ** 2 * error for freedom, error in errors)))


def newcombe(first: float, first_trials: float, second: float, second_trials: float) -> tuple[float, float]:
    """Newcombe's interval of the second share minus the first, of independent samples of so many trials."""
    low, high = confint_proportions_2indep(
        second * second_trials, second_trials, first * first_trials, first_trials,
        method="newcomb", compare="diff", alpha=1 - LEVEL,
    )  # fmt: skip
    return float(low), float(high)


def _resample(strata: Sequence[np.ndarray], rng: np.random.Generator, resamples: int) -> np.ndarray | None:
    """Unweighted means of the strata over resampled tasks, (resamples,); None where no stratum varies."""
    varying = [scores for scores in strata if np.ptp(scores) > 0]
    if not varying:
        return None
    # resampling cannot change the means of the others
    constant = sum(scores[0] for scores in strata if np.ptp(scores) == 0)
    return stats.bootstrap(
        varying,
        lambda *samples, axis: (constant + sum(sample.mean(axis=axis) for sample in samples)) / len(strata),
        n_resamples=resamples, vectorized=True, confidence_level=LEVEL, method="percentile", rng=rng,
    ).bootstrap_distribution  # fmt: skip


def _effective_tasks(strata: Sequence[np.ndarray]) -> float:
    """Size of one sample whose mean is as uncertain as the strata's; all tasks if equally large."""
    return len(strata) ** 2 / sum(1 / len(scores) for scores in strata)
