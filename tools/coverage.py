"""What the intervals leave out: the runs of a study share one exploration.  `python -m tools.coverage`.

Studies are simulated from the committed one: its tasks drawn again, the noise of its episodes, an effect of
each training as large as its seeds show, and an effect of the exploration, the same for all seeds, of no or
of equal size.  Printed is how often the interval of stage 1 minus base planner holds the truth.
"""

from __future__ import annotations

import numpy as np

from coda_lib.paths import REFERENCE
from coda_study.evaluation.statistics import paired_difference
from coda_study.evaluation.tables import load_seeds, siblings
from coda_study.run import Run

STUDIES, RESAMPLES = 1000, 400


def gaps(of: str) -> list[np.ndarray]:
    """Stage 1 minus base planner in the committed study, (tasks, seeds) for each application."""
    episodes, _ = load_seeds(siblings(Run(str(REFERENCE / "laptop")), [REFERENCE]), of)
    rates = episodes.groupby(["app", "task_id", "seed", "system"])["success"].mean().unstack("system")
    wide = (rates["stage1"] - rates["base"]).unstack("seed")
    return [part.to_numpy(float) for _, part in wide.groupby("app")]


def coverage(gaps: list[np.ndarray], share: float, rng: np.random.Generator) -> float:
    """How often the interval holds the truth where the exploration's deviation is `share` of a training's."""
    seeds = gaps[0].shape[1]
    tasks = [gap.mean(axis=1, keepdims=True) for gap in gaps]
    noise = [(gap - task) * np.sqrt(seeds / (seeds - 1)) for gap, task in zip(gaps, tasks, strict=True)]
    noise = [part - part.mean(axis=0) for part in noise]  # without the effect of a training
    truth = np.mean([task.mean() for task in tasks])
    by_chance = sum((part**2).mean() / len(part) for part in noise) / len(gaps) ** 2
    of_seed = np.mean([gap.mean(axis=0) for gap in gaps], axis=0)
    training = np.sqrt(max(0.0, of_seed.var(ddof=1) - by_chance))
    held = 0
    for _ in range(STUDIES):
        effect = training * (rng.standard_normal(seeds) + share * rng.standard_normal())
        studied = []
        for task, part in zip(tasks, noise, strict=True):
            drawn = rng.integers(len(task), size=len(task))
            signs = rng.choice([-1, 1], size=part.shape)
            studied.append(task[drawn] + part[drawn][:, rng.permutation(seeds)] * signs + effect)
        found = paired_difference([np.zeros_like(one) for one in studied], studied, rng, RESAMPLES)
        held += found.low <= truth <= found.high
    return held / STUDIES


if __name__ == "__main__":
    for of, name in {"evaluation": "test tasks", "sealed": "sealed tasks"}.items():
        for share in (0, 1):
            held = coverage(gaps(of), share, np.random.default_rng(0))
            print(f"{name}, exploration {share} x training: {held:.1%}")
