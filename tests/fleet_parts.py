"""What the tests of a fleet play with: an environment that counts and breaks as it is told, and an agent for it.

They are of a module of their own, because they travel to the processes of workers.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coda_lib.action import Action
from coda_lib.agent import Decision
from coda_lib.envs.base import STOPS, Environment, EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.planner import Observation
from coda_lib.task import Task
from coda_lib.trajectory import StopReason


def task(name: str, steps: int = 3) -> Task:
    """A task that is solved by `steps` actions; the words of its name say what goes wrong."""
    return Task(f"made/{name}", "algebra", "A", f"{name} {steps}", steps + 2, (), (), None, ())


class Counter(Environment):
    """Its picture says how much was done; every episode that is begun or ended is a line in a file."""

    threads = True

    def __init__(self, log: Path, step_s: float = 0.0):
        self.log, self.step_s = log, step_s

    def reset(self, task: Task, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.task, self.count = task, 0
        self._note("begun")
        if "deadly" in task.id:
            os.kill(os.getpid(), signal.SIGKILL)
        if "broken" in task.id:
            raise EnvironmentFault("it is broken")
        return self._picture(), {}

    def step(self, action: Action) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(self.step_s)
        self.count += 1
        return self._picture(), 0.0, action.type in STOPS, False, {}

    def check(self, stop: StopReason, answer: str | None = None) -> bool:
        self._note("ended")
        return stop is StopReason.DONE and self.count == int(self.task.instruction.split()[-1])

    def _picture(self) -> np.ndarray:
        return np.full((4, 6, 3), self.count, np.uint8)

    def _note(self, what: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{what} {self.task.id} {os.getpid()}\n")


class Once:
    """Makes one environment, and no second one."""

    def __init__(self, log: Path):
        self.log, self.made = log, False

    def __call__(self) -> Counter:
        if self.made:
            raise EnvironmentFault("there is none left")
        self.made = True
        return Counter(self.log)


@dataclass(frozen=True)
class Clicker:
    """Clicks as often as the instruction's last word says, or twice, less the last time, and is done."""

    name: str = "clicker"

    def decide(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        return [self._decide(seen) for seen in observations]

    def _decide(self, seen: Observation) -> Decision:
        steps = seen.instruction.split()[-1]
        if "refused" in seen.instruction:
            raise UserError("the server refuses")
        done = len(seen.history) + 1 == (int(steps) if steps.isdigit() else 2)
        return Decision("Click.", "click", (Action.done() if done else Action.click(0.5, 0.5),))
