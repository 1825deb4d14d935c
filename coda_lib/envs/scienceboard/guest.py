"""Client of the server inside the benchmark machines of OSWorld and ScienceBoard: screenshots, mouse and keyboard, files.

The server (Flask, port 5000, no authentication) cannot tell a repeated request from a new one.  So what only asks is asked again
when it fails; what changes something is sent once, and where its answer is lost nobody knows whether it was done: that is a fault
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
class Patience:
    """How long a machine is waited for, in seconds."""

    connect: float = 5.0
    answer: float = 30.0  # to a question
    action: float = 90.0  # to an action or a command; the guest itself gives up after 120 s
    boot: float = 300.0  # from a revert until the server answers
    pause: float = 1.0  # between two tries
    tries: int = 3  # of a question
    still: float = 0.5  # for which the picture must not change to count as settled
    settle: float = 3.0  # at most, for a picture that never stands still
    look: float = 0.1  # between two pictures


class Guest:
    """One machine, at the address `host` or `host:port`.  Every failure is an EnvironmentFault that names machine and request."""

    def __init__(self, address: str, patience: Patience):
        host, _, port = address.partition(":")
        self.host, self.patience, self._whole = host, patience, b""  # the last whole picture
        self._url = f"http://{host}:{port or PORT}"
        timeout = httpx.Timeout(patience.answer, connect=patience.connect)
        self._client = httpx.Client(timeout=timeout, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))

    def close(self) -> None:
        self._client.close()

    def ask(self, method: str, path: str, port: int | None = None, **body: Any) -> httpx.Response:
        """A request that changes nothing, or nothing more when it comes twice: tried again a few times."""
        url = (f"http://{self.host}:{port}" if port else self._url) + path
        why = ""
        for attempt in range(self.patience.tries):
            if attempt:
                time.sleep(self.patience.pause)
            try:
                response = self._client.request(method, url, **body)
                if response.is_success:
                    return response
                why = f"answered {response.status_code}: {response.text[:200]}"
            except httpx.HTTPError as error:
                why = f"{type(error).__name__}: {error}"
        raise EnvironmentFault(f"{method} {url} failed {self.patience.tries} times, at last: {why}")

    def json(self, method: str, path: str, port: int | None = None, **body: Any) -> Any:
        return _read(self.ask(method, path, port, **body))

    def tell(self, path: str, port: int | None = None, deadline_s: float | None = None, **body: Any) -> httpx.Response:
        """A request that changes something: it reaches the machine at most once, whatever the network does."""
        url = (f"http://{self.host}:{port}" if port else self._url) + path
        for attempt in range(self.patience.tries):
            if attempt:
                time.sleep(self.patience.pause)
            try:
                response = self._client.post(url, timeout=deadline_s or self.patience.answer, **body)
                break
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:  # it never reached the machine
                why = error
            except httpx.HTTPError as error:
                raise EnvironmentFault(f"{url}: whether it was done is not known ({type(error).__name__})") from error
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
        answer = _read(self.tell("/execute", deadline_s=self.patience.action, json=body))
        if not isinstance(answer, dict) or answer.get("returncode", 0):
            raise EnvironmentFault(f"{self._url}: an action failed in the machine: {str(answer)[-200:]}")

    def screenshot(self) -> bytes:
        """What the screen shows as a PNG that is whole; one that is cut off is asked for again."""
        why: Exception | None = None
        for _ in range(self.patience.tries):
            content = self.ask("GET", "/screenshot").content
            try:
                if content != self._whole:
                    Image.open(io.BytesIO(content)).verify()
                self._whole = content
                return content
            except (OSError, ValueError, SyntaxError) as error:  # SyntaxError: how Pillow says that a PNG's parts are broken
                why = error
                time.sleep(self.patience.pause)
        raise EnvironmentFault(f"{self._url}/screenshot gives no whole picture: {why}")

    def settled(self) -> bytes:
        """The screen once it has stood still for a while, or as it is when that takes too long."""
        return standing_still(self.screenshot, self.patience.still, self.patience.settle, self.patience.look, same=eq)

    def wait_until_up(self) -> None:
        """Return when the server answers."""
        end = time.monotonic() + self.patience.boot
        while True:
            try:
                if self._client.get(f"{self._url}/platform").is_success:
                    return
            except httpx.HTTPError:
                pass
            if time.monotonic() > end:
                raise EnvironmentFault(f"{self._url} does not answer {self.patience.boot:g} s after the machine was started")
            time.sleep(self.patience.pause)

    def run(self, command: str | Sequence[str], shell: bool = False) -> None:
        """A command of a task's preparation, never of a model's making."""
        self.tell("/setup/execute", deadline_s=self.patience.action, json={"command": command, "shell": shell})

    def launch(self, command: str | Sequence[str], shell: bool = False) -> None:
        self.tell("/setup/launch", json={"command": command, "shell": shell})

    def read(self, path: str) -> str:
        return self.ask("GET", "/read", params={"path": path}).text

    def write(self, path: str, text: str) -> None:
        self.tell("/write", json={"path": path, "content": text})


def _read(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise EnvironmentFault(f"{response.request.method} {response.url} answered no JSON: {response.text[:200]!r}") from error


def decoded(png: bytes) -> np.ndarray:
    """RGB uint8 (height, width, 3).  EnvironmentFault if that cannot be read."""
    try:
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    except (OSError, ValueError, SyntaxError) as error:
        raise EnvironmentFault(f"a picture of the machine's cannot be read: {error}") from error


def program(calls: Sequence[Call]) -> str:
    """What the guest's Python is to run."""
    return f"import pyautogui; pyautogui.FAILSAFE = False; {code_of(calls)}"
