"""The frame that the four ScienceDesk applications share: a Qt window driven by mouse and keyboard alone.

An application is a `Desk`: it declares its menus, dialogs and pages, keeps everything that a task can check in the
dictionary `self.values` (dotted keys), and redraws itself from it.  Menus and dialogs are children of the window, not
windows of their own, so that many desks live side by side in one process and a screenshot is one `grab()`.  The same
window can be shown to a person; nothing in it knows whether the mouse is real.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QImage, QPainter, QPalette, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QFrame,
    QLabel,
    QLineEdit,
    QListWidget,
    QPushButton,
    QTabBar,
    QWidget,
)

from coda_lib.action import Action, ActionType
from coda_lib.envs.sciencedesk.widgets import Canvas, Field, Rows, Slider

WIDTH, HEIGHT = 336, 252  # px; multiples of 28, so that Qwen2.5-VL's processor leaves the picture as it is
MENU_HEIGHT, TAB_TOP, PAGE_TOP, STATUS_TOP = 20, 20, 42, 234  # px from the top edge


@dataclass(frozen=True)
class Element:
    """One thing on the screen that a person would name; for base-model training and tests, never for the agent."""

    name: str
    role: str  # button, menu, toggle, tab, field, row, slider, value or target
    box: tuple[int, int, int, int]  # x, y, width, height in px of the window
    text: str = ""  # what it shows: a field's or label's text, 'on' of a toggle, 'selected' of a row or tab, a slider's value

    @property
    def center(self) -> tuple[float, float]:
        """The middle of the box as fractions of the window."""
        x, y, w, h = self.box
        return (x + w / 2) / WIDTH, (y + h / 2) / HEIGHT


class _Shade(QWidget):
    """Covers the window below a menu or dialog; a click on it closes a menu and does nothing to a dialog."""

    def __init__(self, desk: Desk):
        super().__init__(desk)
        self.setGeometry(0, 0, WIDTH, HEIGHT)
        self.hide()

    def mousePressEvent(self, event) -> None:
        self.window().close_menu()

    def paintEvent(self, event) -> None:
        if self.window().dialog is not None:
            QPainter(self).fillRect(self.rect(), QColor(0, 0, 0, 60))


class Desk(QWidget):
    """Base of the four applications.

    A subclass sets `app`, `title` and `defaults`, builds its widgets in `build()`, shows `self.values` in `refresh()`, and may
    add computed facts in `facts()`.  Values are changed through `set()` only.
    """

    app: str
    title: str
    defaults: Mapping[str, Any]

    def __init__(self, visible: bool = False):
        application()
        super().__init__()
        self.setFixedSize(WIDTH, HEIGHT)
        self.setWindowTitle(self.title)
        self.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen, not visible)
        self.values: dict[str, Any] = {}
        self.pages: dict[str, list[QWidget]] = {}
        self.shortcuts: dict[str, Callable[[], None]] = {}
        self.menu: QFrame | None = None
        self.dialog: QFrame | None = None
        self._toggles: list[tuple[QPushButton, str, str, Any]] = []
        self._menu_x = 2
        self.tabs = self._place(QTabBar(self), 0, TAB_TOP, WIDTH, 22)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.status = self._place(QLabel(self), 4, STATUS_TOP, WIDTH - 8, 16)
        self.status.setAccessibleName("Status")
        self._shade = _Shade(self)
        self.build()
        self.tabs.currentChanged.connect(lambda index: self.set("tab", self.tabs.tabText(index)))
        self.reset({})
        self.show()

    # -- what a subclass writes ---------------------------------------------------------------------------------

    def build(self) -> None:
        raise NotImplementedError

    def refresh(self) -> None:
        """Show `self.values` in the application's own widgets."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Values computed from the state (a root, a distance, a position), checked like the state itself."""
        return {}

    # -- state ---------------------------------------------------------------------------------------------------

    def reset(self, settings: Mapping[str, Any]) -> None:
        """Start anew from the defaults, changed by `settings` (dotted keys).  KeyError for a key that is not known."""
        unknown = set(settings) - set(self.defaults)
        if unknown:
            raise KeyError(f"{self.app} has no setting {sorted(unknown)[0]!r}; it has {', '.join(sorted(self.defaults))}")
        self.values = {key: _copy(value) for key, value in (dict(self.defaults) | dict(settings)).items()}
        self.close_menu()
        self.close_dialog()
        for field in self.findChildren(Field):
            field.clear()
        for rows in self.findChildren(Rows):
            rows.verticalScrollBar().setValue(0)
        if self.focusWidget():
            self.focusWidget().clearFocus()
        self._show_values()

    def set(self, key: str, value: Any) -> None:
        if key not in self.values:
            raise KeyError(f"{self.app} has no state {key!r}")
        if self.values[key] != value:
            self.values[key] = value
            self._show_values()

    def state(self) -> dict[str, Any]:
        return {key: _copy(value) for key, value in self.values.items()} | self.facts()

    def message(self, text: str) -> None:
        self.status.setText(text)

    def _show_values(self) -> None:
        for button, label, key, value in self._toggles:
            button.setText(("● " if self.values[key] == value else "   ") + label)
        if "tab" in self.values:
            names = [self.tabs.tabText(i) for i in range(self.tabs.count())]
            self.tabs.blockSignals(True)
            self.tabs.setCurrentIndex(names.index(self.values["tab"]))
            self.tabs.blockSignals(False)
            for name, widgets in self.pages.items():
                for widget in widgets:
                    widget.setVisible(name == self.values["tab"])
        self.refresh()

    # -- building blocks -------------------------------------------------------------------------------------------

    @staticmethod
    def _place(widget: QWidget, x: int, y: int, w: int, h: int) -> Any:
        widget.setGeometry(x, y, w, h)
        widget.setFocusPolicy(Qt.FocusPolicy.ClickFocus if isinstance(widget, QLineEdit) else Qt.FocusPolicy.NoFocus)
        return widget

    def add(self, page: str, widget: QWidget, x: int, y: int, w: int, h: int) -> Any:
        """Put a widget on a tab's page; x, y in px of the window, y counted from the top of the page."""
        if page not in self.pages:
            self.pages[page] = []
            self.tabs.addTab(page)
        self.pages[page].append(widget)
        self._place(widget, x, PAGE_TOP + y, w, h)
        self._shade.raise_()
        return widget

    def button(self, name: str, act: Callable[[], None], parent: QWidget | None = None) -> QPushButton:
        button = QPushButton(name, parent or self)
        button.setAccessibleName(name)
        button.clicked.connect(lambda: act())
        return button

    def field(self, name: str, enter: Callable[[], None] | None = None, parent: QWidget | None = None) -> Field:
        field = Field(name, parent or self)
        if enter:
            field.returnPressed.connect(enter)
        return field

    def label(self, name: str, parent: QWidget | None = None) -> QLabel:
        """A named value: shown as 'name: text', set by `show_value`."""
        label = QLabel(parent or self)
        label.setAccessibleName(name)
        return label

    @staticmethod
    def show_value(label: QLabel, text: str) -> None:
        label.setText(f"{label.accessibleName()}: {text}")

    def add_menu(self, title: str, entries: Mapping[str, Callable[[], None] | tuple[str, Any]]) -> QFrame:
        """A menu in the menu bar.  An entry is a callable, or (key, value): a mark that shows and sets that state.

        With a boolean value the entry toggles; with any other it is one of several choices.
        """
        width = 12 + self.fontMetrics().horizontalAdvance(title)
        opener = self._place(QPushButton(title, self), self._menu_x, 0, width, MENU_HEIGHT)
        opener.setFlat(True)
        opener.setAccessibleName(title)
        opener.setProperty("role", "menu")
        frame = QFrame(self)
        frame.setFrameShape(QFrame.Shape.Box)
        frame.setAutoFillBackground(True)
        for i, (name, entry) in enumerate(entries.items()):
            item = self._place(QPushButton(name, frame), 1, 1 + 19 * i, 118, 19)
            item.setAccessibleName(name)
            item.setStyleSheet("text-align: left; padding-left: 6px; border: none;")
            if isinstance(entry, tuple):
                item.setProperty("role", "toggle")
                self._toggles.append((item, name, entry[0], entry[1]))
            item.clicked.connect(lambda _=False, name=name, entry=entry: self._choose(name, entry))
        frame.setGeometry(min(self._menu_x, WIDTH - 122), MENU_HEIGHT, 120, 2 + 19 * len(entries))
        frame.hide()
        home = frame.pos()
        opener.clicked.connect(lambda: self.open_menu(frame, home))
        self._menu_x += width
        return frame

    def _choose(self, name: str, entry: Callable[[], None] | tuple[str, Any]) -> None:
        self.close_menu()
        if callable(entry):
            entry()
            return
        key, value = entry
        self.set(key, not self.values[key] if isinstance(value, bool) else value)
        self.message(f"{name}: {'on' if self.values[key] == value else 'off'}")  # seen even where the effect is not

    def open_menu(self, frame: QFrame, at: QPoint) -> None:
        """Show a menu with its corner at this point, or as near as the window allows."""
        self.close_menu()
        frame.move(min(at.x(), WIDTH - frame.width()), min(at.y(), HEIGHT - frame.height()))
        self.menu = frame
        self._raise(frame)

    def close_menu(self) -> None:
        if self.menu is not None:
            self.menu.hide()
            self.menu = None
            self._shade.setVisible(self.dialog is not None)

    def add_dialog(
        self,
        title: str,
        height: int,
        accept: Callable[[dict[str, str]], str | None] | None = None,
        fields: Iterable[str] = (),
        start: Callable[[], Mapping[str, str]] | None = None,
    ) -> QFrame:
        """A dialog with named text fields and OK and Cancel (only Close without `accept`); own widgets may be added to it.

        `accept` gets the fields' texts and returns why they cannot be taken (shown in the status line; the dialog stays
        open), or None.  `start` gives the texts that the fields open with.  The first field has the focus.
        """
        frame = QFrame(self)
        frame.setFrameShape(QFrame.Shape.Box)
        frame.setAutoFillBackground(True)
        frame.setGeometry(58, 60, 220, height)
        heading = self._place(QLabel(title, frame), 1, 1, 218, 18)
        heading.setStyleSheet("background: #34495e; color: white; padding-left: 4px;")
        inputs: dict[str, Field] = {}
        for i, name in enumerate(fields):
            self._place(QLabel(name, frame), 8, 24 + 24 * i, 78, 20)
            inputs[name] = self._place(self.field(name, parent=frame), 88, 24 + 24 * i, 124, 20)

        def finish() -> None:
            problem = accept({name: field.text().strip() for name, field in inputs.items()})
            if problem:
                self.message(problem)
            else:
                self.close_dialog()

        if accept:
            for field in inputs.values():
                field.returnPressed.connect(finish)
            self._place(self.button("OK", finish, frame), 92, height - 26, 58, 22)
            self._place(self.button("Cancel", self.close_dialog, frame), 154, height - 26, 58, 22)
        else:
            self._place(self.button("Close", self.close_dialog, frame), 154, height - 26, 58, 22)
        frame.opening = lambda: self._fill(inputs, dict(start()) if start else {})
        frame.hide()
        return frame

    @staticmethod
    def _fill(inputs: Mapping[str, Field], texts: Mapping[str, str]) -> None:
        for name, field in inputs.items():
            field.setText(str(texts.get(name, "")))
        first = next(iter(inputs.values()), None)
        if first:
            first.setFocus()
            first.selectAll()

    def open_dialog(self, frame: QFrame) -> None:
        self.close_menu()
        self.close_dialog()
        self.dialog = frame
        self._raise(frame)
        frame.opening()

    def close_dialog(self) -> None:
        if self.dialog is not None:
            self.dialog.hide()
            self.dialog = None
            self._shade.hide()
            if self.focusWidget():
                self.focusWidget().clearFocus()

    def _raise(self, frame: QFrame) -> None:
        self._shade.show()
        self._shade.raise_()
        frame.show()
        frame.raise_()

    # -- what a person sees and does ---------------------------------------------------------------------------------

    def keyPressEvent(self, event) -> None:
        """Keys that no widget took: Escape closes, shortcuts act (a real window and `perform` both come here)."""
        if event.key() == Qt.Key.Key_Escape:
            self.close_menu() if self.menu is not None else self.close_dialog()
        elif event.modifiers() & Qt.KeyboardModifier.ControlModifier and self.dialog is None:
            self.shortcuts.get(f"ctrl {chr(event.key()).lower()}" if event.key() < 128 else "", lambda: None)()

    def screenshot(self) -> np.ndarray:
        """The window as an RGB array, uint8, (252, 336, 3)."""
        image = self.grab().toImage().convertToFormat(QImage.Format.Format_RGB888)
        stride = image.bytesPerLine()
        pixels = np.frombuffer(image.constBits(), np.uint8).reshape(HEIGHT, stride)
        return pixels[:, : 3 * WIDTH].reshape(HEIGHT, WIDTH, 3).copy()

    def perform(self, action: Action) -> None:
        """Do one action as mouse and keyboard events; the ends of an episode (DONE, FAIL, ANS) and WAIT change nothing."""
        kind = action.type
        if kind in (ActionType.CLICK, ActionType.RIGHT_CLICK, ActionType.DOUBLE_CLICK):
            widget, position = self._at(action.x, action.y)
            right = kind == ActionType.RIGHT_CLICK
            button = Qt.MouseButton.RightButton if right else Qt.MouseButton.LeftButton
            QTest.mouseClick(widget, button, pos=position)
            if kind == ActionType.DOUBLE_CLICK and widget.isVisible():
                QTest.mouseDClick(widget, button, pos=position)
                QTest.mouseRelease(widget, button, pos=position)  # Qt's double click leaves the button held down
        elif kind == ActionType.HOVER:
            widget, position = self._at(action.x, action.y)
            QTest.mouseMove(widget, position)
        elif kind == ActionType.DRAG:
            widget, start = self._at(action.x, action.y)
            end = widget.mapFrom(self, QPoint(*_pixel(action.x2, action.y2)))
            QTest.mousePress(widget, Qt.MouseButton.LeftButton, pos=start)
            QTest.mouseMove(widget, end)
            QTest.mouseRelease(widget, Qt.MouseButton.LeftButton, pos=end)
        elif kind == ActionType.SCROLL:
            self._scroll(action)
        elif kind == ActionType.TYPE:
            for character in action.text:
                if character == "\n":
                    QTest.keyClick(self.focusWidget() or self, Qt.Key.Key_Return)
                elif character.isprintable():
                    QTest.keyClicks(self.focusWidget() or self, character)
        elif kind == ActionType.HOTKEY:
            press(self.focusWidget() or self, action.text)

    def _at(self, x: float, y: float) -> tuple[QWidget, QPoint]:
        point = QPoint(*_pixel(x, y))
        widget = self.childAt(point) or self
        return widget, widget.mapFrom(self, point)

    def _scroll(self, action: Action) -> None:
        widget, position = self._at(action.x, action.y)
        steps = {"up": (0, 120), "down": (0, -120), "left": (120, 0), "right": (-120, 0)}[action.direction]
        where = QPointF(position)
        event = QWheelEvent(
            where, QPointF(widget.mapToGlobal(position)), QPoint(), QPoint(*steps), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(widget, event)

    def elements(self) -> list[Element]:
        """Everything visible that has a name, in drawing order; what a menu or dialog covers is left out."""
        found: list[Element] = []
        for widget in self.findChildren(QWidget):
            if not widget.isVisible() or not (widget.accessibleName() or isinstance(widget, QTabBar)):
                continue
            for name, role, box, text in _parts(widget):
                box = QRect(widget.mapTo(self, box.topLeft()), box.size()) & self.rect()
                top = self.childAt(box.center())
                if not box.isEmpty() and top is not None and (top is widget or widget.isAncestorOf(top)):
                    found.append(Element(name, role, box.getRect(), text))
        return found


def application() -> QApplication:
    """The process's Qt application with the kit's font and colours, made on first use."""
    app = QApplication.instance()
    if app is None:
        app = QApplication(["coda"])
        app.setStyle("Fusion")
        # matplotlib's own font file: the same pixels on every machine, whatever fonts it has
        fonts = Path(importlib.util.find_spec("matplotlib").origin).parent / "mpl-data" / "fonts" / "ttf"
        QFontDatabase.addApplicationFont(str(fonts / "DejaVuSans.ttf"))
        font = QFont("DejaVu Sans")
        font.setPixelSize(11)
        app.setFont(font)
        palette = QPalette(QColor("#f3f3f3"))
        palette.setColor(QPalette.ColorRole.Highlight, QColor("#1f6feb"))
        app.setPalette(palette)
    return app


_KEYS = {
    "enter": "Return", "return": "Return", "esc": "Escape", "escape": "Escape", "tab": "Tab", "space": "Space",
    "backspace": "Backspace", "delete": "Delete", "del": "Delete", "up": "Up", "down": "Down", "left": "Left",
    "right": "Right", "home": "Home", "end": "End", "pageup": "PageUp", "pagedown": "PageDown",
}  # fmt: skip
_MODIFIERS = {"ctrl": "ControlModifier", "shift": "ShiftModifier", "alt": "AltModifier", "meta": "MetaModifier"}


def press(widget: QWidget, keys: str) -> None:
    """Press a key combination such as 'ctrl g'; keys that no keyboard of ours has do nothing, as on a real desktop."""
    modifiers = Qt.KeyboardModifier.NoModifier
    for key in keys.lower().replace("+", " ").split():
        if key in _MODIFIERS:
            modifiers |= Qt.KeyboardModifier[_MODIFIERS[key]]
        elif key in _KEYS:
            QTest.keyClick(widget, Qt.Key["Key_" + _KEYS[key]], modifiers)
        elif len(key) == 1 and key.isascii() and key.isalnum():
            QTest.keyClick(widget, Qt.Key["Key_" + key.upper()], modifiers)


def _pixel(x: float, y: float) -> tuple[int, int]:
    return min(int(x * WIDTH), WIDTH - 1), min(int(y * HEIGHT), HEIGHT - 1)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict) else value


def _parts(widget: QWidget) -> list[tuple[str, str, QRect, str]]:
    """The named parts of a widget: (name, role, box in px of the widget, what it shows)."""
    name = widget.accessibleName()
    if isinstance(widget, QTabBar):
        shown = ["selected" if i == widget.currentIndex() else "" for i in range(widget.count())]
        return [(widget.tabText(i), "tab", widget.tabRect(i), shown[i]) for i in range(widget.count())]
    if isinstance(widget, QListWidget):
        if not widget.count():
            return [(name, "value", widget.rect(), "")]
        items = [widget.item(i) for i in range(widget.count())]
        inside = widget.viewport().rect()
        boxes = [(item.text(), "row", widget.visualItemRect(item) & inside, item) for item in items]
        return [(t, role, box, "selected" if i is widget.currentItem() else "") for t, role, box, i in boxes if not box.isEmpty()]
    if isinstance(widget, Slider | Canvas):
        shown = str(widget.value) if isinstance(widget, Slider) else ""
        return [(part, role, box, shown if role == "slider" else "") for part, role, box in widget.targets()]
    if isinstance(widget, QAbstractButton):
        role = widget.property("role") or "button"
        return [(name, role, widget.rect(), "on" if role == "toggle" and widget.text().startswith("●") else "")]
    return [(name, "field" if isinstance(widget, QLineEdit) else "value", widget.rect(), widget.text())]
