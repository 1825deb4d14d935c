"""Goals in KAlgebra that are drawn at random, the steps to them, and tasks that ask for them; none is a task of data/tasks."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coda_lib.envs.desktop.kalgebra import RESOLUTIONS, TABS
from coda_lib.envs.desktop.kalgebra_scene import Scene
from coda_lib.envs.scienceboard.files import BoardTask
from coda_lib.envs.scienceboard.tasks import AppTask

STYLES = ("Dots", "Lines", "Solid")
MODES = ("Calculate", "Evaluate")
WORDS = ("abs", "arccos", "arcsin", "arctan", "ceiling", "conjugate", "cos", "cosh", "cot", "csc", "divide", "exp", "floor", "ln",
         "log", "max", "min", "product", "quotient", "rem", "root", "scalarproduct", "sec", "selector", "sin", "sinh", "sum",
         "tan", "tanh", "transpose")  # fmt: skip
_TAB = {
    "grid": "2D Graph", "resolution": "2D Graph", "plots": "2D Graph", "shown": "2D Graph", "style": "3D Graph",
    "surface": "3D Graph", "mode": "Calculator", "variable": "Calculator", "search": "Dictionary",
}  # fmt: skip
_FIELD = {"variable": "Console", "surface": "Surface", "search": "Look for", "plots": "Plot"}  # for keys with a text
ALL = "ctrl a"
STEPS = 10  # step limit of a goal
# KAlgebra's state after the start, as far as goals are about it
START = {
    "tab": "Calculator", "mode": "Evaluate", "resolution": "Normal", "grid": True, "style": "Solid", "plots": [], "shown": [],
    "surface": "", "search": "", "variables": {},
}  # fmt: skip


@dataclass(frozen=True)
class StateGoal:
    """A key of KAlgebra's state, or a variable, with the value to reach."""

    key: str
    value: Any
    texts: tuple[str, ...]  # instructions that ask for it
    typed: str = ""  # the text to type
    about: str = ""  # the plot to change

    def reached(self, state: dict[str, Any]) -> bool:
        if self.key != "variable":
            return state[self.key] == self.value
        name, value = self.value
        try:
            return math.isclose(float(state["variables"][name]), value, rel_tol=1e-4)
        except (KeyError, ValueError):
            return False

    def evaluate(self) -> dict[str, Any]:
        """The check in the form of a task file's `evaluate`."""
        if self.key == "variable":
            return {"type": "val", "key": self.value[0], "value": self.value[1]}
        return {"type": "info", "key": self.key, "value": self.value}

    def step(self, now: Scene, last: dict[str, Any] | None) -> dict[str, Any] | None:
        """The right step after `last`, in names; None where the goal is reached."""
        if self.reached(now.state):
            return None
        tab = self.value if self.key == "tab" else _TAB[self.key]
        menu = None if self.key in ("tab", "shown", *_FIELD) else f"{tab} menu"
        if now.menu not in (None, menu):
            return {"press": "esc"}
        if now.state["tab"] != tab:
            return {"click": self._tab_step(tab, now)}
        if menu:
            item = "Grid" if self.key == "grid" else self.value
            return {"click": item if now.menu else menu}
        if self.about:
            return self._plot_step(now, last)
        if tab == "2D Graph" and not now.shows("Plot"):
            return {"click": "Add"}
        if tab == "2D Graph" and now.shows("Remove"):  # another plot is being edited
            return {"click": "List"}
        if now.typing != _FIELD[self.key] or last not in ({"click": _FIELD[self.key]}, {"press": ALL}):
            return {"click": _FIELD[self.key]}
        return {"press": ALL} if now.written and last != {"press": ALL} else {"type": self.typed + "\n"}

    def _plot_step(self, now: Scene, last: dict[str, Any] | None) -> dict[str, Any]:
        edit = {"double": self.about}  # opens the editor, which can remove the plot
        if not now.shows(self.about):
            return {"click": "Remove" if last == edit and now.shows("Remove") else "List"}
        return edit if self.key == "plots" else {"click": f"box of {self.about}"}

    @staticmethod
    def _tab_step(tab: str, now: Scene) -> str:
        """The tab, or the button that scrolls towards it."""
        if now.shows(tab):
            return tab
        first = next((name for name in TABS if now.shows(name)), TABS[0])
        return "Scroll Left" if TABS.index(tab) < TABS.index(first) else "Scroll Right"


def settings() -> list[StateGoal]:
    """Each setting with each of its values."""
    return [
        *(StateGoal("tab", tab, (f"Open the tab {tab}.", f"Go to {tab}.")) for tab in TABS),
        *(StateGoal("resolution", r, (f"Set the resolution to '{r}'.", f"Use the resolution '{r}'.")) for r in RESOLUTIONS),
        *(StateGoal("style", style, (f"Set the style to '{style}'.", f"Draw surfaces as '{style}'.")) for style in STYLES),
        *(StateGoal("mode", m, (f"Switch the calculator to '{m}'.", f"Set the mode to '{m}'.")) for m in MODES),
        StateGoal("grid", False, ("Hide the grid.", "Switch the grid off.")),
        StateGoal("grid", True, ("Show the grid.", "Switch the grid on.")),
    ]


def _number(rng: random.Random) -> tuple[str, float]:
    """An expression without variables, and its value."""
    a, b = rng.randint(2, 30), rng.randint(2, 12)
    values = {
        f"{a}+{b}": a + b, f"{a}-{b}": a - b, f"{a}*{b}": a * b, f"{b}^3": b**3, f"abs({b}-{a})": abs(b - a),
        f"gcd({6 * a}, {4 * b})": math.gcd(6 * a, 4 * b), f"lcm({a}, {b})": math.lcm(a, b),
        f"factorial({b % 8})": math.factorial(b % 8),
    }  # fmt: skip
    return rng.choice(list(values.items()))


def _curve(rng: random.Random) -> str:
    a, b = rng.randint(2, 9), rng.randint(1, 9)
    kinds = (f"{a}*x", f"x+{b}", f"x^{a}", f"{a}*x+{b}", f"sin({a}*x)", f"cos(x)+{b}", f"x^2+{b}", f"{a}*abs(x)")
    return f"x->{rng.choice(kinds)}"


def _surface(rng: random.Random) -> str:
    a, b = rng.randint(2, 9), rng.randint(1, 9)
    kinds = (f"x+{a}*y", f"x*y+{b}", f"sin(x)+{b}", f"x^2+{b}*y", f"cos({a}*y)", f"{a}*x*y")
    return f"(x,y)->{rng.choice(kinds)}"


def draw_goal(state: dict[str, Any], rng: random.Random) -> StateGoal:
    """A goal that is not reached yet; one about a plot only where there are plots."""
    kind, plots = rng.random(), state["plots"]
    if kind < 0.2:
        name, (expression, value) = rng.choice("abcdghjkmpqrstuvw"), _number(rng)
        texts = f"Let {name} be {expression}.", f"Store {expression} in {name}."
        goal = StateGoal("variable", (name, float(value)), texts, f"{name}:={expression}")
    elif kind < 0.4 and len(plots) < 4:
        curve = _curve(rng)
        goal = StateGoal("plots", [*plots, curve], (f"Plot {curve}.", f"Add the curve {curve}."), curve)
    elif kind < 0.5:
        surface = _surface(rng)
        goal = StateGoal("surface", surface, (f"Draw {surface}.", f"Show the surface {surface}."), surface)
    elif kind < 0.6:
        word = rng.choice(WORDS)
        goal = StateGoal("search", word, (f"Find {word} in the dictionary.", f"Search for {word}."), word)
    elif kind < 0.75 and plots and len(set(plots)) == len(plots):
        goal = _about(rng.choice(plots), plots, state["shown"], kind < 0.68)
    else:
        goal = rng.choice(settings())
    return draw_goal(state, rng) if goal.reached(state) else goal


def _about(plot: str, plots: Sequence[str], shown: Sequence[str], remove: bool) -> StateGoal:
    """A plot removed, hidden or shown again."""
    if remove:
        texts, key, rest = (f"Remove the plot {plot}.", f"Delete {plot}."), "plots", [p for p in plots if p != plot]
    elif plot in shown:
        texts, key, rest = (f"Hide the plot {plot}.", f"Do not show {plot}."), "shown", [p for p in shown if p != plot]
    else:
        texts, key, rest = (f"Show the plot {plot}.", f"Show {plot} again."), "shown", [p for p in plots if p in (*shown, plot)]
    return StateGoal(key, rest, texts, "", plot)


def goal_task(identity: str, goals: Sequence[StateGoal], instruction: str, plots: Sequence[str] = ()) -> AppTask:
    """Goals as a task that begins with these plots."""
    begin = [{"func": "tab", "index": 1}, *({"func": "func_2d", "expr": plot} for plot in plots)] if plots else []
    board = BoardTask.model_validate({
        "type": "KAlgebra", "sort": "Display", "version": "22.12", "snapshot": "fresh", "instruction": instruction,
        "steps": STEPS * len(goals), "initialize": begin, "evaluate": [goal.evaluate() for goal in goals], "solution": [],
    })  # fmt: skip
    return AppTask(identity, "algebra", "A", instruction, board.steps, (), (), board.ans, (), board)


def draw_goals(state: dict[str, Any], rng: random.Random) -> tuple[list[StateGoal], str]:
    """One goal, or two in the order in which they are pursued, and the instruction."""
    goals = [draw_goal(state, rng)]
    if rng.random() < 0.3 and goals[0].key != "tab":
        second = draw_goal(state, rng)
        # a new plot is shown as well, and would undo a goal about the plots shown
        if second.key != goals[0].key and not second.about and (goals[0].key, second.key) != ("shown", "plots"):
            goals.append(second)
    first, *more = (rng.choice(goal.texts) for goal in goals)
    return goals, " and ".join([first[:-1], *(text[0].lower() + text[1:-1] for text in more)]) + "."


def draw_plots(rng: random.Random) -> list[str]:
    """The plots at the beginning: in half of the cases none, else a curve."""
    return [_curve(rng)] if rng.random() < 0.5 else []


def draw_task(identity: str, rng: random.Random) -> AppTask:
    """A task of one or two goals."""
    plots = draw_plots(rng)
    start = START | {"plots": plots, "shown": plots} | ({"tab": "2D Graph"} if plots else {})
    return goal_task(identity, *draw_goals(start, rng), plots)


def next_step(goals: Sequence[StateGoal], now: Scene, last: dict[str, Any] | None) -> dict[str, Any] | None:
    """The next step towards goals, in names; None where all are reached and no menu is open."""
    steps = (goal.step(now, last) for goal in goals)
    return next((step for step in steps if step), None if now.menu is None else {"press": "esc"})


def draw_text(rng: random.Random) -> str:
    """A text of the kind that goals have typed."""
    return rng.choice([_curve(rng), _surface(rng), rng.choice(WORDS), f"{rng.choice('abcdgh')}:={_number(rng)[0]}"])
