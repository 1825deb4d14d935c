"""The files of a finished run: every table with its provenance, and the page of them all."""

from __future__ import annotations

import pandas as pd

from coda_lib.applications import APPS
from coda_lib.config import SYSTEMS, load_profile
from coda_lib.files import read_json
from coda_study.evaluation import (
    comparisons,
    decide_claims,
    load_claims,
    save_results,
    save_tables,
    table1,
    table_settings,
    voting_rules,
)
from coda_study.evaluation.paper import load_deviations
from coda_study.evaluation.votes import COLUMNS
from coda_study.run import Run

RUNS, TASKS = range(2), ("A-01", "A-02")


def test_a_run_is_saved_whole(tmp_path):
    here, profile = Run(str(tmp_path / "trial")), load_profile("smoke")
    here.store(profile)
    rows = [
        (f"{app}/{task}", app, run, system, run == 0)
        for app in APPS
        for task in TASKS
        for run in RUNS
        for system in SYSTEMS
    ]
    episodes = pd.DataFrame(rows, columns=["task_id", "app", "run", "system", "success"]).assign(stop="DONE")
    tables = [of(episodes, **table_settings(profile)) for of in (table1, comparisons)]
    votes = (pd.DataFrame(columns=COLUMNS), voting_rules(profile.judge))
    claims = decide_claims(load_claims(), episodes, *votes, SYSTEMS, APPS, 100)
    files = save_results(
        here, *tables, claims, labels=pd.DataFrame({"labels": ["truth"], "failed": [200 / 3]})
    )
    assert files[-1] == here.report and all(path.is_file() for path in files)
    assert (here.tables / "labels.csv").read_text() == "labels,failed,provenance\ntruth,66.6667,smoke\n"
    saved = pd.read_csv(here.tables / "claims.csv")
    assert list(saved) == list(claims) and len(saved) == len(read_json(here.claims)) == len(claims)
    deviations = pd.read_csv(here.tables / "deviations.csv")
    assert list(deviations) == ["about", "paper", "ours", "why", "effect"] and len(deviations) == len(
        load_deviations()
    )
    assert read_json(here.manifest)["run"] == "trial"
    save_tables(here, novel=pd.DataFrame({"system": ["base"]}))
    assert (here.tables / "novel.csv").read_text() == "system,provenance\nbase,smoke\n"
