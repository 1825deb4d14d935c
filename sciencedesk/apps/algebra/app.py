"""Algebra: a console, function plots in two and three dimensions and variables; SymPy computes.

What the interface does not say: a derivative or a root is taken of the *selected* function, the console's
angles follow the mode chosen before, and a new range is refused while the view is locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import sympy

from sciencedesk.apps.algebra.expression import derivative, number, parse, require_drawable
from sciencedesk.apps.algebra.pictures import draw_plot, draw_surface
from sciencedesk.desk.desk import Desk
from sciencedesk.desk.entries import Refusal, number_among, real_number
from sciencedesk.desk.widgets import Rows, Slider


@lru_cache(maxsize=512)
def evaluate(text: str, degrees: bool, digits: int, variables: tuple[tuple[str, float], ...]) -> str:
    """The console's answer.  ExpressionError if the text is not a formula."""
    value = parse(text, dict(variables))
    if degrees:
        trigonometric = lambda e: isinstance(e, sympy.sin | sympy.cos | sympy.tan)  # noqa: E731
        value = value.replace(trigonometric, lambda e: e.func(e.args[0] * sympy.pi / 180))
    if value.is_number:
        return str(int(value)) if value.is_Integer else f"{number(value):.{digits}f}"
    return _written(value)


def _written(value: sympy.Expr) -> str:
    """A formula as it is typed."""
    return str(value).replace("**", "^").replace(" ", "")


class Algebra(Desk):
    app = "algebra"
    title = "Algebra"
    defaults = {
        "tab": "Console", "angle": "radians", "digits": 3, "console": [], "functions": [], "selected": "",
        "grid": False, "axes": True, "legend": False, "locked": False, "line": "solid", "xmin": -5.0,
        "xmax": 5.0, "surface": "", "mesh": "wire", "turn": 30, "turn_step": 30, "variables": {},
        "theme": "light",
    }  # fmt: skip

    def build(self) -> None:
        digits = number_among(tuple("123456789"), "Digits is a number from 1 to 9")
        precision = self.add_entry("Precision", "Digits", "digits", digits)
        plot_range = self.add_dialog("Range", 106, self._set_range, ["From", "To"], self._range)
        variable = self.add_dialog("Add variable", 106, self._add_variable, ["Name", "Value"])
        clear = partial(self.set, "console", [])
        self.add_menu("File", {"New session": lambda: self.reset({}), "Clear console": clear})
        self.add_menu("View", {
            "Grid": ("grid", True), "Axes": ("axes", True), "Legend": ("legend", True),
            "Lock view": ("locked", True), "Dark theme": ("theme", "dark"), "Light theme": ("theme", "light"),
        })  # fmt: skip
        self.add_menu("Settings", {
            "Degrees": ("angle", "degrees"), "Radians": ("angle", "radians"), "Precision": precision,
            "Solid line": ("line", "solid"), "Dotted line": ("line", "dotted"),
        })  # fmt: skip
        self.add_menu("Function", {"Derivative": self._derive, "Remove": self._remove, "Range": plot_range})
        self.shortcuts = {"ctrl n": lambda: self.reset({}), "ctrl g": lambda: self.toggle("grid")}

        self.expression = self.add("Console", self.field("Expression", self._evaluate), 6, 6, 244, 24)
        self.add("Console", self.button("Evaluate", self._evaluate), 256, 6, 74, 24)
        self.log = self.add("Console", Rows("Results", self), 6, 36, 324, 122)
        self.result = self.add("Console", self.label("Result"), 6, 164, 324, 24)

        self.formula = self.add("Plot 2D", self.field("Formula", self._plot), 6, 6, 150, 24)
        self.add("Plot 2D", self.button("Plot", self._plot), 160, 6, 50, 24)
        self.list = self.add("Plot 2D", Rows("Functions", self, sortable=True), 6, 36, 104, 154)
        self.on(self.list.chosen, partial(self.set, "selected"))
        plot = self.picture("Plot area", draw_plot, lambda v, rect: {"Plot area": rect})
        self.plot = self.add("Plot 2D", plot, 116, 36, 214, 154)
        self.on(self.plot.dragged, self._pan)
        self.add("Plot 2D", self.button("Zoom in", lambda: self._zoom(0.5)), 214, 6, 56, 24)
        self.add("Plot 2D", self.button("Zoom out", lambda: self._zoom(2)), 272, 6, 58, 24)

        self.surface_field = self.add("Plot 3D", self.field("Surface", self._raise_surface), 6, 6, 150, 24)
        self.add("Plot 3D", self.button("Draw", self._raise_surface), 160, 6, 50, 24)
        self.add("Plot 3D", self.button("Filled", lambda: self.set("mesh", "filled")), 214, 6, 56, 24)
        self.add("Plot 3D", self.button("Wire", lambda: self.set("mesh", "wire")), 272, 6, 58, 24)
        scene = self.picture("Scene", draw_surface, lambda v, rect: {"Scene": rect})
        self.add("Plot 3D", scene, 6, 36, 324, 122)
        self.rotation = self.add("Plot 3D", Slider("Rotation", range(0, 181, 30), self), 6, 162, 324, 28)
        self.on(self.rotation.changed, partial(self.set, "turn"))

        self.names = self.add("Variables", Rows("Variable list", self, sortable=True), 6, 6, 220, 184)
        self.on(self.names.opened, self._delete_variable)
        self.add("Variables", self.button("Add", lambda: self.open_dialog(variable)), 236, 6, 94, 24)
        self.add("Variables", self.button("Delete all", lambda: self.set("variables", {})), 236, 36, 94, 24)

    def refresh(self) -> None:
        v = self.values
        self.log.fill(f"{text} = {answer}" for text, answer in v["console"])
        self.show_value(self.result, v["console"][-1][1] if v["console"] else "-")
        self.list.fill(v["functions"], v["selected"])
        self.names.fill(f"{name} = {value:g}" for name, value in v["variables"].items())
        self.rotation.ticks, self.rotation.value = list(range(0, 181, v["turn_step"])), v["turn"]
        lock = ", locked" if v["locked"] else ""
        self.message(f"{v['angle']}, {v['digits']} digits, x {v['xmin']:g} to {v['xmax']:g}{lock}")

    def facts(self) -> dict[str, Any]:
        return {"result": self.values["console"][-1][1] if self.values["console"] else ""}

    def reset(self, settings: Mapping[str, Any]) -> None:
        """Begin a new episode; the variables may also be given as they are shown, ["a = 5", "mass = 12"]."""
        if isinstance(shown := settings.get("variables"), list):
            rows = (row.split(" = ") for row in shown)
            settings = {**settings, "variables": {name: float(value) for name, value in rows}}
        super().reset(settings)

    # -- commands -------------------------------------------------------------------------------------------

    def _evaluate(self) -> None:
        v, text = self.values, self.expression.text().strip()
        answer = evaluate(text, v["angle"] == "degrees", v["digits"], tuple(v["variables"].items()))
        self.set("console", v["console"] + [[text, answer]])
        self.expression.clear()

    def _plot(self) -> None:
        self._add_function(self.formula.text().strip())
        self.formula.clear()

    def _add_function(self, text: str) -> None:
        require_drawable(parse(text), "x")
        if text not in self.values["functions"]:
            self.set("functions", self.values["functions"] + [text])

    def _raise_surface(self) -> None:
        text = self.surface_field.text().strip()
        require_drawable(parse(text), "xy")
        self.set("surface", text)
        self.surface_field.clear()

    def _selected(self) -> str:
        if not self.values["selected"]:
            raise Refusal("Select a function first")
        return self.values["selected"]

    def _derive(self) -> None:
        self._add_function(_written(derivative(parse(self._selected()))))

    def _remove(self) -> None:
        selected = self._selected()
        self.change(selected="", functions=[text for text in self.values["functions"] if text != selected])

    def _zoom(self, factor: float) -> None:
        middle = (self.values["xmin"] + self.values["xmax"]) / 2
        half = (self.values["xmax"] - self.values["xmin"]) / 2 * factor
        self._show(middle - half, middle + half)

    def _pan(self, start: str, end: str, dx: float, dy: float) -> None:
        shift = -dx * (self.values["xmax"] - self.values["xmin"])
        self._show(self.values["xmin"] + shift, self.values["xmax"] + shift)

    def _show(self, low: float, high: float) -> None:
        """Plot this range of x, if it is neither too short nor too long."""
        self._require_unlocked()
        if 0.1 < high - low < 200:
            self.change(xmin=round(low, 3), xmax=round(high, 3))

    def _require_unlocked(self) -> None:
        if self.values["locked"]:
            raise Refusal("The view is locked")

    def _range(self) -> list[str]:
        return [f"{self.values[key]:g}" for key in ("xmin", "xmax")]

    def _set_range(self, texts: dict[str, str]) -> None:
        self._require_unlocked()
        low, high = (real_number(text, "From and To are numbers") for text in texts.values())
        if not -100 <= low < high <= 100:
            raise Refusal("From must be less than To")
        self._show(low, high)

    def _add_variable(self, texts: dict[str, str]) -> None:
        if len(texts["Name"]) != 1 or texts["Name"] not in "abcdknmpq":
            raise Refusal("Name is one letter")
        value = real_number(texts["Value"], "Value is a number")
        if not abs(value) < 1e6:
            raise Refusal("Value is too large")
        self.set("variables", self.values["variables"] | {texts["Name"]: value})

    def _delete_variable(self, row: str) -> None:
        name = row.split(" = ")[0]
        self.set("variables", {key: value for key, value in self.values["variables"].items() if key != name})
