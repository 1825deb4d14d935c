"""The command `coda estimate`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from coda_study.cli.console import print_json, print_text, show
from coda_study.cli.options import JsonOption, SettingsOption

if TYPE_CHECKING:
    from coda_study.estimate import Estimate, Workload


def estimate(
    profile: Annotated[str, Argument(help="gpu or paper, or another profile with `hardware`.")],
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate what a profile costs: memory, tokens, operations and hours, and what this machine lacks."""
    from coda_lib.config import load_profile
    from coda_study import estimate as costs

    costed = costs.estimate(load_profile(profile, tuple(settings or ())))
    if as_json:
        print_json(_data(costed))
        return
    h, models = costed.profile.hardware, costed.profile.models
    share = f"{100 * h.share:.0f} % of their peak"
    print_text(f"profile {costed.profile.name}: {h.nodes} × {h.gpus} {h.gpu} at {share}\n")
    rows = []
    for role, network in costed.networks.items():
        parameters, served = f"{network.parameters / 1e9:.2f} billion", f"{costed.serving[role] / 1e9:.0f} GB"
        rows.append((role, getattr(models, role), parameters, served))
    show(("model", "", "parameters", "served: weights and prompts"), rows)
    print_text()
    memory = asdict(costed.memory) | {"together": costed.memory.total}
    sizes = (f"{size / 1e9:.1f} GB" for size in memory.values())
    show(("each GPU that trains", *memory), [("stage 1", *sizes)])
    _show_workloads("a step of stage 1", costed.step, costed.gpus, "seconds", 1)
    _show_workloads("stage", costed.stages, costed.gpus, "hours", 3600)
    print_text(f"\ndisk: {costed.disk / 1e9:,.0f} GB")
    for line in costed.missing or ["nothing"]:
        print_text(f"missing here: {line}")


def _show_workloads(title: str, workloads: tuple[Workload, ...], gpus: int, unit: str, seconds: int) -> None:
    rows = []
    for work in workloads:
        time = work.seconds / seconds
        figures = (work.flops / 1e15, work.read, work.written, time, gpus * time)
        cells = (f"{figure:,.1f}" if figure < 1000 else f"{figure:,.0f}" for figure in figures)
        rows.append((work.name, *cells, "environments" if work.environments_s > work.models_s else "models"))
    total = sum(work.seconds for work in workloads) / seconds
    rows.append(("together", "", "", "", f"{total:,.1f}", f"{gpus * total:,.1f}", ""))
    print_text()
    show((title, "10¹⁵ operations", "tokens read", "written", unit, f"GPU-{unit}", "limited by"), rows)


def _data(costed: Estimate) -> dict[str, Any]:
    """The estimate as plain data."""

    def plain(workloads: tuple[Workload, ...]) -> list[dict[str, Any]]:
        return [asdict(work) | {"seconds": work.seconds} for work in workloads]

    return {
        "profile": costed.profile.name,
        "gpus": costed.gpus,
        "parameters": {role: network.parameters for role, network in costed.networks.items()},
        "memory": asdict(costed.memory) | {"total": costed.memory.total},
        "step": plain(costed.step),
        "stages": plain(costed.stages),
        "serving": costed.serving,
        "disk": costed.disk,
        "missing": list(costed.missing),
    }
