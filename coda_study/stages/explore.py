"""Stage `explore`: roll out a planner on the train tasks (paper, section 4; notebook 03)."""

from __future__ import annotations

from coda_lib.agent import models_of
from coda_lib.trajectory import Trajectory, save_trajectories
from coda_study.draws import stage_seed, train_tasks
from coda_study.fleet.collect import Collection
from coda_study.owned import remove
from coda_study.run import Run
from coda_study.stages.common import Progress, begin, play, system_agent
from coda_study.usage import note_usage

__all__ = ["begin", "run"]


def run(run: Run, planner: str, app: str, progress: Progress = lambda done, total: None) -> list[Trajectory]:
    """Roll out a planner ('base', 'round1' or 'specialist') on its train tasks; writes
    rollouts/{planner}/{app}.parquet.

    Where the profile has a generator, it makes the tasks while the base planner explores (`stages.rounds`).
    """
    profile = run.profile()
    if profile.models.generator and planner == "base":
        from coda_study.stages.rounds import explore_in_rounds

        trajectories = explore_in_rounds(run, app, progress)
    else:
        agent, tasks = system_agent(run, planner, app), train_tasks(run, app, planner)
        seed, folder = stage_seed(profile, "explore", planner, app), run.fleet("explore", planner, app)
        trajectories = play(run, agent, app, tasks, profile.explore[planner].runs, seed, folder, progress)
        note_usage(run, f"explore/{planner}/{app}", **models_of(agent))
    save_trajectories(run.rollouts(planner, app), trajectories)
    Collection(run.fleet("explore", planner, app)).clear()
    if planner == "base":
        for attempts in run.generated(app).glob("*/attempts.parquet"):
            remove(attempts)
    return trajectories
