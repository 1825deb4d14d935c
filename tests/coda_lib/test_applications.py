"""The table of applications: everything that it lists exists, and nothing exists that it does not list."""

from __future__ import annotations

from coda_lib.applications import ALL_APPS, APPLICATIONS, APPS, DESKTOP_APPS, NOVEL_APPS
from coda_lib.config import load_profile
from coda_lib.paths import REPO, TASKS
from sciencedesk.env import desk_class
from sciencedesk.real import app_class
from sciencedesk.space import has_space


def folders(*parts: str) -> set[str]:
    return {path.name for path in TASKS.joinpath(*parts).iterdir()}


def test_the_applications_of_table_1_and_their_numbers_of_test_tasks():
    """As in ScienceBoard (section 5)."""
    trained = {app.name: app.test_tasks for app in APPLICATIONS if app.trained}
    assert trained == {"algebra": 31, "biochem": 29, "gis": 34, "astron": 33} and sum(trained.values()) == 127
    assert tuple(trained) == APPS == load_profile("laptop").apps and ALL_APPS == APPS + NOVEL_APPS


def test_every_row_has_a_window_and_every_window_a_row():
    assert {app: desk_class(app).app for app in ALL_APPS} == {app: app for app in ALL_APPS}
    windows = {path.parent.name for path in (REPO / "sciencedesk" / "apps").glob("*/app.py")}
    seeds = {name.removesuffix(".yaml") for name in folders("seeds")}
    assert windows == set(ALL_APPS) == folders("test") - set(DESKTOP_APPS) == seeds


def test_every_real_application_has_a_class_and_tasks():
    assert tuple(app_class(kind).kind for kind in DESKTOP_APPS) == DESKTOP_APPS
    assert folders("apps") == set(DESKTOP_APPS)
    assert folders("test") & set(DESKTOP_APPS) == {app for app in DESKTOP_APPS if has_space(app)}
