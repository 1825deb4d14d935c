"""ScienceDesk as Gymnasium environments: an episode is a task, its reward 1 if the task is solved.

`import sciencedesk` registers the ids; `gymnasium.make("sciencedesk/GIS-v0")` makes one.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from coda_lib.action import Action
from coda_lib.environment import ActionSpace
from coda_lib.errors import UserError
from coda_lib.grammar import parse_actions
from coda_lib.task import GRADES, Task, test_tasks
from coda_lib.trajectory import StopReason
from sciencedesk.env import ScienceDesk, desk_class
from sciencedesk.space import REGIONS, draw, has_space, space

LONGEST = 2000  # characters of an instruction
CHARACTERS = "\n" + "".join(map(chr, range(0x20, 0x500)))  # Latin, Greek and Cyrillic
TEST_SET = "tasks"  # the committed test tasks; the others are regions of the task space


class TaskEnv(gymnasium.Env[dict[str, Any], Action]):
    """An application of ScienceDesk, one task an episode.

    Observations: `screenshot`, RGB uint8 (height, width, 3), and `instruction`, the task in words.  Actions
    are `Action`s; `coda_lib.parse_actions` makes them out of a model's reply.  The episode is terminated by
    DONE, FAIL or ANS, and truncated at the task's limit of steps; the last reward is 1.0 if the task is
    solved then, all others are 0.0. `info` has the task's id and the application's state.

    Each reset draws a task of `region`: "train", "development" or "test" of the task space, or "tasks", the
    committed test tasks.  By default it is "train", or "tasks" where nothing is trained.
    `reset(options={"task": ...})` plays a `Task`, or the committed test task with that id, instead.

    >>> env = gymnasium.make("sciencedesk/GIS-v0", region="tasks")
    >>> observation, info = env.reset(options={"task": "gis/A-01"})
    >>> observation["instruction"], observation["screenshot"].shape
    ('Move Peaks above Slope.', (252, 336, 3))
    >>> env.close()
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # a frame is a step

    def __init__(self, app: str, region: str | None = None, render_mode: str | None = None):
        """UserError for an unknown application or region, and for a region where there is no task space."""
        self.desk: ScienceDesk | None = ScienceDesk(app)
        region = region or ("train" if has_space(app) else TEST_SET)
        if region not in (regions := (*REGIONS, TEST_SET)):
            raise UserError(f"unknown region {region!r}: choose one of {', '.join(regions)}")
        if region != TEST_SET and not has_space(app):
            untrained = f"{app} has no task space: nothing is trained on it"
            raise UserError(f"{untrained}; make it with region={TEST_SET!r}")
        self.app, self.region, self.render_mode = app, region, render_mode
        text, picture = gymnasium.spaces.Text(LONGEST, charset=CHARACTERS), self.desk.observation_space
        self.observation_space = gymnasium.spaces.Dict({"screenshot": picture, "instruction": text})
        self.action_space = ActionSpace()
        self.task: Task | None = None
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.task, self.steps = self._task((options or {}).get("task")), 0
        screenshot, info = self.desk.reset(self.task)
        return self._observation(screenshot), self._info(info)

    def step(self, action: Action) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        screenshot, _, terminated, _, info = self.desk.step(action)
        self.steps += 1
        truncated = not terminated and self.steps >= self.task.steps
        stop = info["stop"] or StopReason.STEP_LIMIT
        solved = (terminated or truncated) and self.desk.check(stop, info["answer"])
        return self._observation(screenshot), float(bool(solved)), terminated, truncated, self._info(info)

    def play(self, reply: str) -> tuple[float, bool]:
        """Do the actions of a reply while the episode lasts: its last reward, and whether it is over.

        ActionError for a reply that is no action; then nothing is done.
        """
        height, width, _ = self.observation_space["screenshot"].shape
        for action in parse_actions(reply, (width, height)):
            _, reward, terminated, truncated, _ = self.step(action)
            if terminated or truncated:
                return reward, True
        return 0.0, False

    def render(self) -> np.ndarray | None:
        return self.desk.render() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Delete the window; a second call does nothing, as Gymnasium wants it."""
        if self.desk is not None:
            self.desk.close()
            self.desk = None

    def _task(self, wanted: Task | str | None) -> Task:
        """The task of `reset`'s option, or one drawn by the environment's own random numbers."""
        if isinstance(wanted, Task):
            return wanted
        if wanted is None and self.region != TEST_SET:
            seed = int(self.np_random.integers(2**31))
            grade = GRADES[int(self.np_random.integers(len(GRADES)))]
            return draw(space(self.app), self.region, 1, seed, desk_class(self.app).defaults, {grade: 1})[0]
        known = {task.id: task for task in test_tasks(self.app)}
        if wanted is not None and wanted not in known:
            raise UserError(f"unknown task {wanted!r}; `coda tasks list --app {self.app}` lists the tasks")
        return known[wanted or list(known)[int(self.np_random.integers(len(known)))]]

    def _observation(self, screenshot: np.ndarray) -> dict[str, Any]:
        return {"screenshot": np.array(screenshot), "instruction": self.task.instruction}

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        return {"task": self.task.id, "state": info["state"]}
