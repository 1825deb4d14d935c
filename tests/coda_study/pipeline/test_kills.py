"""kill -9 at random moments: the same bytes in the end, no process that goes on, no lock that stays."""

from __future__ import annotations

import fcntl
import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from coda_study.run import Run

VICTIMS = ("driver", "scheduler", "runner", "kernel")
MOMENTS = 5  # kills of each
PATIENCE_S = 10.0  # after which nothing may run any more
RESULTS = (
    "rollouts",
    "judged",
    "round1",
    "specialist",
    "generalist",
    "evaluation",
    "judges",
    "ablations",
    "tables",
    "figures",
)
AWAY = ("fingerprint.json", "done.json", "metrics.jsonl")  # hold times, paths and the number of tries


class Study:
    """A run in a folder, as a person starts it."""

    def __init__(self, folder: Path, words: Sequence[str]) -> None:
        self.run = Run(str(folder))
        command = [sys.executable, "-m", "coda_study.cli.main", "reproduce", "--profile", "smoke"]
        self.command = [*command, "--run", str(folder), *words]

    def start(self) -> subprocess.Popen:
        return subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def finish(self) -> None:
        process = self.start()
        _, errors = process.communicate()
        assert process.returncode == 0, errors

    def results(self) -> dict[str, str]:
        """The SHA-256 of every file that a run is for."""
        paths = [
            path for name in RESULTS for path in sorted((self.run.folder / name).rglob("*")) if path.is_file()
        ]
        kept = [path for path in paths if path.name not in AWAY and "checkpoints" not in path.parts]
        return {
            str(path.relative_to(self.run.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in kept
        }

    def is_locked(self) -> bool:
        with (self.run.folder / ".lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def kill(self, victim: str, moment_s: float) -> bool:
        """Start it, kill -9 one of its processes at a moment, and wait until it has ended; False if it was
        done before.
        """
        process, until = self.start(), time.monotonic() + moment_s
        me = psutil.Process(process.pid)
        while process.poll() is None:
            time.sleep(0.05)
            if time.monotonic() > until and (found := self._find(me, victim)):
                family = {me, *me.children(recursive=True)}
                found.kill()
                process.communicate()
                self._check_all_end(family)
                return True
        assert process.returncode == 0, process.stderr.read()
        return False

    def _find(self, me: psutil.Process, victim: str) -> psutil.Process | None:
        if victim == "driver":
            return me
        family = me.children(recursive=True)
        if victim == "scheduler":
            found = [p for p in family if "coda_study.pipeline.scheduler" in _command(p)]
        else:  # a runner is forked by the process that has imported, and forks its kernel
            servers = [p for p in family if {"coda_study.pipeline.warm", "serve"} <= {*_command(p)}]
            found = _children([p for p in servers if p.ppid() == me.pid])
            found = _children(found) if victim == "kernel" else found
        return random.choice(found) if found else None

    def _check_all_end(self, family: set[psutil.Process]) -> None:
        """No process of this run goes on, not even one that began while another was killed, and nothing holds
        its lock.
        """
        until = time.monotonic() + PATIENCE_S
        # one that is ending has no command line any more, and holds its files, with the lock, for a moment
        while True:
            family |= {p for p in psutil.process_iter() if str(self.run.folder) in " ".join(_command(p))}
            alive = [p for p in family if _is_alive(p)]
            if not alive and not self.is_locked():
                break
            assert time.monotonic() < until, [_command(p) for p in alive] or "the lock is held"
            time.sleep(0.1)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _children(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it has ended
            found += process.children()
    return found


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


def check_kills(whole: Study, harmed: Study, victim: str, longest_s: float) -> int:
    """Kill `MOMENTS` times, finish, and compare with the run that nobody disturbed; returns how many kills
    hit.
    """
    chance = random.Random(victim)
    hits = sum(harmed.kill(victim, chance.uniform(0, longest_s)) for _ in range(MOMENTS))
    harmed.finish()
    assert harmed.results() == whole.results()
    assert not harmed.is_locked()
    return hits


@pytest.mark.chaos
@pytest.mark.parametrize("victim", VICTIMS)
def test_the_smoke_profile_survives_kills(victim, tmp_path_factory, smoke):
    assert (
        check_kills(smoke, Study(tmp_path_factory.mktemp("harmed") / "run", []), victim, longest_s=60)
        == MOMENTS
    )


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> Study:
    study = Study(tmp_path_factory.mktemp("whole") / "run", [])
    study.finish()
    return study
