"""`coda check`: a run that is as expected is ok, and every kind of change makes a line off."""

from __future__ import annotations

import copy
import re
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from tiny_models import made_up

from coda_lib.errors import UserError
from coda_lib.files import read_json, write_json, write_table, write_text
from coda_lib.paths import REFERENCE, REPO
from coda_lib.rollout import episodes
from coda_lib.task import Task
from coda_lib.trajectory import save_trajectories
from coda_study.cli.check import wanted
from coda_study.evaluation import check
from coda_study.run import Run


@pytest.fixture
def run(tmp_path) -> Run:
    """A finished run of the check, of made-up episodes."""
    here = Run(str(tmp_path / "check"))
    here.store(wanted())
    for app in wanted().apps:
        played = [
            replace(made_up(n), task_id=f"{app}/A-0{n // 4}", app=app, run=n % 4, success=n % 3 == 0)
            for n in range(12)
        ]
        tasks = [Task(f"{app}/A-0{n}", app, "A", "Go on.", 5, (), ()) for n in range(3)]
        for planner in ("base", "specialist"):
            save_trajectories(here.rollouts(planner, app), played)
        for system in wanted().systems:
            write_table(here.evaluation(system, app), episodes(played, tasks, system, 7))
        write_text(
            here.specialist(app) / "metrics.jsonl",
            '{"step": 1, "reward": 1.23456789}\n{"step": 2, "reward": 0}\n',
        )
    write_text(here.generalist / "metrics.jsonl", '{"step": 1, "loss": 0.5}\n')
    return here


@pytest.fixture
def expected(run, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "EXPECTED", tmp_path / "check.json")
    return check.write_expected(run, tmp_path / "check.json")


def off(expected, measured) -> list[str]:
    return [line.name for line in check.compare(expected, measured) if not line.ok]


def test_a_run_as_expected_is_ok_on_every_line(run, expected):
    lines = check.compare(expected, check.measure(run))
    assert all(line.ok for line in lines) and len(lines) == 2 * 3 + 6 + 2


def test_a_changed_value_is_off(run, expected):
    measured = check.measure(run)
    changed = copy.deepcopy(measured)
    changed["same"]["gis: train tasks drawn"] = "3 tasks, another"
    assert off(expected, changed) == ["gis: train tasks drawn"]
    changed = copy.deepcopy(measured)
    changed["numbers"]["generalist, first step, loss"] += 2 * check.NEAR["loss"]
    assert off(expected, changed) == ["generalist, first step, loss"]
    del measured["numbers"]["generalist, first step, loss"]
    assert off(expected, measured) == ["generalist, first step, loss"]


def test_so_many_episodes_may_differ_and_no_more(run, expected):
    name, measured = "stage2 at test tasks", check.measure(run)
    outcomes = measured["episodes"][name]
    for number, key in enumerate(outcomes, 1):
        outcomes[key] = "STEP_LIMIT after 9, not solved"
        assert off(expected, measured) == ([name] if 1 - number / len(outcomes) < check.EQUAL_SHARE else [])


def test_the_command_says_ok_or_off_and_its_exit_code_follows(coda, run, expected, tmp_path):
    code, shown, _ = coda("check", str(run.folder))
    assert code == 0 and "off" not in shown.split() and "lines are ok" in shown
    changed = read_json(tmp_path / "check.json")
    changed["numbers"]["gis: specialist, first step, reward"] = 2.0
    write_json(tmp_path / "check.json", changed)
    code, shown, _ = coda("check", str(run.folder))
    assert code == 1 and "1 of" in shown
    assert [line for line in shown.splitlines() if line.startswith("off")][0].split()[1:3] == [
        "gis:",
        "specialist,",
    ]


def test_what_is_no_run_of_the_check_is_refused(coda, run, expected):
    run.store(wanted().model_copy(update={"seed": 8}))
    code, _, message = coda("check", str(run.folder))
    assert code == 2 and "other settings than the check" in message
    run.store(wanted())
    (run.generalist / "metrics.jsonl").unlink()
    code, _, message = coda("check", str(run.folder))
    assert code == 2 and "generalist/metrics.jsonl is missing" in message


def test_the_committed_tables_follow_from_their_episodes_and_a_changed_cell_is_off(tmp_path):
    assert all(line.ok for line in check.compare_tables())
    shutil.copytree(REFERENCE / "laptop", tmp_path / "laptop")
    table = pd.read_csv(tmp_path / "laptop" / "tables" / "table1.csv")
    table.loc[3, "value"] += 0.01
    table.to_csv(tmp_path / "laptop" / "tables" / "table1.csv", index=False)
    assert [line.ok for line in check.compare_tables([tmp_path / "laptop"])] == [False]


def test_the_committed_expected_values_are_those_of_the_check():
    committed = check.load_expected(check.EXPECTED)
    assert (committed["profile"], tuple(committed["set"]), committed["seed"]) == (
        check.PROFILE,
        check.SETTINGS,
        wanted().seed,
    )
    assert len(check.compare(committed, committed)) == 14
    with pytest.raises(UserError, match="tools.expected"):
        check.load_expected(REFERENCE / "none.json")


def test_the_page_states_the_tolerances_and_the_settings():
    page = (REPO / "docs" / "reproducibility.md").read_text()
    assert f"{100 * check.EQUAL_SHARE:.0f} % of the entries" in page and f"{check.CELL} points" in page
    assert all(f"± {near}" in page for near in check.NEAR.values()) and f"profile `{check.PROFILE}`" in page
    episodes = check.load_expected(check.EXPECTED)["episodes"].values()
    assert f"({sum(map(len, episodes))} in all)" in re.sub("<!--.*?-->", "", page)
