"""The commands `coda fleet ...`: the status of a fleet."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typer import Argument, Option, Typer

from coda_study.cli.console import out, print_json
from coda_study.cli.options import JsonOption

if TYPE_CHECKING:
    from coda_study.fleet.collect import Status

fleet_app = Typer(help="Episodes on many environments at once, by many processes.", no_args_is_help=True)

_REFRESH_S = 1.0  # of --watch


@fleet_app.callback()
def _fleet() -> None:
    """Makes `status` a subcommand although it is the only one."""


@fleet_app.command("status")
def fleet_status(
    folder: Annotated[
        Path, Argument(help="Folder of its episodes, such as results/RUN/fleet/explore/base/gis.")
    ],
    watch: Annotated[bool, Option("--watch", help="Refresh until the fleet has ended.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the status of a fleet: finished episodes, speed, faults, and its workers."""
    from dataclasses import asdict

    from coda_study.fleet.collect import read_status

    status = read_status(folder)
    if as_json:
        print_json(asdict(status))
    elif not watch:
        out.print(_view(status))
    else:
        with Live(_view(status), console=out) as live:
            while status.alive:
                time.sleep(_REFRESH_S)
                status = read_status(folder)
                live.update(_view(status))


def _view(status: Status) -> Group:
    rest = status.total - status.done
    state = "stopped; the same command goes on from here" if rest else "ended"
    if status.alive:
        state = f"running, about {rest / status.rate:.0f} minutes left" if status.rate else "running"
    counts = ("environments", "under_way", "finished", "starts")
    columns = (name.replace("_", " ") for name in counts)
    table = Table("worker", "where", *columns, "last fault", box=None, pad_edge=False)
    for worker in status.workers:
        numbers = (str(worker[name]) for name in counts)
        table.add_row(str(worker["number"]), worker["where"], *numbers, Text(worker["fault"] or ""))
    speed = f"{status.rate:.1f} a minute, {status.faults} faults"
    return Group(f"{status.done} of {status.total} episodes, {speed}: {state}", table)
