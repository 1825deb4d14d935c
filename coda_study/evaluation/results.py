"""The files that notebooks 10 and 14 write: the tables of a run, its claims, its manifest, and the page of
them all.
"""

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
    run: Run, table: pd.DataFrame, compared: pd.DataFrame, claims: pd.DataFrame, **others: pd.DataFrame
) -> list[Path]:
    """Write the tables of a run (csv, md, tex), its claims, its deviations and its manifest, then
    report.html.

    `table` is that of `table1`, `compared` that of `comparisons`, `claims` that of `decide_claims`; `others`
    become tables/{name}.csv.  Returns the files of Table 1 and of the comparisons, and the page.
    """
    write_json(run.claims, records(claims))
    files = write_tables(run.tables, table, compared, run.folder.name)
    save_tables(run, claims=claims, **others)
    write_text(run.tables / "deviations.csv", ledger(run.profile()).to_csv(index=False))
    write_manifest(run, run.profile())
    return [*files, html_report(run.folder)]


def save_tables(run: Run, **tables: pd.DataFrame) -> None:
    """Write tables/{name}.csv for each table, with the run's provenance as its last column."""
    provenance = Provenance.of(run.profile())
    for name, table in tables.items():
        content = table.assign(provenance=provenance).to_csv(index=False, float_format="%.6g")
        write_text(run.tables / f"{name}.csv", content)
