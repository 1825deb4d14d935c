"""The `coda` command.  Its functions import the library when they are called, so that --help is quick.

Exit codes: 0 success, 1 a stage or a check failed, 2 an unknown or invalid argument, 70 a bug, 130 stopped by
Ctrl+C.
"""

from __future__ import annotations

import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Exit, Option, Typer
from typer.core import TyperCommand

from coda_lib.errors import UserError, expected, one_line
from coda_study.cli import apps, check, estimate, evaluate, fleet, play, study, tasks
from coda_study.cli import view as viewer
from coda_study.cli.caches import settle_caches
from coda_study.cli.console import local_checkpoint, out, print_json, print_message, print_text, run_of, show
from coda_study.cli.options import JsonOption, ProfileOption, RunArgument, SettingsOption

if TYPE_CHECKING:
    from coda_study.pipeline.drive import Outcome
    from coda_study.run import Run

app = Typer(
    help="Planner and executor agents for scientific software: reproduce the study, or try its parts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class _ManySeeds(TyperCommand):
    """A command whose option --seeds takes all arguments up to the next option."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        joined: list[str] = []
        for argument in args:
            if joined[-2:-1] == ["--seeds"] and not argument.startswith("-"):
                joined[-1] += f" {argument}"
            else:
                joined.append(argument)
        return super().parse_args(ctx, joined)


@app.command(cls=_ManySeeds)
def reproduce(
    profile: ProfileOption = "laptop",
    run: Annotated[
        str | None, Option(help="Name of the folder under results/. Default: the profile's name.")
    ] = None,
    cores: Annotated[
        int | None, Option(min=1, help="Stages that may run in parallel. Default: all cores.")
    ] = None,
    settings: SettingsOption = None,
    seeds: Annotated[
        list[str] | None,
        Option(
            metavar="N...", help="Run once for each seed, e.g. --seeds 7 8 9, and write the tables over them."
        ),
    ] = None,
    until: Annotated[
        str, Option(metavar="STAGE", help="Stop after this stage, e.g. explore or specialize.")
    ] = "results",
    fresh: Annotated[
        bool, Option("--fresh", help="Delete what this run has computed and start over.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only list the stages that would run.")] = False,
    cluster: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Run stages as jobs, e.g. profiles/slurm or profiles/kubernetes."),
    ] = None,
    notebooks: Annotated[Path | None, Option(hidden=True, help="Folder of the notebooks.")] = None,
) -> None:
    """Run the study: explore, judge, train, evaluate, and write tables and figures.

    Stages that are up to date are not run again; after an interruption the same command resumes. With
    --seeds, the profile's own seed is run NAME, another seed N is NAME-seedN, and the first one explores for
    all.
    """
    from coda_lib.config import load_profile
    from coda_lib.paths import NOTEBOOKS, display
    from coda_study.pipeline import drive as pipeline
    from coda_study.pipeline.progress import clock
    from sciencedesk.env import desk_class

    chosen = load_profile(profile, tuple(settings or ()))
    numbers = _numbers(seeds, settings or ()) if seeds else [chosen.seed]
    runs = pipeline.runs_of_seeds(profile if run is None else run, chosen, numbers)
    books = (notebooks or NOTEBOOKS).resolve()
    if dry_run:
        for target, settled in runs.items():
            if seeds:
                print_text(f"{display(target.folder)}:")
            seconds = pipeline.expected_seconds(target, settled)
            for stage in pipeline.preview(target, settled, until, books, fresh, cluster):
                print_text(f"{stage:34} {clock(seconds[stage]) if stage in seconds else ''}".rstrip())
        return
    desk_class("algebra")  # UserError now, not in the middle of the run, if Qt cannot be loaded
    for target, settled in runs.items():
        try:
            outcome = pipeline.reproduce(
                target, settled, cores or pipeline.usable_cores(), until, fresh, out, books, cluster
            )
        except KeyboardInterrupt:
            print_message("stopped; the same command goes on from here")
            raise Exit(130) from None
        _show_outcome(target, outcome, until)
    if len(runs) > 1 and until in pipeline.REPORTED:
        from coda_study.evaluation.report import write_tables
        from coda_study.evaluation.tables import over_seeds

        home = next((target for target, settled in runs.items() if settled.seed == chosen.seed), [*runs][0])
        tables, title = over_seeds(list(runs))
        files = write_tables(home.seeds, tables["table1"], tables["comparisons"], title)
        _show_table(home.seeds / "table1.md", files)


def _show_outcome(run: Run, outcome: Outcome, until: str) -> None:
    """Print what a run has come to: its table and files, the time it took, and its report."""
    from coda_lib.paths import display
    from coda_study.pipeline.progress import clock

    if run.table1.exists() and until == "results":
        _show_table(run.table1, outcome.files)
    done = f"done in {clock(outcome.wall_s)}" if outcome.stages else "all is up to date"
    print_text(f"{display(run.folder)}: {done}")
    if run.view.exists() and until == "results":
        print_text(f"open {display(run.report)}; its figures lead into view.html")


def _show_table(table: Path, files: Sequence[Path]) -> None:
    """Print a table and the names of what was written with it."""
    from coda_lib.paths import display

    print_text("\n" + table.read_text(encoding="utf-8"))
    for path in files:
        print_text(display(path))


def _numbers(seeds: Sequence[str], settings: Sequence[str]) -> list[int]:
    """The seeds of the option.  UserError for what is no seed, is there twice or is also given with --set."""
    given = " ".join(seeds).split()
    if not given or not all(re.fullmatch("[0-9]+", seed) for seed in given):
        raise UserError(f"--seeds {' '.join(given)}: give whole numbers, as in --seeds 7 8 9")
    numbers = [int(seed) for seed in given]
    if len(set(numbers)) < len(numbers):
        raise UserError(f"--seeds {' '.join(given)}: a seed is there twice")
    if any(re.match(r"\s*seed\s*=", change) for change in settings):
        raise UserError("--seeds and --set seed= exclude each other: name all seeds with --seeds")
    return numbers


@app.command()
def serve(
    role: Annotated[str, Argument(help="A model of the profile: planner, executor, judge, generator …")],
    profile: ProfileOption = "laptop",
    checkpoint: Annotated[str | None, Option(help="Path or hub name. Default: the profile's.")] = None,
    port: Annotated[int, Option(min=1, max=65535, help="Its port on this machine.")] = 8000,
    vllm: Annotated[
        Path | None, Option(help="vLLM's command, also of another environment, and without a GPU.")
    ] = None,
    options: Annotated[list[str] | None, Argument(help="After --: words of vLLM's own command line.")] = None,
) -> None:
    """Serve a model with OpenAI's chat API until Ctrl+C: by vLLM (with a GPU or --vllm) or transformers."""
    from coda_lib.config import Models, load_profile
    from coda_lib.models.server import served

    if role not in Models.model_fields:
        raise UserError(f"unknown role {role!r}: choose one of {', '.join(Models.model_fields)}")
    given = checkpoint or getattr(load_profile(profile).models, role)
    if given is None:
        raise UserError(f"profile {profile} names no {role}: give one with --checkpoint")
    path = local_checkpoint(role, given)
    with served(path, port, options=options or (), vllm=vllm) as server:
        print_text(f"{role}: {server.model.url} (by {server.engine}), model {path}\nCtrl+C ends it")
        server.wait()


@app.command()
def usage(run_name: RunArgument, as_json: JsonOption = False) -> None:
    """Requests and tokens of a run's served models by stage, and their cost at the profile's prices."""
    import pandas as pd

    from coda_lib.paths import display
    from coda_study.usage import usage_table

    run = run_of(run_name)
    models = usage_table(run)
    if as_json:
        print_json(models.to_dict("records"))
        return
    if models.empty:
        raise UserError(f"no model of {display(run.folder)} was served: see `serving` in the profile")
    total = {"stage": "together", "role": "", **models.sum(numeric_only=True, min_count=1)}
    rows = []
    for row in [*models.to_dict("records"), total]:
        counts = [f"{row[name]:,.0f}" for name in ("requests", "prompt_tokens", "completion_tokens")]
        cost = "" if pd.isna(row.get("cost")) else f"{row['cost']:.2f}"
        rows.append((row["stage"], row["role"], *counts, cost))
    show(("stage", "model", "requests", "tokens read", "written", "cost"), rows)


plays = (play.episode, play.desk, evaluate.evaluate)
studies = (study.audit, study.claims, study.power, study.seeds, tasks.convert, tasks.export)
for command in (check.check, check.doctor, check.grounding, *plays, estimate.estimate, viewer.view, *studies):
    app.command()(command)
groups = {"tasks": tasks.tasks_app, "apps": apps.apps_app, "judge": study.judge_app, "fleet": fleet.fleet_app}
for name, group in groups.items():
    app.add_typer(group, name=name)


def main() -> None:
    """Run the command; exit code 2 for what was asked for, 1 for what failed, 70 for a bug.

    The traceback of a bug is in a file that the message names.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # where the output is no UTF-8, a sign is lost and no command
    settle_caches()
    try:
        app()
    except Exception as error:
        message, code = expected(error), 2 if isinstance(error, UserError) else 1
        if message is None:
            file = _kept_traceback()
            message, code = f"this is a bug of the kit: {one_line(error)}; its traceback is in {file}", 70
        print_message(f"error: {message}")
        sys.exit(code)


def _kept_traceback() -> Path:
    """Write the traceback of the present exception, below the command line, to a new file."""
    with NamedTemporaryFile("w", prefix="coda-bug-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(f"{shlex.join(sys.argv)}\n\n{traceback.format_exc()}")
    return Path(file.name)


if __name__ == "__main__":
    main()
