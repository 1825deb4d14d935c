"""The workers of a fleet: each a process that drives many environments, an episode each at a time, in threads.

A worker is a process of this machine (`LocalWorker`) or an actor of a Ray cluster (`RayWorker`); what happens in it is the same
(`Worker`).  It asks models for nothing but through their servers.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Protocol

from coda_lib.agent import Agent, models_of
from coda_lib.envs.base import Environment, EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.models.endpoint import Usage
from coda_lib.rollout import play
from coda_lib.task import Task
from coda_lib.trajectory import Trajectory

REACH_S = 5.0  # for the head of a Ray cluster to take a connection


class WorkerLost(RuntimeError):
    """The process of a worker ended: nobody knows what became of its episodes."""


@dataclass(frozen=True)
class Crew:
    """What a worker is made of; it travels to the worker's process."""

    agent: Agent
    make_envs: Sequence[Callable[[], Environment]]  # one for each of its places
    threads: bool  # whether its environments may be used by several threads, or want one and the same (`Environment.threads`)
    seed: int
    step_limit: int | None = None


@dataclass(frozen=True)
class Job:
    task: Task
    run: int


@dataclass(frozen=True)
class Played:
    """What a worker says of an episode."""

    trajectory: Trajectory | None  # None: there was no environment to play it in, and its place is gone
    fault: str | None  # what broke
    where: str  # machine and process
    usage: dict[str, Usage]  # of the agent's models, by role, since the worker began


class Worker:
    """Plays episodes, at most as many at a time as there are places."""

    def __init__(self, crew: Crew):
        self.crew, self.free = crew, SimpleQueue()
        for make in crew.make_envs:
            self.free.put((make, None))
        self.hand = ThreadPoolExecutor(1)

    def play(self, job: Job) -> Played:
        """One episode, in the next environment that is free."""
        crew, (make, env) = self.crew, self.free.get()
        do = (lambda call: call()) if crew.threads else (lambda call: self.hand.submit(call).result())
        where = f"{socket.gethostname()}:{os.getpid()}"
        try:
            env = env or do(make)
        except EnvironmentFault as fault:
            return Played(None, str(fault), where, {})
        trajectory, fault = play(crew.agent, env, job.task, job.run, crew.seed, crew.step_limit, do)
        if fault and env.lost:
            do(env.close)
            env = None
        self.free.put((make, env))
        return Played(trajectory, fault, where, {role: model.usage for role, model in models_of(crew.agent).items()})


class Engine(Protocol):
    """How workers are begun and asked, wherever they are."""

    def play(self, job: Job) -> Future[Played]:
        """Ask for an episode; the future fails with WorkerLost if the worker ends before it."""

    def close(self) -> None:
        """End the worker, whatever it does."""


# ---- processes of this machine ---------------------------------------------------------------------------------------------


class LocalWorker:
    """A worker in a process of its own."""

    def __init__(self, crew: Crew):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, crew), daemon=True)
        self._process.start()
        theirs.close()
        self._numbers, self._asked, self._lock = count(), {}, Lock()
        Thread(target=self._listen, daemon=True).start()

    def play(self, job: Job) -> Future[Played]:
        future: Future[Played] = Future()
        with self._lock:
            number = next(self._numbers)
            self._asked[number] = future
            try:
                self._pipe.send((number, job))
            except OSError:
                self._asked.pop(number)
                future.set_exception(WorkerLost("it ended"))
        return future

    def _listen(self) -> None:
        try:
            while True:
                number, said = self._pipe.recv()
                with self._lock:
                    future = self._asked.pop(number)
                future.set_exception(said) if isinstance(said, Exception) else future.set_result(said)
        except (EOFError, OSError):  # the other end is gone
            with self._lock:
                left, self._asked = self._asked, {}
                self._pipe.close()
            self._process.join()
            for future in left.values():
                future.set_exception(WorkerLost(f"its process ended with exit status {self._process.exitcode}"))

    def close(self) -> None:
        self._process.terminate()
        self._process.join()


def _serve(pipe: Connection, crew: Crew) -> None:
    """The process of a `LocalWorker`: it ends when its master does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, to all its processes; the master's end is this one's
    worker, sending = Worker(crew), Lock()

    def do(number: int, job: Job) -> None:
        try:
            said: Played | Exception = worker.play(job)
        except Exception as error:  # the master is to know
            said = error
        with sending:
            pipe.send((number, said))

    with ThreadPoolExecutor(len(crew.make_envs)) as pool:
        try:
            while True:
                pool.submit(do, *pipe.recv())
        except EOFError:
            os._exit(0)  # what is under way is of no use to anybody; displays see that their owner is gone


# ---- actors of a Ray cluster -----------------------------------------------------------------------------------------------


class _Actor(Worker):
    """A worker whose process ends at once, as that of `_serve`: Qt's own end would wait for a thread that is gone."""

    def __ray_shutdown__(self) -> None:
        os._exit(0)


class RayWorker:
    """A worker as an actor of the Ray cluster that `join_cluster` has joined."""

    def __init__(self, crew: Crew):
        import ray

        options = {"max_concurrency": len(crew.make_envs), "num_cpus": 0, "scheduling_strategy": "SPREAD"}
        self._actor = ray.remote(_Actor).options(**options).remote(crew)

    def play(self, job: Job) -> Future[Played]:
        return _told(self._actor.play.remote(job).future())

    def close(self) -> None:
        import ray

        ray.kill(self._actor)


def _told(future: Future[Any]) -> Future[Any]:
    """The same future, with Ray's errors as ours."""
    import ray

    told: Future[Any] = Future()

    def tell(done: Future[Any]) -> None:
        error = done.exception()
        if error is None:
            told.set_result(done.result())
        elif isinstance(error, ray.exceptions.RayActorError):
            told.set_exception(WorkerLost(str(error).strip().splitlines()[-1]))
        else:
            told.set_exception(getattr(error, "cause", None) or error)

    future.add_done_callback(tell)
    return told


def join_cluster(address: str) -> None:
    """Join the Ray cluster at an address ('auto': this machine's; 'local': start one), unless this process has done so.

    UserError if ray is not installed, if nobody is there, and if the cluster runs other versions of Ray or Python.
    """
    if not importlib.util.find_spec("ray"):
        raise UserError("a fleet on Ray needs it: pip install --editable '.[scale]'")
    import ray

    if ray.is_initialized():
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if port.isdigit():  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), REACH_S).close()
        ray.init(address, log_to_driver=False)
    except Exception as error:  # Ray has no class of its own for what goes wrong here, such as a node that starts too slowly
        raise UserError(f"cannot join the Ray cluster at {address}: {_reasons(error)}") from error


def _reasons(error: BaseException) -> str:
    """An error of Ray's and what is behind it, for instance a token that is missing (RAY_AUTH_MODE): it says that only there."""
    said = [str(error)]
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    return "; ".join(dict.fromkeys([*said, str(error).partition("Note:")[0].strip()]))
