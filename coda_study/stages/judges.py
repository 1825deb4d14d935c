"""Stage `judges`: the judges of Table 2 vote on a mix of a run's trajectories (notebook 09)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from coda_lib.config import Profile
from coda_lib.judge import Judge
from coda_lib.trajectory import Trajectory, load_trajectories
from coda_study.draws import stage_seed
from coda_study.evaluation.votes import LOW, half_of, votes_of
from coda_study.run import Run
from coda_study.stages.common import begin, write_joined

__all__ = ["begin", "load_judges", "mix", "run"]

_SEED = "raters"  # part of the stage's seeds: another word would draw another mix


def run(run: Run, app: str) -> pd.DataFrame:
    """Let every judge of Table 2 vote on the mix; writes judges/{app}.parquet (`votes.find_votes`)."""
    profile, trajectories = run.profile(), mix(run, app)
    votes = []
    for name, load in load_judges(profile, rule=None).items():
        judged = load().vote(trajectories, stage_seed(profile, _SEED, app, name))
        votes.append(votes_of(judged, name))
    return write_joined(run.judges(app), votes)


def mix(run: Run, app: str) -> list[Trajectory]:
    """A seeded draw of trajectories with an outcome, equally many of base planner, specialist, generalist."""
    profile = run.profile()
    drawn: list[Trajectory] = []
    for path in (run.rollouts("base", app), run.rollouts("specialist", app), run.trajectories("stage2", app)):
        known = [trajectory for trajectory in load_trajectories(path) if trajectory.success is not None]
        rng = random.Random(stage_seed(profile, _SEED, app, path.parent.name))
        drawn += rng.sample(known, min(profile.judges.trajectories, len(known)))
    return drawn


def load_judges(profile: Profile, **changes: object) -> Mapping[str, Callable[[], Judge]]:
    """The judges of Table 2 by name, each loaded when it is called; `changes` as of `Judge.load`."""
    load, half = partial(Judge.load, profile, **changes), half_of(profile.judge)
    return {
        "judge": load,
        LOW: partial(load, votes=half, resolution=profile.judges.low_resolution),
        "base": partial(load, profile.models.base_judge, votes=half),
    }
