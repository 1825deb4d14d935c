"""What the commands share: where they print, their options, and how they find what was asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from coda_lib.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from coda_lib.run import Run
    from coda_lib.task import Task

out, err = Console(highlight=False), Console(stderr=True, highlight=False)

ProfileOption = Annotated[str, typer.Option(help="How large: smoke (minutes), laptop (under an hour), gpu or paper.")]
AppOption = Annotated[str | None, typer.Option("--app", help="One application: algebra, biochem, gis or astron (or spectra).")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for a script to read.")]
PlannerOption = Annotated[
    str | None,
    typer.Option(help="Planner checkpoint (path or hub name), or 'none': the executor alone. Default: the profile's."),
]
ExecutorOption = Annotated[
    str | None, typer.Option(help="Executor checkpoint (path or hub name). Default: the profile's.")
]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change the profile, e.g. specialize.steps=10.")
]
SeedOption = Annotated[int | None, typer.Option(help="Seed of the sampling. Default: the profile's.")]


def show(table: Table) -> None:
    """Print a table as wide as it is, however narrow the terminal: figures cut short would be of no use."""
    Console(width=max(out.width, Console(width=400).measure(table).maximum), highlight=False).print(table)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def run_of(name: str) -> Run:
    """The run of a name under results/, or of a folder anywhere, such as results/reference/laptop."""
    from coda_lib.run import Run

    run = Run(str(Path(name).resolve()) if Path(name).is_dir() else name)
    if not run.folder.is_dir():
        raise UserError(f"there is no run {name!r}: give a folder, or a name under results/")
    return run


def applications(name: str | None) -> tuple[str, ...]:
    """The application of this name, or without a name the four of CODA.  UserError for an unknown one."""
    from coda_lib.task import ALL_APPS, APPS

    if name is not None and name not in ALL_APPS:
        raise UserError(f"unknown application {name!r}: choose one of {', '.join(ALL_APPS)}")
    return APPS if name is None else (name,)


def tasks_of(name: str, split: str) -> list[Task]:
    from coda_lib.envs.sciencedesk.env import desk_class
    from coda_lib.explore import train_pool
    from coda_lib.task import test_tasks

    if split not in ("test", "train"):
        raise UserError(f"unknown split {split!r}: choose test or train")
    return test_tasks(name) if split == "test" else train_pool(name, desk_class(name).defaults)


def find_task(identity: str) -> Task:
    name, slash, _ = identity.partition("/")
    if not slash:
        raise UserError(f"{identity!r} is no task: write APP/TASK, for example algebra/A-01")
    (name,) = applications(name)
    known = {task.id: task for split in ("test", "train") for task in tasks_of(name, split)}
    if identity not in known:
        raise UserError(f"unknown task {identity!r}; `coda tasks list --app {name}` shows what there is")
    return known[identity]
