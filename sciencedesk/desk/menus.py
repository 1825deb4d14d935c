"""A window's commands: the buttons, fields, menus and dialogs that carry them out, and its status line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton, QWidget

from sciencedesk.desk.entries import Refusal
from sciencedesk.desk.widgets import HEIGHT, WIDTH, Field, Popup, Shade

MENU_HEIGHT, _ENTRY_HEIGHT = 20, 19  # px of the menu bar, of an entry of a menu
Accept, Texts = Callable[[dict[str, str]], None], Callable[[], Iterable[Any]]  # of a dialog's fields
Entry = Callable[[], None] | tuple[str, Any] | Popup  # of a menu: a command, a value of the state, a dialog


class MenuWindow(QWidget):
    """A window with menus and dialogs, of which one at a time is open, over a shade.

    A subclass has the state in `values` and makes the `status` line and the `_shade`.  A command raises a
    Refusal for what it does not do; `attempt` shows it in the status line.
    """

    values: dict[str, Any]
    status: QLabel
    _shade: Shade

    def __init__(self):
        super().__init__()
        self.menu: Popup | None = None  # the open one
        self.dialog: Popup | None = None
        self._toggles: list[tuple[QPushButton, str, Any]] = []  # buttons, each on at a value of a key
        self.menus: dict[str, tuple[QPushButton, Popup]] = {}  # by title: what opens it, and the menu
        self.dialogs: dict[str, Popup] = {}
        self.room = QRect(0, 0, WIDTH, HEIGHT)  # px of the screen that the window takes

    def ordered(self, names: Iterable[str]) -> list[str]:
        """Names of menus, entries, tabs or rows in the order in which they are shown."""
        return list(names)

    def set(self, key: str, value: Any) -> None:
        """Change the state under a key and show it."""
        raise NotImplementedError

    @staticmethod
    def _place(widget: QWidget, x: int, y: int, w: int, h: int) -> Any:
        widget.home = QRect(x, y, w, h)  # in a window that fills the screen
        widget.setGeometry(widget.home)
        policy = Qt.FocusPolicy
        widget.setFocusPolicy(policy.ClickFocus if isinstance(widget, QLineEdit) else policy.NoFocus)
        return widget

    def button(self, name: str, act: Callable[[], None], parent: QWidget | None = None) -> QPushButton:
        button = QPushButton(name, parent or self)
        button.setAccessibleName(name)
        button.clicked.connect(lambda: self.attempt(act))
        return button

    def field(self, name: str, enter: Callable[[], None], parent: QWidget | None = None) -> Field:
        field = Field(name, parent or self)
        field.returnPressed.connect(lambda: self.attempt(enter))
        return field

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

    def add_menu(self, title: str, entries: Mapping[str, Entry]) -> Popup:
        """A menu of the menu bar.

        An entry is a command, a dialog to open, or (key, value): its mark shows and sets the state.  A
        boolean value toggles; another value is one of several choices.
        """
        frame = Popup(self)
        for i, (name, entry) in enumerate(entries.items()):
            item = self.button(name, partial(self._choose, name, entry), frame)
            item.setStyleSheet("text-align: left; padding-left: 6px; border: none;")
            self._place(item, 1, 1 + _ENTRY_HEIGHT * i, 118, _ENTRY_HEIGHT)
            if isinstance(entry, tuple):
                item.setProperty("role", "toggle")
                self._toggles.append((item, *entry))
        frame.resize(120, 2 + _ENTRY_HEIGHT * len(entries))
        opener = self._place(self.button(title, lambda: self._drop(title)), 0, 0, 0, MENU_HEIGHT)
        self.menus[title] = opener, frame
        opener.setFlat(True)
        opener.setProperty("role", "menu")
        return frame

    def _drop(self, title: str) -> None:
        """Open a menu of the menu bar below its title."""
        opener, frame = self.menus[title]
        x = min(opener.x(), self.room.right() - 121)  # 2 px from the edge
        self.open_menu(frame, QPoint(x, opener.y() + opener.height()))

    def offer(self, menu: Popup, names: Iterable[str]) -> None:
        """Let a menu show these of its entries alone, one below the other."""
        names = self.ordered(names)
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
        right, bottom = self.room.x() + self.room.width(), self.room.y() + self.room.height()
        frame.move(min(at.x(), right - frame.width()), min(at.y(), bottom - frame.height()))
        self.menu = frame
        self._raise(frame)

    def close_menu(self) -> None:
        if self.menu is not None:
            self.menu.hide()
            self.menu = None
            self._shade.setVisible(self.dialog is not None)

    def add_dialog(
        self, title: str, height: int, accept: Accept, fields: Sequence[str], start: Texts = tuple
    ) -> Popup:
        """A dialog with named text fields and the buttons OK and Cancel.

        `accept` gets the fields' texts; if it raises a Refusal, the dialog stays open.  `start` gives the
        fields' texts at opening, in their order.  The first field has the focus.
        """
        frame = Popup(self)
        self.dialogs[title] = self._place(frame, 58, 60, 220, height)
        heading = self._place(QLabel(title, frame), 1, 1, 218, 18)
        heading.setStyleSheet("background: #34495e; color: white; padding-left: 4px;")
        inputs: dict[str, Field] = {}

        def finish() -> None:
            accept({name: field.text().strip() for name, field in inputs.items()})
            self.close_dialog()

        def fill() -> None:
            for field, text in zip_longest(inputs.values(), start(), fillvalue=""):
                field.setText(str(text))
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
        """A dialog of one field for the state under `key`; `read` gives the value or raises a Refusal."""

        def accept(texts: dict[str, str]) -> None:
            self.set(key, read(texts[name]))

        return self.add_dialog(title, 84, accept, [name], lambda: [self.values[key]])

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
