"""Stage `evaluate`: a system of Table 1 on the held-out tasks (paper, section 5; notebook 08)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from coda_lib.agent import Agent, models_of
from coda_lib.files import write_table
from coda_lib.rollout import episodes
from coda_lib.trajectory import save_trajectories
from coda_study.draws import held_out_tasks, sealed_tasks, stage_seed
from coda_study.fleet.collection import Collection
from coda_study.run import Run
from coda_study.stages.common import Progress, begin, part_of, play, system_agent, unreported, write_joined
from coda_study.usage import note_usage

__all__ = ["begin", "play_held_out", "play_in_turn", "run"]


def run(run: Run, system: str, app: str, progress: Progress = unreported) -> pd.DataFrame:
    """Play a system of Table 1 on the held-out tasks; returns a row for each episode.

    Writes evaluation/{system}/{app}.parquet (the rows), .trajectories.parquet (what is behind them),
    .greedy.parquet (the same at temperature 0) and, if the profile has sealed tasks,
    .sealed.parquet.
    """
    profile, agent = run.profile(), system_agent(run, system, app)
    tasks, seed = held_out_tasks(run, app), stage_seed(profile, "evaluate", system, app)
    sets = {  # what they are for: table, tasks, agent, runs of each
        "evaluate": (run.evaluation(system, app), tasks, agent, profile.evaluation_runs),
        # unperturbed, all runs at temperature 0 are one
        "greedy": (
            run.greedy(system, app),
            tasks,
            agent.greedy(),
            profile.evaluation_runs if profile.perturb else 1,
        ),
    }
    if profile.sealed:
        sets["sealed"] = run.sealed(system, app), sealed_tasks(profile, app), agent, profile.sealed.runs
    done, total, tables = 0, sum(len(tasks) * runs for _, tasks, _, runs in sets.values()), {}
    for purpose, (path, tasks, player, runs) in sets.items():
        fleet, on_progress = run.fleet(purpose, system, app), part_of(progress, done, total)
        played = play(run, player, app, tasks, runs, seed, fleet, on_progress, "test")
        done += len(played)
        tables[path] = episodes(played, tasks, system, profile.seed)
        if purpose == "evaluate":
            save_trajectories(run.trajectories(system, app), played)
    note_usage(run, f"evaluate/{system}/{app}", **models_of(agent))
    for path, table in reversed(tables.items()):  # the first one last: it says that the stage is complete
        write_table(path, table)
    for purpose in sets:
        Collection(run.fleet(purpose, system, app)).clear()
    return tables[run.evaluation(system, app)]


def play_held_out(run: Run, agent: Agent, app: str, progress: Progress = unreported) -> pd.DataFrame:
    """Episodes of any agent at an application's held-out tasks, `evaluation_runs` of each; writes nothing."""
    profile, tasks, fleet = run.profile(), held_out_tasks(run, app), run.fleet("ablation", agent.name, app)
    seed = stage_seed(profile, "ablation", agent.name, app, "play")
    trajectories = play(run, agent, app, tasks, profile.evaluation_runs, seed, fleet, progress, "test")
    Collection(fleet).clear()
    return episodes(trajectories, tasks, agent.name, profile.seed)


def play_in_turn(
    run: Run, agents: Iterable[Agent], apps: Sequence[str], path: Path, progress: Progress
) -> pd.DataFrame:
    """`play_held_out` of agents, each in its own application, as one table, which is written to `path`."""
    counts = [len(held_out_tasks(run, app)) * run.profile().evaluation_runs for app in apps]
    tables = []
    for number, (agent, app) in enumerate(zip(agents, apps, strict=True)):
        on_progress = part_of(progress, sum(counts[:number]), sum(counts))
        tables.append(play_held_out(run, agent, app, on_progress))
    return write_joined(path, tables)
