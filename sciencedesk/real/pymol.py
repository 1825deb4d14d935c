"""PyMOL 2.5 of Debian 12.  `pymol_hook.serve` runs inside PyMOL and answers XML-RPC calls on a free port."""

from __future__ import annotations

import inspect
import json
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy, Transport

import numpy as np
import psutil

from coda_lib.environment import EnvironmentFault
from sciencedesk.pyautogui import Call
from sciencedesk.real.app import App
from sciencedesk.real.connection import Connection
from sciencedesk.real.display import Display
from sciencedesk.real.isolation import HOST
from sciencedesk.real.pymol_facts import COLORS, LETTERS, SETTINGS, facts_of
from sciencedesk.real.pymol_hook import serve
from sciencedesk.real.themes import QT_STYLES

CONSOLE = 80  # height of its console, px
OWN_TOP = 132  # px of its window; below them PyMOL draws its own widgets: the picture, the list, their menus
OWN_S = 0.35  # their delay: a new menu takes no click, and a click in the picture waits for a second one
POINTING = ("click", "doubleClick", "rightClick", "moveTo")  # last calls of an action that points
ANSWER_S = 30.0
QUIT_S = 3.0  # for it to end after it has stopped answering
DATA = "/usr/share/pymol/data/"
EXAMPLES = {"1hpv": "tut/1hpv.pdb", "il2": "demo/il2.pdb", "pept": "demo/pept.pdb"}  # part of its package
COMMANDS = frozenset((
    "angle", "bg_color", "bond", "cartoon", "center", "clip", "color", "copy", "create", "delete",
    "deselect", "dihedral", "disable", "distance", "dss", "enable", "extract", "fab", "group", "h_add",
    "hide", "move", "orient", "remove", "scene", "select", "set_name", "show", "show_as", "turn", "zoom",
))  # for a task's `initialize`: none reads or writes a file or evaluates an argument  # fmt: skip
PLAIN_COMMANDS = frozenset(("fragment", "set"))  # these do, but not with arguments like _PLAIN
_PLAIN = re.compile(r"[\w .+-]*")
_NAME = re.compile(r"[A-Za-z]\w*")
_ATOM = ("object", "chain", "resi", "resn", "name", "elem", "color", "shown", "label", "ss", "selections")


class PyMOL(App):
    """State, colors as #rrggbb (None: the default): objects (type, enabled, states, settings; for molecules
    also atoms, chains, numbers of atoms by representation and by color), atoms (fields: _ATOM), selections
    (numbers of atoms), active (shown selections), measurements (distances in angstrom, angles and dihedrals
    in degrees, labels), settings, background, view, scenes, frames, frame, playing, wizard, files (new in its
    folder).
    """

    kind = "PyMOL"
    sleeps = True  # its event loop polls fifty times a second
    needs = {"/usr/bin/pymol": "pymol"}
    defaults = {"background": "black", "settings": SETTINGS}

    def launch(self) -> int:
        start = ["pymol", "-k", "-q", "-V", str(CONSOLE), "-d", "/import __main__; __main__.serve()"]
        program = f"{inspect.getsource(serve)}\nimport pymol\npymol.launch({start})"
        secret = secrets.token_hex()
        env = {"CODA_SECRET": secret, "CODA_STYLE": QT_STYLES[self.view.get("theme", "light")]}
        self.pid = self.display.start(["/usr/bin/python3", "-c", program], env)
        ports = self.wait_until(lambda: self.display.listening(self.pid), self.pid)
        transport = ToDisplay(self.display, ports[0])
        self.server = ServerProxy(f"http://{HOST}/{secret}", transport, allow_none=True)
        self.display.settled(OWN_S, idle=self.pid)  # the window manager sizes its window
        self.first, self.own_files = self._ask("clear"), {file.name for file in self.home.iterdir()}
        return self.pid

    def fresh(self) -> None:
        """By its command `reinitialize`; by another start where that leaves something, such as a dialog."""
        self._tidy()
        # a further window is a process
        if self._ask("clear") != self.first or psutil.Process(self.pid).children():
            self.again()

    def again(self) -> None:
        self._tidy()
        super().again()

    def _tidy(self) -> None:
        for file in self._files():
            shutil.rmtree(file) if file.is_dir() else file.unlink()

    def prepare(self, item: Any) -> None:
        """UserError also for a call that PyMOL refuses."""
        match item.func, item.name if item.func == "call" else None:
            case "touch", _:
                self.place(item.path).write_text(item.text, encoding="utf-8")
            case "call", "example" if len(item.args) == 1 and item.args[0] in EXAMPLES:
                self._ask("call", "load", [DATA + EXAMPLES[item.args[0]]], {})
            case "call", name if name in COMMANDS or name in PLAIN_COMMANDS:
                given = [*item.args, *item.kwargs.values()]
                if name in PLAIN_COMMANDS and not all(_PLAIN.fullmatch(str(value)) for value in given):
                    raise self.refusal(f"{name}: only words and numbers, not {given}")
                if why := self._ask("call", name, item.args, item.kwargs):
                    raise self.refusal(f"{name}: {why}")
            case "call", name:
                raise self.refusal(f"no call {name!r} of {item.args}")
            case _:
                super().prepare(item)

    def set(self, key: str, value: Any) -> None:
        """`peptide`: `prot` by sequence; `fragments`: benzene rings by name; `background`; `settings`."""
        match key, value:
            case "peptide", str() if set(value) <= set(LETTERS.values()):
                given = "fab", [value, "prot"]
            case "background", str() if value in COLORS:
                given = "bg_color", [value]
            case "settings", dict() if value.keys() <= SETTINGS.keys() and _are_numbers(value.values()):
                for name, number in value.items():
                    self._ask("call", "set", [name, number], {})
                return
            case "fragments", list() if all(_NAME.fullmatch(str(name)) for name in value):
                for name in value:
                    self._ask("call", "fragment", ["benzene", name], {})
                return
            case _:
                return super().set(key, value)
        if why := self._ask("call", *given, {}):
            raise self.refusal(f"{key}: {why}")

    def facts(self) -> dict[str, Any]:
        """`ways`: of each kind of residue the representations in which all its atoms are shown; `tints`: the
        color of its atoms if all have the same of `COLORS`; `chosen`: of each selection the kind of residue
        that it is made of; `molecules` (sequence, tint and ways); `objects` (enabled or not), `background`,
        `settings`, `scenes`.
        """
        state = self.now()
        return facts_of(state) if state else {}

    def named(self) -> tuple[list[Any], str | None]:
        """Menus, buttons, rows of objects, and the input line; a text typed into the picture goes there."""
        with self.awake():
            found, typing = self._ask("widgets") or ([], False)
        return self.elements_at(found), "Command" if typing else None

    def act(self, calls: Sequence[Call]) -> None:
        """Move the mouse one pixel before each click: PyMOL's menus ignore the first motion."""
        name, at, _ = calls[-1] if calls else ("", (), {})
        _, top, *_ = self.view.get("window", (0, 0))
        self.still_s = OWN_S if name in POINTING and at[1] > OWN_TOP + top else PyMOL.still_s
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
        """The result of a function of `pymol_hook.serve`; None where PyMOL has been closed."""
        try:
            return getattr(self.server, name)(*given)
        except (OSError, HTTPException, Fault) as error:  # a Fault where its window is closed before the rest
            if (status := self.ended_soon(QUIT_S)) != 0:
                self.close()
                raise EnvironmentFault(f"PyMOL does not answer (exit status {status}): {error}") from error
            self.closed = True


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(type(value) in (bool, int, float) for value in values)


class ToDisplay(Transport):
    """XML-RPC to a server on the display's network."""

    def __init__(self, display: Display, port: int):
        super().__init__()
        self._display, self._port = display, port

    def make_connection(self, host: Any) -> HTTPConnection:
        if self._connection[1] is None:
            self._connection = host, Connection(self._display, self._port, ANSWER_S)
        return self._connection[1]
