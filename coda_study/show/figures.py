"""Figures: how they look and are kept, learning curves, bars of the tables.  Screenshots are in `pictures`.

Every function returns a `Sheet`, a matplotlib figure that belongs to no window and no global state and that a
notebook shows by itself.  `save` writes it as SVG and PNG, the same bytes for the same figure, with its
caption inside the file. Colours are from Okabe and Ito's palette, which people with any colour vision can
tell apart.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from coda_lib.applications import software
from coda_lib.files import write_bytes
from coda_study.evaluation.paper import LABELS, Provenance
from coda_study.evaluation.report import SYSTEM_LABELS
from coda_study.evaluation.tables import PAPER_MODELS, beside_paper

BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE, GREY = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#8C8C8C"
)  # fmt: skip
SYSTEM_COLORS = {"base": GREY, "executor": ORANGE, "stage1": SKY, "stage2": BLUE}
SERIES = (  # colour, dashes
    (BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (PURPLE, ":"), (ORANGE, "-"), (SKY, "--")
)  # fmt: skip
INK = "#1A1A1A"
# columns of metrics.jsonl and their labels
CURVES = {"reward": "training reward (of 2)", "kl": "KL to the reference"}
STYLE = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same letters on every machine
    "text.parse_math": False,  # a plan may contain dollar signs
    "font.size": 9, "axes.titlesize": 9, "axes.titlelocation": "left", "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK, "text.color": INK, "legend.frameon": False, "svg.hashsalt": "coda",
    "figure.constrained_layout.use": True,
}  # fmt: skip
styled = matplotlib.rc_context(STYLE)
DPI = 144
OUTLINE = [withStroke(linewidth=4, foreground="white")]  # makes marks and words readable on any screen


class Sheet(Figure):
    """A figure that notebooks show without a plotting back end, with the same bytes and size of letters."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return _render(self, "png", ""), {"width": round(96 * self.get_figwidth())}  # CSS pixels


@styled
def _render(figure: Figure, kind: str, caption: str) -> bytes:
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    if kind == "svg" or caption:
        metadata["Description"] = caption
    figure.savefig(buffer := io.BytesIO(), format=kind, dpi=DPI, metadata=metadata)
    return buffer.getvalue()


def save(figure: Figure, path: Path, caption: str) -> list[Path]:
    """Write path.svg and path.png, each with the caption in its metadata; return the files written.

    The caption says run, number of tasks and runs, interval and provenance, as `report.caption` does.
    """
    files = [path.with_name(f"{path.name}.{kind}") for kind in ("svg", "png")]
    for file in files:
        write_bytes(file, _render(figure, file.suffix[1:], caption))
    return files


@styled
def learning_curves(
    logs: Mapping[str, pd.DataFrame], metrics: Mapping[str, str] = CURVES, smooth: int = 10, caption: str = ""
) -> Sheet:
    """Training metrics by optimizer step, a panel per metric, a line per name.

    `logs` maps a name (an application, a seed) to its metrics.jsonl as a frame with a column `step`;
    `metrics` maps columns to axis labels.  Thin lines are the logged values, thick lines their mean over the
    last `smooth` records.
    """
    sheet = Sheet(figsize=(4.6 * len(metrics), 3.2))
    axes = sheet.subplots(1, len(metrics), squeeze=False)[0]
    for ax, (metric, label) in zip(axes, metrics.items(), strict=True):
        for (name, log), (color, dashes) in zip(logs.items(), cycle(SERIES), strict=False):
            record = log[["step", metric]].dropna()
            ax.plot(record["step"], record[metric], color=color, linewidth=0.6, alpha=0.35)
            mean = record[metric].rolling(smooth, min_periods=1).mean()
            ax.plot(record["step"], mean, dashes, color=color, linewidth=1.8, label=LABELS.get(name, name))
        ax.set(xlabel=f"optimizer step (thick: mean of {smooth})", title=label)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    handles, names = ax.get_legend_handles_labels()
    sheet.legend(handles, names, loc="outside right upper")
    _footnote(sheet, caption)
    return sheet


@styled
def table1_bars(table: pd.DataFrame, caption: str = "") -> Sheet:
    """Table 1 as bars with 95 % intervals (left), beside the paper's figures (right), a row for each metric.

    `table` is `report.table1`'s.  On the right are the applications that the paper has.
    """
    beside = beside_paper(table)
    metrics, systems = list(dict.fromkeys(table["metric"])), list(dict.fromkeys(table["system"]))
    apps = [app for app in LABELS if app in set(table["application"])]
    theirs = [app for app in apps if beside.loc[beside["application"] == app, "paper_value"].notna().any()]
    sheet = Sheet(figsize=(10.5, 2.7 * len(metrics) + 0.9))
    widths = (len(apps), max(len(theirs), len(apps) / 2))
    grid = sheet.subplots(len(metrics), 2, sharex="col", sharey="row", squeeze=False, width_ratios=widths)
    for (left, right), metric in zip(grid, metrics, strict=True):
        rows = beside[beside["metric"] == metric].set_index(["system", "application"])
        for system, offset in zip(systems, _offsets(len(systems)), strict=True):
            measured, paper = rows.loc[system].reindex(apps), rows.loc[system].reindex(theirs)
            style = {"width": 0.74 / len(systems), "color": SYSTEM_COLORS[system]}
            _bars(left, measured, offset, label=SYSTEM_LABELS[system], **style)
            centres = np.arange(len(theirs)) + offset
            right.bar(centres, paper["paper_value"], label=PAPER_MODELS[system], **style)
        provenance = rows["provenance"].iloc[0]
        left.set(title=f"{metric}, {software(apps)} ({provenance})", ylabel="success in %")
        title = f"{rows['paper_metric'].iloc[0]}, ScienceBoard ({Provenance.PAPER}, no intervals)"
        right.set(title=title if theirs == apps else title.replace(" (", "\n("))
        for ax, names in ((left, apps), (right, theirs)):
            ax.set_xticks(range(len(names)), [LABELS[app] for app in names])
            ax.set_ylim(bottom=0)
    handles, names = grid[0, 0].get_legend_handles_labels()
    sheet.legend(handles, names, loc="outside upper left", ncols=len(systems))
    _footnote(sheet, caption)
    return sheet


@styled
def judge_bars(scores: pd.DataFrame, caption: str = "") -> Sheet:
    """Precision and recall of the judge per application, with intervals.

    `scores` is tidy: application, measure (`precision` or `recall`), value, low, high, all three in percent.
    """
    measures = list(dict.fromkeys(scores["measure"]))
    apps = [app for app in LABELS if app in set(scores["application"])]
    sheet = Sheet(figsize=(6.2, 3.4))
    ax = sheet.subplots()
    for measure, offset, color in zip(measures, _offsets(len(measures)), (BLUE, ORANGE, GREEN), strict=False):
        rows = scores[scores["measure"] == measure].set_index("application").reindex(apps)
        _bars(ax, rows, offset, width=0.74 / len(measures), color=color, label=measure)
    ax.set_xticks(range(len(apps)), [LABELS[app] for app in apps])
    ax.set(ylim=(0, 105), ylabel="%", yticks=range(0, 101, 20))
    sheet.legend(loc="outside upper left", ncols=len(measures))
    _footnote(sheet, caption)
    return sheet


@styled
def difference_bars(rows: pd.DataFrame, caption: str = "") -> Sheet:
    """A row of `ablation_tables.variants` each: its difference with 95 % interval, in percentage points."""
    sheet = Sheet(figsize=(6.8, 0.9 + 0.34 * max(1, len(rows))))
    ax = sheet.subplots()
    heights = np.arange(len(rows))[::-1]
    names = {"difference": "value", "difference_low": "low", "difference_high": "high"}
    reach = _reach(rows[list(names)].rename(columns=names))  # `value` is there as well: of the variant itself
    style = {"fmt": "o", "color": BLUE, "ecolor": INK}
    ax.axvline(0, color=GREY, linewidth=0.9)
    ax.errorbar(rows["difference"], heights, xerr=reach, capsize=3, **style)
    ax.set_yticks(heights, rows["variant"])
    ax.set(xlabel="difference to stage 1, percentage points", ylim=(-0.6, len(rows) - 0.4))
    _footnote(sheet, caption)
    return sheet


@styled
def task_curve(rows: pd.DataFrame, caption: str = "") -> Sheet:
    """`stages.curve.curve_table`: success by the number of train tasks, a line a way of labelling or a start.

    The base planner is a band.
    """
    sheet = Sheet(figsize=(6.4, 3.8))
    ax, trained = sheet.subplots(), rows[rows["tasks"] > 0]
    for base in rows[rows["tasks"] == 0].itertuples():
        ax.axhspan(base.low, base.high, color=GREY, alpha=0.15, linewidth=0)
        ax.axhline(base.value, color=GREY, linewidth=1.2, label="base planner")
    names = {"voting": "labels of the judge", "truth": "labels of the check"}
    shifts = (0.97, 1.03, 0.91, 1.09, 0.85, 1.15)  # so that intervals stand side by side
    parts = trained.groupby("labels", sort=False)
    for (labels, part), (color, _), shift in zip(parts, SERIES, shifts, strict=False):
        style = {"fmt": "o-", "color": color, "label": names.get(labels, f"stage 2 from {labels}")}
        ax.errorbar(part["tasks"] * shift, part["value"], _reach(part), capsize=3, **style)
    counts = sorted(set(trained["tasks"]))
    ax.set_xscale("log")
    ax.set_xticks(counts, list(map(str, counts)))
    ax.minorticks_off()
    ax.set(xlabel="distinct train tasks", ylabel="success, percent", ylim=(0, None))
    ax.legend(frameon=False)
    _footnote(sheet, caption)
    return sheet


def advantage_colors(advantages: Sequence[float]) -> list[str]:
    """Blue above the group's mean, vermilion below it, grey at it: how far is for the length of a bar."""
    return [(GREY, BLUE, VERMILION)[int(np.sign(advantage))] for advantage in advantages]


@styled
def probability_bars(
    plans: Sequence[str], before: Sequence[float], after: Sequence[float], advantages: Sequence[float]
) -> Sheet:
    """The probability of each plan before (light grey) and after a step (in the `advantage_colors`)."""
    sheet = Sheet(figsize=(7, 0.6 * len(plans) + 0.9))
    ax, heights = sheet.subplots(), np.arange(len(plans))[::-1]
    colors = advantage_colors(advantages)
    ax.barh(heights + 0.19, before, 0.36, color="#C8C8C8")
    ax.barh(heights - 0.19, after, 0.36, color=colors)
    for height, values in zip(heights, zip(before, after, strict=True), strict=True):
        for value, name, offset in zip(values, ("before", "after"), (0.19, -0.19), strict=True):
            ax.text(value, height + offset, f" {value:.3f} {name}", va="center", fontsize=8)
    labels = [f"{plan}\n(A = {value:+.2f})" for plan, value in zip(plans, advantages, strict=True)]
    ax.set_yticks(heights, labels)
    ax.set(xlim=(0, 1.2 * max(*before, *after)), xlabel="probability of the plan")
    return sheet


def _offsets(count: int) -> np.ndarray:
    """Centres of `count` bars side by side around 0, together 0.8 wide."""
    return (np.arange(count) - (count - 1) / 2) * 0.8 / count


def _reach(rows: pd.DataFrame) -> np.ndarray:
    """Lengths of the intervals below and above `value`: 2 x rows."""
    return np.clip([rows["value"] - rows["low"], rows["high"] - rows["value"]], 0, None)


def _bars(ax: Axes, rows: pd.DataFrame, offset: float, **style: object) -> None:
    centres = np.arange(len(rows)) + offset
    ax.bar(centres, rows["value"], **style)
    ax.errorbar(centres, rows["value"], _reach(rows), fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)


def _footnote(sheet: Sheet, caption: str) -> None:
    wrapped = textwrap.fill(caption, int(16 * sheet.get_figwidth()))
    sheet.supxlabel(wrapped, x=0.01, ha="left", fontsize=7.5, color="#444444")
