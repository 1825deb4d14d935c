"""GRASS GIS on a display of its own: its tasks, resets, faults, and what a task file may ask of it."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import psutil
import pytest
from app_tests import (
    check_drawn,
    check_perturbed,
    check_refused,
    check_task,
    check_tasks,
    installed,
    parametrized,
)

from coda_lib.action import Action
from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.trajectory import StopReason
from sciencedesk.board.files import Call, Touch
from sciencedesk.board.tasks import app_tasks
from sciencedesk.real.grassgis import GrassGIS

pytestmark = [
    pytest.mark.apps,
    pytest.mark.skipif(not installed("GrassGIS"), reason="GRASS GIS is not installed"),
]
TASKS = {task.id.rpartition("/")[2]: task for task in app_tasks("GrassGIS")}
CONSOLE, PROMPT, MAP = (Action.click(x / 640, y / 480) for x, y in ((320, 435), (420, 388), (440, 180)))


@pytest.fixture(scope="module")
def env():
    made = GrassGIS()
    yield made
    made.close()


def command(env, text):
    for action in (CONSOLE, PROMPT, Action.type_text(f"{text}\n"), Action.hotkey("enter")):
        env.step(action)  # a proposal to complete what was typed may take the first Enter


def test_there_are_enough_tasks():
    check_tasks("GrassGIS")


@pytest.mark.slow
def test_drawn_tasks_are_solved_by_their_scripts_and_not_by_doing_nothing(env):
    check_drawn(env)


@pytest.mark.slow
def test_perturbed_runs_are_solved_in_their_windows_and_leave_no_trace(env):
    check_perturbed(env, TASKS["A-01"])


def test_facts_are_what_the_modules_tell(env):
    """They are read from GRASS's files; the modules take a process each."""
    env.reset(TASKS["A-01"])
    long = (
        "long=if(elevation<590,4,if(elevation<660,3,if(elevation<780,2,if(elevation<880,1,"
        "if(rain<900,6,if(rain<950,7,8))))))"
    )
    for module in (
        ["g.region", "n=5203000", "res=25"], ["g.region", "save=before"], ["g.copy", "raster=rain,wet"],
        ["r.mapcalc", f"expression={long}"], ["g.rename", "raster=wet,damp"], ["g.region", "e=505000"],
        ["g.remove", "-f", "type=raster", "name=landuse"],
        ["v.buffer", "input=roads", "output=near", "distance=100"],
    ):  # fmt: skip
        env._run(module)
    env._state = None
    facts, state = env.facts(), env.state()
    region = state["region"]
    assert (
        facts["edges"] == {edge: region[edge] for edge in "nsew"} and facts["resolution"] == region["nsres"]
    )
    assert facts["made"] == {name: about["comments"] for name, about in state["rasters"].items()}
    assert facts["rasters"] == sorted(state["rasters"]) == ["damp", "elevation", "long", "rain"]
    assert (facts["vectors"], facts["regions"]) == (sorted(state["vectors"]), state["regions"])
    assert facts["shown"] == {layer["name"].partition("@")[0]: layer["checked"] for layer in state["layers"]}


def test_a_layer_without_a_map_has_a_name(env):
    env.reset(TASKS["A-01"])
    command(env, "d.rast")
    first, *others = env.facts()["layers"]
    assert first.startswith("Add raster map layer") and others == ["wells", "roads", "elevation"]
    assert env.state()["layers"][0]["type"] == "raster" and not env.check(StopReason.DONE)


def test_a_mapset_that_cannot_be_read_is_a_fault(env):
    env.reset(TASKS["A-01"])
    (env.home / "grassdata" / "valley" / "PERMANENT" / "WIND").write_text("proj: 1\n")
    with pytest.raises(EnvironmentFault, match="mapset cannot be read: KeyError"):
        env.facts()


@parametrized("GrassGIS")
def test_a_task_is_solved_by_its_script_and_not_by_doing_nothing(env, task):
    check_task(env, task)


@pytest.mark.parametrize(
    "name, said",
    [
        ("A-01", "d.erase"),  # a command that changes no layer
        ("B-04", "g.copy raster=elevation,terrain"),
        ("C-01", "r.slope.aspect elevation=elevation slope=slope format=percent"),
        ("C-02", "v.buffer input=roads output=road_zone distance=400"),
        ("C-04", "v.extract input=wells where=\"depth < 50\" output=deep_wells"),
        ("D-03", "r.contour input=elevation output=contours step=50"),
    ],
)  # fmt: skip
def test_what_is_near_the_goal_does_not_count(env, name, said):
    env.reset(TASKS[name])
    command(env, said)
    assert not env.check(StopReason.DONE)


@pytest.mark.parametrize(
    "name, said",
    [
        ("A-03", "g.region raster=elevation"),
        ("A-04", "d.rast elevation"),
        ("B-01", "g.region nsres=100 ewres=100"),
        ("B-03", "r.colors map=elevation color=grey"),
        ("C-02", "v.buffer -t input=roads output=road_zone distance=500"),
        ("C-03", "r.mapcalc \"high_forest = if(landuse != 1, 0, if(elevation > 800, 1, 0))\""),
    ],
)  # fmt: skip
def test_another_way_to_the_goal_counts(env, name, said):
    env.reset(TASKS[name])
    command(env, said)
    assert env.check(StopReason.DONE), env.now()


def test_a_reset_brings_everything_back(env):
    env.reset(TASKS["A-01"])
    first = env.state()
    for said in (
        "g.region n=5203000 res=10",
        "g.remove -f raster name=landuse",
        "v.db.dropcolumn wells col=depth",
    ):
        command(env, said)
    env.step(Action.click(141 / 640, 42 / 480))
    (env.home / "notes.txt").write_text("left behind")
    changed = env.state()
    assert (
        changed["region"] != first["region"]
        and "landuse" not in changed["rasters"]
        and len(changed["displays"]) == 2
    )
    picture, _ = env.reset(TASKS["A-01"])
    assert env.state() == first and not (env.home / "notes.txt").exists()
    assert "depth" in env.command("v.db.select", {"map": "wells"})
    assert np.array_equal(picture, env.reset(TASKS["A-01"])[0])


def test_the_picture_is_taken_when_a_module_is_done(env):
    env.reset(TASKS["B-01"])
    command(env, "r.mapcalc \"sum = elevation + rain\"")  # fmt: skip
    assert "sum" in env.state()["rasters"] and "slope" not in env.state()["rasters"]


def test_what_cannot_be_typed_is_nothing_done(env):
    check_refused(env, TASKS["A-01"])


@pytest.mark.parametrize("whose", ["process", "window"])
def test_a_crash_is_a_fault_and_the_next_episode_begins_anew(env, whose):
    env.reset(TASKS["A-01"])
    os.kill(env.pid if whose == "process" else psutil.Process(env.pid).children()[0].pid, signal.SIGSEGV)
    with pytest.raises(EnvironmentFault, match="crashed|gone"):
        for _ in range(20):
            env.step(MAP)
    check_task(env, TASKS["A-01"])


def test_an_agent_that_closes_the_application_has_failed(env):
    env.reset(TASKS["B-04"])
    for keys in ("ctrl q", "enter"):
        env.step(Action.hotkey(keys))
    assert env.closed and not any(env.check(stop) for stop in StopReason)
    assert env.command("g.region", {"flags": "g"}) == ""
    check_task(env, TASKS["B-04"])


@pytest.mark.parametrize(
    "item",
    [
        Call(func="call", name="g.proj", kwargs={"flags": "c"}),
        Call(func="call", name="sh", kwargs={}),
        Call(func="call", name="g.region", args=["n=1"]),
        Call(func="call", name="g.region", kwargs={"flags": "p;ls"}),
        Call(func="call", name="g.region", kwargs={"--exec": "ls"}),
        Call(func="call", name="layer", args=["script", "ls"]),
        Call(func="call", name="layer", kwargs={"type": "raster"}),
        Call(func="call", name="layer", args=["raster", "elevation"], kwargs={"command": "ls"}),
        Call(func="call", name="r.colors", kwargs={"map": "nowhere", "color": "grey"}),
        Touch(func="touch", path="/home/user/x"),
    ],
    ids=str,
)
def test_only_some_things_can_be_called(env, item):
    env.reset(TASKS["A-02"])
    task = replace(env.task, board=env.task.board.model_copy(update={"initialize": [item]}))
    with pytest.raises(UserError, match="A-02"):
        env.reset(task)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("r.mapcalc", {"expression": "a=1"}),
        ("r.report", {"map": "elevation", "output": "/tmp/report"}),
        ("g.region", {"raster": "elevation"}),
        ("r.info", {"map": "elevation", "flags": "-exec"}),
        ("../../../bin/ls", {}),
    ],
)
def test_only_what_writes_nothing_can_be_asked(env, name, arguments):
    env.reset(TASKS["A-02"])
    with pytest.raises(UserError, match="A-02"):
        env.command(name, arguments)


def test_asking_for_the_default_region_leaves_the_present_one(env):
    env.reset(TASKS["A-03"])
    before = env.state()["region"]
    assert "n=5204000" in env.command("g.region", {"flags": "dg"}) and env.state()["region"] == before


def test_a_map_that_there_is_not_says_nothing(env):
    env.reset(TASKS["A-02"])
    assert env.command("r.info", {"map": "nowhere"}) == ""
