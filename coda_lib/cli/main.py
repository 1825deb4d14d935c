"""The `coda` command: every body is a few calls of the library, imported when it is needed, so that --help is quick.

Exit codes: 0 all is well, 1 a stage or a check failed, 2 something was asked for that does not exist, 130 stopped.
"""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from coda_lib.cli import apps as cli_apps
from coda_lib.cli import bench as cli_bench
from coda_lib.cli import estimate as cli_estimate
from coda_lib.cli import evaluate as cli_evaluate
from coda_lib.cli import fleet as cli_fleet
from coda_lib.cli import study as cli_science
from coda_lib.cli import tasks as cli_tasks
from coda_lib.cli.console import (
    ExecutorOption,
    JsonOption,
    PlannerOption,
    ProfileOption,
    SeedOption,
    SettingsOption,
    applications,
    err,
    find_task,
    out,
    print_json,
    run_of,
    show,
)
from coda_lib.cli.evaluate import chosen_agent
from coda_lib.errors import StageError, UserError

app = typer.Typer(
    help="Planner and executor agents for scientific software: reproduce the study, or look at its parts one by one.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def reproduce(
    profile: ProfileOption = "laptop",
    run: Annotated[
        str | None, typer.Option(help="Name of the folder under results/. Default: the profile's name.")
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Stages that may run side by side. Default: all cores.")
    ] = None,
    settings: SettingsOption = None,
    until: Annotated[
        str, typer.Option(metavar="STAGE", help="Stop after this stage, e.g. explore or specialize.")
    ] = "results",
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what this run has computed and start over.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which stages would be run.")] = False,
    cluster: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Run stages as jobs, e.g. profiles/slurm or profiles/kubernetes.")
    ] = None,
    notebooks: Annotated[Path | None, typer.Option(hidden=True, help="Folder of the notebooks.")] = None,
) -> None:
    """Run the study: explore, judge, train, evaluate, and write tables and figures.

    What is already computed and still up to date is kept: after an interruption, the same command goes on.
    """
    from coda_lib.config import load_profile
    from coda_lib.envs.sciencedesk.env import desk_class
    from coda_lib.paths import NOTEBOOKS, display
    from coda_lib.pipeline import drive as pipeline
    from coda_lib.pipeline.progress import clock
    from coda_lib.run import Run

    chosen = load_profile(profile, tuple(settings or ()))
    target, books = Run(run or profile), (notebooks or NOTEBOOKS).resolve()
    if dry_run:
        expected = pipeline.expected_seconds(target, chosen)
        for stage in pipeline.preview(target, chosen, until, books, fresh, cluster):
            out.print(
                f"{stage:34} {clock(expected[stage]) if stage in expected else ''}".rstrip(), markup=False
            )
        return
    desk_class("algebra")  # says now, not in the middle, what is missing where Qt cannot be loaded
    try:
        outcome = pipeline.reproduce(target, chosen, cores or pipeline.usable_cores(), until, fresh, out, books, cluster)
    except KeyboardInterrupt:
        err.print("stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    if target.table1.exists() and until == "results":
        out.print("\n" + target.table1.read_text(encoding="utf-8"), markup=False, soft_wrap=True)
    for path in outcome.files:
        out.print(display(path), markup=False, soft_wrap=True)
    done = f"done in {clock(outcome.wall_s)}" if outcome.stages else "all is up to date"
    out.print(f"{display(target.folder)}: {done}", markup=False, soft_wrap=True)


@app.command()
def episode(
    task: Annotated[str, typer.Argument(metavar="APP/TASK", help="For example algebra/A-01; see `coda tasks list`.")],
    planner: PlannerOption = None,
    executor: ExecutorOption = None,
    profile: ProfileOption = "laptop",
    seed: SeedOption = None,
    save: Annotated[Path | None, typer.Option(metavar="PNG", help="Write a picture of every step.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Play one task and show what was planned and done at each step."""
    from coda_lib.agent import action_text
    from coda_lib.config import load_profile
    from coda_lib.envs.sciencedesk.env import ScienceDesk
    from coda_lib.rollout import rollout

    settings, wanted = load_profile(profile), find_task(task)
    agent = chosen_agent(settings, planner, executor)
    used = settings.seed if seed is None else seed
    (played,) = rollout(agent, [(wanted, 0)], lambda: ScienceDesk(wanted.app), used, step_limit=settings.step_limit)
    steps = [
        {"plan": step.plan, "action": action_text(step.actions, step.image.size), "error": step.error}
        for step in played.steps
    ]
    if as_json:
        print_json(
            {"task": wanted.id, "seed": used, "stop": str(played.stop), "success": played.success, "steps": steps}
        )
    else:
        out.print(f"{wanted.id}: {wanted.instruction}", markup=False)
        for number, step in enumerate(steps, 1):
            out.print(f"{number:3} {step['plan']}\n    → {step['error'] or step['action']}", markup=False)
        outcome = (
            "solved" if played.success else f"not solved; the answer was {wanted.ans}" if wanted.ans else "not solved"
        )
        out.print(f"ended with {played.stop}: {outcome}", markup=False)
    if save:
        from coda_lib.files import atomic_path
        from coda_lib.show.pictures import strip

        with atomic_path(save) as temporary:
            strip(played).savefig(temporary, format="png")
        err.print(f"wrote {save}", markup=False)


@app.command()
def desk(
    app_name: Annotated[str, typer.Argument(metavar="APP", help="algebra, biochem, gis, astron or spectra")],
    task: Annotated[
        str | None, typer.Option(help="Start in the first state of this task and say when it is solved.")
    ] = None,
) -> None:
    """Open one of the ScienceDesk applications as a window, to use it by hand."""
    (name,), wanted = applications(app_name), find_task(task) if task else None
    if wanted and wanted.app != name:
        raise UserError(f"task {wanted.id} is for {wanted.app}, not {name}")
    from coda_lib.envs.sciencedesk.env import ScienceDesk

    env = ScienceDesk(name, visible=True)
    from coda_lib.envs.sciencedesk.desk import application
    from coda_lib.trajectory import StopReason

    if application().platformName() == "offscreen":
        raise UserError("there is no display to open a window on; `coda episode` plays a task without one")
    if wanted:
        env.reset(wanted)
        out.print(f"{wanted.id}: {wanted.instruction}\nclose the window when it is done", markup=False)
    application().exec()
    if wanted:
        out.print("solved" if env.check(StopReason.DONE) else "the goal is not reached")


@app.command()
def serve(
    role: Annotated[str, typer.Argument(help="planner, executor, judge, generator …: which of the profile's models.")],
    profile: ProfileOption = "laptop",
    checkpoint: Annotated[str | None, typer.Option(help="Path or hub name. Default: the profile's.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens, on this machine alone.")] = 8000,
) -> None:
    """Serve a model with OpenAI's chat API until Ctrl-C: by vLLM where there is a GPU, by transformers elsewhere."""
    from coda_lib.config import Models, load_profile
    from coda_lib.models.server import served
    from coda_lib.paths import require_checkpoint

    if role not in Models.model_fields:
        raise UserError(f"unknown role {role!r}: choose one of {', '.join(Models.model_fields)}")
    given = checkpoint or getattr(load_profile(profile).models, role)
    if given is None:
        raise UserError(f"profile {profile} names no {role}: give one with --checkpoint")
    path = require_checkpoint(role, str(Path(given).resolve()) if Path(given).exists() else given)
    with served(path, port) as server:
        out.print(f"{role}: {server.model.url} (by {server.engine}), model {path}\nCtrl-C ends it", markup=False, soft_wrap=True)
        server.wait()


@app.command()
def usage(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name under results/, or a folder.")],
    as_json: JsonOption = False,
) -> None:
    """Say what the served models of a run were asked, stage by stage, and what that costs at the profile's prices."""
    import pandas as pd

    from coda_lib.models.load import usage_table
    from coda_lib.paths import display

    here = run_of(run)
    found = usage_table(here)
    if as_json:
        print_json(found.to_dict("records"))
        return
    if found.empty:
        raise UserError(f"no model of {display(here.folder)} was served: see `serving` in the profile")
    table = Table("stage", "model", "requests", "tokens read", "written", "cost", box=None, pad_edge=False)
    for row in [*found.to_dict("records"), {"stage": "together", "role": "", **found.sum(numeric_only=True, min_count=1)}]:
        counts = [f"{row[name]:,.0f}" for name in ("requests", "prompt_tokens", "completion_tokens")]
        table.add_row(row["stage"], row["role"], *counts, "" if pd.isna(row.get("cost")) else f"{row['cost']:.2f}")
    show(table)


app.command()(cli_bench.bench)
app.command()(cli_evaluate.evaluate)
app.command()(cli_estimate.estimate)
app.command()(cli_tasks.convert)
app.command()(cli_science.audit)
app.command()(cli_science.claims)
app.command()(cli_science.power)
app.command()(cli_science.seeds)
app.add_typer(cli_tasks.tasks_app, name="tasks")
app.add_typer(cli_apps.apps_app, name="apps")
app.add_typer(cli_science.judge_app, name="judge")
app.add_typer(cli_fleet.fleet_app, name="fleet")


def main() -> None:
    """Run the command; what is the user's to fix, or a stage's failure, is one message without a traceback."""
    try:
        app()
    except UserError as error:
        _fail(error, 2)
    except StageError as error:
        _fail(error, 1)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _fail(f"the disk is full ({error.filename or 'results/'}): free some space and start the same command again", 1)


def _fail(message: object, code: int) -> None:
    err.print(f"error: {message}", markup=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
