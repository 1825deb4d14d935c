"""The commands `coda tasks`, `coda convert` and `coda export`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.progress import Progress, track
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
    from sciencedesk.sets import write_set
    from sciencedesk.space import draw, space

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
    perturbed: Annotated[int, Option(min=0, help="Perturbed runs of each task that are proved as well.")] = 0,
    mutants: Annotated[
        int | None, Option(min=1, help="Instead, try so many nearly right scripts an application.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Prove the test tasks, and some drawn from each region of the task spaces: solved by the script, not by
    doing nothing.

    Without --app, all applications are checked, also those that no model is trained on.  With a folder, the
    command says which task files in it and below it can be read, what is wrong with the others, of which
    edition of ScienceBoard they are, and which keys of that edition are wrong.  With --mutants the
    tasks are named whose checks pass a script that is nearly right.
    """
    if folder:
        _check_folder(folder, as_json)
        return
    if mutants:
        _check_mutants([app_name] if app_name else list(ALL_APPS), mutants, as_json)
        return
    from coda_lib.task import test_tasks
    from sciencedesk.make import defaults
    from sciencedesk.space import REGIONS, draw, has_space, space

    defaults("algebra")  # UserError if Qt cannot be loaded
    rows, problems = [], []
    for name in applications(app_name) if app_name else ALL_APPS:
        rows.append(_prove(name, "test", "test", test_tasks(name), perturbed, problems))
        for region in REGIONS if has_space(name) else ():
            drawn = draw(space(name), region, count, 0, defaults(name))
            rows.append(_prove(name, region, f"drawn {region}", drawn, perturbed, problems))
    if as_json:
        print_json({"splits": rows, "problems": problems})
    else:
        columns = ("application", "split", "tasks", "starts", "solved by script", "solved by doing nothing")
        show(columns, (row.values() for row in rows))
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row["split"]] += row["tasks"]
        totals = " and ".join(f"{number} {split} tasks" for split, number in counts.items())
        out.print(f"{totals}; {'problems:' if problems else 'each is solved by its script alone'}")
    _end(problems, as_json)


def _prove(
    app: str, region: str, split: str, tasks: Sequence[Task], runs: int, problems: list[str]
) -> dict[str, Any]:
    """Play each task by its script, and doing nothing: a row of counts.  Adds what is wrong to `problems`."""
    from sciencedesk import script
    from sciencedesk.make import environment
    from sciencedesk.perturb import perturbed

    env, faults, idle = environment(app), [], []
    for task in track(tasks, f"{app} {split}", console=err, transient=True):
        for run, start in enumerate([task, *(perturbed(task, run, region) for run in range(runs))]):
            name = f"{task.id}, run {run - 1} ({start.settings}, {dict(start.view)})" if run else task.id
            if fault := _fault(env, start):
                faults.append(f"{name}: {fault}")
            if script.idle(env, start):
                idle.append(f"{name}: solved by doing nothing")
    env.close()
    problems += faults + idle
    starts = len(tasks) * (1 + runs)
    counts = {"tasks": len(tasks), "starts": starts, "solved": starts - len(faults), "idle": len(idle)}
    return {"app": app, "split": split} | counts


def _check_mutants(apps: Sequence[str], count: int, as_json: bool) -> None:
    """Try at least `count` mutants of each application's committed and drawn tasks: all, without a space."""
    from sciencedesk.make import environment
    from sciencedesk.mutants import SAME, SEEN, survivors, tasks_and_aims

    kinds = {"same state": SAME, "right answer": SEEN, "unexplained": None}

    rows, problems = [], []
    for app in apps:
        env, tried, reasons = environment(app), 0, Counter()
        with Progress(console=err, transient=True) as progress:
            bar = progress.add_task(f"{app} mutants", total=count)
            for parts, task in tasks_and_aims(app):
                number, passed = survivors(env, task, parts)
                tried += number
                reasons.update(survivor.reason for survivor in passed)
                problems += [
                    f"{task.id} passes {s.mutant.kind}, {s.mutant.change}; other: "
                    f"{', '.join(sorted(s.differs))}"
                    for s in passed
                    if s.reason is None
                ]
                progress.update(bar, completed=tried)
                if tried >= count:
                    break
        env.close()
        counts = {name: reasons.pop(reason, 0) for name, reason in kinds.items()}
        counts["listed"] = reasons.total()
        failed = tried - sum(counts.values())
        rows.append({"application": app, "mutants": tried, "fail": failed, **counts})
    if as_json:
        print_json({"mutants": rows, "problems": problems})
    else:
        show(rows[0], (row.values() for row in rows))
    _end(problems, as_json)


def _end(problems: list[str], as_json: bool) -> None:
    """List problems; exit code 1 if there are any."""
    if problems:
        if not as_json:
            print_text("\n".join(problems))
        raise Exit(1)


def _fault(env: Environment, task: Task) -> str | None:
    """Why a task is not solved by its script within its limit of steps; None if it is."""
    from coda_lib.environment import EnvironmentFault
    from sciencedesk import perturb, script

    if len(task.solution) >= task.steps:
        return f"its script has {len(task.solution)} steps, and then an end; the limit is {task.steps}"
    try:
        solve = perturb.solve if task.view else script.solve
        return None if solve(env, task) else "not solved by its script"
    except (script.ScriptError, EnvironmentFault) as error:
        return str(error)


def _check_folder(folder: Path, as_json: bool) -> None:
    """Which task files can be read, of which edition each folder is, and which keys are known to be wrong."""
    from sciencedesk.board.editions import NONE, files
    from sciencedesk.board.files import board_files, load_board_task

    rows, cells, problems, doubts = [], [], [], []
    paths = sorted(board_files(folder), key=lambda path: (path.parent, path.name))
    for place, group in groupby(paths, key=lambda path: path.parent):
        tasks, found = {}, files(here := list(group))
        for path in here:
            try:
                tasks[f"{place.name}/{path.stem}"] = load_board_task(path)
            except UserError as error:
                problems.append(str(error))
        app = ", ".join(sorted({task.type for task in tasks.values()})) or place.name
        checks = Counter(item.type for task in tasks.values() for item in task.evaluate)
        row = {"app": app, "tasks": len(tasks), "of": len(here), "checks": dict(sorted(checks.items()))}
        rows.append(row | {"edition": found.edition, "sha256": found.digest})
        kinds = ", ".join(f"{kind} {count}" for kind, count in row["checks"].items())
        cells.append((app, str(found), f"{len(tasks)} of {len(here)}", kinds))
        if found.edition != NONE:
            from sciencedesk.board.keys import doubt  # SymPy takes a second

            edition = found.edition.split()[0]
            said = {name: doubt(edition, name, task) for name, task in tasks.items()}
            doubts += [f"{edition} {name}: {fault}" for name, fault in said.items() if fault]
    if as_json:
        print_json({"tasks": rows, "doubtful keys": doubts, "problems": problems})
    else:
        show(("application", "edition, SHA-256", "read", "checks"), cells)
        out.print(f"{len(paths) - len(problems)} of {len(paths)} task files can be read")
        if doubts:
            print_text("\n".join(["keys that are wrong or doubtful (`coda audit`: how decided):", *doubts]))
    _end(problems, as_json)


def convert(
    source: Annotated[Path, Argument(help="A Parquet file of ours, or a folder in another format.")],
    target: Annotated[Path, Argument(help="A folder, or a file: --to coda Parquet, --to inspect .eval.")],
    to: Annotated[str, Option(help="scienceboard, osworld, agentrewardbench, inspect, messages or coda.")],
) -> None:
    """Write trajectories in another format: of ScienceBoard, OSWorld, AgentRewardBench or Inspect (a log),
    ours, or judged steps as chat messages with images (for LLaMA-Factory, ms-swift and TRL).

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
