"""The paper's tables as tidy data frames (CODA, arXiv 2508.20096).

The files under data/paper hold the figures exactly as printed, inconsistencies included.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import pandas as pd

from coda_lib.applications import APPLICATIONS, DESKTOP_APPS
from coda_lib.config import Profile
from coda_lib.paths import DATA

OVERALL = "overall"  # unweighted mean of the applications
TASKS = {
    app.name: app.test_tasks for app in APPLICATIONS if app.trained
}  # ScienceBoard tasks per application, section 5
LABELS = {app.name: app.label for app in APPLICATIONS if app.trained}
LABELS |= {kind: kind for kind in DESKTOP_APPS} | {OVERALL: "Overall"}


class Provenance(StrEnum):
    """Where a figure comes from; every table and figure the kit makes carries one of these."""

    MEASURED = "measured"
    PAPER = "reported by the paper"
    SMOKE = "smoke"  # measured on so few tasks and runs that it only shows that the pipeline works

    @classmethod
    def of(cls, profile: Profile) -> Provenance:
        """The provenance of the figures of a run with this profile."""
        return cls.SMOKE if profile.name == "smoke" else cls.MEASURED


def load_table1(folder: Path = DATA / "paper") -> pd.DataFrame:
    """Table 1, a row per cell: metric, k, model, kind, application, value (percent), tasks, provenance.

    `k` is the number of runs in the metric's name (the 8 of Pass@8).
    """
    table = pd.read_csv(folder / "table1.csv").melt(["metric", "model", "kind"], var_name="application")
    table.insert(1, "k", table["metric"].str.split("@").str[1].astype(int))
    table["tasks"] = table["application"].map(TASKS | {OVERALL: sum(TASKS.values())})
    return table.assign(provenance=Provenance.PAPER.value)


def load_table2(folder: Path = DATA / "paper") -> pd.DataFrame:
    """Table 2, a row per cell: method, benchmark, measure (precision or recall), value (percent), provenance."""
    table = pd.read_csv(folder / "table2.csv").melt("method", var_name="column")
    table.insert(1, "benchmark", table["column"].str.split("_").str[0])
    table.insert(2, "measure", table["column"].str.split("_").str[1])
    return table.drop(columns="column").assign(provenance=Provenance.PAPER.value)
