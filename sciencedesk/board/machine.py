"""ScienceBoard's virtual machines as an environment.

The user's commands revert a machine to a task's snapshot (`Machine`).  `Guest` prepares it, takes screenshots
and acts, and the state servers inside the applications (port 8000) answer the check.
"""

from __future__ import annotations

import shlex
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pydantic import Field

from coda_lib.action import Action
from coda_lib.config import Section
from coda_lib.environment import EnvironmentFault, Fit, picture_space
from coda_lib.errors import UserError
from coda_lib.files import load_rows
from coda_lib.trajectory import StopReason, from_png
from sciencedesk.board.check import BoardState, check_board
from sciencedesk.board.files import BoardTask
from sciencedesk.board.guest import Guest, Timing, decoded
from sciencedesk.board.tasks import AppTask
from sciencedesk.pyautogui import Call, letting_go
from sciencedesk.screen import Screen

STATE_PORT = 8000
_PORTLIKE = "«PORTLIKE»"  # placeholder of the state server's port in a task's commands
STRIKES = 3  # broken episodes in a row after which a machine is not used any more
PREPARED = 5  # times that a machine is reverted and prepared until that works, as in the benchmark
_ABSENT = "there is no such script"


class Machine(Section):
    """One virtual machine, a row of a YAML file such as data/machines.example.yaml."""

    address: str  # 'HOST' or 'HOST:PORT' of the server inside
    # the command, word by word, that reverts to the snapshot {snapshot}; empty: none
    revert: tuple[str, ...] = ()
    start: tuple[str, ...] = ()  # the command that starts the machine after that
    command_s: float = Field(300.0, gt=0)  # time limit of each command in seconds
    state_port: int = STATE_PORT
    # script in the machine that restarts its server; passed over where it is not there
    reset: str = "/home/user/server/reset.sh"
    timing: Timing = Timing()  # waits and limits in seconds


def load_machines(path: Path) -> list[Machine]:
    """The machines of a file.  UserError names the file and the invalid field."""
    if not path.is_file():
        example = "data/machines.example.yaml"
        raise UserError(f"there is no file {path}: list your machines there, as in {example}")
    machines = load_rows(path, Machine)
    counts = Counter(machine.address for machine in machines)
    if repeated := [address for address, count in counts.items() if count > 1]:
        raise UserError(f"{path} lists {repeated[0]} twice: each machine plays one episode at a time")
    return machines


class ScienceBoard(Screen):
    """One virtual machine.  Its failures are EnvironmentFaults, never failures of the agent."""

    def __init__(self, machine: Machine, timing: Timing | None = None, fit: Fit | None = None):
        self.machine, self.fit, self.task = machine, fit, None
        self.timing = timing or machine.timing
        self.guest, self.wait_s = Guest(machine.address, self.timing), self.timing.wait
        self.size: tuple[int, int] | None = None  # of the screen, (width, height)
        self.begun = 0  # episodes since the last one with an outcome

    @property
    def lost(self) -> bool:
        """Whether the machine has broken `STRIKES` episodes in a row; until then a revert may repair it."""
        return self.begun >= STRIKES

    def reset(
        self, task: AppTask, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        return np.asarray(self.begin(task)), {}

    def begin(self, task: AppTask) -> Image.Image:
        self.task, self.size, self.begun = task, None, self.begun + 1
        held, self.held = self.held, ()
        tries = PREPARED if self.machine.revert else 1  # without a revert, what was prepared is there still
        for attempt in range(1, tries + 1):
            self._restart(task.board.snapshot)
            try:
                self.guest.act(() if self.machine.revert else letting_go(held))
                self._prepare(task.board)
                break
            except EnvironmentFault as fault:
                if attempt == tries:
                    failed = f"task {task.id} was not prepared in {tries} tries, last: {fault}"
                    raise EnvironmentFault(failed) from fault
        return self.picture()

    def _restart(self, snapshot: str) -> None:
        """Revert the machine and restart the server inside, which frees what screenshots leaked."""
        for command in filter(None, (self.machine.revert, self.machine.start)):
            self._command([word.replace("{snapshot}", snapshot) for word in command])
        self.guest.wait_until_up()
        script, output = shlex.quote(self.machine.reset), ""
        if self.machine.reset:
            command = f"if [ -e {script} ]; then /bin/bash {script}; else echo {_ABSENT}; fi"
            with suppress(EnvironmentFault):  # the server that it restarts is the one that answers
                output = self.guest.run(command, shell=True)
            self.guest.wait_until_up()
        if self.machine.revert or (self.machine.reset and _ABSENT not in output):
            self.guest.shots = 0

    def _prepare(self, board: BoardTask) -> None:
        for item in board.initialize:
            time.sleep(self.timing.item)
            prepare(self.guest, item, self.machine.state_port)
            time.sleep(item.wait)

    def proceed(self, action: Action) -> tuple[Image.Image, bool]:
        info = self.do(action)
        return self.picture(), info["stop"] is not None

    def _command(self, words: Sequence[str]) -> None:
        try:
            subprocess.run(words, check=True, capture_output=True, timeout=self.machine.command_s)
        except (OSError, subprocess.SubprocessError) as error:
            output = (getattr(error, "stderr", None) or b"").decode(errors="replace")[-200:]
            raise EnvironmentFault(f"{self.machine.address}: {error} {output}") from error

    def act(self, calls: Sequence[Call]) -> None:
        self.guest.act(calls)
        time.sleep(self.timing.after if calls else 0)

    def look(self) -> np.ndarray:
        return np.asarray(self.picture())

    def picture(self) -> Image.Image:
        """The settled screen; a PNG is decoded only to be resized: it takes 17 ms at 1280 x 800."""
        screen = from_png(self.guest.settled())
        if screen.size != (self.size or screen.size):
            changed = f"the screen was {self.size} and is {screen.size} now"
            raise EnvironmentFault(f"{self.machine.address}: {changed}")
        wanted = self.fit(screen.size) if self.fit else screen.size
        if self.size is None:
            self.size, self.observation_space = screen.size, picture_space((wanted[1], wanted[0], 3))
        return screen if wanted == screen.size else Image.fromarray(self.fitted(np.asarray(screen)))

    def render(self) -> np.ndarray:
        return self.fitted(decoded(self.guest.screenshot()))

    def check(self, stop: StopReason, answer: str | None = None) -> bool:
        solved = check_board(self.task.board, GuestState(self.guest, self.machine.state_port), stop, answer)
        self.begun = 0
        return solved

    def close(self) -> None:
        self.guest.close()


class Machines:
    """Gives each machine once; a lost one does not return."""

    def __init__(self, machines: Sequence[Machine], timing: Timing | None = None):
        self.waiting, self.timing = list(machines), timing

    def __call__(self, fit: Fit | None = None) -> ScienceBoard:
        """The next machine as an environment.  EnvironmentFault if none is left."""
        if not self.waiting:
            raise EnvironmentFault("no virtual machine is left")
        return ScienceBoard(self.waiting.pop(0), self.timing, fit)


def prepare(guest: Guest, item: Any, port: int) -> None:
    """Carry out one item of `initialize`.  EnvironmentFault if the machine does not say that it is done."""
    fields = item.model_dump(exclude={"func", "wait"})
    match item.func:
        case "launch" | "execute":
            command = item.command
            if isinstance(command, str):
                command = command.replace(_PORTLIKE, str(port))
            else:
                command = [word.replace(_PORTLIKE, str(port)) for word in command]
            (guest.launch if item.func == "launch" else guest.run)(command, item.shell)
        case "opt":
            guest.order("/opt", json=fields)
        case "touch":
            guest.order("/write", json={"path": item.path, "content": item.text})
        case "download":
            guest.command("/setup/download_file", deadline_s=guest.timing.prepare, json=fields)
        case "tab":
            guest.order("/tab", port, json=item.index)
        case "func_2d" | "func_3d":
            guest.order(f"/add/{item.func[-2:]}", port, content=item.expr.encode())
        case "map" | "layer" | "scale":
            guest.order(f"/init/{item.func}", port, json=fields)
        case "open" if item.path:
            guest.command("/setup/open_file", json={"path": item.path})
        case _:
            command = _chimerax(item)
            if error := guest.chimerax(command, port).get("error"):
                raise EnvironmentFault(f"{guest.host}: ChimeraX could not {command!r}: {str(error)[:200]}")


def _chimerax(item: Any) -> str:
    match item.func:
        case "clear_log":
            return "log clear"  # `clear` alone clears the history of files
        case "open":
            return f"open {item.name}"
        case "turn":
            return f"turn {item.axis} {item.angle}"
        case "alphafold_match":
            return f"alphafold match {item.name}"
        case "color":
            return item.style if item.style == "rainbow" else f"color {item.style}"
    return item.func


class GuestState(BoardState):
    """The state of a machine's applications, from their state servers (`check.BoardState`)."""

    def __init__(self, guest: Guest, port: int):
        self.guest, self.port = guest, port

    def variables(self) -> Mapping[str, str]:
        return self.guest.json("GET", "/vars", self.port)

    def functions(self, points: Sequence[Sequence[float]]) -> Sequence[Mapping[str, Any]]:
        plots = self.guest.json("POST", f"/func/{len(points[0])}d", self.port, json=points)
        return [plots] if isinstance(plots, dict) else plots  # of three dimensions there is one plot, no list

    def plots(self) -> int:
        return len(self.guest.json("POST", "/func/2d", self.port, json=[]))

    def dump(self, task: BoardTask) -> Any:
        if task.type == "ChimeraX":
            stamp = uuid.uuid4().hex
            if error := self.guest.chimerax(f"states /tmp {stamp}", self.port).get("error"):
                silent = f"ChimeraX does not tell its states: {str(error)[:200]}"
                raise EnvironmentFault(f"{self.guest.host}: {silent}")
            return self.guest.json("GET", "/read", params={"path": f"/tmp/{stamp}.json"})
        if task.type == "Celestia":
            return self.guest.json("POST", "/dump", self.port, json=task.query or [])
        return self.guest.json("GET", "/dump", self.port)

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        answer = self.guest.json("POST", "/gcmd", self.port, json={"cmd": name, "kwargs": dict(arguments)})
        return answer.get("stdout") if isinstance(answer, dict) else None

    def info(self, key: str) -> Sequence[str]:
        messages = self.guest.chimerax(f"info {key}", self.port).get("log messages")
        notes = messages.get("note", []) if isinstance(messages, dict) else []
        return [line for note in notes for line in str(note).strip().split("\n") if line]

    def file(self, path: str) -> str | None:
        return self.guest.file(path)
