"""Stage `specialize`: stage 1 of CODA, one specialist planner an application by decoupled GRPO (paper, eq. 1-3; notebook 06)."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import torch

from coda_lib.dataset import grpo_rows
from coda_lib.executor import Executor
from coda_lib.judge import Rule, positive_steps
from coda_lib.models.load import note_usage
from coda_lib.paths import checkpoint_path
from coda_lib.run import Run
from coda_lib.stages.common import begin, stage_seed
from coda_lib.stages.processes import launch
from coda_lib.trainer import Progress, specialize, together
from coda_lib.trajectory import load_trajectories

__all__ = ["begin", "run", "train"]


def run(here: Run, app: str, progress: Progress = lambda done, total: None) -> Path:
    """Train the specialist of an application on the positive steps of the base planner's judged rollouts.

    `progress(done, total)` is called after each optimizer step.  Returns specialist/{app}/, which then holds its checkpoint.
    Goes on after a kill.
    """
    if configuration := here.profile().specialize.accelerate:
        launch(here, configuration, "specialize", app)
        return here.specialist(app)
    return train(here, app, progress)


def train(here: Run, app: str, progress: Progress = lambda done, total: None) -> Path:
    """`run` in this process, alone or as one of several that `processes.launch` has started."""
    profile = here.profile()
    judged, label = load_trajectories(here.judged("base", app)), partial(positive_steps, rule=Rule.of(profile.judge))
    rows, executor = grpo_rows(judged, profile.prompts, label), Executor.load(profile)
    planner, seed = checkpoint_path(profile.models.planner), stage_seed(profile, "specialize", app)
    settings = (profile.specialize, profile.planner, here.specialist(app), seed)
    folder = specialize(rows, planner, executor, *settings, progress=progress)
    process = together().process_index  # each of several processes asks its own executor
    note_usage(here, f"specialize/{app}-{process}" if process else f"specialize/{app}", executor=executor.model)
    return folder


if __name__ == "__main__":  # one of the processes that `launch` starts
    here = Run(sys.argv[1])
    torch.set_num_threads(here.profile().specialize.threads)
    train(here, sys.argv[2])
