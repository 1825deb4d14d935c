"""The files that notebooks 10 and 14 write: the tables of a run, its claims, its manifest, and the page of them all."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from coda_lib.files import records, write_json, write_text
from coda_study.evaluation.deviations import ledger
from coda_study.evaluation.paper import Provenance
from coda_study.evaluation.provenance import write_manifest
from coda_study.evaluation.report import html_report, write_tables
from coda_study.run import Run


def save_results(
    here: Run, table: pd.DataFrame, compared: pd.DataFrame, claims: pd.DataFrame, **others: pd.DataFrame
) -> list[Path]:
    """Write the tables of a run (csv, md, tex), its claims, its deviations and its manifest, then report.html.

    `table` is that of `table1`, `compared` that of `comparisons`, `claims` that of `decide_claims`; `others` become
    tables/{name}.csv.  Returns the files of Table 1 and of the comparisons, and the page.
    """
    write_json(here.claims, records(claims))
    files = write_tables(here.tables, table, compared, here.folder.name)
    save_tables(here, claims=claims, **others)
    write_text(here.tables / "deviations.csv", ledger(here.profile()).to_csv(index=False))
    write_manifest(here, here.profile())
    return [*files, html_report(here.folder)]


def save_tables(here: Run, **tables: pd.DataFrame) -> None:
    """Write tables/{name}.csv for each table, with the run's provenance as its last column."""
    provenance = Provenance.of(here.profile())
    for name, table in tables.items():
        content = table.assign(provenance=provenance).to_csv(index=False, float_format="%.6g")
        write_text(here.tables / f"{name}.csv", content)
