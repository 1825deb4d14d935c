"""What notebooks 10 and 14 write: every table of a run as a file, and the page that holds them all."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from coda_lib.evaluation.provenance import write_manifest
from coda_lib.evaluation.report import html_report, write_tables
from coda_lib.files import records, write_json, write_text
from coda_lib.run import Run


def save_results(
    here: Run, table: pd.DataFrame, compared: pd.DataFrame, claims: pd.DataFrame, **others: pd.DataFrame
) -> list[Path]:
    """Write the tables of a run (csv, md, tex), its claims and its manifest; then report.html, which is made of these files.

    `table` and `compared` are those of `table1` and `comparisons`, `claims` that of `decide_claims`; `others` become
    tables/{name}.csv.  Returns the files of Table 1 and the page.
    """
    write_json(here.claims, records(claims))
    files = write_tables(here.tables, table, compared, here.folder.name)
    save_tables(here, claims=claims, **others)
    write_manifest(here, here.profile())
    return [*files, html_report(here.folder)]


def save_tables(here: Run, **tables: pd.DataFrame) -> list[Path]:
    """Write tables/{name}.csv for each table."""
    paths = {here.tables / f"{name}.csv": table for name, table in tables.items()}
    for path, table in paths.items():
        write_text(path, table.to_csv(index=False, float_format="%.6g"))
    return list(paths)
