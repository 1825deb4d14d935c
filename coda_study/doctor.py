"""What a host has of what the kit can use, looked at before an hour is spent, and what each thing gives."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil
from packaging.requirements import Requirement

from coda_lib.errors import UserError, one_line
from coda_lib.paths import RESULTS

MEMORY_GB, DISK_GB = 6.0, 10.0  # of the laptop profile, which is the smallest that gives results
EVERYTHING, FONT = "every command", "DejaVu Sans"


class Finding(NamedTuple):
    """One thing: whether it is there, what there is, what it gives, and how to get it."""

    name: str
    there: bool
    found: str
    gives: str
    get: str = ""
    needed: bool = False  # nothing works without it


def findings() -> Iterator[Finding]:
    """Each thing that is looked for, the needed ones first."""
    for look in (_packages, _window, _memory, _disk, _ports):
        yield look()._replace(needed=True)
    for look in (_processor, _gpu, _server, _display, _network, _sandbox, _machines):
        yield look()
    yield from _applications()


def _packages() -> Finding:
    found = "as pinned"
    try:
        pins = [pin for pin in map(Requirement, requires("coda-kit")) if not pin.marker]
        wrong = [f"{pin.name} {version(pin.name)}, not {pin.specifier}" for pin in pins
                 if not pin.specifier.contains(version(pin.name), prereleases=True)]  # fmt: skip
        found = "; ".join(wrong) or found
    except PackageNotFoundError as error:
        found = one_line(error)
    return Finding(
        "packages", found == "as pinned", found, EVERYTHING, "pip install -e . in a new environment"
    )


def _window() -> Finding:
    """ScienceDesk's window with its own font: with another one screens differ from those of the models."""
    name = "ScienceDesk"
    try:
        from sciencedesk.env import desk_class

        desk_class("algebra")
    except UserError as error:
        return Finding(name, False, one_line(error), EVERYTHING, "the libraries that the message names")
    from PySide6.QtGui import QFontInfo

    from sciencedesk.desk.qt import TEXT_PX, application, font

    application()
    family = QFontInfo(font(TEXT_PX)).family()
    found = f"windows are drawn in {family}"
    return Finding(name, family == FONT, found, EVERYTHING, f"matplotlib, which brings {FONT}")


def _memory() -> Finding:
    free = psutil.virtual_memory().available / 1e9
    return Finding("memory", free >= MEMORY_GB, f"{free:.1f} GB free", "profile laptop", f"{MEMORY_GB:g} GB")


def _disk() -> Finding:
    place = RESULTS if RESULTS.is_dir() else RESULTS.parent
    free = shutil.disk_usage(place).free / 1e9
    writable = os.access(place, os.W_OK)
    found = f"{free:.0f} GB free" if writable else f"{place} cannot be written to"
    return Finding("disk", writable and free >= DISK_GB, found, "runs under results/", f"{DISK_GB:g} GB")


def _ports() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            found = f"port {server.getsockname()[1]} was free"
    except OSError as error:
        return Finding(
            "ports", False, one_line(error), "notebooks, served models, the viewer", "a loopback network"
        )
    return Finding("ports", True, found, "notebooks, served models, the viewer")


def _processor() -> Finding:
    import torch

    cores, fast = len(os.sched_getaffinity(0)), torch.cpu.get_capabilities().get("avx512_bf16", False)
    found = f"{cores} cores, {'with' if fast else 'without'} bfloat16"
    return Finding("bfloat16", fast, found, "base models are trained four times as fast", "another processor")


def _gpu() -> Finding:
    import torch

    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    found = ", ".join(f"{gpu.name} ({gpu.total_memory / 1e9:.0f} GB)" for gpu in gpus) or "none"
    return Finding(
        "GPU", bool(gpus), found, "profiles gpu and paper", "coda estimate --profile gpu says how large"
    )


def _server() -> Finding:
    there = find_spec("vllm") is not None
    found = version("vllm") if there else "not installed"
    return Finding("vLLM", there, found, "released models behind a server", "pip install -e '.[gpu]'")


def _display() -> Finding:
    from sciencedesk.real.display import lacking

    missing = lacking()
    found = f"{', '.join(missing)} missing" if missing else "complete"
    return Finding("display", not missing, found, "real applications, notebook 15", "coda apps install")


def _network() -> Finding:
    from sciencedesk.real.isolation import can_isolate

    there = can_isolate()
    found = "users may make one" if there else "the kernel refuses"
    gives = "applications reach no other machine"
    return Finding("network of its own", there, found, gives, "sysctl kernel.unprivileged_userns_clone=1")


def _sandbox() -> Finding:
    from sciencedesk.real.isolation import sandbox

    with TemporaryDirectory() as folder:
        there = bool(sandbox(Path(folder)))
    found = "works" if there else "refused" if shutil.which("bwrap") else "bwrap missing"
    return Finding(
        "bubblewrap", there, found, "applications write to no file but their own", "coda apps install"
    )


def _machines() -> Finding:
    there = [name for name in ("vmrun", "docker", "podman") if shutil.which(name)]
    kvm = os.access("/dev/kvm", os.R_OK | os.W_OK)
    found = ", ".join([*there, *(["/dev/kvm"] if kvm else [])]) or "none"
    return Finding(
        "virtual machines", bool(there), found, "ScienceBoard's own machines", "docs/scienceboard.md"
    )


def _applications() -> Iterator[Finding]:
    from coda_lib.applications import DESKTOP_APPS
    from sciencedesk.real import app_class

    for kind in DESKTOP_APPS:
        missing = [file for file in app_class(kind).needs if not Path(file).exists()]
        found = f"{', '.join(missing)} missing" if missing else "installed"
        yield Finding(kind, not missing, found, f"tasks of {kind}", "coda apps install")
