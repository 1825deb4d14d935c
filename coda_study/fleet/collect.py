"""A fleet: episodes on many environments at once, by workers here or on a Ray cluster (paper, section 4).

The master gives one episode at a time to each free environment.  A finished episode is written at once to a
file named by its task and run: if a worker or the master dies, no finished episode is lost or counted twice,
and the same call resumes.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
from PIL import Image

from coda_lib.agent import models_of
from coda_lib.errors import StageError, UserError
from coda_lib.files import read_object, reading, write_json
from coda_lib.models.chat import Usage
from coda_lib.rollout import TRIES
from coda_lib.task import Task
from coda_lib.trajectory import StopReason, Trajectory, encode_image
from coda_study.fleet.collection import Collection
from coda_study.fleet.workers import Job, LocalWorker, Played, WorkerHandle, WorkerLost, WorkerSpec

LOSSES = 5  # workers that may end during an episode before it counts as broken, because it may be the cause
STRIKES = 5  # times in a row that a worker may end without a finished episode
PORTION = 4  # finished episodes written between two looks for free environments
TICK_S = 1.0  # between two reports of the status
# of the report, for each worker
WORKER = ("number", "where", "environments", "finished", "starts", "fault", "under_way")
SILENT_S = 30.0  # time without a report after which a master counts as dead


def collect(
    jobs: Sequence[tuple[Task, int]],
    specs: Sequence[WorkerSpec],
    folder: Path,
    start: Callable[[WorkerSpec], WorkerHandle] = LocalWorker,
    progress: Callable[[int, int], None] = lambda done, total: None,
    report: Callable[[str], None] = lambda fault: None,
) -> list[Trajectory]:
    """Play every job (task, run number), with a worker for each spec; one trajectory each, in their order.

    Episodes that `folder` holds are not played again, unless they broke.  When an environment breaks or a
    worker ends, its episodes are played again, elsewhere if they can; an episode that breaks twice becomes
    ENVIRONMENT_ERROR, as in `rollout`. `report` gets each fault.  UserError if the agent's models are not all
    behind servers, and as in `Collection.held`; StageError if no worker stays alive; an exception in a worker
    is raised here, and finished episodes stay.
    """
    agent, models = specs[0].agent, models_of(specs[0].agent)
    if local := [f"serving.{role}" for role, model in models.items() if not hasattr(model, "usage")]:
        need = f"set {' and '.join(local)} to 'started' or to an address"
        raise UserError(f"the workers of a fleet need models behind servers: {need}")
    collection, entries = Collection(folder), [_Entry(Job(task, run)) for task, run in jobs]
    about = {"agent": agent.name} | {role: model.name for role, model in models.items()}
    with collection.held(about | {"seed": specs[0].seed, "step_limit": specs[0].step_limit}):
        waiting = deque(entry for entry in entries if not collection.has(entry.job))
        workers = [_Worker(number, spec, start) for number, spec in enumerate(specs)]
        try:
            _Master(collection, workers, waiting, len(entries), progress, report).run()
        finally:
            for worker in workers:
                worker.close()
        for role, model in models.items():
            model.usage = sum((worker.used.get(role, Usage()) for worker in workers), model.usage)
        return [collection.load(entry.job) for entry in entries]


@dataclass
class _Entry:
    """An episode that is not finished."""

    job: Job
    attempt: int = 1
    losses: int = 0
    where: frozenset[tuple[int, str]] = frozenset()  # number of the worker and place of each try

    def elsewhere(self, worker: _Worker) -> bool:
        """Whether a worker has an environment in which it did not break."""
        return worker.environments > sum(number == worker.number for number, _ in self.where)


@dataclass
class _Worker:
    """A worker as the master counts it, with its successors when it ends."""

    number: int
    spec: WorkerSpec
    make: Callable[[WorkerSpec], WorkerHandle]
    handle: WorkerHandle | None = None  # None: not started, or ended for good
    where: str = ""
    environments: int = 0
    finished: int = 0  # episodes
    starts: int = 0
    strikes: int = 0  # ends since the last finished episode
    fault: str | None = None  # the last
    entries: dict[Future[Played], _Entry] = field(default_factory=dict)  # under way
    earlier: dict[str, Usage] = field(default_factory=dict)  # of its predecessors
    used: dict[str, Usage] = field(default_factory=dict)  # with its predecessors

    def start(self) -> None:
        self.close()
        self.handle, self.environments = self.make(self.spec), len(self.spec.make_envs)
        self.earlier = self.used
        self.starts += 1

    def note(self, played: Played) -> None:
        self.where, self.fault = played.where, played.fault or self.fault
        for role, usage in played.usage.items():
            self.used = self.used | {role: self.earlier.get(role, Usage()) + usage}

    def close(self) -> None:
        if self.handle:
            self.handle.close()
            self.handle = None

    @property
    def under_way(self) -> int:
        return len(self.entries)

    @property
    def free(self) -> int:
        return self.environments - self.under_way if self.handle else 0


@dataclass
class _Master:
    collection: Collection
    workers: Sequence[_Worker]
    waiting: deque[_Entry]
    total: int  # episodes
    progress: Callable[[int, int], None]
    report: Callable[[str], None]
    faults: int = 0
    unwritten: deque[tuple[Job, Trajectory]] = field(default_factory=deque)  # finished
    written: float = 0.0  # when the status was

    def __post_init__(self) -> None:
        self.began, self.done = time.time(), self.total - len(self.waiting)
        self.before = self.done

    def run(self) -> None:
        for worker in self.workers if self.waiting else ():
            worker.start()
        try:
            while self.waiting or self.unwritten or any(worker.entries for worker in self.workers):
                self._hand_out()
                self._write(PORTION)
                under_way = [future for worker in self.workers for future in worker.entries]
                if self.waiting and not under_way:
                    self._give_up()
                self._write_status()
                wait(under_way, 0 if self.unwritten else TICK_S, FIRST_COMPLETED)
                for worker in self.workers:
                    self._take_in(worker)
        finally:
            self._write(len(self.unwritten))
        self._write_status(last=True)

    def _hand_out(self) -> None:
        """Give the workers in turn one episode each until no environment is free.

        An episode that broke waits for an environment elsewhere, if there is one that plays now.
        """
        kept: list[_Entry] = []
        while self.waiting and (free := [worker for worker in self.workers if worker.free > 0]):
            entry = self.waiting.popleft()
            fitting = [worker for worker in free if entry.elsewhere(worker)]
            if not fitting and any(worker.entries and entry.elsewhere(worker) for worker in self.workers):
                kept.append(entry)
                continue
            worker = min(fitting or free, key=lambda worker: len(worker.entries))
            worker.entries[worker.handle.play(entry.job)] = entry
        self.waiting.extendleft(reversed(kept))

    def _take_in(self, worker: _Worker) -> None:
        """Take a worker's finished episodes; if it has ended, queue the others and start its successor."""
        lost = None
        while ended := [future for future in worker.entries if future.done()]:
            for future in ended:
                entry = worker.entries.pop(future)
                try:
                    self._finish(worker, entry, future.result())
                except WorkerLost as error:
                    lost, entry.losses = error, entry.losses + 1
                    self._retry(entry, f"worker {worker.number} was lost: {error}", worker)
            if lost:
                wait(worker.entries)
        if lost:
            worker.strikes, worker.fault = worker.strikes + 1, str(lost)
            worker.start() if worker.strikes < STRIKES else worker.close()

    def _finish(self, worker: _Worker, entry: _Entry, played: Played) -> None:
        worker.note(played)
        if played.trajectory is None:
            worker.environments -= 1
            self.waiting.append(entry)
            self.report(played.fault)
        elif played.fault:
            entry.job = replace(entry.job, broken=(*entry.job.broken, played.place))
            entry.attempt, entry.where = entry.attempt + 1, entry.where | {(worker.number, played.place)}
            self._retry(entry, played.fault, worker, played.trajectory)
        else:
            worker.finished, worker.strikes = worker.finished + 1, 0
            self._save(entry.job, played.trajectory)

    def _retry(self, entry: _Entry, fault: str, worker: _Worker, broken: Trajectory | None = None) -> None:
        """Queue an episode again, or save it as broken; `entry` counts its faults, this one included."""
        self.faults += 1
        self.report(f"{entry.job.task.id}, run {entry.job.run}: {fault}")
        if entry.attempt <= TRIES and entry.losses < LOSSES:
            self.waiting.append(entry)
        else:
            self._save(entry.job, broken or _unplayed(entry.job, worker.spec.agent.name))

    def _save(self, job: Job, trajectory: Trajectory) -> None:
        self.unwritten.append((job, trajectory))

    def _write(self, most: int) -> None:
        """Write that many finished episodes; environments that are free have got new ones before."""
        while most and self.unwritten:
            self.collection.save(*self.unwritten[0])
            self.unwritten.popleft()
            self.done, most = self.done + 1, most - 1
            self.progress(self.done, self.total)

    def _give_up(self) -> None:
        """No worker can play the waiting episodes: StageError, or broken if all environments are gone."""
        if not any(worker.handle for worker in self.workers):
            unplayed = f"{len(self.waiting)} of {self.total} episodes are not played"
            again = f"the same command resumes with them. Last fault: {self.workers[0].fault}"
            raise StageError(f"no worker stays alive; {unplayed}, and {again}")
        for entry in self.waiting:
            self._save(entry.job, _unplayed(entry.job, self.workers[0].spec.agent.name))
        self.waiting.clear()

    def _write_status(self, last: bool = False) -> None:
        now = time.time()
        if now < self.written + TICK_S and not last:
            return
        self.written = now
        status = {"master": os.getpid(), "began": self.began, "updated": now}
        status |= {name: getattr(self, name) for name in ("total", "before", "done", "faults")}
        workers = [{name: getattr(worker, name) for name in WORKER} for worker in self.workers]
        write_json(self.collection.status_file, status | {"workers": workers})


def _unplayed(job: Job, planner: str) -> Trajectory:
    """An ENVIRONMENT_ERROR without a step."""
    task, blank = job.task, encode_image(Image.new("RGB", (1, 1)))
    names, stop = (task.id, task.app, task.instruction, planner), StopReason.ENVIRONMENT_ERROR
    return Trajectory(*names, job.run, (), blank, stop, None, None)


@dataclass(frozen=True)
class Status:
    """The last report of a fleet's master."""

    total: int  # episodes
    done: int
    faults: int
    alive: bool  # whether the master is running
    minutes: float  # from its start to the report
    rate: float  # episodes per minute since its start
    workers: list[dict[str, Any]]


def read_status(folder: Path) -> Status:
    """The status of the fleet that fills a folder.  UserError if none ever did."""
    file = Collection(folder).status_file
    if not file.exists():
        raise UserError(f"no fleet works in {folder}: there is no {file.name}")
    with reading(file, "status"):
        last = read_object(file)
        minutes = max(last["updated"] - last["began"], 1e-9) / 60
        heard = psutil.pid_exists(last["master"]) and time.time() - last["updated"] < SILENT_S
        alive, rate = heard and last["done"] < last["total"], (last["done"] - last["before"]) / minutes
        workers = [{name: worker[name] for name in WORKER} for worker in last["workers"]]
        return Status(last["total"], last["done"], last["faults"], alive, minutes, rate, workers)
