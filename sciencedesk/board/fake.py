"""Fake machines: ScienceBoard's guest server for tests and benchmarks, without a virtual machine.

A fake machine holds one application, which remembers what is typed or clicked and shows another screen after
each action.  It can be as slow as a real machine and can fail as one does.  Commands are read from their
syntax tree and never run.  As a real one it takes what one `recv` returns for the whole request to its state
server, and after `CLIENTS` screenshots it answers nothing more.

`python -m sciencedesk.board.fake COUNT` serves fake machines as slow and large as real ones until its input
ends, and prints their ports as a JSON list.
"""

from __future__ import annotations

import ast
import asyncio
import io
import json
import random
import re
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Mapping
from functools import cache
from threading import Lock, Thread
from urllib.parse import parse_qs

import numpy as np
from PIL import Image

from sciencedesk.board.files import BoardTask
from sciencedesk.board.guest import Timing
from sciencedesk.board.machine import Machine
from sciencedesk.board.tasks import AppTask, board_task

HOST = "127.0.0.1"
SIZE, REAL_SIZE = (160, 120), (1280, 800)  # (width, height) of the screen in pixels
SCREENSHOT_S, ACTION_S, RESET_S = 0.3, 1.5, 40.0  # of a real machine
FAULTS = ("latency", "hang", "error", "reset before", "reset after", "truncated", "stale")
LATENCY_S = 0.02  # of the fault of that name
# screenshots, each of which leaks a client of the X server, until a revert or the server's restart
CLIENTS = 248
_STATE = ("/vars", "/func/", "/tab", "/add/", "/dump", "/gcmd", "/init/")  # addresses of state servers
_ORDERS = ("/opt", "/write", "/tab", "/add/2d", "/add/3d", "/init/map", "/init/layer", "/init/scale")
_FIXED = dict.fromkeys(_ORDERS, b"OK") | {
    "/platform": b"Linux", "/func/2d": b"[]", "/func/3d": b"{}", "/dump": b"{}", "/read": b"{}",
    "/gcmd": b'{"stdout": ""}', "/setup/download_file": b"OK",
    "/chimerax/run": b'{"error": null, "log messages": {"note": []}}',
}  # answers by address  # fmt: skip
_LARGEST = 1 << 20  # bytes of a request
QUICK = Timing(
    connect=0.5, answer=0.4, action=0.4, prepare=0.4, item=0, boot=2.0, pause=0.01, after=0, wait=0.1,
    settle=0.2,
)  # fmt: skip
_REVERT = "/fake/revert"
_POST = "import sys, urllib.request as web; web.urlopen(web.Request(sys.argv[1], method='POST'))"
_DONE = b'{"status": "success", "output": "", "error": "", "returncode": 0}'


@cache
def screen(number: int, size: tuple[int, int] = SIZE) -> bytes:
    """The screen after `number` actions as PNG: words on a grey window."""
    rng, pixels = np.random.default_rng(number), np.full((size[1], size[0], 3), 236, np.uint8)
    for _ in range(600 * size[0] * size[1] // (REAL_SIZE[0] * REAL_SIZE[1])):
        y, x, width = rng.integers(0, size[1] - 12), rng.integers(0, size[0] - 80), rng.integers(8, 70)
        pixels[y : y + 9, x : x + width] = np.where(rng.random((9, width, 1)) < 0.4, 40, 236)
    png = io.BytesIO()
    Image.fromarray(pixels).save(png, "PNG")
    return png.getvalue()


class FakeMachine:
    """A guest server and its application's state server on one port; `rates`: probabilities of `FAULTS`.

    A machine that is `dead` resets every connection.
    """

    def __init__(
        self, rates: Mapping[str, float] | None = None, seed: int = 0, *, size: tuple[int, int] = SIZE,
        screenshot_s: float = 0.0, action_s: float = 0.0, hang_s: float = 0.6, boot_s: float = 0.0,
    ):  # fmt: skip
        self.rates, self.rng, self.size = rates or {}, random.Random(seed), size
        self.delays = {"/screenshot": screenshot_s, "/execute": action_s}  # seconds
        self.hang_s, self.boot_s = hang_s, boot_s
        self.effect_s = self.call_s = 0.0  # of an action, and of each of its calls
        self.actions: list[str] = []  # all that were carried out, even if the reply was lost
        self.episodes: list[list[str]] = []  # the same, a list for each launch of the application
        self.faults: Counter[str] = Counter()
        self.requests: list[tuple[str, bytes]] = []  # (path, body)
        self.answers: dict[str, list[bytes]] = {}  # by path, given before the machine's own
        self.files: dict[str, bytes] = {}  # by path
        self.dead, self.reverts, self.restarts, self.clients, self.lock = False, -1, 0, 0, Lock()
        self.revert()
        self._server = _run(asyncio.start_server(self._connected, HOST, 0))
        self.port = self._server.sockets[0].getsockname()[1]
        self.address = f"{HOST}:{self.port}"

    @property
    def machine(self) -> Machine:
        """Its row in a list of machines, with waits that suit it and a revert command like a hypervisor's."""
        revert = (sys.executable, "-c", _POST, f"http://{self.address}{_REVERT}")
        return Machine(address=self.address, state_port=self.port, revert=revert, timing=QUICK)

    def close(self) -> None:
        async def close() -> None:
            self._server.close()

        _run(close())

    def revert(self) -> None:
        """Return to the snapshot and boot."""
        with self.lock:
            self.reverts, self.clients = self.reverts + 1, 0
            self._launch()
            self.booted = time.monotonic() + self.boot_s

    def _launch(self) -> None:
        self.episodes.append([])
        self.before, self.shown_at = screen(0, self.size), 0.0
        self.picture = self.before

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = await reader.read(_LARGEST)  # what has arrived, as `recv`
        if not received.startswith((b"GET /", b"POST /")):
            writer.close()
            return
        path = received.split()[1].decode().partition("?")[0]
        while _lacks(received) and not path.startswith(_STATE) and (more := await reader.read(_LARGEST)):
            received += more
        reply = None
        if _lacks(received):
            await asyncio.sleep(self.hang_s)
        else:
            reply = await self._reply(path, received.partition(b"\r\n\r\n")[2])
        if reply is None:  # with this option the other side sees a reset
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        else:
            status, content = reply
            head = f"HTTP/1.1 {status} -\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + content)
        writer.close()

    async def _reply(self, path: str, body: bytes) -> tuple[int, bytes] | None:
        """Status and content; None: the connection is reset."""
        if path == _REVERT:  # asked of the hypervisor: no fault of the machine touches it
            self.revert()
            return 200, b""
        fault = next((name for name in FAULTS if self.rng.random() < self.rates.get(name, 0)), None)
        if fault in ("truncated", "stale") and path != "/screenshot":
            fault = None
        self.faults[fault or "none"] += 1
        self.requests.append((path, body))
        reverts = self.reverts
        if self.dead or fault == "reset before" or time.monotonic() < self.booted:
            return None
        typing_s = self.call_s * body.count(b"pyautogui.") if path == "/execute" else 0.0
        fault_s = {"latency": LATENCY_S, "hang": self.hang_s}.get(fault, 0.0)
        await asyncio.sleep(typing_s + self.delays.get(path, 0.0) + fault_s)
        if fault == "error":
            return 500, b'{"status": "error", "message": "injected"}'
        with self.lock:
            if reverts != self.reverts:  # the request went down with the old state
                return None
            if path == "/screenshot":
                self.clients += 1
            if self.clients > CLIENTS and path in ("/screenshot", "/execute"):
                status, content = 500, b"Maximum number of clients reached"
            elif self.answers.get(path):
                status, content = 200, self.answers[path].pop(0)
            else:
                status, content = (200, self.before) if fault == "stale" else self._answer(path, body)
        if fault == "reset after":
            return None
        return status, content[: len(content) // 2] if fault == "truncated" else content

    def _answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        match path:
            case "/screenshot":
                return 200, self.picture if time.monotonic() >= self.shown_at else self.before
            case "/execute":
                self.execute(json.loads(body)["command"])
                return 200, _DONE
            case "/vars":
                actions = self.episodes[-1]
                return 200, json.dumps({"n": str(len(actions)), "typed": " ".join(actions)}).encode()
            case "/setup/launch":
                self._launch()
                return 200, b"app launched successfully"
            case "/setup/execute":
                if "reset.sh" in str(json.loads(body)["command"]):
                    self.restarts, self.clients = self.restarts + 1, 0
                return 200, _DONE
            case _ if path in _FIXED:
                return 200, _FIXED[path]
            case "/file" if (named := parse_qs(body.decode())["file_path"][0]) in self.files:
                return 200, self.files[named]
            case "/file":
                return 404, b'{"error": "File not found"}'
        return 404, b"not found"

    def execute(self, command: list[str]) -> None:
        """Note the calls in the program of a command such as ['python', '-c', PROGRAM]."""
        for call in (node for node in ast.walk(ast.parse(command[2])) if isinstance(node, ast.Call)):
            action = " ".join([call.func.attr, *(str(ast.literal_eval(argument)) for argument in call.args)])
            self.episodes[-1].append(action)
            self.actions.append(action)
        self.before, self.picture = self.picture, screen(len(self.episodes[-1]), self.size)
        self.shown_at = time.monotonic() + self.effect_s


def _lacks(received: bytes) -> bool:
    """Whether a part of a request is missing."""
    head, end, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    return not end or len(body) < int(length[1] if length else 0)


def typing_task(words: int = 2) -> AppTask:
    """A task for a fake machine: type some words, one a step.  Its check counts the actions, clicks too."""
    script = [f"type(content='word {number}')" for number in range(words)]
    board = BoardTask.model_validate(
        {
            "type": "KAlgebra", "sort": "VM", "steps": words + 1, "instruction": f"Type {words} words.",
            "version": "0", "snapshot": "clean", "solution": [*script, "finished()"],
            "initialize": [{"func": "launch", "command": "app «PORTLIKE»", "shell": True}],
            "evaluate": [{"type": "val", "key": "n", "value": words}],
        }
    )  # fmt: skip
    return board_task(board, f"A-{words:02d}")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of all fake machines of this process, in a thread of its own."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _run(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result()


if __name__ == "__main__":
    slow = {"size": REAL_SIZE, "screenshot_s": SCREENSHOT_S, "action_s": ACTION_S}
    machines = [FakeMachine(**slow) for _ in range(int(sys.argv[1]))]
    print(json.dumps([machine.port for machine in machines]), flush=True)
    sys.stdin.read()
