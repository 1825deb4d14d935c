"""Figures that cannot flatter: a model that looks, one that knows places by heart, and one that is blind."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from tiny_models import pictures_of, words_of

from base_models.cards import Figure, measure, page_questions, questions, table
from base_models.rows import value_of
from base_models.walks import collect, unambiguous
from coda_lib.models.chat import ReplayModel

APPS = ("gis", "algebra")


@pytest.fixture(scope="module")
def asked():
    walks = [collect(app, 60, 5, region) for app in APPS for region in ("test", "train")]
    known = {walks[0][3].screen}
    things = questions(walks, known, 12, Random(1)) + page_questions(12, Random(2))
    assert not any(np.array_equal(np.asarray(one.screen), np.asarray(one.other)) for one in things)
    return things


def key(conversation):
    """What is asked, about which picture: each thing has its own."""
    return words_of(conversation), id(pictures_of(conversation)[-1])


def knowing(asked, screens) -> ReplayModel:
    """A model that gives the right reply to a thing about those of its screens."""
    replies = {}
    for one in asked:
        start, *end = (
            f"({round(e.center[0] * 336)},{round(e.center[1] * 252)})" for e in (one.element, one.to) if e
        )
        click = f"drag(start_box='{start}', end_box='{end[0]}')" if end else f"click(start_box='{start}')"
        reply = f"ANS {value_of(one.element)}" if one.kind == "value" else click
        replies |= {key(one.messages(screen)): reply for screen in screens(one)}
    return ReplayModel(lambda conversation: replies.get(key(conversation), "click(start_box='(0,0)')"))


def test_kinds_are_asked_apart_with_and_without_what_was_held_back(asked):
    kinds = {(one.app, one.kind) for one in asked}
    assert {
        ("gis", "fixed"),
        ("gis", "row"),
        ("gis", "drawn"),
        ("gis", "value"),
        ("gis", "slider"),
        ("pages", "name"),
    } <= kinds
    assert {one.held for one in asked if one.app == "gis"} == {True, False}
    counts = {}
    for one in asked:
        counts[one.app, one.kind, one.held] = counts.get((one.app, one.kind, one.held), 0) + 1
    assert max(counts.values()) <= 24  # of two walks


def test_each_name_is_asked_for_as_often_as_any_other():
    walk = collect("gis", 150, 5, "train")
    things = [one for one in questions([walk], set(), 60, Random(1)) if one.kind == "fixed"]
    counts = Counter(one.element.name for one in things)
    seen = Counter(e.name for t in walk for e in unambiguous(t.elements, t.before) if e.name in counts)
    assert len(counts) > 20 and max(seen.values()) > 8 * min(seen.values())  # some are hardly ever in sight
    most = max(counts.values())
    assert most < 5 and all(count >= min(most - 1, seen[name]) for name, count in counts.items())


def test_a_model_that_looks_is_told_from_one_that_does_not(asked):
    looks = measure(knowing(asked, lambda one: [one.screen]), asked)
    by_heart = measure(knowing(asked, lambda one: [one.screen, one.other]), asked)
    blind = measure(knowing(asked, lambda one: []), asked)
    assert sum(figure.asked for figure in looks) == len(asked)
    assert all(figure.right == figure.asked for figure in looks)
    for part in (
        "right",
        "right_otherwise",
    ):  # of things of one name the last counts
        assert sum(getattr(figure, part) for figure in by_heart) > 0.9 * len(asked)
    assert sum(figure.right_otherwise for figure in looks) <= 0.05 * len(asked)
    assert sum(figure.right for figure in blind) <= 0.05 * len(asked)


def test_what_is_no_action_is_wrong_and_the_table_has_intervals(asked):
    figures = measure(ReplayModel(lambda _: "nothing {"), asked)
    assert not any(figure.right for figure in figures)
    text = table([Figure("gis", "row", True, 20, 18, 1)])
    assert "| gis | row | held back | 20 | 90.0 [69.9, 97.2] | 5.0 [0.9, 23.6] |" in text
