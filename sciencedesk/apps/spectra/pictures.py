"""The pictures of Spectra: the trace with its peaks, a close-up, a lamp seen by eye, and how elements fit.

`v` is the application's state (`Spectra.values`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from sciencedesk.apps.spectra.spectroscopy import GRID, SAMPLES, dark, peaks, scores, strengths, trace
from sciencedesk.desk.drawing import draw_placeholder, free_place, small_font, width_of, write

_TOP, _BOTTOM = 18, 15  # px left free for labels above the trace and for the wavelengths below it
_APART = 12  # px between peaks that can be pointed at


def color_of(wavelength: float) -> QColor:
    """About the colour of light of a wavelength in nm; dim where the eye hardly sees."""
    hue = np.interp(wavelength, [400, 440, 490, 510, 580, 645], [275, 240, 180, 120, 60, 0])
    value = np.interp(wavelength, [350, 420, 680, 750], [0.3, 1, 1, 0.3])
    return QColor.fromHsvF(float(hue) / 360, 1, float(value))


class _Frame:
    """Where wavelengths and counts lie in a picture of the trace from low to high nm."""

    def __init__(self, v: Mapping[str, Any], rect: QRect, low: float, high: float):
        self.low, self.high, self.rect = low, high, rect
        first, last = np.searchsorted(GRID, [low - 1e-6, high + 1e-6])
        self.grid, self.counts = GRID[first:last], trace(v)[first:last]
        if v["scale"] == "log":  # of 1 and more: noise would fill a pure logarithm
            self.counts = np.log10(1 + np.maximum(self.counts, 0) / 10)
        self.most, self.least = max(self.counts.max(), 1e-9), min(0.0, self.counts.min())

    def x(self, wavelength: Any) -> Any:
        return (wavelength - self.low) / (self.high - self.low) * (self.rect.width() - 1)

    def y(self, scaled: Any) -> Any:
        room = self.rect.height() - _TOP - _BOTTOM
        return _TOP + room * (self.most - scaled) / (self.most - self.least)

    def top(self, wavelength: float) -> QPoint:
        """The point of the trace at a wavelength."""
        counts = self.counts[min(np.searchsorted(self.grid, wavelength), self.counts.size - 1)]
        return QPoint(round(self.x(wavelength)), round(float(self.y(counts))))

    def line(self) -> QPolygonF:
        """The trace; of the many pixels in one column of the screen only the lowest and highest are drawn."""
        step = max(1, self.grid.size // self.rect.width())
        starts = np.arange(0, self.grid.size, step)
        low, high = np.minimum.reduceat(self.counts, starts), np.maximum.reduceat(self.counts, starts)
        xs = self.x(self.grid[starts])
        pairs = zip(np.repeat(xs, 2), self.y(np.stack([low, high], 1).ravel()), strict=True)
        return QPolygonF([QPointF(x, y) for x, y in pairs])


def _points(v: Mapping[str, Any], rect: QRect) -> dict[str, QPoint]:
    """Tops of the peaks in the range, the highest first; of overlapping peaks only the highest."""
    shown: dict[str, QPoint] = {}
    tops, found = _tops(v, rect), peaks(v)
    for name in sorted(tops, key=lambda name: -found[name].height):
        if all(abs(tops[name].x() - other.x()) >= _APART for other in shown.values()):
            shown[name] = tops[name]
    return shown


def _tops(v: Mapping[str, Any], rect: QRect) -> dict[str, QPoint]:
    """Tops of all peaks in the range."""
    frame, low, high = _Frame(v, rect, v["low"], v["high"]), v["low"], v["high"]
    return {n: frame.top(p.wavelength) for n, p in peaks(v).items() if low <= p.wavelength <= high}


def plot_boxes(v: Mapping[str, Any], rect: QRect) -> dict[str, QRect]:
    return {name: QRect(p.x() - 6, p.y() - 6, 12, 12) & rect for name, p in _points(v, rect).items()}


def draw_plot(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    small_font(painter)
    frame, w, h = _Frame(v, rect, v["low"], v["high"]), rect.width(), rect.height()
    floor = h - _BOTTOM
    _paint_axis(v, painter, frame, floor)
    line = frame.line()
    if v["fill"]:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor("#cfe3ff"))
        painter.drawPolygon(QPolygonF([QPointF(0, floor), *line, QPointF(w, floor)]))
    if v["lines"] != "none":
        painter.setPen(QPen(QColor("#1a7f37"), 1, Qt.PenStyle.DashLine))
        for wavelength, _ in strengths(v["lines"]):
            if v["low"] <= wavelength <= v["high"]:
                painter.drawLine(round(frame.x(wavelength)), 2, round(frame.x(wavelength)), floor)
    painter.setPen(QPen(QColor("#1f3a93"), 1))
    painter.drawPolyline(line)
    points = _points(v, rect)
    if all(name in points for name in v["measured"] or [""]):
        painter.setPen(QPen(QColor("#d81b8c"), 2))
        painter.drawLine(*(points[name] for name in v["measured"]))
    _paint_peaks(v, painter, rect, points)
    painter.setPen(QColor("#7a4b00"))
    write(painter, QRect(4, 2, w - 8, 12), Qt.AlignmentFlag.AlignLeft, v["note"])


def _paint_axis(v: Mapping[str, Any], painter: QPainter, frame: _Frame, floor: int) -> None:
    """Wavelengths in nm at round numbers below the trace, with grid and colours if they are on."""
    span, w = v["high"] - v["low"], frame.rect.width()
    step = next(s for s in (2, 5, 10, 20, 50, 100) if span / s <= 6 or s == 100)
    if v["rainbow"]:
        for x in range(w):
            painter.fillRect(x, floor - 6, 1, 6, color_of(v["low"] + x / w * span))
    for tick in range(int(-(-v["low"] // step)) * step, int(v["high"]) + 1, step):
        x = round(frame.x(tick))
        if v["grid"]:
            painter.setPen(QPen(QColor("#c3ccd6"), 1))
            painter.drawLine(x, 0, x, floor)
        painter.setPen(QColor("#444444"))
        painter.drawLine(x, floor, x, floor + 3)
        box = QRect(min(max(x - 14, 2), w - 30), floor + 3, 28, 12)
        write(painter, box, Qt.AlignmentFlag.AlignCenter, str(tick))
    if v["grid"]:
        painter.setPen(QPen(QColor("#c3ccd6"), 1))
        for i in range(4):
            painter.drawLine(0, _TOP + (floor - _TOP) * i // 4, w, _TOP + (floor - _TOP) * i // 4)
    painter.setPen(QColor("#444444"))
    painter.drawLine(0, floor, w, floor)


def _paint_peaks(v: Mapping[str, Any], painter: QPainter, room: QRect, points: dict[str, QPoint]) -> None:
    """Draw marks on the peaks, then their wavelengths where there is room."""
    taken = [QRect(p.x() - 4, p.y() - 4, 8, 8) for p in points.values()]
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor("#d1242f"))
    for p in points.values():
        painter.drawEllipse(p, 3, 3)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    tops = _tops(v, room)
    painter.setPen(QPen(QColor("#ff8c00"), 2))
    for name in v["marks"]:
        if name in tops:
            painter.drawRect(tops[name].x() - 7, tops[name].y() - 7, 14, 14)
    painter.setPen(QPen(QColor("#d1242f"), 2))
    if v["peak"] in tops:
        painter.drawEllipse(tops[v["peak"]], 9, 9)
    if not v["labels"]:
        return
    painter.setPen(QColor("#111111"))
    for name, p in points.items():
        w = width_of(painter, name) + 2
        corners = ((-w // 2, -16), (9, -8), (-9 - w, -8), (-w - 3, -17), (3, -17), (-w // 2, -28))
        places = [QRect(p.x() + dx, p.y() + dy, w, 12) for dx, dy in corners]
        if box := free_place(places, room, taken):
            taken.append(box)
            write(painter, box, Qt.AlignmentFlag.AlignCenter, name)


def draw_close(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    """The trace 4 nm to both sides of the selected peak."""
    peak = peaks(v).get(v["peak"])
    if peak is None:
        draw_placeholder(painter, rect, "no peak selected")
        return
    low, high = max(GRID[0], peak.wavelength - 4), min(GRID[-1], peak.wavelength + 4)
    painter.setPen(QPen(QColor("#1f3a93"), 2))
    painter.drawPolyline(_Frame(v, rect, low, high).line())


def draw_lamp(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    """The loaded lamp in a spectroscope: bright lines on black, or dark ones in the continuum's colours."""
    w, h, name = rect.width(), rect.height(), v["lamp"]
    painter.fillRect(rect, QColor("black"))
    if dark(name):
        for x in range(w):
            painter.fillRect(x, 0, 1, h, color_of(GRID[0] + x / w * (GRID[-1] - GRID[0])))
    for wavelength, strength in strengths(SAMPLES.get(name, name)):
        color = QColor("black") if dark(name) else color_of(wavelength)
        color.setAlphaF(0.25 + 0.75 * strength)
        x = round((wavelength - GRID[0]) / (GRID[-1] - GRID[0]) * w)
        painter.fillRect(x, 0, 2, h, color)


def draw_scores(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    """A bar for each element: how well the peaks fit its lines."""
    if not v["matched"]:
        draw_placeholder(painter, rect, "not identified")
        return
    fits = scores(v)
    row, room = rect.height() // len(fits), rect.width() - 140
    for i, (element, fit) in enumerate(fits.items()):
        best = fit == max(fits.values())
        color = QColor("#1a7f37" if best else "#9db4c8")
        painter.fillRect(78, i * row + 6, max(1, round(room * fit)), row - 12, color)
        painter.setPen(QColor("#111111"))
        centered = Qt.AlignmentFlag.AlignVCenter
        write(painter, QRect(8, i * row, 68, row), centered, element)
        write(painter, QRect(84 + round(room * fit), i * row, 54, row), centered, f"{100 * fit:.0f} %")
