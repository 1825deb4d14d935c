"""GRASS GIS 8.2 in its single window: its modules tell the data's state, the window the layers'.

Each display has its own location `valley`, made by GRASS's modules: a terrain of 6 by 4 km with land use,
rain, wells and roads.  A reset is a new window on a new copy of it, forked from a process that has loaded
GRASS's modules (`grass_hook.py`).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from sciencedesk.board import files as scienceboard
from sciencedesk.pyautogui import Call
from sciencedesk.real.app import PAUSE_S, App, number_or_text
from sciencedesk.real.grass_data import DEPTHS, LANDUSE, LANDUSE_COLORS, MAPS, REGION, ROADS, WELLS
from sciencedesk.real.grass_files import facts_of
from sciencedesk.real.themes import GTK_THEMES

BASE = Path("/usr/lib/grass82")
WINDOW = BASE / "gui" / "wxpython"
HOOK = Path(__file__).with_name("grass_hook.py")
ANSWER_S = 30.0  # for an answer of the window, and for a module that this file runs
WORK_S = 25.0  # most time that a step waits for the window's modules
GTK_S = 0.26  # delay of GTK between a key or a resting mouse and its effect on a button or a menu
READS: Mapping[str, Sequence[str]] = {
    "g.list": ("type", "pattern", "mapset"), "g.region": ("region",), "r.category": ("map",),
    "r.colors.out": ("map",), "r.info": ("map",), "r.report": ("map", "units"), "r.stats": ("input",),
    "r.univar": ("map", "zones"), "r.what": ("map", "coordinates"),
    "v.db.select": ("map", "columns", "where"), "v.info": ("map",), "v.report": ("map", "option", "units"),
    "v.univar": ("map", "column"),
}  # modules and options for a task's `evaluate`; none of them writes  # fmt: skip
WRITES = frozenset((
    "g.copy", "g.region", "g.remove", "g.rename", "r.buffer", "r.category", "r.colors", "r.contour",
    "r.mapcalc", "r.mask", "r.reclass", "r.slope.aspect", "r.support", "v.buffer", "v.colors", "v.extract",
))  # modules for a task's `initialize`  # fmt: skip
SETTINGS = {"general": {"singleWindow": {"enabled": True}}}
LOOK = "[Settings]\ngtk-font-name=DejaVu Sans 8\ngtk-enable-animations=0\ngtk-cursor-blink=0\n"  # for 640x480
VECTORS = ("roads", "wells")
_NAME = re.compile("[a-z][a-z_]*")
# facts of r.info that no task uses
WITHOUT = ("database", "location", "mapset", "map", "maptype", "date", "creator")


class GrassGIS(App):
    """State: region (n, s, e, w, nsres, ewres, rows, cols), rasters (facts of r.info -gre by name), vectors
    (facts of v.info -t by name), regions (the saved ones), displays (name, current, layers, n, s, e, w,
    overlays) and layers (of the first display, from top to bottom: name, type, checked, opacity, command,
    group).
    """

    kind = "GrassGIS"
    defaults = {"resolution": 50.0, "edges": {edge: float(REGION[edge]) for edge in "nsew"}}
    needs = {str(BASE / "bin" / "g.region"): "grass-core", str(WINDOW / "wxgui.py"): "grass-gui"}

    @property
    def home(self) -> Path:
        return super().home / "user"

    def launch(self) -> int:
        self._secret, place = secrets.token_hex(), super().home
        self._env = {
            "GISBASE": str(BASE), "GISRC": str(place / "rc"), "GRASS_PYTHON": "/usr/bin/python3",
            "GRASS_VERSION": "8.2.1", "PATH": f"{BASE}/bin:{BASE}/scripts:/usr/bin:/bin",
            "LD_LIBRARY_PATH": f"{BASE}/lib", "LC_NUMERIC": "C", "PYTHONPATH": f"{BASE}/etc/python",
            "HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config"),
            "GRASS_ADDON_BASE": str(self.home / "addons"), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        self._make(place / "rc")
        self.home.rename(place / "first")
        own = {"GISRC": str(self.home / ".grass8" / "rc"), "CODA_SECRET": self._secret}
        pid = self.display.start(["/usr/bin/python3", str(HOOK), str(place), str(WINDOW)], self._env | own)
        self._wait_until_idle(pid)
        return pid

    def fresh(self) -> None:
        self._socket.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGHUP)
        self._wait_until_idle(self.pid)

    def again(self) -> None:
        self._dress(super().home / "first")
        self.fresh()

    def _dress(self, home: Path) -> None:
        """GTK's settings of the run's theme, in a home folder."""
        theme = GTK_THEMES[self.view.get("theme", "light")]
        (home / ".config/gtk-3.0/settings.ini").write_text(LOOK + theme, encoding="utf-8")

    def _make(self, rc: Path) -> None:
        """Make the data and the settings of a first start."""
        folder = self.home / "grassdata"
        folder.mkdir(parents=True)
        rc.write_text(f"GISDBASE: {folder}\nLOCATION_NAME: valley\nMAPSET: PERMANENT\nGUI: wxpython\n")
        for path, text in {
            ".grass8/rc": rc.read_text(), ".grass8/wx.json": json.dumps(SETTINGS),
            ".config/gtk-3.0/settings.ini": "",
        }.items():  # fmt: skip
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_text(text, encoding="utf-8")
        self._dress(self.home)
        points, table = "", "CREATE TABLE roads (cat integer, name varchar(20), class varchar(10));\n"
        for cat, (name, sort, line) in ROADS.items():
            points += f"L {len(line)} 1\n" + "".join(f"{x} {y}\n" for x, y in line) + f"1 {cat}\n"
            table += f"INSERT INTO roads VALUES ({cat}, '{name}', '{sort}');\n"
        columns = "x double, y double, cat integer, name varchar(20), depth integer, purpose varchar(20)"
        for command, text in (
            (["g.proj", "-c", "epsg=32633", "location=valley"], None),
            (["g.region", "-s", *(f"{name}={value}" for name, value in REGION.items())], None),
            *((["r.mapcalc", f"expression={expression}"], None) for expression in MAPS),
            (["r.category", "map=landuse", "separator=pipe", "rules=-"], LANDUSE),
            (["r.colors", "map=landuse", "rules=-"], LANDUSE_COLORS),
            (["r.colors", "map=elevation", "color=elevation"], None),
            (["r.support", "map=landuse", "title=Land use"], None),
            (["v.in.ascii", "input=-", "output=wells", "x=1", "y=2", "cat=3", f"columns={columns}"], WELLS),
            (["v.in.ascii", "-n", "input=-", "output=roads", "format=standard"], points),
            (["db.execute", "input=-"], table),
            (["v.db.connect", "map=roads", "table=roads"], None),
        ):
            self._run(command, text)

    def _wait_until_idle(self, pid: int) -> None:
        self.wait_until(lambda: self._socket.exists() and not self._ask("busy"), pid)

    # -- requests --------------------------------------------------------------------------------------
    @property
    def _socket(self) -> Path:
        return super().home / "run" / "grass.sock"

    def _ask(self, do: str, **given: Any) -> Any:
        """The window's answer to a request.  EnvironmentFault if there is none."""
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(ANSWER_S)
                line.connect(str(self._socket))
                line.sendall(json.dumps({"do": do, "secret": self._secret, **given}).encode() + b"\n")
                answer = json.loads(line.makefile().readline() or '{"error": "no answer"}')
        except OSError as error:
            raise EnvironmentFault(f"GRASS GIS: {do}: {error}") from error
        if "error" in answer:
            raise EnvironmentFault(f"GRASS GIS: {do}: {answer['error']}")
        return answer["ok"]

    def _run(self, command: Sequence[str], text: str | None = None) -> str:
        """The output of a module.  EnvironmentFault if it fails."""
        module = self._start(command)
        output, complaint = self._output(module, text)
        if module.returncode:
            raise EnvironmentFault(f"GRASS GIS: {' '.join(command)}: {complaint.strip()}")
        return output

    def _start(self, command: Sequence[str]) -> subprocess.Popen:
        env = self.display.env | self._env
        program = next(place for part in ("bin", "scripts") if (place := BASE / part / command[0]).exists())
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen([program, *command[1:]], **pipes, env=env, text=True)

    def _output(self, module: subprocess.Popen, text: str | None = None) -> tuple[str, str]:
        try:
            return module.communicate(text, timeout=ANSWER_S)
        except subprocess.TimeoutExpired as error:
            module.kill()
            raise EnvironmentFault(f"GRASS GIS: {module.args[0]} takes too long") from error

    def _run_all(self, commands: Sequence[Sequence[str]]) -> list[str]:
        """The outputs of modules that run in parallel; empty for one that fails."""
        return [self._output(module)[0] for module in [self._start(command) for command in commands]]

    def act(self, calls: Sequence[Call]) -> None:
        super().act(calls)
        if calls and calls[-1][0] in ("press", "hotkey", "moveTo"):
            time.sleep(GTK_S)

    def look(self) -> np.ndarray:
        """The screen once the window's modules and maps are done, or after `WORK_S` seconds."""
        end = time.monotonic() + WORK_S
        while True:
            picture, since = super().look(), time.monotonic()
            if self.closed or since > end or not (self._busy() or time.monotonic() - since > PAUSE_S):
                # it answered at once, so it was idle when the picture was taken; later it may not have been
                return picture

    def _busy(self) -> bool:
        try:
            return self._ask("busy")
        except EnvironmentFault:  # it ends or hangs; `App.look` or `state` raises then
            return self.display.ended(self.pid) is None

    # -- task files ------------------------------------------------------------------------------------
    def prepare(self, item: Any) -> None:
        match item:
            case scienceboard.Call(name="layer", args=["raster" | "vector" as kind, str(name)], kwargs=how):
                if not how.keys() <= {"checked", "opacity"}:
                    raise self.refusal(f"a layer has no {', '.join(how)}")
                self._add_layer(kind, name, **how)
            case scienceboard.Call(name=name, args=[], kwargs=arguments) if name in WRITES:
                module = self._start(self._command(name, arguments))
                _, complaint = self._output(module)
                if module.returncode:
                    raise self.refusal(f"{name}: {complaint.strip()}")
                self._ask("reload")
            case _:
                raise self.refusal(f"GrassGIS does not do {item}")
        self._wait_until_idle(self.pid)  # while a map is drawn, no layer can be added

    def _add_layer(self, kind: str, name: str, checked: bool = True, opacity: float = 1.0) -> None:
        self._ask("layer", type=kind, name=f"{name}@PERMANENT", checked=checked, opacity=opacity)

    def set(self, key: str, value: Any) -> None:
        """`copies` of the elevation by name; `layers` from bottom to top; the region's `resolution` (m); the
        `wells` by their names.
        """
        match key, value:
            case "layers", list() if all(_NAME.fullmatch(str(name)) for name in value):
                for name in value:
                    self._add_layer("vector" if name in VECTORS else "raster", name)
                    self._wait_until_idle(self.pid)
                return
            case "copies", list() if all(_NAME.fullmatch(str(name)) for name in value):
                commands = [["g.copy", f"raster=elevation,{name}"] for name in value]
            case "resolution", int():
                commands = [["g.region", f"res={value}"]]
            case "wells", list() if len(value) == len(WELLS.splitlines()) and set(value) <= set(DEPTHS):
                told = [f"name='{name}', depth={DEPTHS[name]}" for name in value]
                rows = (f"{row} WHERE cat={number}" for number, row in enumerate(told, 1))
                commands = [["db.execute", f"sql=UPDATE wells SET {row}"] for row in rows]
            case _:
                return super().set(key, value)
        for command in commands:
            self._run(command)
        self._ask("reload")
        self._wait_until_idle(self.pid)

    def facts(self) -> dict[str, Any]:
        """`edges` and `resolution` of the region, saved `regions`, `rasters` and the expression that each was
        made by (`made`), `vectors`, and of the first display the `layers` from top to bottom and whether each
        is `shown`.
        """
        if self.closed:
            return {}
        displays = self._ask("shown")
        mapset = self.home / "grassdata" / "valley" / "PERMANENT"
        try:
            return facts_of(mapset, displays[0]["layers"] if displays else [])
        except (OSError, KeyError, ValueError) as error:  # a module that still writes, or was killed in it
            raise EnvironmentFault(f"GRASS GIS: its mapset cannot be read: {error!r}") from error

    def named(self) -> tuple[list[Any], str | None]:
        """Layers, maps of the catalog, tabs, buttons and the input line, as its window places them."""
        found, field = self._ask("widgets")
        return self.elements_at(found), field

    def _command(self, name: str, arguments: Mapping[str, Any]) -> list[str]:
        """The command line of a module; the argument `flags` is a string of letters."""
        flags = str(arguments.get("flags", ""))
        plain = all(re.fullmatch("[a-z][a-z0-9_]*", option) for option in arguments)
        if not plain or not re.fullmatch("[A-Za-z0-9]*", flags):
            raise UserError(f"task {self.task.id}: {name}: bad options: {', '.join(arguments)}")
        options = [f"{option}={value}" for option, value in arguments.items() if option != "flags"]
        return [name, *(f"-{flag}" for flag in flags), *options]

    def command(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The output of a module of `READS`; empty if it fails, as for a map that does not exist."""
        if name not in READS or not arguments.keys() <= {"flags", *READS[name]}:
            asked = f"{name!r} with {', '.join(arguments)}"
            raise UserError(f"task {self.task.id}: evaluate: GrassGIS does not ask {asked}")
        keep = ["-u"] if name == "g.region" else []  # without it, -d would write
        return "" if self.closed else self._run_all([self._command(name, arguments) + keep])[0]

    def state(self) -> dict[str, Any]:
        kinds = {"raster": "r.info -gre", "vector": "v.info -t", "region": ""}
        region, *named = self._run_all([["g.region", "-gu"], *(["g.list", f"type={kind}"] for kind in kinds)])
        names = {kind: output.split() for kind, output in zip(kinds, named, strict=True)}
        maps = [(kind, name) for kind in ("raster", "vector") for name in names[kind]]
        outputs = self._run_all([[*kinds[kind].split(), f"map={name}"] for kind, name in maps])
        about: dict[str, dict[str, Any]] = {"rasters": {}, "vectors": {}}
        for (kind, name), output in zip(maps, outputs, strict=True):
            about[f"{kind}s"][name] = _values(output, WITHOUT)
        displays = self._ask("shown")
        return {
            "region": _values(region), "displays": displays,
            "layers": displays[0]["layers"] if displays else [], "regions": names["region"], **about,
        }  # fmt: skip


def _values(output: str, without: Sequence[str] = ()) -> dict[str, Any]:
    """The pairs of lines such as `n=5204000`, with numbers as floats."""
    pairs = (line.partition("=") for line in output.splitlines())
    return {name: number_or_text(text.strip('"')) for name, _, text in pairs if name not in without}
