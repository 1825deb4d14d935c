"""Ablations of stage 1: specialists trained again on the same rollouts, one thing changed (`Variant`)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from datasets import Dataset, concatenate_datasets

from coda_lib.agent import load_agent
from coda_lib.config import Serving
from coda_lib.dataset import grpo_rows
from coda_lib.executor import Executor
from coda_lib.paths import checkpoint_path
from coda_lib.trajectory import load_trajectories
from coda_study.draws import stage_seed
from coda_study.run import Run
from coda_study.stages.common import Progress, begin, part_of, unreported
from coda_study.stages.evaluate import play_in_turn
from coda_study.stages.labels import labeller

__all__ = ["begin", "evaluate_variant", "logs", "train_variant"]

ALL = "all"  # in the place of an application: one planner for all of them


def training_rows(run: Run, app: str, labels: str) -> Dataset:
    judged = load_trajectories(run.judged("base", app))
    return grpo_rows(judged, run.profile().prompts, labeller(run, app, labels))


def train_variant(run: Run, name: str, progress: Progress = unreported) -> dict[str, Path]:
    """Train the specialists of an ablation, or its joint planner; returns their folders by application.

    Writes ablations/{name}/{app or 'all'}/.  Goes on after a kill.
    """
    # TRL takes seconds to load, and tables need none of it
    from coda_lib.trainer import specialize
    from coda_study.stages.coupled import specialize_coupled

    profile, variant = run.profile(), run.profile().ablations[name]
    train = specialize_coupled if variant.coupled else specialize
    planner, settings = checkpoint_path(profile.models.planner), profile.specialize
    if variant.group_size:
        settings = settings.model_copy(update={"group_size": variant.group_size})
    parts = {app: (app,) for app in profile.apps}
    if variant.joint:
        parts = {ALL: profile.apps}
        settings = settings.model_copy(update={"steps": settings.steps * len(profile.apps)})
    for number, (part, apps) in enumerate(parts.items()):
        rows = concatenate_datasets([training_rows(run, app, variant.labels) for app in apps])
        # an executor that learns is trained in this process
        local = profile.model_copy(update={"serving": Serving()}) if variant.coupled else profile
        folder, seed = run.variant(name, part), stage_seed(profile, "ablation", name, part)
        on_progress = part_of(progress, number * settings.steps, len(parts) * settings.steps)
        how = {"distance": variant.distance, "progress": on_progress}
        train(rows, planner, Executor.load(local), settings, profile.planner, folder, seed, **how)
    return {app: run.variant(name, ALL if variant.joint else app) for app in profile.apps}


def logs(run: Run, name: str) -> dict[str, Path]:
    """The metrics.jsonl of each planner of an ablation, by application or 'all'."""
    parts = (ALL,) if run.profile().ablations[name].joint else run.profile().apps
    return {part: run.variant(name, part) / "metrics.jsonl" for part in parts}


def evaluate_variant(run: Run, name: str, progress: Progress = unreported) -> pd.DataFrame:
    """Play the planners of an ablation on the held-out tasks; writes ablations/{name}.parquet."""
    profile, variant = run.profile(), run.profile().ablations[name]
    folders = [run.variant(name, ALL if variant.joint else app) for app in profile.apps]
    agents = (
        load_agent(profile, name, str(folder), str(folder / "executor") if variant.coupled else None)
        for folder in folders
    )
    return play_in_turn(run, agents, profile.apps, run.ablation(name), progress)
