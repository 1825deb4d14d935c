"""The command `coda bench`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from coda_lib.cli.console import JsonOption, err, out, print_json, show

if TYPE_CHECKING:
    from coda_lib.bench.fleet import Scale
    from coda_lib.bench.gpu import Phase, Report


def bench(
    apps: Annotated[bool, typer.Option("--apps", help="Measure the real applications instead.")] = False,
    fleet: Annotated[bool, typer.Option("--fleet", help="Measure fleets of fake machines instead: 17 minutes.")] = False,
    machines: Annotated[list[int] | None, typer.Option(min=1, help="How many, with --fleet. Default: 8 to 480.")] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="Measure a step of stage 1 at full size on this GPU instead.")] = False,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME", help="Planner of data/models.yaml, with --gpu. Default: the 3B and the 7B."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure speed and memory on this machine, beside their targets."""
    if gpu:
        from coda_lib.bench.gpu import MODELS, measure_gpu

        return _show_gpu(measure_gpu(err, models or MODELS), as_json)
    if fleet:
        from coda_lib.bench.fleet import COUNTS, measure_scale

        return _show_scale(measure_scale(err, machines or COUNTS), as_json)
    if apps:
        from coda_lib.bench.desktop import measure_apps as measure
    else:
        from coda_lib.bench.laptop import measure
    rows = measure(err)
    if as_json:
        print_json(rows)
        return
    show(("what", "measured", "unit", "target"), ((r["name"], f"{r['value']:.4g}", r["unit"], r["target"]) for r in rows))


def _show_scale(rows: list[Scale], as_json: bool) -> None:
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    cells = (
        (r.machines, r.workers, f"{r.episodes_h:,.0f}", f"{100 * r.share:.1f} %", f"{r.cores:.2f}", f"{r.memory_mb:,.0f} MB")
        for r in rows
    )
    show(("machines", "workers", "episodes an hour", "of the ideal", "cores", "memory"), cells)


def _show_gpu(report: Report, as_json: bool) -> None:
    """Print a report; exit code 1 where no model fits."""
    if as_json:
        print_json(asdict(report) | {"phases": [asdict(phase) | {"tokens_s": phase.tokens_s} for phase in report.phases]})
    else:
        _print_gpu(report)
    if not report.phases:
        raise typer.Exit(1)


def _print_gpu(report: Report) -> None:
    h, s, versions = report.hardware, report.settings, report.versions
    name = f"{h['gpu']}, {h['gpu_memory_gb']:.0f} GB" if h["gpu"] else h["processor"]
    packages = ", ".join(f"{package} {versions[package]}" for package in ("torch", "cuda", "transformers", "peft"))
    trained = f"adapters of rank {s['lora']} are trained" if s["lora"] else "all weights are trained"
    lines = (
        f"{name}: {h['peak_tflops']:,.3g} TFLOP/s in products of large matrices of 16 bits; {packages}",
        f"{s['completions_per_step']} plans for two screens of {s['screen'][0]} × {s['screen'][1]}; {trained}, "
        f"{s['at_once'] or s['completions_per_step']} plans at once; executor {s['executor']}; random weights",
    )
    out.print(*lines, sep="\n", markup=False, soft_wrap=True)
    heads = ("seconds", "tokens read", "written", "tokens/s", "10¹⁵ operations", "of the peak", "memory")
    rows = []
    for model in dict.fromkeys(phase.model for phase in report.phases):
        phases = [phase for phase in report.phases if phase.model == model]
        rows += [(model, phase.name, *_cells(phase)) for phase in [*phases, report.together(model)]]
    if rows:
        out.print()
        show(("planner", "phase", *heads), rows)
    for model, why in report.failed.items():
        out.print(f"{model} {why}", markup=False, soft_wrap=True)


def _cells(phase: Phase) -> list[str]:
    """The cells of a phase; values that it does not have are empty."""
    counts = [f"{count:,.0f}" if count else "" for count in (phase.read, phase.written, phase.tokens_s)]
    work = [f"{phase.flops / 1e15:.3g}", f"{100 * phase.share:.1f} %"] if phase.flops else ["", ""]
    return [f"{phase.seconds:.3g}", *counts, *work, "" if phase.memory_gb is None else f"{phase.memory_gb:.1f} GB"]
