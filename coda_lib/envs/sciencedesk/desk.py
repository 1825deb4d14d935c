"""The base of the ScienceDesk applications: a Qt window driven by mouse and keyboard alone.

An application is a `Desk`: it declares its menus, dialogs and pages, keeps everything that a task can check in the
dictionary `self.values` (dotted keys), and redraws itself from it.  Real and simulated mouse events are handled alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import shiboken6
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QPushButton, QTabBar, QWidget

from coda_lib.action import Action
from coda_lib.envs.sciencedesk import hands
from coda_lib.envs.sciencedesk.elements import Element, visible_elements
from coda_lib.envs.sciencedesk.qt import application
from coda_lib.envs.sciencedesk.widgets import HEIGHT, WIDTH, Canvas, Field, Rows, Shade

MENU_HEIGHT, TAB_TOP, PAGE_TOP, STATUS_TOP = 20, 20, 42, 234  # px from the top edge


class Desk(QWidget):
    """Base of the applications.

    A subclass sets `app`, `title` and `defaults`, builds its widgets in `build()`, shows `self.values` in `refresh()`,
    and may add computed facts in `facts()`.
    """

    app: str
    title: str
    defaults: Mapping[str, Any]

    def __init__(self, visible: bool = False):
        application(visible)
        super().__init__()
        self.setFixedSize(WIDTH, HEIGHT)
        self.setWindowTitle(self.title)
        self.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen, not visible)
        self.values: dict[str, Any] = {}
        self.pages: dict[str, list[QWidget]] = {}
        self.menu: QFrame | None = None  # the open one
        self.dialog: QFrame | None = None
        self.shortcuts: dict[str, Callable[[], None]] = {}
        self.clipboard = ""  # of this window: windows side by side and successive episodes share nothing
        self._toggles: list[tuple[QPushButton, str, str, Any]] = []
        self._menu_x = 2
        self._image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)  # not scaled, whatever the display's scale is
        self.tabs = self._place(QTabBar(self), 0, TAB_TOP, WIDTH, 22)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.status = self._place(QLabel(self), 4, STATUS_TOP, WIDTH - 8, 16)
        self.status.setAccessibleName("Status")
        self._shade = Shade(self)
        self.build()
        self.tabs.currentChanged.connect(lambda index: self.set("tab", self.tabs.tabText(index)))
        self.reset({})
        self.show()

    # -- what a subclass defines ---------------------------------------------------------------------------------

    def build(self) -> None:
        raise NotImplementedError

    def refresh(self) -> None:
        """Show `self.values` in the application's own widgets."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Values computed from the state (a root, a distance, a position); tasks check them like the state."""
        return {}

    # -- pages and their widgets ----------------------------------------------------------------------------------

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
        """A named value, shown as 'name: text' by `show_value`."""
        label = QLabel(parent or self)
        label.setAccessibleName(name)
        return label

    @staticmethod
    def show_value(label: QLabel, text: str) -> None:
        label.setText(f"{label.accessibleName()}: {text}")

    def picture(self, name: str, draw: Callable[..., None], objects: Callable[..., Any] = lambda v, rect: {}) -> Canvas:
        """A canvas drawn from the state by draw(values, painter, rect); objects(values, rect) gives the boxes by name."""
        return Canvas(name, self, lambda *at: draw(self.values, *at), lambda rect: objects(self.values, rect))

    def message(self, text: str) -> None:
        self.status.setText(text)

    # -- menus and dialogs --------------------------------------------------------------------------------------------

    def add_menu(self, title: str, entries: Mapping[str, Callable[[], None] | tuple[str, Any]]) -> QFrame:
        """A menu in the menu bar.  An entry is a callable, or (key, value): an entry with a mark that shows and sets the state.

        With a boolean value the entry toggles; with another value it is one of several choices.
        """
        width = 12 + self.fontMetrics().horizontalAdvance(title)
        opener = self._place(QPushButton(title, self), self._menu_x, 0, width, MENU_HEIGHT)
        opener.setFlat(True)
        opener.setAccessibleName(title)
        opener.setProperty("role", "menu")
        frame = self._frame()
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

    def _frame(self) -> QFrame:
        frame = QFrame(self)
        frame.setFrameShape(QFrame.Shape.Box)
        frame.setAutoFillBackground(True)
        return frame

    def _choose(self, name: str, entry: Callable[[], None] | tuple[str, Any]) -> None:
        self.close_menu()
        if callable(entry):
            entry()
            return
        key, value = entry
        self.set(key, not self.values[key] if isinstance(value, bool) else value)
        self.message(f"{name}: {'on' if self.values[key] == value else 'off'}")  # the effect may be invisible

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
        self, title: str, height: int, accept: Callable[[dict[str, str]], str | None] | None = None,
        fields: Iterable[str] = (), start: Callable[[], Mapping[str, str]] = dict,
    ) -> QFrame:  # fmt: skip
        """A dialog with named text fields and the buttons OK and Cancel (Close alone without `accept`).

        `accept` gets the fields' texts and returns None, or what is wrong with them; that is shown in the status line and
        the dialog stays open.  `start` gives the fields' texts at opening.  The first field has the focus.
        """
        frame = self._frame()
        frame.setGeometry(58, 60, 220, height)
        heading = self._place(QLabel(title, frame), 1, 1, 218, 18)
        heading.setStyleSheet("background: #34495e; color: white; padding-left: 4px;")
        inputs: dict[str, Field] = {}
        for i, name in enumerate(fields):
            self._place(QLabel(name, frame), 8, 24 + 24 * i, 78, 20)
            inputs[name] = self._place(self.field(name, parent=frame), 88, 24 + 24 * i, 124, 20)

        def finish() -> None:
            if problem := accept({name: field.text().strip() for name, field in inputs.items()}):
                self.message(problem)
            else:
                self.close_dialog()

        for field in inputs.values():
            field.returnPressed.connect(finish)
        if accept:
            self._place(self.button("OK", finish, frame), 92, height - 26, 58, 22)
        close = self.button("Cancel" if accept else "Close", self.close_dialog, frame)
        self._place(close, 154, height - 26, 58, 22)
        frame.opening = lambda: self._fill(inputs, start())
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

    # -- state ---------------------------------------------------------------------------------------------------

    def reset(self, settings: Mapping[str, Any]) -> None:
        """Begin a new episode: the defaults, changed by `settings` (dotted keys).  KeyError for an unknown key."""
        unknown = set(settings) - set(self.defaults)
        if unknown:
            known = ", ".join(sorted(self.defaults))
            raise KeyError(f"{self.app} has no setting {min(unknown)!r}; it has {known}")
        self.values = {key: _copy(value) for key, value in (dict(self.defaults) | dict(settings)).items()}
        self.close_menu()
        self.close_dialog()
        self.clipboard = ""
        for field in self.findChildren(Field):
            field.setText("")  # unlike clear(), not undone by Ctrl+Z
        for rows in self.findChildren(Rows):
            rows.verticalScrollBar().setValue(0)
        if self.focusWidget():
            self.focusWidget().clearFocus()
        self._show_values()

    def set(self, key: str, value: Any) -> None:
        """Change the state under a key and show it.  KeyError for an unknown key."""
        if key not in self.values:
            raise KeyError(f"{self.app} has no state {key!r}")
        if self.values[key] != value:
            self.values[key] = value
            self._show_values()

    def state(self) -> dict[str, Any]:
        """A copy of the state with the computed facts."""
        return {key: _copy(value) for key, value in self.values.items()} | self.facts()

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

    # -- mouse, keyboard and screen --------------------------------------------------------------------------------

    def keyPressEvent(self, event) -> None:
        """Handle keys that no widget took: Escape closes, shortcuts act."""
        if event.key() == Qt.Key.Key_Escape:
            self.close_menu() if self.menu is not None else self.close_dialog()
        elif event.modifiers() & Qt.KeyboardModifier.ControlModifier and self.dialog is None:
            self.shortcuts.get(f"ctrl {chr(event.key()).lower()}" if event.key() < 128 else "", lambda: None)()

    def screenshot(self) -> np.ndarray:
        """The window as an RGB array, uint8, (252, 336, 3)."""
        self._image.fill(Qt.GlobalColor.transparent)
        self.render(self._image)
        image = self._image.convertToFormat(QImage.Format.Format_RGB888)
        pixels = np.frombuffer(image.constBits(), np.uint8)
        return pixels.reshape(HEIGHT, -1)[:, : 3 * WIDTH].reshape(HEIGHT, WIDTH, 3).copy()

    def perform(self, action: Action) -> None:
        """Do one action as mouse and keyboard events."""
        hands.perform(self, action)

    def elements(self) -> list[Element]:
        """Everything visible with a name; for base-model training, scripts and tests, never for the agent."""
        return visible_elements(self)

    def discard(self) -> None:
        """Delete the window with all its Qt objects."""
        shiboken6.delete(self)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict) else value
