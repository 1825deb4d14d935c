"""The visible elements of a window by name, for base-model training, scripts and tests: no agent has it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRect
from PySide6.QtWidgets import QAbstractButton, QLineEdit, QListWidget, QTabBar, QWidget

from sciencedesk.desk.widgets import HEIGHT, WIDTH, Canvas, Part, Slider


@dataclass(frozen=True)
class Element:
    """A named element on the screen."""

    name: str
    role: str  # button, menu, toggle, tab, field, row, slider, value or target
    box: tuple[int, int, int, int]  # x, y, width, height in px of the window
    text: str = ""  # its text; 'on' for a toggle, 'selected' for a row or tab, the value for a slider

    @property
    def center(self) -> tuple[float, float]:
        """The middle of the box as fractions of the window."""
        x, y, w, h = self.box
        return (x + w / 2) / WIDTH, (y + h / 2) / HEIGHT


def visible_elements(window: QWidget) -> list[Element]:
    """The visible elements with a name, in drawing order, without those under a menu or dialog."""
    found: list[Element] = []
    for widget in window.findChildren(QWidget):
        if not widget.isVisible() or not (widget.accessibleName() or isinstance(widget, QTabBar)):
            continue
        for name, role, box, text in _parts(widget):
            box = QRect(widget.mapTo(window, box.topLeft()), box.size()) & window.rect()
            top = window.childAt(box.center())
            if not box.isEmpty() and top is not None and (top is widget or widget.isAncestorOf(top)):
                found.append(Element(name, role, box.getRect(), text))
    return found


def _parts(widget: QWidget) -> list[Part]:
    """The named parts of a widget."""
    name = widget.accessibleName()
    match widget:
        case QTabBar():
            marks = ["selected" if i == widget.currentIndex() else "" for i in range(widget.count())]
            return [(widget.tabText(i), "tab", widget.tabRect(i), mark) for i, mark in enumerate(marks)]
        case QListWidget() if widget.count():
            items, room = [widget.item(i) for i in range(widget.count())], widget.viewport().rect()
            marks = ["selected" if item is widget.currentItem() else "" for item in items]
            boxes = [widget.visualItemRect(item) & room for item in items]
            return [(i.text(), "row", box, mark) for i, box, mark in zip(items, boxes, marks, strict=True)]
        case QListWidget():
            return [(name, "value", widget.rect(), "")]
        case Slider() | Canvas():
            return widget.parts()
        case QAbstractButton():
            role = widget.property("role") or "button"
            on = role == "toggle" and widget.text().startswith("●")
            return [(name, role, widget.rect(), "on" if on else "")]
        case _:
            role = "field" if isinstance(widget, QLineEdit) else "value"
            return [(name, role, widget.rect(), widget.text())]
