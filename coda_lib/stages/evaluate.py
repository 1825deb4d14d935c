"""Stage `evaluate`: a system of Table 1 on the held-out tasks (paper, section 5; notebook 08)."""

from __future__ import annotations

import pandas as pd

from coda_lib.agent import Agent, models_of
from coda_lib.files import write_table
from coda_lib.fleet.collect import Collection
from coda_lib.models.load import note_usage
from coda_lib.rollout import episodes
from coda_lib.run import Run
from coda_lib.stages.common import Progress, begin, held_out_tasks, part_of, play, stage_seed, system_agent
from coda_lib.trajectory import save_trajectories

__all__ = ["begin", "held_out_tasks", "play_held_out", "run"]


def run(here: Run, system: str, app: str, progress: Progress = lambda done, total: None) -> pd.DataFrame:
    """Play a system of Table 1 on the held-out tasks; writes evaluation/{system}/{app}.parquet, one row an episode.

    The trajectories behind the rows are in evaluation/{system}/{app}.trajectories.parquet.  Each task is played once more at
    temperature 0: evaluation/{system}/{app}.greedy.parquet.
    """
    profile, agent = here.profile(), system_agent(here, system, app)
    tasks, seed = held_out_tasks(here, app), stage_seed(profile, "evaluate", system, app)
    folder = here.fleet("evaluate", system, app)
    runs, greedy_folder = profile.evaluation_runs, here.fleet("greedy", system, app)
    sampled, total = len(tasks) * runs, len(tasks) * (runs + 1)
    trajectories = play(here, agent, app, tasks, runs, seed, folder, part_of(progress, 0, total))
    greedy = play(here, agent.greedy(), app, tasks, 1, seed, greedy_folder, part_of(progress, sampled, total))
    note_usage(here, f"evaluate/{system}/{app}", **models_of(agent))
    table = episodes(trajectories, tasks, system, profile.seed)
    save_trajectories(here.trajectories(system, app), trajectories)
    write_table(here.greedy(system, app), episodes(greedy, tasks, system, profile.seed))
    write_table(here.evaluation(system, app), table)
    for path in (folder, greedy_folder):
        Collection(path).clear()
    return table


def play_held_out(here: Run, agent: Agent, app: str, progress: Progress = lambda done, total: None) -> pd.DataFrame:
    """Episodes of any agent at an application's held-out tasks, as many runs of each as the profile says; writes nothing."""
    profile, tasks = here.profile(), held_out_tasks(here, app)
    seed, folder = stage_seed(profile, "ablation", agent.name, app, "play"), here.fleet("ablation", agent.name, app)
    trajectories = play(here, agent, app, tasks, profile.evaluation_runs, seed, folder, progress)
    Collection(folder).clear()
    return episodes(trajectories, tasks, agent.name, profile.seed)
