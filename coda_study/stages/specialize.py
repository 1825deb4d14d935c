"""Stage `specialize`: stage 1 of CODA, specialists by decoupled GRPO (paper, eq. 1-3; notebook 06)."""

from __future__ import annotations

from pathlib import Path

from coda_lib.dataset import grpo_rows
from coda_lib.executor import Executor
from coda_lib.trainer import Progress, specialize, together
from coda_lib.trajectory import load_trajectories
from coda_study.draws import stage_seed
from coda_study.run import Run, explorers
from coda_study.stages.common import begin, judge_labels, unreported
from coda_study.stages.groups import KeepingReward
from coda_study.stages.processes import launch
from coda_study.usage import note_usage
from sciencedesk.sets import write_split

__all__ = ["begin", "explorers", "run", "train"]


def run(run: Run, planner: str, app: str, progress: Progress = unreported) -> Path:
    """Train an application's 'round1', … or 'specialist' on the positive steps of all judged rollouts so far.

    Each begins as the planner that explored last, the first as the base planner.  Progress counts optimizer
    steps.  Returns {planner}/{app}/, which then holds the checkpoint and, in groups/, some of its
    GRPO groups.  Goes on after a kill.
    """
    if configuration := run.profile().specialize.accelerate:
        launch(run, configuration, "specialize", planner, app)
        return run.specialist(app, planner)
    return train(run, planner, app, progress)


def train(run: Run, planner: str, app: str, progress: Progress = unreported) -> Path:
    """`run` in this process, alone or as one of several that `processes.launch` has started."""
    profile = run.profile()
    before = explorers(profile, planner)
    judged = [trajectory for name in before for trajectory in load_trajectories(run.judged(name, app))]
    rows, executor = grpo_rows(judged, profile.prompts, judge_labels(profile, judged)), Executor.load(profile)
    start, seed = run.planner_checkpoint(before[-1], app), stage_seed(profile, "specialize", planner, app)
    rewarding = KeepingReward(executor, seed, profile.specialize, run.groups(app, planner))
    settings, folder = (profile.specialize, profile.planner), run.specialist(app, planner)
    specialize(rows, start, executor, *settings, folder, seed, rewarding=rewarding, progress=progress)
    write_split(folder, [app], profile.knowledge)
    process = together().process_index  # each of several processes asks its own executor
    name = f"specialize/{planner}/{app}"
    note_usage(run, f"{name}-{process}" if process else name, executor=executor.model)
    return folder
