"""Stage `generalize`: stage 2 of CODA, one planner by SFT on the specialists' successes (notebook 07)."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from coda_lib.dataset import sft_rows
from coda_lib.paths import checkpoint_path
from coda_lib.trainer import Progress, generalize
from coda_lib.trajectory import load_trajectories
from coda_study.draws import stage_seed
from coda_study.run import Run
from coda_study.stages.common import begin, judge_labels
from coda_study.stages.processes import launch
from sciencedesk.space import write_split

__all__ = ["begin", "run", "train"]


def run(run: Run, progress: Progress = lambda done, total: None) -> Path:
    """Fine-tune a fresh base planner on the positive steps of all specialists' judged rollouts.

    `progress(done, total)` is called after each optimizer step.  Returns generalist/, which then holds its
    checkpoint. Goes on after a kill.
    """
    if configuration := run.profile().generalize.accelerate:
        launch(run, configuration, "generalize")
        return run.generalist
    return train(run, progress)


def train(run: Run, progress: Progress = lambda done, total: None) -> Path:
    """`run` in this process, alone or as one of several that `processes.launch` has started."""
    profile = run.profile()
    judged = [t for app in profile.apps for t in load_trajectories(run.judged("specialist", app))]
    seed = stage_seed(profile, "generalize")
    rows = sft_rows(judged, profile.prompts, judge_labels(profile, judged), profile.generalize.endings, seed)
    folder = generalize(
        rows, checkpoint_path(profile.models.planner), profile.generalize, run.generalist, seed, progress
    )
    write_split(run.generalist, profile.apps)
    return folder


if __name__ == "__main__":  # one of the processes that `launch` starts
    run = Run(sys.argv[1])
    torch.set_num_threads(run.profile().generalize.threads)
    train(run)
