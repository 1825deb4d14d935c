"""Machines that are pretended, many in one process, to measure a fleet with: they answer as slowly as real ones, and do nothing.

`python -m coda_lib.envs.scienceboard.pretended COUNT` prints the port of each on a line as JSON and serves until its
input ends.  What a machine is told to do is only counted; its picture is one of two, by turns, as large as a real screen's.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
import sys
from typing import Any

import numpy as np
import uvicorn
from PIL import Image

SCREENSHOT_S, ACTION_S, RESET_S = 0.3, 1.5, 40.0  # of a real machine
SIZE = (1280, 800)
HOST = "127.0.0.1"


def pictures(size: tuple[int, int] = SIZE) -> list[bytes]:
    """Two screens that differ: windows and lines of text, as PNG."""
    rng, found = np.random.default_rng(0), []
    for _ in range(2):
        screen = np.full((size[1], size[0], 3), 236, np.uint8)
        for _ in range(600):  # words
            y, x, width = rng.integers(0, size[1] - 12), rng.integers(0, size[0] - 80), rng.integers(8, 70)
            screen[y : y + 9, x : x + width] = np.where(rng.random((9, width, 1)) < 0.4, 40, 236)
        buffer = io.BytesIO()
        Image.fromarray(screen).save(buffer, "PNG")
        found.append(buffer.getvalue())
    return found


class Machines:
    """The ASGI application: one guest server for each port."""

    def __init__(self, size: tuple[int, int] = SIZE):
        self.pictures, self.done = pictures(size), {}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        port, path = scope["server"][1], scope["path"]
        if scope["method"] == "POST":
            while (await receive()).get("more_body"):
                pass
        content = b'{"status": "success", "returncode": 0}'
        if path == "/screenshot":
            await asyncio.sleep(SCREENSHOT_S)
            content = self.pictures[self.done.get(port, 0) % 2]
        elif path == "/execute":
            await asyncio.sleep(ACTION_S)
            self.done[port] = self.done.get(port, 0) + 1
        elif path == "/setup/launch":
            self.done[port] = 0
        elif path == "/vars":
            content = json.dumps({"n": str(self.done.get(port, 0))}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(content)).encode())]})
        await send({"type": "http.response.body", "body": content})


async def serve(count: int) -> None:
    """Serve so many machines until the input ends."""
    sockets = [socket.create_server((HOST, 0), backlog=64) for _ in range(count)]
    server = uvicorn.Server(uvicorn.Config(Machines(), lifespan="off", access_log=False, log_level=logging.ERROR))
    print(json.dumps([one.getsockname()[1] for one in sockets]), flush=True)
    asyncio.get_running_loop().run_in_executor(None, sys.stdin.read).add_done_callback(
        lambda _: setattr(server, "should_exit", True)
    )
    await server.serve(sockets)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
