"""The judges of Table 2, and their votes on a mix of a run's trajectories."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from coda_lib.config import Profile
from coda_lib.evaluation.votes import LOW, half_of, votes_of
from coda_lib.files import write_table
from coda_lib.judge import Judge
from coda_lib.run import Run
from coda_lib.stages.common import stage_seed
from coda_lib.trajectory import Trajectory, load_trajectories


def mix(run: Run, app: str) -> list[Trajectory]:
    """A seeded draw of the run's trajectories whose outcome is known: as many of the base planner, specialist and generalist."""
    profile = run.profile()
    played = run.evaluation("stage2", app).with_suffix(".trajectories.parquet")
    drawn: list[Trajectory] = []
    for path in (run.rollouts("base", app), run.rollouts("specialist", app), played):
        known = [trajectory for trajectory in load_trajectories(path) if trajectory.success is not None]
        rng = random.Random(stage_seed(profile, "raters", app, path.parent.name))
        drawn += rng.sample(known, min(profile.raters.trajectories, len(known)))
    return drawn


def load_raters(profile: Profile, stop_at_no: bool = False) -> Mapping[str, Callable[[], Judge]]:
    """The judges of Table 2 by name, each loaded when it is called."""
    load = partial(Judge.load, profile, stop_at_no=stop_at_no)
    half, small = half_of(profile), profile.raters.low_resolution
    return {
        "judge": load,
        LOW: partial(load, votes=half, resolution=small),
        "base": partial(load, profile.models.base_judge, votes=half),
    }


def rate(run: Run, app: str) -> pd.DataFrame:
    """Let every judge of Table 2 vote on the mix, all its votes whatever the first one says; writes raters/{app}.parquet.

    The columns are those of `votes.find_votes`.
    """
    profile, drawn = run.profile(), mix(run, app)
    parts = []
    for name, load in load_raters(profile).items():
        judged = load().vote(drawn, stage_seed(profile, "raters", app, name))
        parts.append(votes_of(judged, name))
    table = pd.concat(parts, ignore_index=True)
    write_table(run.raters(app), table)
    return table
