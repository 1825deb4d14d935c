"""The workers of a fleet: processes that play an episode in each of their environments at a time, in threads.

A worker is a process of this machine (`LocalWorker`) or an actor of a Ray cluster (`RayWorker`); both run a
`Worker`.  Workers reach the models through servers.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import signal
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Condition, Lock, Thread

from coda_lib.agent import Agent, models_of
from coda_lib.environment import Environment, EnvironmentFault
from coda_lib.errors import UserError, one_line
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
    threads: bool  # whether several threads may use the environments (`Environment.threads`), or only one
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


# place, its maker, the environment if it was made
_Slot = tuple[str, Callable[[], Environment], Environment | None]


class Worker:
    """Plays episodes, one in each environment at a time."""

    def __init__(self, spec: WorkerSpec):
        self.spec, self.ready = spec, Condition()
        self.where = f"{socket.gethostname()}:{os.getpid()}"
        makers = enumerate(spec.make_envs)
        self.free: list[_Slot] = [(f"{self.where}/{number}", make, None) for number, make in makers]
        self.count = len(self.free)  # of environments
        self.thread = ThreadPoolExecutor(1)  # of environments that want a single one

    def play(self, job: Job) -> Played:
        """Play an episode in the next free environment in which it has not broken yet."""
        spec, (place, make, env) = self.spec, self._take(job.broken)
        do = (lambda call: call()) if spec.threads else (lambda call: self.thread.submit(call).result())
        try:
            env = env or do(make)
        except EnvironmentFault as fault:
            with self.ready:
                self.count -= 1
                self.ready.notify_all()
            return Played(None, str(fault), self.where, {}, place)
        trajectory, fault = play(spec.agent, env, job.task, job.run, spec.seed, spec.step_limit, do)
        if fault and env.lost:
            do(env.close)
            env = None
        with self.ready:
            self.free.append((place, make, env))
            self.ready.notify_all()
        usage = {role: model.usage for role, model in models_of(spec.agent).items()}
        return Played(trajectory, fault, self.where, usage, place)

    def _take(self, broken: Sequence[str]) -> _Slot:
        """The next free environment that is not among `broken`, or one of those if there is no other."""

        def candidates() -> list[_Slot]:
            others = [slot for slot in self.free if slot[0] not in broken]
            return others or (self.free if len(self.free) == self.count else [])

        with self.ready:
            slot = self.ready.wait_for(candidates)[0]
            self.free.remove(slot)
            return slot


class WorkerHandle(ABC):
    """A worker as the master sees it; a thread of the master waits for each episode under way."""

    def __init__(self, spec: WorkerSpec):
        self._threads = ThreadPoolExecutor(len(spec.make_envs))

    def play(self, job: Job) -> Future[Played]:
        """Start an episode; the future fails with WorkerLost if the worker ends first."""
        return self._threads.submit(self._play, job)

    @abstractmethod
    def _play(self, job: Job) -> Played: ...

    @abstractmethod
    def close(self) -> None:
        """End the worker at once."""


class LocalWorker(WorkerHandle):
    """A worker in a process of its own, with a pipe for each of its environments."""

    def __init__(self, spec: WorkerSpec):
        super().__init__(spec)
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in spec.make_envs]
        arguments = (spec, [theirs for _, theirs in pipes])
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        self._free, self._ending = deque(ours for ours, _ in pipes), Lock()
        for _, theirs in pipes:
            theirs.close()

    def _play(self, job: Job) -> Played:
        pipe = self._free.popleft()
        try:
            pipe.send(job)
            result = pipe.recv()
        except (EOFError, OSError):
            raise WorkerLost(f"its process ended with exit status {self._ended()}") from None
        finally:
            self._free.append(pipe)
        if isinstance(result, Exception):
            raise result
        return result

    def _ended(self) -> int:
        with self._ending:  # two threads cannot wait for one process
            self._process.join()
            return self._process.exitcode

    def close(self) -> None:
        self._process.terminate()
        self._ended()


def _serve(spec: WorkerSpec, pipes: Sequence[Connection]) -> None:
    """The process of a `LocalWorker`; it ends with its master."""
    # a terminal sends it to all processes; the master ends this one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Worker(spec)

    def answer(pipe: Connection) -> None:
        with suppress(EOFError, OSError):  # the master has ended
            while True:
                job = pipe.recv_bytes()
                try:
                    result: Played | BaseException = worker.play(pickle.loads(job))
                except BaseException as error:  # raised again in the master, which waits for an answer
                    result = error
                pipe.send_bytes(_pickled(result))

    for pipe in pipes:
        Thread(target=answer, args=(pipe,), daemon=True).start()
    multiprocessing.parent_process().join()
    os._exit(0)  # drops the episodes under way; displays end with their owner


def _pickled(result: Played | BaseException) -> bytes:
    """A result for the master; one that cannot be sent, or would end it, goes as an error that names it."""
    name = type(result).__name__
    try:
        data = pickle.dumps(result)
        if isinstance(result, Played) or isinstance(pickle.loads(data), Exception):
            return data
        reason = name  # of SystemExit, for one
    except Exception as error:  # anything that is in the result may raise anything
        reason = f"a {name} that cannot be sent to the master ({one_line(error)})"
    said = "" if isinstance(result, Played) else f": {one_line(result)}"
    return pickle.dumps(RuntimeError(f"an episode of a worker ended with {reason}{said}"))


class _Actor(Worker):
    """A worker whose process ends at once: Qt's own shutdown waits for a thread that has ended."""

    def __ray_shutdown__(self) -> None:
        os._exit(0)


class RayWorker(WorkerHandle):
    """A worker as an actor of the Ray cluster of `join_cluster`."""

    def __init__(self, spec: WorkerSpec):
        import ray

        super().__init__(spec)
        options = {"max_concurrency": len(spec.make_envs), "num_cpus": 0, "scheduling_strategy": "SPREAD"}
        self._actor = ray.remote(_Actor).options(**options).remote(spec)

    def _play(self, job: Job) -> Played:
        import ray

        try:
            return ray.get(self._actor.play.remote(job))
        except ray.exceptions.RayActorError as error:
            raise WorkerLost(str(error).strip().splitlines()[-1]) from None
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None

    def close(self) -> None:
        import ray

        ray.kill(self._actor)


def join_cluster(address: str) -> None:
    """Join the Ray cluster at an address ('auto': this machine's; 'local': start one), unless one is joined.

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
    except Exception as error:  # Ray has no class for these faults, such as a node that starts too slowly
        raise UserError(f"cannot join the Ray cluster at {address}: {_reasons(error)}") from error


def _reasons(error: BaseException) -> str:
    """An error of Ray's and its causes, which alone name, for instance, a missing token (RAY_AUTH_MODE)."""
    messages = [str(error)]
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    return "; ".join(dict.fromkeys([*messages, str(error).partition("Note:")[0].strip()]))
