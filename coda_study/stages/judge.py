"""Stage `judge`: vote on a planner's rollouts (paper, section 4; notebook 04)."""

from __future__ import annotations

from dataclasses import asdict

from coda_lib.files import write_json
from coda_lib.judge import Judge, JudgeScore, Rule, score
from coda_lib.trajectory import Trajectory, load_trajectories, save_trajectories
from coda_study.draws import stage_seed
from coda_study.run import Run
from coda_study.stages.common import begin, judge_labels
from coda_study.usage import note_usage

__all__ = ["begin", "run"]


def run(run: Run, planner: str, app: str) -> tuple[list[Trajectory], JudgeScore]:
    """Let the judge vote on a planner's rollouts; returns them and the score of the profile's rule.

    Writes judged/{planner}/{app}.parquet, and beside it the score against the application's check as JSON.
    """
    profile = run.profile()
    judge, rollouts = Judge.load(profile), load_trajectories(run.rollouts(planner, app))
    judged = judge.vote(rollouts, stage_seed(profile, "judge", planner, app))
    note_usage(run, f"judge/{planner}/{app}", judge=judge.model)
    save_trajectories(run.judged(planner, app), judged)
    judge_score, label = score(judged, Rule.of(profile.judge)), judge_labels(profile, judged)
    shares = {"precision": judge_score.precision, "recall": judge_score.recall}
    labels = {"positive_actions": sum(len(label(trajectory)) for trajectory in judged)}
    report = {"planner": planner, "app": app} | asdict(judge_score) | shares | labels
    write_json(run.judge_scores(planner, app), report)
    return judged, judge_score
