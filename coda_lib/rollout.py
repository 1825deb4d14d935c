"""Rolling out an agent: many episodes side by side, so that each step asks the models in one batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from PIL import Image

from coda_lib.action import ActionType
from coda_lib.agent import Agent, Decision, action_text
from coda_lib.envs.base import Environment, EnvironmentFault
from coda_lib.planner import Observation, Turn
from coda_lib.task import Task
from coda_lib.trajectory import Step, StopReason, Trajectory, encode_image

STOPS = {ActionType.DONE: StopReason.DONE, ActionType.FAIL: StopReason.FAIL, ActionType.ANS: StopReason.ANS}


@dataclass
class _Episode:
    """An episode under way."""

    env: Environment
    task: Task
    run: int
    place: int  # position in the list of jobs
    current: np.ndarray
    previous: np.ndarray | None = None
    turns: list[Turn] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    stop: StopReason | None = None
    answer: str | None = None

    def observation(self) -> Observation:
        previous = self.current if self.previous is None else self.previous
        pictures = Image.fromarray(previous), Image.fromarray(self.current)
        return Observation(self.task.instruction, tuple(self.turns), *pictures, self.env.elements)

    def apply(self, decision: Decision, limit: int) -> None:
        """Do what was decided; a decision that could not be parsed does nothing but is kept and counts as a step."""
        seen = encode_image(Image.fromarray(self.current))
        plan = decision.plan or decision.reply
        self.steps.append(Step(seen, plan, decision.reply, decision.actions, decision.error))
        self.previous = self.current
        try:
            for action in decision.actions:
                self.current, _, ended, _, _ = self.env.step(action)
                if ended:
                    self.stop = STOPS[action.type]
                    self.answer = action.text if action.type == ActionType.ANS else None
                    break
        except EnvironmentFault:
            self.stop = StopReason.ENVIRONMENT_ERROR
        size = (self.current.shape[1], self.current.shape[0])
        self.turns.append(Turn(decision.plan, action_text(decision.actions, size)))
        if self.stop is None and len(self.steps) >= limit:
            self.stop = StopReason.STEP_LIMIT

    def trajectory(self, planner: str) -> Trajectory:
        success = None
        try:
            if self.stop != StopReason.ENVIRONMENT_ERROR:
                success = self.env.check(self.stop, self.answer)
        except EnvironmentFault:
            self.stop = StopReason.ENVIRONMENT_ERROR
        return Trajectory(
            self.task.id, self.task.app, self.task.instruction, planner, self.run, tuple(self.steps),
            encode_image(Image.fromarray(self.current)), self.stop, self.answer, success,
        )  # fmt: skip


def rollout(
    agent: Agent,
    jobs: Sequence[tuple[Task, int]],
    make_env: Callable[[], Environment],
    seed: int,
    concurrency: int = 64,
    step_limit: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Trajectory]:
    """Run every job (task, run number) once; trajectories come back in the order of the jobs.

    An episode ends with DONE, FAIL, ANS or the task's step limit (at most `step_limit`).  `concurrency` episodes share each
    model batch.  The same agent, jobs, seed and concurrency give the same trajectories.  `progress(done, total)` is called as
    episodes end.
    """
    waiting = deque(enumerate(jobs))
    free = [make_env() for _ in range(min(concurrency, len(jobs)))]
    active: list[_Episode] = []
    done: dict[int, Trajectory] = {}
    tick = 0
    while waiting or active:
        active += [_start(free.pop(), *waiting.popleft()) for _ in range(min(len(free), len(waiting)))]
        decisions = agent.decide([episode.observation() for episode in active], seed + 100_003 * tick)
        for episode, decision in zip(active, decisions, strict=True):
            episode.apply(decision, min(episode.task.steps, step_limit or episode.task.steps))
            if episode.stop is not None:
                done[episode.place] = episode.trajectory(agent.name)
                free.append(episode.env)
        active = [episode for episode in active if episode.stop is None]
        tick += 1
        progress(len(done), len(jobs))
    return [done[place] for place in range(len(jobs))]


def _start(env: Environment, place: int, job: tuple[Task, int]) -> _Episode:
    task, run = job
    first, _ = env.reset(task)
    return _Episode(env, task, run, place, first)


def jobs(tasks: Sequence[Task], runs: int) -> list[tuple[Task, int]]:
    """Every task `runs` times, runs of one task side by side."""
    return [(task, run) for task in tasks for run in range(runs)]


def episodes(trajectories: Sequence[Trajectory], tasks: Sequence[Task], system: str, seed: int) -> pd.DataFrame:
    """One row an episode, as evaluation tables are made from."""
    grades = {task.id: task.grade for task in tasks}
    return pd.DataFrame(
        [
            {"task_id": t.task_id, "app": t.app, "grade": grades[t.task_id], "run": t.run, "system": system,
             "success": t.success, "stop": str(t.stop), "steps": len(t.steps), "answer": t.answer, "seed": seed}
            for t in trajectories
        ]
    )  # fmt: skip


def unparsed(trajectories: Sequence[Trajectory]) -> Iterator[tuple[Trajectory, Step]]:
    """Steps whose replies could not be parsed in three tries."""
    return ((t, step) for t in trajectories for step in t.steps if step.error)
