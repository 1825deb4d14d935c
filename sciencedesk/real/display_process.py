"""The process of a display: it starts Xvfb and programs, moves the mouse, types, and takes screenshots.

`python -m sciencedesk.real.display_process WIDTH HEIGHT CHANNEL HOME NETWORK` reads requests as JSON lines on
its standard input and writes replies as JSON lines (and pictures) to its standard output; connections go
through the socket with the descriptor CHANNEL; NETWORK is `own` in a sandbox (`isolation`), which has one, or
`new`. `display.Display` is its client.  It is a process because pyautogui and a
network belong to one display.  When its input ends, also because its parent died, it kills all programs that
it started and their descendants.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from coda_lib.processes import dies_with_its_parent
from sciencedesk.real.isolation import HOST, isolate

_PR_SET_CHILD_SUBREAPER = 36
_LOCAL = 256  # the kind of address in an .Xauthority file that is a host's name
START_S = 20.0  # for Xvfb and the session bus to start
STOP_S = 3.0  # for a process to end after SIGTERM
BETWEEN_S = 0.05  # between the clicks of a double click; a program may take two at the same moment for one
CALLS = frozenset((
    "click", "doubleClick", "rightClick", "moveTo", "dragTo", "scroll", "hscroll", "hotkey", "press", "write",
    "keyDown", "keyUp", "mouseDown", "mouseUp",
))  # the functions of pyautogui that an `Action` needs  # fmt: skip


class DisplayProcess:
    """One display, its home folder and its programs."""

    def __init__(self, size: tuple[int, int], channel: socket.socket, home: Path, network: str):
        if any(home.iterdir()):  # it is removed in the end
            raise RuntimeError(f"the home folder {home} is not empty")
        self.channel, self.home = channel, home
        # a program that detaches itself becomes our child again
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
        for name in ("run", "tmp"):
            (home / name).mkdir(mode=0o700)
        permit, cookie = home / ".Xauthority", secrets.token_bytes(16)
        permit.touch(mode=0o600)
        permit.write_bytes(_permit("", cookie))
        self.env = {
            "HOME": str(home), "XAUTHORITY": str(permit), "XDG_RUNTIME_DIR": str(home / "run"),
            "XDG_CONFIG_HOME": str(home / ".config"), "PATH": f"/usr/bin:/bin:{os.environ.get('PATH', '')}",
            "LANG": "C.UTF-8", "LIBGL_ALWAYS_SOFTWARE": "1", "TMPDIR": str(home / "tmp"),
        }  # fmt: skip
        screen = f"-screen 0 {size[0]}x{size[1]}x24 -noreset -nolisten tcp -auth".split()
        number = self._first_line(["Xvfb", *screen, str(permit)], "-displayfd")
        permit.write_bytes(_permit(number, cookie))
        # not earlier: an X server finds a free number by what is taken in its network
        self._isolated = network == "own" or isolate()
        self.env["DISPLAY"] = f":{number}"
        bus = ["dbus-daemon", "--session", "--nofork", f"--address=unix:path={home / 'run' / 'bus'}"]
        self.env["DBUS_SESSION_BUS_ADDRESS"] = self._first_line(bus, "--print-address")
        self.started: dict[int, subprocess.Popen] = {}
        self.start(["openbox", "--sm-disable", "--config-file", str(Path(__file__).with_name("openbox.xml"))])
        os.environ |= {"DISPLAY": self.env["DISPLAY"], "XAUTHORITY": self.env["XAUTHORITY"]}
        import mss
        import pyautogui

        pyautogui.PAUSE, pyautogui.FAILSAFE = 0, False
        self.mouse, self.screen = pyautogui, mss.MSS()
        self.area = {"left": 0, "top": 0, "width": size[0], "height": size[1]}
        self.floor = None

    def _first_line(self, command: Sequence[str], option: str) -> str:
        """Start a program; return the line that it writes to the descriptor which `option` names."""
        read, write = os.pipe()
        argument = [option, str(write)] if option == "-displayfd" else [f"{option}={write}"]
        how = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL) | {"env": self.env}
        subprocess.Popen([*command, *argument], **how, pass_fds=[write], preexec_fn=dies_with_its_parent)
        os.close(write)
        line, end = b"", time.monotonic() + START_S
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([read], [], [], max(0.0, end - time.monotonic()))
            part = os.read(read, 4096) if ready else b""
            if not part:
                raise RuntimeError(f"{command[0]} does not start")
            line += part
        os.close(read)
        return line.decode().strip()

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> int:
        with open(self.home / "log", "ab") as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            process = subprocess.Popen(
                command, **streams, env=self.env | dict(env or {}), cwd=self.home,
                preexec_fn=dies_with_its_parent, start_new_session=True,
            )  # fmt: skip
        self.started[process.pid] = process
        return process.pid

    def ended(self, pid: int) -> int | None:
        return self.started[pid].poll()

    def busy(self, pid: int) -> bool:
        """Whether a thread of a program or of its descendants runs, or waits for a processor or a disk."""
        waiting = [pid]
        while waiting:
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                for thread in list(Path(f"/proc/{waiting.pop()}/task").iterdir()):
                    with suppress(FileNotFoundError, ProcessLookupError):
                        state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
                        waiting += map(int, (thread / "children").read_text().split())
                        if state in "RD":
                            return True
        return False

    def reap(self) -> None:
        """Collect the exit status of ended descendants that were adopted when their parents ended."""
        for thread in Path("/proc/self/task").iterdir():
            for pid in map(int, (thread / "children").read_text().split()):
                if pid not in self.started:
                    with suppress(ChildProcessError):  # its status was collected already
                        os.waitpid(pid, os.WNOHANG)

    def isolated(self) -> bool:
        return self._isolated

    def listening(self, pid: int) -> list[int]:
        try:
            connections = psutil.Process(pid).net_connections("tcp")  # of the caller's network
        except psutil.NoSuchProcess:
            return []
        return [end.laddr.port for end in connections if end.status == psutil.CONN_LISTEN]

    def connect(self, port: int) -> bool:
        try:
            with socket.create_connection((HOST, port), START_S) as connection:
                connection.setblocking(True)  # as the receiver expects
                socket.send_fds(self.channel, [b"."], [connection.fileno()])
            return True
        except ConnectionRefusedError:
            return False

    def signal(self, pid: int, name: str) -> None:
        for process in _family(pid):
            _quietly(process.send_signal, getattr(signal, f"SIG{name}"))

    def stop(self, pid: int) -> None:
        family = _family(pid)
        for process in family:  # not SIGTERM: an application would ask whether to save
            _quietly(process.kill)
        psutil.wait_procs(family, timeout=STOP_S)
        self.started.pop(pid).wait()

    def calls(self, calls: Sequence[tuple[str, Sequence[Any], Mapping[str, Any]]]) -> None:
        for name, arguments, named in calls:
            if name not in CALLS:
                raise ValueError(f"unknown pyautogui call: {name}")
            pause = {"interval": BETWEEN_S} if name == "doubleClick" else {}
            getattr(self.mouse, name)(*arguments, **pause, **named)

    def arrange(self, box: Sequence[int] | None, color: str | None) -> None:
        if self.floor is None:
            from sciencedesk.real.floor import Floor  # it opens the display of the environment

            self.floor = Floor()
        self.floor.lay(box, color)

    def picture(self) -> bytes:
        return self.screen.grab(self.area).rgb

    def close(self) -> None:
        for pid in list(self.started):
            self.stop(pid)
        for _ in range(3):  # a program that is just being started may escape the first round
            _end(psutil.Process().children(recursive=True))
        shutil.rmtree(self.home, ignore_errors=True)  # in a sandbox what is in it


def _permit(number: str, cookie: bytes) -> bytes:
    """An .Xauthority file's content: programs with this cookie may use the display of that number."""
    parts = (socket.gethostname().encode(), number.encode(), b"MIT-MAGIC-COOKIE-1", cookie)
    return struct.pack(">H", _LOCAL) + b"".join(struct.pack(">H", len(part)) + part for part in parts)


def _family(pid: int) -> list[psutil.Process]:
    try:
        first = psutil.Process(pid)
        return [*first.children(recursive=True), first]
    except psutil.NoSuchProcess:
        return []


def _quietly(do: Any, *arguments: Any) -> None:
    with suppress(psutil.NoSuchProcess):
        do(*arguments)


def _end(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        _quietly(process.send_signal, signal.SIGCONT)  # a stopped process could not end
        _quietly(process.terminate)
    _, alive = psutil.wait_procs(processes, timeout=STOP_S)
    for process in alive:
        _quietly(process.kill)
    psutil.wait_procs(alive, timeout=STOP_S)


def main() -> None:
    """Serve until the input ends.  Replies: {"ok": ...}, then a picture's bytes, or {"error": ...}."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no reply
    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)  # the end of the input is the end
    process = None
    try:
        try:
            width, height, channel = map(int, sys.argv[1:4])
            home, network = Path(sys.argv[4]), sys.argv[5]
            process = DisplayProcess((width, height), socket.socket(fileno=channel), home, network)
            _reply(output, {"ok": process.env})
        except (OSError, RuntimeError, ImportError, KeyError, SystemExit) as error:
            _reply(output, {"error": f"{type(error).__name__}: {error}"})
            return
        for line in sys.stdin:
            request = json.loads(line)
            try:
                result = getattr(process, request["do"])(*request.get("with", ()))
            except Exception as error:  # the client is to know every fault
                _reply(output, {"error": f"{type(error).__name__}: {error}"})
                continue
            if isinstance(result, bytes):
                _reply(output, {"ok": len(result)})
                output.write(result)
                output.flush()
            else:
                _reply(output, {"ok": result})
            process.reap()
    except BrokenPipeError:  # whoever asked is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())  # for what is flushed at the end
    finally:
        if process:
            process.close()
        _end(psutil.Process().children(recursive=True))


def _reply(output: Any, reply: dict[str, Any]) -> None:
    output.write(json.dumps(reply).encode() + b"\n")
    output.flush()


if __name__ == "__main__":
    main()
