"""Ablations of stage 1: a run's specialists trained again with one thing changed (`config.Variant`), on the same rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import pandas as pd
from datasets import Dataset, concatenate_datasets

from coda_lib.agent import load_agent
from coda_lib.config import Profile, Serving, Variant
from coda_lib.dataset import Labeller, grpo_rows
from coda_lib.evaluation.votes import Rule, apply, cast, rules, votes_of
from coda_lib.executor import Executor
from coda_lib.files import write_table
from coda_lib.judge import positive_steps
from coda_lib.paths import checkpoint_path
from coda_lib.run import Run
from coda_lib.stages.common import Progress, stage_seed
from coda_lib.stages.evaluate import play_held_out
from coda_lib.stages.explore import train_tasks
from coda_lib.stages.judges import load_raters
from coda_lib.trajectory import Trajectory, load_trajectories

ALL = "all"  # stands where an application's name would, if one planner is trained for all of them


def label_votes(run: Run, app: str) -> pd.DataFrame:
    """Let the other judges of Table 2 vote on the base planner's rollouts, as `find_votes`; writes ablations/votes/{app}.parquet.

    Nobody is asked again about a trajectory that a judge has refused, so `cast` and `apply` find every vote that they need.
    """
    profile, judged = run.profile(), load_trajectories(run.judged("base", app))
    parts = [votes_of(judged, "judge")]
    for name, load in load_raters(profile, stop_at_no=True).items():
        if name != "judge":
            parts.append(votes_of(load().vote(judged, stage_seed(profile, "labels", app, name)), name))
    table = pd.concat(parts, ignore_index=True)
    write_table(run.label_votes(app), table)
    return table


def labeller(run: Run, app: str, labels: str) -> Labeller:
    """Who calls the steps of a rollout positive: the run's judge ('voting'), another rule of Table 2, or the check ('truth').

    By the truth an attempt is clean if it solved its task in no more steps than the task's script needs.
    """
    profile = run.profile()
    if labels == "voting":
        return positive_steps
    if labels == "truth":
        scripts = {task.id: len(task.solution) + (task.ans is None) for task in train_tasks(run, app)}
        return partial(_if, lambda t: bool(t.success) and len(t.steps) <= scripts[t.task_id])
    ballots = cast(pd.read_parquet(run.label_votes(app)))
    clean = apply(rule_of(profile, labels), ballots)["clean"].to_dict()
    return partial(_if, lambda t: clean[t.task_id, t.run, t.planner])


def rule_of(profile: Profile, name: str) -> Rule:
    """The rule of Table 2 of that name."""
    return next(rule for rule in rules(profile) if rule.name == name)


def _if(clean, trajectory: Trajectory) -> Sequence[int]:
    broken = any(step.error for step in trajectory.steps)
    return range(len(trajectory.steps)) if clean(trajectory) and not broken else ()


def label_quality(run: Run) -> pd.DataFrame:
    """What each way of labelling makes of the base planner's rollouts, a row for each.

    Columns: labels, attempts (called clean), steps (trained on), failed (percent of these steps from attempts that failed).
    """
    profile, rows = run.profile(), []
    for labels in get_args(Variant.model_fields["labels"].annotation):
        found = []
        for app in profile.apps:
            label = labeller(run, app, labels)
            found += [(len(steps), t.success) for t in load_trajectories(run.judged("base", app)) if (steps := label(t))]
        steps, failed = sum(n for n, _ in found), sum(n for n, success in found if not success)
        share = 100 * failed / steps if steps else float("nan")
        rows.append({"labels": labels, "attempts": len(found), "steps": steps, "failed": share})
    return pd.DataFrame(rows)


def training_rows(run: Run, app: str, labels: str) -> Dataset:
    judged = load_trajectories(run.judged("base", app))
    return grpo_rows(judged, run.profile().prompts, labeller(run, app, labels))


def train_variant(run: Run, name: str) -> dict[str, Path]:
    """Train the specialists of the ablation `name`, or its one planner for all applications; returns a folder per application.

    Writes ablations/{name}/{app or 'all'}/.  Goes on after a kill.
    """
    from coda_lib.stages.coupled import specialize_coupled  # TRL takes seconds to load, and tables need none of it
    from coda_lib.trainer import specialize

    profile, variant = run.profile(), run.profile().ablations[name]
    train = specialize_coupled if variant.coupled else specialize
    settings = profile.specialize
    if variant.group_size:
        settings = settings.model_copy(update={"group_size": variant.group_size})
    parts = {app: (app,) for app in profile.apps}
    if variant.joint:
        parts = {ALL: profile.apps}
        settings = settings.model_copy(update={"steps": settings.steps * len(profile.apps)})
    for part, apps in parts.items():
        rows = concatenate_datasets([training_rows(run, app, variant.labels) for app in apps])
        planner, seed = checkpoint_path(profile.models.planner), stage_seed(profile, "ablation", name, part)
        near = profile.model_copy(update={"serving": Serving()}) if variant.coupled else profile  # to be trained, it must be here
        executor, folder = Executor.load(near), run.variant(name, part)
        train(rows, planner, executor, settings, profile.planner, folder, seed, distance=variant.distance)
    return {app: run.variant(name, ALL if variant.joint else app) for app in profile.apps}


def evaluate_variant(run: Run, name: str, progress: Progress = lambda done, total: None) -> pd.DataFrame:
    """Run an ablation's planners on the held-out tasks, as `stages.evaluate` does; writes ablations/{name}.parquet."""
    profile, variant = run.profile(), run.profile().ablations[name]
    parts = []
    for app in profile.apps:
        folder = run.variant(name, ALL if variant.joint else app)
        agent = load_agent(profile, name, str(folder), str(folder / "executor") if variant.coupled else None)
        parts.append(play_held_out(run, agent, app, progress))
    table = pd.concat(parts, ignore_index=True)
    write_table(run.ablation(name), table)
    return table
