"""A run's tables as tidy data frames: Table 1, comparisons of systems, the paper beside ours, several seeds.

All are computed from evaluation tables, with a row per episode: task_id, app, run, system, success, stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pyarrow import types

from coda_lib.applications import APPS
from coda_lib.config import SYSTEMS, Profile
from coda_lib.errors import UserError
from coda_lib.files import reading
from coda_lib.paths import REFERENCE, RESULTS, display
from coda_study.evaluation import statistics
from coda_study.evaluation.paper import OVERALL, Provenance, load_table1
from coda_study.evaluation.statistics import RESAMPLES, EpisodesError
from coda_study.run import Run

FAMILIES = ("Average", "Pass")
STEADY = (*FAMILIES, "Pass^", "Flips")  # with how alike the runs of a task end
PAPER_MODELS = {  # the row of the paper's Table 1 that each of our systems stands beside
    "base": "Qwen2.5-VL-32B",
    "executor": "UI-TARS-1.5-7B",
    "stage1": "CODA (Stage-1)",
    "stage2": "CODA (Stage-2)",
}
PAIRS = (("base", "stage1"), ("stage1", "stage2"), ("base", "stage2"))
BESIDE = {"sealed": "sealed tasks", "greedy": "at temperature 0"}  # what a study has beside Table 1

# at the test tasks, at these without chance, at the sealed tasks, of what stands beside Table 1
Episodes = Literal["evaluation", "greedy", "sealed", "baselines"]
Matrices = dict[tuple[str, str], pd.DataFrame]  # (system, application) -> successes, tasks x runs


def read_table(path: Path, **columns: str) -> pd.DataFrame:
    """The Parquet table of a file.  UserError for another file or without these columns of these kinds.

    Kinds are 'text', 'whole', 'number', 'truth' and 'list'; an empty value is of any.
    """
    kinds = {
        "text": (types.is_string, types.is_large_string), "whole": (types.is_integer,),
        "truth": (types.is_boolean,),
        "number": (types.is_integer, types.is_floating), "list": (types.is_list, types.is_large_list),
    }  # fmt: skip
    with reading(path, "Parquet"):
        schema = pq.read_schema(path)
    for name, kind in columns.items():
        if name not in schema.names:
            raise UserError(f"{path} is another table: it has no column {name}")
        found = schema.field(name).type
        if not any(of(found) for of in (*kinds[kind], types.is_null)):
            raise UserError(f"{path} is another table: column {name} holds {found}, not {kind}")
    with reading(path, "Parquet"):
        return pd.read_parquet(path)


def read_episodes(path: Path) -> pd.DataFrame:
    """A table with a row an episode.  UserError for another file."""
    kinds = {"task_id": "text", "app": "text", "run": "whole", "system": "text", "success": "truth"}
    return read_table(path, **kinds, stop="text")


def load_episodes(
    run: Run, systems: Sequence[str] | None = None, of: Episodes = "evaluation"
) -> pd.DataFrame:
    """The episodes of a run, of all its systems or of these.  UserError names what was not evaluated."""
    profile = run.profile()
    path_of = {"evaluation": run.evaluation, "greedy": run.greedy, "sealed": run.sealed}
    path_of["baselines"] = lambda _, app: run.baselines(app)  # one file for all of them
    pairs = product(systems or profile.systems, profile.apps)
    paths = list(dict.fromkeys(path_of[of](*pair) for pair in pairs))
    if absent := [path for path in paths if not path.is_file()]:
        missing = f"{len(absent)} of {len(paths)} evaluations"
        raise UserError(f"run {run.name}: {missing} are not there, {display(absent[0])} first")
    return pd.concat(map(read_episodes, paths))


def table_settings(profile: Profile) -> dict[str, Any]:
    """What a profile sets of `table1`, `comparisons` and `endings`: applications and provenance."""
    return {"apps": profile.apps, "provenance": Provenance.of(profile)}


def table1(
    episodes: pd.DataFrame, systems: Sequence[str] = SYSTEMS, *, apps: Sequence[str] = APPS,
    provenance: Provenance = Provenance.MEASURED, k: int | None = None, families: Sequence[str] = FAMILIES,
) -> pd.DataFrame:  # fmt: skip
    """Table 1 of a run, or of several seeds (`load_seeds`), a row per cell.

    Columns: metric, system, application, value, low, high, tasks, runs, interval, provenance.  Metrics are
    Average@k and Pass@k with k the number of runs of a seed (default: all runs of a task); with several seeds
    they are means over the seeds.  With the `families` STEADY there are Pass^k, the share of tasks that all k
    runs solve (arXiv 2406.12045), and Flips@k, that of tasks which some of k runs solve and some do not.
    Value, low and high are percent, low to high the 95 % interval. `interval` names its method: Wilson's,
    with tasks as the trials (`statistics.mean_over_tasks`).  Overall is the unweighted mean of `apps`.

    Raises EpisodesError unless all systems have the same tasks and runs.

    >>> rows = [("gis/A-01", 0, True), ("gis/A-01", 1, False), ("gis/A-02", 0, False), ("gis/A-02", 1, False)]
    >>> episodes = pd.DataFrame(rows, columns=["task_id", "run", "success"])
    >>> episodes = episodes.assign(app="gis", system="base", stop="DONE")
    >>> table1(episodes, ["base"], apps=["gis"])[["metric", "application", "value"]].to_numpy().tolist()[::2]
    [['Average@2', 'gis', 25.0], ['Pass@2', 'gis', 50.0]]
    """
    matrices = success_matrices(episodes, systems, apps)
    rows = []
    for family, system, application in product(families, systems, (*apps, OVERALL)):
        chosen = [matrices[system, app] for app in _members(application, apps)]
        scores = [_scores(family, matrix, k).mean(axis=1) for matrix in chosen]
        estimate = statistics.mean_over_tasks(scores)
        rows.append(
            {
                "metric": f"{family}{'' if '^' in family else '@'}{k or chosen[0].shape[1]}",
                "system": system,
                "application": application,
                "value": 100 * estimate.value,
                **_evidence(estimate, chosen, provenance),
            }
        )
    return pd.DataFrame(rows)


def comparisons(
    episodes: pd.DataFrame, systems: Sequence[str] = SYSTEMS, resamples: int = RESAMPLES, seed: int = 0, *,
    apps: Sequence[str] = APPS, provenance: Provenance = Provenance.MEASURED, k: int | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Paired differences between systems, a row per metric, pair and application or Overall.

    The pairs are those of PAIRS that `systems` contains.  Every row draws from its own generator with the
    same seed, so that it does not depend on the other rows.  Columns: metric, first, second, application,
    difference (second minus first, percentage points), low, high (95 %, over tasks and seeds:
    `statistics.paired_difference`), tasks, runs, interval, provenance.

    Raises EpisodesError unless all these systems have the same tasks and runs.
    """
    pairs = [pair for pair in PAIRS if set(pair) <= set(systems)]
    compared = [system for system in systems if any(system in pair for pair in pairs)]
    matrices = success_matrices(episodes, compared, apps)
    setup = {"resamples": resamples, "seed": seed, "apps": apps, "provenance": provenance, "k": k}
    cells = product(FAMILIES, pairs, (*apps, OVERALL))
    return pd.DataFrame([compare(matrices, *cell, **setup) for cell in cells])


def compare(
    matrices: Matrices, family: str, pair: tuple[str, str], application: str, resamples: int = RESAMPLES,
    seed: int = 0, *,
    apps: Sequence[str] = APPS, provenance: Provenance = Provenance.MEASURED, k: int | None = None,
) -> dict:  # fmt: skip
    """A row of `comparisons`: the second system of `pair` minus the first, by `family` (Average or Pass)."""
    chosen = [[matrices[system, app] for app in _members(application, apps)] for system in pair]
    before, after = ([_scores(family, matrix, k) for matrix in side] for side in chosen)
    result = statistics.paired_difference(before, after, np.random.default_rng(seed), resamples)
    runs = chosen[0][0].shape[1]
    return {
        "metric": f"{family}@{k or runs}", "first": pair[0], "second": pair[1], "application": application,
        "difference": 100 * result.value, **_evidence(result, chosen[0], provenance),
    }  # fmt: skip


def beside_paper(table: pd.DataFrame) -> pd.DataFrame:
    """Our Table 1 with the paper's figure beside each of ours; goes with `report.beside_note`.

    Adds paper_metric, paper_model, paper_value (percent) and paper_tasks to the rows of `table`.  Average@k
    stands beside the paper's Average@8 and Pass@k beside its Pass@8, whatever our k.  The paper's Overall,
    over its four applications, stands beside ours over the same four of ScienceDesk, or over real
    applications; it is left out beside fewer.
    """
    paper = load_table1()
    if 0 < len(set(APPS) & set(table["application"])) < len(APPS):
        paper = paper[paper["application"] != OVERALL]
    paper = paper.rename(columns={name: f"paper_{name}" for name in ("metric", "model", "value", "tasks")})
    keys = ["paper_metric", "paper_model", "application"]
    metric, model = table["metric"].str.split("@").str[0] + "@8", table["system"].map(PAPER_MODELS)
    ours = table.assign(paper_metric=metric, paper_model=model)
    paper = paper[[*keys, "paper_value", "paper_tasks"]]
    return ours.merge(paper, on=keys, how="left", validate="many_to_one")


def success_matrices(
    episodes: pd.DataFrame, systems: Sequence[str] = SYSTEMS, apps: Sequence[str] = APPS
) -> Matrices:
    """Success matrices by (system, application), all systems with the same tasks and runs.

    Raises EpisodesError that names missing episodes.
    """
    episodes = episodes[episodes["system"].isin(systems)]
    if unknown := sorted(set(episodes["app"]) - set(apps)):
        names = ", ".join(unknown)
        raise EpisodesError(f"episodes of applications that this table has no column for: {names}")
    app_of = dict(zip(episodes["task_id"], episodes["app"], strict=True))
    if systems and (absent := [app for app in apps if app not in app_of.values()]):
        raise EpisodesError(f"no episodes of any system for {', '.join(absent)}")
    matrices = {}
    for system in systems:
        of_system = episodes[episodes["system"] == system]
        matrix = statistics.success_matrix(of_system, app_of, episodes["run"].unique(), f"system {system!r}")
        matrices |= {(system, app): part for app, part in matrix.groupby(matrix.index.map(app_of))}
    return matrices


def _members(application: str, apps: Sequence[str]) -> Sequence[str]:
    return apps if application == OVERALL else (application,)


def _scores(family: str, matrix: pd.DataFrame, k: int | None = None) -> np.ndarray:
    """Score of each task with each seed, which has k of the runs: (tasks, seeds)."""
    k = k or matrix.shape[1]
    score = {
        "Average": statistics.task_average, "Pass": partial(statistics.task_pass, k=k),
        "Pass^": partial(statistics.task_always, k=k), "Flips": partial(statistics.task_flips, k=k),
    }[family]  # fmt: skip
    seeds = np.split(matrix.to_numpy(), matrix.shape[1] // k, axis=1)
    return np.stack([score(runs) for runs in seeds], axis=1)


def _evidence(
    estimate: statistics.Estimate, matrices: Sequence[pd.DataFrame], provenance: Provenance
) -> dict:
    """The columns for the interval of a figure and its sample."""
    tasks, runs = sum(len(matrix) for matrix in matrices), matrices[0].shape[1]
    return {
        "low": 100 * estimate.low, "high": 100 * estimate.high, "tasks": tasks, "runs": runs,
        "interval": estimate.method, "provenance": str(provenance),
    }  # fmt: skip


def load_seeds(runs: Sequence[Run], of: Episodes = "evaluation") -> tuple[pd.DataFrame, Profile]:
    """The episodes of all runs, with their seed, and the first run's profile; `of` as in `load_episodes`.

    The runs of a task are numbered on from seed to seed, so that `table1(episodes, ...,
    k=profile.evaluation_runs)` gives the means over the seeds.  UserError as of `study`.
    """
    profiles = study(runs)
    seeded = zip(runs, profiles, strict=True)
    parts = [load_episodes(run, of=of).assign(seed=profile.seed) for run, profile in seeded]
    return numbered_on(parts, profiles[0].evaluation_runs), profiles[0]


def study(runs: Sequence[Run]) -> list[Profile]:
    """The profiles of runs that are one study with several seeds.

    UserError if two runs have the same seed or differ in another setting than who explored, whether sealed
    tasks were played, and which baselines and ablations stand beside.
    """
    profiles = [run.profile() for run in runs]
    first = _settings(profiles[0])
    for run, profile in zip(runs, profiles, strict=True):
        if different := sorted(name for name, value in _settings(profile).items() if value != first[name]):
            names = ", ".join(different)
            raise UserError(f"run {run.name} is another study than {runs[0].name}: it differs in {names}")
    seeds = [profile.seed for profile in profiles]
    if len(set(seeds)) < len(seeds):
        raise UserError(f"two runs have the same seed: the seeds are {', '.join(map(str, seeds))}")
    return profiles


def numbered_on(parts: Sequence[pd.DataFrame], k: int) -> pd.DataFrame:
    """One table of several with the same tasks and at most `k` runs of each, `run` numbered on."""
    numbered = [part.assign(run=part["run"] + i * k) for i, part in enumerate(parts)]
    return pd.concat(numbered, ignore_index=True)


def _settings(profile: Profile) -> dict:
    return profile.model_dump(exclude={"seed", "explored", "sealed", "baselines", "ablations"})


def reference_run(name: str = "laptop") -> Run:
    """A committed run: its tables, episodes and votes, without checkpoints and trajectories."""
    return Run(str(REFERENCE / name))


def siblings(run: Run, folders: Sequence[Path] = (RESULTS, REFERENCE)) -> list[Run]:
    """The run and the finished runs of these folders that are one `study` with it, by seed."""
    runs = {run.profile().seed: run}
    for path in sorted(path for folder in folders for path in folder.glob("*/tables/table1.csv")):
        other = Run(str(path.parents[1]))
        profile = other.profile()
        if _settings(profile) == _settings(run.profile()):
            runs.setdefault(profile.seed, other)
    return [runs[seed] for seed in sorted(runs)]


def by_seed(episodes: pd.DataFrame) -> pd.DataFrame:
    """Overall Average@k in percent, systems x seeds, and the standard deviation between seeds."""
    episodes = episodes.astype({"success": float})
    cells = episodes.groupby(["system", "seed", "app"], sort=False)["success"].mean()
    table = 100 * cells.groupby(["system", "seed"], sort=False).mean().unstack("seed")
    return table.assign(deviation=table.std(axis=1, ddof=1) if table.shape[1] > 1 else np.nan)


def played_beside(runs: Sequence[Run]) -> Iterator[tuple[str, pd.DataFrame, int]]:
    """What was played beside the test tasks: key of `BESIDE`, episodes as of `load_seeds`, runs of a seed.

    Sealed tasks by the runs that played them, temperature 0 where all runs did.
    """
    first = runs[0].profile().systems[0], runs[0].profile().apps[0]
    greedy = all(run.greedy(*first).is_file() for run in runs)
    played = {"sealed": [run for run in runs if run.profile().sealed], "greedy": [*runs] if greedy else []}
    for of, some in played.items():
        if some:
            episodes, _ = load_seeds(some, of)
            yield of, episodes, int(episodes.groupby(["system", "task_id", "seed"]).size().max())


def over_seeds(runs: Sequence[Run]) -> tuple[dict[str, pd.DataFrame], str]:
    """The tables of a study over its seeds, and its name in captions; errors of `load_seeds`.

    `table1`, `comparisons` and `by_seed`, and of what is `played_beside`, Average@k alone: `sealed`,
    `sealed_differences`, `greedy`, `greedy_differences`.
    """
    episodes, profile = load_seeds(runs)
    table, compared = _measured(episodes, profile, profile.evaluation_runs)
    tables = {"table1": table, "comparisons": compared, "by_seed": by_seed(episodes).reset_index()}
    for of, more, k in played_beside(runs):
        parts = _measured(more, profile, k, ("Average",))
        tables |= dict(zip((of, f"{of}_differences"), parts, strict=True))
    seeds = episodes["seed"].unique()
    name = f"{profile.name}, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    return tables, name


def _measured(
    episodes: pd.DataFrame, profile: Profile, k: int, families: Sequence[str] = FAMILIES
) -> Iterator[pd.DataFrame]:
    """`table1` and `comparisons` of a study's episodes, `k` runs of a task a seed."""
    setup = table_settings(profile) | {"k": k}
    yield from (
        table[table["metric"].str.startswith(tuple(families))]
        for table in (
            table1(episodes, profile.systems, **setup),
            comparisons(episodes, profile.systems, profile.bootstrap_resamples, **setup),
        )
    )
