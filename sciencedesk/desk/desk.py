"""The base of the ScienceDesk applications: a Qt window driven by mouse and keyboard alone.

An application is a `Desk`: it declares its menus, dialogs and pages, keeps everything that a task can check
in the dictionary `self.values` (dotted keys), and redraws itself from it.  Real and simulated mouse events
are handled alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import shiboken6
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QLabel, QPushButton, QTabBar, QWidget

from coda_lib.action import Action
from sciencedesk.desk import hands
from sciencedesk.desk.elements import Element, visible_elements
from sciencedesk.desk.menus import MenuWindow
from sciencedesk.desk.qt import application
from sciencedesk.desk.widgets import HEIGHT, WIDTH, Canvas, Field, Rows, Shade, Slider

Boxes = Callable[[Mapping[str, Any], QRect], Mapping[str, QRect]]  # of a picture's objects by name
TAB_TOP, PAGE_TOP, STATUS_TOP = 20, 42, 234  # px from the top edge


class Desk(MenuWindow):
    """Base of the applications.

    A subclass sets `app`, `title` and `defaults`, builds its widgets in `build()`, shows `self.values` in
    `refresh()`, and may add computed facts in `facts()`.
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
        self.pages: dict[str, list[QWidget]] = {}
        self.shortcuts: dict[str, Callable[[], None]] = {}
        # not scaled, whatever the display's scale is
        self._image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)
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

    # -- what a subclass defines ----------------------------------------------------------------------------

    def build(self) -> None:
        raise NotImplementedError

    def refresh(self) -> None:
        """Show `self.values` in the application's own widgets."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Values computed from the state (a distance, a position); tasks check them like the state."""
        return {}

    # -- pages and their widgets ----------------------------------------------------------------------------

    def add(self, page: str, widget: QWidget, x: int, y: int, w: int, h: int) -> Any:
        """Put a widget on a tab's page; x, y in px of the window, y counted from the top of the page."""
        if page not in self.pages:
            self.pages[page] = []
            self.tabs.addTab(page)
        self.pages[page].append(widget)
        self._place(widget, x, PAGE_TOP + y, w, h)
        self._shade.raise_()
        return widget

    def choice(self, name: str, key: str, value: Any) -> QPushButton:
        """A button that sets the state under `key`, one of several choices; the chosen one stays down."""
        button = self.button(name, lambda: self.change(**{key: value}))
        button.setCheckable(True)
        button.setStyleSheet("QPushButton:checked { background: #1f6feb; color: white; }")
        self._toggles.append((button, key, value))
        return button

    def label(self, name: str) -> QLabel:
        """A named value, shown as 'name: text' by `show_value`."""
        label = QLabel(self)
        label.setAccessibleName(name)
        return label

    @staticmethod
    def show_value(label: QLabel, text: str) -> None:
        label.setText(f"{label.accessibleName()}: {text}")

    def labels(self, page: str, names: Sequence[str], x: int, y: int, w: int, step: int) -> dict[str, QLabel]:
        """A column of named values, each 18 px high and `step` px below the last."""
        rows = enumerate(names)
        return {name: self.add(page, self.label(name), x, y + step * i, w, 18) for i, name in rows}

    def picture(self, name: str, draw: Callable[..., None], objects: Boxes = lambda v, rect: {}) -> Canvas:
        """A canvas: draw(values, painter, rect) shows the state, objects(values, rect) has boxes by name."""
        return Canvas(name, self, lambda *at: draw(self.values, *at), lambda rect: objects(self.values, rect))

    # -- state ----------------------------------------------------------------------------------------------

    def reset(self, settings: Mapping[str, Any]) -> None:
        """Begin an episode: the defaults, changed by `settings` (by key).  KeyError for an unknown key."""
        if unknown := settings.keys() - self.defaults.keys():
            known = ", ".join(sorted(self.defaults))
            raise KeyError(f"{self.app} has no setting {min(unknown)!r}; it has {known}")
        self.values = {key: copy(value) for key, value in {**self.defaults, **settings}.items()}
        self.close_menu()
        self.close_dialog()
        self.clipboard, self.held, self.pressed = "", frozenset(), None  # of this window and this episode
        for field in self.findChildren(Field):
            field.setText("")  # unlike clear(), not undone by Ctrl+Z
        for rows in self.findChildren(Rows):
            rows.verticalScrollBar().setValue(0)
        if self.focusWidget():
            self.focusWidget().clearFocus()
        self._show_values()

    def set(self, key: str, value: Any) -> None:
        """Change the state under a key and show it.  KeyError for an unknown key."""
        if self.values[key] != value:
            self.change(**{key: value})

    def change(self, **values: Any) -> None:
        """Change several values of the state and show it."""
        self.values |= values
        self._show_values()

    def state(self) -> dict[str, Any]:
        """A copy of the state with the computed facts."""
        return {key: copy(value) for key, value in self.values.items()} | self.facts()

    def _show_values(self) -> None:
        for button, key, value in self._toggles:
            if button.isCheckable():
                button.setChecked(self.values[key] == value)
            else:
                button.setText(("● " if self.values[key] == value else "   ") + button.accessibleName())
        self.tabs.setCurrentIndex(list(self.pages).index(self.values["tab"]))
        for name, widgets in self.pages.items():
            for widget in widgets:
                widget.setVisible(name == self.values["tab"])
        self.refresh()
        for picture in [*self.findChildren(Canvas), *self.findChildren(Slider)]:
            picture.update()

    # -- mouse, keyboard and screen -------------------------------------------------------------------------

    def keyPressEvent(self, event) -> None:
        """Handle keys that no widget took: Escape closes, shortcuts act."""
        if event.key() == Qt.Key.Key_Escape:
            self.close_menu() if self.menu is not None else self.close_dialog()
        elif event.modifiers() & Qt.KeyboardModifier.ControlModifier and self.dialog is None:
            letter = chr(event.key()).lower() if event.key() < 128 else ""
            if act := self.shortcuts.get(f"ctrl {letter}"):
                self.attempt(act)

    @property
    def typing(self) -> bool:
        """Whether a text typed now goes into a field."""
        return isinstance(self.focusWidget(), Field) and self.focusWidget().isVisible() and self.menu is None

    def screenshot(self) -> np.ndarray:
        """The window as an RGB array, uint8, (252, 336, 3)."""
        self._image.fill(Qt.GlobalColor.transparent)
        self.render(self._image)
        image = self._image.convertToFormat(QImage.Format.Format_RGB888)
        pixels = np.frombuffer(image.constBits(), np.uint8)
        return pixels.reshape(HEIGHT, WIDTH, 3).copy()

    def perform(self, action: Action) -> None:
        """Do one action as mouse and keyboard events."""
        hands.perform(self, action)

    def elements(self) -> list[Element]:
        """Everything visible with a name; for base-model training, scripts and tests, never for the agent."""
        return visible_elements(self)

    def discard(self) -> None:
        """Delete the window with all its Qt objects."""
        shiboken6.delete(self)
