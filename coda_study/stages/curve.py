"""Stage `curve`: success by the number of distinct train tasks, at one number of episodes (notebook 17).

Stage 1 begins with the base planner.  With `starts` stage 2 begins on the same attempts with other planners,
one of them perhaps trained in other software: does it need fewer tasks than one that knows nothing?
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pandas as pd

from coda_lib.agent import load_agent
from coda_lib.config.sections import CurveSettings
from coda_lib.errors import UserError
from coda_lib.files import write_table
from coda_lib.judge import Judge
from coda_lib.paths import checkpoint_path
from coda_lib.task import Task
from coda_lib.trajectory import Trajectory, load_trajectories, save_trajectories
from coda_study.draws import drawn_tasks, stage_seed
from coda_study.evaluation.statistics import mean_over_tasks, success_matrix, task_average
from coda_study.evaluation.tables import read_episodes
from coda_study.fleet.collection import Collection
from coda_study.owned import replaced_folder
from coda_study.run import Run
from coda_study.stages.common import Labeller, Progress, begin, judge_labels, play, system_agent, unreported
from coda_study.stages.evaluate import play_held_out
from coda_study.stages.labels import true_labels

__all__ = ["begin", "curve_table", "label_supply", "run"]

UNTRAINED = (0, "base")  # the base planner's place among the points


def run(run: Run, progress: Progress = unreported) -> pd.DataFrame:
    """Explore, label, train and play the held-out tasks for each point of the profile's `curve`.

    Writes curve/{tasks}-judged.parquet (the attempts), curve/{tasks}-{labels}/ (the specialist) and
    curve/{tasks}-{labels}.parquet (its episodes), for each of `starts` its name in the place of the labels;
    what is there is not done again.  Returns `curve_table`.  UserError for a profile without `curve`, and if
    there is no labelled step to learn from.
    """
    wanted = run.profile().curve
    if not wanted:
        known = "give it app, tasks and episodes, as ablations.yaml does"
        raise UserError(f"profile {run.profile().name} has no curve: {known}")
    points = points_of(wanted)
    for done, point in enumerate(points):
        progress(done, len(points))
        if not (path := run.curve(*point)).is_file():
            if point == UNTRAINED:
                agent = system_agent(run, "base", wanted.app)
            else:
                agent = load_agent(run.profile(), path.stem, str(train(run, *point)))
            write_table(path, play_held_out(run, agent, wanted.app))
    progress(len(points), len(points))
    return curve_table(run)


def points_of(wanted: CurveSettings) -> list[tuple[int, str]]:
    """Number of tasks, and labels or start, of each point of the curve; the base planner first."""
    return [UNTRAINED, *product(wanted.tasks, (*wanted.labels, *wanted.starts))]


def train(run: Run, tasks: int, name: str) -> Path:
    """Train the planner of a point, by stage 1 on these labels or by stage 2 from this start, in its folder.

    Goes on after a kill.
    """
    # TRL takes seconds to load, and the table needs none of it
    from coda_lib.dataset import grpo_rows, sft_rows
    from coda_lib.executor import Executor
    from coda_lib.trainer import generalize, specialize

    profile, folder = run.profile(), run.curve(tasks, name).with_suffix("")
    planner, seed = checkpoint_path(profile.models.planner), stage_seed(profile, "curve", str(tasks), name)
    judged, label = labelled(run, tasks, "voting" if name in profile.curve.starts else name)
    if name not in profile.curve.starts:
        rows, executor = grpo_rows(judged, profile.prompts, label), Executor.load(profile)
        return specialize(rows, planner, executor, profile.specialize, profile.planner, folder, seed)
    rows = sft_rows(judged, profile.prompts, label, profile.generalize.endings, seed)
    known, start = profile.curve.starts[name], run.curve(0, name).with_suffix("")
    beginning(checkpoint_path(known) if known else None, planner, start, profile.seed)
    return generalize(rows, start, profile.generalize, folder, seed)


def beginning(known: str | Path | None, planner: str | Path, folder: Path, seed: int) -> Path:
    """A checkpoint to begin stage 2 with: a known one, or for None the planner with random weights.

    It sees pictures as large as the planner does: one of other software may have learned with smaller ones.
    """
    if not folder.is_dir():
        import torch

        from coda_lib.models.local import load_network, load_processor
        from coda_lib.trainer import round_weights

        network = load_network(known or planner, trainable=True, device="cpu")
        processor = load_processor(known or planner)
        if not known:
            torch.manual_seed(seed)
            network = type(network)(network.config)
        processor.image_processor.size = load_processor(planner).image_processor.size
        round_weights(network)
        with replaced_folder(folder) as temporary:
            network.save_pretrained(temporary)
            processor.save_pretrained(temporary)
    return folder


def attempts(run: Run, tasks: int) -> list[Trajectory]:
    """The base planner's judged attempts at so many train tasks: `episodes` of the profile in all."""
    profile, path = run.profile(), run.curve(tasks, "judged")
    if not path.is_file():
        app, runs = profile.curve.app, profile.curve.episodes // tasks
        seed, fleet = stage_seed(profile, "curve", str(tasks)), run.fleet("curve", str(tasks), "base")
        agent, drawn = system_agent(run, "base", app), train_tasks(run, tasks)
        played = play(run, agent, app, drawn, runs, seed, fleet, unreported)
        save_trajectories(path, Judge.load(profile).vote(played, seed))
        Collection(fleet).clear()
    return load_trajectories(path)


def labelled(run: Run, tasks: int, labels: str) -> tuple[list[Trajectory], Labeller]:
    """The attempts at so many tasks, and their labels: by the judge ('voting') or the check ('truth')."""
    judged = attempts(run, tasks)
    if labels == "voting":
        return judged, judge_labels(run.profile(), judged)
    return judged, true_labels(train_tasks(run, tasks), run.profile().judge.trim)


def train_tasks(run: Run, tasks: int) -> list[Task]:
    """So many train tasks, of the grades that the base planner explores."""
    profile = run.profile()
    grades, seed = profile.explore["base"].grades, stage_seed(profile, "curve tasks")
    return drawn_tasks(profile.curve.app, tasks, grades, seed)


def label_supply(run: Run) -> pd.DataFrame:
    """What there was to learn from, a row for each trained point; `solved` is in percent of the attempts."""
    profile, rows = run.profile(), []
    used = dict.fromkeys((*profile.curve.labels, *(["voting"] if profile.curve.starts else [])))
    for tasks, labels in product(profile.curve.tasks, used):
        judged, label = labelled(run, tasks, labels)
        clean = [attempt for attempt in judged if label(attempt)]
        solved = 100 * sum(bool(attempt.success) for attempt in clean) / len(clean) if clean else float("nan")
        rows.append((tasks, labels, len(clean), len({attempt.task_id for attempt in clean}), solved))
    return pd.DataFrame(rows, columns=["tasks", "labels", "labelled attempts", "labelled tasks", "solved"])


def curve_table(run: Run) -> pd.DataFrame:
    """A row for each point, the base planner first, as far as they are there.

    Columns: tasks, labels (or a start's name), value, low, high (Average@k in percent, 95 % interval over
    held-out tasks).
    """
    wanted, rows = run.profile().curve, []
    for tasks, labels in points_of(wanted):
        if (path := run.curve(tasks, labels)).is_file():
            episodes = read_episodes(path)
            apps = dict.fromkeys(episodes["task_id"], wanted.app)
            scores = task_average(success_matrix(episodes, apps, episodes["run"].unique(), path.stem))
            found = mean_over_tasks([scores])
            rows.append((tasks, labels, 100 * found.value, 100 * found.low, 100 * found.high))
    return pd.DataFrame(rows, columns=["tasks", "labels", "value", "low", "high"])
