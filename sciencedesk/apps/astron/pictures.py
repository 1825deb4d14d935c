"""The pictures of Astron: the bodies on the sky chart, the orbits, and how high a body stands during a day.

`v` is the application's state (`Astron.values`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from sciencedesk.apps.astron.ephemeris import PLANETS, bodies_of, orbits, passage, when_of
from sciencedesk.apps.astron.skychart import View, background, targets
from sciencedesk.desk.drawing import free_place, small_font, width_of, write

_COLORS = {
    "Sun": "#ffd400", "Moon": "#ffffff", "Mercury": "#a8a29e", "Venus": "#fde68a", "Earth": "#3b8beb",
    "Mars": "#f0562b", "Jupiter": "#e9b872", "Saturn": "#c9d65a",
}  # fmt: skip


def chart_boxes(v: Mapping[str, Any], rect: QRect) -> dict[str, QRect]:
    return {name: QRect(point.x() - 6, point.y() - 6, 12, 12) for name, point in targets(View.of(v)).items()}


def draw_chart(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    view, bodies = View.of(v), bodies_of(v)
    painter.drawPixmap(0, 0, background(view))
    points = targets(view)
    if all(name in points for name in v["measured"] or [""]):
        painter.setPen(QPen(QColor("#ff5cc8"), 2))
        painter.drawLine(*(points[name] for name in v["measured"]))
    sizes = {name: 7 if bodies[name].magnitude < -9 else 5 if name in PLANETS else 3 for name in points}
    _paint_bodies(v, painter, rect, points, sizes)
    _redden(v, painter, rect)


def _paint_bodies(
    v: Mapping[str, Any], painter: QPainter, room: QRect, points: dict[str, QPoint], sizes: dict[str, int]
) -> None:
    """Discs with their marks first, then the labels, each at a corner where it covers nothing, if any."""
    for name, point in points.items():
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(_COLORS.get(name, "#dfe6ff")))
        painter.drawEllipse(point, sizes[name], sizes[name])
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if name in v["marked"]:
            painter.setPen(QPen(QColor("#ff9f1c"), 2))
            painter.drawRect(point.x() - 9, point.y() - 9, 18, 18)
        if name == v["selected"]:
            painter.setPen(QPen(QColor("#ff2e2e"), 3))
            painter.drawEllipse(point, 10, 10)
    if not v["labels"]:
        return
    small_font(painter)
    painter.setPen(QColor("white"))
    taken = [QRect(p.x() - sizes[n], p.y() - sizes[n], 2 * sizes[n], 2 * sizes[n]) for n, p in points.items()]
    for name, point in points.items():
        w = width_of(painter, name) + 2
        corners = [QRect(point.x() + dx, point.y() + dy, w, 12) for dy in (-15, 4) for dx in (9, -9 - w)]
        box = free_place(corners, room, taken) or corners[0]
        taken.append(box)
        write(painter, box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, name)


def orbit_boxes(v: Mapping[str, Any], rect: QRect) -> dict[str, QRect]:
    """Planets that this scale shows apart from each other, and the Sun."""
    inner = v["scale"] == "inner"
    found = {"Sun": QPoint(rect.width() // 2, rect.height() // 2)}
    for name, (longitude, distance) in orbits(when_of(v)).items():
        if (name in ("Jupiter", "Saturn", "Earth")) != inner or name == "Earth":
            r = distance * (rect.height() / 2 - 8) / (1.7 if inner else 10.2)
            shift = QPoint(round(r * math.cos(longitude)), round(-r * math.sin(longitude)))
            found[name] = found["Sun"] + shift
    return {name: QRect(p.x() - 6, p.y() - 6, 12, 12) for name, p in found.items()}


def draw_orbits(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    painter.fillRect(rect, QColor("#101838"))
    points = {name: box.center() for name, box in orbit_boxes(v, rect).items()}
    painter.setPen(QPen(QColor("#5b6aa0"), 1))
    for point in points.values():
        r = math.dist(points["Sun"].toTuple(), point.toTuple())
        painter.drawEllipse(QPointF(points["Sun"]), r, r)
    _paint_bodies(v, painter, rect, points, {name: 7 if name == "Sun" else 5 for name in points})
    _redden(v, painter, rect)


def draw_curve(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    painter.fillRect(rect, QColor("#101838"))
    w, h = rect.width(), rect.height()
    painter.fillRect(0, h // 2, w, h // 2, QColor("#4a3a26"))
    if v["computed"]:
        altitudes = passage(v["computed"], when_of(v), v["place"])[2]
        painter.setPen(QPen(QColor("#ffd400"), 3))
        points = [QPointF(w * i / 24, h / 2 - a * h / 190) for i, a in enumerate(altitudes)]
        painter.drawPolyline(QPolygonF(points))
    _redden(v, painter, rect)


def _redden(v: Mapping[str, Any], painter: QPainter, rect: QRect) -> None:
    if v["night"]:
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Multiply)
        painter.fillRect(rect, QColor(255, 70, 60))
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Plus)
        painter.fillRect(rect, QColor(70, 0, 0))
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceOver)
