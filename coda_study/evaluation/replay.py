"""Episodes without their screenshots: ScienceDesk draws these again from the task and the actions.

An episode is a function of both, so some two hundred bytes are enough to look at it and to check its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from PIL import Image

from coda_lib.environment import EnvironmentFault
from coda_lib.task import Task
from coda_lib.trajectory import DIGEST, StopReason, Trajectory, decode_image, digest, screenshot_png
from sciencedesk.env import ScienceDesk


@dataclass
class Replay:
    """How far episodes that were played again are those that were kept."""

    episodes: int = 0
    same_outcome: int = 0  # by the application's check
    screens: int = 0
    same_screens: int = 0  # to the pixel
    left_out: int = 0  # episodes whose task has changed since, and those in which the application broke

    @property
    def exact(self) -> bool:
        return (self.same_outcome, self.same_screens, self.left_out) == (self.episodes, self.screens, 0)

    def __str__(self) -> str:
        return (
            f"drawn again from the actions of {self.episodes:,} episodes: {self.same_screens:,} "
            f"of {self.screens:,} are as they were, to the pixel; {self.same_outcome:,} outcomes are the "
            f"same; {self.left_out:,} episodes left out"
        )


def without_screens(trajectory: Trajectory) -> Trajectory:
    """The trajectory with the digest of each screenshot (`DIGEST` bytes, of its pixels) in its place."""
    digests = [_digest(decode_image(screenshot)) for screenshot in _screens(trajectory)]
    return _with_screens(trajectory, digests)


def _screens(trajectory: Trajectory) -> list[bytes]:
    return [*(step.screenshot for step in trajectory.steps), trajectory.final_screenshot]


def _with_screens(trajectory: Trajectory, screens: Sequence[bytes]) -> Trajectory:
    """The trajectory with other screenshots, one of each step and the final one."""
    *before, final = screens
    steps = zip(trajectory.steps, before, strict=True)
    steps = tuple(replace(step, screenshot=screen) for step, screen in steps)
    return replace(trajectory, steps=steps, final_screenshot=final)


def replayed(
    trajectories: Sequence[Trajectory],
    app: str,
    tasks: Mapping[str, Task],
    count: Replay,
    start: Callable[[Task, int], Task] = lambda task, run: task,
) -> list[Trajectory]:
    """The trajectories of `without_screens` with their screenshots, which are drawn again; adds to `count`.

    `start` gives a task as one of its runs starts it (`draws.start_of`).  Left out is an episode whose task
    is not among `tasks`, by its id and text, and one in which the application broke.
    """
    env, whole = ScienceDesk(app), []
    for trajectory in trajectories:
        task = tasks.get(trajectory.task_id)
        task = task and start(task, trajectory.run)
        same = task and task.instruction == trajectory.instruction
        if same and trajectory.stop is not StopReason.ENVIRONMENT_ERROR:
            with suppress(EnvironmentFault):  # counted as left out
                whole.append(_replay(env, task, trajectory, count))
    env.close()
    count.left_out += len(trajectories) - len(whole)
    return whole


def _replay(env: ScienceDesk, task: Task, trajectory: Trajectory, count: Replay) -> Trajectory:
    pictures = [env.begin(task)]
    for step in trajectory.steps:
        current = pictures[-1]
        for action in step.actions:
            current, ended = env.proceed(action)
            if ended:
                break
        pictures.append(current)
    count.episodes += 1
    count.same_outcome += env.check(trajectory.stop, trajectory.answer) == trajectory.success
    count.screens += len(pictures)
    pairs = zip(pictures, _screens(trajectory), strict=True)
    count.same_screens += sum(_digest(picture) == recorded for picture, recorded in pairs)
    return _with_screens(trajectory, [screenshot_png(picture) for picture in pictures])


def _digest(picture: Image.Image) -> bytes:
    return digest(picture)[:DIGEST]
