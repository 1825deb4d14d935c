"""ScienceDesk as an environment: one task at a time in one of the four applications."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import gymnasium
import numpy as np

from coda_lib.action import Action, ActionType
from coda_lib.envs.base import Environment
from coda_lib.errors import UserError
from coda_lib.task import APPS, Task, check
from coda_lib.trajectory import StopReason

_STOPS = {ActionType.DONE: StopReason.DONE, ActionType.FAIL: StopReason.FAIL, ActionType.ANS: StopReason.ANS}


def desk_class(app: str) -> type:
    """The class of an application; UserError for an unknown one or if Qt's system libraries are missing."""
    if app not in APPS:
        raise UserError(f"unknown application {app!r}; there are {', '.join(APPS)}")
    if sys.platform == "linux" and "DISPLAY" not in os.environ:
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")  # Qt's own switch; without it Qt aborts the process
    try:
        return getattr(importlib.import_module(f"coda_lib.envs.sciencedesk.{app}"), app.capitalize())
    except ImportError as error:
        if "PySide6" not in str(error) and ".so" not in str(error):
            raise
        raise UserError(
            f"Qt cannot be loaded ({error}). On Debian or Ubuntu install its system libraries: "
            "apt-get install libegl1 libgl1 libxkbcommon0 libfontconfig1 libdbus-1-3"
        ) from error


class ScienceDesk(Environment):
    """One application window; `info` of each step carries the state before it is forgotten and whether anything changed."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, app: str, visible: bool = False):
        self.desk = desk_class(app)(visible)
        shape = self.desk.screenshot().shape
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        self.app = app

    def reset(self, task: Task, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        if task.app != self.app:
            raise UserError(f"task {task.id} is for {task.app}, this window is {self.app}")
        self.task = task
        try:
            self.desk.reset(task.settings)
        except KeyError as error:
            raise UserError(f"task {task.id}: initialize: {error.args[0]}") from error
        return self.desk.screenshot(), {"state": self.desk.state()}

    def step(self, action: Action) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.desk.perform(action)
        terminated = action.type in _STOPS
        info = {"state": self.desk.state(), "stop": _STOPS.get(action.type), "answer": action.text if terminated else None}
        return self.desk.screenshot(), 0.0, terminated, False, info

    def render(self) -> np.ndarray:
        return self.desk.screenshot()

    def check(self, stop: StopReason, answer: str | None = None) -> bool:
        return check(self.task, self.desk.state(), stop, answer)
