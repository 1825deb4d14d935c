"""The commands `coda tasks`, `coda convert` and `coda export`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.progress import track
from typer import Argument, Exit, Option, Typer

from coda_lib.applications import ALL_APPS
from coda_lib.errors import UserError
from coda_lib.files import require_new
from coda_study.cli.console import applications, err, out, print_json, print_message, print_text, run_of, show
from coda_study.cli.options import LAST_SEED, AppOption, JsonOption, RunArgument, save_option

if TYPE_CHECKING:
    from coda_lib.environment import Environment
    from coda_lib.task import Task

tasks_app = Typer(help="The tasks: list them, or prove that each can be solved.", no_args_is_help=True)


@tasks_app.command("list")
def tasks_list(app_name: AppOption = None, as_json: JsonOption = False) -> None:
    """List the test tasks with their step limit and instruction."""
    from coda_lib.task import test_tasks

    tasks = [task for name in applications(app_name) for task in test_tasks(name)]
    if as_json:
        print_json([asdict(task) for task in tasks])
    else:
        _show_tasks(tasks)
        out.print(f"{len(tasks)} test tasks")


def _show_tasks(tasks: Sequence[Task]) -> None:
    rows = ((task.id, task.grade, task.steps, task.instruction) for task in tasks)
    show(("task", "grade", "steps", "instruction"), rows)


@tasks_app.command("draw")
def tasks_draw(
    region: Annotated[str, Option(help="train, development or test, which share no goal.")],
    count: Annotated[int, Option(min=1, help="Tasks of each application.")],
    seed: Annotated[int, Option(min=0, max=LAST_SEED, help="The same seed draws the same tasks.")],
    save: Annotated[Path | None, save_option("FILE", "Write them for `coda evaluate --tasks`.")] = None,
    app_name: AppOption = None,
) -> None:
    """Draw tasks from the task space: values, wordings, starts and combinations that no other region has."""
    from sciencedesk.make import defaults
    from sciencedesk.space import draw, space, write_set

    names = applications(app_name)
    tasks = [task for name in names for task in draw(space(name), region, count, seed, defaults(name))]
    if save is None:
        _show_tasks(tasks)
    else:
        write_set(save, region, seed, tasks)
        print_text(f"{save}: {len(tasks)} tasks of the {region} region, seed {seed}")


@tasks_app.command("check")
def tasks_check(
    folder: Annotated[Path | None, Argument(help="A folder of ScienceBoard's task files, instead.")] = None,
    app_name: AppOption = None,
    count: Annotated[int, Option(min=1, help="Tasks drawn from each region of a task space.")] = 40,
    as_json: JsonOption = False,
) -> None:
    """Prove the test tasks, and some drawn from each region of the task spaces: solved by the script, not by
    doing nothing.

    Without --app, all applications are checked, also those that no model is trained on.  With a folder, the
    command says which task files in it and below it can be read, and what is wrong with the others.
    """
    if folder:
        _check_folder(folder, as_json)
        return
    from coda_lib.task import test_tasks
    from sciencedesk.make import defaults
    from sciencedesk.space import REGIONS, draw, has_space, space

    defaults("algebra")  # UserError if Qt cannot be loaded
    rows, problems = [], []
    for name in applications(app_name) if app_name else ALL_APPS:
        rows.append(_prove(name, "test", test_tasks(name), problems))
        for region in REGIONS if has_space(name) else ():
            drawn = draw(space(name), region, count, 0, defaults(name))
            rows.append(_prove(name, f"drawn {region}", drawn, problems))
    if as_json:
        print_json({"splits": rows, "problems": problems})
    else:
        columns = ("application", "split", "tasks", "solved by script", "solved by doing nothing")
        show(columns, (row.values() for row in rows))
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row["split"]] += row["tasks"]
        totals = " and ".join(f"{number} {split} tasks" for split, number in counts.items())
        out.print(f"{totals}; {'problems:' if problems else 'each is solved by its script alone'}")
    _end(problems, as_json)


def _prove(app: str, split: str, tasks: Sequence[Task], problems: list[str]) -> dict[str, Any]:
    """Play each task by its script, and doing nothing: a row of counts.  Adds what is wrong to `problems`."""
    from sciencedesk import script
    from sciencedesk.make import environment

    env, faults, idle = environment(app), [], []
    for task in track(tasks, f"{app} {split}", console=err, transient=True):
        if fault := _fault(env, task):
            faults.append(f"{task.id}: {fault}")
        if script.idle(env, task):
            idle.append(f"{task.id}: solved by doing nothing")
    env.close()
    problems += faults + idle
    solved = len(tasks) - len(faults)
    return {"app": app, "split": split, "tasks": len(tasks), "solved": solved, "idle": len(idle)}


def _end(problems: list[str], as_json: bool) -> None:
    """List problems; exit code 1 if there are any."""
    if problems:
        if not as_json:
            print_text("\n".join(problems))
        raise Exit(1)


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
        cells = []
        for row in rows:
            kinds = ", ".join(f"{kind} {count}" for kind, count in row["checks"].items())
            cells.append((row["app"], row["tasks"], kinds))
        show(("application", "tasks", "checks"), cells)
        out.print(f"{len(paths) - len(problems)} of {len(paths)} task files can be read")
    _end(problems, as_json)


def convert(
    source: Annotated[Path, Argument(help="A Parquet file of ours, or a folder in another format.")],
    target: Annotated[Path, Argument(help="A folder, or a file: --to coda Parquet, --to inspect .eval.")],
    to: Annotated[str, Option(help="scienceboard, osworld, agentrewardbench, inspect or coda.")],
) -> None:
    """Write trajectories in another format: of ScienceBoard, OSWorld, AgentRewardBench or Inspect (a log), or
    ours.

    AgentNet's demonstrations, a folder of JSON Lines and images, can be read too.
    """
    from coda_study.formats import convert as converted

    known, count = converted(source, target, to, print_message)
    print_text(f"{count} trajectories from {known} to {to}: {target}")


def export(
    run_name: RunArgument, folder: Annotated[Path, Argument(help="A new folder.", callback=require_new)]
) -> None:
    """Write a run's judged trajectories, tasks and planners as a data set and models; nothing is sent."""
    from coda_study.formats.export import export as exported

    for name, count in exported(run_of(run_name), folder).items():
        print_text(name if name.startswith("model") else f"{count} {name}")
    print_text(folder)
