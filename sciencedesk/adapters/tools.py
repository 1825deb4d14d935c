"""ScienceDesk as tools of a chat model: TRL's `GRPOTrainer(environment_factory=...)`.

A rollout is a task: `reset` gives the instruction and the first screen, `act` is the model's only tool, and
`get_reward` is 1 if the task is solved in the end.  docs/ecosystem.md has an example.
"""

from __future__ import annotations

from typing import Any

from PIL import Image

from coda_lib.action import ActionError
from sciencedesk.adapters.gym import TaskEnv

Content = str | list[dict[str, Any]]  # what a message holds: text, or parts in the form of chat templates


class DeskTools:
    """The environment that TRL asks for: its public methods are the model's tools.

    Where `pictures` is false, the screen is told in words, an element a line, for models that see nothing.
    That is easier than the study's task, whose models get pictures alone.
    """

    def __init__(self, app: str, region: str = "train", pictures: bool = True):
        """UserError as of `TaskEnv`."""
        self._env = TaskEnv(app, region)
        self._pictures = pictures
        self._reward, self._over = 0.0, True

    def reset(self, task: str | None = None, seed: int | None = None, **columns: Any) -> Content:
        """Begin the test task with this id, or one that the seed draws; other columns are ignored."""
        observation, _ = self._env.reset(seed=seed, options={"task": task} if task else None)
        self._reward, self._over = 0.0, False
        return self._screen(f"{observation['instruction']}\n")

    def act(self, action: str) -> Content:
        """Do one action on the screen with mouse or keyboard, or end the task.

        Args:
            action: For example click(start_box='(168,126)'), type(content='5'), hotkey(key='ctrl a'), or
            finished() at the end.

        Returns:
            The screen after the action, or what was wrong with it.
        """
        if self._over:
            return "the task is over"
        try:
            self._reward, self._over = self._env.play(action)
        except ActionError as error:
            return f"no action: {error}"
        return "the task is over" if self._over else self._screen("")

    def get_reward(self) -> float:
        """1.0 if the task was solved when the rollout ended, else 0.0, also for one that never ended."""
        return self._reward

    def _screen(self, before: str) -> Content:
        picture = self._env.desk.render()
        if self._pictures:
            image = {"type": "image", "image": Image.fromarray(picture)}
            return [{"type": "text", "text": before}, image]
        height, width, _ = picture.shape
        lines = []
        for e in self._env.desk.elements():
            x, y = e.center[0] * width, e.center[1] * height
            lines.append(f"{e.name} {e.role} ({x:.0f},{y:.0f}) {e.text}".strip())
        return before + "\n".join(lines)
