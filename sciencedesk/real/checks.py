"""Do the real applications work on this machine, and keep working: `coda apps check`, `coda apps soak`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

from coda_lib.agent import ScriptAgent
from coda_lib.applications import DESKTOP_APPS
from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.grammar import parse_actions
from coda_lib.rollout import play
from sciencedesk.board.tasks import AppTask, app_tasks
from sciencedesk.real import app_class
from sciencedesk.real.app import SIZE, App
from sciencedesk.real.display import HOME_PREFIX

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
    sandboxed: bool | None = None  # whether it writes to no files but its own


def check_app(kind: str) -> Check:
    """Start an application, take a screenshot, read its state, reset and close it; a fault is a result."""
    try:
        app, task = app_class(kind)(), app_tasks(kind)[0]
    except UserError as error:
        return Check(kind, str(error))
    try:
        started, (picture, _) = timed(app.reset, task)
        state, isolated, sandboxed = app.snapshot(), app.display.isolated, app.display.sandboxed
        reset, (again, _) = timed(app.reset, task)
        fault = None
        if picture.std() == 0 or again.std() == 0:
            fault = "the screen is blank"
        elif app.snapshot() != state:
            fault = "the state after a reset differs from the state after the start"
        return Check(kind, fault, started, reset, tuple(state), picture, isolated, sandboxed)
    except EnvironmentFault as fault:
        return Check(kind, str(fault))
    finally:
        app.close()


def timed(call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[float, Any]:
    """Wall-clock seconds of a call, and its result."""
    start = time.perf_counter()
    result = call(*args, **kwargs)
    return time.perf_counter() - start, result


def memory_of(app: App) -> int:
    """Bytes of all processes on the application's display; shared memory counts once."""
    return sum(process.memory_full_info().pss for process in app.display.processes())


def script_agent(tasks: Sequence[AppTask]) -> ScriptAgent:
    """The agent that plays the tasks' scripts, whose coordinates are pixels of the application's display."""
    scripts = {task.instruction: task.board.solution for task in tasks}
    return ScriptAgent(scripts, lambda line, observation: (line, parse_actions(line, SIZE)))


def soak(
    minutes: float, kinds: Sequence[str] = DESKTOP_APPS, tell: Callable[[str], None] = lambda status: None
) -> pd.DataFrame:
    """Play the scripts of all tasks again and again, with all applications running, for so many minutes.

    One row for each round through the tasks of an application: kind, minute, tasks, solved, failed (ids of
    the other tasks, and their faults), memory_mb (after a reset) and processes of its display.  UserError if
    an application is not installed.
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
                    "memory_mb": memory_of(app) / 1e6, "processes": len(app.display.processes()),
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
    """A soak by application: its memory and processes after the first round and after the last."""
    rows = []
    for kind, played in rounds.groupby("kind", sort=False):
        first, last = played.iloc[0], played.iloc[-1]
        rows.append({
            "kind": kind, "episodes": int(played.tasks.sum()), "solved": int(played.solved.sum()),
            "failed": [failed for failed in played.failed if failed],
            "memory_mb": [float(first.memory_mb), float(last.memory_mb)],
            "processes": [int(first.processes), int(last.processes)],
            "flat": bool(last.memory_mb <= FLAT * first.memory_mb and last.processes <= first.processes),
        })  # fmt: skip
    return rows


def strays() -> list[str]:
    """The processes on this machine that run in the home of one of the kit's displays."""
    listed = [process.info for process in psutil.process_iter(["pid", "name", "environ"])]
    homes = [Path((info["environ"] or {}).get("HOME", "")).name for info in listed]  # other users': None
    found = zip(listed, homes, strict=True)
    return [f"{info['pid']} {info['name']}" for info, home in found if home.startswith(HOME_PREFIX)]
