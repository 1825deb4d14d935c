"""The whole loop of CODA on one application, from top to bottom (paper, sections 3 and 4).

explore -> judge -> stage 1 (specialist, GRPO) -> explore, judge -> stage 2 (generalist, SFT) ->
evaluate.  The study makes the same calls, one a stage, with files between: for several applications, each of
which has its specialist, and one generalist that learns from the successes of all (`coda_study.stages`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from coda_lib.agent import load_agent
from coda_lib.config import Profile
from coda_lib.dataset import grpo_rows, sft_rows
from coda_lib.environment import Environment
from coda_lib.executor import Executor
from coda_lib.judge import Judge, Rule, positive_steps
from coda_lib.paths import checkpoint_path
from coda_lib.rollout import episodes, jobs, rollout
from coda_lib.task import Task
from coda_lib.trainer import generalize, specialize
from coda_lib.trajectory import Trajectory


def loop(
    train: Sequence[Task],
    test: Sequence[Task],
    make_env: Callable[[], Environment],
    profile: Profile,
    folder: Path,
    report: Callable[[str], None] = print,
) -> pd.DataFrame:
    """Train a specialist and a generalist for one application, and play its test tasks with them.

    `profile` has the models, the settings of every stage and the seed.  Base planner and specialist explore
    the same `train` tasks.  The checkpoints come into `folder`/specialist and `folder`/generalist.  Returns
    a row for each episode of the base planner, the specialist and the generalist (`rollout.episodes`).
    UserError if the judge calls no attempt clean.
    """
    seed, prompts = profile.seed, profile.prompts
    executor, judge = Executor.load(profile), Judge.load(profile)
    label = partial(positive_steps, rule=Rule.of(profile.judge))  # which steps of an attempt training may use

    def play(name: str, planner: str | Path, tasks: Sequence[Task], runs: int, seed: int) -> list[Trajectory]:
        # the planner of this checkpoint, and the frozen executor
        agent = load_agent(profile, name, str(planner))
        return rollout(agent, jobs(tasks, runs), make_env, seed, profile.concurrency, profile.step_limit)

    def explore(name: str, planner: str | Path, seed: int) -> list[Trajectory]:
        attempts = play(name, planner, train, profile.explore[name].runs, seed)
        judged = judge.vote(attempts, seed)  # several votes an attempt: no label comes from the application
        accepted = sum(bool(label(attempt)) for attempt in judged)
        report(f"{name} planner: {len(attempts)} attempts at train tasks, {accepted} accepted by the judge")
        return judged

    base = checkpoint_path(profile.models.planner)
    explored = explore("base", base, seed)

    # Stage 1: in each state of an accepted attempt sample G plans, let the frozen executor act on each,
    # reward its action against the accepted one (eq. 1), and prefer the plans above their group's mean
    # (eq. 2 and 3).
    rows, settings = grpo_rows(explored, prompts, label), profile.specialize
    specialist = specialize(rows, base, executor, settings, profile.planner, folder / "specialist", seed)
    report(f"stage 1: {profile.specialize.steps} steps of GRPO on {len(rows)} states")

    # Stage 2: a fresh base planner learns the plans of the specialist's accepted attempts.
    attempts = explore("specialist", specialist, seed + 1)
    rows = sft_rows(attempts, prompts, label, profile.generalize.endings, seed)
    generalist = generalize(rows, base, profile.generalize, folder / "generalist", seed)
    report(f"stage 2: SFT on {len(rows)} plans")

    # Evaluation: here alone the application itself says whether a task is solved.
    planners = {"base": base, "specialist": specialist, "generalist": generalist}
    tables = []
    for name, planner in planners.items():
        played = play(name, planner, test, profile.evaluation_runs, seed + 2)
        tables.append(episodes(played, test, name, seed))
    return pd.concat(tables, ignore_index=True)
