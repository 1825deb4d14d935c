"""Pictures: steps, trajectories and GRPO groups on screenshots, widget trees, the kit at a glance."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from PIL import Image

from coda_lib.action import Action, ActionType
from coda_lib.grammar import action_text
from coda_lib.trajectory import Step, Trajectory, decode_image
from coda_study.show.figures import (
    BLUE,
    GREEN,
    GREY,
    INK,
    OUTLINE,
    VERMILION,
    Sheet,
    advantage_colors,
    styled,
)

if TYPE_CHECKING:
    from sciencedesk.desk.desk import Element

_MARK_SIZES = {"x": 11, "o": 19, "s": 19, ".": 7}  # points
_DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


def action_label(action: Action, size: tuple[int, int]) -> str:
    """An action in words, with its coordinates in pixels of an image of `size` (width, height)."""
    ends = [(action.x, action.y), (action.x2, action.y2)]
    points = [f"({x * size[0]:.0f}, {y * size[1]:.0f})" for x, y in ends if x is not None]
    text = "" if action.text is None else f"“{_shorten(action.text, 28)}”"
    parts = [action.type.label, action.direction, text, " → ".join(points)]
    return " ".join(part for part in parts if part)


@styled
def draw_step(step: Step, ax: Axes | None = None) -> Figure:
    """The screenshot o_t under its plan p_t, with the action a_t drawn on it and written below.

    A cross marks a click (ringed: double click; boxed: right click), a ring a hover, an arrow a drag or a
    scroll; what has no place (typed text, keys, the end) is written on the screen.  The line below names the
    action, or the fault of a reply that was none.
    """
    ax = Sheet(figsize=(5, 4.5)).add_subplot() if ax is None else ax
    image = step.image
    _show(ax, image, step.plan)
    for action in step.actions:
        _mark(ax, action, image.size, VERMILION)
    placeless = [action_label(action, image.size) for action in step.actions if action.x is None]
    style = {"color": VERMILION, "weight": "bold", "path_effects": OUTLINE}
    ax.text(0.5, 0.06, "\n".join(placeless), transform=ax.transAxes, ha="center", **style)
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
    axes = _panels(sheet, panels, columns)
    for number, (ax, step) in enumerate(zip(axes, trajectory.steps, strict=False), start=1):
        draw_step(step, ax)
        ax.set_title(_wrap(f"{number}. {step.plan}", ax))
    last = axes[-1]
    outcome = {True: "success", False: "no success", None: "not checked"}[trajectory.success]
    _show(last, decode_image(trajectory.final_screenshot), f"Ended with {trajectory.stop.value}: {outcome}")
    _below(last, f"answer: {trajectory.answer}" if trajectory.answer is not None else "", INK)
    episode = f"{trajectory.task_id}, planner {trajectory.planner}, run {trajectory.run}"
    heading = textwrap.fill(f"{episode}: {trajectory.instruction}", 42 * columns)
    sheet.suptitle(heading, x=0.01, ha="left", fontsize=10, weight="bold")
    return sheet


@styled
def group_rewards(
    image: Image.Image,
    actions: Sequence[Action | None],
    rewards: Sequence[float],
    advantages: Sequence[float],
    target: Action | None = None,
) -> Sheet:
    """One GRPO group: the executor's action for each plan, its reward (eq. 1) and advantage (eq. 2).

    `actions` holds one action per plan (None where the reply was none), `rewards` values in [0, 2],
    `advantages` their group-normalised values.  Blue is above the group's mean, vermilion below, grey at it.
    `target` is the labelled positive action a_T, ringed in green.
    """
    colors = advantage_colors(advantages)
    names = ["no action" if action is None else action_label(action, image.size) for action in actions]
    sheet = Sheet(figsize=(10, max(3.6, 0.33 * len(actions) + 1)))
    left, right = sheet.subplots(1, 2, width_ratios=[1.1, 1])
    _show(left, image, f"The actions that {len(actions)} plans led to")
    # plans whose actions start at about the same place share a label
    places: dict[tuple[float, float], list[str]] = {}
    for number, (action, color) in enumerate(zip(actions, colors, strict=True), start=1):
        if action is not None and action.x is not None:
            _mark(left, action, image.size, color)
            near = [place for place in places if np.hypot(place[0] - action.x, place[1] - action.y) < 0.04]
            places.setdefault(near[0] if near else (action.x, action.y), []).append(str(number))
    _numbers(left, image, places)
    left.set_title(left.get_title(loc="left"), pad=22)
    left.xaxis.labelpad = 18
    if target is not None:
        _mark(left, target, image.size, GREEN, ring=True)
        _below(left, f"green: the labelled action a_T, {action_label(target, image.size)}", GREEN)
    rows = np.arange(1, len(actions) + 1)
    right.axvline(np.mean(rewards), color=INK, linewidth=0.8, linestyle=":", zorder=0)
    right.barh(rows, rewards, color=colors, height=0.7)
    for row, reward, advantage in zip(rows, rewards, advantages, strict=True):
        text = f"{reward:.2f}   A = {advantage:+.2f}".replace("-", "−")
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        right.text(reward + 0.04, row, text, va="center", fontsize=8, bbox=box)
    right.set_yticks(rows, [f"{name}   {row}" for row, name in zip(rows, names, strict=True)], fontsize=8)
    right.invert_yaxis()
    right.set(xlim=(0, 2.9), xticks=[0, 0.5, 1, 1.5, 2], xlabel="reward r (of 2); dotted: mean of the group")
    right.set_title("Reward r and advantage A of each plan\nblue: above the mean, orange: below")
    return sheet


def _numbers(ax: Axes, image: Image.Image, places: Mapping[tuple[float, float], Sequence[str]]) -> None:
    """Write what is at each place (x, y: fractions of the screen) above or below the screen, a line to it.

    So no number hides a part of the screen or of the title.
    """
    for edge, way in ((-0.05, "upper"), (1.05, "lower")):
        there = sorted(place for place in places if (place[1] < 0.5) == (way == "upper"))
        texts = [", ".join(places[place]) for place in there]
        widths = np.array([0.025 + 0.02 * len(text) for text in texts])
        left = np.maximum(np.array([x for x, _ in there]) - widths / 2, 0)
        for i in range(1, len(there)):  # none over another one,
            left[i] = max(left[i], left[i - 1] + widths[i - 1])
        right = np.minimum(left + widths, 1 - np.append(np.cumsum(widths[:0:-1])[::-1], 0)[: len(there)])
        for (x, y), text, at in zip(there, texts, right - widths / 2, strict=True):  # and none outside
            line = {"arrowstyle": "-", "color": INK, "linewidth": 0.6, "alpha": 0.6, "shrinkB": 5}
            point, at = (x * image.width, y * image.height), (at * image.width, edge * image.height)
            style = {"ha": "center", "va": "center", "fontsize": 8, "weight": "bold"}
            ax.annotate(text, point, at, arrowprops=line, annotation_clip=False, **style)


def _show(ax: Axes, image: Image.Image, title: str) -> None:
    _picture(ax, image)
    ax.set(xlim=(-0.5, image.width - 0.5), ylim=(image.height - 0.5, -0.5), title=_wrap(title, ax))


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
    """Draw an action that has a point on an image of `size`; with `ring`, a wide ring around the point."""
    if action.x is None:
        return
    x, y, end = action.x * size[0] - 0.5, action.y * size[1] - 0.5, None
    match action.type:
        case ActionType.CLICK:
            shapes = "x"
        case ActionType.DOUBLE_CLICK:
            shapes = "xo"
        case ActionType.RIGHT_CLICK:
            shapes = "xs"
        case ActionType.HOVER:
            shapes = "o"
        case ActionType.MOUSE_DOWN | ActionType.MOUSE_UP:
            shapes = "."
        case ActionType.DRAG:
            shapes, end = ".", (action.x2 * size[0] - 0.5, action.y2 * size[1] - 0.5)
        case ActionType.SCROLL:
            step_x, step_y = _DIRECTIONS[action.direction]
            shapes, end = ".", (x + 0.12 * size[1] * step_x, y + 0.12 * size[1] * step_y)
        case (
            ActionType.TYPE | ActionType.HOTKEY | ActionType.KEY_DOWN | ActionType.KEY_UP
            | ActionType.WAIT | ActionType.DONE | ActionType.FAIL | ActionType.ANS
        ):  # fmt: skip
            return
        case _:
            assert_never(action.type)
    if end:
        arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 2, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", end, (x, y), arrowprops=arrow | {"mutation_scale": 14, "path_effects": OUTLINE})
    style = {"markeredgewidth": 2.2, "color": color, "fillstyle": "none", "path_effects": OUTLINE}
    for shape in "o" if ring else shapes:
        ax.plot(x, y, shape, markersize=28 if ring else _MARK_SIZES[shape], **style)


@styled
def idea(trajectory: Trajectory) -> Sheet:
    """An episode's first step: screen, planner, executor, next screen, and what is trained."""
    step, following = trajectory.steps[0], [later.screenshot for later in trajectory.steps[1:]]
    before, after = step.image, decode_image([*following, trajectory.final_screenshot][0])
    size = before.size
    sheet = Sheet(figsize=(10.5, 3.7), layout="none")
    canvas = sheet.add_axes((0, 0, 1, 1))
    canvas.set(xlim=(0, 1), ylim=(0, 1))
    canvas.set_axis_off()
    action = step.actions[0]
    screens_shown = ((0.01, before, "the screen, and the action"), (0.72, after, "the next screen"))
    for left, picture, title in screens_shown:
        ax = sheet.add_axes((left, 0.2, 0.27, 0.58))
        _picture(ax, picture, title)
        if picture is before and action.x is not None:
            ax.plot(action.x * size[0], action.y * size[1], "x", color=VERMILION, ms=12, mew=2.5)
    canvas.text(0.01, 0.93, f"Task: {trajectory.instruction}", weight="bold")
    _box(canvas, (0.34, 0.62), BLUE, "Planner (trained)", step.plan)
    _box(canvas, (0.34, 0.1), GREY, "Executor (frozen)", action_text(step.actions, size))
    _arrow(canvas, (0.285, 0.6), (0.33, 0.72), INK, "-")
    _arrow(canvas, (0.285, 0.36), (0.33, 0.24), INK, "-")
    _arrow(canvas, (0.67, 0.24), (0.715, 0.36), INK, "-")
    _arrow(canvas, (0.42, 0.61), (0.42, 0.36), INK, "-")
    canvas.text(0.41, 0.485, "plan", ha="right", va="center")
    _arrow(canvas, (0.53, 0.36), (0.53, 0.61), VERMILION, "--")
    canvas.text(0.54, 0.485, "reward of the action\n(training)", va="center", color=VERMILION)
    return sheet


def _box(ax: Axes, corner: tuple[float, float], color: str, title: str, text: str) -> None:
    ax.add_patch(FancyBboxPatch(corner, 0.32, 0.24, boxstyle="round,pad=0.005", fc="white", ec=color, lw=2))
    ax.text(corner[0] + 0.16, corner[1] + 0.17, title, ha="center", weight="bold", color=color)
    ax.text(corner[0] + 0.16, corner[1] + 0.08, text, ha="center", va="center", fontsize=8.5)


def _arrow(ax: Axes, tail: tuple[float, float], head: tuple[float, float], color: str, dashes: str) -> None:
    arrow = {"arrowstyle": "-|>", "color": color, "lw": 1.6, "linestyle": dashes}
    ax.annotate("", head, tail, arrowprops=arrow)


@styled
def screens(pictures: Mapping[str, Image.Image], columns: int = 2) -> Sheet:
    """Pictures under their titles, `columns` in a row."""
    sheet = Sheet(figsize=(5 * columns, 4 * -(-len(pictures) // columns)))
    for ax, (title, picture) in zip(_panels(sheet, len(pictures), columns), pictures.items(), strict=True):
        _picture(ax, picture, title)
    return sheet


def _panels(sheet: Sheet, count: int, columns: int) -> list[Axes]:
    """`count` axes of a grid, row by row; the rest of its last row stays empty."""
    axes = sheet.subplots(-(-count // columns), columns, squeeze=False).flatten()
    for ax in axes[count:]:
        ax.set_axis_off()
    return list(axes[:count])


@styled
def draw_elements(image: Image.Image, elements: Sequence[Element]) -> Sheet:
    """The widget tree on its screenshot: a box around everything that has a name, numbered as in the list."""
    sheet = Sheet(figsize=(7, 5.4))
    ax = sheet.add_subplot()
    _picture(ax, image)
    for number, element in enumerate(elements):
        x, y, w, h = element.box
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), w, h, fill=False, ec=VERMILION, lw=1.2))
        style = {"fontsize": 7, "color": VERMILION, "weight": "bold", "path_effects": OUTLINE}
        ax.text(x + 1, y + 1, str(number), va="top", **style)
    return sheet


def _picture(ax: Axes, image: Image.Image, title: str = "") -> None:
    ax.imshow(image)
    ax.set(xticks=[], yticks=[], title=title)
    ax.spines[:].set(visible=True, color="#BBBBBB")
