"""The server's side: an episode is a task, played in a window of the application.

Qt's windows belong to one thread, and OpenEnv calls an environment from several: one thread of this module
does all that touches them.
"""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata, State
from PIL import Image

from coda_lib import __version__
from coda_lib.action import ActionError
from coda_lib.errors import UserError
from coda_lib.trajectory import encode_image
from sciencedesk.adapters.gym import TaskEnv
from sciencedesk.adapters.openenv.models import DeskAction, DeskObservation

_WINDOWS = ThreadPoolExecutor(1, thread_name_prefix="windows")


class DeskEnvironment(Environment[DeskAction, DeskObservation, State]):
    """One application of ScienceDesk, in a window from the first reset until `close`."""

    SUPPORTS_CONCURRENT_SESSIONS = True  # each session has a window of its own

    def __init__(self, app: str = "gis", region: str | None = None):
        """`region` as of `TaskEnv`."""
        super().__init__()
        self.app, self.region = app, region
        self._env: TaskEnv | None = None
        self._state = State(episode_id=str(uuid4()), step_count=0)
        self._over = False

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task: str | None = None, **options: Any
    ) -> DeskObservation:
        """Begin the committed test task with the id `task`, or one that the seed draws."""
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        self._over = False
        return _WINDOWS.submit(self._reset, seed, task).result()

    def step(self, action: DeskAction, timeout_s: float | None = None, **options: Any) -> DeskObservation:
        """Do what a reply says.  UserError after the end of the episode, and before its beginning."""
        if self._env is None or self._over:
            raise UserError("the episode is over, or none has begun: reset first")
        self._state.step_count += 1
        return _WINDOWS.submit(self._step, action.action).result()

    @property
    def state(self) -> State:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        about = f"{self.app} of ScienceDesk: a task for mouse and keyboard in a small scientific application"
        return EnvironmentMetadata(name=f"coda-{self.app}", description=about, version=__version__)

    def close(self) -> None:
        if self._env is not None:
            _WINDOWS.submit(self._env.close).result()
            self._env = None

    def _reset(self, seed: int | None, task: str | None) -> DeskObservation:
        if self._env is None:
            self._env = TaskEnv(self.app, self.region)
        self._env.reset(seed=seed, options={"task": task} if task else None)
        return self._observation()

    def _step(self, reply: str) -> DeskObservation:
        reward, error = 0.0, None
        try:
            reward, self._over = self._env.play(reply)
        except ActionError as problem:
            error = str(problem)
        return self._observation(reward, error)

    def _observation(self, reward: float | None = None, error: str | None = None) -> DeskObservation:
        picture, task = Image.fromarray(self._env.desk.render()), self._env.task
        return DeskObservation(
            done=self._over, reward=reward, error=error, metadata={"task": task.id},
            instruction=task.instruction, screenshot=base64.b64encode(encode_image(picture)).decode(),
            width=picture.width, height=picture.height,
        )  # fmt: skip
