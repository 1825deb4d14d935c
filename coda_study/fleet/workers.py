"""The workers of a fleet: each is a process that plays one episode in each of its environments at a time, in
threads.

A worker is a process of this machine (`LocalWorker`) or an actor of a Ray cluster (`RayWorker`); both run a
`Worker`.  Workers reach the models through servers.
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
from threading import Condition, Lock, Thread
from typing import Any, Protocol

from coda_lib.agent import Agent, models_of
from coda_lib.environment import Environment, EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.models.chat import Usage
from coda_lib.rollout import play
from coda_lib.task import Task
from coda_lib.trajectory import Trajectory

CONNECT_S = 5.0  # limit for a connection to the head of a Ray cluster


class WorkerLost(RuntimeError):
    """The process of a worker ended; the outcome of its episodes is unknown."""


@dataclass(frozen=True)
class WorkerSpec:
    """The parts of a worker; it is sent to the worker's process."""

    agent: Agent
    make_envs: Sequence[Callable[[], Environment]]  # one for each environment
    threads: (
        bool  # whether several threads may use the environments, or only a single one (`Environment.threads`)
    )
    seed: int
    step_limit: int | None = None


@dataclass(frozen=True)
class Job:
    task: Task
    run: int
    broken: tuple[str, ...] = ()  # `Played.place` of earlier tries


@dataclass(frozen=True)
class Played:
    """A worker's report of an episode."""

    trajectory: Trajectory | None  # None: no environment could be made for it, and the worker has one less
    fault: str | None  # the message of a fault
    where: str  # machine and process
    usage: dict[str, Usage]  # of the agent's models, by role, since the worker started
    place: str = ""  # the environment


_Slot = tuple[
    str, Callable[[], Environment], Environment | None
]  # place, its maker, the environment if it was made


class Worker:
    """Plays episodes, one in each environment at a time."""

    def __init__(self, spec: WorkerSpec):
        self.spec, self.ready = spec, Condition()
        where = f"{socket.gethostname()}:{os.getpid()}"
        self.free: list[_Slot] = [
            (f"{where}/{number}", make, None) for number, make in enumerate(spec.make_envs)
        ]
        self.count = len(self.free)  # of environments
        self.thread = ThreadPoolExecutor(1)  # of environments that want a single one

    def play(self, job: Job) -> Played:
        """Play an episode in the next free environment in which it has not broken yet."""
        spec, (place, make, env) = self.spec, self._take(job.broken)
        do = (lambda call: call()) if spec.threads else (lambda call: self.thread.submit(call).result())
        where = place.partition("/")[0]
        try:
            env = env or do(make)
        except EnvironmentFault as fault:
            with self.ready:
                self.count -= 1
                self.ready.notify_all()
            return Played(None, str(fault), where, {}, place)
        trajectory, fault = play(spec.agent, env, job.task, job.run, spec.seed, spec.step_limit, do)
        if fault and env.lost:
            do(env.close)
            env = None
        with self.ready:
            self.free.append((place, make, env))
            self.ready.notify_all()
        return Played(
            trajectory,
            fault,
            where,
            {role: model.usage for role, model in models_of(spec.agent).items()},
            place,
        )

    def _take(self, broken: Sequence[str]) -> _Slot:
        """The next free environment that is not among `broken`, or one of those if there is no other."""
        with self.ready:
            while True:
                others = [slot for slot in self.free if slot[0] not in broken]
                if others or len(self.free) == self.count:
                    slot = (others or self.free)[0]
                    self.free.remove(slot)
                    return slot
                self.ready.wait()


class WorkerHandle(Protocol):
    """A worker as the master sees it."""

    def play(self, job: Job) -> Future[Played]:
        """Start an episode; the future fails with WorkerLost if the worker ends first."""

    def close(self) -> None:
        """End the worker at once."""


# ---- processes of this machine ---------------------------------------------------------------------------


class LocalWorker:
    """A worker in a process of its own."""

    def __init__(self, spec: WorkerSpec):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, spec), daemon=True)
        self._process.start()
        theirs.close()
        self._numbers, self._futures, self._lock = count(), {}, Lock()
        Thread(target=self._listen, daemon=True).start()

    def play(self, job: Job) -> Future[Played]:
        future: Future[Played] = Future()
        with self._lock:
            number = next(self._numbers)
            self._futures[number] = future
            try:
                self._pipe.send((number, job))
            except OSError:
                self._futures.pop(number)
                future.set_exception(WorkerLost("its process ended"))
        return future

    def _listen(self) -> None:
        try:
            while True:
                number, result = self._pipe.recv()
                with self._lock:
                    future = self._futures.pop(number)
                future.set_exception(result) if isinstance(result, Exception) else future.set_result(result)
        except (EOFError, OSError):  # the process has ended
            with self._lock:
                lost, self._futures = self._futures, {}
                self._pipe.close()
            self._process.join()
            for future in lost.values():
                future.set_exception(
                    WorkerLost(f"its process ended with exit status {self._process.exitcode}")
                )

    def close(self) -> None:
        self._process.terminate()
        self._process.join()


def _serve(pipe: Connection, spec: WorkerSpec) -> None:
    """The process of a `LocalWorker`; it ends with its master."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends it to all processes; the master ends this one
    worker, sending = Worker(spec), Lock()

    def do(number: int, job: Job) -> None:
        try:
            result: Played | Exception = worker.play(job)
        except Exception as error:  # raised again in the master
            result = error
        with sending:
            pipe.send((number, result))

    with ThreadPoolExecutor(len(spec.make_envs)) as pool:
        try:
            while True:
                pool.submit(do, *pipe.recv())
        except EOFError:
            os._exit(0)  # drops the episodes under way; displays end with their owner


# ---- actors of a Ray cluster -----------------------------------------------------------------------------


class _Actor(Worker):
    """A worker whose process ends at once: Qt's own shutdown waits for a thread that has ended."""

    def __ray_shutdown__(self) -> None:
        os._exit(0)


class RayWorker:
    """A worker as an actor of the Ray cluster of `join_cluster`."""

    def __init__(self, spec: WorkerSpec):
        import ray

        options = {"max_concurrency": len(spec.make_envs), "num_cpus": 0, "scheduling_strategy": "SPREAD"}
        self._actor = ray.remote(_Actor).options(**options).remote(spec)

    def play(self, job: Job) -> Future[Played]:
        return _translated(self._actor.play.remote(job).future())

    def close(self) -> None:
        import ray

        ray.kill(self._actor)


def _translated(future: Future[Any]) -> Future[Any]:
    """The same future with the kit's errors in place of Ray's."""
    import ray

    translated: Future[Any] = Future()

    def translate(done: Future[Any]) -> None:
        error = done.exception()
        if error is None:
            translated.set_result(done.result())
        elif isinstance(error, ray.exceptions.RayActorError):
            translated.set_exception(WorkerLost(str(error).strip().splitlines()[-1]))
        else:
            translated.set_exception(getattr(error, "cause", None) or error)

    future.add_done_callback(translate)
    return translated


def join_cluster(address: str) -> None:
    """Join the Ray cluster at an address ('auto': this machine's; 'local': start one), unless this process
    has joined one.

    UserError if ray is not installed, if no cluster answers, and if it runs other versions of Ray or Python.
    """
    if not importlib.util.find_spec("ray"):
        raise UserError("a fleet on Ray needs it: pip install --editable '.[scale]'")
    import ray

    if ray.is_initialized():
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if port.isdigit():  # Ray itself tries for minutes
            socket.create_connection((host, int(port)), CONNECT_S).close()
        ray.init(address, log_to_driver=False)
    except (
        Exception
    ) as error:  # Ray has no error class for these faults, such as a node that starts too slowly
        raise UserError(f"cannot join the Ray cluster at {address}: {_reasons(error)}") from error


def _reasons(error: BaseException) -> str:
    """An error of Ray's and its causes, which alone name, for instance, a missing token (RAY_AUTH_MODE)."""
    messages = [str(error)]
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    return "; ".join(dict.fromkeys([*messages, str(error).partition("Note:")[0].strip()]))
