"""Rolling out an agent: many episodes side by side, so that each step asks the models in one batch.

An environment that breaks says nothing about the agent.  Its episode starts once more, in another environment
if there is one, and ends as ENVIRONMENT_ERROR if that breaks as well.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
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
SEEDS_APART = 100_003  # between the random numbers of two steps


@dataclass
class _Episode:
    """An episode that waits, is played or has ended."""

    task: Task
    run: int
    index: int  # in the list of jobs
    limit: int  # steps
    attempt: int = 1
    env: Environment | None = None  # None: it waits
    broken: tuple[Environment, ...] = ()  # those in which it was tried before
    decision: Decision | None = None  # of the next step
    # before the first screenshot
    current: Image.Image = field(default_factory=lambda: Image.new("RGB", (1, 1)))
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

    def again(self) -> _Episode:
        """The same episode from its start, in another environment than those in which it broke."""
        broken = (*self.broken, self.env)
        return _Episode(self.task, self.run, self.index, self.limit, self.attempt + 1, broken=broken)

    def _break(self, fault: EnvironmentFault) -> None:
        self.stop, self.success, self.fault = StopReason.ENVIRONMENT_ERROR, None, str(fault)

    def observation(self) -> Observation:
        previous = self.previous or self.current
        known = tuple(self.turns), previous, self.current, self.env.elements
        return Observation(self.task.instruction, *known)

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
    episode = _Episode(task, run, 0, limit=min(task.steps, step_limit or task.steps), env=env)
    digest = hashlib.sha256(f"{seed}/{task.id}/{run}".encode()).digest()
    episode_seed = int.from_bytes(digest[:4], "big") % 2**31
    do(episode.begin)
    while episode.stop is None:
        step_seed = episode_seed + SEEDS_APART * len(episode.steps)
        (episode.decision,) = agent.decide([do(episode.observation)], step_seed)
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
    >>> tasks = test_tasks("algebra")[:1]
    >>> (trajectory,) = rollout(agent, jobs(tasks, 1), lambda: ScienceDesk("algebra"), seed=7)
    >>> [step.plan for step in trajectory.steps], str(trajectory.stop), trajectory.success
    (["Click 'View'.", 'DONE'], 'DONE', False)
    """
    state = _Episodes(jobs, make_env, concurrency, step_limit, report)
    tick = 0
    while state.waiting or state.active:
        state.admit()
        state.step(agent, seed + SEEDS_APART * tick)
        state.retire(agent.name)
        tick += 1
        progress(len(state.trajectories), len(jobs))
    state.close()
    return [state.trajectories[index] for index in range(len(jobs))]


class _Episodes:
    """The episodes of a rollout: `admit` starts some, `step` plays a step of each, `retire` ends some."""

    def __init__(
        self,
        jobs: Sequence[tuple[Task, int]],
        make_env: Callable[[], Environment],
        concurrency: int,
        step_limit: int | None,
        report: Callable[[str], None],
    ):
        self.make_env, self.report = make_env, report
        self.slots = min(concurrency, len(jobs))  # episodes that are played side by side
        self.waiting = deque(
            _Episode(task, run, index, limit=min(task.steps, step_limit or task.steps))
            for index, (task, run) in enumerate(jobs)
        )
        self.active: list[_Episode] = []
        self.free: list[Environment] = []
        self.trajectories: dict[int, Trajectory] = {}  # by the index of the job

    def admit(self) -> None:
        """Begin waiting episodes while there is a slot and an environment for each."""
        started: list[_Episode] = []
        for _ in range(len(self.waiting)):
            if len(self.active) + len(started) >= self.slots:
                break
            try:
                env = self._environment(self.waiting[0], others_play=bool(self.active or started))
            except EnvironmentFault as fault:  # none is left: go on with the others
                self.report(str(fault))
                self.slots = len(self.active) + len(started)
                break
            if env is None:
                self.waiting.rotate(-1)
            else:
                started.append(replace(self.waiting.popleft(), env=env))
        _for_each(started, _Episode.begin)
        self.active += started

    def _environment(self, episode: _Episode, others_play: bool) -> Environment | None:
        """An environment for an episode, elsewhere than it broke; None: it waits for one.

        There it is tried again only if there is no other.  EnvironmentFault as from `make_env`.
        """
        for env in reversed(self.free):
            if env not in episode.broken:
                self.free.remove(env)
                return env
        try:
            return self.make_env()
        except EnvironmentFault:
            if not self.free:
                raise
            return None if others_play else self.free.pop()

    def step(self, agent: Agent, seed: int) -> None:
        """Let the agent decide about all active episodes in one batch, and carry its decisions out."""
        playing = [episode for episode in self.active if episode.stop is None]
        if not playing:
            return
        decisions = agent.decide([episode.observation() for episode in playing], seed)
        for episode, decision in zip(playing, decisions, strict=True):
            episode.decision = decision
        _for_each(playing, _Episode.apply)

    def retire(self, planner: str) -> None:
        """Keep trajectories and environments of ended episodes; those that broke wait once more."""
        ended = [episode for episode in self.active if episode.stop is not None]
        self.active = [episode for episode in self.active if episode.stop is None]
        for episode in ended:
            if episode.fault:
                self.report(f"{episode.task.id}, run {episode.run}: {episode.fault}")
            if episode.fault and episode.attempt < TRIES:
                self.waiting.append(episode.again())
            else:
                self.trajectories[episode.index] = episode.trajectory(planner)
            if episode.fault and episode.env.lost:
                episode.env.close()
            else:
                self.free.append(episode.env)
        if not self.slots:  # no environment is left
            for episode in self.waiting:
                episode.stop = StopReason.ENVIRONMENT_ERROR
                self.trajectories[episode.index] = episode.trajectory(planner)
            self.waiting.clear()

    def close(self) -> None:
        for env in self.free:
            env.close()


def _for_each(episodes: Sequence[_Episode], call: Callable[[_Episode], None]) -> None:
    """Call a function with every episode, in threads where the environments allow it."""
    if len(episodes) > 1 and episodes[0].env.threads:
        with ThreadPoolExecutor(len(episodes)) as pool:
            list(pool.map(call, episodes))
    else:
        for episode in episodes:
            call(episode)


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
             "success": t.success, "stop": str(t.stop), "steps": len(t.steps), "answer": t.answer,
             "seed": seed}
            for t in trajectories
        ]
    )  # fmt: skip
