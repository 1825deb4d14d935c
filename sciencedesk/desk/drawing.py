"""What the pictures of applications are drawn with: letters of one size, and places for labels."""

from __future__ import annotations

import math
from collections.abc import Iterable

from PySide6.QtCore import QPoint, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter


def small_font(painter: QPainter) -> None:
    """Write small from now on."""
    font = QFont(painter.font())
    font.setPixelSize(10)
    painter.setFont(font)


def write(painter: QPainter, box: QRect | QRectF, how: Qt.AlignmentFlag, text: str) -> None:
    """Draw a text in letters of their own size, at whatever scale the picture around it is drawn."""
    scale = painter.worldTransform()
    if not scale.isIdentity():
        box, how = scale.mapRect(QRectF(box)).toRect(), how | Qt.TextFlag.TextDontClip
    painter.resetTransform()
    painter.drawText(box, how, text)
    painter.setTransform(scale)


def write_from(painter: QPainter, x: int, y: int, text: str) -> None:
    """The same of a text that begins at a place, which is on its base line."""
    scale = painter.worldTransform()
    painter.resetTransform()
    painter.drawText(scale.map(QPoint(x, y)), text)
    painter.setTransform(scale)


def width_of(painter: QPainter, text: str) -> int:
    """The width of a text that `write` draws, in px of the picture."""
    return math.ceil(painter.fontMetrics().horizontalAdvance(text) / painter.worldTransform().m11())


def draw_placeholder(painter: QPainter, rect: QRect, text: str) -> None:
    """Say in the middle of a picture why it is empty."""
    painter.setPen(QColor("#777777"))
    write(painter, rect, Qt.AlignmentFlag.AlignCenter, text)


def free_place(places: Iterable[QRect], room: QRect, taken: list[QRect]) -> QRect | None:
    """The first place for a label that lies in the room and covers nothing that is taken."""
    free = (p for p in places if room.contains(p) and not any(p.intersects(other) for other in taken))
    return next(free, None)
