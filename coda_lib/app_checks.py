"""Whether the real applications work on this machine, and how fast: `coda apps check` and `coda bench --apps`."""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console

from coda_lib.app_tasks import app_tasks, solution
from coda_lib.bench import Row
from coda_lib.envs.apps import KINDS, app_class
from coda_lib.envs.apps.app import App
from coda_lib.envs.base import EnvironmentFault
from coda_lib.errors import UserError

IDLE_S = 3.0  # for which an application that has nothing to do is watched
STEP_S = {"KAlgebra": 0.15, "PyMOL": 0.15, "GrassGIS": 0.15, "Stellarium": 1.2}  # promised
RESET_S, MEMORY_GB = 2.0, 3.0


@dataclass(frozen=True)
class Check:
    """What became of starting an application, looking at it, asking for its state and resetting it."""

    kind: str
    fault: str | None  # what went wrong
    start_s: float | None = None  # display and application, until it can be used
    reset_s: float | None = None
    state: tuple[str, ...] = ()  # what it says about itself
    picture: np.ndarray | None = None  # RGB uint8 (height, width, 3)


def check_app(kind: str) -> Check:
    """Start, look, ask, reset and close; whatever goes wrong is in the result."""
    try:
        app, task = app_class(kind)(), app_tasks(kind)[0]
    except UserError as error:
        return Check(kind, str(error))
    try:
        started, (picture, _) = _timed(app.reset, task)
        state = app.snapshot()
        reset, (again, _) = _timed(app.reset, task)
        if picture.std() == 0 or again.std() == 0:
            return Check(kind, "the screen shows nothing", started, reset, tuple(state), picture)
        if app.snapshot() != state:
            return Check(kind, "its state after a reset is not the one after the start", started, reset, tuple(state), picture)
        return Check(kind, None, started, reset, tuple(state), picture)
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
