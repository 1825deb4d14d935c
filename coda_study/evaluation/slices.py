"""Episodes by what tells them apart: temperature, kind and grade of the task, what of a perturbed run was
held back from training; and the agents that look at no screen.

Functions take the runs of a study (one, or several seeds) and give tidy tables in percent, with intervals as
in Table 1.  Overall is the unweighted mean of the applications that have such tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pandas as pd

from coda_lib.config import Profile
from coda_lib.task import GRADES, Task, test_tasks
from coda_study.draws import start_of
from coda_study.evaluation import statistics
from coda_study.evaluation.paper import OVERALL, Provenance
from coda_study.evaluation.tables import FAMILIES, STEADY, load_seeds, read_episodes, table1, table_settings
from coda_study.run import Run
from sciencedesk.knowledge import KINDS, kind_of_task
from sciencedesk.perturb import held_back

BLIND = ("replay", "nearest", "random")  # rows of `baselines` that look at no screen
BEST = "best"  # the base planner at the temperature that was best on development tasks


def passes(runs: Sequence[Run]) -> pd.DataFrame:
    """`table1` by temperature, a column of it, with Pass^k and Flips@k where a task has several runs.

    At `best` there is the base planner alone, where the runs' profile tries temperatures.
    """
    sampled, profile = load_seeds(runs)
    played = {"0": load_seeds(runs, "greedy")[0], f"{profile.planner.temperature:g}": sampled}
    if profile.baselines.temperatures:
        baselines, _ = load_seeds(runs, "baselines")
        played[BEST] = baselines[baselines["system"] == BEST].assign(system="base")
    return pd.concat(
        [_table(episodes, profile, STEADY).assign(temperature=name) for name, episodes in played.items()],
        ignore_index=True,
    )


def kinds(runs: Sequence[Run]) -> pd.DataFrame:
    """`table1` of state tasks, of question tasks, and of each grade; columns slice, solved, episodes too.

    Where a base planner was taught a part of the goals, also by what is known of a task's.
    """
    episodes, profile = load_seeds(runs)
    tasks = _tasks(episodes, profile)
    kind = tasks.map(lambda task: "state" if task.ans is None else "question")
    grade = tasks.map(lambda task: f"grade {task.grade}")
    cuts = [(kind, "state"), (kind, "question"), *((grade, f"grade {letter}") for letter in GRADES)]
    if profile.knowledge:
        known = tasks.map(lambda task: kind_of_task(task, profile.knowledge))
        cuts += [(known, name) for name in KINDS]
    parts = []
    for label, name in cuts:
        if not (part := episodes[label == name]).empty:
            counts = shares(part, profile.systems, profile)[["system", "application", "solved", "episodes"]]
            table = _table(part, profile, FAMILIES).merge(counts, on=["system", "application"])
            parts.append(table.assign(slice=name))
    return pd.concat(parts, ignore_index=True)


def factors(runs: Sequence[Run]) -> pd.DataFrame:
    """`shares` of perturbed episodes by factor: `seen` or `held back` in training; columns factor, slice too.

    The factor `any` is held back where one of the others is.  For perturbed runs.
    """
    episodes, profile = load_seeds(runs)
    numbers = episodes["run"] % profile.evaluation_runs  # each seed plays the same runs
    starts: dict[tuple[str, int], dict[str, bool]] = {}
    for task, number in zip(_tasks(episodes, profile), numbers, strict=True):
        if (task.id, number) not in starts:
            starts[task.id, number] = _held_back(profile, task, number)
    pairs = zip(episodes["task_id"], numbers, strict=True)
    labels = pd.DataFrame([starts[pair] for pair in pairs], episodes.index)
    parts = []
    for factor, held in product(labels, (False, True)):
        table = shares(episodes[labels[factor] == held], profile.systems, profile)
        parts.append(table.assign(factor=factor, slice="held back" if held else "seen"))
    return pd.concat(parts, ignore_index=True)


def blind(runs: Sequence[Run]) -> pd.DataFrame:
    """`shares` of the base planner, of the executor alone, and of agents that look at no screen."""
    episodes, profile = load_seeds(runs)
    baselines, _ = load_seeds(runs, "baselines")
    played = pd.concat([episodes, baselines])
    return shares(played, ("base", "executor", *BLIND), profile)


def temperatures(run: Run) -> pd.DataFrame:
    """`shares` of the base planner at development tasks by temperature; columns temperature, chosen too."""
    profile, parts = run.profile(), []
    tried = pd.concat([read_episodes(run.tried(app)) for app in profile.apps])
    best = load_seeds([run], "baselines")[0].query("system == @BEST").groupby("app")["temperature"].first()
    for temperature, part in tried.groupby("temperature", sort=False):
        table = shares(part, ["base"], profile).query("application != @OVERALL")
        chosen = table["application"].map(best) == temperature
        parts.append(table.assign(temperature=temperature, chosen=chosen))
    return pd.concat(parts, ignore_index=True).drop(columns=["metric", "system"])


def shares(episodes: pd.DataFrame, systems: Sequence[str], profile: Profile) -> pd.DataFrame:
    """The mean over tasks of the share of a task's episodes that are solved, whichever runs these are.

    A row for each system that played and each application, with the columns of `table1` and solved, episodes.
    EpisodesError for episodes without an outcome.
    """
    statistics.require_outcomes(episodes)
    rows, provenance = [], str(Provenance.of(profile))
    episodes = episodes.astype({"success": int})
    for system, application in product(systems, (*profile.apps, OVERALL)):
        of_system = episodes[episodes["system"] == system]
        played = of_system if application == OVERALL else of_system[of_system["app"] == application]
        if played.empty:
            continue
        of_task = played.groupby(["app", "task_id"])["success"].mean()
        found = statistics.mean_over_tasks([part.to_numpy() for _, part in of_task.groupby("app")])
        percent = {name: 100 * getattr(found, name) for name in ("value", "low", "high")}
        rows.append({
            "metric": "Average", "system": system, "application": application, **percent,
            "solved": played["success"].sum(), "episodes": len(played), "tasks": len(of_task),
            "interval": found.method, "provenance": provenance,
        })  # fmt: skip
    return pd.DataFrame(rows)


def _table(episodes: pd.DataFrame, profile: Profile, families: Sequence[str]) -> pd.DataFrame:
    """`table1` of the systems and applications that played; of tasks with one run Average@1 alone."""
    k = int(episodes.groupby(["system", "task_id", "seed"]).size().max())
    systems = [system for system in profile.systems if system in set(episodes["system"])]
    apps = [app for app in profile.apps if app in set(episodes["app"])]
    setup = table_settings(profile) | {"apps": apps, "k": k}
    return table1(episodes, systems, **setup, families=families if k > 1 else families[:1])


def _tasks(episodes: pd.DataFrame, profile: Profile) -> pd.Series:
    """The test task of each episode.  EpisodesError for episodes of other tasks."""
    known = {task.id: task for app in profile.apps for task in test_tasks(app)}
    if unknown := sorted(set(episodes["task_id"]) - known.keys()):
        raise statistics.EpisodesError(
            f"{len(unknown)} tasks of these episodes are no test tasks, {unknown[0]} first: this version of "
            "the kit has others; play them again"
        )
    return episodes["task_id"].map(known)


def _held_back(profile: Profile, task: Task, run: int) -> dict[str, bool]:
    view = start_of(profile, task, run, "test").view
    found = held_back(view, task.app) if view else {}
    return found | {"any": any(found.values())}
