"""Questions of the task spaces: answers that nobody guesses, and that stand on the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from coda_lib.applications import APPS
from sciencedesk.real.grass_data import DEPTHS, WELLS
from sciencedesk.real.pymol_facts import LETTERS
from sciencedesk.space import space

MOST = 0.05  # of a goal's tasks, for which any one answer is right


def most_common(answers: Iterable[str]) -> tuple[str, float]:
    counts = Counter(answers)
    ((answer, count),) = counts.most_common(1)
    return answer, count / counts.total()


def test_answers_of_real_applications_are_what_they_have():
    """PyMOL counts a kind of residue in a peptide, GRASS GIS reads a table of wells."""
    for aim in space("PyMOL").aims["count"]:
        sequence, kind, count = aim.value
        assert sequence.count(LETTERS[kind]) == count and aim.word == f"{kind} in {sequence}"
    assert {aim.word: aim.value for aim in space("GrassGIS").aims["depth"]} == DEPTHS
    rows = (row.split("|") for row in WELLS.splitlines())
    assert all(DEPTHS[name] == int(depth) for *_, name, depth, _ in rows)


@pytest.mark.parametrize("app", [*APPS, "KAlgebra", "PyMOL", "GrassGIS"])
def test_no_answer_is_right_for_many_tasks_of_a_goal(app):
    goals = {goal.name: space(app).aims[goal.name] for goal in space(app).goals if goal.ask}
    assert len(goals) >= (7 if app in APPS else 1)
    shares = {name: most_common(aim.answer for aim in aims) for name, aims in goals.items()}
    assert not {name: found for name, found in shares.items() if found[1] > MOST}


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("region", ["train", "test"])
def test_no_answer_is_right_for_many_questions_of_a_region(app, region):
    """Goals are drawn alike, and then their values."""
    task_space, shares = space(app), Counter()
    asked = [[aim.answer for aim in aims if task_space.regions[aim.goal.name, aim.word] == region]
             for aims in task_space.aims.values() if aims[0].goal.ask]  # fmt: skip
    for answers in filter(None, asked):  # each goal weighs as much as another
        weight = 1 / len(answers) / len(asked)
        shares.update({answer: count * weight for answer, count in Counter(answers).items()})
    assert shares.total() > 0.95 and max(shares.values()) <= MOST, shares.most_common(3)
