"""The base of the ScienceDesk applications: a Qt window driven by mouse and keyboard alone.

An application is a `Desk`: it declares its menus, dialogs and pages, keeps everything that a task can check
in the dictionary `self.values` (dotted keys), and redraws itself from it.  Real and simulated mouse events
are handled alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import shiboken6
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton, QTabBar, QWidget

from coda_lib.action import Action
from sciencedesk.desk import hands
from sciencedesk.desk.elements import Element, visible_elements
from sciencedesk.desk.entries import Refusal
from sciencedesk.desk.qt import application
from sciencedesk.desk.widgets import HEIGHT, WIDTH, Canvas, Field, Popup, Rows, Shade, Slider

MENU_HEIGHT, TAB_TOP, PAGE_TOP, STATUS_TOP = 20, 20, 42, 234  # px from the top edge
_ENTRY_HEIGHT = 19  # px of an entry of a menu
Entry = Callable[[], None] | tuple[str, Any] | Popup  # of a menu: a command, a value of the state, a dialog


class Desk(QWidget):
    """Base of the applications.

    A subclass sets `app`, `title` and `defaults`, builds its widgets in `build()`, shows `self.values` in
    `refresh()`, and may add computed facts in `facts()`.  Its commands raise a Refusal for what they do not
    do; `attempt` shows it.
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
        self.menu: Popup | None = None  # the open one
        self.dialog: Popup | None = None
        self.shortcuts: dict[str, Callable[[], None]] = {}
        self._toggles: list[tuple[QPushButton, str, Any]] = []  # buttons, each on at a value of a key
        self._menu_x = 2
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
        policy = Qt.FocusPolicy
        widget.setFocusPolicy(policy.ClickFocus if isinstance(widget, QLineEdit) else policy.NoFocus)
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
        button.clicked.connect(lambda: self.attempt(act))
        return button

    def choice(self, name: str, key: str, value: Any) -> QPushButton:
        """A button that sets the state under `key`, one of several choices; the chosen one stays down."""
        button = self.button(name, lambda: self.change(**{key: value}))
        button.setCheckable(True)
        button.setStyleSheet("QPushButton:checked { background: #1f6feb; color: white; }")
        self._toggles.append((button, key, value))
        return button

    def field(self, name: str, enter: Callable[[], None], parent: QWidget | None = None) -> Field:
        field = Field(name, parent or self)
        field.returnPressed.connect(lambda: self.attempt(enter))
        return field

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
        return {
            name: self.add(page, self.label(name), x, y + step * i, w, 18) for i, name in enumerate(names)
        }

    def picture(
        self,
        name: str,
        draw: Callable[..., None],
        objects: Callable[..., Mapping[str, QRect]] = lambda v, rect: {},
    ) -> Canvas:
        """A canvas drawn from the state: draw(values, painter, rect), objects(values, rect) -> boxes by name."""
        return Canvas(name, self, lambda *at: draw(self.values, *at), lambda rect: objects(self.values, rect))

    def on(self, signal: Any, act: Callable[..., None]) -> None:
        """Carry out a command, with the signal's values, whenever a widget sends the signal."""
        signal.connect(lambda *values: self.attempt(act, *values))

    def attempt(self, act: Callable[..., None], *values: Any) -> None:
        """Carry out a command, or show in the status line why it is refused."""
        try:
            act(*values)
        except Refusal as refusal:
            self.message(str(refusal))

    def message(self, text: str) -> None:
        self.status.setText(text)

    # -- menus and dialogs --------------------------------------------------------------------------------------------

    def add_menu(self, title: str, entries: Mapping[str, Entry]) -> Popup:
        """A menu in the menu bar.

        An entry is a command, a dialog to open, or (key, value): it then has a mark that shows and sets the
        state.  With a boolean value it toggles; with another value it is one of several choices.
        """
        frame = Popup(self)
        for i, (name, entry) in enumerate(entries.items()):
            item = self.button(name, partial(self._choose, name, entry), frame)
            item.setStyleSheet("text-align: left; padding-left: 6px; border: none;")
            self._place(item, 1, 1 + _ENTRY_HEIGHT * i, 118, _ENTRY_HEIGHT)
            if isinstance(entry, tuple):
                item.setProperty("role", "toggle")
                self._toggles.append((item, *entry))
        frame.setGeometry(min(self._menu_x, WIDTH - 122), MENU_HEIGHT, 120, 2 + _ENTRY_HEIGHT * len(entries))
        home = frame.pos()
        opener = self.button(title, lambda: self.open_menu(frame, home))
        opener.setFlat(True)
        opener.setProperty("role", "menu")
        width = 12 + self.fontMetrics().horizontalAdvance(title)
        self._place(opener, self._menu_x, 0, width, MENU_HEIGHT)
        self._menu_x += width
        return frame

    @staticmethod
    def offer(menu: Popup, names: Sequence[str]) -> None:
        """Let a menu show these of its entries alone, one below the other."""
        buttons = {button.accessibleName(): button for button in menu.findChildren(QPushButton)}
        for button in menu.findChildren(QPushButton):
            button.setVisible(button.accessibleName() in names)
        for i, name in enumerate(names):
            buttons[name].move(1, 1 + _ENTRY_HEIGHT * i)
        menu.resize(menu.width(), 2 + _ENTRY_HEIGHT * len(names))

    def _choose(self, name: str, entry: Entry) -> None:
        self.close_menu()
        if isinstance(entry, Popup):
            self.open_dialog(entry)
        elif callable(entry):
            entry()
        else:
            key, value = entry
            self.set(key, not self.values[key] if isinstance(value, bool) else value)
            self.message(f"{name}: {'on' if self.values[key] == value else 'off'}")  # it may be invisible

    def toggle(self, key: str) -> None:
        self.set(key, not self.values[key])

    def open_menu(self, frame: Popup, at: QPoint) -> None:
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
        accept: Callable[[dict[str, str]], None],
        fields: Sequence[str],
        start: Callable[[], Mapping[str, Any]] = dict,
    ) -> Popup:
        """A dialog with named text fields and the buttons OK and Cancel.

        `accept` gets the fields' texts; if it raises a Refusal, the dialog stays open.  `start` gives the
        fields' texts at opening.  The first field has the focus.
        """
        frame = Popup(self)
        frame.setGeometry(58, 60, 220, height)
        heading = self._place(QLabel(title, frame), 1, 1, 218, 18)
        heading.setStyleSheet("background: #34495e; color: white; padding-left: 4px;")
        inputs: dict[str, Field] = {}

        def finish() -> None:
            accept({name: field.text().strip() for name, field in inputs.items()})
            self.close_dialog()

        def fill() -> None:
            texts = start()
            for name, field in inputs.items():
                field.setText(str(texts.get(name, "")))
            inputs[fields[0]].setFocus()
            inputs[fields[0]].selectAll()

        for i, name in enumerate(fields):
            self._place(QLabel(name, frame), 8, 24 + 24 * i, 78, 20)
            inputs[name] = self._place(self.field(name, finish, frame), 88, 24 + 24 * i, 124, 20)
        self._place(self.button("OK", finish, frame), 92, height - 26, 58, 22)
        self._place(self.button("Cancel", self.close_dialog, frame), 154, height - 26, 58, 22)
        frame.fill = fill
        return frame

    def add_entry(self, title: str, name: str, key: str, read: Callable[[str], Any]) -> Popup:
        """A dialog of one field for the state under `key`; `read` gives a text's value, or raises a Refusal."""

        def accept(texts: dict[str, str]) -> None:
            self.set(key, read(texts[name]))

        return self.add_dialog(title, 84, accept, [name], lambda: {name: self.values[key]})

    def open_dialog(self, frame: Popup) -> None:
        self.close_menu()
        self.close_dialog()
        self.dialog = frame
        self._raise(frame)
        frame.fill()

    def close_dialog(self) -> None:
        if self.dialog is not None:
            self.dialog.hide()
            self.dialog = None
            self._shade.hide()
            if self.focusWidget():
                self.focusWidget().clearFocus()

    def _raise(self, frame: Popup) -> None:
        self._shade.show()
        self._shade.raise_()
        frame.show()
        frame.raise_()

    # -- state ---------------------------------------------------------------------------------------------------

    def reset(self, settings: Mapping[str, Any]) -> None:
        """Begin an episode: the defaults, changed by `settings` (dotted keys).  KeyError for an unknown key."""
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

    # -- mouse, keyboard and screen --------------------------------------------------------------------------------

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
