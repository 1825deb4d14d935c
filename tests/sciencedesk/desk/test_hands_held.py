"""Keys and the mouse button that are held in ScienceDesk until they are released."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt

from coda_lib.action import Action
from coda_lib.task import test_tasks as tasks_of_tests
from sciencedesk.env import ScienceDesk


class Seen(QObject):
    """Notes the clicks that a widget gets."""

    def __init__(self):
        super().__init__()
        self.events = []

    def eventFilter(self, watched, event):  # noqa: N802 - Qt's name
        if event.type() in (QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonRelease):
            self.events.append((event.type().name, event.modifiers()))
        return False


def test_a_click_while_a_key_is_held_has_its_modifier():
    env, seen = ScienceDesk("gis"), Seen()
    task = tasks_of_tests("gis")[0]
    env.reset(task)
    widget = env.desk.childAt(env.desk.width() // 2, env.desk.height() // 2) or env.desk
    widget.installEventFilter(seen)
    shift, none = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.NoModifier
    click = Action.click(0.5, 0.5)
    for action in (Action("press", text="shift"), click, Action("release", text="shift"), click):
        env.step(action)
    assert [modifiers for _, modifiers in seen.events] == [shift, shift, none, none]
    env.step(Action("mouse_down", 0.5, 0.5))
    assert env.desk.pressed is widget
    env.step(Action.hover(0.6, 0.6))
    env.step(Action("mouse_up"))
    assert [name for name, _ in seen.events[4:]] == [
        "MouseButtonPress",
        "MouseButtonRelease",
    ] and env.desk.pressed is None
    env.step(Action("press", text="ctrl"))
    env.reset(task)
    assert env.desk.held == frozenset()
