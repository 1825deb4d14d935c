"""The command `coda estimate`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coda_study.cli.console import JsonOption, SettingsOption, out, print_json, show

if TYPE_CHECKING:
    from coda_study.estimate import Estimate, Workload


def estimate(
    profile: Annotated[str, typer.Argument(help="gpu or paper, or another profile with `hardware`.")],
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate what a profile costs: memory, tokens, operations and hours, and what this machine lacks for
    it.
    """
    from coda_lib.config import load_profile
    from coda_study import estimate as costs

    costed = costs.estimate(load_profile(profile, tuple(settings or ())))
    if as_json:
        print_json(_data(costed))
        return
    h = costed.profile.hardware
    out.print(
        f"profile {costed.profile.name}: {h.nodes} × {h.gpus} {h.gpu} at {100 * h.share:.0f} % of their peak",
        markup=False,
    )
    out.print()
    networks, serving = costed.networks.items(), costed.serving
    sizes = {
        role: (f"{net.parameters / 1e9:.2f} billion", f"{serving[role] / 1e9:.0f} GB")
        for role, net in networks
    }
    models = [(role, getattr(costed.profile.models, role), *size) for role, size in sizes.items()]
    show(("model", "", "parameters", "served: weights and prompts"), models)
    out.print()
    memory = asdict(costed.memory) | {"together": costed.memory.total}
    show(
        ("each GPU that trains", *memory),
        [("stage 1", *(f"{size / 1e9:.1f} GB" for size in memory.values()))],
    )
    _show_workloads("a step of stage 1", costed.step, costed.gpus, "seconds", 1)
    _show_workloads("stage", costed.stages, costed.gpus, "hours", 3600)
    out.print(f"\ndisk: {costed.disk / 1e9:,.0f} GB")
    for line in costed.missing or ["nothing"]:
        out.print(f"missing here: {line}", markup=False)


def _show_workloads(title: str, workloads: tuple[Workload, ...], gpus: int, unit: str, seconds: int) -> None:
    rows = []
    for work in workloads:
        figures = (
            work.flops / 1e15,
            work.read,
            work.written,
            work.seconds / seconds,
            gpus * work.seconds / seconds,
        )
        limit = "environments" if work.environments_s > work.models_s else "models"
        rows.append(
            (
                work.name,
                *(f"{figure:,.1f}" if figure < 1000 else f"{figure:,.0f}" for figure in figures),
                limit,
            )
        )
    total = sum(work.seconds for work in workloads) / seconds
    rows.append(("together", "", "", "", f"{total:,.1f}", f"{gpus * total:,.1f}", ""))
    out.print()
    show((title, "10¹⁵ operations", "tokens read", "written", unit, f"GPU-{unit}", "limited by"), rows)


def _data(costed: Estimate) -> dict[str, Any]:
    """The estimate as plain data."""
    workloads = {
        name: [asdict(work) | {"seconds": work.seconds} for work in getattr(costed,
        name)] for name in ("step", "stages")
    }  # fmt: skip
    parameters = {role: network.parameters for role, network in costed.networks.items()}
    memory = asdict(costed.memory) | {"total": costed.memory.total}
    return {
        "profile": costed.profile.name, "gpus": costed.gpus, "parameters": parameters, "memory": memory,
        **workloads,
        "serving": costed.serving, "disk": costed.disk, "missing": list(costed.missing),
    }  # fmt: skip
