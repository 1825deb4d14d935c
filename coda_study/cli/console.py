"""What the commands share: how they print, and the names of runs, applications and tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coda_lib.applications import APPS, SPACE_APPS
from coda_lib.errors import UserError

if TYPE_CHECKING:
    from rich.progress import Progress

    from coda_lib.task import Task
    from coda_study.run import Run

out, err = Console(highlight=False), Console(stderr=True, highlight=False)


def print_text(*parts: object, console: Console = out) -> None:
    """Print text as it is: nothing in it is markup, and no line is broken at the terminal's width."""
    console.print(*parts, markup=False, soft_wrap=True)


def print_message(text: str) -> None:
    """Print a line of text to standard error."""
    print_text(text, console=err)


def bars() -> Progress:
    """Bars on standard error while a command works; none where that is no terminal."""
    from rich.progress import Progress

    return Progress(console=err, transient=True, disable=not err.is_terminal)


def show(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table at its full width, also in a narrow terminal, so that no figure is cut."""
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    Console(width=max(out.width, Console(width=400).measure(table).maximum), highlight=False).print(table)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def run_of(name: str) -> Run:
    """The run of this folder, or with this name under results/, or else of the committed runs."""
    from coda_lib.paths import REFERENCE
    from coda_study.run import Run

    run = Run(str(Path(name).resolve()) if Path(name).is_dir() else name)
    for found in (run, Run(str(REFERENCE / run.folder.name))):
        if found.folder.is_dir():
            return found
    raise UserError(f"unknown run {name!r}: give a folder, or a name under results/ or results/reference/")


def runs_of(names: Sequence[str]) -> list[Run]:
    """Runs by their seeds: no figure depends on the order in which they are named."""
    return sorted(map(run_of, names), key=lambda run: run.profile().seed)


def local_checkpoint(role: str, name: str) -> str:
    """The checkpoint in this folder or with this name on the hub.  UserError for an empty folder of ours."""
    from coda_lib.paths import require_checkpoint

    return require_checkpoint(role, str(Path(name).resolve()) if name and Path(name).exists() else name)


def applications(name: str | None, known: Sequence[str] = SPACE_APPS) -> tuple[str, ...]:
    """The application with this name, or without one those of Table 1.  UserError if it is not `known`."""
    if name is not None and name not in known:
        raise UserError(f"unknown application {name!r}: choose one of {', '.join(known)}")
    return APPS if name is None else (name,)


def find_task(identity: str) -> Task:
    """The test task with this id, such as algebra/A-01.  UserError for an unknown one."""
    from coda_lib.task import test_tasks

    name, slash, _ = identity.partition("/")
    if not slash:
        raise UserError(f"{identity!r} is not a task: write APP/TASK, such as algebra/A-01")
    (name,) = applications(name)
    known = {task.id: task for task in test_tasks(name)}
    if identity not in known:
        raise UserError(f"unknown task {identity!r}; `coda tasks list --app {name}` lists the tasks")
    return known[identity]
