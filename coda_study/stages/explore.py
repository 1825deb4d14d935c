"""Stage `explore`: roll out a planner on the train tasks (paper, section 4; notebook 03)."""

from __future__ import annotations

from coda_lib.agent import models_of
from coda_lib.trajectory import Trajectory, save_trajectories
from coda_study.draws import stage_seed, train_tasks
from coda_study.fleet.collection import Collection
from coda_study.owned import remove
from coda_study.run import Run
from coda_study.stages.common import Progress, begin, play, system_agent, unreported
from coda_study.usage import note_usage

__all__ = ["begin", "run"]


def run(run: Run, planner: str, app: str, progress: Progress = unreported) -> list[Trajectory]:
    """Roll out 'base', 'round1' or 'specialist' on its train tasks; writes rollouts/{planner}/{app}.parquet.

    Where the profile has a generator, it makes the tasks while the base planner explores (`stages.rounds`).
    """
    profile, fleet = run.profile(), run.fleet("explore", planner, app)
    if profile.models.generator and planner == "base":
        from coda_study.stages.rounds import explore_in_rounds

        trajectories = explore_in_rounds(run, app, progress)
    else:
        agent, tasks = system_agent(run, planner, app), train_tasks(run, app, planner)
        seed, runs = stage_seed(profile, "explore", planner, app), profile.explore[planner].runs
        trajectories = play(run, agent, app, tasks, runs, seed, fleet, progress)
        note_usage(run, f"explore/{planner}/{app}", **models_of(agent))
    save_trajectories(run.rollouts(planner, app), trajectories)
    Collection(fleet).clear()
    if planner == "base":
        for attempts in run.generated(app).glob("*/attempts.parquet"):
            remove(attempts)
    return trajectories
