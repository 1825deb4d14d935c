"""What all stages share: threads, seeds, agents, tasks, and the episodes that an agent plays.

A stage reads the files of earlier stages and writes its own (layout: `coda_study.run.Run`); nothing else
passes between stages. Each derives its random numbers from the run's seed and its own name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from coda_lib.agent import Agent, load_agent, resize_rule_of
from coda_lib.applications import DESKTOP_APPS
from coda_lib.config import Profile
from coda_lib.judge import Rule, positive_steps
from coda_lib.rollout import jobs
from coda_lib.task import Task
from coda_lib.trajectory import Trajectory
from coda_study.fleet.tasksets import TaskSet, play_tasks
from coda_study.run import Run
from sciencedesk.make import environment

Progress = Callable[[int, int], None]  # (episodes done, episodes in all)


def begin(name: str, profile: str, threads: int = 1) -> Run:
    """Open a run for a stage: use so many torch threads, and keep the profile with the run if it has none
    yet.

    `name` is a folder under results/.  Threads are part of the result to the last bit.  UserError as of
    `Run.profile`.
    """
    torch.set_num_threads(threads)
    run = Run(name)
    run.store(run.profile(profile))
    return run


def part_of(progress: Progress, before: int, total: int) -> Progress:
    """The progress of a part of a stage: `before` of the `total` are done when it begins."""
    return lambda done, _: progress(before + done, total)


def system_agent(run: Run, system: str, app: str) -> Agent:
    """The agent of a system of Table 1, or of a planner such as 'base', for one application."""
    return load_agent(run.profile(), system, run.planner_checkpoint(system, app))


def play(
    run: Run,
    agent: Agent,
    app: str,
    tasks: Sequence[Task],
    runs: int,
    seed: int,
    folder: Path,
    progress: Progress,
) -> list[Trajectory]:
    """Play each task so many times; a fleet, if there is one, keeps its episodes in `folder` meanwhile."""
    profile, played = (
        run.profile(),
        TaskSet(app, tasks, partial(environment, app), threads=app in DESKTOP_APPS),
    )
    if app in DESKTOP_APPS:
        played = played.fitted(resize_rule_of(agent))
    settings = (profile.concurrency, profile.step_limit, profile.fleet, folder)
    return play_tasks(played, agent, jobs(tasks, runs), seed, *settings, progress=progress)


def judge_labels(profile: Profile, judged: Sequence[Trajectory]) -> Callable[[Trajectory], tuple[int, ...]]:
    """The labels of `judged` trajectories by a profile: `positive_steps`, of plans that enough attempts at
    the task share.

    Two attempts that came to the same plans by chance are more often right than one (self-consistency, arXiv
    2203.11171).
    """
    label = partial(positive_steps, rule=Rule.of(profile.judge))

    def plans(trajectory: Trajectory) -> tuple[str, ...]:
        return trajectory.app, trajectory.task_id, *(trajectory.steps[i].plan for i in label(trajectory))

    shared = (
        Counter(plans(trajectory) for trajectory in judged if label(trajectory))
        if profile.judge.repeats > 1
        else Counter()
    )
    return (
        label
        if profile.judge.repeats == 1
        else lambda t: label(t) if shared[plans(t)] >= profile.judge.repeats else ()
    )
