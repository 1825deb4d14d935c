"""Pages of names at random places, drawn as the applications draw rows, discs, marks and buttons.

On the screens of a walk most names have their usual place, and a tiny model learns the places and not to
read.  On a page a name is found by reading alone; some names are letters that mean nothing, so that reading
is not knowing the names by heart either.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QPen, QPolygonF

from sciencedesk.desk.elements import Element
from sciencedesk.desk.qt import application
from sciencedesk.desk.widgets import HEIGHT, WIDTH

# how often a list, disc, point, mark, button, label and value are tried: values mostly find no room
WEIGHTS = (3, 4, 4, 3, 2, 2, 9)
_NAMES, _TRIES = 30, 120  # names of a whole screen at most, and places that are tried for them
_ROW_HEIGHTS = (13, 13, 19, 20)  # px; as in the applications' lists
_PAPERS = ("#f3f3f3", "#ffffff", "#ffffff", "#101828", "#c8f08c")
_DISCS = ("#4b5563", "#e5e5e5", "#e5484d", "#2f6fde", "#f0c060", "#ffffff", "#d1242f")
_INKS = ("#e6e6e6", "#b45309", "#9a9a9a", "#1a1a6e")  # of some names, where they can be read
_LETTERS, _DIGITS, _SIGNS = "abcdefghijklmnopqrstuvwxyz", "0123456789", "+-*/^()=., :_°'"
_VOWELS, _CONSONANTS = "aeiou", "bcdfghjklmnprstvwyz"
_CLEAR = QColor(255, 255, 255, 190)


Letters = tuple[tuple[float, float, str], ...]  # middles (x, y) in px


def draw_crop(
    names: Sequence[str], rng: Random, invented: float, size: tuple[int, int]
) -> tuple[np.ndarray, tuple[Element, ...], Letters]:
    """A page of this size (width, height) in px: pixels (height, width, 3), elements and letters."""
    return _Page(names, rng, invented, size).drawn()


def invent(rng: Random) -> str:
    """What means nothing: letters at random, syllables, codes, numbers, formulas."""
    kind = rng.random()
    if kind < 0.3:
        word = "".join(rng.choices(_LETTERS, k=rng.randint(2, 9)))
        return word.capitalize() if rng.random() < 0.6 else word
    if kind < 0.6:
        word = "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.randint(1, 4)))
        word = word.capitalize() if rng.random() < 0.7 else word
        end = "".join(rng.choices(_LETTERS, k=rng.randint(1, 5)))
        return word + rng.choice(" .-_") + end if rng.random() < 0.3 else word
    if kind < 0.7:
        start = "".join(rng.choices(_LETTERS.upper(), k=rng.randint(1, 3)))
        return start + rng.choice(("", "", " ", "-")) + str(rng.randint(0, 999))
    if kind < 0.8:
        sign, number = rng.choice(("", "-")), rng.uniform(0, 999)
        return sign + (f"{number:.{rng.randint(0, 3)}f}" if rng.random() < 0.6 else str(int(number) // 10))
    letters = (
        _LETTERS + _LETTERS.upper() + 2 * _DIGITS + 2 * _SIGNS
    )  # each as often: rare ones are learned too
    return "".join(rng.choices(letters, k=rng.randint(1, 9))).strip() or "x"


class _Page:
    def __init__(self, names: Sequence[str], rng: Random, invented: float, size: tuple[int, int]):
        self._rng, (self.width, self.height) = rng, size
        share = self.width * self.height / (WIDTH * HEIGHT)
        self._tries = max(40, round(_TRIES * 2 * share)) if share < 1 else _TRIES
        drawn = rng.sample(names, min(len(names), max(6, round(_NAMES * 3 * share)) if share < 1 else _NAMES))
        self._left = list(dict.fromkeys(invent(rng) if rng.random() < invented else name for name in drawn))
        self._taken: list[QRect] = []
        self._elements: list[Element] = []
        self._letters: list[tuple[float, float, str]] = []

    def drawn(self) -> tuple[np.ndarray, tuple[Element, ...], Letters]:
        image = QImage(self.width, self.height, QImage.Format.Format_RGB888)
        rng = self._rng
        paper = QColor(rng.choice(_PAPERS))
        if rng.random() < 0.4:
            paper = QColor(*(rng.randrange(256) for _ in range(3)))
        image.fill(paper)
        ink = QColor("white" if paper.lightness() < 128 else "black")
        dark = paper.darker(150).name(), "#e6e6e6"
        self._base = dark if paper.lightness() <= 100 else ("#ffffff", "#000000")
        font = QFont(application().font())
        kinds = (self._list, self._disc, self._point, self._mark, self._button, self._label, self._value)
        with QPainter(image) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            for kind in rng.choices(kinds, WEIGHTS, k=self._tries):
                if self._left:
                    is_large = kind == self._label and rng.random() < 0.3
                    font.setPixelSize(17 if is_large else rng.choice((10, 11, 11)))
                    painter.setFont(font)
                    other = QColor(rng.choice(_INKS)) if rng.random() < 0.2 else ink
                    painter.setPen(other if abs(other.lightness() - paper.lightness()) > 90 else ink)
                    kind(painter)
        rows = np.frombuffer(image.constBits(), np.uint8).reshape(self.height, image.bytesPerLine())
        pixels = rows[:, : 3 * self.width].reshape(self.height, self.width, 3).copy()
        return pixels, tuple(self._elements), tuple(self._letters)

    def _write(self, painter: QPainter, room: QRect, how: Qt.AlignmentFlag, text: str) -> None:
        painter.drawText(room, how, text)
        box, width = painter.boundingRect(room, how, text), painter.fontMetrics().horizontalAdvance
        for i, letter in enumerate(text):
            middle = box.x() + (width(text[:i]) + width(text[: i + 1])) / 2
            self._letters.append((middle, box.center().y() + 0.5, letter))

    def _place(self, width: int, height: int) -> QRect | None:
        """A free place of this size, if a random one is free."""
        if width >= self.width - 4 or height >= self.height - 4:
            return None
        x = self._rng.randrange(2, self.width - width - 1)
        y = self._rng.randrange(2, self.height - height - 1)
        box = QRect(x, y, width, height)
        if any(box.intersects(other) for other in self._taken):
            return None
        self._taken.append(box.adjusted(-1, -1, 1, 1))
        return box

    def _place_next(self, painter: QPainter, least: int, most: int, height: int) -> QRect | None:
        """A free place of the next name, with `least` to `most` px of margin."""
        width = painter.fontMetrics().horizontalAdvance(self._left[-1])
        return self._place(width + self._rng.randint(least, most), height)

    def _take(self, role: str, box: QRect, text: str = "") -> None:
        self._elements.append(Element(self._left.pop(), role, box.getRect(), text))

    def _list(self, painter: QPainter) -> None:
        """Some rows in a box, one of them perhaps selected."""
        rows = self._left[-self._rng.randint(2, 7) :]
        height = self._rng.choice(_ROW_HEIGHTS)
        width = max(map(painter.fontMetrics().horizontalAdvance, rows)) + self._rng.randint(10, 60)
        box = self._place(width, height * len(rows) + 4)
        if box is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        base, ink = self._base
        painter.fillRect(box, QColor(base))
        painter.setPen(QColor("#b0b0b0"))
        painter.drawRect(box.adjusted(0, 0, -1, -1))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        chosen, top = self._rng.randrange(2 * len(rows)), box.y() + 2
        for i, name in enumerate(reversed(rows)):
            row = QRect(box.x() + 2, top + i * height, width - 4, height)
            if i == chosen:
                painter.fillRect(row, QColor("#1f6feb"))
            painter.setPen(QColor("white" if i == chosen else ink))
            self._write(painter, row.adjusted(2, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, name)
            self._take("row", row, "selected" if i == chosen else "")

    def _disc(self, painter: QPainter) -> None:
        """A disc with a short name on it, as an atom."""
        name, radius = self._left[-1], self._rng.randint(9, 12)
        is_short, side = painter.fontMetrics().horizontalAdvance(name) < 26, 2 * radius + 2
        box = self._place(side, side) if is_short else None
        if box is None:
            self._rng.shuffle(self._left)
            return
        color = QColor(self._rng.choice(_DISCS))
        painter.setPen(QPen(QColor("#333333"), 1))
        painter.setBrush(color)
        painter.drawEllipse(QPointF(box.center()), radius, radius)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QColor("black" if color.lightness() > 140 else "white"))
        self._write(painter, box.adjusted(-4, 0, 4, 0), Qt.AlignmentFlag.AlignCenter, name)
        self._take("target", box)

    def _point(self, painter: QPainter) -> None:
        """A disc or triangle with its name beside it, as a star or a peak: the name is no place to click."""
        name, size = self._left[-1], self._rng.randint(3, 7)
        width = painter.fontMetrics().horizontalAdvance(name) + 2
        box = self._place(width + 20, 30)
        if box is None:
            return
        left, above, ink = self._rng.random() < 0.3, self._rng.random() < 0.5, painter.pen()
        center = QPoint(box.right() - 8 if left else box.x() + 8, box.y() + (20 if above else 9))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._rng.choice(_DISCS)))
        if self._rng.random() < 0.5:
            painter.drawEllipse(center, size, size)
            x, y = center.x() - 9 - width if left else center.x() + 9, center.y() + (-15 if above else 4)
            text = QRect(x, y, width, 12)
        else:
            peak = QPointF(center)
            corners = [peak + QPointF(-6, 4), peak + QPointF(6, 4), peak + QPointF(0, -8)]
            painter.drawPolygon(QPolygonF(corners))
            text = QRect(center.x() - 8 - width if left else center.x() + 7, center.y() - 8, width, 13)
            painter.fillRect(text, _CLEAR)
            ink = QPen(QColor("black"))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(ink)
        self._write(painter, text, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, name)
        self._take("target", QRect(center.x() - 7, center.y() - 7, 14, 14))

    def _mark(self, painter: QPainter) -> None:
        """A name on a light ground, as a mark of a map, or a tick."""
        box = self._place_next(painter, 4, 10, 14)
        if box is None:
            return
        painter.fillRect(box, _CLEAR)
        painter.setPen(QColor("#222222"))
        self._write(painter, box, Qt.AlignmentFlag.AlignCenter, self._left[-1])
        self._take("target", box)

    def _label(self, painter: QPainter) -> None:
        """A text as of a value, on a ground of its own or on the paper."""
        ink, ground = painter.pen(), self._rng.choice((None, None, "#ffffff", "#fff3b0", "#34495e"))
        box = self._place_next(painter, 6, 30, painter.fontMetrics().height() + self._rng.randint(1, 6))
        if box is None:
            return
        if ground:
            painter.fillRect(box, QColor(ground))
            ink = QColor("white" if ground == "#34495e" else "black")
        painter.setPen(ink)
        how = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        self._write(painter, box.adjusted(3, 0, 0, 0), how, self._left[-1])
        self._take("value", box)

    def _value(self, painter: QPainter) -> None:
        """A named value, as 'name: value'."""
        text = f"{self._left[-1]}: {invent(self._rng)}"
        width = painter.fontMetrics().horizontalAdvance(text) + self._rng.randint(4, 30)
        box = self._place(width, self._rng.randint(15, 20))
        if box is None:
            return
        self._write(painter, box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        self._take("value", box, text)

    def _button(self, painter: QPainter) -> None:
        """A button, or an entry of a menu."""
        box = self._place_next(painter, 8, 40, 22)
        if box is None:
            return
        light = self._base[1] == "#000000"
        painter.fillRect(box, QColor("#fafafa" if light else "#44484e"))
        painter.setPen(QColor("#b0b0b0" if light else "#202020"))
        painter.drawRoundedRect(box.adjusted(0, 0, -1, -1), 2, 2)
        painter.setPen(QColor("black" if light else "#e6e6e6"))
        self._write(painter, box, Qt.AlignmentFlag.AlignCenter, self._left[-1])
        self._take("button", box)
