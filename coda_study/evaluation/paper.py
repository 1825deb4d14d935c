"""The paper (CODA, arXiv 2508.20096): its tables as tidy data frames, and the ledger of deviations from it.

The files under data/paper hold the figures exactly as printed, inconsistencies included.  The ledger,
data/deviations.yaml, has the paper's choice, ours, the reason, and the effect where it was measured.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd

from coda_lib.applications import APPLICATIONS, DESKTOP_APPS
from coda_lib.config import Profile, Section
from coda_lib.errors import UserError
from coda_lib.files import load_rows
from coda_lib.paths import DATA

LEDGER = DATA / "deviations.yaml"
_FIELD = re.compile(r"\{([a-z_.]+)\}")
OVERALL = "overall"  # unweighted mean of the applications
# ScienceBoard tasks per application, section 5
TASKS = {app.name: app.test_tasks for app in APPLICATIONS if app.trained}
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
    """Table 2 by cell: method, benchmark, measure (precision or recall), value (percent), provenance."""
    table = pd.read_csv(folder / "table2.csv").melt("method", var_name="column")
    table.insert(1, "benchmark", table["column"].str.split("_").str[0])
    table.insert(2, "measure", table["column"].str.split("_").str[1])
    return table.drop(columns="column").assign(provenance=Provenance.PAPER.value)


class Deviation(Section):
    """A row of the ledger; `{field}` in `ours` stands for a value of the profile."""

    id: str
    about: str
    paper: str
    ours: str
    why: str
    effect: str = "not tried"

    @property
    def fields(self) -> list[str]:
        return _FIELD.findall(self.ours)


def load_deviations(path: Path = LEDGER) -> list[Deviation]:
    """The rows of the ledger.  UserError names file, row and field of a missing or unknown entry."""
    return load_rows(path, Deviation)


def ledger(profile: Profile, deviations: Sequence[Deviation] | None = None) -> pd.DataFrame:
    """The ledger with a profile's values: about, paper, ours, why, effect.  UserError on unknown fields."""
    (values,) = pd.json_normalize(profile.model_dump()).to_dict("records")  # nested settings: dotted names
    rows = []
    for deviation in load_deviations() if deviations is None else deviations:
        if unknown := sorted(set(deviation.fields) - values.keys()):
            raise UserError(f"deviation {deviation.id!r}: the profile has no field {', '.join(unknown)}")
        ours = _FIELD.sub(lambda field: _as_text(values[field[1]]), deviation.ours)
        rows.append((deviation.about, deviation.paper, ours, deviation.why, deviation.effect))
    return pd.DataFrame(rows, columns=["about", "paper", "ours", "why", "effect"])


def _as_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " and ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
