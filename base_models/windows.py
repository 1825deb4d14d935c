"""The windows that walks go through: ScienceDesk's and real applications', behind the same few methods.

The boxes of elements and the pictures of a real application are those of its screen at the size of
ScienceDesk's windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

from coda_lib.action import Action
from coda_lib.environment import Environment, EnvironmentFault
from coda_lib.task import Task
from sciencedesk.desk.elements import Element
from sciencedesk.desk.widgets import HEIGHT, WIDTH
from sciencedesk.make import environment
from sciencedesk.real.app import App

# what leads a walk out of the window: to other programs, dialogs of files, animations, or the end
AWAY = {
    "KAlgebra": {"Session menu", "Help menu", "Quit", "Recent Scripts", "Export Log...", "Save",
                 "Full Screen", "Full Screen Mode", "Float", "Close"},
    "PyMOL": {"File", "Edit", "Build", "Movie", "Setting", "Scene", "Wizard", "Plugin", "Help", "Draw/Ray",
              "Builder", "Properties", "Rock", "Play", "External GUI"},
    "GrassGIS": {"Help", "Python tab", "Save"},
}  # fmt: skip
DOUBLE = {"KAlgebra": "row", "GrassGIS": "row"}  # role of what a walk sometimes double-clicks
FAULTS = 10  # of an application in a row, which end what is made of it
Made = TypeVar("Made")


class Window(Protocol):
    """What a walk needs of an application."""

    app: str
    defaults: Mapping[str, Any]  # settings after a start, each of which can be set

    @property
    def typing(self) -> bool:
        """Whether a text typed now goes into a field."""

    def reset(self, settings: Mapping[str, Any]) -> None: ...

    def elements(self) -> list[Element]: ...

    def state(self) -> dict[str, Any]: ...

    def perform(self, action: Action) -> None: ...

    def screenshot(self) -> np.ndarray:
        """RGB uint8 (height, width, 3)."""


class AppWindow:
    """A real application as a `Window`.  EnvironmentFault where it breaks or an action closes it."""

    def __init__(self, env: App):
        self.env, self.app = env, env.kind
        self.defaults: Mapping[str, Any] = {}  # what its tasks check, it mostly cannot set
        self._picture: np.ndarray | None = None
        self._named: tuple[list[Element], str | None] | None = None  # read once between two actions

    def reset(self, settings: Mapping[str, Any]) -> None:
        begin = tuple({"func": "set", "key": key, "value": value} for key, value in settings.items())
        task = Task(
            id=f"{self.app}/walk", app=self.app, grade="A", instruction="Walk about.", steps=0,
            initialize=begin, evaluate=(),
        )  # fmt: skip
        self._named = None
        self._picture, _ = self.env.reset(task)

    @property
    def typing(self) -> bool:
        return self._read()[1] is not None

    def elements(self) -> list[Element]:
        return self._read()[0]

    def _read(self) -> tuple[list[Element], str | None]:
        if self._named is None:
            self._named = self.env.named()
        return self._named

    def state(self) -> dict[str, Any]:
        self._read()  # KAlgebra tells its state along
        with self.env.awake():
            return self.env.facts()

    def perform(self, action: Action) -> None:
        self._named = self._picture = None
        self.env.do(action)
        self._picture = self.env.look()
        if self.env.closed:
            raise EnvironmentFault(f"{self.app} was closed by {action}")

    def screenshot(self) -> np.ndarray:
        if self._picture is None:
            self._picture = self.env.look()
        return self._picture


def through_faults(make: Callable[[], Made]) -> Iterator[Made]:
    """What `make` gives, call after call without end, without the calls that the application breaks in.

    Each of these is named.  EnvironmentFault after `FAULTS` of them in a row.
    """
    faults = 0
    while True:
        try:
            made = make()
        except EnvironmentFault as fault:
            faults += 1
            if faults == FAULTS:
                raise
            print(f"left out: {fault}", flush=True)
        else:
            faults = 0
            yield made


def window_of(env: Environment) -> Window:
    """The window of an environment, which a `reset` of the environment begins anew."""
    return AppWindow(env) if isinstance(env, App) else env.desk


def opened(app: str) -> Environment:
    """An environment with pictures of the size of ScienceDesk's.  UserError as of `environment`."""
    return environment(app, fit=lambda _: (WIDTH, HEIGHT))
