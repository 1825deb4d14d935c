"""The commands `coda tasks`, `coda convert` and `coda export`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import track

from coda_lib.applications import ALL_APPS
from coda_lib.errors import UserError
from coda_lib.files import require_new
from coda_study.cli.console import (
    LAST_SEED,
    AppOption,
    JsonOption,
    RunArgument,
    applications,
    err,
    out,
    print_json,
    run_of,
    save_option,
    show,
)

if TYPE_CHECKING:
    from coda_lib.environment import Environment
    from coda_lib.task import Task

tasks_app = typer.Typer(help="The tasks: list them, or prove that each can be solved.", no_args_is_help=True)


@tasks_app.command("list")
def tasks_list(
    app_name: AppOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the test tasks with their step limit and instruction."""
    from coda_lib.task import test_tasks

    tasks = [task for name in applications(app_name) for task in test_tasks(name)]
    if as_json:
        print_json([asdict(task) for task in tasks])
        return
    show(
        ("task", "grade", "steps", "instruction"),
        ((task.id, task.grade, task.steps, task.instruction) for task in tasks),
    )
    out.print(f"{len(tasks)} test tasks")


@tasks_app.command("draw")
def tasks_draw(
    region: Annotated[
        str, typer.Option(help="train, development or test: regions of the task space share no goal.")
    ],
    count: Annotated[int, typer.Option(min=1, help="Tasks of each application.")],
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="The same seed draws the same tasks.")],
    save: Annotated[Path | None, save_option("FILE", "Write them for `coda evaluate --tasks`.")] = None,
    app_name: AppOption = None,
) -> None:
    """Draw tasks from the task space: other values, wordings, starts and combinations than any other region
    has.
    """
    from sciencedesk.make import defaults
    from sciencedesk.space import draw, space, write_set

    names = applications(app_name)
    tasks = [task for name in names for task in draw(space(name), region, count, seed, defaults(name))]
    if save is None:
        show(
            ("task", "grade", "steps", "instruction"),
            ((task.id, task.grade, task.steps, task.instruction) for task in tasks),
        )
        return
    write_set(save, region, seed, tasks)
    out.print(f"{save}: {len(tasks)} tasks of the {region} region, seed {seed}", markup=False, soft_wrap=True)


@tasks_app.command("check")
def tasks_check(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="A file of `coda tasks draw`, or a folder of ScienceBoard's task files, instead.",
        ),
    ] = None,
    app_name: AppOption = None,
    count: Annotated[int, typer.Option(min=1, help="Tasks drawn from each region of a task space.")] = 40,
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="The same seed draws the same tasks.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Prove the test tasks, and some drawn from each region of the task spaces: solved by the script, not by
    doing nothing.

    Without --app, all applications are checked, also those that no model is trained on.  With a file, its
    tasks are.  With a folder, the command says which task files in it and below it can be read, and what is
    wrong with the others.
    """
    if folder and not folder.is_file():
        _check_folder(folder, as_json)
        return
    from coda_lib.task import test_tasks
    from sciencedesk.make import defaults
    from sciencedesk.space import REGIONS, draw, has_space, read_set, space

    defaults("algebra")  # UserError if Qt cannot be loaded
    rows, problems = [], []
    if folder:
        drawn = read_set(folder)
        for name in dict.fromkeys(task.app for task in drawn):
            _prove(name, "drawn", [task for task in drawn if task.app == name], rows, problems)
    else:
        for name in applications(app_name) if app_name else ALL_APPS:
            _prove(name, "test", test_tasks(name), rows, problems)
            for region in REGIONS if has_space(name) else ():
                drawn = draw(space(name), region, count, seed, defaults(name))
                _prove(name, f"drawn {region}", drawn, rows, problems)
    if as_json:
        print_json({"splits": rows, "problems": problems})
    else:
        show(
            ("application", "split", "tasks", "solved by script", "solved by doing nothing"),
            (row.values() for row in rows),
        )
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row["split"]] += row["tasks"]
        totals = " and ".join(f"{number} {split} tasks" for split, number in counts.items())
        out.print(f"{totals}; {'problems:' if problems else 'each is solved by its script alone'}")
    _end(problems, as_json)


def _prove(app: str, split: str, tasks: list[Task], rows: list[dict[str, Any]], problems: list[str]) -> None:
    """Play each task by its script, and doing nothing; one more row, and what is wrong among the problems."""
    from sciencedesk import script
    from sciencedesk.make import environment

    env, faults, idle = environment(app), {}, []
    for task in track(tasks, f"{app} {split}", console=err, transient=True):
        if fault := _fault(env, task):
            faults[task.id] = fault
        if script.idle(env, task):
            idle.append(task.id)
    env.close()
    rows.append(
        {
            "app": app,
            "split": split,
            "tasks": len(tasks),
            "solved": len(tasks) - len(faults),
            "idle": len(idle),
        }
    )
    problems += [f"{identity}: {fault}" for identity, fault in faults.items()]
    problems += [f"{identity}: solved by doing nothing" for identity in idle]


def _end(problems: list[str], as_json: bool) -> None:
    """List problems; exit code 1 if there are any."""
    if problems:
        if not as_json:
            out.print("\n".join(problems), markup=False, soft_wrap=True)
        raise typer.Exit(1)


def _fault(env: Environment, task: Task) -> str | None:
    """Why a task is not solved by its script within its limit of steps; None if it is."""
    from coda_lib.environment import EnvironmentFault
    from sciencedesk import script

    if len(task.solution) >= task.steps:
        return f"its script has {len(task.solution)} steps, and then an end; the limit is {task.steps}"
    try:
        return None if script.solve(env, task) else "not solved by its script"
    except (script.ScriptError, EnvironmentFault) as error:
        return str(error)


def _check_folder(folder: Path, as_json: bool) -> None:
    from sciencedesk.board.files import board_files, load_board_task

    paths = board_files(folder)
    checks: dict[str, list[Counter]] = {}
    problems = []
    for path in paths:
        try:
            task = load_board_task(path)
            checks.setdefault(task.type, []).append(Counter(item.type for item in task.evaluate))
        except UserError as error:
            problems.append(str(error))
    rows = [
        {"app": app, "tasks": len(counts), "checks": dict(sorted(sum(counts, Counter()).items()))}
        for app, counts in sorted(checks.items())
    ]
    if as_json:
        print_json({"tasks": rows, "problems": problems})
    else:
        cells = [
            (r["app"], r["tasks"], ", ".join(f"{kind} {count}" for kind, count in r["checks"].items()))
            for r in rows
        ]
        show(("application", "tasks", "checks"), cells)
        out.print(f"{len(paths) - len(problems)} of {len(paths)} task files can be read")
    _end(problems, as_json)


def convert(
    source: Annotated[
        Path,
        typer.Argument(help="A Parquet file of ours, or a folder in another format, which is recognized."),
    ],
    target: Annotated[
        Path,
        typer.Argument(help="What to write: a folder, or a file: --to coda Parquet, --to inspect .eval."),
    ],
    to: Annotated[str, typer.Option(help="scienceboard, osworld, agentrewardbench, inspect or coda.")],
) -> None:
    """Write trajectories in another format: of ScienceBoard, OSWorld, AgentRewardBench or Inspect (a log), or
    ours.

    AgentNet's demonstrations, a folder of JSON Lines and images, can be read too.
    """
    from coda_study.formats import convert as converted

    known, count = converted(source, target, to, lambda line: err.print(line, markup=False, soft_wrap=True))
    out.print(f"{count} trajectories from {known} to {to}: {target}", markup=False, soft_wrap=True)


def export(
    run: RunArgument,
    folder: Annotated[Path, typer.Argument(help="A new folder.", callback=require_new)],
) -> None:
    """Write a run's judged trajectories, tasks and planners as a data set and model folders with cards;
    nothing is sent.
    """
    from coda_study.formats.export import export as exported

    for name, count in exported(run_of(run), folder).items():
        out.print(f"{count} {name}" if not name.startswith("model") else name, markup=False)
    out.print(f"{folder}", markup=False, soft_wrap=True)
