"""A fleet: episodes on many environments at once, by workers on this machine or on a Ray cluster (paper, section 4).

The master hands out episodes one by one to whoever has a free environment.  An episode that has ended is a file at once, named by
its task and run: whatever dies, and whenever, no finished episode is lost and none counts twice, and the same call goes on from
there.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
from PIL import Image

from coda_lib.agent import Agent, models_of
from coda_lib.errors import StageError, UserError
from coda_lib.files import read_json, remove, write_json
from coda_lib.fleet.workers import Crew, Engine, Job, LocalWorker, Played, WorkerLost
from coda_lib.models.endpoint import EndpointModel, Usage
from coda_lib.rollout import TRIES
from coda_lib.task import Task
from coda_lib.trajectory import StopReason, Trajectory, encode_image, load_trajectories, save_trajectories

LOSSES = 5  # workers that may end under an episode before it is kept as broken: it may be what ends them
STRIKES = 5  # times in a row that a worker may end without having finished an episode
TICK_S = 1.0  # between two reports of how it goes
SILENT_S = 30.0  # after which a master that reported nothing is taken to be gone


class Collection:
    """The finished episodes of a fleet, a file each, in a folder that one master at a time writes to."""

    def __init__(self, folder: Path):
        self.folder, self.status_file = folder, folder / "status.json"

    def file(self, job: Job) -> Path:
        return self.folder / "episodes" / f"{quote(job.task.id, safe='')}.{job.run}.parquet"

    def has(self, job: Job) -> bool:
        return self.file(job).exists()

    def keep(self, job: Job, trajectory: Trajectory) -> None:
        save_trajectories(self.file(job), [trajectory])

    def load(self, job: Job) -> Trajectory:
        return load_trajectories(self.file(job))[0]

    def clear(self) -> None:
        """Forget the episodes, once they are kept elsewhere: whoever plays here next begins anew.  How it went stays."""
        remove(self.folder / "episodes")
        remove(self.folder / "about.json")

    @contextmanager
    def held(self, about: dict[str, Any]) -> Iterator[None]:
        """Hold the folder.  UserError if another master does, and if its episodes were played otherwise than `about` says."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{self.folder} is being filled by another process: see `coda fleet status`") from None
            known = self.folder / "about.json"
            if known.exists() and read_json(known) != about:
                raise UserError(f"{self.folder} holds episodes of {read_json(known)}, not of {about}: give another folder")
            write_json(known, about)
            yield


def collect(
    jobs: Sequence[tuple[Task, int]],
    crews: Sequence[Crew],
    folder: Path,
    begin: Callable[[Crew], Engine] = LocalWorker,
    progress: Callable[[int, int], None] = lambda done, total: None,
    report: Callable[[str], None] = lambda fault: None,
) -> list[Trajectory]:
    """Play every job (task, run number) with a worker for each crew; one trajectory each, in the order of the jobs.

    Episodes that `folder` holds already are not played again.  An environment that breaks, or a worker that ends, costs the
    episodes under way, which are played again; one that breaks twice is kept as ENVIRONMENT_ERROR, as in `rollout`.  `report` is
    told of each.  UserError if the agent's models are not all behind servers, and as of `Collection.held`; StageError if no
    worker stays alive; whatever a worker raises is raised here, and what is finished is kept.
    """
    agent, seed = crews[0].agent, crews[0].seed
    _check(agent)
    kept, asked = Collection(folder), [Job(task, run) for task, run in jobs]
    models = {role: model.name for role, model in models_of(agent).items()}
    with kept.held({"agent": agent.name, **models, "seed": seed, "step_limit": crews[0].step_limit}):
        waiting = deque(_Entry(job) for job in asked if not kept.has(job))
        seats = [_Seat(number, crew) for number, crew in enumerate(crews)]
        master = _Master(kept, seats, waiting, len(asked), begin, progress, report)
        try:
            master.run()
        finally:
            for seat in seats:
                seat.close()
        for role, model in models_of(agent).items():
            model.usage = sum((seat.used.get(role, Usage()) for seat in seats), model.usage)
        return [kept.load(job) for job in asked]


def _check(agent: Agent) -> None:
    near = [role for role, model in models_of(agent).items() if not isinstance(model, EndpointModel)]
    if near:
        roles = " and ".join(f"serving.{role}" for role in near)
        raise UserError(f"the workers of a fleet ask models behind servers: set {roles} to 'started' or to an address")


@dataclass(frozen=True)
class _Entry:
    """An episode that is still to be played."""

    job: Job
    attempt: int = 1
    losses: int = 0


@dataclass
class _Seat:
    """A worker and those that follow it when it ends."""

    number: int
    crew: Crew
    engine: Engine | None = None  # None: not begun, or ended for good
    where: str = ""
    places: int = 0
    finished: int = 0
    begun: int = 0
    strikes: int = 0  # ends since an episode was finished
    fault: str | None = None  # the last
    entries: dict[Future[Played], _Entry] = field(default_factory=dict)  # under way
    earlier: dict[str, Usage] = field(default_factory=dict)  # of the workers before this one
    used: dict[str, Usage] = field(default_factory=dict)  # of all

    def start(self, begin: Callable[[Crew], Engine]) -> None:
        self.close()
        self.engine, self.places, self.earlier = begin(self.crew), len(self.crew.make_envs), self.used
        self.begun += 1

    def note(self, played: Played) -> None:
        self.where, self.fault = played.where, played.fault or self.fault
        self.used = self.earlier | {role: self.earlier.get(role, Usage()) + usage for role, usage in played.usage.items()}

    def close(self) -> None:
        if self.engine:
            self.engine.close()
            self.engine = None

    @property
    def free(self) -> int:
        return self.places - len(self.entries) if self.engine else 0


class _Master:
    def __init__(
        self, kept: Collection, seats: Sequence[_Seat], waiting: deque[_Entry], total: int, begin: Callable[[Crew], Engine],
        progress: Callable[[int, int], None], report: Callable[[str], None],
    ):  # fmt: skip
        self.kept, self.seats, self.waiting, self.total = kept, seats, waiting, total
        self.begin, self.progress, self.report = begin, progress, report
        self.began, self.told, self.faults = time.time(), 0.0, 0
        self.before = self.done = total - len(waiting)

    def run(self) -> None:
        for seat in self.seats if self.waiting else ():
            seat.start(self.begin)
        while self.waiting or any(seat.entries for seat in self.seats):
            self._hand_out()
            under_way = [future for seat in self.seats for future in seat.entries]
            if not under_way:
                self._give_up()
            self._tell()
            wait(under_way, TICK_S, FIRST_COMPLETED)
            for seat in self.seats:
                self._take_in(seat)
        self._tell(last=True)

    def _hand_out(self) -> None:
        """Give the workers in turn an episode more each, until none has a free place."""
        while self.waiting and (able := [seat for seat in self.seats if seat.free > 0]):
            for seat in able[: len(self.waiting)]:
                entry = self.waiting.popleft()
                seat.entries[seat.engine.play(entry.job)] = entry

    def _take_in(self, seat: _Seat) -> None:
        """What a worker has finished; where it has ended, all that it was at comes back, and another one is begun."""
        lost = None
        while ended := [future for future in seat.entries if future.done()]:
            for future in ended:
                entry = seat.entries.pop(future)
                try:
                    self._heard(seat, entry, future.result())
                except WorkerLost as error:
                    lost = error
                    self._broke(replace(entry, losses=entry.losses + 1), f"worker {seat.number} was lost: {error}", seat)
            if lost:
                wait(seat.entries)
        if lost:
            seat.strikes, seat.fault = seat.strikes + 1, str(lost)
            seat.start(self.begin) if seat.strikes < STRIKES else seat.close()

    def _heard(self, seat: _Seat, entry: _Entry, played: Played) -> None:
        seat.note(played)
        if played.trajectory is None:
            seat.places -= 1
            self.waiting.append(entry)
            self.report(played.fault)
        elif played.fault:
            self._broke(replace(entry, attempt=entry.attempt + 1), played.fault, seat, played.trajectory)
        else:
            seat.finished, seat.strikes = seat.finished + 1, 0
            self._keep(entry.job, played.trajectory)

    def _broke(self, entry: _Entry, fault: str, seat: _Seat, broken: Trajectory | None = None) -> None:
        """An episode is begun once more, or kept as broken; `entry` counts what happened to it, this time included."""
        self.faults += 1
        self.report(f"{entry.job.task.id}, run {entry.job.run}: {fault}")
        if entry.attempt <= TRIES and entry.losses < LOSSES:
            self.waiting.append(entry)
        else:
            self._keep(entry.job, broken or _unplayed(entry.job, seat.crew.agent.name))

    def _keep(self, job: Job, trajectory: Trajectory) -> None:
        self.kept.keep(job, trajectory)
        self.done += 1
        self.progress(self.done, self.total)

    def _give_up(self) -> None:
        """Episodes wait, and nobody can play them: where all environments are gone they are kept as broken, as in `rollout`."""
        if not any(seat.engine for seat in self.seats):
            raise StageError(
                f"no worker stays alive; {len(self.waiting)} of {self.total} episodes are still to be played, and the same "
                f"command goes on with them. At last: {self.seats[0].fault}"
            )
        for entry in self.waiting:
            self._keep(entry.job, _unplayed(entry.job, self.seats[0].crew.agent.name))
        self.waiting.clear()

    def _tell(self, last: bool = False) -> None:
        now = time.time()
        if now < self.told + TICK_S and not last:
            return
        self.told, names = now, ("number", "where", "places", "finished", "begun", "fault")
        workers = [{name: getattr(seat, name) for name in names} | {"under_way": len(seat.entries)} for seat in self.seats]
        write_json(self.kept.status_file, {
            "master": os.getpid(), "began": self.began, "updated": now, "total": self.total, "before": self.before,
            "done": self.done, "faults": self.faults, "workers": workers,
        })  # fmt: skip


def _unplayed(job: Job, planner: str) -> Trajectory:
    """An episode of which nothing is known but that nobody could play it."""
    task, nothing = job.task, encode_image(Image.new("RGB", (1, 1)))
    return Trajectory(
        task.id, task.app, task.instruction, planner, job.run, (), nothing, StopReason.ENVIRONMENT_ERROR, None, None
    )  # fmt: skip


# ---- how it goes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Status:
    """How a collection goes, as its master said it last."""

    total: int
    done: int
    faults: int
    alive: bool  # whether the master is at work
    minutes: float  # from its beginning to what it said last
    rate: float  # episodes a minute since it began
    workers: list[dict[str, Any]]


def read_status(folder: Path) -> Status:
    """UserError if no fleet has ever filled this folder."""
    file = Collection(folder).status_file
    if not file.exists():
        raise UserError(f"no fleet works in {folder}: there is no {file.name}")
    said = read_json(file)
    minutes = max(said["updated"] - said["began"], 1e-9) / 60
    alive = psutil.pid_exists(said["master"]) and time.time() - said["updated"] < SILENT_S and said["done"] < said["total"]
    rate = (said["done"] - said["before"]) / minutes
    return Status(said["total"], said["done"], said["faults"], alive, minutes, rate, said["workers"])
