"""Speed and memory of the real applications on this machine: `make bench ARGS=--apps`."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from rich.console import Console

from coda_lib.applications import DESKTOP_APPS
from sciencedesk.board.tasks import app_tasks, solution
from sciencedesk.real import app_class
from sciencedesk.real.app import App
from sciencedesk.real.checks import memory_of, timed
from tools.bench.laptop import Measurement

IDLE_S = 3.0  # time over which the load of an idle application is measured
RESET_S, MEMORY_GB = 2.0, 3.0  # targets


def measure_apps(console: Console) -> list[dict[str, Any]]:
    """Step and reset times over the scripts of all tasks, idle load and memory of each application, and the
    memory of all.
    """
    rows, running = [], []
    with ExitStack() as at_end, console.status("") as status:
        for kind in DESKTOP_APPS:
            status.update(kind)
            running.append(app := app_class(kind)())
            at_end.callback(app.close)
            rows += app_rows(app)
        memory = sum(memory_of(app) for app in running) / 1e9
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
        Measurement(
            f"{app.kind}: step (action, settled, screenshot), median", step, "s", f"< {most:g}", step < most
        ),
        Measurement(f"{app.kind}: reset, median", reset, "s", f"< {RESET_S:g}", reset < RESET_S),
        Measurement(f"{app.kind}: at rest", busy, "% of a core", "0", round(busy) == 0),
        Measurement(f"{app.kind}: memory", memory_of(app) / 1e9, "GB"),
    ]


def _seconds(app: App) -> float:
    """Processor time of all processes on the application's display, in s."""
    return sum(sum(process.cpu_times()[:2]) for process in app.display.processes())
