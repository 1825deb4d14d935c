"""Algebra: a console, function plots in two and three dimensions and variables; SymPy computes.

What the interface does not say: a derivative or a root is taken of the *selected* function, the console's
angles follow the mode chosen before, and a new range is refused while the view is locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import sympy
from PySide6.QtCore import QPointF, QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from sciencedesk.apps.algebra.expression import ExpressionError, derivative, number, parse, require_drawable
from sciencedesk.desk.desk import Desk
from sciencedesk.desk.widgets import Canvas, Rows, Slider

_COLORS = ("#d1242f", "#1f6feb", "#1a7f37", "#8250df", "#bc4c00", "#57606a")


@lru_cache(maxsize=512)
def _curve(text: str, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Samples (n,), (n,) of a function of x; not-real values are NaN."""
    xs = np.linspace(low, high, 121)
    f = sympy.lambdify(sympy.Symbol("x"), parse(text), "numpy")
    with np.errstate(all="ignore"):
        ys = np.broadcast_to(np.asarray(f(xs.astype(complex))), xs.shape)
    return xs, np.where(np.abs(ys.imag) < 1e-9, ys.real, np.nan)


@lru_cache(maxsize=64)
def _surface(text: str) -> np.ndarray:
    """Heights (13, 13) of a function of x and y on [-2, 2]^2, scaled into [-1, 1]."""
    x, y = np.meshgrid(np.linspace(-2, 2, 13), np.linspace(-2, 2, 13))
    f = sympy.lambdify((sympy.Symbol("x"), sympy.Symbol("y")), parse(text), "numpy")
    with np.errstate(all="ignore"):
        z = np.asarray(f(x, y))
        z = np.where(np.abs(z.imag) < 1e-9, z.real, np.nan) if np.iscomplexobj(z) else z.astype(float)
        z = np.nan_to_num(np.broadcast_to(z, x.shape), nan=0, posinf=9, neginf=-9)
    return z / max(1e-9, np.abs(z).max())


@lru_cache(maxsize=512)
def evaluate(text: str, degrees: bool, digits: int, variables: tuple[tuple[str, float], ...]) -> str:
    """The console's answer.  ExpressionError if the text is not a formula."""
    value = parse(text, dict(variables))
    if degrees:
        value = value.replace(
            lambda e: isinstance(e, sympy.sin | sympy.cos | sympy.tan),
            lambda e: e.func(e.args[0] * sympy.pi / 180),
        )
    if value.is_number:
        return str(int(value)) if value.is_Integer else f"{number(value):.{digits}f}"
    return str(value).replace("**", "^").replace(" ", "")


class Algebra(Desk):
    app = "algebra"
    title = "Algebra"
    defaults = {
        "tab": "Console", "angle": "radians", "digits": 3, "console": [], "functions": [], "selected": "",
        "grid": False, "axes": True, "legend": False, "locked": False, "line": "solid", "xmin": -5.0, "xmax": 5.0,
        "surface": "", "mesh": "wire", "turn": 30, "turn_step": 30, "variables": {}, "theme": "light",
    }  # fmt: skip

    def build(self) -> None:
        self.add_menu(
            "File", {"New session": lambda: self.reset({}), "Clear console": lambda: self.set("console", [])}
        )
        self.add_menu("View", {"Grid": ("grid", True), "Axes": ("axes", True), "Legend": ("legend", True),
                               "Lock view": ("locked", True), "Dark theme": ("theme", "dark"),
                               "Light theme": ("theme", "light")})  # fmt: skip
        self.add_menu("Settings", {"Degrees": ("angle", "degrees"), "Radians": ("angle", "radians"),
                                   "Precision": lambda: self.open_dialog(self._precision),
                                   "Solid line": ("line", "solid"), "Dotted line": ("line", "dotted")})  # fmt: skip
        self.add_menu("Function", {"Derivative": self._derive, "Remove": self._remove,
                                   "Range": lambda: self.open_dialog(self._range)})  # fmt: skip
        self.shortcuts = {
            "ctrl n": lambda: self.reset({}),
            "ctrl g": lambda: self.set("grid", not self.values["grid"]),
        }
        digits = tuple("123456789")
        self._precision = self.add_entry(
            "Precision", "Digits", "digits", digits, "Digits is a number from 1 to 9"
        )
        self._range = self.add_dialog("Range", 106, self._set_range, ["From", "To"],
                                      lambda: {"From": f"{self.values['xmin']:g}", "To": f"{self.values['xmax']:g}"})  # fmt: skip
        self._variable = self.add_dialog("Add variable", 106, self._add_variable, ["Name", "Value"])

        self.expression = self.add("Console", self.field("Expression", self._evaluate), 6, 6, 244, 24)
        self.add("Console", self.button("Evaluate", self._evaluate), 256, 6, 74, 24)
        self.log = self.add("Console", Rows("Results", self), 6, 36, 324, 122)
        self.result = self.add("Console", self.label("Result"), 6, 164, 324, 24)

        self.formula = self.add("Plot 2D", self.field("Formula", self._plot), 6, 6, 150, 24)
        self.add("Plot 2D", self.button("Plot", self._plot), 160, 6, 50, 24)
        self.list = self.add("Plot 2D", Rows("Functions", self), 6, 36, 104, 154)
        self.list.itemClicked.connect(lambda item: self.set("selected", item.text()))
        plot = Canvas("Plot area", self, self._draw_plot, lambda rect: {"Plot area": rect})
        self.plot = self.add("Plot 2D", plot, 116, 36, 214, 154)
        self.plot.dragged.connect(lambda a, b, dx, dy: self._pan(dx))
        self.add("Plot 2D", self.button("Zoom in", lambda: self._zoom(0.5)), 214, 6, 56, 24)
        self.add("Plot 2D", self.button("Zoom out", lambda: self._zoom(2)), 272, 6, 58, 24)

        self.surface_field = self.add("Plot 3D", self.field("Surface", self._raise_surface), 6, 6, 150, 24)
        self.add("Plot 3D", self.button("Draw", self._raise_surface), 160, 6, 50, 24)
        self.add("Plot 3D", self.button("Filled", lambda: self.set("mesh", "filled")), 214, 6, 56, 24)
        self.add("Plot 3D", self.button("Wire", lambda: self.set("mesh", "wire")), 272, 6, 58, 24)
        self.add(
            "Plot 3D",
            Canvas("Scene", self, self._draw_surface, lambda rect: {"Scene": rect}),
            6,
            36,
            324,
            122,
        )
        self.rotation = self.add("Plot 3D", Slider("Rotation", range(0, 181, 30), self), 6, 162, 324, 28)
        self.rotation.changed.connect(lambda value: self.set("turn", value))

        self.names = self.add("Variables", Rows("Variable list", self), 6, 6, 220, 184)
        self.names.opened.connect(self._delete_variable)
        self.add("Variables", self.button("Add", lambda: self.open_dialog(self._variable)), 236, 6, 94, 24)
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

    # -- commands ----------------------------------------------------------------------------------------------------

    def _evaluate(self) -> None:
        v, text = self.values, self.expression.text().strip()
        try:
            answer = evaluate(text, v["angle"] == "degrees", v["digits"], tuple(v["variables"].items()))
        except ExpressionError as error:
            self.message(str(error))
            return
        self.set("console", v["console"] + [[text, answer]])
        self.expression.clear()

    def _plot(self) -> None:
        text = self.formula.text().strip()
        try:
            require_drawable(parse(text), "x")
        except ExpressionError as error:
            self.message(str(error))
            return
        if text not in self.values["functions"]:
            self.set("functions", self.values["functions"] + [text])
        self.formula.clear()

    def _raise_surface(self) -> None:
        text = self.surface_field.text().strip()
        try:
            require_drawable(parse(text), "xy")
        except ExpressionError as error:
            self.message(str(error))
            return
        self.set("surface", text)
        self.surface_field.clear()

    def _derive(self) -> None:
        if not self.values["selected"]:
            self.message("Select a function first")
            return
        try:
            slope = str(derivative(parse(self.values["selected"]))).replace("**", "^").replace(" ", "")
            require_drawable(parse(slope), "x")
        except ExpressionError as error:
            self.message(str(error))
            return
        if slope not in self.values["functions"]:
            self.set("functions", self.values["functions"] + [slope])

    def _remove(self) -> None:
        if not self.values["selected"]:
            self.message("Select a function first")
        else:
            rest = [text for text in self.values["functions"] if text != self.values["selected"]]
            self.change(selected="", functions=rest)

    def _zoom(self, factor: float) -> None:
        middle = (self.values["xmin"] + self.values["xmax"]) / 2
        half = (self.values["xmax"] - self.values["xmin"]) / 2 * factor
        self._move(middle - half, middle + half)

    def _pan(self, dx: float) -> None:
        shift = -dx * (self.values["xmax"] - self.values["xmin"])
        self._move(self.values["xmin"] + shift, self.values["xmax"] + shift)

    def _move(self, low: float, high: float) -> None:
        if self.values["locked"]:
            self.message("The view is locked")
        elif 0.1 < high - low < 200:
            self.change(xmin=round(low, 3), xmax=round(high, 3))

    def _set_range(self, texts: dict[str, str]) -> str | None:
        if self.values["locked"]:
            return "The view is locked"
        try:
            low, high = float(texts["From"]), float(texts["To"])
        except ValueError:
            return "From and To are numbers"
        if not -100 <= low < high <= 100:
            return "From must be less than To"
        self._move(low, high)
        return None

    def _add_variable(self, texts: dict[str, str]) -> str | None:
        if len(texts["Name"]) != 1 or texts["Name"] not in "abcdknmpq":
            return "Name is one letter"
        try:
            value = float(texts["Value"])
        except ValueError:
            return "Value is a number"
        if not abs(value) < 1e6:
            return "Value is too large"
        self.set("variables", self.values["variables"] | {texts["Name"]: value})
        return None

    def _delete_variable(self, row: str) -> None:
        name = row.split(" = ")[0]
        self.set("variables", {key: value for key, value in self.values["variables"].items() if key != name})

    # -- pictures ----------------------------------------------------------------------------------------------------

    def _draw_plot(self, painter: QPainter, rect: QRect) -> None:
        v = self.values
        w, h = rect.width(), rect.height()
        dark = v["theme"] == "dark"
        painter.fillRect(rect, QColor("#22272e" if dark else "white"))
        if v["grid"]:
            painter.setPen(QPen(QColor("#5a6472" if dark else "#c8d1da"), 1))
            for i in range(1, 10):
                painter.drawLine(i * w // 10, 0, i * w // 10, h)
                painter.drawLine(0, i * h // 10, w, i * h // 10)
        span = v["xmax"] - v["xmin"]
        if v["axes"]:
            painter.setPen(QPen(QColor("white" if dark else "black"), 2))
            painter.drawLine(0, h // 2, w, h // 2)
            x0 = int(-v["xmin"] / span * w)
            painter.drawLine(x0, 0, x0, h)
        for i, text in enumerate(v["functions"]):
            xs, ys = _curve(text, v["xmin"], v["xmax"])
            style = Qt.PenStyle.DotLine if v["line"] == "dotted" else Qt.PenStyle.SolidLine
            painter.setPen(QPen(QColor(_COLORS[i % 6]), 3 if text == v["selected"] else 2, style))
            good = np.isfinite(ys) & (np.abs(ys) < 50)
            points = zip((xs[good] - v["xmin"]) / span * w, h / 2 - ys[good] * h / 10, strict=True)
            painter.drawPolyline(QPolygonF([QPointF(x, y) for x, y in points]))
            if v["legend"]:
                painter.drawText(6, 14 + 13 * i, text)

    def _draw_surface(self, painter: QPainter, rect: QRect) -> None:
        if not self.values["surface"]:
            return
        z, turn = _surface(self.values["surface"]), np.radians(self.values["turn"])
        x, y = np.meshgrid(np.linspace(-1, 1, 13), np.linspace(-1, 1, 13))
        u = rect.width() / 2 + 100 * (x * np.cos(turn) - y * np.sin(turn))
        t = rect.height() / 2 + 26 * (x * np.sin(turn) + y * np.cos(turn)) - 22 * z
        order = np.argsort((x * np.sin(turn) + y * np.cos(turn))[:-1, :-1], axis=None)
        painter.setPen(QPen(QColor("#1a7f37"), 1))
        for k in order:
            i, j = divmod(int(k), 12)
            quad = QPolygonF(
                [QPointF(u[a, b], t[a, b]) for a, b in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))]
            )
            if self.values["mesh"] == "filled":
                shade = int(128 + 100 * z[i, j])
                painter.setBrush(QColor(60, max(0, min(255, shade)), 120))
            painter.drawPolygon(quad)
