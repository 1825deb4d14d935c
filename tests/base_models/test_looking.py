"""What the committed network looks at, shown beside another picture."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from base_models.accounts import told_screens
from base_models.asking import Asking
from base_models.hindsight import planner_row, reading
from base_models.looking import attention, attention_figure, letters_figure, letters_told, reply_table
from base_models.network import Pointer
from base_models.walks import collect
from coda_lib.paths import CHECKPOINTS


@pytest.fixture(scope="module")
def seen():
    asking, rng = Asking(["x"] * 60, 1.0), Random(8)
    pointer = Pointer.load(CHECKPOINTS / "seeing" / "pointer.safetensors")
    return pointer, [asking.draw(rng, (168, 84)) for _ in range(12)]


def test_letters_are_told_of_a_page_and_not_of_another_one(seen):
    pointer, pages = seen
    shares = []
    for labels in (pages, [*pages[1:], pages[0]]):
        hits = []
        for page, other in zip(pages, labels, strict=True):
            told, right = letters_told(pointer, page, other)
            assert told.shape == right.shape == (12, 24)
            hits += (told == right)[right != ""].tolist()
        shares.append(np.mean(hits))
    assert shares[0] > 0.85 and shares[1] < 0.2


def test_heads_find_the_name_that_is_asked_and_not_in_another_picture(seen):
    pointer, pages = seen
    found = {True: [], False: []}
    for page, other in zip(pages, [*pages[1:], pages[0]], strict=True):
        for number, question in enumerate(page.item.questions):
            if question.points:
                name = question.find[question.points[0]]
                for shown in (None, other):
                    weights = attention(pointer, page, number, shown)
                    assert weights.shape == (4, 8) and 0 < weights.sum() <= 1.001
                    found[shown is None].append(weights.argmax() in name)
    assert np.mean(found[True]) > 0.7 and np.mean(found[False]) < 0.35


def test_the_pictures_are_drawn(seen):
    pointer, (page, other, *_) = seen
    clicks = [number for number, question in enumerate(page.item.questions) if question.points][:1]
    assert "letters told" in letters_figure(pointer, page, other).axes[0].get_title(loc="left")
    assert len(attention_figure(pointer, page, other, clicks).axes) == 2


def test_the_committed_planner_answers_by_the_screen_and_not_by_another_one():
    """Values that screens of the test region show."""
    rng, walk = Random(4), collect("astron", 300, 78, "test")
    questions = filter(None, (reading(step, rng) for step in rng.sample(walk, 60)))
    asked = [planner_row(question) for question in questions]
    table = reply_table(Pointer.load(CHECKPOINTS / "seeing" / "planner.safetensors"), asked)
    right, other = (np.mean(table["right"] == table[name]) for name in ("reply", "with another screen"))
    assert len(table) > 25 and right > 0.45 and other < 0.2
    assert table["asked"].str.startswith("What is the ").all()


def test_the_committed_judge_rules_by_the_screen_and_not_by_another_one():
    """Questions about screens of the test region."""
    rng, walk = Random(4), collect("algebra", 400, 78, "test")
    rows = [rng.choice(told.rows) for told in told_screens(walk, 60, 1)]
    table = reply_table(Pointer.load(CHECKPOINTS / "seeing" / "judge.safetensors"), rows)
    right, other = (np.mean(table["right"] == table[name]) for name in ("reply", "with another screen"))
    assert len(table) > 25 and right > 0.6 and other < 0.35
