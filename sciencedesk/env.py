"""ScienceDesk as an environment: one task at a time in one of its applications."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from coda_lib.action import Action
from coda_lib.applications import ALL_APPS
from coda_lib.environment import STOPS, Environment, EnvironmentFault, picture_space
from coda_lib.errors import UserError
from coda_lib.task import Task, check
from coda_lib.trajectory import StopReason

if TYPE_CHECKING:
    from sciencedesk.desk.desk import Desk

# what QtCore, QtGui and drawing off screen need
_PACKAGES = "libegl1 libgl1 libxkbcommon0 libfontconfig1 libdbus-1-3 libglib2.0-0"


def desk_class(app: str) -> type[Desk]:
    """The window of an application.  UserError for an unknown one, or if Qt's libraries are missing."""
    if app not in ALL_APPS:
        raise UserError(f"unknown application {app!r}; there are {', '.join(ALL_APPS)}")
    _load_qt()
    match app:  # each is loaded when it is used: SymPy, ASE and SciPy take seconds
        case "algebra":
            from sciencedesk.apps.algebra.app import Algebra as window
        case "biochem":
            from sciencedesk.apps.biochem.app import Biochem as window
        case "gis":
            from sciencedesk.apps.gis.app import Gis as window
        case "astron":
            from sciencedesk.apps.astron.app import Astron as window
        case "spectra":
            from sciencedesk.apps.spectra.app import Spectra as window
        case _:
            raise NotImplementedError(f"application {app!r} of APPLICATIONS has no window: import it here")
    return window


def _load_qt() -> None:
    try:
        import PySide6.QtTest  # noqa: F401  (and with it QtCore, QtGui and QtWidgets)
    except ModuleNotFoundError:
        raise
    except ImportError as error:
        install = f"install the system libraries that it needs: apt-get install {_PACKAGES}"
        raise UserError(f"Qt cannot be loaded: {error}. On Debian or Ubuntu, {install}") from error


class ScienceDesk(Environment):
    """One application window; `info` has its state, after a step also `stop` (or None) and `answer`."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, app: str, visible: bool = False):
        self.desk = desk_class(app)(visible)
        self.observation_space = picture_space(self.desk.screenshot().shape)
        self.app = app

    def reset(
        self, task: Task, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if task.app != self.app:
            raise UserError(f"task {task.id} is for {task.app}, this window is {self.app}")
        self.task = task
        try:
            self.desk.begin(task.settings, task.view)
        except KeyError as error:
            raise UserError(f"task {task.id}: initialize: {error.args[0]}") from error
        self.desk.setWindowTitle(f"{self.desk.title}: {task.instruction}")
        return self.desk.screenshot(), {"state": self.desk.state()}

    def step(self, action: Action) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Perform one action.  EnvironmentFault if the application breaks on it."""
        with _faults_raised(f"{self.app}: {action}"):
            self.desk.perform(action)
            screenshot, state = self.desk.screenshot(), self.desk.state()
        terminated = action.type in STOPS
        info = {"state": state, "stop": STOPS.get(action.type), "answer": action.text if terminated else None}
        return screenshot, 0.0, terminated, False, info

    def render(self) -> np.ndarray:
        return self.desk.screenshot()

    def elements(self) -> list[Any]:
        return self.desk.elements()

    def check(self, stop: StopReason, answer: str | None = None) -> bool | None:
        return check(self.task, self.desk.state(), stop, answer)

    def close(self) -> None:
        self.desk.discard()


@contextmanager
def _faults_raised(what: str) -> Iterator[None]:
    """Raise errors inside as EnvironmentFault, also those in Qt's callbacks, which Qt would only print."""
    lost: list[BaseException] = []
    previous, sys.excepthook = sys.excepthook, lambda kind, error, trace: lost.append(error)
    try:
        yield
    except Exception as error:
        raise EnvironmentFault(f"{what}: {error}") from error
    finally:
        sys.excepthook = previous
    for error in lost:
        if not isinstance(error, Exception):  # Ctrl+C
            raise error
        raise EnvironmentFault(f"{what}: {error}") from error


def by_hand(app: str, task: Task | None = None, ask: Callable[[], str] = str) -> bool | None:
    """Open an application as a window and wait until the person closes it.

    With a task, the window starts in its first state, and a small one beside it has its instruction.  Returns
    whether the task is then solved, and None without a task.  `ask` gives the answer to a question.
    UserError without a display.
    """
    env = ScienceDesk(app, visible=True)
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QLabel

    from sciencedesk.desk.qt import application  # by now Qt can be loaded

    if task:
        env.reset(task)
        note = QLabel(task.instruction, None, Qt.WindowType.Tool)  # one that does not keep Qt's loop alive
        note.setWindowTitle(task.id)
        note.setTextFormat(Qt.TextFormat.PlainText)
        note.setWordWrap(True)
        note.setMargin(12)
        note.show()
    previous = signal.signal(signal.SIGINT, signal.SIG_DFL)  # Qt's loop would not let Ctrl+C through
    application(visible=True).exec()
    signal.signal(signal.SIGINT, previous)
    if task is None:
        return None
    return env.check(StopReason.ANS, ask()) if task.ans else env.check(StopReason.DONE)
