"""An audit of the paper's own Tables 1 and 2 (CODA, arXiv 2508.20096), and of the keys that they rest on.

The tables are those of data/paper/*.csv, the keys those of ScienceBoard's editions (data/scienceboard).

A cell of Table 1 is a share of episodes (Average@k: tasks x k) or of tasks (Pass@k), printed to a hundredth
of a percent, so that only some figures are possible.  All arithmetic is on integers: a figure is a whole
number of hundredths.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pandas as pd

from coda_study.evaluation.paper import OVERALL, TASKS, load_table1, load_table2
from coda_study.evaluation.statistics import newcombe, wilson

OURS = "CODA"  # first word of the paper's own rows
JUDGES = ("Qwen2.5-VL-72B-single", "72B-GUI-Judge")  # before and after fine-tuning


def audit_paper() -> dict[str, pd.DataFrame]:
    """All parts of the audit: cells, overalls, pooled, comparisons, judges, keys."""
    table = load_table1()
    counted = cells(table)
    together = pooled(counted)
    return {
        "cells": counted, "overalls": overalls(table, counted), "pooled": together,
        "comparisons": comparisons(counted, together), "judges": judges(load_table2()), "keys": keys(),
    }  # fmt: skip


def cells(table: pd.DataFrame) -> pd.DataFrame:
    """The number of successes behind each cell but Overall.

    Columns: metric, k, model, application, value (percent), trials, successes, verdict (exact, rounded,
    truncated or impossible), nearest (the fractions around an impossible figure).  `successes` of an
    impossible cell is the nearest one.
    """
    columns = ["metric", "k", "model", "application", "value"]
    counted = table.loc[table["application"] != OVERALL, [*columns, "tasks"]].reset_index(drop=True)
    runs = counted["k"].where(counted["metric"].str.startswith("Average"), 1)
    counted["trials"] = counted.pop("tasks") * runs
    hundredths = (100 * counted["value"]).round().astype(int)
    found = [whole_number(*cell) for cell in zip(hundredths, counted["trials"], strict=True)]
    return counted.join(pd.DataFrame(found, columns=["successes", "verdict", "nearest"]))


def whole_number(hundredths: int, trials: int) -> tuple[int, str, str]:
    """Successes behind a printed share, its verdict (as of `cells`), fractions around an impossible one."""
    below = hundredths * trials // 10_000
    for successes in (below, below + 1):
        share = Fraction(10_000 * successes, trials)
        if share == hundredths:
            return successes, "exact", ""
        if abs(share - hundredths) <= Fraction(1, 2):
            return successes, "rounded", ""
    if 10_000 * (below + 1) // trials == hundredths:
        return below + 1, "truncated", ""
    around = [f"{n}/{trials} = {100 * n / trials:.2f}" for n in (below, below + 1)]
    closest = min((below, below + 1), key=lambda n: abs(Fraction(10_000 * n, trials) - hundredths))
    return closest, "impossible", " or ".join(around)


def overalls(table: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """Whether each row's Overall is the mean of its four cells, as printed or as the fractions behind them.

    Columns: metric, model, printed, mean (of the printed cells, percent), difference, agrees.
    """
    rows = []
    for (metric, model), row in table.groupby(["metric", "model"], sort=False):
        values = row.set_index("application")["value"]
        printed = round(100 * values[OVERALL])
        mean = Fraction(sum(round(100 * value) for value in values.drop(OVERALL)), len(TASKS))
        behind = counted[(counted["metric"] == metric) & (counted["model"] == model)]
        shares = [Fraction(10_000 * cell.successes, cell.trials) for cell in behind.itertuples()]
        exact, possible = sum(shares) / len(shares), "impossible" not in set(behind["verdict"])
        agrees = _printed_as(mean, printed) or (possible and _printed_as(exact, printed))
        rows.append((metric, model, printed / 100, float(mean) / 100, float(printed - mean) / 100, agrees))
    return pd.DataFrame(rows, columns=["metric", "model", "printed", "mean", "difference", "agrees"])


def _printed_as(share: Fraction, hundredths: int) -> bool:
    """Whether a share, rounded or truncated, gives the printed figure."""
    return abs(share - hundredths) <= Fraction(1, 2) or share // 1 == hundredths


def pooled(counted: pd.DataFrame) -> pd.DataFrame:
    """Success over all tasks together with Wilson's 95 % interval, for each row of Table 1.

    Columns: metric, k, model, successes, trials, value, low, high (percent), tasks, whole (whether every cell
    is possible). The k runs of a task are not independent and the paper gives only their mean, so the tasks
    are the trials of an interval: for Average@k the widest that the figures allow.
    """
    rows = []
    for names, row in counted.groupby(["metric", "k", "model"], sort=False):
        successes, trials, tasks = row["successes"].sum(), row["trials"].sum(), sum(TASKS.values())
        share = wilson(successes / trials * tasks, tasks)
        percent = [100 * x for x in (share.value, share.low, share.high)]
        rows.append((*names, successes, trials, *percent, tasks, "impossible" not in set(row["verdict"])))
    columns = ["metric", "k", "model", "successes", "trials", "value", "low", "high", "tasks", "whole"]
    return pd.DataFrame(rows, columns=columns)


def comparisons(counted: pd.DataFrame, together: pd.DataFrame) -> pd.DataFrame:
    """Differences between CODA and other rows that sample sizes support, per application and over all tasks.

    Columns: first_metric, first, second_metric, second, application, difference, low, high (percentage
    points), verdict. Newcombe's interval with the tasks as trials and the systems as independent: which tasks
    each solved is not published. `supported` where the interval is on one side of zero.  Average@1 is
    compared with Average@8, as the paper does.
    """
    by_application = counted.assign(tasks=counted["application"].map(TASKS))
    both = pd.concat([by_application, together.assign(application=OVERALL)])
    shares = {
        (row.metric, row.model, row.application): (row.successes / row.trials, row.tasks)
        for row in both.itertuples()
    }
    systems = dict.fromkeys((metric, model) for metric, model, _ in shares)
    rows = []
    for first, second in combinations(systems, 2):
        if not second[1].startswith(OURS) or first[0].split("@")[0] != second[0].split("@")[0]:
            continue
        for application in (*TASKS, OVERALL):
            (a, n), (b, m) = (shares[*system, application] for system in (first, second))
            low, high = newcombe(a, n, b, m)
            verdict = "supported" if low > 0 or high < 0 else "undecided"
            rows.append((*first, *second, application, 100 * (b - a), 100 * low, 100 * high, verdict))
    names = ["first_metric", "first", "second_metric", "second", "application"]
    return pd.DataFrame(rows, columns=[*names, "difference", "low", "high", "verdict"])


def judges(table: pd.DataFrame) -> pd.DataFrame:
    """Precision and recall of each line of Table 2; their change from the line before (percentage points).

    Columns: method, benchmark, precision, recall, precision_change, recall_change.
    """
    wide = table.pivot(index=["benchmark", "method"], columns="measure", values="value").reset_index()
    wide["method"] = pd.Categorical(wide["method"], table["method"].unique(), ordered=True)
    wide = wide.sort_values(["benchmark", "method"]).rename_axis(columns=None).astype({"method": str})
    changes = wide.groupby("benchmark")[["precision", "recall"]].diff().round(1).add_suffix("_change")
    return pd.concat([wide, changes], axis=1).reset_index(drop=True)


def keys() -> pd.DataFrame:
    """The wrong or doubtful keys of ScienceBoard's two editions.  Columns: edition, task, fault, how."""
    from sciencedesk.board.keys import decided  # SymPy takes a second

    rows = [(edition, key.task, fault, key.how) for edition, key, fault in decided()]
    return pd.DataFrame(rows, columns=["edition", "task", "fault", "how"])


def findings(parts: dict[str, pd.DataFrame]) -> list[str]:
    """The results of the audit, a sentence each."""
    sentences = [
        f"{row.metric}, {row.model}: Overall {row.printed:.2f} is not the mean of its row, {row.mean:.3f}."
        for row in parts["overalls"].itertuples() if not row.agrees
    ]  # fmt: skip
    sentences += [
        f"{row.metric}, {row.model}, {row.application}: no whole number of {row.trials} gives {row.value:.2f}"
        f"; nearest are {row.nearest}." for row in parts["cells"].itertuples() if row.verdict == "impossible"
    ]  # fmt: skip
    by_benchmark = parts["judges"].set_index("method").groupby("benchmark")
    sentences += [_tuned(table, benchmark) for benchmark, table in by_benchmark]
    whole = parts["comparisons"].query("application == @OVERALL")
    sentences += [_compared(table, model) for model, table in whole.groupby("second", sort=False)]
    single = parts["pooled"].query("k == 1")["model"].nunique()
    sentences.append(f"{single} of the baselines rest on one run a task (Average@1), where CODA has eight.")
    by_edition = parts["keys"].groupby("edition").size()
    sentences.append(
        f"{by_edition['release']} keys of ScienceBoard's release, on which the paper's figures rest, are "
        f"wrong or doubtful; of the corrected edition (verified), a year younger, {by_edition['verified']}."
    )
    return sentences + [
        f"Key of {row.task} ({row.edition}): {row.fault}. Decided by: {row.how}."
        for row in parts["keys"].itertuples()
    ]


def _tuned(table: pd.DataFrame, benchmark: str) -> str:
    before, after = (table.loc[method] for method in JUDGES)
    changes = [f"{name} from {before[name]:.1f} to {after[name]:.1f}" for name in ("precision", "recall")]
    mainly_recall = after["recall"] - before["recall"] > after["precision"] - before["precision"]
    verb = "bears out" if mainly_recall else "does not bear out"
    verdict = f"Table 2 {verb} that it mainly improves recall, as the text says"
    return f"Fine-tuning takes the judge's {' and '.join(changes)} on {benchmark}: {verdict}."


def _compared(table: pd.DataFrame, model: str) -> str:
    undecided = table[table["verdict"] == "undecided"]
    names = [f"{row.first} ({row.first_metric})" for row in undecided.itertuples()]
    rest = f"; undecided against {', '.join(names)}" if names else ""
    count = f"{len(table) - len(undecided)} of {len(table)} differences"
    return f"{model} over all tasks: {count} are beyond chance{rest}."
