"""A fleet: every episode once, whatever dies; the same on this machine's processes and on Ray, and as without
a fleet.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter as Count
from functools import partial
from pathlib import Path
from threading import Thread

import psutil
import pytest
from fleet_parts import Awkward, Broken, Clicker, Counter, Once, task

from coda_lib.agent import DualAgent
from coda_lib.config import load_profile
from coda_lib.environment import EnvironmentFault
from coda_lib.errors import StageError, UserError
from coda_lib.executor import Executor
from coda_lib.files import write_json
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.planner import Planner
from coda_lib.rollout import TRIES, jobs, play
from coda_lib.task import test_tasks as tasks_of_tests
from coda_lib.trajectory import StopReason
from coda_study.fleet.collect import LOSSES, STRIKES, Collection, collect, read_status
from coda_study.fleet.workers import (
    Job,
    LocalWorker,
    RayWorker,
    Worker,
    WorkerHandle,
    WorkerSpec,
    join_cluster,
)
from coda_study.run import Run
from sciencedesk.env import ScienceDesk

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


def specs(log: Path, workers: int = 2, environments: int = 3, step_s: float = 0.0) -> list[WorkerSpec]:
    return [
        WorkerSpec(Clicker(), [partial(Counter, log, step_s)] * environments, True, 7) for _ in range(workers)
    ]


def begun(log: Path, what: str = "begun") -> Count[str]:
    return Count(line.split()[1] for line in log.read_text().splitlines() if line.startswith(what))


def test_every_job_is_played_once_and_comes_back_in_its_place(log, tmp_path):
    todo, told = jobs([task(f"t{i}", 2 + i % 3) for i in range(10)], 3), []
    found = collect(
        todo, specs(log), tmp_path / "fleet", progress=lambda done, total: told.append((done, total))
    )
    assert [(t.task_id, t.run) for t in found] == [(one.id, run) for one, run in todo]
    assert all(t.success and t.stop is StopReason.DONE for t in found) and told == [
        (i, 30) for i in range(1, 31)
    ]
    assert (
        set(begun(log).values()) == {3}
        and len({line.split()[2] for line in log.read_text().splitlines()}) == 2
    )
    status = read_status(tmp_path / "fleet")
    assert (status.total, status.done, status.faults, status.alive) == (30, 30, 0, False)
    assert sum(worker["finished"] for worker in status.workers) == 30
    assert all(
        worker["where"] and worker["starts"] == 1 and not worker["under_way"] for worker in status.workers
    )
    alone, fault = play(Clicker(), Counter(log), *todo[4], seed=7)
    assert alone == found[4] and fault is None


def test_free_environments_are_not_kept_waiting_for_files(log, tmp_path, monkeypatch):
    """All answer at once: each has its next episode before the first of theirs is written."""
    handed, before = [], []

    class Near(WorkerHandle):
        def __init__(self, spec):
            super().__init__(spec)
            self.worker = Worker(spec)

        def play(self, job):
            handed.append(job)
            future = super().play(job)
            future.exception()  # it has ended
            return future

        def _play(self, job):
            return self.worker.play(job)

        def close(self):
            pass

    save = Collection.save
    monkeypatch.setattr(Collection, "save", lambda *given: (before.append(len(handed)), save(*given)))
    played = collect(jobs([task("t0")], 9), specs(log, 1, 3), tmp_path / "fleet", Near)
    assert [trajectory.run for trajectory in played] == [*range(9)] and before[:3] == [6, 6, 6]


def test_what_is_there_is_not_played_again(log, tmp_path):
    todo = jobs([task(f"t{i}") for i in range(6)], 1)
    first = collect(todo[:4], specs(log), tmp_path / "fleet")
    assert collect(todo, specs(log), tmp_path / "fleet")[:4] == first
    assert (
        collect(todo, [WorkerSpec(Clicker(), [EnvironmentFault], True, 7)], tmp_path / "fleet")[:4] == first
    )  # nobody is asked
    assert set(begun(log).values()) == {1} and len(begun(log)) == 6
    with pytest.raises(
        UserError, match=r"holds episodes of .*'seed': 7.* not of .*'seed': 8.*another folder"
    ):
        collect(todo, [WorkerSpec(Clicker(), [partial(Counter, log)], True, 8)], tmp_path / "fleet")


def test_a_cleared_collection_is_begun_anew(log, tmp_path):
    todo = [(task("t"), 0)]
    collect(todo, specs(log), tmp_path / "fleet")
    Collection(tmp_path / "fleet").clear()
    assert read_status(tmp_path / "fleet").done == 1 and not Collection(tmp_path / "none").clear()
    collect(
        todo, [WorkerSpec(Clicker(), [partial(Counter, log)], True, 8)], tmp_path / "fleet"
    )  # with another seed
    assert begun(log) == {"made/t": 2}


def test_a_broken_environment_is_tried_twice_and_says_nothing_of_the_agent(log, tmp_path):
    todo, told = [(task("broken"), 0), (task("whole"), 0)], []
    broken, whole = collect(todo, specs(log), tmp_path / "fleet", report=told.append)
    assert (broken.stop, broken.success) == (StopReason.ENVIRONMENT_ERROR, None) and whole.success
    assert (
        begun(log) == {"made/broken": 2, "made/whole": 1} and told == ["made/broken, run 0: it is broken"] * 2
    )


@pytest.mark.parametrize("together", [True, False])
def test_what_broke_is_tried_again_elsewhere(log, tmp_path, together):
    envs = [partial(Broken, log), partial(Counter, log, 0.01)]
    shares = [envs] if together else [envs[:1], envs[1:]]
    workers = [WorkerSpec(Clicker(), share, True, 7) for share in shares]
    found = collect(jobs([task(f"t{i}") for i in range(6)], 1), workers, tmp_path / "fleet")
    assert all(t.success for t in found) and max(begun(log).values()) <= 2


def test_what_was_a_fault_is_played_again_by_the_next_call(log, tmp_path):
    todo = jobs([task("t0"), task("t1")], 1)
    first = collect(todo, [WorkerSpec(Clicker(), [partial(Broken, log)], True, 7)], tmp_path / "fleet")
    assert [t.success for t in first] == [None, None] and len(
        list((tmp_path / "fleet" / "episodes").iterdir())
    ) == 2
    again = collect(todo, specs(log, 1), tmp_path / "fleet")
    assert [t.success for t in again] == [True, True] and set(begun(log).values()) == {TRIES + 1}
    assert sorted(path.name for path in (tmp_path / "fleet" / "episodes").iterdir()) == [
        f"made%2Ft{i}.0.parquet" for i in (0, 1)
    ]
    assert collect(todo, specs(log, 1), tmp_path / "fleet") == again and set(begun(log).values()) == {
        TRIES + 1
    }


def test_with_no_environment_left_the_rest_is_kept_as_broken(log, tmp_path):
    spec = WorkerSpec(Clicker(), [Once(log), Once(log)], True, 7)
    found = collect(jobs([task("broken"), task("whole")], 3), [spec], tmp_path / "fleet")
    assert [t.stop for t in found[:3]] == [StopReason.ENVIRONMENT_ERROR] * 3 and all(
        t.success is None for t in found[:3]
    )
    assert all(t.stop is StopReason.ENVIRONMENT_ERROR or t.success for t in found)


def test_a_worker_that_ends_is_begun_again_and_one_that_always_ends_is_not(log, tmp_path):
    deadly = task("deadly")
    todo = [(deadly, 0), *jobs([task(f"t{i}", 8) for i in range(30)], 1)]
    found = collect(todo, specs(log, 2, 2, step_s=0.05), tmp_path / "a")
    assert (found[0].stop, found[0].success) == (StopReason.ENVIRONMENT_ERROR, None)
    assert all(t.success for t in found[1:]) and begun(log)[deadly.id] == LOSSES
    assert sum(worker["starts"] for worker in read_status(tmp_path / "a").workers) == 2 + LOSSES
    log.write_text("")
    many = jobs([task(f"deadly{i}") for i in range(20)], 1)
    with pytest.raises(StageError, match=r"no worker stays alive; \d+ of 20 episodes .* exit status -9"):
        collect(many, specs(log, 1, 1), tmp_path / "b")
    assert sum(begun(log).values()) == STRIKES


def test_what_a_worker_cannot_do_for_the_models_sake_is_raised_and_nothing_is_lost(log, tmp_path):
    todo = jobs([task("t0"), task("t1"), task("refused")], 1)
    with pytest.raises(UserError, match="the server refuses"):
        collect(todo, specs(log, 1, 1), tmp_path / "fleet")
    assert begun(log, "ended") == {"made/t0": 1, "made/t1": 1}
    assert len(list((tmp_path / "fleet" / "episodes").iterdir())) == 2
    assert not [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("locked", r"a Locked that cannot be sent to the master \(.*\): out of credit"),
        ("halved", r"a Halved that cannot be sent to the master \(.*\): out of, credit"),
        ("exit", "SystemExit: out of credit"),
        ("plan", r"a Played that cannot be sent to the master \(a text with a lock\)"),
    ],
)
def test_an_answer_that_cannot_be_sent_is_an_error_and_nobody_waits(name, said, log):
    worker = LocalWorker(WorkerSpec(Awkward(), [partial(Counter, log)], True, 7))
    try:
        with pytest.raises(RuntimeError, match=said):
            worker.play(Job(task(name), 0)).result(timeout=60)
    finally:
        worker.close()


def test_models_of_a_fleet_are_behind_servers(log, tmp_path):
    near = DualAgent(Planner(ReplayModel([]), Sampling()), Executor(ReplayModel([]), Sampling()), "base")
    with pytest.raises(
        UserError, match="set serving.planner and serving.executor to 'started' or to an address"
    ):
        collect([(task("t"), 0)], [WorkerSpec(near, [partial(Counter, log)], True, 7)], tmp_path / "fleet")


def test_a_folder_is_filled_by_one_master_at_a_time(log, tmp_path):
    kept = Collection(tmp_path / "fleet")
    with kept.held({"agent": "clicker"}):
        with pytest.raises(UserError, match="is being filled by another process"):
            collect([(task("t"), 0)], specs(log), tmp_path / "fleet")
        with pytest.raises(UserError, match="is being filled by another process"):
            Collection(tmp_path / "fleet").clear()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "episodes").write_text("precious")
    with pytest.raises(UserError, match="holds something else"):
        collect([(task("t"), 0)], specs(log), tmp_path / "thesis")
    with pytest.raises(UserError, match="is not removed"):
        Collection(tmp_path / "thesis").clear()
    with pytest.raises(UserError, match="no fleet works in"):
        read_status(tmp_path / "none")


def test_a_fleet_in_a_run_keeps_its_episodes_beside_the_record_of_the_stage(log, tmp_path):
    run = Run(str(tmp_path / "run"))
    run.store(load_profile("smoke"))
    folder = run.fleet("explore", "base", "gis")
    write_json(folder / "fingerprint.json", {})  # as of `pipeline.runner`
    assert len(collect([(task("t"), 0)], specs(log), folder)) == 1
    Collection(folder).clear()
    assert not (folder / "episodes").exists() and (folder / "fingerprint.json").exists()


@pytest.mark.slow
def test_workers_killed_at_random_lose_no_finished_episode(log, tmp_path):
    todo, stop = jobs([task(f"t{i}", 6) for i in range(40)], 5), []

    def kill() -> None:
        rng = random.Random(0)
        while not stop:
            time.sleep(3)
            workers = [
                child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())
            ]
            if workers:
                rng.choice(workers).kill()

    killer = Thread(target=kill, daemon=True)
    killer.start()
    found = collect(todo, specs(log, 3, 4, step_s=0.1), tmp_path / "fleet")
    stop.append(True)
    killer.join()
    assert [(t.task_id, t.run) for t in found] == [(one.id, run) for one, run in todo] and all(
        t.success for t in found
    )
    status = read_status(tmp_path / "fleet")
    assert sum(worker["starts"] for worker in status.workers) >= 3 + 2
    assert (
        sum(worker["finished"] for worker in status.workers)
        == 200
        == len(list((tmp_path / "fleet" / "episodes").iterdir()))
    )


MASTER = """
from functools import partial
from pathlib import Path
from fleet_parts import *
from coda_study.fleet.collect import collect
from coda_lib.rollout import jobs
from coda_study.fleet.workers import WorkerSpec

FIXTURES = Path(__file__).parents[2] / "fixtures"
if __name__ == "__main__":
    log, folder = Path({log!r}), Path({folder!r})
    specs = [WorkerSpec(Clicker(), [partial(Counter, log, 0.1)] * 4, True, 7) for _ in range(2)]
    collect(jobs([task(f"t{{i}}", 5) for i in range(10)], 4), specs, folder)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_master_that_was_killed_goes_on_where_it_was(log, tmp_path, end):
    folder, script = tmp_path / "fleet", tmp_path / "master.py"
    script.write_text(MASTER.format(log=str(log), folder=str(folder)))
    environment = os.environ | {"PYTHONPATH": str(FIXTURES)}
    master = subprocess.Popen([sys.executable, script], env=environment, stderr=subprocess.DEVNULL)
    while len(list(folder.glob("episodes/*.parquet"))) < 8:
        time.sleep(0.05)
    workers = psutil.Process(master.pid).children(recursive=True)
    master.send_signal(end)
    master.wait(20)
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive and not read_status(folder).alive
    there = {path.name for path in folder.glob("episodes/*.parquet")}
    known = Count(begun(log))
    assert 8 <= len(there) < 40
    subprocess.run([sys.executable, script], env=environment, check=True)
    assert len(list(folder.glob("episodes/*.parquet"))) == 40
    again = begun(log) - known
    assert sum(again.values()) == 40 - len(there)
    assert json.loads((folder / "status.json").read_text())["before"] == len(there)


def test_a_cluster_that_is_not_there_is_said():
    pytest.importorskip("ray")
    with pytest.raises(UserError, match="cannot join the Ray cluster at 127.0.0.1:9"):
        join_cluster("127.0.0.1:9")


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FIXTURES))  # for its workers
        join_cluster("local")
    yield
    ray.shutdown()


@pytest.mark.slow
def test_a_ray_cluster_plays_the_same(cluster, log, tmp_path):
    todo = jobs([task(f"t{i}", 2 + i % 3) for i in range(6)], 2) + [(task("broken"), 0)]
    local = collect(todo, specs(log), tmp_path / "local", LocalWorker)
    assert collect(todo, specs(log), tmp_path / "ray", RayWorker) == local
    assert set(begun(log).values()) == {4}
    with pytest.raises(UserError, match="the server refuses"):
        collect([(task("refused"), 0)], specs(log), tmp_path / "refused", RayWorker)
    found = collect(
        [(task("deadly"), 0), (task("whole"), 0)], specs(log, 2, 1), tmp_path / "deadly", RayWorker
    )
    assert found[0].stop is StopReason.ENVIRONMENT_ERROR and found[1].success


@pytest.mark.slow
def test_an_actor_that_nobody_wants_any_more_ends_with_its_windows_open(cluster):
    worker = RayWorker(WorkerSpec(Clicker(), [partial(ScienceDesk, "gis")], False, 7, step_limit=3))
    played = worker.play(Job(tasks_of_tests("gis")[0], 0)).result(120)
    process = psutil.Process(int(played.where.partition(":")[2]))
    del worker  # as when the master ends before it has said that the actor is to be killed
    process.wait(60)


def test_applications_of_one_thread_are_played_as_well(tmp_path):
    todo = jobs(tasks_of_tests("gis")[:3], 2)
    spec = WorkerSpec(Clicker(), [partial(ScienceDesk, "gis")] * 3, False, 7, step_limit=3)
    found = collect(todo, [spec, spec], tmp_path / "fleet")
    assert [t.task_id for t in found] == [one.id for one, _ in todo] and all(len(t.steps) == 2 for t in found)
    assert found[0].steps[0].image.size == ScienceDesk("gis").reset(todo[0][0])[0].shape[1::-1]
