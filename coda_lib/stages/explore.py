"""Stage `explore`: roll out a planner on the train tasks (paper, section 4; notebook 03)."""

from __future__ import annotations

from coda_lib.agent import models_of
from coda_lib.fleet.collect import Collection
from coda_lib.models.load import note_usage
from coda_lib.owned import remove
from coda_lib.run import Run
from coda_lib.stages.common import Progress, begin, play, stage_seed, system_agent, template_tasks
from coda_lib.task import Task
from coda_lib.trajectory import Trajectory, save_trajectories

__all__ = ["begin", "run", "train_tasks"]


def run(here: Run, planner: str, app: str, progress: Progress = lambda done, total: None) -> list[Trajectory]:
    """Roll out a planner ('base', 'novice' or 'specialist') on its train tasks; writes rollouts/{planner}/{app}.parquet.

    Where the profile has a generator, it makes the tasks while the base planner explores (`stages.rounds`).
    """
    profile = here.profile()
    if profile.models.generator and planner == "base":
        from coda_lib.stages.rounds import explore_in_rounds

        trajectories = explore_in_rounds(here, app, progress)
    else:
        agent, tasks = system_agent(here, planner, app), train_tasks(here, app, planner)
        seed, folder = stage_seed(profile, "explore", planner, app), here.fleet("explore", planner, app)
        trajectories = play(here, agent, app, tasks, profile.explore[planner].runs, seed, folder, progress)
        note_usage(here, f"explore/{planner}/{app}", **models_of(agent))
    save_trajectories(here.rollouts(planner, app), trajectories)
    Collection(here.fleet("explore", planner, app)).clear()
    if planner == "base":
        for attempts in here.generated(app).glob("*/attempts.parquet"):
            remove(attempts)
    return trajectories


def train_tasks(here: Run, app: str, planner: str = "base") -> list[Task]:
    """The train tasks of a planner: drawn for it, or what the run's generator has made so far, the same for every planner."""
    profile = here.explorer().profile()
    if profile.models.generator:
        from coda_lib.stages.rounds import generated_tasks

        return generated_tasks(here, app)
    return template_tasks(profile, planner, app)
