"""Stage `generalize`: stage 2 of CODA, one planner by SFT on the specialists' successes (notebook 07)."""

from __future__ import annotations

from pathlib import Path

from coda_lib.dataset import sft_rows
from coda_lib.paths import checkpoint_path
from coda_lib.trainer import Progress, generalize
from coda_lib.trajectory import load_trajectories
from coda_study.draws import stage_seed
from coda_study.run import Run, explorers
from coda_study.stages.common import begin, judge_labels, unreported
from coda_study.stages.processes import launch
from sciencedesk.sets import write_split

__all__ = ["begin", "run", "train"]


def run(run: Run, progress: Progress = unreported) -> Path:
    """Fine-tune a fresh base planner on the positive steps of all trained planners' judged rollouts.

    Progress counts optimizer steps.  Returns generalist/, which then holds the checkpoint.  Goes on after a
    kill.
    """
    if configuration := run.profile().generalize.accelerate:
        launch(run, configuration, "generalize")
        return run.generalist
    return train(run, progress)


def train(run: Run, progress: Progress = unreported) -> Path:
    """`run` in this process, alone or as one of several that `processes.launch` has started."""
    profile, seed = run.profile(), stage_seed(run.profile(), "generalize")
    settings, planner = profile.generalize, checkpoint_path(profile.models.planner)
    _, *trained = explorers(profile)
    judged = [t for app in profile.apps for name in trained for t in load_trajectories(run.judged(name, app))]
    rows = sft_rows(judged, profile.prompts, judge_labels(profile, judged), settings.endings, seed)
    folder = generalize(rows, planner, settings, run.generalist, seed, progress)
    write_split(run.generalist, profile.apps, profile.knowledge)
    return folder
