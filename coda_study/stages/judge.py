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
    """Let the judge vote on a planner's rollouts; returns the judged trajectories and the score of the
    profile's rule.

    Writes judged/{planner}/{app}.parquet, and the score against the application's own check beside it as
    JSON.
    """
    profile = run.profile()
    judge, rule = Judge.load(profile), Rule.of(profile.judge)
    judged = judge.vote(
        load_trajectories(run.rollouts(planner, app)), stage_seed(profile, "judge", planner, app)
    )
    note_usage(run, f"judge/{planner}/{app}", judge=judge.model)
    save_trajectories(run.judged(planner, app), judged)
    judge_score = score(judged, rule)
    shares = {"precision": judge_score.precision, "recall": judge_score.recall}
    labels = {"positive_actions": sum(map(len, map(judge_labels(profile, judged), judged)))}
    write_json(
        run.judge_scores(planner, app),
        {"planner": planner, "app": app} | asdict(judge_score) | shares | labels,
    )
    return judged, judge_score
