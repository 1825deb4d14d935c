"""What environments behind a screen, a mouse and a keyboard share, be they a display of this machine's or a virtual machine."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image

from coda_lib.action import Action, ActionError, ActionType
from coda_lib.envs.base import STOPS, Environment
from coda_lib.envs.pyautogui import Call, pyautogui_calls
from coda_lib.task import Task

Fit = Callable[[tuple[int, int]], tuple[int, int]]
WAIT_S = 1.0  # of a WAIT action


class Screen(Environment):
    """An application that is acted on by pyautogui's calls and seen once its picture stands still."""

    metadata = {"render_modes": ["rgb_array"]}
    threads = True
    task: Task | None = None
    size: tuple[int, int] | None = None  # of the screen, (width, height) in pixels
    fit: Fit | None = None  # from the screen's size to that of the pictures that are given out; None: as they are

    def fitted(self, picture: np.ndarray) -> np.ndarray:
        """A picture of the screen as it is given out: models write pixels of the size at which they see it."""
        size = (picture.shape[1], picture.shape[0])
        wanted = self.fit(size) if self.fit else size
        return picture if wanted == size else np.asarray(Image.fromarray(picture).resize(wanted, Image.Resampling.BICUBIC))

    @abstractmethod
    def act(self, calls: Sequence[Call]) -> None:
        """Carry out calls; there may be none."""

    @abstractmethod
    def look(self) -> np.ndarray:
        """The screen once it stands still, fitted, RGB uint8 (height, width, 3)."""

    def step(self, action: Action) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        info = self.do(action)
        return self.look(), 0.0, info["stop"] is not None, False, info

    def do(self, action: Action) -> dict[str, Any]:
        """Perform an action; returns what `step` says of it."""
        try:
            calls = pyautogui_calls(action, self.size)
        except ActionError as error:  # text that cannot be typed is nothing done, and the agent sees that
            return {"stop": None, "refused": str(error)}
        self.act(calls)
        if action.type is ActionType.WAIT:
            time.sleep(WAIT_S)
        answer = action.text if action.type is ActionType.ANS else None
        return {"stop": STOPS.get(action.type), "answer": answer}
