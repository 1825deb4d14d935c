"""Checks, speed and endurance of the real applications on this machine: `coda apps check | soak`, `coda bench --apps`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from rich.console import Console

from coda_lib.agent import ScriptAgent
from coda_lib.applications import DESKTOP_APPS
from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.grammar import parse_actions
from coda_lib.rollout import play
from coda_study.bench.laptop import Measurement, timed
from sciencedesk.board.tasks import AppTask, app_tasks, solution
from sciencedesk.real import app_class
from sciencedesk.real.app import SIZE, App
from sciencedesk.real.display_process import HOME_PREFIX

IDLE_S = 3.0  # time over which the load of an idle application is measured
RESET_S, MEMORY_GB = 2.0, 3.0  # targets
FLAT = 1.1  # largest ratio of memory after and before a soak that does not count as growth


@dataclass(frozen=True)
class Check:
    """The result of `check_app`."""

    kind: str
    fault: str | None
    start_s: float | None = None  # display and application, until it is ready
    reset_s: float | None = None
    state: tuple[str, ...] = ()  # keys of its state
    picture: np.ndarray | None = None  # RGB uint8 (height, width, 3)
    isolated: bool | None = None  # whether it has a network of its own


def check_app(kind: str) -> Check:
    """Start an application, take a screenshot, read its state, reset and close it; a fault is part of the result."""
    try:
        app, task = app_class(kind)(), app_tasks(kind)[0]
    except UserError as error:
        return Check(kind, str(error))
    try:
        started, (picture, _) = timed(app.reset, task)
        state, isolated = app.snapshot(), app.display.isolated
        reset, (again, _) = timed(app.reset, task)
        fault = None
        if picture.std() == 0 or again.std() == 0:
            fault = "the screen is blank"
        elif app.snapshot() != state:
            fault = "the state after a reset differs from the state after the start"
        return Check(kind, fault, started, reset, tuple(state), picture, isolated)
    except EnvironmentFault as fault:
        return Check(kind, str(fault))
    finally:
        app.close()


def measure_apps(console: Console) -> list[dict[str, Any]]:
    """Step and reset times over the scripts of all tasks, idle load and memory of each application, and the memory of all."""
    rows, running = [], []
    with ExitStack() as at_end, console.status("") as status:
        for kind in DESKTOP_APPS:
            status.update(kind)
            running.append(app := app_class(kind)())
            at_end.callback(app.close)
            rows += app_rows(app)
        memory = sum(_memory(app) for app in running) / 1e9
        name = f"{len(running)} applications at once: memory"
        rows.append(Measurement(name, memory, "GB", f"< {MEMORY_GB:g}", memory < MEMORY_GB))
    return [asdict(row) for row in rows]


def app_rows(app: App) -> list[Measurement]:
    steps, resets = [], []
    for task in app_tasks(app.kind):
        resets.append(timed(app.reset, task)[0])
        steps += [timed(app.step, action)[0] for action in solution(task, app.size)]
    app.reset(task)
    before = _seconds(app)
    time.sleep(IDLE_S)
    busy = 100 * (_seconds(app) - before) / IDLE_S
    step, reset, most = statistics.median(steps), statistics.median(resets[1:]), app.step_s
    return [
        Measurement(f"{app.kind}: step (action, settled, screenshot), median", step, "s", f"< {most:g}", step < most),
        Measurement(f"{app.kind}: reset, median", reset, "s", f"< {RESET_S:g}", reset < RESET_S),
        Measurement(f"{app.kind}: at rest", busy, "% of a core", "0", round(busy) == 0),
        Measurement(f"{app.kind}: memory", _memory(app) / 1e9, "GB"),
    ]


def _seconds(app: App) -> float:
    """Processor time of all processes on the application's display, in s."""
    return sum(sum(process.cpu_times()[:2]) for process in app.display.processes())


def _memory(app: App) -> int:
    """Bytes of all processes on the application's display; shared memory counts once."""
    return sum(process.memory_full_info().pss for process in app.display.processes())


def script_agent(tasks: Sequence[AppTask]) -> ScriptAgent:
    """The agent that plays the scripts of these tasks, whose coordinates are pixels of the application's display."""
    scripts = {task.instruction: task.board.solution for task in tasks}
    return ScriptAgent(scripts, lambda line, observation: (line, parse_actions(line, SIZE)))


def soak(minutes: float, kinds: Sequence[str] = DESKTOP_APPS, tell: Callable[[str], None] = lambda status: None) -> pd.DataFrame:
    """Play the scripts of all tasks again and again, with all applications running, for so many minutes.

    One row for each round through the tasks of an application: kind, minute, tasks, solved, failed (ids of the other tasks, and
    their faults), memory_mb (after a reset) and processes of its display.  UserError if an application is not installed.
    """
    running = {kind: app_class(kind)() for kind in kinds}
    rows, start = [], time.monotonic()
    try:
        while not rows or time.monotonic() < start + 60 * minutes:
            for kind, app in running.items():
                tell(f"{(time.monotonic() - start) / 60:.0f} of {minutes:g} minutes: {kind}")
                tasks = app_tasks(kind)
                failed = [failure for task in tasks if (failure := _failure(app, task))]
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
    trajectory, fault = play(script_agent([task]), app, task, 0, 0)
    if fault:
        return f"{task.id} ({fault})"
    return None if trajectory.success else task.id


def soak_rows(rounds: pd.DataFrame) -> list[dict[str, Any]]:
    """The result of a soak, one row for each application: memory and processes after its first round and after the last."""
    rows = []
    for kind, own in rounds.groupby("kind", sort=False):
        first, last = own.iloc[0], own.iloc[-1]
        rows.append({
            "kind": kind, "episodes": int(own.tasks.sum()), "solved": int(own.solved.sum()),
            "failed": [failed for failed in own.failed if failed],
            "memory_mb": [float(first.memory_mb), float(last.memory_mb)],
            "processes": [int(first.processes), int(last.processes)],
            "flat": bool(last.memory_mb <= FLAT * first.memory_mb and last.processes <= first.processes),
        })  # fmt: skip
    return rows


def strays() -> list[str]:
    """The processes on this machine that run in the home of one of the kit's displays."""
    listed = [process.info for process in psutil.process_iter(["pid", "name", "environ"])]
    homes = {f"{info['pid']} {info['name']}": (info["environ"] or {}).get("HOME", "") for info in listed}  # other users': None
    return [process for process, home in homes.items() if Path(home).name.startswith(HOME_PREFIX)]
