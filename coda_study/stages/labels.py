"""Stage `labels`: the judges of Table 2 vote on the base planner's rollouts (notebook 11)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd

from coda_lib.config.sections import LABELS
from coda_lib.task import Task
from coda_lib.trajectory import Trajectory, load_trajectories
from coda_study.draws import stage_seed, train_tasks
from coda_study.evaluation.votes import apply, cast, table2_rules, votes_of
from coda_study.run import Run
from coda_study.stages.common import Labeller, begin, judge_labels, write_joined
from coda_study.stages.judges import load_judges
from sciencedesk.script import needless, script_plans

__all__ = ["begin", "label_quality", "labeller", "run"]

CONTROLS = ("failed", "shuffled")


def run(run: Run, app: str) -> pd.DataFrame:
    """The votes of Table 2's judges on the base planner's rollouts; writes ablations/votes/{app}.parquet.

    Columns as of `votes.find_votes`.  A judge stops where the profile's rule is decided, which leaves all
    votes that the rules of Table 2 ask for.
    """
    profile, judged = run.profile(), load_trajectories(run.judged("base", app))
    votes = [votes_of(judged, "judge")]
    for name, load in load_judges(profile).items():
        if name != "judge":
            votes.append(votes_of(load().vote(judged, stage_seed(profile, "labels", app, name)), name))
    return write_joined(run.label_votes(app), votes)


def labeller(run: Run, app: str, labels: str) -> Labeller:
    """The labels of a variant: by the profile's rule ('voting'), one of Table 2, or the check ('truth').

    Those of controls teach what should not help: all attempts that failed, or as many attempts as the rule
    takes, whichever they are ('shuffled').
    """
    profile = run.profile()
    if labels == "truth":
        return true_labels(train_tasks(run, app), profile.judge.trim)
    if labels == "failed":
        return partial(_all_steps_if, lambda t: t.success is False)
    if labels in ("voting", "shuffled"):
        judged = load_trajectories(run.judged("base", app))
        voted, seed = judge_labels(profile, judged), stage_seed(profile, "labels", app, labels)
        if labels == "voting":
            return voted
        drawn = random.Random(seed).sample(judged, sum(bool(voted(t)) for t in judged))
        shuffled = {(t.task_id, t.run) for t in drawn}
        return partial(_all_steps_if, lambda t: (t.task_id, t.run) in shuffled)
    rule = next(rule for rule in table2_rules(profile.judge) if rule.name == labels)
    clean = apply(rule, cast(pd.read_parquet(run.label_votes(app))))["clean"].to_dict()
    return partial(_all_steps_if, lambda t: clean[t.task_id, t.run, t.planner])


def true_labels(tasks: Sequence[Task], trim: bool = False) -> Labeller:
    """The labels by the check: clean is what solves its task in no more steps than the script.

    With `trim` what takes more gives the steps that the script takes (`judge.positive_steps`).
    """
    scripts = {task.id: script_plans(task) for task in tasks}

    def label(t: Trajectory) -> Sequence[int]:
        plans, script = [step.plan for step in t.steps], scripts[t.task_id]
        if not t.success or not trim and len(plans) > len(script):
            return ()
        left_out = needless(plans, script)
        return _read(t, [i for i in range(len(plans)) if i + 1 not in left_out], trim)

    return label


def _all_steps_if(clean: Callable[[Trajectory], bool], trajectory: Trajectory) -> Sequence[int]:
    return _read(trajectory, range(len(trajectory.steps))) if clean(trajectory) else ()


def _read(t: Trajectory, steps: Sequence[int], trim: bool = False) -> Sequence[int]:
    """The steps, without those that could not be parsed; all or none unless `trim`."""
    read = [i for i in steps if not t.steps[i].error]
    return read if trim or len(read) == len(t.steps) else ()


def label_quality(run: Run) -> pd.DataFrame:
    """The labels of the base planner's rollouts, a row for each way of labelling.

    Columns: labels, attempts (clean), steps (trained on), failed (percent of these steps from attempts that
    failed).
    """
    profile, rows = run.profile(), []
    for labels in [one for one in LABELS if one not in CONTROLS]:
        clean = []
        for app in profile.apps:
            label, judged = labeller(run, app, labels), load_trajectories(run.judged("base", app))
            clean += [(len(steps), t.success) for t in judged if (steps := label(t))]
        steps, failed = sum(n for n, _ in clean), sum(n for n, success in clean if not success)
        rows.append((labels, len(clean), steps, 100 * failed / steps if steps else float("nan")))
    return pd.DataFrame(rows, columns=["labels", "attempts", "steps", "failed"])
