"""How episodes end: what the success rates of Table 1 are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from coda_lib.applications import APPS
from coda_lib.task import test_tasks
from coda_lib.trajectory import StopReason
from coda_study.evaluation import statistics
from coda_study.evaluation.paper import Provenance

ENDINGS = {  # name: what it means
    "direct": "solved in as many steps as the task's script has, its end included",
    "detour": "solved in more steps",
    "early": "not solved, and ended by the agent before the script could have been done",
    "wrong": "not solved, and ended by the agent later",
    "limit": "not solved within the step limit",
}


def ending_of(episodes: pd.DataFrame) -> pd.Series:
    """The ending of each episode of the test tasks; none for an episode that the environment broke."""
    lengths = {
        task.id: len(task.solution) + (not task.ans)
        for app in episodes["app"].unique()
        for task in test_tasks(app)
    }
    script, solved = episodes["task_id"].map(lengths), episodes["success"].fillna(False).astype(bool)
    steps, limit = episodes["steps"], episodes["stop"] == StopReason.STEP_LIMIT
    broken = episodes["stop"] == StopReason.ENVIRONMENT_ERROR
    detour = solved & (steps > script)
    conditions = {"detour": detour, "direct": solved, "limit": limit, "early": steps < script}
    kinds = np.select([broken, *conditions.values()], [None, *conditions], default="wrong")
    return pd.Series(kinds, index=episodes.index, name="ending", dtype=object)


def endings(
    episodes: pd.DataFrame, systems: Sequence[str], *, apps: Sequence[str] = APPS,
    provenance: Provenance = Provenance.MEASURED,
) -> pd.DataFrame:  # fmt: skip
    """The share of each ending among a system's episodes, the unweighted mean over applications as Overall.

    Columns: system, ending, value, low, high (percent, 95 % as Table 1), tasks, runs, interval, provenance.
    """
    episodes = episodes.assign(ending=ending_of(episodes)).dropna(subset="ending")
    rows = []
    for system in systems:
        played = episodes[episodes["system"] == system]
        for name in ENDINGS:
            by_task = (played["ending"] == name).groupby([played["app"], played["task_id"]]).mean()
            estimate = statistics.mean_over_tasks([by_task[app].to_numpy() for app in apps])
            percent = {of: 100 * getattr(estimate, of) for of in ("value", "low", "high")}
            rows.append({
                "system": system, "ending": name, **percent, "tasks": len(by_task),
                "runs": played["run"].nunique(), "interval": estimate.method, "provenance": str(provenance),
            })  # fmt: skip
    return pd.DataFrame(rows)
