"""GIS: its names, and what settings put on offer."""

from __future__ import annotations

from typing import Any

import matplotlib
import pytest

from sciencedesk.apps.gis import landscape as land
from sciencedesk.apps.gis.names import MADE_LAYERS, MORE_MARKS, PALETTES
from sciencedesk.apps.gis.pictures import MAP
from sciencedesk.env import ScienceDesk
from sciencedesk.script import to_action
from sciencedesk.space import setup, space


@pytest.fixture(scope="module")
def env() -> ScienceDesk:
    """Give one window, which each test starts anew."""
    return ScienceDesk("gis")


def play(env: ScienceDesk, settings: dict[str, Any], *script: dict) -> dict[str, Any]:
    """The state after a script that starts with these settings."""
    env.desk.reset(settings)
    for step in script:
        env.desk.perform(to_action(env.desk, step))
    return env.desk.state()


def names(env: ScienceDesk, *roles: str) -> list[str]:
    return [found.name for found in env.desk.elements() if found.role in roles]


def test_there_is_a_place_for_every_name():
    places = land.peaks()
    assert len(places) == 66 and len({height for _, _, height, _ in places.values()}) == 66
    assert list(places)[:6] == ["Ash", "Bay", "Elm", "Fir", "Ivy", "Oak"]
    assert len(set(map(tuple, land.ZONES.values()))) == len(land.ZONES) == 45
    assert all(0 <= s < n <= land.NORTH and 0 <= w < e <= land.EAST for n, s, e, w in land.ZONES.values())
    assert set(PALETTES) <= set(matplotlib.colormaps) and not set(MORE_MARKS) & {*places, *land.RASTERS}
    tops = {land.raster(layer, 0, ("", 0)).max() for layer in MADE_LAYERS}
    assert len(tops) == len(MADE_LAYERS) == 41


def test_peaks_that_a_raster_covers_are_not_there(env):
    """Their names cannot be read; under one that lets something through they are."""
    for layers, opacity, seen in (
        (["Peaks", "Elevation"], {}, True), (["Elevation", "Peaks"], {}, False),
        (["Elevation", "Peaks"], {"Elevation": 60}, True), (["Contours", "Peaks", "Slope"], {}, True),
    ):  # fmt: skip
        env.desk.reset({"layers": layers, "opacity": opacity})
        assert ("Ash" in names(env, "target")) == seen


def test_no_peak_of_the_task_space_covers_another(env):
    width = env.desk.fontMetrics().horizontalAdvance
    task_space = space("gis")
    for shown in {
        tuple(setup(task_space, aim)["names"])
        for name in ("query", "query_here", "highest")
        for aim in task_space.aims[name]
    }:
        boxes = []
        for name in shown:
            x, y = (
                round(part * size)
                for part, size in zip(land.peaks()[name], (MAP.width(), MAP.height()), strict=False)
            )
            boxes.append((x - 7, y - 9, x + 9 + width(name), y + 5))
        for i, (left, top, right, bottom) in enumerate(boxes):
            assert right <= MAP.width()
            assert all(right < b[0] or b[2] < left or bottom < b[1] or b[3] < top for b in boxes[:i]), shown


def test_menus_map_and_slider_offer_what_the_settings_name(env):
    play(env, {"zones": ["mill", "north"], "catalog": ["Soil"]}, {"click": "Region"})
    assert sorted(names(env, "toggle", "button")) == ["Bounds", "Mill", "North"]
    play(env, {"catalog": ["Soil", "Slope"]}, {"click": "Add"})
    assert sorted(names(env, "button")) == ["Add slope", "Add soil"]
    state = play(env, {"palettes": ["hot", "jet"]}, {"click": "View"}, {"click": "Jet"})
    assert state["palette"] == "jet"
    play(env, {"names": ["Owl", "Larch"], "marks": ["B4", "SE"], "layers": ["Peaks"], "ticks": [10, 70, 100]})
    assert set(names(env, "target")) == {"10", "70", "100", "Owl", "Larch", "B4", "SE"}
    play(env, {}, {"click": "Region"})  # a reset takes them back
    assert names(env, "toggle", "button") == ["Whole", "North", "South", "East", "West", "Bounds"]


def test_title_and_go_to_are_there_where_a_setting_says_so(env):
    extras = {"extras": ["Title", "Go to"]}
    assert (
        play(env, extras, {"click": "File"}, {"click": "Title"}, {"type": "Sheet 7\n"})["title"] == "Sheet 7"
    )
    go = [{"click": "View"}, {"click": "Go to"}, {"type": "12"}, {"click": "North"}, {"type": "20\n"}]
    state = play(env, extras | {"zoom": 2}, *go)
    assert (state["center_east"], state["center_north"], state["cx"], state["cy"]) == (12, 20, 0.4, 0.375)
    for typed in ("99\n", "-1\n", "٣\n", "a\n"):
        assert (
            play(env, extras | {"zoom": 2}, *go[:-1], {"type": typed})["cy"] == 0.5
            and env.desk.dialog is not None
        )
    play(env, {}, {"click": "File"})
    assert names(env, "button") == ["New map"]


def test_commands_take_more_names_and_numbers(env):
    commands = ("r.soil", "r.light 75", "r.interval 90", "g.region mill")
    state = play(
        env, {"tab": "Console"}, {"click": "Command"}, *({"type": command + "\n"} for command in commands)
    )
    assert (state["layers"], state["light"], state["interval"], state["region"]) == (
        ["Soil", "Elevation"],
        75,
        90,
        "mill",
    )
    for typed in ("r.light 400", "r.interval 5", "r.light ٣", "r.classes", "r.light"):
        assert play(env, {"tab": "Console"}, {"click": "Command"}, {"type": typed + "\n"})["console"] == []


def test_readings_are_numbers_alone(env):
    start = {"names": ["Owl", "Larch"], "layers": ["Peaks", "Elevation"], "tab": "Table"}
    state = play(env, start, {"click": "Larch"})
    assert [state["height"], state["steepness"]] == list(land.peaks()["Larch"][2:])
    state = play(env, {"marks": ["B4"]}, {"click": "Tools"}, {"click": "Query"}, {"click": "B4"})
    assert state["answer"] == f"{state['reading']} m" and state["reading"].isdigit()
