"""The deviation ledger, data/deviations.yaml: the paper's choice, ours, the reason, and the effect if measured."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from coda_lib.config import Profile, Section
from coda_lib.errors import UserError
from coda_lib.files import load_rows
from coda_lib.paths import DATA

LEDGER = DATA / "deviations.yaml"
_FIELD = re.compile(r"\{([a-z_.]+)\}")


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
    """The ledger with a profile's values: about, paper, ours, why, effect.  UserError if a field is unknown."""
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
