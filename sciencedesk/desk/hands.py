"""Mouse and keyboard of ScienceDesk: an `Action` as Qt events on a window that is drawn off screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import shiboken6
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QKeyEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from coda_lib.action import Action, ActionType
from sciencedesk.desk.widgets import HEIGHT, WIDTH

_KEYS = {
    "enter": "Return", "esc": "Escape", "tab": "Tab", "space": "Space", "backspace": "Backspace",
    "delete": "Delete", "up": "Up", "down": "Down", "left": "Left", "right": "Right", "home": "Home",
    "end": "End", "pageup": "PageUp", "pagedown": "PageDown",
}  # fmt: skip
_NAMES = {"ctrl": "Control", "shift": "Shift", "alt": "Alt", "win": "Meta"}
_MODIFIERS = {key: Qt.KeyboardModifier[f"{name}Modifier"] for key, name in _NAMES.items()}


def perform(window: QWidget, action: Action) -> None:
    """Do one action in the window; WAIT, DONE, FAIL and ANS give no event."""
    match action.type:
        case ActionType.CLICK:
            _click(window, action, Qt.MouseButton.LeftButton)
        case ActionType.RIGHT_CLICK:
            _click(window, action, Qt.MouseButton.RightButton)
        case ActionType.DOUBLE_CLICK:
            widget, position = _click(window, action, Qt.MouseButton.LeftButton)
            if widget.isVisible():
                QTest.mouseDClick(widget, Qt.MouseButton.LeftButton, pos=position)
                # Qt's double click leaves the button down
                QTest.mouseRelease(widget, Qt.MouseButton.LeftButton, pos=position)
        case ActionType.HOVER:
            QTest.mouseMove(*_at(window, action, _pressed(window)))
        case ActionType.MOUSE_DOWN:
            window.pressed, position = _at(window, action)
            QTest.mousePress(window.pressed, Qt.MouseButton.LeftButton, _held(window), position)
        case ActionType.MOUSE_UP:
            widget, position = _at(window, action, _pressed(window))
            QTest.mouseMove(widget, position)
            QTest.mouseRelease(widget, Qt.MouseButton.LeftButton, _held(window), position)
            window.pressed = None
        case ActionType.DRAG:
            widget, start = _at(window, action)
            end = widget.mapFrom(window, _pixel(action.x2, action.y2))
            QTest.mousePress(widget, Qt.MouseButton.LeftButton, pos=start)
            QTest.mouseMove(widget, end)
            QTest.mouseRelease(widget, Qt.MouseButton.LeftButton, pos=end)
        case ActionType.SCROLL:
            _scroll(window, action)
        case ActionType.TYPE:
            for character in action.text:
                _type(window.focusWidget() or window, character)
        case ActionType.HOTKEY:
            _press(window.focusWidget() or window, action.text.split(" "), _held(window))
        case ActionType.KEY_DOWN | ActionType.KEY_UP:
            _hold(window, action.text.split(" "), action.type is ActionType.KEY_DOWN)
        case ActionType.WAIT | ActionType.DONE | ActionType.FAIL | ActionType.ANS:
            pass
        case _:
            assert_never(action.type)


def _is_known(chord: Sequence[str]) -> bool:
    """Whether all keys of a chord are in `_MODIFIERS` or `_KEYS`, letters or digits."""
    letters = [key for key in chord if key not in _MODIFIERS and key not in _KEYS]
    return all(len(key) == 1 and key.isascii() and key.isalnum() for key in letters)


def _key(name: str) -> Qt.Key:
    return Qt.Key["Key_" + _KEYS.get(name, name.upper())]


def _held(window: QWidget) -> Qt.KeyboardModifier:
    """The modifiers that are held down."""
    modifiers = Qt.KeyboardModifier.NoModifier
    for key in window.held & _MODIFIERS.keys():
        modifiers |= _MODIFIERS[key]
    return modifiers


def _hold(window: QWidget, keys: Sequence[str], down: bool) -> None:
    """Press keys and keep them, or release them; the same keys as in a chord."""
    if not _is_known(keys):
        return
    for key in keys:
        window.held = window.held | {key} if down else window.held - {key}
        if key not in _MODIFIERS:
            send = QTest.keyPress if down else QTest.keyRelease
            send(window.focusWidget() or window, _key(key), _held(window))


def _pressed(window: QWidget) -> QWidget | None:
    """The widget that holds the mouse, if its button is down and it is still there."""
    return window.pressed if window.pressed is not None and shiboken6.isValid(window.pressed) else None


def _press(widget: QWidget, chord: Sequence[str], modifiers: Qt.KeyboardModifier) -> None:
    """Press a chord; one with an unknown key does nothing."""
    if not _is_known(chord):
        return
    for key in chord:
        if key in _MODIFIERS:
            modifiers |= _MODIFIERS[key]
        else:
            QTest.keyClick(widget, _key(key), modifiers)


def _type(widget: QWidget, character: str) -> None:
    """Type one character: Enter for a line end, nothing for other control characters."""
    if character == "\n":
        QTest.keyClick(widget, Qt.Key.Key_Return)
    elif character.isascii() and character.isprintable():
        QTest.keyClicks(widget, character)
    elif character.isprintable():  # QTest aborts the process on these
        for kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
            event = QKeyEvent(kind, Qt.Key.Key_unknown, Qt.KeyboardModifier.NoModifier, character)
            QApplication.sendEvent(widget, event)


def _at(window: QWidget, action: Action, widget: QWidget | None = None) -> tuple[QWidget, QPoint]:
    """The widget at the action's point (without one: the middle), if not another, and the point in it."""
    point = _pixel(0.5, 0.5) if action.x is None else _pixel(action.x, action.y)
    widget = widget or window.childAt(point) or window
    return widget, widget.mapFrom(window, point)


def _click(window: QWidget, action: Action, button: Qt.MouseButton) -> tuple[QWidget, QPoint]:
    widget, position = _at(window, action)
    QTest.mouseClick(widget, button, _held(window), position)
    return widget, position


def _scroll(window: QWidget, action: Action) -> None:
    widget, position = _at(window, action)
    steps = {"up": (0, 120), "down": (0, -120), "left": (120, 0), "right": (-120, 0)}[action.direction]
    points = QPointF(position), QPointF(widget.mapToGlobal(position))
    none = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase
    event = QWheelEvent(*points, QPoint(), QPoint(*steps), *none, False)
    QApplication.sendEvent(widget, event)


def _pixel(x: float, y: float) -> QPoint:
    return QPoint(min(int(x * WIDTH), WIDTH - 1), min(int(y * HEIGHT), HEIGHT - 1))
