"""The self-check of a served executor: it names the coordinates in which a model writes."""

from __future__ import annotations

import re

import pytest

from coda_lib.executor import Executor
from coda_lib.models.chat import ReplayModel, ResizeRule, Sampling
from coda_lib.task import test_tasks as tasks_of_tests
from coda_study.grounding import (
    ABSOLUTE,
    ADVICE,
    FRACTION,
    RIGHT,
    THOUSANDTH,
    TWICE,
    check_grounding,
    point_of,
)
from sciencedesk.env import ScienceDesk

SCREEN, APPS = (1600, 1200), ("gis", "astron")
SIGHT = ResizeRule(
    28, 100 * 28 * 28, 1_000_000
)  # a limit of pixels, so that the picture is smaller than the screen


@pytest.fixture(scope="module")
def places():
    found = {}
    for app in APPS:
        desk = ScienceDesk(app)
        desk.reset(tasks_of_tests(app)[0])
        found |= {element.name: element.center for element in desk.elements()}
    return found


def writing(places, scale, form="click(start_box='({x},{y})')"):
    """An executor that knows every button and writes its place in such coordinates."""

    def reply(conversation):
        said = " ".join(part.get("text", "") for message in conversation for part in message["content"])
        x, y = places[re.findall(r"Click '(.+?)'\.", said)[-1]]
        return form.format(x=round(x * scale[0], 3), y=round(y * scale[1], 3))

    return Executor(ReplayModel(reply), Sampling())


@pytest.mark.parametrize(
    ("scale", "verdict"),
    [
        (SIGHT(SCREEN), RIGHT),
        (SCREEN, ABSOLUTE),
        ((1000, 1000), THOUSANDTH),
        ((1, 1), FRACTION),
        ((840, 616), TWICE),
    ],
)
def test_the_coordinates_of_a_model_are_named(places, scale, verdict):
    found = check_grounding(writing(places, scale), SIGHT, SCREEN, APPS)
    assert (
        found.verdict == verdict in ADVICE
        and found.hits[verdict] > 0.9 * found.asked
        and found.read == found.asked > 20
    )


def test_what_hits_nothing_is_said_to(places):
    for form in ("I cannot.", "click(start_box='({y},7)')", "wait()"):
        assert check_grounding(writing(places, (1000, 1000), form), SIGHT, SCREEN, APPS).verdict is None


def test_points_are_read_in_all_ways():
    assert point_of("Thought: 3 of 4.\nAction: click(start_box='(1,2)')") == (1, 2)
    assert point_of("click(point='<point>1 2</point>')") == (1, 2) and point_of(
        "click(start_box='(1,2,3,5)')"
    ) == (2, 3.5)
    assert point_of("wait()") is None and point_of("click(start_box='(1)')") is None


def test_the_command_says_what_to_do(coda, places, monkeypatch):
    executor = writing(places, (1000, 1000))
    executor.model.resize_rule = SIGHT
    monkeypatch.setattr(Executor, "load", lambda settings, checkpoint=None: executor)
    monkeypatch.setattr(check_grounding, "__defaults__", (SCREEN, APPS))
    code, shown, _ = coda("grounding", "--profile", "smoke")
    assert code == 1 and "thousandths: an older model" in shown and "of the picture (right)" in shown
