"""The commands `coda apps ...`: real applications, each on its own display."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Annotated

from typer import Argument, Exit, Option, Typer, confirm

from coda_lib.applications import DESKTOP_APPS
from coda_lib.errors import StageError, UserError
from coda_study.cli.console import err, out, print_json, print_text, show
from coda_study.cli.options import JsonOption

apps_app = Typer(help="Real applications: install and check them.", no_args_is_help=True)
KindsArgument = Annotated[list[str] | None, Argument(help=f"{', '.join(DESKTOP_APPS)}. Default: all.")]


@apps_app.command("install")
def apps_install() -> None:
    """Install the applications and their displays' programs from Debian packages, after listing them."""
    from sciencedesk.real import app_class
    from sciencedesk.real.display import lacking

    classes = [app_class(kind) for kind in DESKTOP_APPS]
    wanted = {*lacking().values(), *(package for app in classes for package in app.needs.values())}
    wanted |= {"bubblewrap"}  # not needed, but then they write to no files but their own
    if not shutil.which("apt-get"):
        packages = " ".join(sorted(wanted))
        raise UserError(f"apt-get of Debian or Ubuntu is missing; install these by other means: {packages}")
    missing = sorted(name for name in wanted if not _installed(name))
    if not missing:
        out.print("all are installed: coda apps check")
        return
    command = ["apt-get", "install", "--no-install-recommends", *missing]
    dry_run = subprocess.run(
        [*command, "--assume-no"], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}
    )
    print_text(f"to be installed: {' '.join(missing)}")
    sizes = [line for line in dry_run.stdout.splitlines() if "archives" in line or "disk space" in line]
    print_text("\n".join(sizes))
    if not confirm("Install?"):
        raise Exit(1)
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
def apps_check(kinds: KindsArgument = None, as_json: JsonOption = False) -> None:
    """Start each application, take a screenshot, read its state, reset it, and show the result."""
    from sciencedesk.real.checks import check_app

    checks = []
    with err.status("") as status:
        for kind in kinds or DESKTOP_APPS:
            status.update(kind)
            checks.append(check_app(kind))
    if as_json:
        names = ("kind", "fault", "start_s", "reset_s", "state", "isolated", "sandboxed")
        print_json([{name: getattr(check, name) for name in names} for check in checks])
    else:
        networks = {True: "its own", False: "this machine's", None: ""}
        writes = {True: "its own", False: "all of yours", None: ""}
        rows = []
        for check in checks:
            times = [f"{seconds:.1f} s" if seconds else "" for seconds in (check.start_s, check.reset_s)]
            reached = networks[check.isolated], writes[check.sandboxed]
            rows.append((check.kind, check.fault or "works", *times, *reached, ", ".join(check.state)))
        show(("application", "", "starts in", "reset in", "network", "files", "state"), rows)
    if any(check.fault is not None for check in checks):
        raise Exit(1)


@apps_app.command("soak")
def apps_soak(
    kinds: KindsArgument = None,
    minutes: Annotated[float, Option(min=0, help="Duration in minutes.")] = 60,
    as_json: JsonOption = False,
) -> None:
    """Play all tasks' scripts over and over; show failures, growth of memory and remaining processes."""
    from sciencedesk.real.checks import soak, soak_rows, strays

    before = set(strays())
    with err.status("") as status:
        results = soak_rows(soak(minutes, kinds or DESKTOP_APPS, status.update))
    remaining = sorted(set(strays()) - before)
    if as_json:
        print_json({"applications": results, "remaining": remaining})
    else:
        rows = []
        for result in results:
            memory, processes = (
                f"{first:.0f} → {last:.0f}" for first, last in (result["memory_mb"], result["processes"])
            )
            growth = "" if result["flat"] else "grows"
            counts = (result["episodes"], result["solved"])
            rows.append((result["kind"], *counts, f"{memory} MB", processes, growth))
        show(("application", "episodes", "solved", "memory", "processes", ""), rows)
        for result in results:
            for failed in result["failed"]:
                print_text(f"{result['kind']}: not solved: {failed}")
        print_text(f"remaining processes: {', '.join(remaining) or 'none'}")
    if remaining or not all(result["flat"] and result["solved"] == result["episodes"] for result in results):
        raise Exit(1)
