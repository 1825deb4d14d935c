"""Links from the cells of a report to the episodes behind them: filters of the page that `coda view` writes
beside the report.

A link of a tidy row is `view.html#/VIEW?FILTERS`; the views and filters are those of `show/viewer/web`.
"""

from __future__ import annotations

from urllib.parse import urlencode

import pandas as pd

from coda_study.evaluation.claims import DifferenceTest, RulesTest, load_claims
from coda_study.evaluation.paper import OVERALL

PAGE = "view.html"
COUNTED = {  # column of a table of voting rules: the trajectories that it counts
    "accepted": {"judge": "accepted"}, "precision": {"judge": "accepted"}, "recall": {"outcome": "success"},
    "coverage": {}, "calls": {}, "small": {}, "labels": {"judge": "clean"},
    "wrong_labels": {"judge": "clean"},
}  # fmt: skip


def link(view: str, **chosen: object) -> str:
    """The address of a view of the page with these filters; those that are None or `overall` are left out.

    >>> link("episodes", set="test", system="stage2", app="gis")
    'view.html#/episodes?set=test&system=stage2&app=gis'
    """
    return f"{PAGE}#/{view}?{urlencode({name: value for name, value in chosen.items() if value not in (None, OVERALL)})}"


def of_systems(table: pd.DataFrame, of: str = "test") -> pd.Series:
    """For each row of `table1` the episodes of its system; with `of="greedy"` those without chance."""
    rows = table[["system", "application", "metric"]].itertuples(index=False, name=None)
    links = [
        link("episodes", set=of, system=system, app=app, metric=metric.split("@")[0])
        for system, app, metric in rows
    ]
    return pd.Series(links, table.index, dtype=object)


def of_differences(table: pd.DataFrame) -> pd.Series:
    """For each row of `comparisons` the tasks of both systems, with the difference of each."""
    rows = table[["first", "second", "application", "metric"]].itertuples(index=False, name=None)
    return pd.Series([_difference(*row) for row in rows], table.index, dtype=object)


def _difference(first: str, second: str, application: str, metric: str) -> str:
    return link("difference", first=first, second=second, app=application, metric=metric.split("@")[0])


def of_endings(table: pd.DataFrame) -> pd.Series:
    rows = table[["system", "ending"]].itertuples(index=False, name=None)
    links = [link("episodes", set="test", system=system, ending=ending) for system, ending in rows]
    return pd.Series(links, table.index, dtype=object)


def of_rules(table: pd.DataFrame, of: str) -> pd.DataFrame:
    """For each rule and column of `compare_rules` the trajectories counted: of="mix" those of Table 2,
    "train" a run's own.
    """
    rows = [
        {name: link("episodes", set=of, rule=rule, **chosen) for name, chosen in COUNTED.items()}
        for rule in table["rule"]
    ]
    return pd.DataFrame(rows, table.index)


def of_judge(table: pd.DataFrame) -> pd.Series:
    """For each share of `judge_table` by planner the trajectories that it counts, by the run's own rule."""
    rows = table[["planner", "application", "measure"]].itertuples(index=False, name=None)
    links = [
        link("episodes", set="train", system=planner, app=app, **COUNTED[measure])
        for planner, app, measure in rows
    ]
    return pd.Series(links, table.index, dtype=object)


def of_claims(table: pd.DataFrame) -> pd.Series:
    """For each decided row of `decide_claims` the tasks or votes that it rests on; None for what was not
    tested.
    """
    tests = {claim.claim: claim.test for claim in load_claims()}
    rows = table[["claim", "metric", "application", "difference"]].itertuples(index=False, name=None)
    links = [
        None if difference != difference else _claim(tests.get(claim), *row)
        for claim, *row, difference in rows
    ]
    return pd.Series(links, table.index, dtype=object)


def _claim(test: object, metric: str, application: str) -> str | None:
    match test:
        case DifferenceTest(first=first, second=second):
            return _difference(first, second, application, metric)
        case RulesTest(first=first, second=second, measure=measure):
            return link("judges", set="mix", first=first, second=second, measure=measure)
    return None
