"""The commands `coda apps ...`: real applications, each on its own display."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from coda_lib.applications import DESKTOP_APPS
from coda_lib.errors import StageError, UserError
from coda_study.cli.console import JsonOption, err, out, print_json, save_folder_option, save_option, show

apps_app = typer.Typer(help="Real applications: install and check them.", no_args_is_help=True)


@apps_app.command("install")
def apps_install(yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Install the four applications and the programs of their displays from Debian packages, after listing
    them.
    """
    from sciencedesk.real import app_class
    from sciencedesk.real.display import lacking

    classes = [app_class(kind) for kind in DESKTOP_APPS]
    wanted = {*lacking().values(), *(package for app in classes for package in app.needs.values())}
    if not shutil.which("apt-get"):
        raise UserError(
            "apt-get of Debian or Ubuntu is missing; install these by other means: "
            f"{' '.join(sorted(wanted))}"
        )
    missing = sorted(name for name in wanted if not _installed(name))
    if not missing:
        out.print("all are installed: coda apps check")
        return
    command = ["apt-get", "install", "--no-install-recommends", *missing]
    dry_run = subprocess.run(
        [*command, "--assume-no"], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}
    )
    out.print(f"to be installed: {' '.join(missing)}", markup=False)
    sizes = [line for line in dry_run.stdout.splitlines() if "archives" in line or "disk space" in line]
    out.print("\n".join(sizes), markup=False)
    if not (yes or typer.confirm("Install?")):
        raise typer.Exit(1)
    if os.geteuid() != 0:
        raise UserError(f"root is required: sudo {' '.join(command)}")
    for step in (["apt-get", "update", "-qq"], [*command, "-y", "-qq"]):
        if subprocess.run(step, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}).returncode:
            raise StageError(f"{' '.join(step)} failed: its output is above")
    out.print("installed: coda apps check")


def _installed(package: str) -> bool:
    query = ["dpkg-query", "--show", "--showformat=${Status}", package]
    return "ok installed" in subprocess.run(query, capture_output=True, text=True).stdout


@apps_app.command("check")
def apps_check(
    kinds: Annotated[
        list[str] | None, typer.Argument(help=f"{', '.join(DESKTOP_APPS)}. Default: all.")
    ] = None,
    save: Annotated[Path | None, save_folder_option("FOLDER", "Save a screenshot of each.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Start each application, take a screenshot, read its state, reset it, and show the result."""
    from PIL import Image

    from coda_lib.files import write_bytes
    from coda_lib.trajectory import encode_image
    from sciencedesk.real.checks import check_app

    checks = []
    with err.status("") as status:
        for kind in kinds or DESKTOP_APPS:
            status.update(kind)
            checks.append(check_app(kind))
    for check in checks:
        if save and check.picture is not None:
            write_bytes(save / f"{check.kind.lower()}.png", encode_image(Image.fromarray(check.picture)))
    if as_json:
        names = ("kind", "fault", "start_s", "reset_s", "state", "isolated")
        print_json([{name: getattr(check, name) for name in names} for check in checks])
    else:
        networks = {True: "its own", False: "this machine's", None: ""}
        rows = []
        for check in checks:
            times = [f"{seconds:.1f} s" if seconds else "" for seconds in (check.start_s, check.reset_s)]
            rows.append(
                (check.kind, check.fault or "works", *times, networks[check.isolated], ", ".join(check.state))
            )
        show(("application", "", "starts in", "reset in", "network", "state"), rows)
    if any(check.fault is not None for check in checks):
        raise typer.Exit(1)


@apps_app.command("soak")
def apps_soak(
    kinds: Annotated[
        list[str] | None, typer.Argument(help=f"{', '.join(DESKTOP_APPS)}. Default: all.")
    ] = None,
    minutes: Annotated[float, typer.Option(min=0, help="Duration in minutes.")] = 60,
    save: Annotated[
        Path | None, save_option("CSV", "Save one row for each round through an application's tasks.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Play the scripts of all tasks again and again; show failures, growth of memory and remaining processes."""
    from coda_lib.files import write_text
    from sciencedesk.real.checks import soak, soak_rows, strays

    before = set(strays())
    with err.status("") as status:
        rounds = soak(minutes, kinds or DESKTOP_APPS, status.update)
    rows, remaining = soak_rows(rounds), sorted(set(strays()) - before)
    if save:
        write_text(save, rounds.to_csv(index=False, float_format="%.2f"))
    if as_json:
        print_json({"applications": rows, "remaining": remaining})
    else:
        cells = []
        for row in rows:
            memory, processes = (
                f"{pair[0]:.0f} → {pair[1]:.0f}" for pair in (row["memory_mb"], row["processes"])
            )
            cells.append(
                (
                    row["kind"],
                    row["episodes"],
                    row["solved"],
                    f"{memory} MB",
                    processes,
                    "" if row["flat"] else "grows",
                )
            )
        show(("application", "episodes", "solved", "memory", "processes", ""), cells)
        for row in rows:
            for failed in row["failed"]:
                out.print(f"{row['kind']}: not solved: {failed}", markup=False)
        out.print(f"remaining processes: {', '.join(remaining) or 'none'}", markup=False)
    if remaining or not all(row["flat"] and row["solved"] == row["episodes"] for row in rows):
        raise typer.Exit(1)
