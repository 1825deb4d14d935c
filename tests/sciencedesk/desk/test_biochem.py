"""Biochem: its molecules, and what settings put on offer."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from sciencedesk.apps.biochem.molecules import ELEMENTS, MOLECULES, element, structure, view
from sciencedesk.env import ScienceDesk
from sciencedesk.script import to_action


@pytest.fixture(scope="module")
def env() -> ScienceDesk:
    """Give one window, which each test starts anew."""
    return ScienceDesk("biochem")


def play(env: ScienceDesk, settings: dict[str, Any], *script: dict) -> dict[str, Any]:
    """The state after a script that starts with these settings."""
    env.desk.reset(settings)
    for step in script:
        env.desk.perform(to_action(env.desk, step))
    return env.desk.state()


def names(env: ScienceDesk, role: str = "button") -> list[str]:
    return [found.name for found in env.desk.elements() if found.role == role]


def test_no_atom_hides_another_and_every_name_can_be_read():
    assert len(MOLECULES) == 73
    for name in MOLECULES:
        assert len(name) <= 14 and {element(atom) for atom in structure(name).names} <= ELEMENTS.keys()
        points, _ = view(name, 0, 324, 156)
        assert all(
            np.abs(points[a, :2] - points[b, :2]).max() > 9 for a, b in combinations(range(len(points)), 2)
        ), name


def test_menus_offer_what_the_settings_name(env):
    play(env, {}, {"click": "Color"})
    assert names(env) == ["Element", "Red", "Green", "Blue"]
    start = {"molecule": "chloroform", "palette": ["Khaki", "Plum"], "kinds": ["Chlorine", "Nitrogen"]}
    state = play(
        env, start, {"click": "Select"}, {"click": "Chlorine"}, {"click": "Color"}, {"click": "Plum"}
    )
    assert (
        state["selected"] == ["Cl1", "Cl2", "Cl3"]
        and state["tint"]["Chlorine"] == "Plum"
        and state["tint"]["All"] == "mixed"
    )
    assert play(env, start, {"click": "Select"}, {"click": "Nitrogen"})["chosen"] == 0
    play(env, start, {"click": "Select"})
    assert names(env) == ["All", "None", "Nitrogen", "Chlorine"]
    play(env, {}, {"click": "Color"})
    assert names(env) == ["Element", "Red", "Green", "Blue"]  # a reset takes them back


def test_the_list_the_slider_and_the_charge_follow_their_settings(env):
    assert (
        play(env, {"tab": "Molecules", "library": ["ozone", "allene"]}, {"double": "allene"})["molecule"]
        == "allene"
    )
    assert play(env, {"turns": [75, 20, 310]}, {"drag": ["Turn", "310"]})["turn"] == 310
    assert names(env, "target") == ["0", "20", "75", "310"]
    charge = [{"click": "File"}, {"click": "Charge"}, {"type": "-17\n"}]
    assert play(env, {"molecule": "water", "charge_limit": 20}, *charge)["charge"] == -17
    assert (
        play(env, {"molecule": "water"}, *charge)["charge"] == 0 and "from -3 to 3" in env.desk.status.text()
    )


def test_molecules_are_found_by_name(env):
    find = [{"click": "File"}, {"click": "Find"}]
    start = {"files": ["Save", "Title", "Charge", "Find"]}
    assert play(env, start, *find, {"type": "dmso\n"})["molecule"] == "DMSO" and env.desk.dialog is None
    assert (
        play(env, start, *find, {"type": "sugar\n"})["molecule"] == ""
        and "no molecule" in env.desk.status.text()
    )


def test_a_torsion_is_of_four_atoms_not_in_a_row(env):
    torsion = [{"click": "Measure"}, {"click": "Torsion"}]
    start = {"molecule": "butane", "tools": ["Torsion"], "selected": ["C4", "C3", "C2", "C1"]}
    assert (
        play(env, start, *torsion)["measured"] == [["C1-C2-C3-C4", 180.0]]
        and env.desk.state()["result"] == "180 deg"
    )
    assert "Distance" not in names(env)
    play(env, start | {"molecule": "acetylene", "selected": list(structure("acetylene").names)}, *torsion)
    assert env.desk.state()["measured"] == [] and "on a line" in env.desk.status.text()


def test_notes_and_sample_numbers_have_fields_where_a_setting_says_so(env):
    start = {"tab": "Molecules", "fields": ["Note", "Sample"]}
    state = play(
        env, start, {"click": "Note"}, {"type": "dry salt\n"}, {"click": "Sample"}, {"type": "4711\n"}
    )
    assert (state["note"], state["sample"]) == ("dry salt", 4711)
    assert play(env, start, {"click": "Sample"}, {"type": "-5\n"})["sample"] == 0
    play(env, {"tab": "Molecules"})
    assert names(env, "field") == []
