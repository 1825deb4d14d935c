"""The frame that the ScienceDesk applications share: a Qt window driven by mouse and keyboard alone.

An application is a `Desk`: it declares its menus, dialogs and pages, keeps everything that a task can check in the
dictionary `self.values` (dotted keys), and redraws itself from it.  Many desks live side by side in one process, and
the same window can be shown to a person; nothing in it knows whether the mouse is real.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage

from coda_lib.action import Action
from coda_lib.envs.sciencedesk import hands
from coda_lib.envs.sciencedesk.blocks import Blocks
from coda_lib.envs.sciencedesk.elements import Element, visible_elements
from coda_lib.envs.sciencedesk.qt import application
from coda_lib.envs.sciencedesk.widgets import HEIGHT, WIDTH, Field, Rows


class Desk(Blocks):
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
        self.setWindowTitle(self.title)
        self.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen, not visible)
        self.values: dict[str, Any] = {}
        self.shortcuts: dict[str, Callable[[], None]] = {}
        self.clipboard = ""  # its own: desks side by side, and episodes one after the other, share nothing
        self._image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)  # not scaled, whatever the display's scale is
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
            known = ", ".join(sorted(self.defaults))
            raise KeyError(f"{self.app} has no setting {min(unknown)!r}; it has {known}")
        self.values = {key: _copy(value) for key, value in (dict(self.defaults) | dict(settings)).items()}
        self.close_menu()
        self.close_dialog()
        self.clipboard = ""
        for field in self.findChildren(Field):
            field.setText("")  # unlike clear(), this cannot be undone with Ctrl+Z
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

    # -- what a person sees and does ---------------------------------------------------------------------------------

    def keyPressEvent(self, event) -> None:
        """Keys that no widget took: Escape closes, shortcuts act (a real window and `perform` both come here)."""
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
        """Everything visible that has a name; for base-model training, scripts and tests, never for the agent."""
        return visible_elements(self)

    def discard(self) -> None:
        """Delete the window and all that Qt keeps of it."""
        shiboken6.delete(self)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict) else value
