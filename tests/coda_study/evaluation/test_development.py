"""The appendix "What was tried" and the committed outcomes of development episodes say the same."""

import re

import pandas as pd
import pytest

from coda_lib.applications import APPS
from coda_lib.paths import REFERENCE, REPO

EPISODES = REFERENCE / "development" / "episodes.parquet"
ROWS = {  # system -> its rows in the tables of successes and of endings
    "base": "base planner",
    "stage1": "stage 1",
    "stage2": "stage 2, 0.03 of endings",
    "stage2-0.07-2": "stage 2, 0.07",
    "stage2-0.15-2": "stage 2, 0.15",
    "stage1-more": "a second round, 0.03",
    "stage1-more0.1": "a second round, 0.1",
}


@pytest.fixture(scope="module")
def section() -> str:
    return (
        (REPO / "docs" / "appendix-what-was-tried.md")
        .read_text()
        .partition("## Four applications, 800 tasks")[2]
    )


@pytest.mark.parametrize("system", ROWS)
def test_the_page_says_what_the_episodes_say(section, system):
    episodes = pd.read_parquet(EPISODES)
    episodes = episodes[episodes["system"] == system]
    table = re.findall(rf"^\| {re.escape(ROWS[system])} \|(.*)\|$", section, re.MULTILINE)
    success, ends = (row.split("|") for row in table[:2])  # success and Pass@2; how episodes end
    shown = 0
    for app, cell, end in zip(APPS, success, ends, strict=False):  # the mean of all follows in the first
        played = episodes[episodes["app"] == app]
        if not cell.strip():
            assert played.empty
            continue
        assert len(played) == 192  # 96 tasks, twice
        average, _, passed = (float(part) for part in cell.split(";"))
        own, _, limit = (float(part) for part in end.split(";"))
        cut = played["stop"] == "STEP_LIMIT"
        assert average == pytest.approx(100 * played["success"].mean(), abs=0.051)
        assert passed == pytest.approx(100 * played.groupby("task_id")["success"].any().mean(), abs=0.051)
        assert own == pytest.approx(100 * (played["success"] & ~cut).mean(), abs=0.051)
        assert limit == pytest.approx(100 * cut.mean(), abs=0.051)
        shown += 1
    assert shown >= 2
