"""The applications as real windows, to use by hand."""

from __future__ import annotations

import signal
from collections.abc import Callable

from coda_lib.task import Task
from coda_lib.trajectory import StopReason
from sciencedesk.desk.qt import application
from sciencedesk.env import ScienceDesk


def by_hand(app: str, task: Task | None = None, ask: Callable[[], str] = str) -> bool | None:
    """Open an application as a window and wait until the person closes it.

    With a task, the window starts in its first state and has its instruction in the title bar.  Returns
    whether the task is then solved, and None without a task.  `ask` gives the answer to a question.
    UserError without a display.
    """
    env = ScienceDesk(app, visible=True)
    if task:
        env.reset(task)
    previous = signal.signal(signal.SIGINT, signal.SIG_DFL)  # Qt's loop would not let Ctrl+C through
    application(visible=True).exec()
    signal.signal(signal.SIGINT, previous)
    if task is None:
        return None
    return env.check(StopReason.ANS, ask()) if task.ans else env.check(StopReason.DONE)
