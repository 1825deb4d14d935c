"""A guest server that misbehaves: latency, hangs, errors, lost replies, cut-off and stale pictures, slow boots.

It stands for a virtual machine with one application in it: what is typed or clicked is remembered, and the picture says how much
that was.  What it was asked to do is read from the command's syntax tree, never run.
"""

from __future__ import annotations

import ast
import io
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

SIZE = (64, 48)
REVERT = "/pretended/revert"
FAULTS = ("latency", "hang", "error", "reset before", "reset after", "truncated", "stale")


class GuestServer:
    """A machine on a port of its own; `rates` are the chances of each fault for each request."""

    def __init__(self, rates: Mapping[str, float] | None = None, seed: int = 0, hang_s: float = 1.0, boot_s: float = 0.0):
        self.rates, self.rng, self.hang_s, self.boot_s = rates or {}, random.Random(seed), hang_s, boot_s
        self.done: list[str] = []  # every action that was carried out, whoever learned of it
        self.episodes: list[list[str]] = []  # the same, by revert
        self.faults: Counter[str] = Counter()
        self.requests: list[tuple[str, Any]] = []
        self.variables: dict[str, str] = {}
        self.dead = False
        self.lock = threading.Lock()
        self.booted = time.monotonic()
        self.revert()
        machine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # noqa: N802
                machine.handle(self, None)

            def do_POST(self) -> None:  # noqa: N802
                machine.handle(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:  # a connection that was reset on purpose
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def revert(self) -> None:
        """Back to the snapshot, and booting."""
        with self.lock:
            self.generation = getattr(self, "generation", 0) + 1
            self.typed: list[str] = []
            self.episodes.append(self.typed)
            self.before = self.picture = _picture(0)
            self.booted = time.monotonic() + self.boot_s

    def handle(self, request: BaseHTTPRequestHandler, body: bytes | None) -> None:
        if request.path == REVERT:  # what a hypervisor would do: no fault of the machine's touches it
            self.revert()
            return _send(request, 200, b"")
        with self.lock:
            fault = next((name for name in FAULTS if self.rng.random() < self.rates.get(name, 0)), None)
            if fault in ("truncated", "stale") and not request.path.startswith("/screenshot"):
                fault = None
            self.faults[fault or "none"] += 1
            self.requests.append((request.path, body))
            generation = self.generation
        if self.dead or fault == "reset before" or time.monotonic() < self.booted:
            return _reset(request)
        if fault == "latency":
            time.sleep(0.02)
        if fault == "hang":
            time.sleep(self.hang_s)
        if fault == "error":
            return _send(request, 500, b'{"status": "error", "message": "injected"}')
        with self.lock:
            if generation != self.generation:  # what hung when the machine was reverted is gone
                return _reset(request)
            status, content = self.answer(request.path, body)
            if fault == "stale":
                content = self.before
        if fault == "reset after":
            return _reset(request)
        _send(request, status, content[: len(content) // 2] if fault == "truncated" else content)

    def answer(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        match path.partition("?")[0]:
            case "/screenshot":
                return 200, self.picture
            case "/platform":
                return 200, b"Linux"
            case "/execute":
                return self.execute(json.loads(body)["command"])
            case "/vars":
                return 200, json.dumps(self.variables | {"n": str(len(self.typed)), "typed": " ".join(self.typed)}).encode()
            case "/func/2d":
                return 200, b"[]"
            case "/setup/execute" | "/setup/launch" | "/opt" | "/write" | "/tab" | "/add/2d" | "/add/3d" | "/chimerax/run":
                return 200, b'{"status": "success", "returncode": 0}'
        return 404, b"not found"

    def execute(self, command: list[str]) -> tuple[int, bytes]:
        for call in (node for node in ast.walk(ast.parse(command[2])) if isinstance(node, ast.Call)):
            given = [ast.literal_eval(argument) for argument in call.args]
            self.typed.append(f"{call.func.attr} {' '.join(map(str, given))}")
            self.done.append(self.typed[-1])
        self.before, self.picture = self.picture, _picture(len(self.typed))
        return 200, b'{"status": "success", "output": "", "error": "", "returncode": 0}'


def _picture(number: int) -> bytes:
    image, buffer = Image.new("RGB", SIZE, (number % 256, number // 256, 7)), io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _send(request: BaseHTTPRequestHandler, status: int, content: bytes) -> None:
    try:
        request.send_response(status)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
    except OSError:  # whoever asked has gone
        pass


def _reset(request: BaseHTTPRequestHandler) -> None:
    """Close the connection the hard way: the other side sees a reset."""
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()
    request.close_connection = True
