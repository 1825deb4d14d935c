"""The paper's tables arrive whole and as printed."""

from __future__ import annotations

import csv

import pandas as pd
import pytest

from coda_lib.applications import APPS, DESKTOP_APPS
from coda_lib.paths import DATA
from coda_study.evaluation.paper import LABELS, OVERALL, TASKS, Provenance, load_table1, load_table2


def test_table1_has_every_printed_cell():
    table = load_table1()
    with (DATA / "paper" / "table1.csv").open(encoding="utf-8") as file:
        printed = list(csv.DictReader(file))
    assert len(table) == 5 * len(printed) == 85
    cells = table.set_index(["metric", "model", "application"])["value"]
    assert cells.index.is_unique and cells.notna().all()
    for row in printed:
        for application in (*APPS, OVERALL):
            assert cells[row["metric"], row["model"], application] == float(row[application])


def test_table1_knows_runs_tasks_and_provenance():
    table = load_table1()
    assert set(zip(table["metric"], table["k"], strict=True)) == {
        ("Average@1", 1),
        ("Average@8", 8),
        ("Pass@8", 8),
    }
    assert table.groupby("application")["tasks"].first().to_dict() == TASKS | {OVERALL: 127}
    assert set(table["provenance"]) == {Provenance.PAPER.value}
    assert set(table["application"]) == {*APPS, OVERALL} == set(LABELS) - set(DESKTOP_APPS)


def test_table2():
    table = load_table2()
    cells = table.set_index(["method", "benchmark", "measure"])["value"]
    assert len(cells) == 5 * 4 and cells.index.is_unique
    assert cells["72B-GUI-Judge", "agentrewardbench", "recall"] == 79.0
    assert cells["72B-voting@4 Ensemble", "scienceboard", "precision"] == 69.5
    assert cells.between(0, 100).all()


def test_another_folder_can_be_read(tmp_path):
    pd.DataFrame([{"metric": "Pass@3", "model": "m", "kind": "open", "gis": 1.5}]).to_csv(
        tmp_path / "table1.csv"
    )
    with pytest.raises(FileNotFoundError, match="table2.csv"):
        load_table2(tmp_path)
    table = load_table1(tmp_path)
    assert (table["k"] == 3).all() and table.loc[table["application"] == "gis", "value"].item() == 1.5
