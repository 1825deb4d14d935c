"""The pictures of Algebra: the plot of its functions of x, and a surface over x and y.

`v` is the application's state (`Algebra.values`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import sympy
from PySide6.QtCore import QPointF, QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from sciencedesk.apps.algebra.expression import parse
from sciencedesk.desk.drawing import write_from

_COLORS = ("#d1242f", "#1f6feb", "#1a7f37", "#8250df", "#bc4c00", "#57606a")


@lru_cache(maxsize=512)
def _curve(text: str, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Samples (n,), (n,) of a function of x; not-real values are NaN."""
    xs = np.linspace(low, high, 121)
    f = _function(text, "x")
    with np.errstate(all="ignore"):
        ys = np.broadcast_to(np.asarray(f(xs.astype(complex))), xs.shape)
    return xs, np.where(np.abs(ys.imag) < 1e-9, ys.real, np.nan)


def _function(text: str, *names: str) -> Callable[..., Any]:
    """The expression as a function of arrays, with floats for numbers that are no machine's integers."""
    expression = parse(text)
    large = {n: sympy.Float(n) for n in expression.atoms(sympy.Rational) if max(abs(n.p), n.q) >= 2**53}
    return sympy.lambdify([sympy.Symbol(name) for name in names], expression.xreplace(large), "numpy")


@lru_cache(maxsize=64)
def _surface(text: str) -> np.ndarray:
    """Heights (13, 13) of a function of x and y on [-2, 2]^2, scaled into [-1, 1]."""
    x, y = np.meshgrid(np.linspace(-2, 2, 13), np.linspace(-2, 2, 13))
    f = _function(text, "x", "y")
    with np.errstate(all="ignore"):
        z = np.asarray(f(x, y))
        z = np.where(np.abs(z.imag) < 1e-9, z.real, np.nan) if np.iscomplexobj(z) else z.astype(float)
        z = np.nan_to_num(np.broadcast_to(z, x.shape), nan=0, posinf=9, neginf=-9)
    return z / max(1e-9, np.abs(z).max())


def draw_plot(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
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
            write_from(painter, 6, 14 + 13 * i, text)


def draw_surface(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    if not v["surface"]:
        return
    z, turn = _surface(v["surface"]), np.radians(v["turn"])
    x, y = np.meshgrid(np.linspace(-1, 1, 13), np.linspace(-1, 1, 13))
    depth = x * np.sin(turn) + y * np.cos(turn)
    u = rect.width() / 2 + 100 * (x * np.cos(turn) - y * np.sin(turn))
    t = rect.height() / 2 + 26 * depth - 22 * z
    order = np.argsort(depth[:-1, :-1], axis=None)
    painter.setPen(QPen(QColor("#1a7f37"), 1))
    for k in order:
        i, j = divmod(int(k), 12)
        corners = ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))
        if v["mesh"] == "filled":
            shade = int(128 + 100 * z[i, j])
            painter.setBrush(QColor(60, max(0, min(255, shade)), 120))
        painter.drawPolygon(QPolygonF([QPointF(u[corner], t[corner]) for corner in corners]))
