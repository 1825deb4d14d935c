"""The interface of every environment, Gymnasium's: observations are screenshots, actions `Action`s."""

from __future__ import annotations

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
# from a screen's size to that of the pictures an agent sees, (width, height)
Fit = Callable[[tuple[int, int]], tuple[int, int]]
STOPS = {kind: StopReason[kind.name] for kind in ActionType if kind.ends}


class EnvironmentFault(RuntimeError):
    """The environment broke (a crash, a hung machine): the episode does not count as a failed task."""


class ActionSpace(gymnasium.Space[Action]):
    """All actions; a sample is an action of the mouse at a random point."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSpace)

    def contains(self, x: Any) -> bool:
        return isinstance(x, Action)

    def sample(self, mask: Any = None, probability: Any = None) -> Action:
        x, y, x2, y2 = map(float, self.np_random.random(4))
        kinds = (Action.click(x, y), Action.double_click(x, y), Action.right_click(x, y), Action.drag(x, y,
                 x2, y2),
                 Action.scroll(x, y, "down"), Action.scroll(x, y, "up"))  # fmt: skip
        return kinds[self.np_random.integers(len(kinds))]


@cache
def picture_space(shape: tuple[int, int, int]) -> gymnasium.spaces.Box:
    """The space of RGB screenshots (height, width, 3), which is large: environments share it."""
    return gymnasium.spaces.Box(0, 255, shape, np.uint8)


class Environment(gymnasium.Env[np.ndarray, Action]):
    """An application that is seen by screenshots and acted on by mouse and keyboard.

    Observations are RGB screenshots, uint8, (height, width, 3).  Rewards are always 0: `check` says whether
    the task is solved, and `coda_lib.reward` gives the rewards of training.
    """

    task: Task | None = None
    # whether several threads may play episodes side by side, each in an environment of its own
    threads = False
    lost = True  # whether a fault makes it unusable
    action_space: gymnasium.Space[Action] = ActionSpace()

    @abstractmethod
    def reset(
        self, task: Task, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Bring the application into the task's first state."""

    @abstractmethod
    def step(self, action: Action) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Perform one action; terminated is True if it ends the episode (DONE, FAIL, ANS)."""

    def begin(self, task: Task) -> Image.Image:
        """`reset`, with the screenshot as a picture; a PNG is decoded when it is first used."""
        return Image.fromarray(self.reset(task)[0])

    def proceed(self, action: Action) -> tuple[Image.Image, bool]:
        """`step`: the screenshot after the action as a picture, and whether the action ends the episode."""
        screenshot, _, ended, _, _ = self.step(action)
        return Image.fromarray(screenshot), ended

    def elements(self) -> Sequence[Any]:
        """The named elements on the screen (name, role, center), where known; models never see them."""
        return ()

    @abstractmethod
    def check(self, stop: StopReason, answer: str | None = None) -> bool | None:
        """Whether the task is solved in the present state; None if that cannot be checked."""
