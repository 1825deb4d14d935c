"""The mouse and the keyboard: an `Action` as Qt events on a window that no display shows."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QKeyEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from coda_lib.action import Action, ActionType
from coda_lib.envs.sciencedesk.widgets import HEIGHT, WIDTH

_KEYS = {
    "enter": "Return", "return": "Return", "esc": "Escape", "escape": "Escape", "tab": "Tab", "space": "Space",
    "backspace": "Backspace", "delete": "Delete", "del": "Delete", "up": "Up", "down": "Down", "left": "Left",
    "right": "Right", "home": "Home", "end": "End", "pageup": "PageUp", "pagedown": "PageDown",
}  # fmt: skip
_MODIFIERS = {
    "ctrl": "ControlModifier", "shift": "ShiftModifier", "alt": "AltModifier", "meta": "MetaModifier",
    "win": "MetaModifier",
}  # fmt: skip


def perform(window: QWidget, action: Action) -> None:
    """Do one action; the ends of an episode (DONE, FAIL, ANS) and WAIT change nothing."""
    kind = action.type
    if kind in (ActionType.CLICK, ActionType.RIGHT_CLICK, ActionType.DOUBLE_CLICK):
        widget, position = _at(window, action.x, action.y)
        right = kind == ActionType.RIGHT_CLICK
        button = Qt.MouseButton.RightButton if right else Qt.MouseButton.LeftButton
        QTest.mouseClick(widget, button, pos=position)
        if kind == ActionType.DOUBLE_CLICK and widget.isVisible():
            QTest.mouseDClick(widget, button, pos=position)
            QTest.mouseRelease(widget, button, pos=position)  # Qt's double click leaves the button held down
    elif kind == ActionType.HOVER:
        widget, position = _at(window, action.x, action.y)
        QTest.mouseMove(widget, position)
    elif kind == ActionType.DRAG:
        widget, start = _at(window, action.x, action.y)
        end = widget.mapFrom(window, QPoint(*_pixel(action.x2, action.y2)))
        QTest.mousePress(widget, Qt.MouseButton.LeftButton, pos=start)
        QTest.mouseMove(widget, end)
        QTest.mouseRelease(widget, Qt.MouseButton.LeftButton, pos=end)
    elif kind == ActionType.SCROLL:
        _scroll(window, action)
    elif kind == ActionType.TYPE:
        for character in action.text:
            _type(window.focusWidget() or window, character)
    elif kind == ActionType.HOTKEY:
        press(window.focusWidget() or window, action.text)


def press(widget: QWidget, keys: str) -> None:
    """Press a key combination such as 'ctrl g'; one with a key that no keyboard of ours has does nothing."""
    names = keys.lower().replace("+", " ").split()
    if not all(key in _MODIFIERS or key in _KEYS or _is_letter(key) for key in names):
        return
    modifiers = Qt.KeyboardModifier.NoModifier
    for key in names:
        if key in _MODIFIERS:
            modifiers |= Qt.KeyboardModifier[_MODIFIERS[key]]
        else:
            QTest.keyClick(widget, Qt.Key["Key_" + _KEYS.get(key, key.upper())], modifiers)


def _is_letter(key: str) -> bool:
    return len(key) == 1 and key.isascii() and key.isalnum()


def _type(widget: QWidget, character: str) -> None:
    """Type one character; Enter for a line end, nothing for what no key types (other control characters)."""
    if character == "\n":
        QTest.keyClick(widget, Qt.Key.Key_Return)
    elif character.isascii() and character.isprintable():
        QTest.keyClicks(widget, character)
    elif character.isprintable():  # QTest aborts the process on these
        for kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
            event = QKeyEvent(kind, Qt.Key.Key_unknown, Qt.KeyboardModifier.NoModifier, character)
            QApplication.sendEvent(widget, event)


def _at(window: QWidget, x: float, y: float) -> tuple[QWidget, QPoint]:
    point = QPoint(*_pixel(x, y))
    widget = window.childAt(point) or window
    return widget, widget.mapFrom(window, point)


def _scroll(window: QWidget, action: Action) -> None:
    widget, position = _at(window, action.x, action.y)
    steps = {"up": (0, 120), "down": (0, -120), "left": (120, 0), "right": (-120, 0)}[action.direction]
    where = QPointF(position)
    event = QWheelEvent(
        where, QPointF(widget.mapToGlobal(position)), QPoint(), QPoint(*steps), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(widget, event)


def _pixel(x: float, y: float) -> tuple[int, int]:
    return min(int(x * WIDTH), WIDTH - 1), min(int(y * HEIGHT), HEIGHT - 1)
