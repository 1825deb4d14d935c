"""Scripts that are nearly right fail the checks of their tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice

import pytest

from coda_lib.applications import APPS
from coda_lib.files import read_yaml
from coda_lib.paths import DATA
from coda_lib.task import Task, load_task, test_tasks
from sciencedesk.env import ScienceDesk
from sciencedesk.goals import compose
from sciencedesk.mutants import (
    KINDS,
    SAME,
    SEEN,
    Survivor,
    _off_by_one,
    mutants,
    parts_of,
    survivors,
    tasks_and_aims,
)
from sciencedesk.space import setup, space

LISTED = read_yaml(DATA / "tasks" / "mutants.yaml")


@pytest.fixture
def algebra() -> Iterator[ScienceDesk]:
    with closing(ScienceDesk("algebra")) as env:
        yield env


def task_of(name: str) -> Task:
    return load_task(DATA / "tasks" / "test" / f"{name}.json")


def passed(env: ScienceDesk, task: Task) -> list[Survivor]:
    return survivors(env, task, parts_of(task))[1]


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("1.09 A", ["1.08 A", "1.10 A"]), ("0", ["1"]), ("Ash", []), ("75\n", ["74\n", "76\n"]),
        ("-5", ["-4", "-6"]),
        ("04:49", ["04:48", "04:50"]), ("0.500", ["0.499", "0.501"]), ("C2H6", ["C2H5", "C2H7"]),
        ("09", ["08", "10"]),
    ],
)  # fmt: skip
def test_a_number_is_off_by_one_unit_of_its_last_digit(text, others):
    assert _off_by_one(text) == others


def test_the_mutants_of_a_task():
    """D-04: unlock the view, set the range and take a cosine in degrees."""
    task = task_of("algebra/D-04")
    parts, tried = parts_of(task), Counter()
    assert [aim.goal.name for aim in parts] == ["unlocked_range", "sine"]
    for mutant in mutants(task, parts):
        tried[mutant.kind] += 1
        assert mutant.steps != task.solution
    assert tried["left out"] == len(task.solution) and set(tried) == set(KINDS)


@pytest.mark.parametrize("app", APPS)
def test_committed_tasks_are_read_as_the_goals_they_were_made_of(app):
    assert all(parts_of(task) for task in test_tasks(app))


def test_a_check_that_passes_what_it_should_not_is_found(algebra):
    """A range that is checked at one end only, and a question with a second, wrong answer."""
    task = next(t for t in test_tasks("algebra") if "xmax" in t.goal and not t.ans)
    assert not [s for s in passed(algebra, task) if s.reason is None]
    weak = replace(task, evaluate=tuple(item for item in task.evaluate if item["key"] != "xmax"))
    assert {s.mutant.kind for s in passed(algebra, weak) if s.reason is None} >= {"unit"}
    question = task_of("algebra/B-02")
    stop = question.evaluate[0]
    lax = replace(question, evaluate=({**stop, "args": ["56", "57"]},))
    assert [s.mutant.change[:11] for s in passed(algebra, lax) if s.reason is None] == ["answer '57'"]


def test_who_does_not_look_has_no_answer():
    """Without the page Info nobody sees a formula, though the state has it."""
    task = task_of("biochem/D-04")
    with closing(ScienceDesk("biochem")) as env:
        assert not [s for s in passed(env, task) if "Info" in s.mutant.change]


@pytest.mark.parametrize("app", APPS)
def test_no_mutant_of_some_tasks_passes_without_a_reason(app):
    """`coda tasks check --mutants 2000` tries more."""
    with closing(ScienceDesk(app)) as env:
        found = [survivors(env, task, parts) for parts, task in islice(tasks_and_aims(app), 0, 60, 8)]
    assert sum(tried for tried, _ in found) > 50
    assert not [
        f"{s.task.id} {s.mutant.change} {s.differs}" for _, passed in found for s in passed if not s.reason
    ]


@pytest.mark.parametrize("row", LISTED, ids=lambda row: f"{row['app']}-{row['goals'][0]}")
def test_every_listed_mutant_is_there(row):
    """Each goal of a row has a mutant that passes for the row's reason."""
    task_space = space(row["app"])
    with closing(ScienceDesk(row["app"])) as env:
        for name in row["goals"]:
            reasons: set[str | None] = set()
            for aim in task_space.aims[name][:12]:
                ready = replace(aim, goal=replace(aim.goal, setup=setup(task_space, aim)))
                task = compose(row["app"], [ready], env.desk.defaults, "x")
                reasons |= {s.reason for s in survivors(env, task, [aim])[1]}
                if row["reason"] in reasons:
                    break
            assert row["reason"] in reasons, name
            assert reasons <= {row["reason"], SAME, SEEN}
