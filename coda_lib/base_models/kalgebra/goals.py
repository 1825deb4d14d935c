"""Goals of our own in KAlgebra, who knows the way to them, and tasks that ask for them; those under data/tasks have no part."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coda_lib.base_models.kalgebra.scene import Scene
from coda_lib.envs.desktop.kalgebra import RESOLUTIONS
from coda_lib.envs.scienceboard.files import BoardTask
from coda_lib.envs.scienceboard.tasks import AppTask

TABS = ("Calculator", "2D Graph", "3D Graph", "Dictionary")
STYLES = ("Dots", "Lines", "Solid")
MODES = ("Calculate", "Evaluate")
WORDS = ("abs", "arccos", "arcsin", "arctan", "ceiling", "conjugate", "cos", "cosh", "cot", "csc", "divide", "exp", "floor", "ln",
         "log", "max", "min", "product", "quotient", "rem", "root", "scalarproduct", "sec", "selector", "sin", "sinh", "sum",
         "tan", "tanh", "transpose")  # fmt: skip
_ON = {"grid": "2D Graph", "resolution": "2D Graph", "style": "3D Graph", "mode": "Calculator", "variable": "Calculator",
       "surface": "3D Graph", "search": "Dictionary", "plots": "2D Graph", "shown": "2D Graph"}  # the tab where it is done
_FIELD = {"variable": "Console", "surface": "Surface", "search": "Look for", "plots": "Plot"}  # where it is typed
ALL = "ctrl a"
STEPS = 10  # a goal may take
START = {
    "tab": "Calculator", "mode": "Evaluate", "resolution": "Normal", "grid": True, "style": "Solid", "plots": [], "shown": [],
    "surface": "", "search": "", "variables": {},
}  # fmt: skip; what KAlgebra holds once it has started, as far as goals are about it


@dataclass(frozen=True)
class Goal:
    """Something to reach: one key of the state with its value, or one variable with its."""

    key: str
    value: Any
    texts: tuple[str, ...]  # ways to ask for it
    typed: str = ""  # what is to be typed for it
    about: str = ""  # the plot that it is about

    def reached(self, state: dict[str, Any]) -> bool:
        if self.key != "variable":
            return state[self.key] == self.value
        name, value = self.value
        try:
            return math.isclose(float(state["variables"][name]), value, rel_tol=1e-4)
        except (KeyError, ValueError):
            return False

    def evaluate(self) -> dict[str, Any]:
        """As of a task file's `evaluate`."""
        if self.key == "variable":
            return {"type": "val", "key": self.value[0], "value": self.value[1]}
        return {"type": "info", "key": self.key, "value": self.value}

    def step(self, now: Scene, last: dict[str, Any] | None) -> dict[str, Any] | None:
        """The step after `last` of somebody who knows the way, in names; None where it is reached."""
        if self.reached(now.state):
            return None
        tab = self.value if self.key == "tab" else _ON[self.key]
        menu = None if self.key in ("tab", "shown", *_FIELD) else f"{tab} menu"
        if now.menu not in (None, menu):
            return {"press": "esc"}
        if now.state["tab"] != tab:
            return {"click": self._towards(tab, now)}
        if menu:
            item = "Grid" if self.key == "grid" else self.value
            return {"click": item if now.menu else menu}
        if self.about:
            return self._to_plot(now, last)
        if tab == "2D Graph" and not now.shows("Plot"):
            return {"click": "Add"}
        if tab == "2D Graph" and now.shows("Remove"):  # another plot is being edited
            return {"click": "List"}
        if now.typing != _FIELD[self.key] or last not in ({"click": _FIELD[self.key]}, {"press": ALL}):
            return {"click": _FIELD[self.key]}
        return {"press": ALL} if now.written and last != {"press": ALL} else {"type": self.typed + "\n"}

    def _to_plot(self, now: Scene, last: dict[str, Any] | None) -> dict[str, Any]:
        edit = {"double": self.about}  # which is where it can be removed
        if not now.shows(self.about):
            return {"click": "Remove" if last == edit and now.shows("Remove") else "List"}
        return edit if self.key == "plots" else {"click": f"box of {self.about}"}

    @staticmethod
    def _towards(tab: str, now: Scene) -> str:
        """The tab, or what brings it into sight where it has no room."""
        if now.shows(tab):
            return tab
        first = next((name for name in TABS if now.shows(name)), TABS[0])
        return "Scroll Left" if TABS.index(tab) < TABS.index(first) else "Scroll Right"


def _setting(key: str, value: Any, *texts: str) -> Goal:
    return Goal(key, value, tuple(text.format(value) for text in texts))


def settings() -> list[Goal]:
    """Each thing that can be set, with each of its values."""
    return [
        *(_setting("tab", tab, "Open the tab {}.", "Go to {}.") for tab in TABS),
        *(_setting("resolution", name, "Set the resolution to '{}'.", "Use the resolution '{}'.") for name in RESOLUTIONS),
        *(_setting("style", name, "Set the style to '{}'.", "Draw surfaces as '{}'.") for name in STYLES),
        *(_setting("mode", name, "Switch the calculator to '{}'.", "Set the mode to '{}'.") for name in MODES),
        Goal("grid", False, ("Hide the grid.", "Switch the grid off.")),
        Goal("grid", True, ("Show the grid.", "Switch the grid on.")),
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


def draw_goal(state: dict[str, Any], rng: random.Random) -> Goal:
    """Something that does not hold yet; what is done to plots only where there are some."""
    kind, plots = rng.random(), state["plots"]
    if kind < 0.2:
        name, (expression, value) = rng.choice("abcdghjkmpqrstuvw"), _number(rng)
        texts = f"Let {name} be {expression}.", f"Store {expression} in {name}."
        goal = Goal("variable", (name, float(value)), texts, f"{name}:={expression}")
    elif kind < 0.4 and len(plots) < 4:
        curve = _curve(rng)
        goal = Goal("plots", [*plots, curve], (f"Plot {curve}.", f"Add the curve {curve}."), curve)
    elif kind < 0.5:
        surface = _surface(rng)
        goal = Goal("surface", surface, (f"Draw {surface}.", f"Show the surface {surface}."), surface)
    elif kind < 0.6:
        word = rng.choice(WORDS)
        goal = Goal("search", word, (f"Find {word} in the dictionary.", f"Search for {word}."), word)
    elif kind < 0.75 and plots and len(set(plots)) == len(plots):
        goal = _about(rng.choice(plots), plots, state["shown"], kind < 0.68)
    else:
        goal = rng.choice(settings())
    return draw_goal(state, rng) if goal.reached(state) else goal


def _about(plot: str, plots: Sequence[str], shown: Sequence[str], remove: bool) -> Goal:
    """What can be done to a plot: it is removed, or hidden, or shown again."""
    if remove:
        texts, key, left = (f"Remove the plot {plot}.", f"Delete {plot}."), "plots", [one for one in plots if one != plot]
    elif plot in shown:
        texts, key, left = (f"Hide the plot {plot}.", f"Do not show {plot}."), "shown", [one for one in shown if one != plot]
    else:
        texts, key, left = (f"Show the plot {plot}.", f"Show {plot} again."), "shown", [p for p in plots if p in (*shown, plot)]
    return Goal(key, left, texts, "", plot)


def own_task(identity: str, goals: Sequence[Goal], instruction: str, plots: Sequence[str] = ()) -> AppTask:
    """Goals of our own as a task, which begins with some plots."""
    begin = [{"func": "tab", "index": 1}, *({"func": "func_2d", "expr": plot} for plot in plots)] if plots else []
    board = BoardTask.model_validate({
        "type": "KAlgebra", "sort": "Display", "version": "22.12", "snapshot": "fresh", "instruction": instruction,
        "steps": STEPS * len(goals), "initialize": begin, "evaluate": [goal.evaluate() for goal in goals], "solution": [],
    })  # fmt: skip
    return AppTask(identity, "algebra", "A", instruction, board.steps, (), (), board.ans, (), board)


def draw_wish(state: dict[str, Any], rng: random.Random) -> tuple[list[Goal], str]:
    """One goal, or two in the order in which they are pursued, and the words that ask for them."""
    goals = [draw_goal(state, rng)]
    if rng.random() < 0.3 and goals[0].key != "tab":
        second = draw_goal(state, rng)
        # what is plotted is shown as well: it would undo that something else is all that is shown
        if second.key != goals[0].key and not second.about and (goals[0].key, second.key) != ("shown", "plots"):
            goals.append(second)
    first, *more = (rng.choice(goal.texts) for goal in goals)
    return goals, " and ".join([first[:-1], *(text[0].lower() + text[1:-1] for text in more)]) + "."


def draw_plots(rng: random.Random) -> list[str]:
    """What is plotted at the beginning: half of the time nothing, else a curve."""
    return [_curve(rng)] if rng.random() < 0.5 else []


def draw_task(identity: str, rng: random.Random) -> AppTask:
    """A task of one goal or two; half of them begin with a plot."""
    plots = draw_plots(rng)
    start = START | {"plots": plots, "shown": plots} | ({"tab": "2D Graph"} if plots else {})
    return own_task(identity, *draw_wish(start, rng), plots)


def next_step(goals: Sequence[Goal], now: Scene, last: dict[str, Any] | None) -> dict[str, Any] | None:
    """The next step towards goals, in names; None where all are reached and nothing is left open."""
    steps = (goal.step(now, last) for goal in goals)
    return next((step for step in steps if step), None if now.menu is None else {"press": "esc"})


def draw_text(rng: random.Random) -> str:
    """A text such as those that goals need typed."""
    return rng.choice([_curve(rng), _surface(rng), rng.choice(WORDS), f"{rng.choice('abcdgh')}:={_number(rng)[0]}"])
