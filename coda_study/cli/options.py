"""Arguments and options that several commands take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from coda_lib.applications import SPACE_APPS
from coda_lib.files import require_file

LAST_SEED = 2**32 - 1  # as in `config`, which --help does without

RunArgument = Annotated[
    str, Argument(metavar="RUN", help="A name under results/, or a folder: results/reference/laptop.")
]
ProfileOption = Annotated[
    str, Option(help="How large: smoke (minutes), laptop, desktop (real applications), gpu or paper.")
]
AppOption = Annotated[str | None, Option("--app", help=f"One application: {', '.join(SPACE_APPS)}.")]
JsonOption = Annotated[bool, Option("--json", help="Print JSON, for a script to read.")]
PlannerOption = Annotated[
    str | None,
    Option(help="Planner (path or hub name), or 'none': the executor alone. Default: the profile's."),
]
SettingsOption = Annotated[
    list[str] | None,
    Option("--set", metavar="FIELD=VALUE", help="Change the profile, e.g. specialize.steps=10."),
]
SeedOption = Annotated[
    int | None, Option(min=0, max=LAST_SEED, help="Seed of the sampling. Default: the profile's.")
]


def save_option(metavar: str, help: str, require: Callable[[Path], Path] = require_file) -> Any:
    """An option that names what to write; `require` refuses at once what may not be replaced."""
    return Option(metavar=metavar, help=help, callback=lambda path: path and require(path))
