"""What every environment offers, in Gymnasium's terms: the screenshot is the observation, an `Action` the action."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import gymnasium
import numpy as np
from PIL import Image

from coda_lib.action import Action, ActionType
from coda_lib.task import Task
from coda_lib.trajectory import StopReason

Picture = TypeVar("Picture")
STOPS = {ActionType.DONE: StopReason.DONE, ActionType.FAIL: StopReason.FAIL, ActionType.ANS: StopReason.ANS}


class EnvironmentFault(RuntimeError):
    """The environment itself broke (a crash, a hung machine): the episode is marked, never counted as a failed task."""


class ActionSpace(gymnasium.Space[Action]):
    """All actions; a sample is one with the mouse, anywhere on the screen."""

    def contains(self, x: Any) -> bool:
        return isinstance(x, Action)

    def sample(self, mask: Any = None, probability: Any = None) -> Action:
        x, y, x2, y2 = map(float, self.np_random.random(4))
        kinds = (Action.click(x, y), Action.double_click(x, y), Action.right_click(x, y), Action.drag(x, y, x2, y2),
                 Action.scroll(x, y, "down"), Action.scroll(x, y, "up"))  # fmt: skip
        return kinds[self.np_random.integers(len(kinds))]


@cache
def picture_space(shape: tuple[int, int, int]) -> gymnasium.spaces.Box:
    """The space of RGB screenshots (height, width, 3); one for all environments, for it takes as much memory as six of them."""
    return gymnasium.spaces.Box(0, 255, shape, np.uint8)


class Environment(gymnasium.Env[np.ndarray, Action]):
    """An application that is seen and acted on as a person would.

    Observations are RGB screenshots, uint8, (height, width, 3).  Rewards are always 0: success is asked for with `check`, and
    training rewards come from `coda_lib.reward`.
    """

    task: Task | None = None
    threads = False  # whether episodes in several of these may be played by threads side by side
    lost = True  # after a fault: whether it cannot be used any more
    action_space: gymnasium.Space[Action] = ActionSpace()

    @abstractmethod
    def reset(
        self, task: Task, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Bring the application into the task's first state."""

    @abstractmethod
    def step(self, action: Action) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Perform one action; terminated is True when it is DONE, FAIL or ANS."""

    def begin(self, task: Task) -> Image.Image:
        """`reset`, with the screenshot as a picture; where it came as a PNG, its pixels are read when somebody wants them."""
        return Image.fromarray(self.reset(task)[0])

    def proceed(self, action: Action) -> tuple[Image.Image, bool]:
        """`step`, likewise: the screenshot after an action, and whether it was DONE, FAIL or ANS."""
        picture, _, ended, _, _ = self.step(action)
        return Image.fromarray(picture), ended

    def elements(self) -> Sequence[Any]:
        """What is on the screen by name (each with name, role, center), where the application can say; never for the models."""
        return ()

    @abstractmethod
    def check(self, stop: StopReason, answer: str | None = None) -> bool | None:
        """Whether the task is solved in the present state; None where nobody can say."""


def standing_still(
    look: Callable[[], Picture], still_s: float, settle_s: float, pause_s: float,
    busy: Callable[[], bool] = lambda: False, same: Callable[[Picture, Picture], bool] = np.array_equal,
) -> Picture:  # fmt: skip
    """What `look` shows once it has shown the same for `still_s` seconds, or as it is after `settle_s`; asked every `pause_s`.

    While something is `busy`, nothing counts as still.
    """
    end, since, last = time.monotonic() + settle_s, time.monotonic(), look()
    while time.monotonic() < end and time.monotonic() - since < still_s:
        time.sleep(pause_s)
        now = look()
        if busy() or not same(now, last):
            since, last = time.monotonic(), now
    return last
