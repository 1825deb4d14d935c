"""Stellarium 0.22 of Debian 12, read and reset through its RemoteControl plugin.

The plugin listens on all interfaces, without a setting for this; on a display with a network of its own that
is the loopback alone.  Every start has a new password, in a file that no other user can read; a request
without it is refused.
"""

from __future__ import annotations

import configparser
import json
import math
import secrets
import shutil
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from coda_lib.environment import EnvironmentFault
from sciencedesk.real.app import App
from sciencedesk.real.connection import Transport
from sciencedesk.real.isolation import HOST
from sciencedesk.real.stellarium_settings import CONFIG, FACTS, FOLLOWING, FPS, PROPERTIES

DEFAULTS = Path("/usr/share/stellarium/data/default_cfg.ini")  # it crashes where some settings are missing
# degrees, m
PARIS = {"name": "Paris", "latitude": 48.8534, "longitude": 2.3488, "altitude": 42, "planet": "Earth"}
START = "2024-01-15T20:00"  # UTC; nine in the evening in Paris
VIEW = {"azimuth": 180.0, "altitude": 15.0}  # degrees; azimuth from the north to the east
FOV = 60.0  # degrees
DAY_S = 86_400
UNIX_JD = 2440587.5  # Julian day of the Unix epoch
ANSWER_S = 30.0
# of no width: a dialog shows the password
INVISIBLE = [chr(code) for code in (*range(0x200B, 0x2010), *range(0x2060, 0x2063))]
QUIT_S = 3.0  # for it to end after its server has ended
ACTED_S = 0.05  # processor time after which it has handled a key or a click
_WINDOW = "actionShow_", "_Window_Global"  # before and after the name of a dialog in its property


class _SwitchedOff(EnvironmentFault):
    """An action has ended the application, switched its server off or changed its password."""


class Stellarium(App):
    """State: jd, rate (seconds a second), utc, local, location (degrees, m), view and fov (degrees),
    selection (degrees; empty: nothing), dialogs (the open ones), and PROPERTIES.  Empty where the agent has
    switched the server off.
    """

    kind = "Stellarium"
    needs = {"/usr/bin/stellarium": "stellarium", str(DEFAULTS): "stellarium-data"}
    factors = ("window", "desktop")
    sleeps, idles = True, False  # it draws all the time
    settle_s, step_s = 2.0, 1.2  # what it shows or hides fades for more than a second

    def launch(self) -> int:
        folder, password = self.home / ".stellarium", "".join(secrets.choice(INVISIBLE) for _ in range(64))
        shutil.rmtree(folder, ignore_errors=True)  # an earlier start's
        folder.mkdir()
        config = configparser.ConfigParser(interpolation=None)
        config.optionxform = str
        config.read(DEFAULTS)
        config["plugins_load_at_startup"].clear()
        config.read_dict(CONFIG)
        config["RemoteControl"]["password"] = password
        self.settings = folder / "config.ini"
        with self.settings.open("w", encoding="utf-8") as file:
            config.write(file)
        self.pid = self.display.start(["/usr/bin/stellarium", "--full-screen", "no"])
        ports = self.wait_until(lambda: self.display.listening(self.pid), self.pid)
        address, transport = f"http://{HOST}:{ports[0]}/api/", Transport(self.display, ANSWER_S)
        self.client = httpx.Client(base_url=address, auth=("", password), transport=transport)
        self._begin_sky()
        self.display.settled(self.still_s, ANSWER_S)
        self.first, self.written = self._properties(), self._written()
        return self.pid

    def fresh(self) -> None:
        """By its plugin; by another start where it has written settings, such as the position of a dialog."""
        try:
            if self._written() == self.written:
                self._do("scripts/stop")
                self._begin_sky()
                if self._changed():
                    self._restore()
                    self._begin_sky()  # what was restored may have turned the view
                if not self._changed():
                    return
        except _SwitchedOff:
            pass
        super().fresh()

    def _written(self) -> dict[str, dict[str, str]]:
        """The settings in its file, without the sizes of dialogs, which it writes whenever one is opened."""
        config = configparser.ConfigParser(interpolation=None)
        config.read(self.settings, encoding="utf-8")
        return {name: dict(config[name]) for name in config.sections() if name != "DialogSizes"}

    def _begin_sky(self) -> None:
        self._locate(**PARIS)
        self._time(START)
        self._select("")
        self._do("stelproperty/set", id="StelMovementMgr.tracking", value=False)
        self._do("stelaction/do", id="actionDisplayInfo_Custom")
        self._look(**VIEW)
        self._zoom(FOV)

    def _restore(self) -> None:
        for name, value in self._changed().items():
            self._do("stelproperty/set", id=name, value=value)
        for name in self._changed():
            if name.startswith("action"):
                self._do("stelaction/do", id=name)

    def _changed(self) -> dict[str, Any]:
        """The first values of the properties that have changed, without those that follow from others."""
        now, own = self._properties(), {n: v for n, v in self.first.items() if not n.startswith(FOLLOWING)}
        return {name: value for name, value in own.items() if now[name] != value}

    def settled(self) -> np.ndarray:
        """The screen once two successive frames are the same, however busy the machine."""
        try:
            if not self.closed and self.display.ended(self.pid) is None:
                self._settle()
        except _SwitchedOff:  # it may be ending
            self.ended_soon(QUIT_S)
        except EnvironmentFault:
            self.close()
            raise
        return super().settled()

    def _settle(self) -> None:
        # A request while an action switches the server off would make the program hang: wait until the action
        # is over.
        enough, end = _used(self.pid) + ACTED_S, time.monotonic() + self.settle_s
        while _used(self.pid) < enough and time.monotonic() < end:
            time.sleep(0.01)
        last, now = None, self._drawn()
        while time.monotonic() < end and not np.array_equal(last, now):
            last, now = now, self._drawn()

    def _drawn(self) -> np.ndarray:
        """The screen after at least one more frame."""
        self._ask("main/status")  # answered between two frames, after what was requested before
        time.sleep(2 / FPS)
        self._ask("main/status")
        return self.display.screenshot()

    # -- calls for a task's `initialize` ---------------------------------------------------------------
    def prepare(self, item: Any) -> None:
        calls = {"set": self._set, "time": self._time, "location": self._locate, "view": self._look,
                 "fov": self._zoom,
                 "select": self._named}  # fmt: skip
        if item.func != "call":
            return super().prepare(item)
        if item.name not in calls:
            raise self.refusal(f"no call {item.name!r}; there are {', '.join(calls)}")
        try:
            given = signature(calls[item.name]).bind(*item.args, **item.kwargs)
            calls[item.name](*given.args, **given.kwargs)
        except (TypeError, ValueError) as error:
            raise self.refusal(f"{item.name}: {error}") from error

    def _set(self, name: str, value: bool | str) -> None:
        """A property by our name for it."""
        if name not in PROPERTIES:
            raise ValueError(f"no property {name!r}; there are {', '.join(PROPERTIES)}")
        self._do("stelproperty/set", id=PROPERTIES[name], value=value)
        if self._properties()[PROPERTIES[name]] != value:
            raise ValueError(f"{name} cannot be {value!r}")

    def _time(self, utc: str, rate: float = 0) -> None:
        """The time in UTC, such as 2024-01-15T20:00, and its rate in seconds a second."""
        jd = datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp() / DAY_S + UNIX_JD
        self._do("main/time", time=repr(jd), timerate=repr(rate / DAY_S))

    def _locate(
        self, latitude: float, longitude: float, altitude: float = 0, name: str = "", planet: str = "Earth"
    ) -> None:
        """Degrees (north and east), m."""
        self._do(
            "location/setlocationfields", latitude=latitude, longitude=longitude, altitude=altitude,
            name=name, planet=planet,
        )  # fmt: skip

    def _look(self, azimuth: float, altitude: float) -> None:
        """Degrees; azimuth from the north to the east."""
        a, h = math.radians(azimuth), math.radians(altitude)
        towards = [-math.cos(a) * math.cos(h), math.sin(a) * math.cos(h), math.sin(h)]  # south, east, up
        self._do("main/view", altAz=json.dumps(towards))

    def _zoom(self, degrees: float) -> None:
        self._do("main/fov", fov=degrees)

    def _named(self, name: str) -> None:
        if self._ask("objects/info", name=name, format="json").is_error:
            raise ValueError(f"no object {name!r}")
        self._select(name)

    def _select(self, name: str) -> None:
        # The plugin's own request for this fails in this version.
        self._do("scripts/direct", code=f"core.selectObjectByName({json.dumps(name)}, false);")

    # -- state -----------------------------------------------------------------------------------------
    def state(self) -> dict[str, Any]:
        try:
            status, properties = self._ask("main/status").json(), self._properties()
            x, y, z = json.loads(self._ask("main/view", coord="altAz").json()["altAz"])
            info = self._ask("objects/info", format="json")
        except _SwitchedOff:
            return {}
        about = {} if info.is_error else info.json()
        moment, (before, after) = status["time"], _WINDOW
        return {
            "jd": moment["jday"], "rate": moment["timerate"] * DAY_S, "utc": moment["utc"],
            "local": moment["local"], "location": {name: status["location"][name] for name in PARIS},
            "view": {
                "azimuth": round(math.degrees(math.atan2(y, -x)) % 360, 6),
                "altitude": round(math.degrees(math.atan2(z, math.hypot(x, y))), 6),
            },
            "fov": status["view"]["fov"],
            "selection": about and {
                "name": about["localized-name"] or about["name"],
                **{ours: about.get(its) for ours, its in FACTS.items()}
            },
            "dialogs": [
                name.removeprefix(before).removesuffix(after) for name, on in properties.items()
                if on and name.startswith(before) and name.endswith(after)
            ],
            **{name: properties[its] for name, its in PROPERTIES.items()},
        }  # fmt: skip

    def _properties(self) -> dict[str, Any]:
        return {name: about["value"] for name, about in self._ask("stelproperty/list").json().items()}

    def _do(self, path: str, **given: Any) -> None:
        """Post a request.  ValueError where it is refused."""
        reply = self._reply("POST", path, data=given)
        if reply.is_error or reply.text.startswith("error"):
            raise ValueError(reply.text)

    def _ask(self, path: str, **given: str) -> httpx.Response:
        return self._reply("GET", path, params=given)

    def _reply(self, method: str, path: str, **given: Mapping[str, Any]) -> httpx.Response:
        try:
            reply = self.client.request(method, path, **given)
        except httpx.TimeoutException as error:
            raise EnvironmentFault(f"Stellarium does not answer in {ANSWER_S:g} s") from error
        except httpx.TransportError as error:
            if self.display.ended(self.pid):
                raise EnvironmentFault("Stellarium crashed") from error
            raise _SwitchedOff(f"Stellarium does not answer ({error})") from error
        if reply.status_code == httpx.codes.UNAUTHORIZED:
            raise _SwitchedOff("Stellarium has another password")
        return reply


def _used(pid: int) -> float:
    """The processor time of a process in seconds; infinite for one that has ended."""
    try:
        return sum(psutil.Process(pid).cpu_times()[:2])
    except psutil.NoSuchProcess:
        return math.inf
