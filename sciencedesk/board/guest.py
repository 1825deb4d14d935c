"""Client of the server inside the machines of OSWorld and ScienceBoard.

The server (Flask, port 5000, no authentication) cannot tell a repeated request from a new one.  So a query is
repeated when it fails, and a command is sent once.  If the answer to a command is lost, it is unknown whether
it was carried out, which is a fault of the machine.
"""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from operator import eq
from typing import Any

import httpx
import numpy as np
from PIL import Image
from pydantic import Field

from coda_lib.config import Section
from coda_lib.environment import EnvironmentFault
from sciencedesk.board.transport import OneSegment
from sciencedesk.pyautogui import Call, code_of
from sciencedesk.standing import standing_still

PORT = 5000
# screenshots that a server gives: each leaks a client of the X server, and after about 248 it ends
SHOTS = 220
RESERVE = 60  # screenshots before that from which on a screen is looked at once
# calls in one request: each is followed by pyautogui's pause of 0.1 s, and the guest gives up after 120 s
TOGETHER = 300
CALL_S = 0.2  # seconds by which each further call puts off the deadline


class Timing(Section):
    """Time limits and pauses of the requests to a machine, in seconds."""

    connect: float = Field(5.0, gt=0)
    answer: float = Field(30.0, gt=0)  # limit of a query
    action: float = Field(90.0, gt=0)  # limit of an action, to which `CALL_S` is added for each further call
    prepare: float = Field(240.0, gt=0)  # limit of an item of a task's preparation, as in the benchmark
    item: float = Field(1.0, ge=0)  # before each such item, as in the benchmark
    boot: float = Field(300.0, gt=0)  # limit from a revert until the server answers
    pause: float = Field(1.0, ge=0)  # between two tries
    tries: int = Field(3, ge=1)  # of a query
    # from an action to the picture; 1 in the benchmark, which misses what comes after 1.5
    after: float = Field(2.0, ge=0)
    # time without change after which the screen counts as settled; 0: one screenshot a step
    still: float = Field(0.0, ge=0)
    settle: float = Field(3.0, ge=0)  # limit for a screen that never settles
    look: float = Field(0.1, ge=0)  # between two screenshots
    wait: float = Field(5.0, ge=0)  # of the action WAIT; 5 in the paper


class Guest:
    """A machine at `host` or `host:port`.  Failures are EnvironmentFaults that name machine and request."""

    def __init__(self, address: str, timing: Timing):
        host, _, port = address.partition(":")
        self.host, self.timing, self._last = host, timing, b""  # the last complete screenshot
        self.shots = 0  # screenshots since the server was started
        self._url = f"http://{host}:{port or PORT}"
        timeout = httpx.Timeout(timing.answer, connect=timing.connect)
        self._client = httpx.Client(timeout=timeout, trust_env=False, transport=OneSegment())

    def close(self) -> None:
        self._client.close()

    def _address(self, path: str, port: int | None) -> str:
        return (f"http://{self.host}:{port}" if port else self._url) + path

    def query(
        self, method: str, path: str, port: int | None = None, none: int = 0, **body: Any
    ) -> httpx.Response:
        """A request that changes nothing, or does so only once: repeated on failure.

        `none` is a status that is an answer as well: there is nothing.
        """
        url, why = self._address(path, port), ""
        for attempt in range(self.timing.tries):
            if attempt:
                time.sleep(self.timing.pause)
            try:
                response = self._client.request(method, url, **body)
                if response.is_success or response.status_code == none:
                    return response
                why = f"answered {response.status_code}: {response.text[:200]}"
            except httpx.HTTPError as error:
                why = f"{type(error).__name__}: {error}"
        raise EnvironmentFault(f"{method} {url} failed {self.timing.tries} times, last: {why}")

    def json(self, method: str, path: str, port: int | None = None, **body: Any) -> Any:
        return _read(self.query(method, path, port, **body))

    def command(
        self, path: str, port: int | None = None, deadline_s: float | None = None, **body: Any
    ) -> httpx.Response:
        """A request that changes something: it reaches the machine at most once."""
        url = self._address(path, port)
        timeout = httpx.Timeout(deadline_s or self.timing.answer, connect=self.timing.connect)
        for attempt in range(self.timing.tries):
            if attempt:
                time.sleep(self.timing.pause)
            try:
                response = self._client.post(url, timeout=timeout, **body)
                break
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:  # not sent
                why = error
            except httpx.HTTPError as error:
                unknown = f"it is unknown whether it was carried out ({type(error).__name__})"
                raise EnvironmentFault(f"{url}: {unknown}") from error
        else:
            raise EnvironmentFault(f"{url} cannot be reached: {why}")
        if not response.is_success:
            raise EnvironmentFault(f"{url} answered {response.status_code}: {response.text[:200]}")
        return response

    def order(self, path: str, port: int | None = None, **body: Any) -> None:
        """A command of a task's preparation, to which the servers answer OK when it is done."""
        answer = self.command(path, port, self.timing.prepare, **body)
        if answer.text.strip() != "OK":
            raise EnvironmentFault(f"{answer.request.url} did not answer OK but {answer.text[:200]!r}")

    def chimerax(self, command: str, port: int) -> dict[str, Any]:
        """ChimeraX's answer to one of its commands: `error`, null if there is none, and `log messages`."""
        body = {"port": port, "command": command}
        answer = _read(self.command("/chimerax/run", deadline_s=self.timing.prepare, json=body))
        if not isinstance(answer, dict):
            wrong = f"ChimeraX's answer to {command[:100]!r} is {str(answer)[:200]}"
            raise EnvironmentFault(f"{self._url}: {wrong}")
        return answer

    def act(self, calls: Sequence[Call]) -> None:
        """Carry out pyautogui calls.  Long text is sent in parts, each with the time that it needs."""
        for start in range(0, len(calls), TOGETHER):
            part = calls[start : start + TOGETHER]
            body = {"command": ["python", "-c", program(part)], "shell": False}
            deadline_s = self.timing.action + CALL_S * (len(part) - 1)
            answer = _read(self.command("/execute", deadline_s=deadline_s, json=body))
            if not isinstance(answer, dict) or answer.get("returncode", 0):
                raise EnvironmentFault(f"{self._url}: an action failed in the machine: {str(answer)[-200:]}")

    def screenshot(self) -> bytes:
        """The screen as a complete PNG; one that is cut off is requested again."""
        why: Exception | None = None
        for _ in range(self.timing.tries):
            if self.shots >= SHOTS:
                ending = f"{self._url} gave {SHOTS} screenshots and would soon end"
                raise EnvironmentFault(f"{ending}: revert it, or restart its server, between episodes")
            self.shots += 1
            content = self.query("GET", "/screenshot").content
            try:
                if content != self._last:
                    Image.open(io.BytesIO(content)).verify()
                self._last = content
                return content
            except (OSError, ValueError, SyntaxError) as error:  # the last one: Pillow's for a broken PNG
                why = error
                time.sleep(self.timing.pause)
        raise EnvironmentFault(f"{self._url}/screenshot gives no complete picture: {why}")

    def settled(self) -> bytes:
        """The screen once it does not change for `Timing.still`, or as it is after `Timing.settle`."""
        still = self.timing.still if self.shots < SHOTS - RESERVE else 0
        return standing_still(self.screenshot, still, self.timing.settle, self.timing.look, same=eq)

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
                late = f"does not answer {self.timing.boot:g} s after the machine was started"
                raise EnvironmentFault(f"{self._url} {late}")
            time.sleep(self.timing.pause)

    def run(self, command: str | Sequence[str], shell: bool = False) -> str:
        """The output of a command of a preparation, never of a model; its exit status does not matter."""
        body = {"command": command, "shell": shell}
        answer = _read(self.command("/setup/execute", deadline_s=self.timing.prepare, json=body))
        return str(answer.get("output", "")) if isinstance(answer, dict) else ""

    def launch(self, command: str | Sequence[str], shell: bool = False) -> None:
        self.command("/setup/launch", json={"command": command, "shell": shell})

    def file(self, path: str) -> str | None:
        """The text of a file; None if there is no such file, which is no fault."""
        answer = self.query("POST", "/file", data={"file_path": path}, none=404)
        if answer.is_success:
            return answer.content.decode("utf-8", errors="replace")
        if "File not found" not in answer.text:  # such as a server without that address
            raise EnvironmentFault(f"{answer.request.url} answered {answer.status_code}: {answer.text[:200]}")
        return None


def _read(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        wrong = f"answered no JSON: {response.text[:200]!r}"
        raise EnvironmentFault(f"{response.request.method} {response.url} {wrong}") from error


def decoded(png: bytes) -> np.ndarray:
    """A PNG as RGB uint8 (height, width, 3).  EnvironmentFault if it cannot be read."""
    try:
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    except (OSError, ValueError, SyntaxError) as error:
        raise EnvironmentFault(f"a screenshot of the machine cannot be read: {error}") from error


def program(calls: Sequence[Call]) -> str:
    """The program of pyautogui calls for the guest's Python."""
    return f"import pyautogui; pyautogui.FAILSAFE = False; {code_of(calls)}"
