"""The command `coda evaluate`."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option

from coda_lib.errors import UserError
from coda_study.cli.console import (
    applications,
    bars,
    local_checkpoint,
    print_json,
    print_message,
    print_text,
    show,
)
from coda_study.cli.options import (
    AppOption,
    JsonOption,
    PlannerOption,
    ProfileOption,
    SeedOption,
    SettingsOption,
    save_option,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.progress import Progress

    from coda_lib.agent import Agent
    from coda_lib.config import Profile
    from coda_study.fleet.tasksets import TaskSet


def evaluate(
    planner: PlannerOption = None,
    app_name: AppOption = None,
    profile: ProfileOption = "laptop",
    runs: Annotated[int | None, Option(min=1, help="k: runs of each task. Default: the profile's.")] = None,
    tasks: Annotated[
        Path | None, Option(metavar="FILE", help="Tasks of `coda tasks draw`. Default: the test tasks.")
    ] = None,
    first: Annotated[
        int | None, Option(min=1, metavar="N", help="Only the first N tasks of an application.")
    ] = None,
    seed: SeedOption = None,
    system: Annotated[
        str | None,
        Option(
            "--as",
            metavar="SYSTEM",
            help="Sample with the seeds of stage `evaluate` for base, executor, stage1 or stage2: with the "
            "seed of a run, its planner plays its episodes again.",
        ),
    ] = None,
    on: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Play ScienceBoard's task files in this folder on local applications."),
    ] = None,
    machines: Annotated[
        Path | None, Option(metavar="YAML", help="Play the files of --on in these virtual machines.")
    ] = None,
    leave_out: Annotated[
        bool, Option(help="Leave out task files of --on that cannot be read, and say which.")
    ] = False,
    workers: Annotated[
        int | None,
        Option(min=1, help="Processes of a fleet that plays the episodes. Default: the profile's."),
    ] = None,
    ray: Annotated[
        str | None, Option(metavar="ADDRESS", help="Ray cluster of the fleet's workers ('auto', 'local').")
    ] = None,
    keep: Annotated[
        Path | None, Option(metavar="FOLDER", help="Where a fleet saves its episodes, to resume.")
    ] = None,
    settings: SettingsOption = None,
    save: Annotated[Path | None, save_option("PARQUET", "Write one row an episode.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a planner with the frozen executor: Average@k and Pass@k with 95 % intervals.

    A task with an episode that the environment broke is left out of the table and named, and the command ends
    with status 1.
    """
    import pandas as pd

    from coda_lib.agent import models_of, resize_rule_of
    from coda_lib.config import SYSTEMS, load_profile
    from coda_lib.files import locked, safe_name, write_table
    from coda_lib.paths import RESULTS
    from coda_study.fleet.collect import Collection
    from coda_study.fleet.sources import board_sets
    from coda_study.usage import odd_replies
    from sciencedesk.sets import check_split

    chosen = load_profile(profile, tuple(settings or ()))
    fleet = chosen.fleet.model_copy(update=_given(workers=workers, ray=ray or None))
    chosen = chosen.model_copy(update=_given(seed=seed, evaluation_runs=runs, fleet=fleet))
    exclusive = "--tasks are tasks of a task space, and --on is a folder of other ones: give one of them"
    alone = not fleet.workers
    conflicts = (
        (tasks and on, exclusive),
        (machines and not on, "--machines needs --on, the folder of the task files"),
        (ray and alone, "--ray needs --workers, their number"),
        (system and on, "--as is for the tasks of a study, not for those of --on"),
        (system and system not in SYSTEMS, f"--as {system}: choose one of {', '.join(SYSTEMS)}"),
        (keep and alone, "--keep needs --workers: only a fleet saves its episodes while it plays"),
    )
    for conflict, message in conflicts:
        if conflict:
            raise UserError(message)
    limit = first or (None if tasks else chosen.test_tasks)
    if on:
        sets = board_sets(on, machines, limit, print_message if leave_out else None)
    else:
        sets = _space_sets(chosen, app_name, tasks, limit)
    agent = chosen_agent(chosen, planner)
    if not on and planner != "none":
        for task_set in sets:
            checkpoint = Path(local_checkpoint("planner", planner or chosen.models.planner))
            if (warning := check_split(checkpoint, task_set.name)) and tasks:
                print_message(warning)
    # applications with threads have a screen of their own size
    sets = [task_set.fitted(resize_rule_of(agent)) if task_set.threads else task_set for task_set in sets]
    home = keep or RESULTS / "fleet"
    folders = [home / safe_name(task_set.name) for task_set in sets] if fleet.workers else []
    with ExitStack() as stack:
        # until the results are printed: no other call takes these episodes for its own, or deletes them
        for folder in folders:
            other = f"another `coda evaluate` keeps its episodes in {folder}"
            lock = folder.with_name(f".{folder.name}.lock")
            stack.enter_context(locked(lock, f"{other}: wait for it, or name a folder with --keep"))
        tables = []
        with bars() as progress:
            for task_set, folder in zip_longest(sets, folders):
                tables.append(_play(task_set, agent, chosen, system, folder, progress))
                if save:
                    write_table(save, pd.concat(tables))
        for role, model in models_of(agent).items():
            if odd := odd_replies(model):
                print_message(f"{role}: {odd}")
        _report(sets, tables, agent.name, chosen, as_json)
        for folder in () if keep else folders:
            Collection(folder).clear()


def _given(**options: Any) -> dict[str, Any]:
    """The options that are set."""
    return {name: value for name, value in options.items() if value is not None}


def _space_sets(profile: Profile, app: str | None, file: Path | None, limit: int | None) -> list[TaskSet]:
    """The tasks of a file of `coda tasks draw`, or the test tasks, of one application or of all."""
    from coda_study.fleet.sources import space_sets
    from sciencedesk.sets import read_set

    drawn = read_set(file) if file else None
    apps = profile.apps if drawn is None else tuple(dict.fromkeys(task.app for task in drawn))
    return space_sets(applications(app) if app else apps, limit, drawn)


def _play(
    task_set: TaskSet,
    agent: Agent,
    profile: Profile,
    system: str | None,
    folder: Path | None,
    progress: Progress,
) -> DataFrame:
    """A table of a task set's episodes, `evaluation_runs` of each task; a fleet keeps them in `folder`.

    With the seeds of a study for a system, if one is named.
    """
    from coda_lib.rollout import episodes
    from coda_study.draws import runs_of, stage_seed
    from coda_study.fleet.tasksets import play_tasks

    todo = runs_of(profile, task_set.tasks, profile.evaluation_runs, "test")
    bar = progress.add_task(task_set.name, total=len(todo))

    def on_progress(done: int, total: int) -> None:
        progress.update(bar, completed=done)

    seed = stage_seed(profile, "evaluate", system, task_set.name) if system else profile.seed
    how = (seed, profile.concurrency, profile.step_limit, profile.fleet, folder)
    played = play_tasks(task_set, agent, todo, *how, progress=on_progress, report=print_message)
    table = episodes(played, task_set.tasks, agent.name, profile.seed)
    return table.assign(edition=task_set.edition) if task_set.edition else table


def _report(
    sets: list[TaskSet], tables: list[DataFrame], planner: str, profile: Profile, as_json: bool
) -> None:
    """Print the results; exit code 1 if an environment broke."""
    k, played = profile.evaluation_runs, list(zip(sets, tables, strict=True))
    rows = [row for task_set, table in played for row in _measures(task_set, table, k)]
    broken = sorted({task for table in tables for task in _broken(table)})
    if as_json:
        about = {"planner": planner, "seed": profile.seed, "runs": k, "broken": broken}
        print_json(about | {"results": rows})
    else:
        cells = []
        for row in rows:
            tasks = f"{row['tasks']} of {row['of']}" if "of" in row else row["tasks"]
            value, low, high = (100 * row[name] for name in ("value", "low", "high"))
            cells.append((row["app"], row["metric"], tasks, f"{value:.1f} [{low:.1f}, {high:.1f}]"))
        show(("application", "metric", "tasks", "percent [95 % interval]"), cells)
        for task_set in (task_set for task_set in sets if task_set.edition):
            print_text(f"{task_set.name}: task files of {task_set.edition}")
    if broken:  # a fleet's folder stays, so that the next call goes on
        fleet = profile.fleet.workers
        again = "the same command plays their broken episodes again" if fleet else "play them again"
        fault = f"{len(broken)} tasks are not in the table, because an environment broke"
        print_message(f"{fault}: {', '.join(broken)}; {again}")
        raise Exit(1)


def _broken(table: DataFrame) -> list[str]:
    """The tasks with an episode without an outcome."""
    return sorted(table.loc[table["success"].isna(), "task_id"].unique())


def _measures(task_set: TaskSet, table: DataFrame, k: int) -> list[dict[str, Any]]:
    """Average@k and Pass@k of a task set, with intervals, on the tasks whose episodes have an outcome."""
    from coda_study.evaluation import statistics

    whole, counts = table[~table["task_id"].isin(_broken(table))], {}
    if whole.empty:
        return []
    if task_set.unreadable or len(whole) < len(table):
        counts = {"of": len(task_set.tasks) + task_set.unreadable, "unreadable": task_set.unreadable}
    matrix = statistics.success_matrix(whole)
    metrics = {"Average": statistics.task_average(matrix), "Pass": statistics.task_pass(matrix, k)}
    rows = []
    for metric, scores in metrics.items():
        estimate = statistics.mean_over_tasks([scores])
        interval = {name: getattr(estimate, name) for name in ("value", "low", "high")}
        about = {"app": task_set.name, "metric": f"{metric}@{k}", "tasks": len(matrix)}
        about |= {"edition": task_set.edition} if task_set.edition else {}
        rows.append(about | counts | interval)
    return rows


def chosen_agent(settings: Profile, planner: str | None) -> Agent:
    """The agent of a profile, with another planner where it is given; 'none' gives the executor alone."""
    from coda_lib.agent import load_agent

    executor = local_checkpoint("executor", settings.models.executor)
    given = settings.models.planner if planner is None else planner
    checkpoint = None if planner == "none" else local_checkpoint("planner", given)
    return load_agent(settings, planner or "base", checkpoint, executor)
