"""Whether the real applications work on this machine, how fast and how long: `coda apps check | soak`, `coda bench --apps`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from rich.console import Console

from coda_lib.bench.laptop import Row
from coda_lib.envs.base import STOPS, EnvironmentFault
from coda_lib.envs.desktop import KINDS, app_class
from coda_lib.envs.desktop.app import App
from coda_lib.envs.desktop.keeper import HOME_PREFIX
from coda_lib.envs.scienceboard.tasks import AppTask, app_tasks, solution
from coda_lib.errors import UserError
from coda_lib.trajectory import StopReason

IDLE_S = 3.0  # for which an application that has nothing to do is watched
STEP_S = {"KAlgebra": 0.15, "PyMOL": 0.15, "GrassGIS": 0.15, "Stellarium": 1.2}  # promised
RESET_S, MEMORY_GB = 2.0, 3.0
FLAT = 1.1  # memory is flat if it is at most so many times what it was


@dataclass(frozen=True)
class Check:
    """What became of starting an application, looking at it, asking for its state and resetting it."""

    kind: str
    fault: str | None  # what went wrong
    start_s: float | None = None  # display and application, until it can be used
    reset_s: float | None = None
    state: tuple[str, ...] = ()  # what it says about itself
    picture: np.ndarray | None = None  # RGB uint8 (height, width, 3)
    isolated: bool | None = None  # whether it has a network of its own


def check_app(kind: str) -> Check:
    """Start, look, ask, reset and close; whatever goes wrong is in the result."""
    try:
        app, task = app_class(kind)(), app_tasks(kind)[0]
    except UserError as error:
        return Check(kind, str(error))
    try:
        started, (picture, _) = _timed(app.reset, task)
        state, isolated = app.snapshot(), app.display.isolated
        reset, (again, _) = _timed(app.reset, task)
        fault = None
        if picture.std() == 0 or again.std() == 0:
            fault = "the screen shows nothing"
        elif app.snapshot() != state:
            fault = "its state after a reset is not the one after the start"
        return Check(kind, fault, started, reset, tuple(state), picture, isolated)
    except EnvironmentFault as fault:
        return Check(kind, str(fault))
    finally:
        app.close()


def _timed(do: Any, *given: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    found = do(*given)
    return time.perf_counter() - start, found


def measure_apps(console: Console) -> list[dict[str, Any]]:
    """Steps and resets over the scripts of all tasks, rest and memory of each application, and the memory of all at once."""
    rows, running = [], []
    try:
        with console.status("") as status:
            for kind in KINDS:
                status.update(kind)
                app = app_class(kind)()
                running.append(app)
                rows += app_rows(app)
        memory = sum(_memory(app) for app in running) / 1e9
        rows.append(Row(f"{len(running)} applications at once: memory", memory, "GB", f"< {MEMORY_GB:g}", memory < MEMORY_GB))
    finally:
        for app in running:
            app.close()
    return [asdict(row) for row in rows]


def app_rows(app: App) -> list[Row]:
    steps, resets = [], []
    for task in app_tasks(app.kind):
        resets.append(_timed(app.reset, task)[0])
        steps += [_timed(app.step, action)[0] for action in solution(task, app.size)]
    app.reset(task)
    before = _seconds(app)
    time.sleep(IDLE_S)
    busy = 100 * (_seconds(app) - before) / IDLE_S
    step, reset, most = statistics.median(steps), statistics.median(resets[1:]), STEP_S[app.kind]
    return [
        Row(f"{app.kind}: step (action, settled, screenshot), median", step, "s", f"< {most:g}", step < most),
        Row(f"{app.kind}: reset, median", reset, "s", f"< {RESET_S:g}", reset < RESET_S),
        Row(f"{app.kind}: at rest", busy, "% of a core", "0", round(busy) == 0),
        Row(f"{app.kind}: memory", _memory(app) / 1e9, "GB"),
    ]


def _seconds(app: App) -> float:
    """Processor time of all that runs on the application's display, in s."""
    return sum(sum(process.cpu_times()[:2]) for process in app.display.processes())


def _memory(app: App) -> int:
    """Bytes of all that runs on the application's display; what processes share is counted once."""
    return sum(process.memory_full_info().pss for process in app.display.processes())


def replay(app: App, task: AppTask) -> tuple[StopReason, str | None]:
    """Play a task's script; how it ends, and the answer."""
    app.reset(task)
    for action in solution(task, app.size):
        _, _, ended, _, info = app.step(action)
        if ended:
            return STOPS[action.type], info["answer"]
    return StopReason.STEP_LIMIT, None


def soak(minutes: float, kinds: Sequence[str] = KINDS, tell: Callable[[str], None] = lambda words: None) -> pd.DataFrame:
    """Play the scripts of all tasks over and over, all applications running, until so many minutes have passed.

    One row for each time through the tasks of an application: kind, minute, tasks, solved, failed (the tasks that were not, and
    what broke), memory_mb (after a reset) and processes of its display.  UserError if one is not installed.
    """
    running = {kind: app_class(kind)() for kind in kinds}
    rows, start = [], time.monotonic()
    try:
        while not rows or time.monotonic() < start + 60 * minutes:
            for kind, app in running.items():
                tell(f"{(time.monotonic() - start) / 60:.0f} of {minutes:g} minutes: {kind}")
                tasks = app_tasks(kind)
                failed = [said for task in tasks if (said := _failure(app, task))]
                app.reset(tasks[0])
                rows.append({
                    "kind": kind, "minute": (time.monotonic() - start) / 60,
                    "tasks": len(tasks), "solved": len(tasks) - len(failed), "failed": "; ".join(failed),
                    "memory_mb": _memory(app) / 1e6, "processes": len(app.display.processes()),
                })  # fmt: skip
    finally:
        for app in running.values():
            app.close()
    return pd.DataFrame(rows)


def _failure(app: App, task: AppTask) -> str | None:
    try:
        return None if app.check(*replay(app, task)) else task.id
    except EnvironmentFault as fault:
        return f"{task.id} ({fault})"


def soak_rows(rounds: pd.DataFrame) -> list[dict[str, Any]]:
    """What a soak came to, one row for each application: memory after the first time through its tasks and after the last."""
    found = []
    for kind, own in rounds.groupby("kind", sort=False):
        first, last = own.iloc[0], own.iloc[-1]
        found.append({
            "kind": kind, "episodes": int(own.tasks.sum()), "solved": int(own.solved.sum()),
            "failed": [one for one in own.failed if one],
            "memory_mb": [float(first.memory_mb), float(last.memory_mb)],
            "processes": [int(first.processes), int(last.processes)],
            "flat": bool(last.memory_mb <= FLAT * first.memory_mb and last.processes <= first.processes),
        })  # fmt: skip
    return found


def strays() -> list[str]:
    """The processes on this machine that run in the home of a display of ours, whoever started it."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.environ().get("HOME", "")).name.startswith(HOME_PREFIX):
                found.append(f"{process.pid} {process.name()}")
        except psutil.Error:  # not ours, or gone
            continue
    return found
