"""The commands `coda tasks ...`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from coda_lib.applications import ALL_APPS
from coda_lib.cli.console import AppOption, JsonOption, applications, err, out, print_json, show, tasks_of
from coda_lib.errors import UserError

tasks_app = typer.Typer(help="The tasks: list them, or prove that each can be solved.", no_args_is_help=True)


@tasks_app.command("list")
def tasks_list(
    app_name: AppOption = None,
    split: Annotated[str, typer.Option(help="test (held out) or train (explored).")] = "test",
    as_json: JsonOption = False,
) -> None:
    """List tasks with their step limit and instruction."""
    from dataclasses import asdict

    tasks = [task for name in applications(app_name) for task in tasks_of(name, split)]
    if as_json:
        print_json([asdict(task) for task in tasks])
        return
    table = Table("task", "grade", "steps", "instruction", box=None, pad_edge=False)
    for task in tasks:
        table.add_row(task.id, task.grade, str(task.steps), escape(task.instruction))
    out.print(table)
    out.print(f"{len(tasks)} {split} tasks")


@tasks_app.command("check")
def tasks_check(
    folder: Annotated[Path | None, typer.Argument(help="A folder of ScienceBoard's task files, to be read instead.")] = None,
    app_name: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prove the tasks: each is solved by its script, none by doing nothing, no test task is in the train pool.

    Without a name it checks spectra too, the application that no model is trained on.  Of a FOLDER it says which of its task
    files, in it or below it, can be read, and what is wrong with the others.
    """
    if folder:
        _check_folder(folder, as_json)
        return
    from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class

    desk_class("algebra")  # says what is missing where Qt cannot be loaded
    from coda_lib.envs.sciencedesk.script import idle, solve

    rows, problems = [], []
    for name in applications(app_name) if app_name else ALL_APPS:
        env, test = ScienceDesk(name), tasks_of(name, "test")
        for split, tasks in (("test", test), ("train", tasks_of(name, "train"))):
            solved, passed_idle = [], []
            for task in track(tasks, f"{name} {split}", console=err, transient=True):
                (solved if solve(env, task) else problems).append(task.id)
                passed_idle += [task.id] if idle(env, task) else []
            rows.append(
                {"app": name, "split": split, "tasks": len(tasks), "solved": len(solved), "idle": len(passed_idle)}
            )
            problems += passed_idle
        train = [wanted for task in tasks_of(name, "train") for wanted in (task.instruction, task.goal)]
        problems += [task.id for task in test if {task.instruction, task.goal}.intersection(train)]
    if as_json:
        print_json({"splits": rows, "problems": problems})
    else:
        table = Table(
            "application", "split", "tasks", "solved by script", "solved by doing nothing", box=None, pad_edge=False
        )
        for row in rows:
            table.add_row(*(str(value) for value in row.values()))
        out.print(table)
        totals = [
            f"{sum(r['tasks'] for r in rows if r['split'] == split)} {split} tasks" for split in ("test", "train")
        ]
        out.print(
            f"{' and '.join(totals)}; {'no test task is in the train pool' if not problems else 'NOT all sound:'}"
        )
        out.print("\n".join(problems), markup=False, end="\n" if problems else "")
    if problems:
        raise typer.Exit(1)


def _check_folder(folder: Path, as_json: bool) -> None:
    from coda_lib.envs.scienceboard.files import BoardTask, load_board_task

    paths = sorted(folder.rglob("*.json"))
    if not paths:
        raise UserError(f"no task files in {folder}: expected ScienceBoard's, such as KAlgebra/A-01.json")
    tasks: dict[str, list[BoardTask]] = {}
    problems = []
    for path in paths:
        try:
            task = load_board_task(path)
            tasks.setdefault(task.type, []).append(task)
        except UserError as error:
            problems.append(str(error))
    checks = {app: Counter(item.type for task in some for item in task.evaluate) for app, some in sorted(tasks.items())}
    rows = [{"app": app, "tasks": len(tasks[app]), "checks": dict(sorted(kinds.items()))} for app, kinds in checks.items()]
    if as_json:
        print_json({"tasks": rows, "problems": problems})
    else:
        table = Table("application", "tasks", "what they check", box=None, pad_edge=False)
        for row in rows:
            table.add_row(row["app"], str(row["tasks"]), ", ".join(f"{kind} {count}" for kind, count in row["checks"].items()))
        show(table)
        out.print(f"{len(paths) - len(problems)} of {len(paths)} task files can be read")
        out.print("\n".join(problems), markup=False, soft_wrap=True, end="\n" if problems else "")
    if problems:
        raise typer.Exit(1)


def convert(
    source: Annotated[Path, typer.Argument(help="A Parquet file of ours, or a folder in another format, which is recognized.")],
    target: Annotated[Path, typer.Argument(help="What to write: a folder, or with --to coda a Parquet file.")],
    to: Annotated[str, typer.Option(help="scienceboard, osworld, agentrewardbench or coda.")],
) -> None:
    """Write trajectories in another format: log folders of ScienceBoard or OSWorld, files of AgentRewardBench, or ours."""
    from coda_lib.formats import convert as converted

    known, count = converted(source, target, to)
    out.print(f"{count} trajectories from {known} to {to}: {target}", markup=False, soft_wrap=True)
