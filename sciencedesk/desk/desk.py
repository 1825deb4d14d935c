"""The base of the ScienceDesk applications: a Qt window driven by mouse and keyboard alone.

An application is a `Desk`: it declares its menus, dialogs and pages, keeps everything that a task can check
in the dictionary `self.values` (dotted keys), and redraws itself from it.  Real and simulated mouse events
are handled alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any
from zlib import crc32

import numpy as np
import shiboken6
from PySide6.QtCore import QPoint, QRect, QSignalBlocker, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from coda_lib.action import Action
from sciencedesk.desk import hands
from sciencedesk.desk.elements import Element, visible_elements
from sciencedesk.desk.menus import MENU_HEIGHT, MenuWindow
from sciencedesk.desk.qt import TEXT_PX, application, font, palette
from sciencedesk.desk.widgets import HEIGHT, WIDTH, Canvas, Field, Popup, Rows, Shade, Slider, Tabs

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
        self.view: Mapping[str, Any] = {}
        self.shortcuts: dict[str, Callable[[], None]] = {}
        # not scaled, whatever the display's scale is
        self._image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)
        self.tabs = self._place(Tabs(self), 0, TAB_TOP, WIDTH, 22)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.status = self._place(QLabel(self), 4, STATUS_TOP, WIDTH - 8, 16)
        self.status.setAccessibleName("Status")
        self._shade = Shade(self)
        self.build()
        self.tabs.currentChanged.connect(lambda index: self.set("tab", self.tabs.tabText(index)))
        self._arrange()
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
        """Return to the defaults, changed by `settings` (by key).  KeyError for an unknown key."""
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
        self.tabs.setCurrentIndex(self.ordered(self.pages).index(self.values["tab"]))
        for name, widgets in self.pages.items():
            for widget in widgets:
                widget.setVisible(name == self.values["tab"])
        self.refresh()
        for picture in [*self.findChildren(Canvas), *self.findChildren(Slider)]:
            picture.update()

    # -- how the window looks -------------------------------------------------------------------------------

    def ordered(self, names: Iterable[str]) -> list[str]:
        if seed := self.view.get("order"):
            return sorted(names, key=lambda name: crc32(f"{seed} {name}".encode()))
        return list(names)

    def _arrange(self) -> None:
        """Put theme, text, menus, tabs and pages where `view` wants them."""
        view = self.view
        self.room = QRect(*view.get("window", (0, 0, WIDTH, HEIGHT)))
        self.setPalette(palette(view.get("theme", "light")))
        self.setFont(font(view.get("text", TEXT_PX)))
        self._shade.setGeometry(self.room)
        with QSignalBlocker(self.tabs):
            while self.tabs.count():
                self.tabs.removeTab(0)
            for page in self.ordered(self.pages):
                self.tabs.addTab(page)
        mirrored, direction = "mirrored" in view.get("layout", ()), Qt.LayoutDirection
        self.tabs.setLayoutDirection(direction.RightToLeft if mirrored else direction.LeftToRight)
        for rows in self.findChildren(Rows):
            rows.clear()  # their colours are of the theme before
        for widget in self.findChildren(QWidget):
            if widget.styleSheet():  # it does not take its window's, nor does its viewport
                widget.setFont(self.font())
                for part in (widget, *widget.findChildren(QWidget)):
                    part.setPalette(self.palette())
        x = 2
        for title in self.ordered(self.menus):
            opener, frame = self.menus[title]
            width = 12 + opener.fontMetrics().horizontalAdvance(title)
            opener.home = QRect(x, 0, width, MENU_HEIGHT)
            x += width
            self.offer(frame, [item.accessibleName() for item in frame.findChildren(QPushButton)])
        for widget in self.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly):
            if hasattr(widget, "home"):
                widget.setGeometry(self._at_home(widget))

    def _at_home(self, widget: QWidget) -> QRect:
        """Where a widget belongs, in px of the screen."""
        home, room, layout = widget.home, self.room, self.view.get("layout", ())
        across, down = room.width() / WIDTH, room.height() / HEIGHT
        x, y, w, h = home.getRect()
        if isinstance(widget, Popup):  # a dialog, which keeps its size
            y = min(round(y * down), room.height() - h - 2)
            return QRect(room.x() + (room.width() - w) // 2, room.y() + y, w, h)
        if "mirrored" in layout:
            x = WIDTH - x - w
        if "flipped" in layout and PAGE_TOP <= y < STATUS_TOP:
            y = PAGE_TOP + STATUS_TOP - y - h
        if "south" in layout and TAB_TOP <= y < STATUS_TOP:  # the tabs are below the pages
            y += STATUS_TOP - PAGE_TOP if y < PAGE_TOP else TAB_TOP - PAGE_TOP
        left, top = round(x * across), round(y * down)
        size = QSize(round((x + w) * across) - left, round((y + h) * down) - top)
        return QRect(room.topLeft() + QPoint(left, top), size)

    def paintEvent(self, event) -> None:
        if self.room != self.rect():
            with QPainter(self) as painter:
                painter.fillRect(self.rect(), QColor(self.view["desktop"]))
                painter.fillRect(self.room, self.palette().window())
                painter.setPen(QColor("#808080"))
                painter.drawRect(self.room.adjusted(-1, -1, 0, 0))

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

    def begin(self, settings: Mapping[str, Any], view: Mapping[str, Any]) -> None:
        """Begin an episode: `reset` in a window that looks as `view` says (`coda_lib.task.Task.view`)."""
        if view != self.view:
            self.view = view
            self._arrange()
        self.reset(settings)
        for rows in self.findChildren(Rows) if "scroll" in view else ():
            rows.doItemsLayout()
            rows.verticalScrollBar().setValue(round(view["scroll"] * rows.verticalScrollBar().maximum()))
        if (name := view.get("open")) in self.menus:
            self._drop(name)
        elif name:
            self.open_dialog(self.dialogs[name])

    def way_to(self, name: str) -> dict[str, Any] | None:
        """The next script step towards an element that is hidden: to its tab, or a list's rows; else None."""
        page = next((page for page in self.pages if name in self.names_on(page)), None)
        if page and page != self.values["tab"]:
            return {"click": page}
        for rows in self.findChildren(Rows) if page else ():
            box, room = (
                next((rows.visualItemRect(i) for i in rows.items() if i.text() == name), None),
                rows.viewport().rect(),
            )
            if rows.isVisible() and box and not room.contains(box.center()):
                return {"scroll": [rows.itemAt(room.center()).text(), "up" if box.y() < 0 else "down"]}
        return None

    def names_on(self, page: str) -> set[str]:
        """The names of what a page has, whether it is shown or not."""
        found = {widget.accessibleName() for widget in self.pages[page]}
        for widget in self.pages[page]:
            if isinstance(widget, Rows):
                found |= {item.text() for item in widget.items()}
            elif isinstance(widget, Canvas | Slider):
                found |= {name for name, *_ in widget.parts()}
        return found

    def discard(self) -> None:
        """Delete the window with all its Qt objects."""
        shiboken6.delete(self)
