"""The controls of programs on a session bus, read through AT-SPI, the interface for assistive technology.

No model sees them: they give the state of an application.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jeepney import DBusAddress, DBusErrorResponse, MessageType, Properties, new_method_call
from jeepney.io.blocking import open_dbus_connection

from coda_lib.envs.base import EnvironmentFault

_BUS = "org.a11y.Bus", "/org/a11y/bus"
_DBUS = "org.freedesktop.DBus", "/org/freedesktop/DBus"
_ROOT = "org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root"
_NOBODY = "/org/a11y/atspi/null"
_SPEECH = "org.a11y.atspi"  # prefix of its interfaces
_CHECKED, _FOCUSED, _SHOWING = 1 << 4, 1 << 12, 1 << 25  # bits of the first half of a control's states
_WRITABLE = ("text", "spin box")  # roles
DEEPEST = 40  # levels of nested controls
ANSWER_S = 10.0


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

    def one(self, role: str, name: str | None = None) -> Control:
        """The first control of that role and name.  EnvironmentFault if there is none."""
        if controls := self.all(role, name):
            return controls[0]
        raise EnvironmentFault(f"the application has no {role} {name or ''}")


class Accessibility:
    """The AT-SPI bus of a session.  EnvironmentFault where the bus or a program on it does not answer."""

    def __init__(self, session_bus: str):
        self._session = open_dbus_connection(bus=session_bus)
        self._bus = open_dbus_connection(bus=self._call(self._session, *_BUS, "org.a11y.Bus", "GetAddress")[0])

    def close(self) -> None:
        self._bus.close()
        self._session.close()

    def switch(self, on: bool) -> None:
        """Switch AT-SPI on or off; programs register when it is switched on."""
        setting = DBusAddress(_BUS[1], _BUS[0], "org.a11y.Status")
        self._answer(self._session, Properties(setting).set("IsEnabled", "b", on))

    def program(self, pid: int) -> tuple[str, str] | None:
        """Name and path of a program on the bus; None before it has registered."""
        for owner, path in self._children(*_ROOT):
            if self._call(self._bus, *_DBUS, "org.freedesktop.DBus", "GetConnectionUnixProcessID", "s", (owner,))[0] == pid:
                return owner, path
        return None

    def controls(self, owner: str, path: str, without: Sequence[str] = (), depth: int = DEEPEST) -> Control:
        """A control with all in it down to `depth`, without the content of controls with a role of `without`."""
        ask = partial(self._call, self._bus, owner, path)
        name = self._answer(self._bus, Properties(DBusAddress(path, owner, f"{_SPEECH}.Accessible")).get("Name"))[0][1]
        states = ask(f"{_SPEECH}.Accessible", "GetState")[0][0]
        role = ask(f"{_SPEECH}.Accessible", "GetRoleName")[0]
        text = ask(f"{_SPEECH}.Text", "GetText", "ii", (0, -1))[0] if role in _WRITABLE else None
        bits = (bool(states & bit) for bit in (_CHECKED, _FOCUSED, _SHOWING))
        control = Control(owner, path, role, name, text, *bits)
        if depth and role not in without:
            control.children = [self.controls(*child, without, depth - 1) for child in self._children(owner, path)]
        return control

    def box(self, control: Control) -> tuple[int, int, int, int]:
        """Left, top, width and height of a control on the screen, in pixels."""
        return self._call(self._bus, control.owner, control.path, f"{_SPEECH}.Component", "GetExtents", "u", (0,))[0]

    def press(self, control: Control) -> None:
        """Do the action of a click on the control."""
        self._call(self._bus, control.owner, control.path, f"{_SPEECH}.Action", "DoAction", "i", (0,))

    def _children(self, owner: str, path: str) -> list[tuple[str, str]]:
        children = self._call(self._bus, owner, path, f"{_SPEECH}.Accessible", "GetChildren")[0]
        return [(name, child) for name, child in children if child != _NOBODY]

    def _call(
        self, bus: Any, owner: str, path: str, interface: str, method: str, kinds: str | None = None, given: tuple = ()
    ) -> Any:
        return self._answer(bus, new_method_call(DBusAddress(path, owner, interface), method, kinds, given))

    def _answer(self, bus: Any, message: Any) -> Any:
        try:
            reply = bus.send_and_get_reply(message, timeout=ANSWER_S)
        except (OSError, DBusErrorResponse, TimeoutError) as error:
            raise EnvironmentFault(f"the application's accessibility bus: {error}") from error
        if reply.header.message_type is MessageType.error:
            raise EnvironmentFault(f"the application's accessibility bus: {reply.body}")
        return reply.body
