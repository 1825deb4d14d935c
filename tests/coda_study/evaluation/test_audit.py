"""The audit of the paper's tables: whole numbers, means, intervals, and nothing raised that is not there."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from coda_study.cli.main import app
from coda_study.evaluation import audit
from coda_study.evaluation.paper import OVERALL, TASKS, load_table1, load_table2


@pytest.fixture(scope="module")
def parts() -> dict[str, pd.DataFrame]:
    return audit.audit_paper()


@pytest.mark.parametrize(
    ("hundredths", "trials", "expected"),
    [
        (0, 31, (0, "exact")), (2500, 32, (8, "exact")), (323, 31, (1, "rounded")), (3793, 29, (11,
         "rounded")),
        (967, 31, (3, "truncated")), (10_000, 29, (29, "exact")), (625, 31, (2, "impossible")), (80, 272, (2,
         "impossible")),
    ],
)  # fmt: skip
def test_the_number_behind_a_printed_share(hundredths, trials, expected):
    assert audit.whole_number(hundredths, trials)[:2] == expected


@given(st.integers(1, 1016).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.booleans())
def test_no_share_of_a_whole_number_is_called_impossible(share, cut_off):
    successes, trials = share
    hundredths = 10_000 * successes // trials if cut_off else (20_000 * successes + trials) // (2 * trials)
    found, verdict, nearest = audit.whole_number(hundredths, trials)
    assert found == successes and verdict != "impossible" and not nearest


def test_cells_that_no_whole_number_gives(parts):
    cells = parts["cells"]
    assert len(cells) == 17 * 4 and not (cells["successes"] > cells["trials"]).any()
    impossible = cells[cells["verdict"] == "impossible"]
    assert set(zip(impossible["metric"], impossible["application"], impossible["value"], strict=True)) == {
        ("Average@1", "algebra", 6.25), ("Average@8", "algebra", 6.49), ("Average@8", "biochem", 10.24),
        ("Average@8", "gis", 0.80), ("Average@8", "biochem", 32.23),
    }  # fmt: skip
    assert impossible.set_index("value")["nearest"][32.23] == "74/232 = 31.90 or 75/232 = 32.33"


def test_overalls_that_are_not_the_mean_of_their_row(parts):
    wrong = parts["overalls"][~parts["overalls"]["agrees"]]
    assert set(wrong["printed"]) == {12.94, 2.69, 4.92, 15.36}
    assert wrong.set_index("printed")["mean"][12.94] == pytest.approx(16.285)


def test_a_table_without_faults_raises_nothing():
    rows = []
    for model, successes in {"Qwen2.5-VL-32B": (3, 4, 5, 6), "CODA": (9, 8, 7, 6)}.items():
        shares = {a: round(100 * s / n, 2) for (a, n), s in zip(TASKS.items(), successes, strict=True)}
        exact = sum(100 * s / n for n, s in zip(TASKS.values(), successes, strict=True)) / 4
        rows += [("Pass@8", 8, model, a, v, TASKS[a]) for a, v in shares.items()]
        rows.append(("Pass@8", 8, model, OVERALL, round(exact, 2), 127))
    table = pd.DataFrame(rows, columns=["metric", "k", "model", "application", "value", "tasks"])
    cells = audit.cells(table)
    assert cells["successes"].tolist() == [3, 4, 5, 6, 9, 8, 7, 6] and "impossible" not in set(
        cells["verdict"]
    )
    assert audit.overalls(table, cells)["agrees"].all()
    (row,) = [
        r for r in audit.comparisons(cells, audit.pooled(cells)).itertuples() if r.application == OVERALL
    ]
    assert row.difference == pytest.approx(100 * 12 / 127) and row.low < row.difference < row.high


def test_pooled_success_with_wilsons_interval(parts):
    pooled = parts["pooled"].set_index(["metric", "model"])
    for model, solved, low, high in (("Qwen2.5-VL-32B", 24, 13.0, 26.6), ("CODA (Stage-1)", 40, 24.1, 40.0),
                                     ("CODA (Stage-2)", 50, 31.3, 48.1)):  # fmt: skip
        row = pooled.loc["Pass@8", model]
        assert (row["successes"], row["trials"]) == (solved, 127) and row["whole"]
        assert (round(row["low"], 1), round(row["high"], 1)) == (low, high)
    assert not pooled.loc[("Average@8", "CODA (Stage-2)"), "whole"]


def test_comparisons_rest_on_the_tasks(parts):
    found = parts["comparisons"]
    assert found["second"].str.startswith("CODA").all() and set(found["application"]) == {*TASKS, OVERALL}
    overall = found[found["application"] == OVERALL].set_index(["first", "second_metric", "second"])[
        "verdict"
    ]
    assert overall["Qwen2.5-VL-32B", "Pass@8", "CODA (Stage-2)"] == "supported"
    assert overall["CODA (Stage-1)", "Pass@8", "CODA (Stage-2)"] == "undecided"
    assert overall["Qwen2.5-VL-72B", "Average@8", "CODA (Stage-2)"] == "undecided"
    supported = found["verdict"] == "supported"
    assert (supported == ((found["low"] > 0) | (found["high"] < 0))).all()


def test_what_fine_tuning_does_to_the_judge(parts):
    tuned = parts["judges"].set_index(["benchmark", "method"]).xs("72B-GUI-Judge", level="method")
    assert tuned.loc["agentrewardbench", ["precision_change", "recall_change"]].tolist() == [9.0, -4.4]
    assert tuned.loc["scienceboard", ["precision_change", "recall_change"]].tolist() == [2.2, 0.0]
    other = load_table2()
    other.loc[(other["method"] == "72B-GUI-Judge") & (other["measure"] == "recall"), "value"] = 99.0
    said = audit.findings(parts | {"judges": audit.judges(other)})
    assert sum("Table 2 bears out" in s for s in said) == 2
    assert sum("Table 2 does not bear out" in s for s in audit.findings(parts)) == 2


def test_every_printed_row_is_audited(parts):
    printed = load_table1()[["metric", "model"]].drop_duplicates()
    for name in ("overalls", "pooled"):
        assert len(parts[name]) == len(printed) == 17
    assert len(audit.findings(parts)) == 4 + 5 + 2 + 2 + 1 + 1 + len(parts["keys"])


def test_the_keys_that_are_wrong_are_said_with_their_edition_and_how_that_was_decided(parts):
    wrong = {(row.edition, row.task): row for row in parts["keys"].itertuples()}
    by_sympy = {task for task, row in wrong.items() if row.how == "SymPy"}
    assert by_sympy == {("release", f"KAlgebra/{name}") for name in ("C-07", "C-12", "C-14")}
    assert "12.48 and 16" in wrong["release", "KAlgebra/C-12"].fault
    assert "inspect" in wrong["verified", "GrassGIS/B-12"].fault
    said = audit.findings(parts)
    for (edition, task), row in wrong.items():
        assert f"Key of {task} ({edition}): {row.fault}. Decided by: {row.how}." in said
    counts = [sum(which == edition for which, _ in wrong) for edition in ("release", "verified")]
    assert any(
        f"{counts[0]} keys of ScienceBoard's release" in s and f"younger, {counts[1]}." in s for s in said
    )


def test_the_command_prints_findings_and_json():
    shown = CliRunner().invoke(app, ["audit"])
    assert shown.exit_code == 0 and "12.94" in shown.output and "24" in shown.output
    told = json.loads(CliRunner().invoke(app, ["audit", "--json"]).output)
    assert set(told) == {"findings", "cells", "overalls", "pooled", "comparisons", "judges", "keys"}
    assert sum(cell["verdict"] == "impossible" for cell in told["cells"]) == 5
