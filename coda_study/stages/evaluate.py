"""Stage `evaluate`: a system of Table 1 on the held-out tasks (paper, section 5; notebook 08)."""

from __future__ import annotations

import pandas as pd

from coda_lib.agent import Agent, models_of
from coda_lib.files import write_table
from coda_lib.rollout import episodes
from coda_lib.trajectory import save_trajectories
from coda_study.draws import held_out_tasks, sealed_tasks, stage_seed
from coda_study.fleet.collect import Collection
from coda_study.run import Run
from coda_study.stages.common import Progress, begin, part_of, play, system_agent
from coda_study.usage import note_usage

__all__ = ["begin", "play_held_out", "run"]


def run(run: Run, system: str, app: str, progress: Progress = lambda done, total: None) -> pd.DataFrame:
    """Play a system of Table 1 on the held-out tasks; writes evaluation/{system}/{app}.parquet, one row an
    episode.

    The trajectories behind the rows are in evaluation/{system}/{app}.trajectories.parquet.  Each task is
    played once more at temperature 0: evaluation/{system}/{app}.greedy.parquet.  The sealed tasks, if the
    profile has any, are played as the others: evaluation/{system}/{app}.sealed.parquet.
    """
    profile, agent = run.profile(), system_agent(run, system, app)
    tasks, seed = held_out_tasks(run, app), stage_seed(profile, "evaluate", system, app)
    sets = {  # what they are for: table, tasks, agent, runs of each
        "evaluate": (run.evaluation(system, app), tasks, agent, profile.evaluation_runs),
        "greedy": (run.greedy(system, app), tasks, agent.greedy(), 1),
    }
    if profile.sealed:
        sets["sealed"] = run.sealed(system, app), sealed_tasks(profile, app), agent, profile.sealed.runs
    done, total, tables = 0, sum(len(each) * runs for _, each, _, runs in sets.values()), {}
    for purpose, (path, each, player, runs) in sets.items():
        folder = run.fleet(purpose, system, app)
        played = play(run, player, app, each, runs, seed, folder, part_of(progress, done, total))
        done += len(each) * runs
        tables[path] = episodes(played, each, system, profile.seed)
        if purpose == "evaluate":
            save_trajectories(run.trajectories(system, app), played)
    note_usage(run, f"evaluate/{system}/{app}", **models_of(agent))
    for path, table in reversed(tables.items()):  # the first one last: it says that the stage is complete
        write_table(path, table)
    for purpose in sets:
        Collection(run.fleet(purpose, system, app)).clear()
    return tables[run.evaluation(system, app)]


def play_held_out(
    run: Run, agent: Agent, app: str, progress: Progress = lambda done, total: None
) -> pd.DataFrame:
    """Episodes of any agent at an application's held-out tasks, `evaluation_runs` of each; writes nothing."""
    profile, tasks = run.profile(), held_out_tasks(run, app)
    seed, folder = (
        stage_seed(profile, "ablation", agent.name, app, "play"),
        run.fleet("ablation", agent.name, app),
    )
    trajectories = play(run, agent, app, tasks, profile.evaluation_runs, seed, folder, progress)
    Collection(folder).clear()
    return episodes(trajectories, tasks, agent.name, profile.seed)
