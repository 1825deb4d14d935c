"""What environments behind a real screen share: a display of this machine, or a virtual machine."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from coda_lib.action import Action, ActionError, ActionType
from coda_lib.environment import STOPS, Environment, Fit
from coda_lib.task import Task
from sciencedesk.pyautogui import Call, held_after, letting_go, pyautogui_calls

WAIT_S = 1.0  # seconds of a WAIT action where nothing else is said


class Screen(Environment):
    """An application that is acted on by pyautogui's calls and seen when its picture no longer changes."""

    metadata = {"render_modes": ["rgb_array"]}
    threads = True
    task: Task | None = None
    size: tuple[int, int] | None = None  # of the screen, (width, height) in pixels
    held: tuple[str, ...] = ()  # keys, and `mouse` for its button, that an action pressed and none released
    wait_s = WAIT_S  # seconds of a WAIT action
    fit: Fit | None = None  # from the screen's size to that of the observations; None: the same

    def fitted(self, picture: np.ndarray) -> np.ndarray:
        """A picture of the screen at the size of observations, in whose pixels models give coordinates."""
        size = (picture.shape[1], picture.shape[0])
        fitted = self.fit(size) if self.fit else size
        if fitted == size:
            return picture
        return np.asarray(Image.fromarray(picture).resize(fitted, Image.Resampling.BICUBIC))

    def let_go(self) -> None:
        """Release what is held down, before another task begins on the same screen."""
        held, self.held = self.held, ()
        if held:
            self.act(letting_go(held))

    @abstractmethod
    def act(self, calls: Sequence[Call]) -> None:
        """Carry out calls; the list may be empty."""

    @abstractmethod
    def look(self) -> np.ndarray:
        """The fitted screen when it no longer changes, RGB uint8 (height, width, 3)."""

    def step(self, action: Action) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        info = self.do(action)
        return self.look(), 0.0, info["stop"] is not None, False, info

    def do(self, action: Action) -> dict[str, Any]:
        """Perform an action; returns the `info` of `step`."""
        try:
            calls = pyautogui_calls(action, self.size, self.held)
        except ActionError as error:  # nothing is done, and the agent sees an unchanged screen
            return {"stop": None, "refused": str(error)}
        self.act(calls)
        self.held = held_after(self.held, calls)
        if action.type is ActionType.WAIT:
            time.sleep(self.wait_s)
        stop = STOPS.get(action.type)
        return {"stop": stop, "answer": action.text if stop else None}
