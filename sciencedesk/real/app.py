"""A real application on a display of its own, as an environment with ScienceBoard's task files."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from coda_lib.environment import EnvironmentFault, Fit, picture_space
from coda_lib.errors import UserError
from coda_lib.task import Task, check
from coda_lib.trajectory import StopReason
from sciencedesk.board.check import BoardState, check_board
from sciencedesk.board.tasks import AppTask
from sciencedesk.pyautogui import Call
from sciencedesk.real.display import Display
from sciencedesk.real.themes import QT_STYLES
from sciencedesk.screen import Screen

SIZE = (640, 480)  # of the screen, (width, height) in pixels
START_S = 60.0  # for an application to be there
PAUSE_S = 0.05  # between two requests whether it is
GUEST_HOME = "/home/user/"  # in ScienceBoard's task files


class App(Screen, BoardState):
    """One application: a subclass starts, resets and prepares it and reads its state.

    UserError where it is not installed, and for tasks of other applications.  EnvironmentFault where it
    breaks; the next reset then begins with a new display.
    """

    kind: ClassVar[str]  # the `type` of its task files
    needs: ClassVar[Mapping[str, str]]  # files that must exist, each with its Debian package
    sleeps: ClassVar[bool] = False  # whether it is halted between steps, to save processor time
    still_s: ClassVar[float] = 0.06  # for which the picture must stand still
    settle_s: ClassVar[float] = 3.0  # after which a picture that still moves is taken
    step_s: ClassVar[float] = 0.15  # target of `make bench` for a step
    # facts after a start, of the keys that goals of its task space are about
    defaults: ClassVar[Mapping[str, Any]] = {}
    factors: ClassVar[Sequence[str]] = ("window", "desktop", "theme")  # of perturbed runs
    lost = False
    view: Mapping[str, Any] = {}  # window and theme of the present run (`perturb`); empty: the usual ones

    def __init__(self, size: tuple[int, int] = SIZE, fit: Fit | None = None):
        if missing := [file for file in self.needs if not Path(file).exists()]:
            listed = ", ".join(missing)
            raise UserError(f"{self.kind} needs {listed}: install what is missing with `coda apps install`")
        self.size, self.fit = size, fit
        shape = self.fitted(np.zeros((size[1], size[0], 3), np.uint8)).shape
        self.observation_space = picture_space(shape)
        self.display: Display | None = None
        self.pid: int | None = None  # of the application
        self.closed = False  # by an action
        self._state: dict[str, Any] | None = None  # read once between two actions

    # -- what a subclass defines -----------------------------------------------------------------------
    @abstractmethod
    def launch(self) -> int:
        """Start the application on the display, wait until it is ready, return its process number."""

    def wait_until(self, ready: Callable[[], Any], pid: int) -> Any:
        """The first true result of `ready`.  EnvironmentFault if the application ends or takes `START_S`."""
        end = time.monotonic() + START_S
        while not (result := ready()):
            if time.monotonic() > end or self.display.ended(pid) is not None:
                raise EnvironmentFault(f"{self.kind} is not ready in {START_S:g} s")
            time.sleep(PAUSE_S)
        return result

    def fresh(self) -> None:
        """Bring the running application back to its first state; by default by starting it again."""
        self.again()

    def again(self) -> None:
        """Start the application again, in the window and theme of `view`."""
        self.display.stop(self.pid)
        self.pid = self.launch()

    def prepare(self, item: Any) -> None:
        """Carry out an item of a task's `initialize`.  UserError for an unknown one."""
        raise self.refusal(f"{self.kind} knows no {item.func!r}")

    def refusal(self, why: str) -> UserError:
        """The error for what the task's `initialize` asks for in vain."""
        return UserError(f"task {self.task.id}: initialize: {why}")

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The application's state as JSON values."""

    def facts(self) -> dict[str, Any]:
        """What tasks of its task space check: the state, or what follows from it."""
        return self.now()

    def set(self, key: str, value: Any) -> None:
        """Bring about a setting that a task of its task space starts with.  UserError for an unknown one."""
        raise self.refusal(f"{self.kind} has no setting {key!r}")

    def named(self) -> tuple[list[Any], str | None]:
        """What can be clicked, as elements, and the field that takes a typed text; never for the agent."""
        raise UserError(f"{self.kind} does not name its elements")

    def elements(self) -> list[Any]:
        return self.named()[0]

    def way_to(self, name: str) -> dict[str, str] | None:
        """The next step of a script towards an element that is scrolled away; None if it is not."""
        return None

    def elements_at(self, found: Sequence[tuple[str, str, Sequence[float], str]]) -> list[Any]:
        """Elements, as in ScienceDesk's window, from names, roles, boxes in px of the screen, and texts."""
        # take Qt along, which the applications do not need
        from sciencedesk.desk.elements import Element
        from sciencedesk.desk.widgets import HEIGHT, WIDTH

        across, down, elements = WIDTH / self.size[0], HEIGHT / self.size[1], []
        for name, role, (x, y, w, h), text in found:
            left, top = x * across, y * down
            width, height = (x + w) * across - left, (y + h) * down - top
            elements.append(Element(name, role, (round(left), round(top), round(width), round(height)), text))
        return elements

    def ended_soon(self, limit_s: float) -> int | None:
        """The application's exit status once it has ended; None if it still runs after `limit_s` seconds."""
        end = time.monotonic() + limit_s
        while (status := self.display.ended(self.pid)) is None and time.monotonic() < end:
            time.sleep(0.02)
        return status

    # -- the environment -------------------------------------------------------------------------------
    def reset(
        self, task: Task, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a task in ScienceBoard's format (`AppTask`), or one of the application's task space."""
        board = task.board if isinstance(task, AppTask) else None
        if (kind := board.type if board else task.app) != self.kind:
            raise UserError(f"task {task.id} is for {kind}, not for {self.kind}")
        if lacking := ", ".join(task.view.keys() - set(self.factors)):
            known = ", ".join(self.factors)
            raise UserError(f"task {task.id}: view: {self.kind} has no {lacking}; there are {known}")
        if (theme := task.view.get("theme", "light")) not in QT_STYLES:
            raise UserError(f"task {task.id}: view: no theme {theme!r}; there are {', '.join(QT_STYLES)}")
        self.task, self._state = task, None
        with self._closing():
            self._begin()
            for item in board.initialize if board else ():
                if item.func != "launch":  # the application runs already
                    self.prepare(item)
                    time.sleep(item.wait if item.func == "call" else 0)  # a VM's waits are not ours
            for key, value in task.settings.items():
                self.set(key, value)
            return self.look(), {}

    def _begin(self) -> None:
        if self.display is None or self.closed or self.display.ended(self.pid) is not None:
            self.close()
            self.held = ()
            self.display, self.view = Display(self.size), {}
            self._arrange()
            self.pid = self.launch()
        else:
            self._wake()
            self.let_go()
            # to the middle: what is under the mouse looks different
            self.display.act([("moveTo", (self.size[0] // 2, self.size[1] // 2), {})])
            if self._arrange():
                self.again()
            else:
                self.fresh()

    def _arrange(self) -> bool:
        """Make room for the run's window; whether its look is another than the last one's."""
        if self.task.view == self.view:
            return False
        self.view = self.task.view
        self.display.arrange(self.view.get("window"), self.view.get("desktop"))
        return True

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """Close the display on an EnvironmentFault."""
        try:
            yield
        except EnvironmentFault:
            self.close()
            raise

    def act(self, calls: Sequence[Call]) -> None:
        with self._closing():
            self._state = None
            self._wake()
            self.display.act(calls)

    def look(self) -> np.ndarray:
        with self.awake():
            return self.fitted(self.settled())

    def settled(self) -> np.ndarray:
        """The screen once it stands still, RGB uint8 (height, width, 3), not resized."""
        with self._closing():
            idle = None if self.closed else self.pid
            picture = self.display.settled(self.still_s, self.settle_s, idle)
            ended = None if self.closed else self.display.ended(self.pid)
            if ended:
                raise EnvironmentFault(f"{self.kind} crashed (exit status {ended})")
            self.closed = self.closed or ended == 0
            return picture

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Let the application run meanwhile.  Closes the display on an EnvironmentFault."""
        with self._closing():
            self._wake()
            yield
            self._sleep()

    def _sleep(self) -> None:
        if self.sleeps and not self.closed:
            self.display.freeze(self.pid)

    def _wake(self) -> None:
        if self.sleeps and not self.closed:
            self.display.thaw(self.pid)

    def render(self) -> np.ndarray:
        return self.fitted(self.display.screenshot())

    def check(self, stop: StopReason, answer: str | None = None) -> bool:
        with self.awake():
            if isinstance(self.task, AppTask):
                return check_board(self.task.board, self, stop, answer)
            return check(self.task, self.facts(), stop, answer)

    def close(self) -> None:
        display, self.display, self.pid, self.closed, self._state = self.display, None, None, False, None
        if display:
            display.close()

    def snapshot(self) -> dict[str, Any]:
        """The state, also of an application that sleeps."""
        with self.awake():
            return self.state()

    # -- what a check reads (`board.check.BoardState`) -------------------------------------------------
    def now(self) -> dict[str, Any]:
        """The state, read once between two actions; empty where an action has closed the application."""
        if self._state is None:
            self._state = {} if self.closed else self.state()
        return self._state

    def dump(self, task: Any) -> dict[str, Any]:
        return self.now()

    @property
    def home(self) -> Path:
        return Path(self.display.env["HOME"])

    def place(self, path: str) -> Path:
        """The path in the application's home folder of a task's file.  UserError for a file elsewhere."""
        target = (self.home / path.removeprefix(GUEST_HOME)).resolve()
        if not target.is_relative_to(self.home.resolve()):
            raise UserError(f"task {self.task.id}: {path} is not in {GUEST_HOME}")
        return target


def number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
