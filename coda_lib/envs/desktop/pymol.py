"""PyMOL 2.5 of Debian 12.  A function of this module runs inside of it and answers by XML-RPC on a port of its own."""

from __future__ import annotations

import inspect
import json
import re
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy, Transport

import numpy as np
import psutil

from coda_lib.envs.base import EnvironmentFault
from coda_lib.envs.desktop.app import START_S, App
from coda_lib.envs.desktop.connection import Connection
from coda_lib.envs.desktop.display import Display
from coda_lib.envs.desktop.isolation import HOST
from coda_lib.envs.pyautogui import Call
from coda_lib.errors import UserError

CONSOLE = 80  # px, its height
OWN_TOP = 132  # px, where the part begins that it draws itself: the picture, the list of objects and their menus
OWN_S = 0.35  # there a menu takes no click sooner, and a click in the picture waits for a second one
POINTING = ("click", "doubleClick", "rightClick", "moveTo")  # an action that ends so
ANSWER_S = 30.0  # for it to answer
QUIT_S = 3.0  # for it to have ended once it does not answer any more
DATA = "/usr/share/pymol/data/"
EXAMPLES = {"1hpv": "tut/1hpv.pdb", "il2": "demo/il2.pdb", "pept": "demo/pept.pdb"}  # it brings them
COMMANDS = frozenset((
    "angle", "bg_color", "bond", "cartoon", "center", "clip", "color", "copy", "create", "delete", "deselect", "dihedral",
    "disable", "distance", "dss", "enable", "extract", "fab", "group", "h_add", "hide", "move", "orient", "remove", "scene",
    "select", "set_name", "show", "show_as", "turn", "zoom",
))  # with which a task may begin: none reads or writes a file, or evaluates what it is given  # fmt: skip
PLAIN_COMMANDS = frozenset(("fragment", "set"))  # these do, but nothing comes of text such as _PLAIN
_PLAIN = re.compile(r"[\w .+-]*")
_ATOM = ("object", "chain", "resi", "resn", "name", "elem", "color", "shown", "label", "ss", "selections")


class PyMOL(App):
    """Its state, colors as #rrggbb (None: the default): objects (type, enabled, states, settings of its own; of molecules also
    atoms, chains, how many atoms are shown in each way and have each color), atoms (as _ATOM says), selections (their numbers of
    atoms), active (selections that are shown), measurements (distances in angstrom, angles and dihedrals in degrees, labels),
    settings, background, view, scenes, frames, frame, playing, wizard, files (new in its folder).
    """

    kind = "PyMOL"
    sleeps = True  # it asks fifty times a second whether there is anything to do
    needs = {"/usr/bin/pymol": "pymol"}

    def launch(self) -> int:
        start = ["pymol", "-k", "-q", "-V", str(CONSOLE), "-d", "/import __main__; __main__._serve()"]
        program = f"{inspect.getsource(_serve)}\nimport pymol\npymol.launch({start})"
        secret, end = secrets.token_hex(), time.monotonic() + START_S
        self.pid = self.display.start(["/usr/bin/python3", "-c", program], {"CODA_SECRET": secret})
        while not (ports := self.display.listening(self.pid)):
            if time.monotonic() > end or self.display.ended(self.pid) is not None:
                raise EnvironmentFault(f"PyMOL does not start in {START_S:g} s")
            time.sleep(0.05)
        self.server = ServerProxy(f"http://{HOST}/{secret}", ToDisplay(self.display, ports[0]), allow_none=True)
        self.display.settled(OWN_S, idle=self.pid)  # the window manager sizes its window
        self.first, self.kept = self._ask("clear"), {file.name for file in self.home.iterdir()}
        return self.pid

    def fresh(self) -> None:
        """By its own command; by another start where that leaves something, such as a dialog."""
        for file in self._files():
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        if self._ask("clear") != self.first or psutil.Process(self.pid).children():  # another window is another process
            super().fresh()

    def prepare(self, item: Any) -> None:
        """UserError also for what PyMOL refuses."""
        match item.func, item.name if item.func == "call" else None:
            case "touch", _:
                self.place(item.path).write_text(item.text, encoding="utf-8")
            case "call", "example" if len(item.args) == 1 and item.args[0] in EXAMPLES:
                self._ask("call", "load", [DATA + EXAMPLES[item.args[0]]], {})
            case "call", name if name in COMMANDS or name in PLAIN_COMMANDS:
                given = [*item.args, *item.kwargs.values()]
                if name in PLAIN_COMMANDS and not all(_PLAIN.fullmatch(str(one)) for one in given):
                    raise UserError(f"task {self.task.id}: initialize: {name}: only words and numbers, not {given}")
                if refusal := self._ask("call", name, item.args, item.kwargs):
                    raise UserError(f"task {self.task.id}: initialize: {name}: {refusal}")
            case "call", name:
                raise UserError(f"task {self.task.id}: initialize: no call {name!r} of {item.args}")
            case _:
                super().prepare(item)

    def act(self, calls: Sequence[Call]) -> None:
        """With a little way for the mouse before each click: its own menus take the first motion for the way to them."""
        name, at, _ = calls[-1] if calls else ("", (), {})
        self.still_s = OWN_S if name in POINTING and at[1] > OWN_TOP else PyMOL.still_s
        if name in POINTING:
            super().act([("moveTo", (at[0], at[1] - 1), {})])
            for _ in range(2):  # until it has seen that: of two motions at a time it sees one
                self._ask("say")
        super().act(calls)

    def settled(self) -> np.ndarray:
        """As for any application, but with all that it has to say in its console."""
        if not self.closed:
            self._ask("say")
        return super().settled()

    def state(self) -> dict[str, Any]:
        told = self._ask("state")
        if self.closed:
            return {}
        state = json.loads(told)
        state["atoms"] = [dict(zip(_ATOM, atom, strict=True)) for atom in state["atoms"]]
        for name, about in state["objects"].items():
            if about["type"] == "molecule":
                atoms = [atom for atom in state["atoms"] if atom["object"] == name]
                about["atoms"], about["chains"] = len(atoms), sorted({atom["chain"] for atom in atoms})
                about["shown"] = dict(Counter(way for atom in atoms for way in atom["shown"]))
                about["colors"] = dict(Counter(atom["color"] for atom in atoms))
        state["files"] = [file.name for file in self._files() if not file.name.startswith(".")]
        return state | {"background": state["settings"]["bg_rgb"]}

    def _files(self) -> list[Path]:
        return sorted(file for file in self.home.iterdir() if file.name not in self.kept)

    def _ask(self, name: str, *given: Any) -> Any:
        """None where it has been closed."""
        try:
            return getattr(self.server, name)(*given)
        except (OSError, HTTPException, Fault) as error:  # a fault, too, when its window is gone and the rest is not
            end = time.monotonic() + QUIT_S
            while (status := self.display.ended(self.pid)) is None and time.monotonic() < end:
                time.sleep(0.02)
            if status != 0:
                self.close()
                raise EnvironmentFault(f"PyMOL does not answer (exit status {status}): {error}") from error
            self.closed = True


class ToDisplay(Transport):
    """To a server on a display's network."""

    def __init__(self, display: Display, port: int):
        super().__init__()
        self._display, self._port = display, port

    def make_connection(self, host: Any) -> HTTPConnection:
        if self._connection[1] is None:
            self._connection = host, Connection(self._display, self._port, ANSWER_S)
        return self._connection[1]


def _serve() -> None:
    """Answer from inside of PyMOL once its window is there; its own Python runs this, and knows nothing else of this module."""
    import json
    import math
    import os
    import threading
    from collections import defaultdict

    from chempy import cpv
    from pmg_qt.pymol_qt_gui import window
    from pymol import cmd, rpc, setting
    from pymol.constants import repres
    from pymol.Qt import QtCore, QtWidgets

    home, boolean, color_type = os.getcwd(), 1, 5
    secret = os.environ.pop("CODA_SECRET")  # whoever asks has to know it
    ways = [(name, 1 << bit) for name, bit in repres.items() if bit >= 0]
    QtWidgets.QApplication.setCursorFlashTime(0)  # for a picture that stands still
    QtWidgets.QApplication.desktop()  # which the first drag would make

    class Errands(QtCore.QObject):
        """What only the thread of the window may do."""

        given = QtCore.pyqtSignal(object)

        def run(self, work):
            found, done = [], threading.Event()
            self.given.emit(lambda: (found.append(work()), done.set()))
            done.wait()
            return found[0]

    errands = Errands()
    errands.given.connect(lambda work: work(), QtCore.Qt.QueuedConnection)

    def call(name, given, named):
        """Returns what went wrong, if anything."""
        try:
            getattr(cmd, name)(*given, **named)
        except Exception as error:  # whatever it is, it is for the client to know
            return str(error) or type(error).__name__

    def say():
        """Do at once what its timers would do within half a second: draw, and write to the console."""
        errands.run(lambda: (window.pymolwidget._pymolProcess(), window.update_feedback()))

    def clear():
        """Bring back what can be; returns all else that is as after the start, if it is."""
        errands.run(leave)
        cmd.mset()  # of a movie, its bar would stay
        cmd.reinitialize()
        cmd.enable("all")  # the entry of that name, too
        os.chdir(home)
        return errands.run(tidy)

    def leave():
        """Close its own menus, of which each may have opened another, by clicks beside them."""
        for x in range(1, 100, 20):
            for released in (0, 1):
                window.pymolwidget.pymol.button(0, released, x, 1, 0)

    def tidy():
        while menu := QtWidgets.QApplication.activePopupWidget():
            menu.close()
        window.update_feedback()
        window.browser.clear()
        window.lineedit.clear()
        window._setup_history()
        window.lineedit.setFocus()
        kinds = sorted(type(widget).__name__ for widget in QtWidgets.QApplication.allWidgets())
        places = [[*part.geometry().getRect(), part.isVisible()] for part in (window, window.ext_window, window.menubar)]
        return [kinds, places, sorted(cmd.keyword), sorted(cmd.key_mappings)]

    def rgb(index):
        return "#{:02x}{:02x}{:02x}".format(*(round(255 * part) for part in cmd.get_color_tuple(index))) if index >= 0 else None

    def value(kind, content):
        return bool(content) if kind == boolean else rgb(content) if kind == color_type else content

    def atoms():
        found, chosen = [], defaultdict(list)
        fields = "model, index, chain, resi, resn, name, elem, color, reps, label, ss"
        cmd.iterate("all", f"found.append(({fields}))", space={"found": found})
        for name in cmd.get_names("public_selections"):
            for atom in cmd.index(f"%{name}"):
                chosen[atom].append(name)
        return [
            (model, *which, rgb(color), [way for way, bit in ways if reps & bit], label, ss, chosen[model, index])
            for model, index, *which, color, reps, label, ss in found
        ]

    def about(name):
        its = cmd.get_object_settings(name) or ()
        return {
            "type": cmd.get_type(name).removeprefix("object:"),
            "enabled": name in cmd.get_names("objects", 1),
            "states": cmd.count_states(name),
            "settings": {setting._get_name(index): value(kind, content) for index, kind, content in its},
        }

    def dihedral(first, second, third, last):
        axis = cpv.normalize(cpv.sub(third, second))
        a, b = (cpv.cross_product(axis, cpv.sub(*ends)) for ends in ((first, second), (last, third)))
        return math.degrees(math.atan2(cpv.dot_product(cpv.cross_product(a, b), axis), cpv.dot_product(a, b)))

    def measured(name):
        """A measurement's values by the points between which it was made, as a session file has them for each state."""
        found = {"labels": repres["labels"] in cmd.get_vis()[name][2], "distances": [], "angles": [], "dihedrals": []}
        for state in filter(None, cmd.get_session(name, partial=1)["names"][0][5][2]):
            for kind, block, points, length, measure in (
                ("distances", state[1], 2, 6, cpv.distance),
                ("angles", state[4], 3, 15, lambda *at: math.degrees(cpv.get_angle_formed_by(*at))),
                ("dihedrals", state[6], 4, 18, dihedral),
            ):
                for start in range(0, len(block or ()), length):
                    found[kind].append(measure(*(block[start + 3 * at : start + 3 * at + 3] for at in range(points))))
        return found

    def state():
        wizard = cmd.get_wizard()
        return json.dumps({
            "objects": {name: about(name) for name in cmd.get_names("public_objects")},
            "atoms": atoms(),
            "selections": {name: cmd.count_atoms(f"%{name}") for name in cmd.get_names("public_selections")},
            "active": cmd.get_names("public_selections", 1),
            "measurements": {name: measured(name) for name in cmd.get_names_of_type("object:measurement")},
            "settings": {
                name: value(kind, content[0] if len(content) == 1 else content)
                for name, (kind, content) in ((name, cmd.get_setting_tuple(name)) for name in setting.get_name_list())
            },
            "view": cmd.get_view(), "scenes": cmd.get_scene_list(), "wizard": wizard and type(wizard).__name__,
            "frames": cmd.count_frames(), "frame": cmd.get_frame(), "playing": bool(cmd.get_movie_playing()),
        })  # fmt: skip

    rpc.launch_XMLRPC("127.0.0.1", 0)
    rpc.serv.RequestHandlerClass.rpc_paths = (f"/{secret}",)
    for function in (call, say, clear, state):
        rpc.serv.register_function(function)
