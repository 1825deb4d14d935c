"""Which goals a base planner is taught: fixed before training, stratified, and no way in two kinds."""

from __future__ import annotations

import pytest

from coda_lib.applications import APPS, DESKTOP_APPS
from coda_lib.errors import UserError
from sciencedesk import knowledge
from sciencedesk.knowledge import KINDS, draw_kinds, kinds_of, way
from sciencedesk.space import has_space, space

SPACES = [app for app in (*APPS, *DESKTOP_APPS) if has_space(app)]
SPLITS = (1, 2, 3)


@pytest.mark.parametrize("app", SPACES)
@pytest.mark.parametrize("split", SPLITS)
def test_the_committed_splits_are_the_drawn_ones(app, split):
    drawn = draw_kinds(space(app).goals, f"{app} {split}")
    assert kinds_of(app, split) == {goal: kind for kind, goals in drawn.items() for goal in goals}
    assert set(drawn) == set(KINDS)


@pytest.mark.parametrize("app", SPACES)
@pytest.mark.parametrize("split", SPLITS)
def test_a_novel_goal_begins_where_something_was_taught_and_no_way_is_of_two_kinds(app, split):
    kinds, ways, places = kinds_of(app, split), {}, {}
    for goal in space(app).goals:
        steps = way(goal)
        assert ways.setdefault(steps, kinds[goal.name]) == kinds[goal.name]
        places.setdefault(steps[0][1], {})[steps] = kinds[goal.name]
    assert all("taught" in place.values() for place in places.values() if len(place) > 1)
    counts = {kind: list(ways.values()).count(kind) for kind in KINDS}
    assert abs(counts["taught"] - len(ways) / 2) <= 2 and counts["unexplored"] == round(len(ways) / 10)


def test_the_splits_differ():
    assert all(len({str(kinds_of(app, split)) for split in SPLITS}) == 3 for app in SPACES)


@pytest.mark.parametrize(("taught", "unexplored", "lacking"), [(1.0, 0.0, "novel"), (0.5, 0.0, "unexplored")])
def test_shares_that_leave_a_kind_empty_are_refused(taught, unexplored, lacking):
    with pytest.raises(UserError, match=f"no goal of gis is {lacking}"):
        draw_kinds(space("gis").goals, "x", taught, unexplored)


def test_what_the_file_does_not_hold_is_refused(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="has no split 9 of gis; there are 1, 2, 3"):
        kinds_of("gis", 9)
    with pytest.raises(UserError, match="has no split 1 of spectra"):
        kinds_of("spectra", 1)
    (tmp_path / "knowledge.yaml").write_text("1: {gis: {taught: [grid], novel: [], unexplored: []}}\n")
    monkeypatch.setattr(knowledge, "FILE", tmp_path / "knowledge.yaml")
    knowledge.kinds_of.cache_clear()
    with pytest.raises(UserError, match="not those of the task space"):
        kinds_of("gis", 1)
    knowledge.kinds_of.cache_clear()
