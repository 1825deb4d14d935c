"""A display for a real application: screenshots, mouse and keyboard; closing it ends every program on it."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.files import socket_folder
from sciencedesk.pyautogui import Call
from sciencedesk.real.isolation import sandbox
from sciencedesk.standing import standing_still

NEEDED = {"Xvfb": "xvfb", "openbox": "openbox", "dbus-daemon": "dbus-daemon"}  # program: its Debian package
TKINTER = "_tkinter"  # pyautogui cannot be imported without it on Linux; in python3-tk
ANSWER_S = 60.0  # for the display's process to answer a request
HOME_PREFIX = "coda-display-"
STILL_S, SETTLE_S, LOOK_S = 0.06, 1.5, 0.015  # the picture must stand still; at most; between two looks


def lacking() -> dict[str, str]:
    """Programs and modules that a display needs and that are missing, each with its Debian package."""
    missing = {name: package for name, package in NEEDED.items() if not shutil.which(name)}
    return missing if find_spec(TKINTER) else missing | {"tkinter": "python3-tk"}


class Display:
    """An Xvfb with window manager, session bus, home and network, held by `display_process`.

    `isolated` says whether the network is the display's own or this machine's, `sandboxed` whether programs
    see no other files to write to (`isolation`).
    UserError where a program is missing; EnvironmentFault if the display breaks.
    """

    def __init__(self, size: tuple[int, int]):
        if missing := lacking():
            install = f"apt-get install {' '.join(missing.values())}"
            raise UserError(f"a display needs {', '.join(missing)}; on Debian or Ubuntu: {install}")
        self.size = size
        self._channel, theirs = socket.socketpair()
        self._home = socket_folder(HOME_PREFIX)
        outside = sandbox(Path(self._home.name))
        self.sandboxed = bool(outside)
        command = [*outside, sys.executable, "-m", "sciencedesk.real.display_process", *map(str, size)]
        how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
        self._buffer = b""
        with theirs:
            channel = theirs.fileno()
            given = [str(channel), self._home.name, "own" if outside else "new"]
            self._process = subprocess.Popen([*command, *given], **how, pass_fds=[channel])
        self.env: dict[str, str] = self._answer("start")
        self.isolated: bool = self._ask("isolated")

    def close(self) -> None:
        """End everything that runs on the display."""
        self._channel.close()
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._home.cleanup()

    def _ask(self, what: str, *arguments: Any) -> Any:
        try:
            self._process.stdin.write(json.dumps({"do": what, "with": arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise EnvironmentFault(f"display {self.env.get('DISPLAY')} is gone: {error}") from error
        return self._answer(what)

    def _answer(self, what: str) -> Any:
        line = self._read(lambda: self._buffer.find(b"\n") + 1)
        reply = json.loads(line) if line else {"error": "no answer"}
        if "error" in reply:
            raise EnvironmentFault(f"display: {what}: {reply['error']}")
        return reply["ok"]

    def _read(self, enough: Callable[[], int]) -> bytes:
        """The first `enough()` bytes of the output (0: not yet known); empty at its end or too late."""
        end, pipe = time.monotonic() + ANSWER_S, self._process.stdout.fileno()
        while not (count := enough()):
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            part = os.read(pipe, 1 << 20) if ready else b""
            if not part:
                return b""
            self._buffer += part
        content, self._buffer = self._buffer[:count], self._buffer[count:]
        return content

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> int:
        """Start a program on the display; returns its process number."""
        return self._ask("start", list(command), dict(env or {}))

    def ended(self, pid: int) -> int | None:
        """A program's exit status (below 0: the signal that ended it), None while it runs."""
        return self._ask("ended", pid)

    def processes(self) -> list[psutil.Process]:
        """The display's process and its descendants."""
        first = psutil.Process(self._process.pid)
        return [first, *first.children(recursive=True)]

    def listening(self, pid: int) -> list[int]:
        """The ports on which a program takes connections."""
        return self._ask("listening", pid)

    def connect(self, port: int) -> socket.socket:
        """A connection to a port of the display's network.  ConnectionRefusedError if nothing listens."""
        if not self._ask("connect", port):
            raise ConnectionRefusedError(f"nothing listens on port {port} of display {self.env['DISPLAY']}")
        _, (descriptor,), _, _ = socket.recv_fds(self._channel, 1, 1)
        return socket.socket(fileno=descriptor)

    def stop(self, pid: int) -> None:
        """End a program and its descendants."""
        self._ask("stop", pid)

    def freeze(self, pid: int) -> None:
        """Halt a program (SIGSTOP), so that it takes no processor time; its picture stays."""
        self._ask("signal", pid, "STOP")

    def thaw(self, pid: int) -> None:
        self._ask("signal", pid, "CONT")

    def arrange(self, box: Sequence[int] | None, color: str | None) -> None:
        """Leave maximised windows this box (x, y, width, height in px), before a desktop of a color.

        None: the whole screen again.
        """
        self._ask("arrange", box, color)

    def act(self, calls: Sequence[Call]) -> None:
        """Carry out pyautogui calls."""
        if calls:
            self._ask("calls", [list(call) for call in calls])

    def screenshot(self) -> np.ndarray:
        """RGB uint8 (height, width, 3)."""
        count = self._ask("picture")
        content = self._read(lambda: count if len(self._buffer) >= count else 0)
        if not content:
            raise EnvironmentFault("display: a picture was cut off")
        return np.frombuffer(content, np.uint8).reshape(self.size[1], self.size[0], 3)

    def settled(
        self, still_s: float = STILL_S, settle_s: float = SETTLE_S, idle: int | None = None
    ) -> np.ndarray:
        """The screen once it has stood still for `still_s` seconds, or as it is after `settle_s` seconds.

        Only the time counts in which the program with the process number `idle` is idle.
        """
        busy = (lambda: self._ask("busy", idle)) if idle else (lambda: False)
        return standing_still(self.screenshot, still_s, settle_s, LOOK_S, busy)
