"""Benchmarks for maintainers: `make bench`, with `ARGS=--apps`, `--fleet` or `--training`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from coda_lib.errors import UserError
from coda_study.cli.console import err, out, print_json, show
from coda_study.cli.options import JsonOption

if TYPE_CHECKING:
    from tools.bench.fleet import Scale
    from tools.bench.training import Report


def bench(
    apps: Annotated[bool, typer.Option("--apps", help="Measure the real applications instead.")] = False,
    fleet: Annotated[
        bool, typer.Option("--fleet", help="Measure fleets of fake machines instead: 17 minutes.")
    ] = False,
    machines: Annotated[
        list[int] | None, typer.Option(min=1, help="How many, with --fleet. Default: 8 to 480.")
    ] = None,
    training: Annotated[
        bool, typer.Option("--training", help="Measure steps of stage 1 instead: stock TRL, and ours.")
    ] = False,
    size: Annotated[
        Literal["laptop", "3b", "7b"],
        typer.Option(help="Planner, with --training. Without a GPU the 3b and the 7b have one layer."),
    ] = "laptop",
    as_json: JsonOption = False,
) -> None:
    """Measure speed and memory on this machine, beside their targets."""
    if training:
        from tools.bench.training import measure_training

        return _show_training(measure_training(err, size), as_json)
    if fleet:
        from tools.bench.fleet import COUNTS, measure_scale

        return _show_scale(measure_scale(err, machines or COUNTS), as_json)
    if apps:
        from tools.bench.apps import measure_apps as measure
    else:
        from tools.bench.laptop import measure
    rows = measure(err)
    if as_json:
        print_json(rows)
        return
    show(
        ("what", "measured", "unit", "target"),
        ((r["name"], f"{r['value']:.4g}", r["unit"], r["target"]) for r in rows),
    )


def _show_scale(rows: list[Scale], as_json: bool) -> None:
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    cells = (
        (
            r.machines,
            r.workers,
            f"{r.episodes_h:,.0f}",
            f"{100 * r.share:.1f} %",
            f"{r.cores:.2f}",
            f"{r.memory_mb:,.0f} MB",
        )
        for r in rows
    )
    show(("machines", "workers", "episodes an hour", "of the ideal", "cores", "memory"), cells)


def _show_training(report: Report, as_json: bool) -> None:
    """Print a report; exit code 1 where a way does not fit into memory."""
    if as_json:
        print_json(asdict(report))
    else:
        _print_training(report)
    if report.failed:
        raise typer.Exit(1)


def _print_training(report: Report) -> None:
    h, s, versions = report.hardware, report.settings, report.versions
    name = (
        f"{h['gpu']}, {h['gpu_memory_gb']:.0f} GB, {h['peak_tflops']:,.3g} TFLOP/s"
        if h["gpu"]
        else h["processor"]
    )
    packages = ", ".join(f"{package} {versions[package]}" for package in ("torch", "transformers", "trl"))
    trained = f"adapters of rank {s['lora']}" if s["lora"] else "all weights"
    lines = (
        f"{name}; {packages}",
        f"{s['planner']}: {s['completions_per_step']} plans a step in groups of {s['group_size']}; "
        f"{trained} trained",
    )
    out.print(*lines, "", sep="\n", markup=False, soft_wrap=True)
    rows = [
        (p.way, p.name, f"{p.seconds:.3g}", f"{p.tokens:,}" if p.tokens else "", f"{p.tflops:.3g}",
         "" if p.share is None else f"{100 * p.share:.1f} %", f"{p.memory_gb:.2f} GB")
        for p in report.phases
    ]  # fmt: skip
    show(("way", "phase", "seconds", "tokens", "10¹² operations", "of the peak", "peak memory"), rows)
    for way, why in report.failed.items():
        out.print(f"{way} {why}", markup=False, soft_wrap=True)
    if not report.failed:
        ways = ("shared prefix", "stock TRL")
        whole, ours = (
            (report.seconds(way) for way in ways),
            (report.seconds(way, "policy", "reference") for way in ways),
        )
        (step, stock_step), (passes, stock_passes) = whole, ours
        losses, gradients = report.loss_difference, report.gradient_difference
        out.print(
            f"\na step: {step:.3g} s against {stock_step:.3g} s, {stock_step / step:.1f} times as fast; "
            f"policy and reference {stock_passes / passes:.1f} times",
            f"first step: losses differ by {losses:.1e}, gradients by {gradients:.1e} of their norm",
            sep="\n",
            markup=False,
            soft_wrap=True,
        )


if __name__ == "__main__":
    try:
        typer.run(bench)
    except UserError as error:
        raise SystemExit(f"error: {error}") from error
