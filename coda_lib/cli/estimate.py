"""The command `coda plan`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from coda_lib.cli.console import JsonOption, SettingsOption, out, print_json, show

if TYPE_CHECKING:
    from coda_lib.bench.plan import Part, Plan


def plan(
    profile: Annotated[str, typer.Argument(help="gpu or paper, or another profile with `hardware`.")],
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a profile would cost: memory, tokens, operations and hours, and what this machine lacks for it."""
    from coda_lib.bench.plan import plan as planned
    from coda_lib.config import load_profile

    found = planned(load_profile(profile, tuple(settings or ())))
    if as_json:
        print_json(_data(found))
        return
    h = found.profile.hardware
    out.print(f"profile {found.profile.name}: {h.nodes} × {h.gpus} {h.gpu} at {100 * h.share:.0f} % of their peak", markup=False)
    tables = (
        _models(found), _memory(found), _parts("a step of stage 1", found.step, found.gpus, "seconds", 1),
        _parts("stage", found.stages, found.gpus, "hours", 3600),
    )  # fmt: skip
    for table in tables:
        out.print()
        show(table)
    out.print(f"\ndisk: {found.disk / 1e9:,.0f} GB")
    for line in found.missing or ["nothing"]:
        out.print(f"missing here: {line}", markup=False)


def _models(found: Plan) -> Table:
    table = Table("model", "", "parameters", "served: weights and prompts", box=None, pad_edge=False)
    for role, network in found.networks.items():
        name = getattr(found.profile.models, role)
        table.add_row(role, name, f"{network.parameters / 1e9:.2f} billion", f"{found.serving[role] / 1e9:.0f} GB")
    return table


def _memory(found: Plan) -> Table:
    names = ("weights", "gradients", "optimizer", "reference", "working")
    table = Table("each GPU that trains", *names, "together", box=None, pad_edge=False)
    sizes = [getattr(found.memory, name) for name in names] + [found.memory.total]
    table.add_row("stage 1", *(f"{size / 1e9:.1f} GB" for size in sizes))
    return table


def _parts(title: str, parts: tuple[Part, ...], gpus: int, unit: str, seconds: int) -> Table:
    heads = ("10¹⁵ operations", "tokens read", "written", unit, f"GPU-{unit}")
    table = Table(title, *heads, "limited by", box=None, pad_edge=False)
    for part in parts:
        figures = (part.flops / 1e15, part.read, part.written, part.seconds / seconds, gpus * part.seconds / seconds)
        limit = "environments" if part.environments_s > part.models_s else "models"
        table.add_row(part.name, *(f"{figure:,.1f}" if figure < 1000 else f"{figure:,.0f}" for figure in figures), limit)
    total = sum(part.seconds for part in parts) / seconds
    table.add_row("together", "", "", "", f"{total:,.1f}", f"{gpus * total:,.1f}", "")
    return table


def _data(found: Plan) -> dict[str, Any]:
    """The plan as plain data."""
    parts = {name: [asdict(part) | {"seconds": part.seconds} for part in getattr(found, name)] for name in ("step", "stages")}
    parameters = {role: network.parameters for role, network in found.networks.items()}
    memory = asdict(found.memory) | {"total": found.memory.total}
    return {
        "profile": found.profile.name, "gpus": found.gpus, "parameters": parameters, "memory": memory, **parts,
        "serving": found.serving, "disk": found.disk, "missing": list(found.missing),
    }  # fmt: skip
