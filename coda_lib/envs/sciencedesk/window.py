"""The applications as real windows: used by a person, or driven by the same actions through pyautogui."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import ModuleType

from PySide6.QtCore import QPoint
from PySide6.QtTest import QTest

from coda_lib.action import Action
from coda_lib.envs.pyautogui import pyautogui_calls
from coda_lib.envs.sciencedesk.desk import Desk
from coda_lib.envs.sciencedesk.env import ScienceDesk
from coda_lib.envs.sciencedesk.qt import application
from coda_lib.envs.sciencedesk.widgets import HEIGHT, WIDTH
from coda_lib.errors import UserError
from coda_lib.task import Task
from coda_lib.trajectory import StopReason

_POINTED = ("click", "doubleClick", "rightClick", "moveTo", "dragTo")  # calls whose arguments are a point
_NOTCH = 120 if sys.platform == "win32" else 1  # pyautogui's number for a notch of the wheel: one scroll is one notch
_ROUNDS, _ROUND = 8, 8  # times and ms in which the window takes in what a call did, however busy the machine is


def by_hand(app: str, task: Task | None = None, ask: Callable[[], str] = str) -> bool | None:
    """Open an application as a window and wait until the person closes it.

    With a task, the window starts in its first state and carries its instruction in the title bar; what comes back is
    whether the task is then solved.  The answer to a question is asked for with `ask`.  UserError without a display.
    """
    env = ScienceDesk(app, visible=True)
    if task:
        env.reset(task)
    usual = signal.signal(signal.SIGINT, signal.SIG_DFL)  # Qt's loop would not let Ctrl+C through
    application(visible=True).exec()
    signal.signal(signal.SIGINT, usual)
    if task is None:
        return None
    return env.check(StopReason.ANS, ask()) if task.ans else env.check(StopReason.DONE)


def perform_with_pyautogui(window: Desk, action: Action) -> None:
    """Do one action in a real window with the machine's own mouse and keyboard.

    UserError where pyautogui cannot be used; ActionError for text that it cannot type.
    """
    pyautogui = _pyautogui()
    window.raise_()
    window.activateWindow()
    _settle()
    corner = window.mapToGlobal(QPoint(0, 0))
    scale = 1.0 if sys.platform == "darwin" else window.devicePixelRatio()  # Qt's px to those of pyautogui
    for name, arguments, keywords in pyautogui_calls(action, (round(WIDTH * scale), round(HEIGHT * scale))):
        if name in _POINTED:
            arguments = (arguments[0] + round(corner.x() * scale), arguments[1] + round(corner.y() * scale))
        elif name in ("scroll", "hscroll"):
            arguments = (_NOTCH if arguments[0] > 0 else -_NOTCH,)
        getattr(pyautogui, name)(*arguments, **keywords)
        _settle()


def _settle() -> None:
    for _ in range(_ROUNDS):
        QTest.qWait(_ROUND)


def _pyautogui() -> ModuleType:
    if application(visible=True).platformName() == "wayland":
        raise UserError("pyautogui cannot reach windows under Wayland: log in to an X11 session")
    try:
        import pyautogui
    except (KeyError, ImportError, SystemExit, *_display_errors()) as error:
        # KeyError: no DISPLAY; SystemExit: its MouseInfo without tkinter; Xlib's: no ~/.Xauthority, or not let in
        raise UserError(
            f"pyautogui cannot be used here ({error}): it needs a display, a file ~/.Xauthority (an empty one will do where the "
            "display asks for none) and, on Debian or Ubuntu, apt-get install python3-tk"
        ) from error
    return pyautogui


def _display_errors() -> tuple[type[Exception], ...]:
    """What pyautogui's way to X11 raises when it cannot connect; nothing where another system needs no such way."""
    try:
        from Xlib.error import DisplayError, XauthError
    except ImportError:
        return ()
    return DisplayError, XauthError
