"""Figures in the running text of README and docs, between marks that name where each is read.

`<!--= laptop/seeds/comparisons base stage1 Average@8 overall -->+7.3 [+3.4, +11.5]<!--/-->` is the row of
results/reference/laptop/seeds/comparisons.csv that has all four words: its difference (or value) with its
interval.  A last word `.column` or `.column:format` takes that column alone: `.tasks:,.0f`.  A word has `_`
for a space.  Beside files there are the tables of `COMPUTED`, made of a run's episodes and votes
(`laptop/grades base A .share`).  `python -m tools.reference` renews the marked figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pandas as pd

from coda_lib.errors import UserError
from coda_lib.files import read_json
from coda_lib.judge import Rule
from coda_lib.paths import CHECKPOINTS, REFERENCE
from coda_study.evaluation.paper import OVERALL
from coda_study.evaluation.statistics import mean_over_tasks
from coda_study.evaluation.tables import load_seeds, siblings
from coda_study.evaluation.votes import load_votes
from coda_study.run import Run

MARK = re.compile(r"<!--= ([^>]+?) -->(.*?)<!--/-->", re.DOTALL)


def grades(folder: Path) -> pd.DataFrame:
    """Solved test episodes by the grade of their task, of all seeds: system, grade, solved, of (episodes of
    that grade), share (percent of the system's successes), rate (percent).
    """
    episodes, profile = load_seeds(siblings(Run(str(folder)), [REFERENCE]))
    grade = episodes["task_id"].str.extract(r"/(\w)", expand=False).rename("grade")
    table = episodes.groupby(["system", grade])["success"].agg(solved="sum", of="count").astype(int)
    share = 100 * table["solved"] / table.groupby("system")["solved"].transform("sum")
    table = table.assign(share=share, rate=100 * table["solved"] / table["of"])
    return table.loc[list(profile.systems)].reset_index()


def labels(folder: Path) -> pd.DataFrame:
    """The steps that the run's own rule labels, from its votes: planner, application (or overall), steps,
    failed (percent of them of attempts that did not solve their task).

    The steps of an attempt are those of `judge.positive_steps`.
    """
    run = Run(str(folder))
    rule, rows = Rule.of(run.profile().judge), []
    for (planner, app, *_), votes in (
        load_votes(run).sort_values("vote").groupby(["planner", "app", "task_id", "run"])
    ):
        outcome, first = rule.outcome(tuple(votes["reply"])), votes.iloc[0]
        steps = range(1, first["steps"] + 1)
        if not (outcome.clean and not first["broken"]):
            steps = [i for i in steps if rule.trim and outcome.success and i not in outcome.needless]
        rows += [
            (planner, each, len(steps), 0 if first["success"] else len(steps)) for each in (app, OVERALL)
        ]
    table = pd.DataFrame(rows, columns=["planner", "application", "steps", "failed"])
    table = table.groupby(["planner", "application"], as_index=False, sort=False).sum()
    return table.assign(failed=100 * table["failed"] / table["steps"])


def card(folder: Path) -> pd.DataFrame:
    """What the card of the laptop's executor says: measure, value."""
    measured = read_json(CHECKPOINTS / "executor" / "figures.json")["figures"]
    return pd.DataFrame(measured.items(), columns=["measure", "value"])


def costs(folder: Path) -> pd.DataFrame:
    """What the runs of a study took, a row for each and for the "least" and the "most": minutes (sum over the
    stages, of which two run side by side), peak_gb (of the largest stage), disk_gb.
    """
    runs = [one.folder for one in siblings(Run(str(folder)), [REFERENCE])]
    found = pd.DataFrame([read_json(run / "manifest.json") for run in runs], index=[run.name for run in runs])
    table = pd.DataFrame({"minutes": found["wall_s"] / 60, "peak_gb": found["peak_rss_mb"] / 1000})
    table["disk_gb"] = found["disk_mb"] / 1000 if "disk_mb" in found else float("nan")
    table.loc["least"], table.loc["most"] = table.min(), table.max()
    return table.rename_axis("run").reset_index()


def check(folder: Path) -> pd.DataFrame:
    """What `coda check` compares: episodes."""
    expected = read_json(REFERENCE / "check.json")["episodes"]
    return pd.DataFrame({"of": ["episodes"], "value": [sum(map(len, expected.values()))]})


def by_hand(folder: Path) -> pd.DataFrame:
    """Success at the tasks of data/tasks/apps: application, agent (base: the laptop's base planner; desktop:
    the generalist of run desktop), value, low, high (percent, over tasks), episodes.
    """
    rows = []
    for path in sorted(folder.glob("*.parquet")):
        episodes = pd.read_parquet(path)
        rates = episodes.groupby("task_id")["success"].mean().to_numpy(float)
        found, (app, agent) = mean_over_tasks([rates]), path.stem.split("-")
        rows.append((app, agent, *(100 * x for x in (found.value, found.low, found.high)), len(episodes)))
    return pd.DataFrame(rows, columns=["application", "agent", "value", "low", "high", "episodes"])


COMPUTED: dict[str, Callable[[Path], pd.DataFrame]] = {
    "grades": grades, "labels": labels, "executor": card, "costs": costs, "check": check, "by_hand": by_hand,
}  # fmt: skip


@cache
def _table(path: str) -> pd.DataFrame:
    run, _, name = path.partition("/")
    if name in COMPUTED:
        return COMPUTED[name](REFERENCE / run)
    if not (file := REFERENCE / f"{path}.csv").is_file():
        raise UserError(f"no table {path}: neither {file} nor one of {', '.join(COMPUTED)}")
    return pd.read_csv(file)


def figure(address: str) -> str:
    """The figure at an address, as it is printed.  UserError unless exactly one row has all words."""
    path, *words = address.split()
    column, _, how = words.pop()[1:].partition(":") if words and words[-1].startswith(".") else ("", "", "")
    table = _table(path)
    cells = table.map(str)
    rows = cells.to_numpy().tolist()
    found = table[[all(word in row or word.replace("_", " ") in row for word in words) for row in rows]]
    if len(found) != 1:
        raise UserError(f"{address}: {len(found)} rows of {path} have these words")
    row = found.iloc[0]
    if column:
        return format(row[column], how or ".1f").replace("%", " %").replace("-", "−")
    kind = "difference" if pd.notna(row.get("difference")) else "value"
    ends = [f"{kind}_{end}" if f"{kind}_{end}" in row else end for end in ("low", "high")]
    value, low, high = (
        format(row[name], "+.1f" if kind == "difference" else ".1f") for name in (kind, *ends)
    )
    return f"{value} [{low}, {high}]".replace("-", "−")


def renewed(text: str) -> str:
    """A page with its marked figures made again."""
    return MARK.sub(lambda match: f"<!--= {match[1]} -->{figure(match[1])}<!--/-->", text)
