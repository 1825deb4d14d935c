"""Figures: steps and trajectories on their screenshots, GRPO groups, learning curves, bars of the tables.

Every function returns a `Sheet`, a matplotlib figure that belongs to no window and no global state and that a notebook
shows by itself.  `save` writes it as SVG and PNG, the same bytes for the same figure, with its caption inside the file.
Colours are from Okabe and Ito's palette, which people with any colour vision can tell apart.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from PIL import Image

from coda_lib.action import Action, ActionType
from coda_lib.files import atomic_path
from coda_lib.paper import LABELS
from coda_lib.report import SYSTEM_LABELS
from coda_lib.tables import PAPER_MODELS, beside_paper
from coda_lib.trajectory import Step, Trajectory

BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE, GREY = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#8C8C8C"
)  # fmt: skip
SYSTEM_COLORS = {"base": GREY, "executor": ORANGE, "stage1": SKY, "stage2": BLUE}
SERIES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (PURPLE, ":"), (ORANGE, "-"), (SKY, "--"))  # colour, dashes
ADVANTAGE = LinearSegmentedColormap.from_list("advantage", [VERMILION, "#A6A6A6", BLUE])  # below, at, above the mean
INK = "#1A1A1A"
CURVES = {"reward": "training reward (of 2)", "kl": "KL to the reference"}  # columns of metrics.jsonl and their labels
STYLE = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same letters on every machine
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # a plan may contain dollar signs
    "legend.frameon": False,
    "svg.hashsalt": "coda",
    "figure.constrained_layout.use": True,
}
styled = matplotlib.rc_context(STYLE)
DPI = 144
OUTLINE = [withStroke(linewidth=4, foreground="white")]  # makes marks and words readable on any screen


class Sheet(Figure):
    """A figure that notebooks show without a plotting back end, always as the same bytes."""

    def _repr_png_(self) -> bytes:
        return _render(self, "png", "")


@styled
def _render(figure: Figure, kind: str, caption: str) -> bytes:
    metadata = {"svg": {"Date": None, "Creator": None, "Description": caption}, "png": {"Software": None}}[kind]
    if kind == "png" and caption:
        metadata["Description"] = caption
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata)
    return buffer.getvalue()


def save(figure: Figure, path: Path, caption: str) -> list[Path]:
    """Write path.svg and path.png, each with the caption in its metadata; return the files written.

    The caption says run, number of tasks and runs, interval and provenance: `report.caption` makes one from a table.
    """
    files = [path.with_name(f"{path.name}.{kind}") for kind in ("svg", "png")]
    for file in files:
        content = _render(figure, file.suffix[1:], caption)
        with atomic_path(file) as temporary:
            temporary.write_bytes(content)
    return files


# ------------------------------------------------------------------------------------------ screenshots with actions


def action_label(action: Action, size: tuple[int, int]) -> str:
    """An action in words, with its coordinates in pixels of an image of `size` (width, height)."""
    names = {
        ActionType.CLICK: "click",
        ActionType.DOUBLE_CLICK: "double click",
        ActionType.RIGHT_CLICK: "right click",
        ActionType.DONE: "done",
        ActionType.FAIL: "give up",
    }
    ends = [(action.x, action.y), (action.x2, action.y2)]
    points = [f"({x * size[0]:.0f}, {y * size[1]:.0f})" for x, y in ends if x is not None]
    text = "" if action.text is None else f"“{_shorten(action.text, 28)}”"
    words = [names.get(action.type, action.type.value), action.direction, text, " → ".join(points)]
    return " ".join(word for word in words if word)


@styled
def draw_step(step: Step, ax: Axes | None = None) -> Figure:
    """The screenshot o_t under its plan p_t, with the action a_t drawn on it and written below.

    A cross marks a click (ringed: double click; boxed: right click), a ring a hover, an arrow a drag or a scroll; what
    has no place (typed text, keys, the end) is written on the screen.  The line below names the action, or the fault
    of a reply that was none.
    """
    ax = Sheet(figsize=(5, 4.5)).add_subplot() if ax is None else ax
    image = step.image
    _show(ax, image, step.plan)
    for action in step.actions:
        _mark(ax, action, image.size, VERMILION)
    placeless = [action_label(action, image.size) for action in step.actions if action.x is None]
    ax.text(
        *(0.5, 0.06), "\n".join(placeless), transform=ax.transAxes, ha="center", weight="bold", color=VERMILION,
        path_effects=OUTLINE,
    )  # fmt: skip
    label = "; ".join(action_label(action, image.size) for action in step.actions) or "no action"
    if step.error:
        label = f"not an action: {_shorten(step.error, 90)}"
    _below(ax, label, VERMILION if step.error else INK)
    return ax.figure


@styled
def strip(trajectory: Trajectory, columns: int = 4) -> Sheet:
    """A whole episode, a panel per step and one for the last screen, at most `columns` panels in a row."""
    panels = len(trajectory.steps) + 1
    columns = min(columns, panels)
    rows = -(-panels // columns)
    sheet = Sheet(figsize=(3.3 * columns, 3.05 * rows + 0.5))
    axes = sheet.subplots(rows, columns, squeeze=False).flatten()
    for number, (ax, step) in enumerate(zip(axes, trajectory.steps, strict=False), start=1):
        draw_step(step, ax)
        ax.set_title(_wrap(f"{number}. {step.plan}", ax))
    last = axes[panels - 1]
    outcome = {True: "success", False: "no success", None: "not checked"}[trajectory.success]
    _show(last, Image.open(io.BytesIO(trajectory.final_screenshot)), f"Ended with {trajectory.stop.value}: {outcome}")
    _below(last, f"answer: {trajectory.answer}" if trajectory.answer is not None else "", INK)
    for ax in axes[panels:]:
        ax.set_axis_off()
    heading = f"{trajectory.task_id}, planner {trajectory.planner}, run {trajectory.run}: {trajectory.instruction}"
    sheet.suptitle(textwrap.fill(heading, 42 * columns), x=0.01, ha="left", fontsize=10, weight="bold")
    return sheet


@styled
def group_rewards(
    image: Image.Image,
    actions: Sequence[Action | None],
    rewards: Sequence[float],
    advantages: Sequence[float],
    target: Action | None = None,
) -> Sheet:
    """One GRPO group: what the executor made of each of the G plans, its reward (eq. 1) and its advantage (eq. 2).

    `actions` holds one action per plan (None where the reply was none), `rewards` values in [0, 2], `advantages` their
    group-normalised values.  Blue is above the group's mean, vermilion below.  `target` is the labelled positive
    action a_T, ringed in green.
    """
    reach = min(1.0, max(1e-9, float(np.abs(advantages).max())))  # full colour from one standard deviation on
    colors = [ADVANTAGE(0.5 + advantage / reach / 2) for advantage in advantages]
    names = ["no action" if action is None else action_label(action, image.size) for action in actions]
    sheet = Sheet(figsize=(10, max(3.6, 0.33 * len(actions) + 1)))
    left, right = sheet.subplots(1, 2, width_ratios=[1.1, 1])
    _show(left, image, f"The actions that {len(actions)} plans led to")
    places: dict[tuple[float, float], list[str]] = {}  # plans whose actions start at about the same place share a label
    for number, (action, color) in enumerate(zip(actions, colors, strict=True), start=1):
        if action is not None and action.x is not None:
            _mark(left, action, image.size, color)
            near = [place for place in places if np.hypot(place[0] - action.x, place[1] - action.y) < 0.04]
            places.setdefault(near[0] if near else (action.x, action.y), []).append(str(number))
    for (x, y), numbers in places.items():
        point = (x * image.width, y * image.height)
        flip = -1 if x > 0.85 else 1
        left.annotate(
            ", ".join(numbers), point, (9 * flip, 9), textcoords="offset points", ha="left" if flip > 0 else "right",
            fontsize=8, weight="bold", path_effects=OUTLINE, zorder=5,
        )  # fmt: skip
    if target is not None:
        _mark(left, target, image.size, GREEN, ring=True)
        _below(left, f"green: the labelled action a_T, {action_label(target, image.size)}", GREEN)
    rows = np.arange(1, len(actions) + 1)
    right.axvline(np.mean(rewards), color=INK, linewidth=0.8, linestyle=":")
    right.barh(rows, rewards, color=colors, height=0.7)
    for row, reward, advantage in zip(rows, rewards, advantages, strict=True):
        text = f"{reward:.2f}   A = {advantage:+.2f}".replace("-", "−")
        right.text(reward + 0.04, row, text, va="center", fontsize=8, path_effects=OUTLINE)
    right.set_yticks(rows, [f"{name}   {row}" for row, name in zip(rows, names, strict=True)], fontsize=8)
    right.invert_yaxis()
    right.set(xlim=(0, 2.9), xticks=[0, 0.5, 1, 1.5, 2], xlabel="reward r (of 2); dotted: mean of the group")
    right.set_title("Reward r and advantage A: blue above the mean, orange below")
    return sheet


def _show(ax: Axes, image: Image.Image, title: str) -> None:
    ax.imshow(image, aspect="equal")
    ax.set(xlim=(-0.5, image.width - 0.5), ylim=(image.height - 0.5, -0.5), xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color="#BBBBBB")
    ax.set_title(_wrap(title, ax))


def _wrap(text: str, ax: Axes) -> str:
    """`text` in lines as wide as the panel, three at most."""
    inches = ax.figure.get_figwidth() / ax.get_gridspec().ncols
    return "\n".join(textwrap.wrap(text, int(12.5 * inches), max_lines=3, placeholder=" …"))


def _below(ax: Axes, text: str, color: str) -> None:
    ax.set_xlabel(_wrap(text, ax), color=color, loc="left", fontsize=8)


def _shorten(text: str, length: int) -> str:
    shown = text.replace("\n", "⏎")
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def _mark(ax: Axes, action: Action, size: tuple[int, int], color: object, ring: bool = False) -> None:
    """Draw an action that has a place on an image of `size`; with `ring`, a wide ring around its point and no cross."""
    if action.x is None:
        return
    x, y = action.x * size[0] - 0.5, action.y * size[1] - 0.5
    if action.type in (ActionType.DRAG, ActionType.SCROLL):
        step_x, step_y = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}.get(action.direction, (0, 0))
        end = (x + 0.12 * size[1] * step_x, y + 0.12 * size[1] * step_y)
        if action.type is ActionType.DRAG:
            end = (action.x2 * size[0] - 0.5, action.y2 * size[1] - 0.5)
        arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 2, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 14}
        ax.annotate("", end, (x, y), arrowprops=arrow | {"path_effects": OUTLINE})
    shapes = {ActionType.CLICK: "x", ActionType.DOUBLE_CLICK: "xo", ActionType.RIGHT_CLICK: "xs", ActionType.HOVER: "o"}
    points = {"x": 11, "o": 19, "s": 19, ".": 7}
    for shape in "o" if ring else shapes.get(action.type, "."):
        ax.plot(
            *(x, y, shape), markersize=28 if ring else points[shape], markeredgewidth=2.2, color=color,
            fillstyle="none", path_effects=OUTLINE,
        )  # fmt: skip


# -------------------------------------------------------------------------------------------------------- curves, bars


@styled
def learning_curves(
    logs: Mapping[str, pd.DataFrame],
    metrics: Mapping[str, str] = CURVES,
    smooth: int = 10,
    caption: str = "",
) -> Sheet:
    """Training metrics by optimizer step, a panel per metric, a line per name.

    `logs` maps a name (an application, a seed) to its metrics.jsonl as a frame with a column `step`; `metrics` maps
    columns to axis labels.  Thin lines are the logged values, thick lines their mean over the last `smooth` records.
    """
    sheet = Sheet(figsize=(4.6 * len(metrics), 3.2))
    for ax, (metric, label) in zip(sheet.subplots(1, len(metrics), squeeze=False)[0], metrics.items(), strict=True):
        for (name, log), (color, dashes) in zip(logs.items(), SERIES * -(-len(logs) // len(SERIES)), strict=False):
            record = log[["step", metric]].dropna()
            ax.plot(record["step"], record[metric], color=color, linewidth=0.6, alpha=0.35)
            mean = record[metric].rolling(smooth, min_periods=1).mean()
            ax.plot(record["step"], mean, dashes, color=color, linewidth=1.8, label=LABELS.get(name, name))
        ax.set(xlabel=f"optimizer step (thick: mean of {smooth})", title=label)
    handles, names = ax.get_legend_handles_labels()
    sheet.legend(handles, names, loc="outside right upper")
    _footnote(sheet, caption)
    return sheet


@styled
def table1_bars(table: pd.DataFrame, caption: str = "") -> Sheet:
    """Table 1 as bars with 95 % intervals (left), beside the paper's figures (right), a row of panels per metric.

    `table` is `report.table1`'s; `caption` is written under the figure.
    """
    beside = beside_paper(table)
    metrics, systems = list(dict.fromkeys(table["metric"])), list(dict.fromkeys(table["system"]))
    apps = [app for app in LABELS if app in set(table["application"])]
    sheet = Sheet(figsize=(10.5, 2.7 * len(metrics) + 0.9))
    grid = sheet.subplots(len(metrics), 2, sharex=True, sharey="row", squeeze=False)
    for (left, right), metric in zip(grid, metrics, strict=True):
        rows = beside[beside["metric"] == metric].set_index(["system", "application"])
        for system, offset in zip(systems, _offsets(len(systems)), strict=True):
            own = rows.loc[system].reindex(apps)
            color, label = SYSTEM_COLORS[system], SYSTEM_LABELS[system]
            _bars(left, own["value"], own["low"], own["high"], len(systems), offset, color, label)
            _bars(right, own["paper_value"], None, None, len(systems), offset, color, PAPER_MODELS[system])
        provenance = rows["provenance"].iloc[0]
        left.set(title=f"{metric}, ScienceDesk ({provenance})", ylabel="success in %")
        right.set(title=f"{rows['paper_metric'].iloc[0]}, ScienceBoard (reported by the paper, no intervals)")
        for ax in (left, right):
            ax.set_xticks(range(len(apps)), [LABELS[app] for app in apps])
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
        _bars(ax, rows["value"], rows["low"], rows["high"], len(measures), offset, color, measure)
    ax.set_xticks(range(len(apps)), [LABELS[app] for app in apps])
    ax.set(ylim=(0, 105), ylabel="%", yticks=range(0, 101, 20))
    sheet.legend(loc="outside upper left", ncols=len(measures))
    _footnote(sheet, caption)
    return sheet


def _offsets(count: int) -> np.ndarray:
    """Centres of `count` bars side by side around 0, together 0.8 wide."""
    return (np.arange(count) - (count - 1) / 2) * 0.8 / count


def _bars(
    ax: Axes,
    values: pd.Series,
    low: pd.Series | None,
    high: pd.Series | None,
    count: int,
    offset: float,
    color: str,
    label: str,
) -> None:
    centres = np.arange(len(values)) + offset
    ax.bar(centres, values, width=0.74 / count, color=color, label=label)
    if low is not None:
        reach = np.clip([values - low, high - values], 0, None)
        ax.errorbar(centres, values, reach, fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)


def _footnote(sheet: Sheet, caption: str) -> None:
    wrapped = textwrap.fill(caption, int(16 * sheet.get_figwidth()))
    sheet.supxlabel(wrapped, x=0.01, ha="left", fontsize=7.5, color="#444444")
