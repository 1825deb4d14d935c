"""PyMOL 2.5 of Debian 12.  `_serve` runs inside PyMOL and answers XML-RPC calls on a free port."""

from __future__ import annotations

import inspect
import json
import re
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy, Transport

import numpy as np
import psutil

from coda_lib.envs.base import EnvironmentFault
from coda_lib.envs.desktop.app import App
from coda_lib.envs.desktop.connection import Connection
from coda_lib.envs.desktop.display import Display
from coda_lib.envs.desktop.isolation import HOST
from coda_lib.envs.pyautogui import Call
from coda_lib.errors import UserError

CONSOLE = 80  # height of its console, px
OWN_TOP = 132  # px; below it PyMOL draws its own widgets: the picture, the list of objects, their menus
OWN_S = 0.35  # their delay: a new menu takes no click, and a click in the picture waits for a second one
POINTING = ("click", "doubleClick", "rightClick", "moveTo")  # last calls of an action that points
ANSWER_S = 30.0
QUIT_S = 3.0  # for it to end after it has stopped answering
DATA = "/usr/share/pymol/data/"
EXAMPLES = {"1hpv": "tut/1hpv.pdb", "il2": "demo/il2.pdb", "pept": "demo/pept.pdb"}  # part of its package
COMMANDS = frozenset((
    "angle", "bg_color", "bond", "cartoon", "center", "clip", "color", "copy", "create", "delete", "deselect", "dihedral",
    "disable", "distance", "dss", "enable", "extract", "fab", "group", "h_add", "hide", "move", "orient", "remove", "scene",
    "select", "set_name", "show", "show_as", "turn", "zoom",
))  # for a task's `initialize`: none reads or writes a file or evaluates an argument  # fmt: skip
PLAIN_COMMANDS = frozenset(("fragment", "set"))  # these do, but not with arguments like _PLAIN
_PLAIN = re.compile(r"[\w .+-]*")
_NAME = re.compile(r"[A-Za-z]\w*")
SETTINGS = {  # those that its task space is about: a menu's entry, or a number
    "seq_view": False, "internal_gui": True, "orthoscopic": False, "valence": True, "depth_cue": True, "line_smooth": True,
    "sphere_scale": 1.0, "stick_radius": 0.25, "line_width": 1.49, "ribbon_width": 3.0, "label_size": 14.0, "transparency": 0.0,
    "seq_view_format": 0, "seq_view_label_mode": 2, "mouse_selection_mode": 1,
}  # fmt: skip
LETTERS = {
    "ALA": "A", "CYS": "C", "ASP": "D", "GLU": "E", "PHE": "F", "GLY": "G", "HIS": "H", "ILE": "I", "LYS": "K", "LEU": "L",
    "MET": "M", "ASN": "N", "PRO": "P", "GLN": "Q", "ARG": "R", "SER": "S", "THR": "T", "VAL": "V", "TRP": "W", "TYR": "Y",
}  # fmt: skip
COLORS = {  # the colors of its task space by PyMOL's names
    "white": "#ffffff", "black": "#000000", "red": "#ff0000", "green": "#00ff00", "blue": "#0000ff", "yellow": "#ffff00",
    "magenta": "#ff00ff", "cyan": "#00ffff", "orange": "#ff8000", "grey": "#808080", "purple": "#bf00bf", "pink": "#ffa6d9",
    "salmon": "#ff9999", "slate": "#8080ff", "violet": "#ff80ff", "teal": "#00bfbf", "olive": "#c4b200", "wheat": "#fcd1a6",
    "marine": "#0080ff", "forest": "#339933", "firebrick": "#b22121", "chocolate": "#8e391c", "brown": "#a6522b",
    "hotpink": "#ff0080", "lime": "#80ff80", "limon": "#bfff40", "deepteal": "#1a9999", "deepblue": "#4040a6",
    "deeppurple": "#991a99", "deepolive": "#99991a", "density": "#1a1a99", "ruby": "#993333", "raspberry": "#b24d66",
    "sand": "#b88c4d", "skyblue": "#3380cc", "warmpink": "#d93380", "palegreen": "#a6e5a6", "aquamarine": "#80ffff",
    "lightblue": "#bfbfff", "limegreen": "#00ff80", "splitpea": "#85bf00", "smudge": "#8cb266", "brightorange": "#ffb233",
    "purpleblue": "#8000ff", "lightorange": "#ffcc80", "lightteal": "#66b2b2", "paleyellow": "#ffff80", "silver": "#c0c0c0",
}  # fmt: skip
NAMED = {tint: name for name, tint in COLORS.items()}
_ATOM = ("object", "chain", "resi", "resn", "name", "elem", "color", "shown", "label", "ss", "selections")


class PyMOL(App):
    """State, colors as #rrggbb (None: the default): objects (type, enabled, states, settings; for molecules also atoms, chains,
    numbers of atoms by representation and by color), atoms (fields: _ATOM), selections (numbers of atoms), active (shown
    selections), measurements (distances in angstrom, angles and dihedrals in degrees, labels), settings, background, view,
    scenes, frames, frame, playing, wizard, files (new in its folder).
    """

    kind = "PyMOL"
    sleeps = True  # its event loop polls fifty times a second
    needs = {"/usr/bin/pymol": "pymol"}
    defaults = {"background": "black", "settings": SETTINGS}

    def launch(self) -> int:
        start = ["pymol", "-k", "-q", "-V", str(CONSOLE), "-d", "/import __main__; __main__._serve()"]
        program = f"{inspect.getsource(_serve)}\nimport pymol\npymol.launch({start})"
        secret = secrets.token_hex()
        self.pid = self.display.start(["/usr/bin/python3", "-c", program], {"CODA_SECRET": secret})
        ports = self.wait_until(lambda: self.display.listening(self.pid), self.pid)
        self.server = ServerProxy(f"http://{HOST}/{secret}", ToDisplay(self.display, ports[0]), allow_none=True)
        self.display.settled(OWN_S, idle=self.pid)  # the window manager sizes its window
        self.first, self.own_files = self._ask("clear"), {file.name for file in self.home.iterdir()}
        return self.pid

    def fresh(self) -> None:
        """By its command `reinitialize`; by another start where that leaves something, such as a dialog."""
        for file in self._files():
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        if self._ask("clear") != self.first or psutil.Process(self.pid).children():  # a further window is a process
            super().fresh()

    def prepare(self, item: Any) -> None:
        """UserError also for a call that PyMOL refuses."""
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

    def set(self, key: str, value: Any) -> None:
        """`peptide`: a molecule `prot` of this sequence; `fragments`: benzene rings of these names; `background`; a setting."""
        match key, value:
            case "peptide", str() if set(value) <= set(LETTERS.values()):
                given = "fab", [value, "prot"]
            case "background", str() if value in COLORS:
                given = "bg_color", [value]
            case "settings", dict() if value.keys() <= SETTINGS.keys():
                for name, number in value.items():
                    self._ask("call", "set", [name, number], {})
                return
            case "fragments", list() if all(_NAME.fullmatch(str(name)) for name in value):
                for name in value:
                    self._ask("call", "fragment", ["benzene", name], {})
                return
            case _:
                return super().set(key, value)
        if refusal := self._ask("call", *given, {}):
            raise UserError(f"task {self.task.id}: initialize: {key}: {refusal}")

    def facts(self) -> dict[str, Any]:
        """`ways`: of each kind of residue the representations in which all its atoms are shown; `tints`: the color of its atoms
        if all have the same of `COLORS`; `chosen`: of each selection the kind of residue that it is made of; `molecules`
        (sequence, tint and ways); `objects` (enabled or not), `background`, `settings`, `scenes`.
        """
        state = self.now()
        if not state:
            return {}
        kinds, molecules = (_grouped(state["atoms"], key) for key in ("resn", "object"))
        return {
            "ways": {kind: _ways(atoms) for kind, atoms in kinds.items()},
            "tints": {kind: _tint(atoms) for kind, atoms in kinds.items()},
            "chosen": {name: _kind(name, kinds) for name in state["selections"]},
            "molecules": {
                name: {"sequence": _sequence(atoms), "tint": _tint(atoms), "ways": _ways(atoms)}
                for name, atoms in molecules.items()
            },
            "objects": {name: about["enabled"] for name, about in state["objects"].items()},
            "background": NAMED.get(state["background"]), "scenes": state["scenes"],
            "settings": {name: state["settings"][name] for name in SETTINGS},
        }  # fmt: skip

    def elements(self) -> list[Any]:
        """Its menus, buttons and input line as Qt places them, and the rows of its list of objects, which it draws itself."""
        from coda_lib.envs.desktop.named import element

        with self.awake():
            found = self._ask("widgets") or []
        return [element(name, role, box, text, self.size) for name, role, box, text in found]

    def act(self, calls: Sequence[Call]) -> None:
        """Move the mouse one pixel before each click: PyMOL's menus ignore the first motion."""
        name, at, _ = calls[-1] if calls else ("", (), {})
        self.still_s = OWN_S if name in POINTING and at[1] > OWN_TOP else PyMOL.still_s
        if name in POINTING:
            super().act([("moveTo", (at[0], at[1] - 1), {})])
            for _ in range(2):  # until the motion is handled: of two pending motions one is lost
                self._ask("flush")
        super().act(calls)

    def settled(self) -> np.ndarray:
        """The screen with all pending output in the console."""
        if not self.closed:
            self._ask("flush")
        return super().settled()

    def state(self) -> dict[str, Any]:
        reply = self._ask("state")
        if self.closed:
            return {}
        state = json.loads(reply)
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
        return sorted(file for file in self.home.iterdir() if file.name not in self.own_files)

    def _ask(self, name: str, *given: Any) -> Any:
        """The result of a function of `_serve`; None where PyMOL has been closed."""
        try:
            return getattr(self.server, name)(*given)
        except (OSError, HTTPException, Fault) as error:  # a Fault where its window is closed before the rest
            end = time.monotonic() + QUIT_S
            while (status := self.display.ended(self.pid)) is None and time.monotonic() < end:
                time.sleep(0.02)
            if status != 0:
                self.close()
                raise EnvironmentFault(f"PyMOL does not answer (exit status {status}): {error}") from error
            self.closed = True


def _grouped(atoms: Iterable[Mapping[str, Any]], key: str) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for atom in atoms:
        groups.setdefault(atom[key], []).append(atom)
    return groups


def _ways(atoms: Sequence[Mapping[str, Any]]) -> list[str]:
    """The representations in which all these atoms are shown."""
    return sorted(set.intersection(*(set(atom["shown"]) for atom in atoms)))


def _tint(atoms: Iterable[Mapping[str, Any]]) -> str | None:
    """The color that all these atoms have, if it is one of `COLORS`."""
    tints = {atom["color"] for atom in atoms}
    return NAMED.get(tints.pop()) if len(tints) == 1 else None


def _sequence(atoms: Iterable[Mapping[str, Any]]) -> str:
    return "".join(LETTERS.get(atom["resn"], "?") for atom in atoms if atom["name"] == "CA")


def _kind(selection: str, kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> str | None:
    """The kind of residue whose atoms make up a selection; None where it is another choice of atoms."""
    chosen = [kind for kind, atoms in kinds.items() if any(selection in atom["selections"] for atom in atoms)]
    whole = len(chosen) == 1 and all(selection in atom["selections"] for atom in kinds[chosen[0]])
    return chosen[0] if whole else None


class ToDisplay(Transport):
    """XML-RPC to a server on the display's network."""

    def __init__(self, display: Display, port: int):
        super().__init__()
        self._display, self._port = display, port

    def make_connection(self, host: Any) -> HTTPConnection:
        if self._connection[1] is None:
            self._connection = host, Connection(self._display, self._port, ANSWER_S)
        return self._connection[1]


def _serve() -> None:
    """Serve from inside PyMOL.  PyMOL's Python runs the source of this function, without the rest of this module."""
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
    secret = os.environ.pop("CODA_SECRET")  # part of the URL
    ways = [(name, 1 << bit) for name, bit in repres.items() if bit >= 0]
    QtWidgets.QApplication.setCursorFlashTime(0)  # so that the picture stands still
    QtWidgets.QApplication.desktop()  # otherwise made by the first drag

    class Errands(QtCore.QObject):
        """Runs functions in the thread of the window, and returns their results."""

        given = QtCore.pyqtSignal(object)

        def run(self, work):
            results, done = [], threading.Event()
            self.given.emit(lambda: (results.append(work()), done.set()))
            done.wait()
            return results[0]

    errands = Errands()
    errands.given.connect(lambda work: work(), QtCore.Qt.QueuedConnection)

    def call(name, given, named):
        """Call a command of PyMOL; return the error message, or None."""
        try:
            getattr(cmd, name)(*given, **named)
        except Exception as error:  # the client is to know every error
            return str(error) or type(error).__name__

    def flush():
        """Draw and write to the console now; PyMOL's timers would do it within half a second."""
        errands.run(lambda: (window.pymolwidget._pymolProcess(), window.update_feedback()))

    def clear():
        """Reset what can be reset; return the rest of the state, to be compared with that after the start."""
        errands.run(leave)
        cmd.mset()  # otherwise the bar of a movie stays
        cmd.reinitialize()
        cmd.enable("all")  # also the entry 'all' in the list of objects
        os.chdir(home)
        return errands.run(tidy)

    def leave():
        """Close PyMOL's menus and submenus by clicks beside them."""
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
        """The values of a measurement, computed from the points that a session file has for each state."""
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

    def place(widget, box):
        """A box of a widget on the screen."""
        corner = widget.mapToGlobal(box.topLeft())
        return [corner.x(), corner.y(), box.width(), box.height()]

    def widgets():
        return errands.run(lambda: list(named()))

    def named():
        """What can be clicked: (name, role, box on the screen in px, text); what lies under an open menu is left out."""
        popups = [menu for menu in QtWidgets.QApplication.topLevelWidgets()
                  if isinstance(menu, QtWidgets.QMenu) and menu.isVisible()]  # fmt: skip
        covered = [place(menu, menu.rect()) for menu in popups]

        def free(box):
            x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
            return not any(left <= x < left + width and top <= y < top + height for left, top, width, height in covered)

        for menu in popups:
            for action in menu.actions():
                if action.text() and action.isVisible() and action.isEnabled():
                    role = "toggle" if action.isCheckable() else "button"
                    box, mark = place(menu, menu.actionGeometry(action)), "on" if action.isChecked() else ""
                    yield action.text().replace("&", ""), role, box, mark
        for action in window.menubar.actions():
            if free(box := place(window.menubar, window.menubar.actionGeometry(action))):
                yield action.text().replace("&", ""), "menu", box, ""
        for button in window.findChildren(QtWidgets.QAbstractButton):
            box = place(button, button.rect())
            if button.isVisible() and button.text() and free(box):
                yield button.text().replace("&", ""), "button", box, ""
        if window.lineedit.isVisible() and free(box := place(window.lineedit, window.lineedit.rect())):
            yield "Command", "field", box, window.lineedit.text()
        panel, height = window.pymolwidget, 18
        if cmd.get_setting_boolean("internal_gui"):
            left = panel.width() - cmd.get_setting_int("internal_gui_width")
            for row, name in enumerate(["all", *cmd.get_names("public")]):
                box = place(panel, QtCore.QRect(left, row * height, 134, height))
                if free(box):
                    yield name, "row", box, "on" if name == "all" or name in cmd.get_names("public", 1) else ""

    rpc.launch_XMLRPC("127.0.0.1", 0)
    rpc.serv.RequestHandlerClass.rpc_paths = (f"/{secret}",)
    for function in (call, flush, clear, state, widgets):
        rpc.serv.register_function(function)
