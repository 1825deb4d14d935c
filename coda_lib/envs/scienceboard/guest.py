"""Client of the server inside the benchmark machines of OSWorld and ScienceBoard: screenshots, mouse and keyboard, files.

The server (Flask, port 5000, no authentication) cannot tell a repeated request from a new one.  So a query is repeated when it
fails, and a command is sent once.  If the answer to a command is lost, it is unknown whether it was carried out, which is a fault
of the machine.
"""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from dataclasses import dataclass
from operator import eq
from typing import Any

import httpx
import numpy as np
from PIL import Image

from coda_lib.envs.base import EnvironmentFault, standing_still
from coda_lib.envs.pyautogui import Call, code_of

PORT = 5000


@dataclass(frozen=True)
class Timing:
    """Time limits and pauses of the requests to a machine, in seconds."""

    connect: float = 5.0
    answer: float = 30.0  # limit of a query
    action: float = 90.0  # limit of an action or a command; the guest itself gives up after 120 s
    boot: float = 300.0  # limit from a revert until the server answers
    pause: float = 1.0  # between two tries
    tries: int = 3  # of a query
    still: float = 0.5  # time without change after which the screen counts as settled
    settle: float = 3.0  # limit for a screen that never settles
    look: float = 0.1  # between two screenshots


class Guest:
    """One machine, at the address `host` or `host:port`.  Every failure is an EnvironmentFault that names machine and request."""

    def __init__(self, address: str, timing: Timing):
        host, _, port = address.partition(":")
        self.host, self.timing, self._last = host, timing, b""  # the last complete screenshot
        self._url = f"http://{host}:{port or PORT}"
        timeout = httpx.Timeout(timing.answer, connect=timing.connect)
        self._client = httpx.Client(timeout=timeout, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))

    def close(self) -> None:
        self._client.close()

    def query(self, method: str, path: str, port: int | None = None, **body: Any) -> httpx.Response:
        """A request that may be repeated, because it changes nothing or does so only once; retried on failure."""
        url = (f"http://{self.host}:{port}" if port else self._url) + path
        why = ""
        for attempt in range(self.timing.tries):
            if attempt:
                time.sleep(self.timing.pause)
            try:
                response = self._client.request(method, url, **body)
                if response.is_success:
                    return response
                why = f"answered {response.status_code}: {response.text[:200]}"
            except httpx.HTTPError as error:
                why = f"{type(error).__name__}: {error}"
        raise EnvironmentFault(f"{method} {url} failed {self.timing.tries} times, last: {why}")

    def json(self, method: str, path: str, port: int | None = None, **body: Any) -> Any:
        return _read(self.query(method, path, port, **body))

    def command(self, path: str, port: int | None = None, deadline_s: float | None = None, **body: Any) -> httpx.Response:
        """A request that changes something: it reaches the machine at most once."""
        url = (f"http://{self.host}:{port}" if port else self._url) + path
        for attempt in range(self.timing.tries):
            if attempt:
                time.sleep(self.timing.pause)
            try:
                response = self._client.post(url, timeout=deadline_s or self.timing.answer, **body)
                break
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:  # not sent
                why = error
            except httpx.HTTPError as error:
                raise EnvironmentFault(f"{url}: it is unknown whether it was carried out ({type(error).__name__})") from error
        else:
            raise EnvironmentFault(f"{url} cannot be reached: {why}")
        if not response.is_success:
            raise EnvironmentFault(f"{url} answered {response.status_code}: {response.text[:200]}")
        return response

    def act(self, calls: Sequence[Call]) -> None:
        """Carry out pyautogui calls."""
        if not calls:
            return
        body = {"command": ["python", "-c", program(calls)], "shell": False}
        answer = _read(self.command("/execute", deadline_s=self.timing.action, json=body))
        if not isinstance(answer, dict) or answer.get("returncode", 0):
            raise EnvironmentFault(f"{self._url}: an action failed in the machine: {str(answer)[-200:]}")

    def screenshot(self) -> bytes:
        """The screen as a complete PNG; one that is cut off is requested again."""
        why: Exception | None = None
        for _ in range(self.timing.tries):
            content = self.query("GET", "/screenshot").content
            try:
                if content != self._last:
                    Image.open(io.BytesIO(content)).verify()
                self._last = content
                return content
            except (OSError, ValueError, SyntaxError) as error:  # SyntaxError: Pillow's error for a broken PNG
                why = error
                time.sleep(self.timing.pause)
        raise EnvironmentFault(f"{self._url}/screenshot gives no complete picture: {why}")

    def settled(self) -> bytes:
        """The screen once it does not change any more, or as it is after `Timing.settle`."""
        return standing_still(self.screenshot, self.timing.still, self.timing.settle, self.timing.look, same=eq)

    def wait_until_up(self) -> None:
        """Return when the server answers."""
        end = time.monotonic() + self.timing.boot
        while True:
            try:
                if self._client.get(f"{self._url}/platform").is_success:
                    return
            except httpx.HTTPError:
                pass
            if time.monotonic() > end:
                raise EnvironmentFault(f"{self._url} does not answer {self.timing.boot:g} s after the machine was started")
            time.sleep(self.timing.pause)

    def run(self, command: str | Sequence[str], shell: bool = False) -> None:
        """Run a command of a task's preparation, never one from a model."""
        self.command("/setup/execute", deadline_s=self.timing.action, json={"command": command, "shell": shell})

    def launch(self, command: str | Sequence[str], shell: bool = False) -> None:
        self.command("/setup/launch", json={"command": command, "shell": shell})

    def read(self, path: str) -> str:
        return self.query("GET", "/read", params={"path": path}).text

    def write(self, path: str, text: str) -> None:
        self.command("/write", json={"path": path, "content": text})


def _read(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise EnvironmentFault(f"{response.request.method} {response.url} answered no JSON: {response.text[:200]!r}") from error


def decoded(png: bytes) -> np.ndarray:
    """A PNG as RGB uint8 (height, width, 3).  EnvironmentFault if it cannot be read."""
    try:
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    except (OSError, ValueError, SyntaxError) as error:
        raise EnvironmentFault(f"a screenshot of the machine cannot be read: {error}") from error


def program(calls: Sequence[Call]) -> str:
    """The program of pyautogui calls for the guest's Python."""
    return f"import pyautogui; pyautogui.FAILSAFE = False; {code_of(calls)}"
