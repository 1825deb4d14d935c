"""How episodes end: each kind by hand, and the shares of the committed reference runs."""

from __future__ import annotations

import pandas as pd
import pytest

from coda_lib.task import test_tasks
from coda_study.evaluation import endings, endings_grid, load_episodes, reference_run
from coda_study.evaluation.endings import ENDINGS, ending_of

PLAIN = next(task for task in test_tasks("gis") if not task.ans and len(task.solution) == 3)
QUESTION = next(task for task in test_tasks("gis") if task.ans and len(task.solution) == 6)


def episodes(*rows: tuple[str, bool | None, str, int]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["task_id", "success", "stop", "steps"])
    return table.assign(app="gis", system="base", run=range(len(table)))


@pytest.mark.parametrize(
    ("task", "success", "stop", "steps", "expected"),
    [
        (PLAIN, True, "DONE", 4, "direct"), (PLAIN, True, "DONE", 3, "direct"), (PLAIN, True, "DONE", 5,
         "detour"),
        (PLAIN, True, "STEP_LIMIT", 7, "detour"), (PLAIN, False, "DONE", 3, "early"), (PLAIN, False, "FAIL",
         1, "early"),
        (PLAIN, False, "DONE", 4, "wrong"), (PLAIN, False, "ANS", 6, "wrong"), (PLAIN, False, "STEP_LIMIT", 7,
         "limit"),
        (PLAIN, None, "ENVIRONMENT_ERROR", 2, None),
        (QUESTION, True, "ANS", 6, "direct"), (QUESTION, True, "ANS", 7, "detour"), (QUESTION, False, "ANS",
         5, "early"),
        (QUESTION, False, "ANS", 6, "wrong"),
    ],
)  # fmt: skip
def test_an_episode_ends_in_one_way(task, success, stop, steps, expected):
    assert ending_of(episodes((task.id, success, stop, steps))).tolist() == [expected]


def test_shares_are_means_over_tasks_and_applications_without_what_the_environment_broke():
    table = episodes(
        (PLAIN.id, True, "DONE", 4), (PLAIN.id, False, "DONE", 1), (PLAIN.id, None, "ENVIRONMENT_ERROR", 1),
        (QUESTION.id, True, "ANS", 6), (QUESTION.id, True, "ANS", 6),
    )  # fmt: skip
    shares = endings(table, ["base"], apps=["gis"]).set_index("ending")["value"]
    assert shares.to_dict() == {"direct": 75, "detour": 0, "early": 25, "wrong": 0, "limit": 0}


def test_the_reference_run_is_made_of_all_its_episodes():
    played = load_episodes(reference_run())
    table = endings(played, ("base", "executor", "stage1", "stage2"))
    assert table.groupby("system")["value"].sum().to_numpy() == pytest.approx(100)
    solved = table[table["ending"].isin(["direct", "detour"])].groupby("system")["value"].sum()
    rates = (
        played.astype({"success": float})
        .groupby(["system", "app"])["success"]
        .mean()
        .groupby("system")
        .mean()
    )
    assert solved.to_dict() == pytest.approx((100 * rates).to_dict())
    assert list(endings_grid(table)) == ["System", *ENDINGS]
