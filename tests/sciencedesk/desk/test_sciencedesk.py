"""The applications as environments: what they show, what mouse and keyboard do; no text breaks them."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from base_models import walks as walk
from coda_lib.action import Action
from coda_lib.applications import ALL_APPS
from coda_lib.environment import ActionSpace, EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.task import Task
from coda_lib.trajectory import StopReason
from sciencedesk.desk.widgets import HEIGHT, WIDTH, Field
from sciencedesk.env import ScienceDesk, desk_class
from sciencedesk.script import find, to_action


def task_of(app: str, **settings) -> Task:
    """A task that starts with these settings and asks for nothing."""
    initialize = tuple({"func": "set", "key": key, "value": value} for key, value in settings.items())
    never = {"type": "state", "key": "tab", "value": "?"}
    return Task(f"{app}/x", app, "A", "Do as you like.", 9, initialize, (never,))


def do(env: ScienceDesk, *script: dict) -> dict:
    """Do script steps such as {'click': 'Grid'}; returns the state."""
    for step in script:
        _, _, _, _, info = env.step(to_action(env.desk, step))
    return info["state"]


def random_actions(app: str, count: int, seed: int) -> list[Action]:
    """Actions that hit something now and then: half of them anywhere, half of them keys and words."""
    rng, space = random.Random(seed), ActionSpace(seed=seed)
    words = [word + end for word in walk.typed_words(app) for end in ("", "\n")]
    keys = [*walk.hotkeys(app), "enter", "backspace", "ctrl a", "ctrl c", "ctrl v", "ctrl z", "tab", "ctrl n"]
    makers: list[Callable[[], Action]] = [
        space.sample, space.sample, space.sample, lambda: Action.type_text(rng.choice(words)),
        lambda: Action.hotkey(rng.choice(keys)), lambda: Action.hover(rng.random(), rng.random()),
        Action.wait,
    ]  # fmt: skip
    return [rng.choice(makers)() for _ in range(count)]


def seen(env: ScienceDesk) -> tuple:
    """All that can be known of a window."""
    return (
        env.render().tobytes(),
        env.desk.state(),
        env.desk.elements(),
        env.desk.windowTitle(),
        env.desk.clipboard,
    )


@pytest.fixture(scope="module")
def desks() -> dict[str, ScienceDesk]:
    """Give one window of each application, shared by the tests of this module."""
    return {app: ScienceDesk(app) for app in ALL_APPS}


@pytest.fixture(params=ALL_APPS)
def env(request, desks) -> ScienceDesk:
    """Give each application's window, freshly reset."""
    desks[request.param].reset(task_of(request.param))
    return desks[request.param]


# -- Gymnasium's API ---------------------------------------------------------------------------------------


def test_gymnasium_api(env):
    assert isinstance(env, gymnasium.Env) and isinstance(env.observation_space, gymnasium.spaces.Box)
    screenshot, info = env.reset(task_of(env.app), seed=3, options={})
    assert screenshot.shape == (HEIGHT, WIDTH, 3) and screenshot.dtype == np.uint8
    assert env.observation_space.contains(screenshot) and info["state"] == env.desk.state()
    action = env.action_space.sample()
    assert env.action_space.contains(action) and not env.action_space.contains("click()")
    screenshot, reward, terminated, truncated, info = env.step(action)
    assert env.observation_space.contains(screenshot) and (reward, terminated, truncated) == (
        0.0,
        False,
        False,
    )
    assert info == {"state": env.desk.state(), "stop": None, "answer": None}
    assert np.array_equal(env.render(), screenshot) and env.desk.windowTitle().endswith("Do as you like.")


@pytest.mark.parametrize(
    ("action", "stop", "answer"),
    [(Action.done(), StopReason.DONE, None), (Action.fail(), StopReason.FAIL, None),
     (Action.answer("42"), StopReason.ANS, "42")],
)  # fmt: skip
def test_the_ends_of_an_episode_change_nothing(env, action, stop, answer):
    before = seen(env)
    _, _, terminated, truncated, info = env.step(action)
    assert terminated and not truncated and (info["stop"], info["answer"]) == (stop, answer)
    env.step(Action.wait())
    assert seen(env) == before


def test_what_is_asked_for_and_is_not_there():
    with pytest.raises(
        UserError, match="unknown application 'paint'; there are algebra, biochem, gis, astron, spectra"
    ):
        ScienceDesk("paint")
    with pytest.raises(UserError, match="task astron/x is for astron, this window is gis"):
        ScienceDesk("gis").reset(task_of("astron"))
    with pytest.raises(UserError, match="task gis/x: initialize: gis has no setting 'legand'"):
        ScienceDesk("gis").reset(task_of("gis", legand=True))


def test_what_breaks_is_a_fault_of_the_environment_and_the_next_episode_goes_on(env, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("no such luck")

    for name in ("refresh", "facts"):  # inside one of Qt's callbacks, and outside
        with monkeypatch.context() as patch:
            patch.setattr(env.desk, name, broken)
            with pytest.raises(EnvironmentFault, match=f"{env.app}: .*CLICK.*no such luck"):
                do(env, {"click": env.desk.tabs.tabText(1)})
    env.reset(task_of(env.app))
    assert do(env, {"click": env.desk.tabs.tabText(1)})["tab"] == env.desk.tabs.tabText(1)


def test_drawing_that_fails_does_not_take_the_process_along(monkeypatch):
    env = ScienceDesk("algebra")
    env.reset(task_of("algebra", tab="Plot 2D"))
    monkeypatch.setattr(env.desk.plot, "_draw", lambda painter, rect: 1 / 0)
    for _ in range(3):
        with pytest.raises(EnvironmentFault, match="division by zero"):
            env.step(Action.wait())
    monkeypatch.undo()
    env.reset(task_of("algebra"))
    env.step(Action.wait())


# -- the same every time -----------------------------------------------------------------------------------


def test_the_same_actions_give_the_same_bytes(env):
    other = ScienceDesk(env.app)
    other.reset(task_of(env.app))
    for action in random_actions(env.app, 60, seed=1):
        mine, others = env.step(action), other.step(action)
        assert np.array_equal(mine[0], others[0]) and mine[4] == others[4], action
    other.close()


def test_a_reset_equals_a_new_window(env):
    for action in random_actions(env.app, 300, seed=2):
        env.step(action)
    env.reset(task_of(env.app))
    new = ScienceDesk(env.app)
    new.reset(task_of(env.app))
    assert seen(env) == seen(new)
    for action in [Action.hotkey("ctrl z"), Action.hotkey("ctrl v"), *random_actions(env.app, 20, seed=3)]:
        env.step(action)
        new.step(action)
    assert seen(env) == seen(new)  # nor is anything left that shows only later
    new.close()


@pytest.mark.parametrize("theme", ["light", "dark", "contrast"])
def test_every_name_stands_out_in_every_theme(env, theme):
    """Layers were once light on white in dark windows: names that nobody could read."""
    env.reset(replace(task_of(env.desk.app), view={"theme": theme}))
    seen = set()
    for tab in [e.name for e in env.desk.elements() if e.role == "tab"]:
        do(env, {"click": tab})
        light = env.render().astype(float) @ (0.299, 0.587, 0.114)
        for element in env.desk.elements():
            if element.role in ("row", "tab", "menu", "button", "toggle"):
                x, y, width, height = element.box
                if height < 8:  # of a row that is nearly scrolled away
                    continue
                inside = light[y + 2 : y + height - 2, x + 3 : x + width - 3]
                shades, counts = np.unique(inside.round(), return_counts=True)
                assert np.abs(shades - shades[counts.argmax()]).max() > 90, element
                seen.add(element.role)
    assert {"tab", "menu"} <= seen and ("row" in seen or env.desk.app == "algebra")


def test_desks_side_by_side_do_not_disturb_each_other(desks):
    plans = {(app, seed): random_actions(app, 40, seed) for app in ALL_APPS for seed in (4, 5)}
    alone = {}
    for (app, seed), actions in plans.items():
        desks[app].reset(task_of(app))
        for action in actions:
            desks[app].step(action)
        alone[app, seed] = seen(desks[app])
    together = {key: ScienceDesk(key[0]) for key in plans}
    for key, env in together.items():
        env.reset(task_of(key[0]))
    for number in range(40):
        for key, env in together.items():
            env.step(plans[key][number])
    for key, env in together.items():
        assert seen(env) == alone[key], key
        env.close()


HEADLESS = """
import sys
sys.path[:0] = {path!r}
from sciencedesk.env import ScienceDesk
import hashlib
for app in {apps!r}:
    print(app, hashlib.sha256(ScienceDesk(app).render().tobytes()).hexdigest())
"""


def test_pictures_do_not_depend_on_display_or_scale(desks):
    """A missing display would make Qt abort the process, a scaled one would make larger pictures."""
    code = HEADLESS.format(path=sys.path, apps=ALL_APPS)
    around = {key: value for key, value in os.environ.items() if not key.startswith("QT_")}
    shown = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True,
        env=around | {"DISPLAY": ":9876", "QT_SCALE_FACTOR": "2", "QT_FONT_DPI": "180"},
    )  # fmt: skip
    new = {app: hashlib.sha256(ScienceDesk(app).render().tobytes()).hexdigest() for app in ALL_APPS}
    assert dict(line.split() for line in shown.stdout.splitlines()) == new


# -- hostile text ------------------------------------------------------------------------------------------

HOSTILE = [
    "'\"`\\'\"", "a\nb\n\nc\n", "\x00x\x00", "\x1b[31m\x7f\x08", "\u202egnp.exe\u2066", "\ud800 alone",
    "İıſK", "\t\r\v", "é ß Привет 日本 😀", "x" * 10_000, "9" * 10_000 + "\n",
    "__import__('os').system('touch hacked')\n", "().__class__\n", "-1\n", "0\n", "1e999\n", "nan\n",
    "-inf\n", "٣\n", "²\n", "9^9^9^9\n", "((9^12)^12)^12\n", "%s%n{0}{x}\n", "<b>x</b>\n",
    "../../etc/passwd\n", "\n" * 50, "diff(abs(x))\n", "x*log(-2)\n", "sin(1/0)\n", "integrate(exp(x^2))\n",
    "x^sqrt(-1)\n", "height > 99999\n", "g.region mars\n", "exp(exp(exp(exp(9))))\n",
    "integrate(1/(x^5+x+1))\n",
]  # fmt: skip


READY = {  # all dialogs can be opened, all fields are shown
    "gis": {"selected": "Elevation"}, "biochem": {"molecule": "water", "fields": ["Note", "Sample"]},
    "astron": {"entries": True},
}  # fmt: skip


def test_no_text_breaks_any_field(env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for field in env.desk.findChildren(Field):
        for text in HOSTILE:
            env.reset(task_of(env.app, **READY.get(env.app, {})))
            show(env, field)
            env.step(to_action(env.desk, {"click": field.accessibleName()}))
            env.step(
                Action.type_text(text)
            )  # EnvironmentFault, or the end of the process, if anything breaks
            assert len(field.text()) <= 40
            for tab in range(env.desk.tabs.count()):
                env.desk.set("tab", env.desk.tabs.tabText(tab))
                env.step(Action.wait())
    assert not list(tmp_path.iterdir())


def show(env: ScienceDesk, field: Field) -> None:
    """Bring a field to the front: open its dialog, or turn to its page."""
    for page, widgets in env.desk.pages.items():
        if field in widgets:
            env.desk.set("tab", page)
            return
    env.desk.open_dialog(field.parent())


def test_letters_of_any_script_are_typed(desks):
    env = desks["biochem"]
    env.reset(task_of("biochem"))
    text = "é ß Привет 日本 😀"
    assert do(env, {"click": "File"}, {"click": "Title"}, {"type": text + "\n"})["title"] == text


def test_no_hotkey_breaks_anything(env):
    odd = [
        "f1", "f13", "ctrl alt delete", "alt f4", "ctrl ctrl", "+", "ctrl +", "é", "ctrl 😀", "nokey", "\x00",
        "ctrl w", "shift tab", "super", "meta q", "1 2 3", "ctrl shift u", "volumeup", "enter " * 50,
    ]  # fmt: skip
    before = env.desk.state()
    for keys in odd:
        env.step(Action.hotkey(keys))
    assert env.desk.state() == before


def test_points_on_the_edge(env):
    for x in (0, 1):
        for y in (0, 1):
            for make in (Action.click, Action.double_click, Action.right_click, Action.hover):
                env.step(make(x, y))
            env.step(Action.drag(x, y, 1 - x, 1 - y))
            for direction in ("up", "down", "left", "right"):
                env.step(Action.scroll(x, y, direction))


# -- mouse and keyboard ------------------------------------------------------------------------------------


@pytest.fixture
def algebra(desks) -> ScienceDesk:
    desks["algebra"].reset(task_of("algebra"))
    return desks["algebra"]


def test_menus_open_choose_and_close(algebra):
    names = {element.name for element in algebra.desk.elements()}
    assert {"File", "View"} <= names and "Grid" not in names
    do(algebra, {"click": "View"})
    assert find(algebra.desk.elements(), "Grid").role == "toggle"
    assert do(algebra, {"click": "Grid"})["grid"] is True and algebra.desk.menu is None
    do(algebra, {"click": "View"})
    assert find(algebra.desk.elements(), "Grid").text == "on"
    algebra.step(Action.click(0.9, 0.9))  # beside the menu
    assert algebra.desk.menu is None
    do(algebra, {"click": "View"}, {"press": "esc"})
    assert algebra.desk.menu is None


def test_dialogs_take_or_refuse(algebra):
    do(algebra, {"click": "Settings"}, {"click": "Precision"})
    assert find(algebra.desk.elements(), "Digits").text == "3"
    covered = {element.name for element in algebra.desk.elements()}
    assert "Expression" not in covered and {"OK", "Cancel", "Digits"} <= covered
    assert do(algebra, {"type": "99\n"})["digits"] == 3 and algebra.desk.dialog is not None  # still open
    assert "from 1 to 9" in algebra.desk.status.text()
    assert (
        do(algebra, {"press": "ctrl a"}, {"type": "5"}, {"press": "ctrl g"})["grid"] is False
    )  # no shortcut inside
    assert do(algebra, {"click": "OK"})["digits"] == 5 and algebra.desk.dialog is None
    do(algebra, {"click": "Settings"}, {"click": "Precision"}, {"type": "7"})
    assert do(algebra, {"click": "Cancel"})["digits"] == 5
    do(algebra, {"click": "Settings"}, {"click": "Precision"}, {"type": "7"}, {"press": "esc"})
    assert algebra.desk.dialog is None and algebra.desk.state()["digits"] == 5


def test_typing_goes_to_the_field_with_the_focus(algebra):
    assert do(algebra, {"type": "3*7\n"})["console"] == []  # nothing has the focus
    state = do(algebra, {"click": "Expression"}, {"type": "3*7\n"})
    assert state["console"] == [["3*7", "21"]] and state["result"] == "21"
    do(algebra, {"type": "2"}, {"press": "enter"}, {"type": "12"}, {"press": "backspace"}, {"type": "5"})
    assert algebra.desk.expression.text() == "15" and len(algebra.desk.state()["console"]) == 2
    do(algebra, {"click": "Expression"}, {"type": "9"})  # a click marks the whole text
    assert algebra.desk.expression.text() == "9"


def test_copy_and_paste_stay_in_the_window(algebra):
    other = ScienceDesk("algebra")
    do(algebra, {"click": "Expression"}, {"type": "sin(1)"}, {"press": "ctrl a"}, {"press": "ctrl x"})
    assert algebra.desk.expression.text() == ""
    do(algebra, {"press": "ctrl v"}, {"press": "Ctrl+V"})
    assert algebra.desk.expression.text() == "sin(1)sin(1)"
    do(algebra, {"press": "ctrl a"}, {"press": "ctrl c"})
    other.reset(task_of("algebra"))
    do(other, {"click": "Expression"}, {"press": "ctrl v"})
    assert other.desk.expression.text() == ""
    algebra.reset(task_of("algebra"))
    do(algebra, {"click": "Expression"}, {"press": "ctrl v"}, {"press": "ctrl z"})
    assert algebra.desk.expression.text() == ""
    other.close()


@pytest.mark.parametrize("app", ["algebra", "gis", "astron", "spectra"])
def test_shortcuts(desks, app):
    desks[app].reset(task_of(app))
    for wanted in (True, False):
        assert do(desks[app], {"press": "ctrl g"})["grid"] is wanted
    assert do(desks[app], {"press": "g"})["grid"] is False  # the letter alone
    assert do(desks[app], {"press": "win g"})["grid"] is False


def test_double_click_opens_and_right_click_asks(desks):
    env = desks["biochem"]
    env.reset(task_of("biochem", tab="Molecules"))
    state = do(env, {"right": "acetone"})
    assert (state["pinned"], state["marked"], state["molecule"]) == ("acetone", "", "")
    assert do(env, {"click": "ethanol"})["marked"] == "ethanol"
    state = do(env, {"double": "benzene"})
    assert (state["molecule"], state["tab"], state["formula"]) == ("benzene", "Structure", "C6H6")
    env = desks["gis"]
    env.reset(task_of("gis", layers=["Slope", "Elevation"]))
    state = do(env, {"right": "Slope"})
    assert state["selected"] == "Slope" and find(env.desk.elements(), "Remove").role == "button"
    assert do(env, {"click": "Remove"})["layers"] == ["Elevation"]


def test_scrolling_moves_lists_and_nothing_else(desks):
    env = desks["biochem"]
    env.reset(task_of("biochem", tab="Molecules"))
    names = [element.name for element in env.desk.elements() if element.role == "row"]
    state = do(env, {"scroll": [names[0], "down"]})
    later = [element.name for element in env.desk.elements() if element.role == "row"]
    assert state["marked"] == "" and later != names and "water" in later and "water" not in names
    do(env, {"scroll": [later[0], "up"]})
    assert [element.name for element in env.desk.elements() if element.role == "row"] == names
    before = seen(env)
    do(env, {"scroll": [names[0], "left"]}, {"scroll": ["Open", "down"]})
    assert seen(env) == before


def test_dragging_moves_sliders_rows_and_views(desks):
    env = desks["algebra"]
    env.reset(task_of("algebra", tab="Plot 3D"))
    assert do(env, {"drag": ["Rotation", "150"]})["turn"] == 150
    assert do(env, {"click": "60"})["turn"] == 60
    env.reset(task_of("algebra", tab="Plot 2D"))
    env.step(Action.drag(0.8, 0.6, 0.7, 0.6))
    assert env.desk.state()["xmin"] > -5
    env = desks["gis"]
    env.reset(task_of("gis", layers=["Slope", "Hillshade", "Elevation"]))
    assert do(env, {"drag": ["Elevation", "Slope"]})["layers"] == ["Elevation", "Slope", "Hillshade"]
    env = desks["astron"]
    env.reset(task_of("astron"))
    bodies = [e.name for e in env.desk.elements() if e.role == "target" and not e.name.isdigit()]
    state = do(env, {"drag": bodies[:2]})
    assert state["measured"] == sorted(bodies[:2]) and isinstance(state["angle"], int)


def test_algebra_shows_given_variables_and_slider_steps(algebra):
    algebra.reset(task_of("algebra", tab="Variables", variables=["mass = 12", "k = 2.5"]))
    assert {element.name for element in algebra.desk.elements()} >= {"mass = 12", "k = 2.5"}
    assert algebra.desk.state()["variables"] == {"mass": 12, "k": 2.5}
    assert do(algebra, {"click": "Console"}, {"click": "Expression"}, {"type": "mass*k\n"})["result"] == "30"
    assert do(algebra, {"click": "Variables"}, {"double": "mass = 12"})["variables"] == {"k": 2.5}
    algebra.reset(task_of("algebra", tab="Plot 3D", turn_step=15))
    assert do(algebra, {"drag": ["Rotation", "75"]})["turn"] == 75
    algebra.reset(task_of("algebra", tab="Plot 3D"))
    ticks = [element.name for element in algebra.desk.elements() if element.name.isdigit()]
    assert ticks == ["0", "30", "60", "90", "120", "150", "180"]


def test_astron_names_any_star_of_the_catalogue(desks):
    env = desks["astron"]
    env.reset(task_of("astron", tab="Objects", show="stars", stars=["Rigel", "Capella"]))
    assert [element.name for element in env.desk.elements() if element.role == "row"] == ["Rigel", "Capella"]
    state = do(env, {"click": "Search"}, {"type": "atria\n"}, {"click": "Info"})
    assert (state["selected"], state["stars"], state["in"]) == (
        "Atria",
        ["Rigel", "Capella", "Atria"],
        "Triangulum Australe",
    )
    assert (state["magnitude"], state["distance"], state["rise"]) == ("1.9", "-", "")
    assert do(env, {"click": "Compute"})["rise"] == "never"
    assert do(env, {"click": "Objects"}, {"click": "Search"}, {"type": "Pluto\n"})["selected"] == "Atria"
    assert env.desk.status.text() == "No such body"
    env.reset(task_of("astron", stars=["Rigel"]))
    assert do(env, {"drag": ["Rigel", "Moon"]})["measured"] == ["Moon", "Rigel"]


def test_astron_knows_more_places_than_the_menu_shows(desks):
    env = desks["astron"]
    env.reset(task_of("astron", cities=["Oslo", "Lima"], atlas=True, locked=False))
    do(env, {"click": "Place"})
    assert [element.name for element in env.desk.elements()] == ["Lock place", "Oslo", "Lima", "Other"]
    assert do(env, {"click": "Lima"})["place"] == "Lima"
    for typed, place in (
        ("oslo", "Oslo"),
        ("Nowhere", "Oslo"),
        ("48n 131W", "48N 131W"),
        ("91N 0E", "48N 131W"),
    ):
        assert (
            do(env, {"click": "Place"}, {"click": "Other"}, {"type": typed + "\n"}, {"press": "esc"})["place"]
            == place
        )
    env.reset(task_of("astron", atlas=True))
    do(env, {"click": "Place"}, {"click": "Other"}, {"type": "Oslo\n"})
    assert (env.desk.values["place"], env.desk.status.text()) == ("Paris", "The place is locked")


def test_astron_has_fields_for_date_and_site_where_they_are_set(desks):
    env = desks["astron"]
    env.reset(task_of("astron", entries=True))
    state = do(env, {"click": "Date"}, {"type": "2031-8-17\n"})
    assert (state["year"], env.desk.status.text()) == (2025, "Time is running")
    env.reset(task_of("astron", entries=True, paused=True, locked=False))
    state = do(env, {"click": "Date"}, {"type": "2031-8-17\n"})
    assert [state[key] for key in ("year", "month", "day", "hour")] == [2031, 8, 17, 18]
    for wrong in ("2032", "2032-2-30", "2032-8-18-5", "a-b-c", "1-1-1"):
        assert do(env, {"click": "Date"}, {"type": wrong + "\n"})["year"] == 2031, wrong
    assert do(env, {"click": "Info"}, {"click": "Site"}, {"type": "33S 151E\n"})["place"] == "33S 151E"
    env.reset(task_of("astron"))
    assert "Date" not in {element.name for element in env.desk.elements()}


def test_astron_limit_and_field_of_view_take_other_values(desks):
    env = desks["astron"]
    env.reset(task_of("astron", fields=[75, 20, 135]))
    assert [element.name for element in env.desk.elements() if element.name.isdigit()] == [
        "20",
        "75",
        "135",
        "180",
    ]
    assert do(env, {"drag": ["Field", "75"]})["field"] == 75
    for typed, limit in (("3.7", 3.7), ("2.0", 2), ("6.1", 2), ("-1", 2)):
        assert (
            do(env, {"click": "View"}, {"click": "Limit"}, {"type": typed + "\n"}, {"press": "esc"})["limit"]
            == limit
        )


def test_hovering_changes_nothing(env):
    before = seen(env)
    for element in env.desk.elements():
        env.step(Action.hover(*element.center))
    assert seen(env) == before


# -- without Qt's libraries --------------------------------------------------------------------------------


@pytest.fixture
def failing_import(monkeypatch) -> Callable[[ImportError], None]:
    """Give a function that makes the import of Qt raise."""

    def fail(error: ImportError) -> None:
        def find_spec(name: str, *_: Any) -> None:
            if name == "PySide6.QtTest":
                raise error

        monkeypatch.delitem(sys.modules, "PySide6.QtTest")
        monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=find_spec), *sys.meta_path])

    return fail


def test_missing_system_libraries_are_named(failing_import):
    failing_import(ImportError("libEGL.so.1: cannot open shared object file: No such file or directory"))
    with pytest.raises(
        UserError, match=r"libEGL\.so\.1: cannot open.* apt-get install .*libegl1 .*libglib2\.0-0"
    ):
        desk_class("gis")


def test_a_package_that_is_not_installed_is_another_matter(failing_import):
    failing_import(ModuleNotFoundError("No module named 'PySide6'"))
    with pytest.raises(ModuleNotFoundError):
        desk_class("gis")
