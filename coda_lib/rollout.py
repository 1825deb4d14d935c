"""Rolling out an agent: many episodes side by side, so that each step asks the models in one batch.

An environment that breaks says nothing about the agent.  Its episode starts once more, in another environment
if there is one, and ends as ENVIRONMENT_ERROR if that breaks as well.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from PIL import Image

from coda_lib.agent import Agent, Decision
from coda_lib.environment import STOPS, Environment, EnvironmentFault
from coda_lib.grammar import action_text
from coda_lib.planner import Observation, Turn
from coda_lib.task import Task
from coda_lib.trajectory import Step, StopReason, Trajectory, screenshot_png

TRIES = 2  # of an episode whose environment breaks


@dataclass
class _Episode:
    """An episode that waits, is played or has ended."""

    task: Task
    run: int
    index: int  # in the list of jobs
    attempt: int = 1
    env: Environment | None = None  # None: it waits
    broken: tuple[Environment, ...] = ()  # those in which it was tried before
    decision: Decision | None = None  # of the next step
    limit: int = 0  # steps
    current: Image.Image = field(
        default_factory=lambda: Image.new("RGB", (1, 1))
    )  # before the first screenshot
    previous: Image.Image | None = None
    turns: list[Turn] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    stop: StopReason | None = None
    answer: str | None = None
    success: bool | None = None
    fault: str | None = None  # of the environment

    def begin(self) -> None:
        try:
            self.current = self.env.begin(self.task)
        except EnvironmentFault as fault:
            self._break(fault)

    def _break(self, fault: EnvironmentFault) -> None:
        self.stop, self.success, self.fault = StopReason.ENVIRONMENT_ERROR, None, str(fault)

    def observation(self) -> Observation:
        previous = self.previous or self.current
        return Observation(
            self.task.instruction, tuple(self.turns), previous, self.current, self.env.elements
        )

    def apply(self) -> None:
        """Carry out the decision; one that could not be parsed changes nothing and counts as a step."""
        decision = self.decision
        plan, screenshot = decision.plan or decision.reply, screenshot_png(self.current)
        self.steps.append(Step(screenshot, plan, decision.reply, decision.actions, decision.error))
        self.previous = self.current
        try:
            for action in decision.actions:
                self.current, ended = self.env.proceed(action)
                if ended:
                    self.stop, self.answer = STOPS[action.type], action.text
                    break
            self.turns.append(Turn(decision.plan, action_text(decision.actions, self.current.size)))
            if self.stop is None and len(self.steps) >= self.limit:
                self.stop = StopReason.STEP_LIMIT
            if self.stop is not None:
                self.success = self.env.check(self.stop, self.answer)
        except EnvironmentFault as fault:
            self._break(fault)

    def trajectory(self, planner: str) -> Trajectory:
        return Trajectory(
            self.task.id, self.task.app, self.task.instruction, planner, self.run, tuple(self.steps),
            screenshot_png(self.current), self.stop, self.answer, self.success,
        )  # fmt: skip


def play(
    agent: Agent,
    env: Environment,
    task: Task,
    run: int,
    seed: int,
    step_limit: int | None = None,
    do: Callable[[Callable[[], Any]], Any] = lambda call: call(),
) -> tuple[Trajectory, str | None]:
    """One episode by itself; returns its trajectory and the fault of the environment, if there was one.

    `do` runs every call that touches the environment.  The random numbers depend on `seed`, the task and the
    run alone, not on other episodes or the machine.
    """
    episode = _Episode(task, run, 0, env=env, limit=min(task.steps, step_limit or task.steps))
    own = int.from_bytes(hashlib.sha256(f"{seed}/{task.id}/{run}".encode()).digest()[:4], "big") % 2**31
    do(episode.begin)
    while episode.stop is None:
        (episode.decision,) = agent.decide([do(episode.observation)], own + 100_003 * len(episode.steps))
        do(episode.apply)
    return episode.trajectory(agent.name), episode.fault


def rollout(
    agent: Agent,
    jobs: Sequence[tuple[Task, int]],
    make_env: Callable[[], Environment],
    seed: int,
    concurrency: int = 64,
    step_limit: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    report: Callable[[str], None] = lambda fault: None,
) -> list[Trajectory]:
    """Play every job (task, run number); returns one trajectory a job, in their order.

    An episode ends with DONE, FAIL, ANS or the task's step limit (at most `step_limit`).  `concurrency`
    episodes share each model batch.  The same agent, jobs, seed and concurrency give the same trajectories.
    `progress(done, total)` is called as episodes end, `report` with each fault.  `make_env` raises
    EnvironmentFault when no environment is left; then the waiting episodes end as ENVIRONMENT_ERROR.  All
    environments are closed at the end.

    >>> from coda_lib import DualAgent, Executor, Planner, ReplayModel, Sampling, test_tasks
    >>> from sciencedesk.env import ScienceDesk
    >>> planner = Planner(ReplayModel(["Click 'View'.", "DONE"]), Sampling())
    >>> executor = Executor(ReplayModel(["click(start_box='(27,10)')"]), Sampling())
    >>> agent = DualAgent(planner, executor, "replay")
    >>> (trajectory,) = rollout(agent, jobs(test_tasks("algebra")[:1], 1), lambda: ScienceDesk("algebra"), seed=7)
    >>> [step.plan for step in trajectory.steps], str(trajectory.stop), trajectory.success
    (["Click 'View'.", 'DONE'], 'DONE', False)
    """
    waiting = deque(_Episode(task, run, index) for index, (task, run) in enumerate(jobs))
    slots, free = min(concurrency, len(jobs)), []
    active: list[_Episode] = []
    done: dict[int, Trajectory] = {}
    tick = 0
    while waiting or active:
        fresh: list[_Episode] = []
        for _ in range(len(waiting)):
            if len(active) + len(fresh) >= slots:
                break
            try:
                env = _place(waiting[0], free, make_env, bool(active or fresh))
            except EnvironmentFault as fault:  # none is left: go on with the others
                report(str(fault))
                slots = len(active) + len(fresh)
                break
            if env is None:
                waiting.rotate(-1)
            else:
                fresh.append(replace(waiting.popleft(), env=env))
        _each(fresh, _Episode.begin)
        active += fresh
        playing = [episode for episode in active if episode.stop is None]
        decisions = (
            agent.decide([episode.observation() for episode in playing], seed + 100_003 * tick)
            if playing
            else []
        )
        for episode, decision in zip(playing, decisions, strict=True):
            episode.decision, episode.limit = (
                decision,
                min(episode.task.steps, step_limit or episode.task.steps),
            )
        _each(playing, _Episode.apply)
        ended = [episode for episode in active if episode.stop is not None]
        active = [episode for episode in active if episode.stop is None]
        for episode in ended:
            if episode.fault:
                report(f"{episode.task.id}, run {episode.run}: {episode.fault}")
            if episode.fault and episode.attempt < TRIES:
                tried = (*episode.broken, episode.env)
                waiting.append(
                    _Episode(episode.task, episode.run, episode.index, episode.attempt + 1, broken=tried)
                )
            else:
                done[episode.index] = episode.trajectory(agent.name)
            if episode.fault and episode.env.lost:
                episode.env.close()
            else:
                free.append(episode.env)
        if not slots:
            done |= {
                e.index: replace(e, stop=StopReason.ENVIRONMENT_ERROR).trajectory(agent.name) for e in waiting
            }
            waiting.clear()
        tick += 1
        progress(len(done), len(jobs))
    for env in free:
        env.close()
    return [done[index] for index in range(len(jobs))]


def _place(
    episode: _Episode, free: list[Environment], make_env: Callable[[], Environment], others_play: bool
) -> Environment | None:
    """An environment for an episode, elsewhere than it broke; None: it waits for one.

    There it is tried again only if there is no other.  EnvironmentFault as from `make_env`.
    """
    for env in reversed(free):
        if env not in episode.broken:
            free.remove(env)
            return env
    try:
        return make_env()
    except EnvironmentFault:
        if not free:
            raise
        return None if others_play else free.pop()


def _each(episodes: Sequence[_Episode], do: Callable[[_Episode], None]) -> None:
    """Apply `do` to every episode, in threads where the environments allow it."""
    if len(episodes) > 1 and episodes[0].env.threads:
        with ThreadPoolExecutor(len(episodes)) as pool:
            list(pool.map(do, episodes))
    else:
        for episode in episodes:
            do(episode)


def jobs(tasks: Sequence[Task], runs: int) -> list[tuple[Task, int]]:
    """Every task `runs` times, runs of one task side by side."""
    return [(task, run) for task in tasks for run in range(runs)]


def episodes(
    trajectories: Sequence[Trajectory], tasks: Sequence[Task], system: str, seed: int
) -> pd.DataFrame:
    """One row an episode: task_id, app, grade, run, system, success, stop, steps, answer, seed."""
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
