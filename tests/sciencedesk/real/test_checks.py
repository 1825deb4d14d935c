"""`coda apps soak`: its counts, and its threshold of growth."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from app_tests import installed

from sciencedesk.board.tasks import app_tasks
from sciencedesk.real import checks as app_checks
from sciencedesk.real.checks import soak, soak_rows, strays
from sciencedesk.real.display import Display, lacking


@pytest.mark.skipif(not installed("PyMOL"), reason="PyMOL is not installed")
def test_a_soak_counts_what_is_solved_and_names_what_is_not(monkeypatch):
    first, second, third = app_tasks("PyMOL")[:3]
    idle = replace(second, board=second.board.model_copy(update={"solution": []}))
    monkeypatch.setattr(app_checks, "app_tasks", lambda kind: [first, idle, third])
    (row,) = soak_rows(soak(0, ["PyMOL"]))
    assert (row["episodes"], row["solved"], row["failed"], row["flat"]) == (3, 2, [second.id], True)
    assert row["memory_mb"][0] > 50 and row["processes"][0] >= 4


def test_more_memory_or_more_processes_than_at_first_is_growing():
    def flat(memory: float, processes: int) -> bool:
        rows = [(300.0, 5), (500.0, 9), (memory, processes)]
        rounds = [
            {"kind": "A", "tasks": 2, "solved": 2, "failed": "", "memory_mb": m, "processes": p}
            for m, p in rows
        ]
        (row,) = soak_rows(pd.DataFrame(rounds))
        return row["flat"]

    assert flat(329.0, 5) and not flat(331.0, 5) and not flat(300.0, 6)


@pytest.mark.skipif(bool(lacking()), reason="a display's programs are not installed")
def test_what_runs_on_a_display_is_found_until_it_is_closed():
    before = set(strays())
    display = Display((320, 240))
    assert {name.split()[1] for name in set(strays()) - before} >= {"openbox", "dbus-daemon"}
    display.close()
    assert not set(strays()) - before
