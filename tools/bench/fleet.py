"""How many machines a fleet on this computer keeps busy: `make bench ARGS=--fleet`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import psutil
from rich.console import Console

from coda_lib.action import Action
from coda_lib.agent import Decision
from coda_lib.planner import Observation
from coda_lib.processes import dies_with_its_parent, meanwhile
from coda_lib.rollout import jobs
from coda_study.fleet.collect import collect
from coda_study.fleet.workers import WorkerSpec
from sciencedesk.board.fake import ACTION_S, HOST, RESET_S, SCREENSHOT_S, typing_task
from sciencedesk.board.guest import Timing
from sciencedesk.board.machine import Machine, Machines

COUNTS = (8, 30, 60, 120, 480)
EPISODES = 3  # of each machine
STEPS = 10  # of each episode before DONE
SHARE = 60  # most machines of a worker


@dataclass(frozen=True)
class Scale:
    """The measurement of a fleet of so many machines."""

    machines: int
    workers: int
    episodes: int
    wall_s: float
    ideal_s: float  # the time of the machines alone
    cores: float  # mean load of master and workers
    memory_mb: float  # peak of master and workers

    @property
    def share(self) -> float:
        return self.ideal_s / self.wall_s

    @property
    def episodes_h(self) -> float:
        return 3600 * self.episodes / self.wall_s


@dataclass(frozen=True)
class Clicker:
    """An agent that clicks so many times and then is done."""

    steps: int
    name: str = "clicker"

    def decide(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        actions = [
            Action.done() if len(seen.history) == self.steps else Action.click(0.5, 0.5)
            for seen in observations
        ]
        return [Decision("Click.", "click", (action,)) for action in actions]


def measure_scale(console: Console, counts: Sequence[int] = COUNTS) -> list[Scale]:
    """Three episodes on each of so many fake machines with the latencies of real ones."""
    scales = []
    with console.status("") as status:
        for count in counts:
            status.update(f"{count} machines, about {EPISODES * episode_s() / 60:.0f} minutes")
            scales.append(scale(count))
    return scales


def scale(count: int) -> Scale:
    with fake_machines(count) as ports, tempfile.TemporaryDirectory() as folder:
        workers = ceil(count / SHARE)
        machines = [
            Machines([Machine(address=f"{HOST}:{port}", revert=("sleep", f"{RESET_S:g}"), state_port=port)])
            for port in ports
        ]
        specs = [WorkerSpec(Clicker(STEPS), machines[i::workers], True, 0) for i in range(workers)]
        todo = jobs([typing_task(STEPS)], count * EPISODES)
        with watched() as used:
            start = time.monotonic()
            played = collect(todo, specs, Path(folder))
            wall = time.monotonic() - start
        if failed := sum(not trajectory.success for trajectory in played):
            raise RuntimeError(f"{failed} episodes failed on machines without faults")
    return Scale(
        count, workers, len(todo), wall, EPISODES * episode_s(), used["seconds"] / wall, used["bytes"] / 1e6
    )


def episode_s() -> float:
    """Seconds of an episode that latencies and pauses alone take."""
    timing = Timing()
    looks = max(
        0, ceil((timing.still - SCREENSHOT_S) / (SCREENSHOT_S + timing.look))
    )  # after the first, until it is settled
    look = SCREENSHOT_S + looks * (SCREENSHOT_S + timing.look)
    return RESET_S + timing.item + look + STEPS * (ACTION_S + timing.after + look) + look


@contextmanager
def fake_machines(count: int) -> Iterator[list[int]]:
    """The ports of so many fake machines in a process of their own."""
    with subprocess.Popen(
        [sys.executable, "-m", "sciencedesk.board.fake", str(count)], stdin=subprocess.PIPE,
         stdout=subprocess.PIPE,
        text=True, preexec_fn=dies_with_its_parent,
    ) as process:  # fmt: skip
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Processor time and peak memory of this process and its workers."""
    used, worker_s, own = {"seconds": 0.0, "bytes": 0.0}, {}, psutil.Process()
    start_s = sum(own.cpu_times()[:2])

    def watch() -> None:
        total = own.memory_full_info().pss
        for child in own.children():
            with suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(child.cmdline()):  # a worker
                    worker_s[child.pid] = sum(child.cpu_times()[:2])
                    total += child.memory_full_info().pss
        used["bytes"] = max(used["bytes"], total)

    with meanwhile(watch, 0.5):
        yield used
    used["seconds"] = sum(own.cpu_times()[:2]) - start_s + sum(worker_s.values())
