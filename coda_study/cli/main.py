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
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer.core import TyperCommand

from coda_lib.errors import UserError, expected, one_line
from coda_study.cli import apps, check, estimate, evaluate, fleet, play, study, tasks
from coda_study.cli import view as viewer
from coda_study.cli.console import (
    JsonOption,
    ProfileOption,
    SettingsOption,
    err,
    local_checkpoint,
    out,
    print_json,
    run_of,
    show,
)

if TYPE_CHECKING:
    pass

BUG = 70

app = typer.Typer(
    help="Planner and executor agents for scientific software: reproduce the study, or try its parts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class _ManySeeds(TyperCommand):
    """A command whose option --seeds takes all words up to the next option."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        words: list[str] = []
        for word in args:
            if words[-2:-1] == ["--seeds"] and not word.startswith("-"):
                words[-1] += f" {word}"
            else:
                words.append(word)
        return super().parse_args(ctx, words)


@app.command(cls=_ManySeeds)
def reproduce(
    profile: ProfileOption = "laptop",
    run: Annotated[
        str | None, typer.Option(help="Name of the folder under results/. Default: the profile's name.")
    ] = None,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Stages that may run in parallel. Default: all cores.")
    ] = None,
    settings: SettingsOption = None,
    seeds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N...", help="Run once for each seed, e.g. --seeds 7 8 9, and write the tables over them."
        ),
    ] = None,
    until: Annotated[
        str, typer.Option(metavar="STAGE", help="Stop after this stage, e.g. explore or specialize.")
    ] = "results",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete what this run has computed and start over.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the stages that would run.")] = False,
    cluster: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Run stages as jobs, e.g. profiles/slurm or profiles/kubernetes."
        ),
    ] = None,
    notebooks: Annotated[Path | None, typer.Option(hidden=True, help="Folder of the notebooks.")] = None,
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
    name, books = profile if run is None else run, (notebooks or NOTEBOOKS).resolve()
    runs = pipeline.runs_of_seeds(name, chosen, _numbers(seeds, settings or ()) if seeds else [chosen.seed])
    if dry_run:
        for target, settled in runs.items():
            if seeds:
                out.print(f"{display(target.folder)}:", markup=False, soft_wrap=True)
            expected = pipeline.expected_seconds(target, settled)
            for stage in pipeline.preview(target, settled, until, books, fresh, cluster):
                out.print(
                    f"{stage:34} {clock(expected[stage]) if stage in expected else ''}".rstrip(), markup=False
                )
        return
    desk_class("algebra")  # UserError now, not in the middle of the run, if Qt cannot be loaded
    for target, settled in runs.items():
        try:
            outcome = pipeline.reproduce(
                target, settled, cores or pipeline.usable_cores(), until, fresh, out, books, cluster
            )
        except KeyboardInterrupt:
            err.print("stopped; the same command goes on from here")
            raise typer.Exit(130) from None
        if target.table1.exists() and until == "results":
            _show_end(target.table1, outcome.files)
        done = f"done in {clock(outcome.wall_s)}" if outcome.stages else "all is up to date"
        out.print(f"{display(target.folder)}: {done}", markup=False, soft_wrap=True)
        if target.view.exists() and until == "results":
            out.print(
                f"open {display(target.report)}; its figures lead into view.html",
                markup=False,
                soft_wrap=True,
            )
    if len(runs) > 1 and until in pipeline.REPORTED:
        from coda_study.evaluation.report import write_tables
        from coda_study.evaluation.tables import over_seeds

        home = next(
            (target for target, settled in runs.items() if settled.seed == chosen.seed), next(iter(runs))
        )
        table, compared, _, title = over_seeds(list(runs))
        _show_end(home.seeds / "table1.md", write_tables(home.seeds, table, compared, title))


def _show_end(table: Path, files: Sequence[Path]) -> None:
    """Print a table and the names of what was written with it."""
    from coda_lib.paths import display

    out.print("\n" + table.read_text(encoding="utf-8"), markup=False, soft_wrap=True)
    for path in files:
        out.print(display(path), markup=False, soft_wrap=True)


def _numbers(seeds: Sequence[str], settings: Sequence[str]) -> list[int]:
    """The seeds of the option.  UserError for what is no seed, is there twice or is also given with --set."""
    words = " ".join(seeds).split()
    if not words or not all(re.fullmatch("[0-9]+", word) for word in words):
        raise UserError(f"--seeds {' '.join(words)}: give whole numbers, as in --seeds 7 8 9")
    numbers = [int(word) for word in words]
    if len(set(numbers)) < len(numbers):
        raise UserError(f"--seeds {' '.join(words)}: a seed is there twice")
    if any(re.match(r"\s*seed\s*=", change) for change in settings):
        raise UserError("--seeds and --set seed= exclude each other: name all seeds with --seeds")
    return numbers


@app.command()
def serve(
    role: Annotated[
        str, typer.Argument(help="A model of the profile: planner, executor, judge, generator …")
    ],
    profile: ProfileOption = "laptop",
    checkpoint: Annotated[str | None, typer.Option(help="Path or hub name. Default: the profile's.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port on this machine.")] = 8000,
    vllm: Annotated[
        Path | None, typer.Option(help="vLLM's command, also of another environment, and without a GPU.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Argument(help="After --: words of vLLM's own command line.")
    ] = None,
) -> None:
    """Serve a model with OpenAI's chat API until Ctrl+C: by vLLM with a GPU or --vllm, by transformers
    without.
    """
    from coda_lib.config import Models, load_profile
    from coda_lib.models.server import served

    if role not in Models.model_fields:
        raise UserError(f"unknown role {role!r}: choose one of {', '.join(Models.model_fields)}")
    given = checkpoint or getattr(load_profile(profile).models, role)
    if given is None:
        raise UserError(f"profile {profile} names no {role}: give one with --checkpoint")
    path = local_checkpoint(role, given)
    with served(path, port, options=options or (), vllm=vllm) as server:
        out.print(
            f"{role}: {server.model.url} (by {server.engine}), model {path}\nCtrl+C ends it",
            markup=False,
            soft_wrap=True,
        )
        server.wait()


@app.command()
def usage(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name under results/, or a folder.")],
    as_json: JsonOption = False,
) -> None:
    """Requests and tokens of a run's served models by stage, and their cost at the profile's prices."""
    import pandas as pd

    from coda_lib.paths import display
    from coda_study.usage import usage_table

    run = run_of(run)
    models = usage_table(run)
    if as_json:
        print_json(models.to_dict("records"))
        return
    if models.empty:
        raise UserError(f"no model of {display(run.folder)} was served: see `serving` in the profile")
    rows = []
    for row in [
        *models.to_dict("records"),
        {"stage": "together", "role": "", **models.sum(numeric_only=True, min_count=1)},
    ]:
        counts = [f"{row[name]:,.0f}" for name in ("requests", "prompt_tokens", "completion_tokens")]
        rows.append(
            (row["stage"], row["role"], *counts, "" if pd.isna(row.get("cost")) else f"{row['cost']:.2f}")
        )
    show(("stage", "model", "requests", "tokens read", "written", "cost"), rows)


plays = (play.episode, play.desk, evaluate.evaluate)
studies = (study.audit, study.claims, study.power, study.seeds, tasks.convert, tasks.export)
for command in (check.check, check.grounding, *plays, estimate.estimate, viewer.view, *studies):
    app.command()(command)
groups = {"tasks": tasks.tasks_app, "apps": apps.apps_app, "judge": study.judge_app, "fleet": fleet.fleet_app}
for name, group in groups.items():
    app.add_typer(group, name=name)


def main() -> None:
    """Run the command.  What goes wrong is one message: exit code 2 for what was asked for, 1 for what
    failed, 70 for a bug.

    The traceback of a bug is in a file that the message names.
    """
    try:
        app()
    except Exception as error:
        if (said := expected(error)) is None:
            _fail(
                f"this is a bug of the kit: {one_line(error)}; its traceback is in {_kept_traceback()}", BUG
            )
        _fail(said, 2 if isinstance(error, UserError) else 1)


def _kept_traceback() -> Path:
    """Write the traceback of the present exception, below the words of the command, to a new file."""
    with NamedTemporaryFile("w", prefix="coda-bug-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(f"{shlex.join(sys.argv)}\n\n{traceback.format_exc()}")
    return Path(file.name)


def _fail(message: str, code: int) -> NoReturn:
    err.print(f"error: {message}", markup=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
