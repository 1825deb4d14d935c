"""The command `coda evaluate`."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from coda_lib.errors import UserError
from coda_study.cli.console import (
    AppOption,
    ExecutorOption,
    JsonOption,
    PlannerOption,
    ProfileOption,
    SeedOption,
    SettingsOption,
    applications,
    err,
    local_checkpoint,
    print_json,
    save_option,
    show,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from coda_lib.agent import Agent
    from coda_lib.config import Profile
    from coda_study.fleet.tasksets import TaskSet


def evaluate(
    planner: PlannerOption = None,
    app_name: AppOption = None,
    executor: ExecutorOption = None,
    profile: ProfileOption = "laptop",
    runs: Annotated[
        int | None, typer.Option(min=1, help="k: runs of each task. Default: the profile's.")
    ] = None,
    tasks: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Tasks of `coda tasks draw`. Default: the test tasks of data/tasks/test."
        ),
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the first N tasks of an application.")
    ] = None,
    seed: SeedOption = None,
    on: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Play ScienceBoard's task files in this folder on local applications."
        ),
    ] = None,
    machines: Annotated[
        Path | None, typer.Option(metavar="YAML", help="Play the files of --on in these virtual machines.")
    ] = None,
    leave_out: Annotated[
        bool, typer.Option(help="Leave out task files of --on that cannot be read, and say which.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes of a fleet that plays the episodes. Default: the profile's."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Ray cluster of the fleet's workers ('auto', 'local')."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where a fleet saves its episodes and resumes. Default: until it ends."
        ),
    ] = None,
    settings: SettingsOption = None,
    save: Annotated[Path | None, save_option("PARQUET", "Write one row an episode.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a planner with the frozen executor: Average@k and Pass@k with 95 % intervals, in ScienceDesk or
    in real applications.

    A task with an episode that the environment broke is left out of the table and named, and the command ends
    with status 1.
    """
    import pandas as pd

    from coda_lib.agent import resize_rule_of
    from coda_lib.config import load_profile
    from coda_lib.files import locked, safe_name, write_table
    from coda_lib.paths import RESULTS
    from coda_lib.rollout import episodes, jobs
    from coda_study.fleet.collect import Collection
    from coda_study.fleet.sources import board_sets, space_sets
    from coda_study.fleet.tasksets import play_tasks
    from sciencedesk.space import check_split, read_set

    chosen = load_profile(profile, tuple(settings or ()))
    fleet = chosen.fleet.model_copy(
        update={name: value for name, value in (("workers", workers), ("ray", ray)) if value}
    )
    k, limit = runs or chosen.evaluation_runs, first or (None if tasks else chosen.test_tasks)
    seed = chosen.seed if seed is None else seed
    if tasks and on:
        raise UserError(
            "--tasks are tasks of a task space, and --on is a folder of other ones: give one of them"
        )
    if machines and not on:
        raise UserError("--machines needs --on, the folder of the task files")
    if ray and not fleet.workers:
        raise UserError("--ray needs --workers, their number")
    if keep and not fleet.workers:
        raise UserError("--keep needs --workers: only a fleet saves its episodes while it plays")
    if on:
        sets = board_sets(on, machines, limit, _tell if leave_out else None)
    else:
        drawn = read_set(tasks) if tasks else None
        apps = chosen.apps if drawn is None else tuple(dict.fromkeys(task.app for task in drawn))
        sets = space_sets(applications(app_name) if app_name else apps, limit, drawn)
    agent = chosen_agent(chosen, planner, executor)
    if not on and planner != "none":
        for task_set in sets:
            check_split(Path(local_checkpoint("planner", planner or chosen.models.planner)), task_set.name)
    sets = [
        each.fitted(resize_rule_of(agent)) if each.threads else each for each in sets
    ]  # threads: a screen of its own size
    folders = (
        [(keep or RESULTS / "fleet") / safe_name(task_set.name) for task_set in sets] if fleet.workers else []
    )
    with ExitStack() as stack:
        for folder in (
            folders
        ):  # until the results are printed: no other call takes these episodes for its own, or deletes them
            refusal = f"another `coda evaluate` keeps its episodes in {folder}: wait for it, or name a folder with --keep"
            stack.enter_context(locked(folder.with_name(f".{folder.name}.lock"), refusal))
        tables = []
        with Progress(console=err, transient=True) as progress:
            for task_set, folder in zip_longest(sets, folders):
                bar = progress.add_task(task_set.name, total=len(task_set.tasks) * k)
                played = play_tasks(
                    task_set, agent, jobs(task_set.tasks, k), seed, chosen.concurrency, chosen.step_limit,
                    fleet, folder,
                    progress=lambda done, total, bar=bar: progress.update(bar, completed=done),
                    report=_tell,
                )  # fmt: skip
                tables.append(episodes(played, task_set.tasks, agent.name, seed))
                if save:
                    write_table(save, pd.concat(tables))
        rows = [
            row for task_set, table in zip(sets, tables, strict=True) for row in _measures(task_set, table, k)
        ]
        broken = sorted({task for table in tables for task in _broken(table)})
        _print(rows, {"planner": agent.name, "seed": seed, "runs": k, "broken": broken}, as_json)
        if broken:  # a fleet's folder stays, so that the next call goes on
            again = "the same command plays their broken episodes again" if folders else "play them again"
            _tell(
                f"{len(broken)} tasks are not in the table, because an environment broke: "
                f"{', '.join(broken)}; {again}"
            )
            raise typer.Exit(1)
        for folder in () if keep else folders:
            Collection(folder).clear()


def _tell(message: str) -> None:
    err.print(message, markup=False, soft_wrap=True)


def _broken(table: DataFrame) -> list[str]:
    """The tasks with an episode without an outcome."""
    return sorted(table.loc[table["success"].isna(), "task_id"].unique())


def _measures(task_set: TaskSet, table: DataFrame, k: int) -> list[dict[str, Any]]:
    """Average@k and Pass@k of a task set, with their intervals, on the tasks whose episodes have an outcome."""
    from coda_study.evaluation import statistics

    whole, counts = table[~table["task_id"].isin(_broken(table))], {}
    if whole.empty:
        return []
    if task_set.unreadable or len(whole) < len(table):
        counts = {"of": len(task_set.tasks) + task_set.unreadable, "unreadable": task_set.unreadable}
    rows, matrix = [], statistics.success_matrix(whole)
    for metric, scores in (
        ("Average", statistics.task_average(matrix)),
        ("Pass", statistics.task_pass(matrix, k)),
    ):
        estimate = statistics.mean_over_tasks([scores])
        rows.append({"app": task_set.name, "metric": f"{metric}@{k}", "tasks": len(matrix), **counts,
                     "value": estimate.value, "low": estimate.low, "high": estimate.high})  # fmt: skip
    return rows


def _print(rows: list[dict[str, Any]], about: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(about | {"results": rows})
        return
    for row in rows:
        row["tasks"] = f"{row['tasks']} of {row['of']}" if "of" in row else row["tasks"]
        row["percent"] = "{:.1f} [{:.1f}, {:.1f}]".format(
            *(100 * row[name] for name in ("value", "low", "high"))
        )
    columns = ("app", "metric", "tasks", "percent")
    show(
        ("application", "metric", "tasks", "percent [95 % interval]"),
        ([row[name] for name in columns] for row in rows),
    )


def chosen_agent(settings: Profile, planner: str | None, executor: str | None) -> Agent:
    """The agent of a profile, with other checkpoints where they are given; planner 'none' gives the executor
    alone.
    """
    from coda_lib.agent import load_agent

    acting = local_checkpoint("executor", settings.models.executor if executor is None else executor)
    given = settings.models.planner if planner is None else planner
    return load_agent(
        settings, planner or "base", None if planner == "none" else local_checkpoint("planner", given), acting
    )
