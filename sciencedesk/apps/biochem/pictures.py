"""The pictures of Biochem, drawn from its state: the molecule, what was measured, shares of the mass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from sciencedesk.apps.biochem.molecules import Structure, element, structure, view
from sciencedesk.desk.drawing import write, write_from

Values = Mapping[str, Any]

_COLORS = {
    "C": "#5b6470", "H": "#e4e4e4", "O": "#e5484d", "N": "#3b6fe0",
    "S": "#c9a400", "F": "#35c46a", "Cl": "#1f9d3a", "Si": "#b08d57", "P": "#e07b1a",
    "Red": "#e00000", "Green": "#18b030", "Blue": "#2040ff",
}  # fmt: skip
RADIUS = {"Sphere": 14, "Stick": 10, "Line": 0}  # px
_BOND = {"Sphere": 7, "Stick": 7, "Line": 2}  # px


def opened(v: Values) -> Structure | None:
    return structure(v["molecule"]) if v["molecule"] else None


def shown_atoms(v: Values) -> list[str]:
    """Names of the atoms that are not hidden."""
    s = opened(v)
    return [name for name in (s.names if s else ()) if v["hydrogens"] or name[0] != "H"]


def length_or_angle(name: str, value: float, units: str) -> str:
    """A measurement as the screen shows it; its name says of how many atoms it is."""
    if name.count("-") > 1:
        return f"{value:.0f} deg"
    return f"{value:.2f} A" if units == "Angstrom" else f"{100 * value:.0f} pm"


def boxes(v: Values, rect: QRect) -> dict[str, QRect]:
    """The boxes of the atoms that can be clicked: those with a label, front ones first."""
    s = opened(v)
    if not v["labels"] or s is None:
        return {}
    points, _ = view(v["molecule"], v["turn"], rect.width(), rect.height())
    names = s.names
    front = sorted(s.index(shown_atoms(v)), key=lambda i: -points[i, 2])
    return {names[i]: QRect(round(points[i, 0]) - 9, round(points[i, 1]) - 9, 18, 18) for i in front}


def draw_scene(v: Values, painter: QPainter, rect: QRect) -> None:
    s = opened(v)
    ink = QColor("white" if v["dark"] else "black")
    painter.fillRect(rect, QColor("#101828" if v["dark"] else "white"))
    if s is None:
        painter.setPen(QColor("#888888"))
        write(painter, rect, Qt.AlignmentFlag.AlignCenter, "No molecule")
        return
    points, scale = view(v["molecule"], v["turn"], rect.width(), rect.height())
    if v["axes"]:
        _draw_axes(v["turn"], painter, rect)
    shown = set(s.index(shown_atoms(v)))
    colors = {i: _color(v, s.names[i]) for i in shown}
    styles = {i: v["styles"].get(s.names[i], "Stick") for i in shown}
    pieces = [(points[i, 2], i, None) for i in shown]
    if v["bonds"]:  # two halves in the colours of their atoms, behind both so that the labels stay readable
        for a, b in s.bonds:
            if {a, b} <= shown:
                depth = min(points[a, 2], points[b, 2]) - 1
                pieces += [(depth, a, b), (depth, b, a)]
    for _, i, j in sorted(pieces, key=lambda piece: piece[0]):
        center = QPointF(points[i, 0], points[i, 1])
        if j is None:
            _draw_atom(v, painter, center, points[i, 2] / scale, s.names[i], colors[i], styles[i])
        else:
            colored = styles[i] != "Line" or s.names[i] in v["colors"]
            painter.setPen(QPen(colors[i].darker(115) if colored else ink, _BOND[styles[i]]))
            painter.drawLine(QLineF(center, QPointF(*(points[i, :2] + points[j, :2]) / 2)))
    painter.setPen(ink)
    sign = f"   charge {v['charge']:+d}" if v["charge"] else ""
    write_from(painter, 6, 14, v["molecule"] + sign)


def _draw_atom(
    v: Values, painter: QPainter, center: QPointF, depth: float, name: str, color: QColor, style: str
) -> None:
    """One atom; nearer ones are a little larger.  A selected one has a thick magenta ring."""
    ink = QColor("white" if v["dark"] else "black")
    radius = RADIUS[style] + round(0.6 * depth) if RADIUS[style] else 7
    chosen = name in v["selected"]
    painter.setPen(QPen(QColor("#ff00c8"), 4) if chosen else QPen(QColor("#333333"), 1))
    if style == "Line":
        painter.setBrush(QColor("#101828" if v["dark"] else "white"))
        painter.setPen(painter.pen() if chosen else Qt.PenStyle.NoPen)
    else:
        painter.setBrush(color)
        ink = QColor("black" if color.lightness() > 140 or color.green() > 150 else "white")
    painter.drawEllipse(center, radius, radius)
    if v["labels"]:
        painter.setPen(ink)
        box = QRect(round(center.x()) - 12, round(center.y()) - 8, 24, 16)
        write(painter, box, Qt.AlignmentFlag.AlignCenter, name)


def _color(v: Values, name: str) -> QColor:
    color = v["colors"].get(name, "Element")
    return QColor(_COLORS[element(name)] if color == "Element" else _COLORS.get(color, color.lower()))


def _draw_axes(turn: int, painter: QPainter, rect: QRect) -> None:
    origin, angle = QPointF(34, rect.height() - 26), np.radians(turn)
    across, away = np.cos(angle), np.sin(angle)
    axes = ((across, 0.35 * away, "#e00000"), (0, -1, "#18b030"), (away, -0.35 * across, "#2040ff"))
    for x, y, color in axes:
        painter.setPen(QPen(QColor(color), 4))
        painter.drawLine(origin, origin + QPointF(26 * x, 26 * y))


def draw_measured(v: Values, painter: QPainter, rect: QRect) -> None:
    last = v["measured"][-4:]
    for i, (name, value) in enumerate(last):
        row = QRect(2, 2 + 23 * i, rect.width() - 4, 22)
        painter.fillRect(row, QColor("#9fd8b4" if i == len(last) - 1 else "#e3efe7"))
        painter.setPen(QColor("black"))
        text = f"{name} = {length_or_angle(name, value, v['units'])}"
        write(painter, row.adjusted(8, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, text)


def draw_shares(v: Values, painter: QPainter, rect: QRect) -> None:
    left, s = 2, opened(v)
    for symbol, share in s.shares if s else ():
        width = round(share * (rect.width() - 4))
        painter.fillRect(left, 2, width, rect.height() - 4, QColor(_COLORS[symbol]))
        painter.setPen(QColor("black" if symbol == "H" else "white"))
        write(painter, QRect(left, 2, width, rect.height() - 4), Qt.AlignmentFlag.AlignCenter, symbol)
        left += width
