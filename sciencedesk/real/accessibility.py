"""The controls of programs on a session bus, read through AT-SPI, the interface for assistive technology.

No model sees them: they give the state of an application.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jeepney import DBusAddress, HeaderFields, MessageType, Properties, new_method_call
from jeepney.io.blocking import open_dbus_connection

from coda_lib.environment import EnvironmentFault

_BUS = "org.a11y.Bus", "/org/a11y/bus"
_DBUS = "org.freedesktop.DBus", "/org/freedesktop/DBus"
_ROOT = "org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root"
_NULL = "/org/a11y/atspi/null"
_ATSPI = "org.a11y.atspi"  # prefix of its interfaces
_CHECKED, _FOCUSED, _SHOWING = 1 << 4, 1 << 12, 1 << 25  # bits of the first half of a control's states
_WRITABLE = ("text", "spin box")  # roles
DEEPEST = 40  # levels of nested controls
ANSWER_S = 10.0
_BATCH = 100  # messages


@dataclass
class Control:
    """A control with the controls in it."""

    owner: str  # its program's name on the bus
    path: str
    role: str
    name: str
    text: str | None  # of a text field
    checked: bool
    focused: bool
    showing: bool  # not hidden, but perhaps covered
    children: list[Control] = field(default_factory=list)

    def __iter__(self) -> Iterator[Control]:
        """This control and all in it, parents first."""
        yield self
        for child in self.children:
            yield from child

    def all(self, role: str, name: str | None = None) -> list[Control]:
        return [control for control in self if control.role == role and name in (None, control.name)]

    def first(self, role: str, name: str | None = None) -> Control:
        """The first control of that role and name.  EnvironmentFault if there is none."""
        if controls := self.all(role, name):
            return controls[0]
        raise EnvironmentFault(f"the application has no {role} {name or ''}")


class Accessibility:
    """The AT-SPI bus of a session.  EnvironmentFault where the bus or a program on it does not answer."""

    def __init__(self, session_bus: str):
        self._session = open_dbus_connection(bus=session_bus)
        (address,) = self._call(self._session, *_BUS, "org.a11y.Bus", "GetAddress")
        self._bus = open_dbus_connection(bus=address)
        self._roles: dict[tuple[str, str], str] = {}  # of controls by owner and path, which keep theirs

    def close(self) -> None:
        self._bus.close()
        self._session.close()

    def switch(self, on: bool) -> None:
        """Switch AT-SPI on or off; programs register when it is switched on."""
        setting = DBusAddress(_BUS[1], _BUS[0], "org.a11y.Status")
        self._answer(self._session, Properties(setting).set("IsEnabled", "b", on))

    def program(self, pid: int) -> tuple[str, str] | None:
        """Name and path of a program on the bus; None before it has registered."""
        (children,) = self._call(self._bus, *_ROOT, f"{_ATSPI}.Accessible", "GetChildren")
        process_of = _DBUS[0], "GetConnectionUnixProcessID", "s"
        for owner, path in _present(children):
            if self._call(self._bus, *_DBUS, *process_of, (owner,))[0] == pid:
                return owner, path
        return None

    def controls(self, owner: str, path: str, without: Sequence[str] = (), depth: int = DEEPEST) -> Control:
        """A control with all in it down to `depth`, without the content of controls with a role of `without`.

        Level by level in batches: a program takes longer to wake up than to answer.
        """
        level: list[tuple[str, str, list[Control]]] = [(owner, path, top := [])]
        for deep in range(depth + 1):
            controls = self._read([(owner, path) for owner, path, _ in level])
            for (_, _, siblings), control in zip(level, controls, strict=True):
                siblings.append(control)
            parents = [control for control in controls if deep < depth and control.role not in without]
            questions = [_message(c.owner, c.path, "Accessible", "GetChildren") for c in parents]
            answers = self._answers(self._bus, questions)
            found = [
                (parent, _present(children)) for parent, (children,) in zip(parents, answers, strict=True)
            ]
            level = [(*place, parent.children) for parent, places in found for place in places]
            if not level:
                break
        return top[0]

    def _read(self, places: Sequence[tuple[str, str]]) -> list[Control]:
        """The controls at these places, without what is in them."""
        new = [place for place in places if place not in self._roles]
        roles = self._answers(self._bus, [_message(*place, "Accessible", "GetRoleName") for place in new])
        self._roles |= {place: role for place, (role,) in zip(new, roles, strict=True)}
        addresses = [DBusAddress(path, owner, f"{_ATSPI}.Accessible") for owner, path in places]
        names = [Properties(address).get("Name") for address in addresses]
        states = [_message(*place, "Accessible", "GetState") for place in places]
        answers, count, controls = self._answers(self._bus, [*names, *states]), len(places), []
        for place, ((_, name),), ((flags, _),) in zip(places, answers[:count], answers[count:], strict=True):
            bits = (bool(flags & bit) for bit in (_CHECKED, _FOCUSED, _SHOWING))
            controls.append(Control(*place, self._roles[place], name, None, *bits))
        fields = [control for control in controls if control.role in _WRITABLE]
        questions = [_message(c.owner, c.path, "Text", "GetText", "ii", (0, -1)) for c in fields]
        for control, (text,) in zip(fields, self._answers(self._bus, questions), strict=True):
            control.text = text
        return controls

    def box(self, control: Control) -> tuple[int, int, int, int]:
        """Left, top, width and height of a control on the screen, in pixels."""
        return self.boxes([control])[control.path]

    def boxes(self, controls: Sequence[Control]) -> dict[str, tuple[int, int, int, int]]:
        """The boxes of controls of one program by their paths."""
        questions = [_message(c.owner, c.path, "Component", "GetExtents", "u", (0,)) for c in controls]
        answers = self._answers(self._bus, questions)
        return {control.path: box for control, (box,) in zip(controls, answers, strict=True)}

    def press(self, control: Control) -> None:
        """Do the action of a click on the control."""
        self._answers(self._bus, [_message(control.owner, control.path, "Action", "DoAction", "i", (0,))])

    def _call(self, bus: Any, owner: str, path: str, interface: str, method: str, *given: Any) -> Any:
        return self._answer(bus, new_method_call(DBusAddress(path, owner, interface), method, *given))

    def _answer(self, bus: Any, message: Any) -> Any:
        return self._answers(bus, [message])[0]

    @staticmethod
    def _answers(bus: Any, messages: Sequence[Any]) -> list[Any]:
        """The bodies of the replies to messages, which go out in batches of `_BATCH`."""
        bodies = []
        for start in range(0, len(messages), _BATCH):
            replies: dict[int, Any] = {}
            try:
                for message in messages[start : start + _BATCH]:
                    bus.send(message, serial=(serial := next(bus.outgoing_serial)))
                    replies[serial] = None
                waiting, end = len(replies), time.monotonic() + ANSWER_S
                while waiting:
                    reply = bus.receive(timeout=end - time.monotonic())
                    if (serial := reply.header.fields.get(HeaderFields.reply_serial)) in replies:
                        replies[serial] = reply
                        waiting -= 1
            except (OSError, TimeoutError) as error:
                raise EnvironmentFault(f"the application's accessibility bus: {error}") from error
            for reply in replies.values():
                if reply.header.message_type is MessageType.error:
                    raise EnvironmentFault(f"the application's accessibility bus: {reply.body}")
                bodies.append(reply.body)
        return bodies


def _message(owner: str, path: str, interface: str, method: str, *given: Any) -> Any:
    return new_method_call(DBusAddress(path, owner, f"{_ATSPI}.{interface}"), method, *given)


def _present(children: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(owner, path) for owner, path in children if path != _NULL]
