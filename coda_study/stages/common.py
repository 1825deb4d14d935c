"""What all stages share: threads, seeds, agents, tasks, and the episodes that an agent plays.

A stage reads the files of earlier stages and writes its own (layout: `coda_study.run.Run`); nothing else
passes between stages. Each derives its random numbers from the run's seed and its own name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from coda_lib.agent import Agent, load_agent, models_of, resize_rule_of
from coda_lib.applications import DESKTOP_APPS
from coda_lib.config import Profile
from coda_lib.files import write_table
from coda_lib.judge import Rule, positive_steps
from coda_lib.task import Task
from coda_lib.trajectory import Trajectory
from coda_study.draws import runs_of
from coda_study.fleet.tasksets import TaskSet, play_tasks
from coda_study.notebooks import open_run
from coda_study.run import Run
from sciencedesk.make import environment

Progress = Callable[[int, int], None]  # (episodes done, episodes in all)
Labeller = Callable[[Trajectory], Sequence[int]]  # the steps of a trajectory that training may use


def unreported(done: int, total: int) -> None:
    """The progress of a stage that nobody watches."""


def begin(name: str, profile: str, threads: int, stage: str, *names: str) -> Run:
    """`open_run` of a stage; keep the profile with the run if it has none yet.  UserError as of that.

    The number of torch threads is part of the result to the last bit.
    """
    torch.set_num_threads(threads)
    run = open_run(name, profile, stage, *names)
    run.store(run.profile(profile) if run.name == name else run.profile())
    return run


def part_of(progress: Progress, before: int, total: int) -> Progress:
    """The progress of a part of a stage: `before` of the `total` are done when it begins."""
    return lambda done, _: progress(before + done, total)


def system_agent(run: Run, system: str, app: str) -> Agent:
    """The agent of a system of Table 1, or of a planner such as 'base', for one application."""
    return load_agent(run.profile(), system, run.planner_checkpoint(system, app))


def play(
    run: Run, agent: Agent, app: str, tasks: list[Task], runs: int, seed: int, fleet: Path,
    progress: Progress, region: str = "train",
) -> list[Trajectory]:  # fmt: skip
    """Play each task of a region so many times; a fleet, if there is one, keeps episodes in that folder."""
    return play_jobs(run, agent, app, runs_of(run.profile(), tasks, runs, region), seed, fleet, progress)


def play_jobs(
    run: Run, agent: Agent, app: str, jobs: Sequence[tuple[Task, int]], seed: int, fleet: Path,
    progress: Progress,
) -> list[Trajectory]:  # fmt: skip
    """`play` of tasks as their runs start them."""
    profile, desktop = run.profile(), app in DESKTOP_APPS
    task_set = TaskSet(app, [task for task, _ in jobs], partial(environment, app), threads=desktop)
    if desktop and models_of(agent):  # who has no model sees no picture
        task_set = task_set.fitted(resize_rule_of(agent))
    settings = (profile.concurrency, profile.step_limit, profile.fleet, fleet)
    return play_tasks(task_set, agent, jobs, seed, *settings, progress=progress)


def write_joined(path: Path, tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all tables as one table, which is written to `path`."""
    table = pd.concat(tables, ignore_index=True)
    write_table(path, table)
    return table


def judge_labels(profile: Profile, judged: Sequence[Trajectory]) -> Labeller:
    """The labels of `judged` trajectories: `positive_steps`, of plans that `judge.repeats` attempts share.

    Attempts that came to the same plans are more often right (self-consistency, arXiv 2203.11171).
    """
    label, repeats = partial(positive_steps, rule=Rule.of(profile.judge)), profile.judge.repeats
    if repeats == 1:
        return label

    def plans(trajectory: Trajectory) -> tuple[str, ...]:
        return trajectory.app, trajectory.task_id, *(trajectory.steps[i].plan for i in label(trajectory))

    shared = Counter(plans(trajectory) for trajectory in judged if label(trajectory))
    return lambda trajectory: label(trajectory) if shared[plans(trajectory)] >= repeats else ()
