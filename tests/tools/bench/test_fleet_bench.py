"""Fake machines, and a fleet measured on them; at full length by hand: `make bench ARGS=--fleet`, `pytest -m
chaos`.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Thread

import psutil
import pytest

from coda_lib.rollout import jobs, play
from coda_lib.trajectory import StopReason
from coda_study.fleet.collect import Collection, read_status
from coda_study.fleet.workers import Job
from sciencedesk.board.fake import ACTION_S, HOST, REAL_SIZE, SCREENSHOT_S
from sciencedesk.board.guest import Guest, Timing, decoded
from sciencedesk.board.machine import Machine, ScienceBoard
from tools.bench import __main__ as command
from tools.bench import fleet as bench_fleet

CHAOS_MIN, CHAOS_MACHINES = 10, 120


def test_a_fake_machine_is_as_slow_as_a_real_one_and_counts():
    with bench_fleet.fake_machines(2) as ports:
        guest, start = Guest(f"{HOST}:{ports[0]}", Timing()), time.monotonic()
        first = guest.screenshot()
        assert SCREENSHOT_S <= time.monotonic() - start < 1 and decoded(first).shape == (*REAL_SIZE[::-1], 3)
        guest.act([("click", (1, 2), {})])
        assert SCREENSHOT_S + ACTION_S <= time.monotonic() - start < 3
        assert guest.screenshot() != first and guest.json("GET", "/vars")["n"] == "1"
        assert Guest(f"{HOST}:{ports[1]}", Timing()).json("GET", "/vars")["n"] == "0"


def test_the_ideal_is_what_an_episode_takes_alone(monkeypatch):
    monkeypatch.setattr(bench_fleet, "RESET_S", 0.0)
    with bench_fleet.fake_machines(1) as (port,):
        env = ScienceBoard(Machine(address=f"{HOST}:{port}", state_port=port))
        start = time.monotonic()
        played, fault = play(
            bench_fleet.Clicker(bench_fleet.STEPS), env, bench_fleet.typing_task(bench_fleet.STEPS), 0, 0
        )
        took = time.monotonic() - start
    assert played.success and fault is None and len(played.steps) == bench_fleet.STEPS + 1
    assert bench_fleet.episode_s() <= took < 1.2 * bench_fleet.episode_s()


@pytest.mark.slow
def test_a_fleet_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(bench_fleet, "RESET_S", 0.1)
    monkeypatch.setattr(bench_fleet, "STEPS", 2)
    command.bench(fleet=True, machines=[3], as_json=True)
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["machines"], row["workers"], row["episodes"]) == (3, 1, 9)
    assert (
        row["ideal_s"] <= row["wall_s"] < 2 * row["ideal_s"] + 10
        and 0 < row["cores"] < 2
        and row["memory_mb"] > 50
    )
    monkeypatch.setenv("COLUMNS", "200")
    command.bench(fleet=True, machines=[1])
    assert "of the ideal" in capsys.readouterr().out


MASTER = """
import sys
from pathlib import Path
from tools.bench.fleet import STEPS, Clicker
from sciencedesk.board.fake import typing_task
from sciencedesk.board.guest import Timing
from sciencedesk.board.machine import Machine, Machines
from coda_study.fleet.collect import collect
from coda_lib.rollout import jobs
from coda_study.fleet.workers import WorkerSpec
if __name__ == "__main__":
    folder, runs, *ports = sys.argv[1:]
    machine = lambda port: Machine(address=f"127.0.0.1:{port}", revert=("sleep", "10"), state_port=int(port))
    machines = [Machines([machine(port)], Timing(boot=20.0, tries=2)) for port in ports]
    specs = [WorkerSpec(Clicker(STEPS), machines[i::4], True, 0) for i in range(4)]
    collect(jobs([typing_task(STEPS)], int(runs)), specs, Path(folder))
"""


@pytest.mark.chaos
def test_ten_minutes_of_random_kills_lose_no_finished_episode(tmp_path):
    """Workers, machines (all of a server's at once) and the master are killed at random; what is finished
    stays, once.
    """
    rng, folder, script = random.Random(0), tmp_path / "fleet", tmp_path / "master.py"
    script.write_text(MASTER)
    runs, kept, killed = 100_000, {}, Counter()
    with (
        bench_fleet.fake_machines(CHAOS_MACHINES // 2) as stable,
        bench_fleet.fake_machines(CHAOS_MACHINES // 2) as shaky,
    ):
        (server,) = [one for one in psutil.Process().children() if _listens(one, shaky[0])]
        words = [sys.executable, str(script), str(folder), str(runs), *map(str, stable + shaky)]
        master, end = subprocess.Popen(words), time.monotonic() + 60 * CHAOS_MIN
        while time.monotonic() < end:
            time.sleep(rng.uniform(10, 30))
            for path in folder.glob("episodes/*.parquet"):  # once there, a file stays as it is
                assert kept.setdefault(path.name, path.stat().st_mtime_ns) == path.stat().st_mtime_ns
            match rng.choices(("worker", "machines", "master"), (6, 3, 1))[0]:
                case "worker":
                    rng.choice(psutil.Process(master.pid).children() or [psutil.Process(master.pid)]).kill()
                    killed["worker"] += 1
                case "machines":  # they hang for a while, longer than anybody waits for an answer
                    server.suspend()
                    Thread(target=lambda: (time.sleep(40), server.resume()), daemon=True).start()
                    killed["machines"] += 1
                case "master":
                    master.kill()
                    master.wait()
                    killed["master"] += 1
                    master = subprocess.Popen(words)
            assert master.poll() is None
        server.resume()
        workers = psutil.Process(master.pid).children()
        master.send_signal(signal.SIGTERM)
        master.wait(20)
        psutil.wait_procs(workers, timeout=20)
    there = list(folder.glob("episodes/*.parquet"))
    assert set(kept) <= {path.name for path in there} and len(kept) > 500
    assert all(killed[what] for what in ("worker", "machines", "master"))
    planned = jobs([bench_fleet.typing_task(bench_fleet.STEPS)], runs)
    found = [Collection(folder).load(Job(one, run)) for one, run in planned if _has(folder, one, run)]
    assert len(found) == len(there) == len({one.run for one in found})
    broken = [one for one in found if one.stop is StopReason.ENVIRONMENT_ERROR]
    assert all(one.success or one in broken for one in found)
    assert read_status(folder).done == len(there)
    print(f"{len(found)} episodes, {len(broken)} of them kept as broken; killed: {dict(killed)}")


def _has(folder: Path, task, run: int) -> bool:
    return Collection(folder).has(Job(task, run))


def _listens(process: psutil.Process, port: int) -> bool:
    return any(one.laddr.port == port for one in process.net_connections("tcp"))
