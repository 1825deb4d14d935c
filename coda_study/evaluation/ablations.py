"""Tables of the ablations of a run: each variant beside the run's own stage 1, on the same test tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from coda_lib.config import Profile
from coda_lib.paths import REFERENCE
from coda_study.evaluation import tables
from coda_study.evaluation.statistics import RESAMPLES, format_interval
from coda_study.evaluation.tables import OVERALL, load_episodes, read_episodes
from coda_study.run import Run

TABLES = {  # the tables of notebook 14, with their titles
    "ablations": "Stage 1 with one thing changed; differences to the run's own stage 1",
    "executors": "Executors that no planner was trained with; "
    "differences to the base planner with the same executor",
    "novel": "Software that no model was trained on; differences to the base planner",
}
AGAINST = "stage1"  # the system that every variant is compared with
USUAL = "usual"  # the executor that the planners were trained with


def variants(*runs: Run, resamples: int = RESAMPLES, seed: int = 0) -> pd.DataFrame:
    """Overall Average@k of stage 1 and of each variant, a row each, of one run or of several seeds together.

    Each variant is compared with the stage 1 of the seeds that it was trained with.  Columns: variant,
    changed (the settings that differ from the run's), seeds (their number), value, low, high (percent, 95 %),
    difference, difference_low, difference_high, p (to stage 1, paired over tasks; empty for stage 1),
    reward_first, reward_last (mean training reward of the first and last ten steps, of 2), tasks, runs.
    EpisodesError names missing episodes; UserError as of `study`.
    """
    tables.study(runs)
    names = dict.fromkeys(name for run in runs for name in run.profile().ablations)
    rows = []
    for name in (AGAINST, *names):
        having = [run for run in runs if name == AGAINST or name in run.profile().ablations]
        profile = having[0].profile()
        k, systems, parts = (
            profile.evaluation_runs,
            [AGAINST],
            [load_episodes(run, [AGAINST]) for run in having],
        )
        if name != AGAINST:
            systems.append(name)
            played = [read_episodes(run.ablation(name)) for run in having]
            parts = [pd.concat(pair) for pair in zip(parts, played, strict=True)]
        table = _against(tables.numbered_on(parts, k), systems, AGAINST, profile.apps, resamples, seed, k)
        rewards = pd.DataFrame([_rewards(run, name) for run in having]).mean()
        row = {"variant": name, "changed": changed(profile, name), "seeds": len(having)}
        rows.append(table.iloc[-1].to_dict() | row | {"reward_first": rewards[0], "reward_last": rewards[1]})
    columns = ["variant", "changed", "seeds", *_MEASURED, "reward_first", "reward_last", "tasks", "runs"]
    return pd.DataFrame(rows)[columns]


_MEASURED = ("value", "low", "high", "difference", "difference_low", "difference_high")


def _against(
    episodes: pd.DataFrame, systems: Sequence[str], first: str, apps: Sequence[str],
    resamples: int, seed: int, k: int | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Overall Average@k of each system, and its difference to `first`; of several seeds each has `k` runs."""
    table = tables.table1(episodes, systems, apps=apps, k=k)
    table = table[table["application"].eq(OVERALL) & table["metric"].str.startswith("Average")]
    matrices = tables.success_matrices(episodes, systems, apps)
    gaps, how = {}, {"resamples": resamples, "seed": seed, "apps": apps, "k": k}
    for system in systems:
        if system != first:
            gap = tables.compare(matrices, "Average", (first, system), OVERALL, **how)
            gaps[system] = [gap[name] for name in ("difference", "low", "high")]
    gaps = pd.DataFrame.from_dict(gaps, orient="index", columns=_MEASURED[3:])
    return table.join(gaps, on="system")[["system", *_MEASURED, "tasks", "runs"]]


def changed(profile: Profile, name: str) -> str:
    """The settings of a variant that differ from the defaults, as `field: value`."""
    if name not in profile.ablations:
        return ""
    settings = profile.ablations[name].model_dump(exclude_defaults=True)
    return ", ".join(f"{field}: {value}" for field, value in settings.items())


def reward_logs(run: Run, name: str) -> Mapping[str, pd.DataFrame]:
    """The training logs of a variant, or of the run itself (`AGAINST`), by application or 'all'."""
    folder = run.specialist("-").parent if name == AGAINST else run.variant(name, "-").parent
    paths = {part: folder / part / "metrics.jsonl" for part in (*run.profile().apps, "all")}
    return {part: pd.read_json(path, lines=True) for part, path in paths.items() if path.exists()}


def _rewards(run: Run, name: str) -> tuple[float, float]:
    """Mean reward of the first and of the last ten steps."""
    rewards = [log["reward"].dropna() for log in reward_logs(run, name).values()]
    ends = [(of_app.head(10).mean(), of_app.tail(10).mean()) for of_app in rewards]
    return tuple(pd.DataFrame(ends, columns=["first", "last"], dtype=float).mean())


def executors(run: Run, resamples: int = RESAMPLES, seed: int = 0) -> pd.DataFrame:
    """Base planner and generalist with each executor, Overall Average@k; differences are to the base planner.

    Columns: executor, planner, and those of `variants`.
    """
    profile, systems = run.profile(), ("base", "stage2")
    usual = load_episodes(run)
    usual = usual[usual["system"].isin(systems)].assign(executor=USUAL)
    unseen = pd.concat([read_episodes(run.transfer(app)) for app in profile.apps])
    unseen[["system", "executor"]] = unseen["system"].str.split(", ", expand=True)
    parts = []
    for kind, episodes in pd.concat([usual, unseen]).groupby("executor", sort=False):
        part = _against(episodes, systems, "base", profile.apps, resamples, seed)
        part = part.rename(columns={"system": "planner"})
        part.insert(0, "executor", kind)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def novel(run: Run, app: str, resamples: int = RESAMPLES, seed: int = 0) -> pd.DataFrame:
    """Base planner, executor alone and generalist on software of no training; differences to the first."""
    episodes = read_episodes(run.transfer(app))
    return _against(episodes, ("base", "executor", "stage2"), "base", (app,), resamples, seed)


def committed_tables(name: str = "ablations") -> dict[str, pd.DataFrame]:
    """The laid-out tables of a committed run, over its seeds where there are several, by title."""
    laid_out = {}
    for part, title in TABLES.items():
        paths = [REFERENCE / name / folder / f"{part}.csv" for folder in ("seeds", "tables")]
        if path := next(filter(Path.exists, paths), None):
            laid_out[title] = layout(pd.read_csv(path))
    return laid_out


def layout(table: pd.DataFrame) -> pd.DataFrame:
    """The names, `12.9 [5.1, 22.4]`, and the difference; empty where there is none."""
    names = [name for name in ("variant", "changed", "executor", "planner", "system") if name in table]
    names += ["seeds"] if "seeds" in table and table["seeds"].max() > 1 else []
    value, gaps = [], []
    for shown, low, high, *gap in table[list(_MEASURED)].itertuples(index=False, name=None):
        value.append(format_interval(shown, low, high))
        gaps.append("" if pd.isna(gap[0]) else format_interval(*gap, "+.1f"))
    return table[names].fillna("").assign(**{"Overall Average@k": value, "difference": gaps})
