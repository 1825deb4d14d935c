"""ScienceBoard's own task files: each is solved in a state, written from its rules, that solves it, and in no
other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from board_files import APPS, FOLDERS, State, each_edition, names

from coda_lib.errors import UserError
from coda_lib.trajectory import StopReason
from sciencedesk.board.check import STOPS, check_board
from sciencedesk.board.editions import NONE, files
from sciencedesk.board.files import BoardTask, Stop, load_board_task

REFUSED = {("verified", "GrassGIS"): {"B-12": "inspect"}}  # and a word of the reason


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_is_that_of_an_edition(folder):
    known = {app: files((folder / app).glob("*.json")).edition for app in APPS if (folder / app).is_dir()}
    assert known and NONE not in known.values()


@each_edition(*APPS)
def test_each_of_the_benchmarks_own_files_is_read_or_refused_by_name_with_a_reason(edition, app, folder):
    read, refused = set(), {}
    for path in folder.glob("*.json"):
        try:
            assert load_board_task(path).type == app
            read.add(path.stem)
        except UserError as error:
            refused[path.stem] = str(error)
            assert str(path) in str(error)
    expected = REFUSED.get((edition, app), {})
    assert refused.keys() == expected.keys() and all(expected[name] in refused[name] for name in refused)
    assert read == names(edition, app) - refused.keys()


def readable(edition: str, app: str) -> list[str]:
    return sorted(names(edition, app) - REFUSED.get((edition, app), {}).keys())


def boards(edition: str, app: str, folder: Path) -> Iterator[tuple[str, BoardTask, list[dict[str, Any]]]]:
    """Name, task and the items about the state of each file that can be read."""
    for name in readable(edition, app):
        path = folder / f"{name}.json"
        items = json.loads(path.read_text())["evaluate"]
        yield name, load_board_task(path), [item for item in items if item["type"] != "stop"]


def wrong_endings(board: BoardTask) -> list[bool]:
    """Whether a task about how an episode ends is solved by its own ending, and by none of the others."""
    (said,) = [item for item in board.evaluate if isinstance(item, Stop)]
    answer = " ".join(said.args) if said.args else None
    others = [(stop, answer) for stop in STOPS.values() if stop != STOPS[said.value]]
    others += [(STOPS[said.value], text) for text in (None, "", f"7{answer}") if answer]
    return [check_board(board, State(), STOPS[said.value], answer)] + [
        not check_board(board, State(), *other) for other in others
    ]


# ---- Celestia --------------------------------------------------------------------------------------------


def put(state, key, value):
    """Set what a key such as `lambda dump: dump['time']['scale']` reads."""
    *inner, last = re.findall(r"\['([^']+)'\]", key.removeprefix("lambda dump: dump"))
    for name in inner:
        state = state.setdefault(name, {})
    state[last] = value


def celestia(item, holds):
    """A value of an item's key with which it holds or not: far outside of the tolerance, or the other one."""
    if holds:
        return item["value"]
    return not item["value"] if isinstance(item["value"], bool) else item["value"] + 1e30


MOONS = {
    True: [1.0, 0.05, 0.0],
    False: [0.0, 1.0, 0.0],
}  # seen from the Earth: close to the Sun at [1, 0, 0], or not


@each_edition("Celestia")
def test_celestias_tasks_are_solved_in_states_that_solve_them_and_in_no_others(edition, app, folder):
    verdicts, answers = [], 0
    for name, board, items in boards(edition, app, folder):
        (said,) = [item for item in board.evaluate if isinstance(item, Stop)] or [None]
        stop = STOPS[said.value] if said else StopReason.DONE
        answer = " ".join(said.args) if said and said.args else None
        for wrong in (None, *range(len(items))):
            state = {
                "entity": {
                    name: {"position": at} for name, at in (("Sol", [1.0, 0, 0]), ("Earth", [0.0, 0, 0]))
                }
            }
            state["entity"]["Moon"] = {"position": MOONS[True]}
            for number, item in enumerate(items):
                if ":=" in item["key"]:
                    state["entity"]["Moon"]["position"] = MOONS[number != wrong]
                else:
                    put(state, item["key"], celestia(item, number != wrong))
            verdicts.append(
                (name, wrong, check_board(board, State(dump=state), stop, answer) is (wrong is None))
            )
        if items:
            verdicts.append((name, "no state", check_board(board, State(dump={}), stop, answer) is False))
        if answer:
            answers += 1
            others = (None, "", "7" + answer)
            verdicts += [
                (name, given, not check_board(board, State(dump={}), stop, given)) for given in others
            ]
            verdicts.append((name, "DONE", not check_board(board, State(dump={}), StopReason.DONE, answer)))
    assert not [verdict for verdict in verdicts if not verdict[-1]]
    assert {name for name, *_ in verdicts} == names(edition, app)
    assert answers == 12 and len(verdicts) > 100


# ---- GRASS GIS -------------------------------------------------------------------------------------------


def layers(*names: str, **more: Any) -> dict[str, Any]:
    return {"layers": [{"name": f"{name}@PERMANENT", **more} for name in names]}


def drawn(layer: str, **parameters: Any) -> dict[str, Any]:
    """The tree of layers with what a layer's command is given."""
    given = [{"name": name, "value": value} for name, value in parameters.items()]
    return {
        "windows": [
            {"name": "natural_earth@PERMANENT"},
            {"name": f"{layer}@PERMANENT", "_data": [{}, {"params": given}]},
        ]
    }


def at(**of_region: float) -> dict[str, Any]:
    return {"region": of_region, "statusbar": {"scale": of_region.pop("scale", 25.0)}}


def columns(**types: str) -> dict[str, Any]:
    return {"info": {"columns": [{"name": name, "sql_type": kind} for name, kind in types.items()]}}


BULGARIA = {"n": 44.5, "s": 41.0, "e": 29.0, "w": 22.0}
LABEL = {"attribute_column": "NOME", "font": "Ubuntu:Bold", "xref": "center"}
GRASS = {  # a state that solves the task, and states that do not
    "A-01": (layers("natural_earth", "countries"), layers("natural_earth")),
    "A-02": (layers("countries"), layers("natural_earth", "countries"), layers()),
    "A-03": ({"toolbars": {"shown": False}}, {"toolbars": {"shown": True}}),
    "A-04": (
        {"toolbars": {"keys": ["map", "vdigit"], "layer": {"name": "countries@PERMANENT"}}},
        {"toolbars": {"keys": ["map"], "layer": {"name": "countries@PERMANENT"}}},
        {"toolbars": {"keys": ["map", "vdigit"], "layer": {"name": "rivers@PERMANENT"}}},
        {"toolbars": {"keys": [], "layer": None}},
    ),
    "A-05": ({"statusbar": {"mode": 3}}, {"statusbar": {"mode": 0}}),
    "A-06": (at(scale=400.05), at(scale=400.2), at(scale=25.0)),
    "A-07": (
        at(center_easting=385.0, center_northing=20.05), at(center_easting=24.8, center_northing=20.0),
        at(center_easting=25.0, center_northing=-20.0),
    ),
    "A-08": (
        at(**BULGARIA), at(**BULGARIA, scale=10.0),
        *(at(**BULGARIA | {side: 42.5 if side in "ns" else 25.0}) for side in BULGARIA),
    ),
    "B-01": (layers("countries", opacity=0.5), layers("countries", opacity=1.0),
             layers("rivers", opacity=0.5)),
    "B-02": (
        {"windows": [{"name": "countries@PERMANENT", "_text": "country_boundaries"}]},
        {"windows": [{"name": "countries@PERMANENT", "_text": "countries@PERMANENT"}]},
    ),
    "B-03": (drawn("boundary_region", display="shape,cat,topo"), drawn("boundary_region", display="cat"),
             {"windows": []}),
    "B-04": (drawn("boundary_region", fill_color="191:191:191:255"),
             drawn("boundary_region", fill_color="200:200:200:255")),
    "B-05": (drawn("roadsmajor", color="255:255:255:255"), drawn("roadsmajor", color="0:0:0"),
             drawn("roads")),
    "B-06": (drawn("railroads", width="2"), drawn("railroads", width="3"), drawn("railroads")),
    "B-07": (drawn("firestations", icon="basic/marker"), drawn("firestations", icon="basic/x")),
    "B-08": (drawn("hospitals", size="10"), drawn("hospitals", size="5")),
    "B-09": (drawn("schools", where="wheelchair = 'yes'"), drawn("schools", where=""), drawn("schools")),
    "B-10": (drawn("boundary_region", **LABEL), *(drawn("boundary_region",
                                                        **LABEL | {name: "left"}) for name in LABEL)),
    "B-11": ({"output": "(now)\nv.info map=boundary_region@PERMANENT\n"},
             {"output": "v.info map=rivers@PERMANENT"}),
    "B-12": ({"output": "north: 5\nn: 263975\n"}, {"output": "n: 26397"}),
}  # fmt: skip
DATABASE = {  # what a module prints, likewise
    "D-01": (columns(cat="INTEGER", COLOR="{type}"), columns(cat="INTEGER"), columns(COLOR="INTEGER")),
    "D-02": (columns(cat="INTEGER"), columns(cat="INTEGER", ISTAT="CHARACTER")),
    "D-03": (
        {"records": [{"name": "Garibaldi", "start_date": "1896"},
                     {"name": "Guglielmo Pepe", "start_date": "1858"}]},
        {"records": [{"name": "Guglielmo Pepe", "start_date": None}]}, {"records": []},
    ),
    "D-04": (
        "cat|x|y|z\n257|-79.1050308691105|8.348947891274|0\n",
        "cat|x|y|z\n256|14.0|35.9|0\n257|-79.1050308691105|8.348947891274|0\n", "",
    ),
}  # fmt: skip


COLUMN = {"release": "CHARACTER", "verified": "TEXT"}  # type of the column of D-01


def as_command(state: dict[str, Any]) -> dict[str, Any]:
    """A state of `drawn`, its parameters given with the command of the layer instead."""
    name, given = state["windows"][1]["name"], state["windows"][1]["_data"][1]["params"]
    command = ["d.vect", {"map": name} | {part["name"]: part["value"] for part in given}]
    return {"windows": [], "layers": [{"name": name, "cmd": command}]}


@each_edition("GrassGIS")
def test_tasks_of_grass_gis_are_solved_in_states_that_solve_them_and_in_no_others(edition, app, folder):
    played = {}
    for name, board, items in boards(edition, app, folder):
        if not items:
            played[name] = wrong_endings(board)
            continue
        states = [State(dump=dump) for dump in GRASS.get(name, ())]
        for said in DATABASE.get(name, ()):
            said = json.loads(json.dumps(said).replace("{type}", COLUMN[edition]))
            states.append(State(command={(items[0]["cmd"], items[0]["kwargs"]["map"]): said}))
        holds = [check_board(board, state, StopReason.DONE, None) for state in states]
        played[name] = [holds[0], *(not hold for hold in holds[1:])]
    assert not [name for name, right in played.items() if not all(right)]
    assert sorted(played) == readable(edition, app)
    assert min(map(len, played.values())) > 1 and sum(map(len, played.values())) > 90


@each_edition("GrassGIS")
def test_what_the_corrected_edition_changed_in_keys_of_grass_gis(edition, app, folder):
    board, verified = lambda name: load_board_task(folder / f"{name}.json"), edition == "verified"
    for number in range(3, 11):
        state = State(dump=as_command(GRASS[name := f"B-{number:02}"][0]))
        assert check_board(board(name), state, StopReason.DONE, None) is verified, name
    others = drawn("schools", where="wheelchair != 'yes'")  # the schools that are not asked for
    assert check_board(board("B-09"), State(dump=others), StopReason.DONE, None) is not verified


# ---- ChimeraX --------------------------------------------------------------------------------------------

LIKE = {"+": "", "\\.": ".", "^": "", "\\[": "[", "\\]": "]"}  # what turns a pattern into a text that it fits


def where(item: dict[str, Any], finds: list[str]) -> tuple[dict[str, Any], str]:
    """The states in which an item's `find` finds something, and the key that the item then looks at."""
    found, key = item.get("find"), item["key"]
    if not found:
        return {}, re.search(r"'(.*)'", key)[1] + ".of_a_base" if key.startswith("lambda") else key
    ending, named = re.search(r"endswith\('(.*?)'\)", found)[1], re.search(r"value == '(.*)'", found)
    meta = (
        f"models.({finds.index(found)},).drawing._name"
        if ending.startswith("drawing")
        else f"models.({finds.index(found)},)._name"
    )
    meta = meta if meta.endswith(ending) else f"tools.{ending}"
    steps = re.search(r"split\('.'\)\[:(-\d)\] \+ (\[.*?\])", key)
    target = ".".join(meta.split(".")[: int(steps[1])] + re.findall(r"'(\w+)'", steps[2])) if steps else meta
    return ({meta: named[1]} if named else {}), target


def chimerax(items: list[dict[str, Any]], wrong: int | None) -> State:
    """A state in which all items hold but for the one of that number."""
    states, info, files, finds = {}, {}, {}, [item.get("find", "") for item in items]
    for number, item in enumerate(items):
        holds = number != wrong
        if item["type"] == "file":
            day = date.today() if holds else date.today() - timedelta(1)
            text = (
                day.isoformat()
                if item["value"].startswith("lambda")
                else item["value"]
                if holds
                else item["value"][:-1]
            )
            files[item["key"]] = files.get(item["key"], "") + f"{text}\n"
            continue
        if item["type"] == "info":
            info[item["key"]] = item["value"] if holds else item["value"][:-1]
            continue
        found, target = where(item, finds)
        states |= found
        if "pattern" in item:
            text = item["pattern"]
            for sign, character in LIKE.items():
                text = text.replace(sign, character)
            if holds and target not in found:
                states[target] = text
            elif not holds:
                states[target] = ""
        elif item["value"] is not None:
            states[target] = item["value"] if holds else "another value"
        elif not holds:
            states[target] = 1
    return State(dump=states, info=info, file=files)


@each_edition("ChimeraX")
def test_tasks_of_chimerax_are_solved_in_states_that_solve_them_and_in_no_others(edition, app, folder):
    played = {}
    for name, board, items in boards(edition, app, folder):
        if not items:
            played[name] = wrong_endings(board)
            continue
        absent = {kind: [item["key"] for item in items if item["type"] == kind] for kind in ("info", "file")}
        nothing = State(dump={}, info=dict.fromkeys(absent["info"], ()), file=dict.fromkeys(absent["file"]))
        holds = [
            check_board(board, chimerax(items, wrong), StopReason.DONE, None)
            for wrong in (None, *range(len(items)))
        ]
        bare = check_board(board, nothing, StopReason.DONE, None)
        played[name] = [
            holds[0],
            *(not hold for hold in holds[1:]),
            bare is (name == "A-10"),
        ]  # it is to take styles away
    assert not [name for name, right in played.items() if not all(right)]
    assert played.keys() == names(edition, app) and sum(map(len, played.values())) > 100
