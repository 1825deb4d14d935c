"""Random walks through an application, with names and boxes of all visible elements: the base models' data.

A walk uses the widget tree and the texts that goals to be trained on type, each after what opens its field.
It knows no task and no script: of a workflow it shows no more than two random steps happen to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from itertools import count, islice, pairwise
from random import Random
from typing import Any, Protocol, TypeVar

import numpy as np
from PIL import Image

from coda_lib.action import Action
from coda_lib.environment import Environment, EnvironmentFault
from coda_lib.task import Task
from coda_lib.trajectory import encode_image
from sciencedesk.desk.elements import Element
from sciencedesk.desk.widgets import HEIGHT, WIDTH
from sciencedesk.goals import Aim
from sciencedesk.make import environment
from sciencedesk.perturb import draw_view
from sciencedesk.real.app import App
from sciencedesk.script import to_action, to_plan
from sciencedesk.space import aims_of, draw_starts, has_space, space

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
    view: Mapping[str, Any]  # how it looks (`coda_lib.task.Task.view`)

    @property
    def typing(self) -> bool:
        """Whether a text typed now goes into a field."""

    def begin(self, settings: Mapping[str, Any], view: Mapping[str, Any]) -> None: ...

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
        self.view: Mapping[str, Any] = {}
        self._picture: np.ndarray | None = None
        self._named: tuple[list[Element], str | None] | None = None  # read once between two actions

    def begin(self, settings: Mapping[str, Any], view: Mapping[str, Any]) -> None:
        begin = tuple({"func": "set", "key": key, "value": value} for key, value in settings.items())
        task = Task(
            id=f"{self.app}/walk", app=self.app, grade="A", instruction="Walk about.", steps=0,
            initialize=begin, evaluate=(), view=view,
        )  # fmt: skip
        self._named, self.view = None, view
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


WALK_LENGTH = 24  # steps from one reset to the next
_TO_FIELD = 0.2  # share of a walk's clicks in a real application that go to fields


@dataclass(frozen=True)
class Transition:
    """One step in an application: the screen, the step, and the application's state before and after it."""

    app: str
    screen: bytes  # PNG
    elements: tuple[Element, ...]
    step: dict[str, Any]  # a script step, in names
    plan: str
    action: Action
    before: dict[str, Any]
    after: dict[str, Any]
    next_screen: bytes
    walk: int  # number of the walk; transitions of one walk follow each other
    view: dict[str, Any] = field(default_factory=dict)  # how the window looked


Walk = Sequence[Transition]
Walks = Sequence[Walk]  # one an application


def perform(desk: Window, step: dict[str, Any], last: Transition | None = None, walk: int = 0) -> Transition:
    """Carry out a script step after `last`.  ScriptError if the screen does not show what the step names."""
    screen, before = (last.next_screen, last.after) if last else (screenshot(desk), desk.state())
    elements, action, plan = tuple(desk.elements()), to_action(desk, step), to_plan(step)
    desk.perform(action)
    after, picture = desk.state(), screenshot(desk)
    view = dict(desk.view)
    return Transition(desk.app, screen, elements, step, plan, action, before, after, picture, walk, view)


@cache
def typed_words(app: str, region: str = "train") -> tuple[str, ...]:
    """The texts that the goals of a region of the task space type."""
    return tuple(sorted({text for texts in _typed_after(app, region).values() for text in texts}))


@cache
def _typed_after(app: str, region: str) -> dict[str, list[str]]:
    """The same texts by what is clicked before: a field, or what opens its dialog."""
    texts: dict[str, set[str]] = {}
    for aim in aims_of(app, region):
        for last, step in pairwise([{}, *aim.solution]):
            if "type" in step:
                texts.setdefault(last.get("click", ""), set()).add(step["type"].rstrip())
    return {clicked: sorted(of_field) for clicked, of_field in texts.items()}


@cache
def hotkeys(app: str) -> tuple[str, ...]:
    """The keys that goals to be trained on press, and Escape."""
    steps = (step for aim in aims_of(app, "train") for step in aim.solution)
    return tuple(sorted({step["press"] for step in steps if "press" in step} | {"esc"}))


@cache
def names(app: str) -> tuple[str, ...]:
    """The values of an application's goals that stand for nothing but themselves."""
    return tuple(sorted({aim.word for aim in aims_of(app, "train")} - {"on", "off"}))


def random_settings(app: str, defaults: dict[str, Any], rng: Random) -> dict[str, Any]:
    """Settings to start from: those of a task, and values of three random goals and their set-ups."""
    settings: dict[str, Any] = draw_starts(space(app), (), rng) if has_space(app) else {}
    for name in rng.sample(sorted(by_goal(app)), 3):
        aim = rng.choice(by_goal(app)[name])
        settings |= aim.goal.setup
        if aim.goal.key in defaults:
            settings[aim.goal.key] = rng.choice(by_goal(app)[name]).value
    if "tab" in defaults and rng.random() < 0.5:
        settings["tab"] = defaults["tab"]
    return settings


@cache
def by_goal(app: str) -> dict[str, list[Aim]]:
    """The aims to be trained on by their goals' names."""
    groups: dict[str, list[Aim]] = {}
    for aim in aims_of(app, "train"):
        groups.setdefault(aim.goal.name, []).append(aim)
    return groups


def shown_names(walk: Walk) -> set[str]:
    """The names that a walk shows."""
    return {element.name for step in walk for element in step.elements if element.name}


def random_step(desk: Window, rng: Random, clicked: str = "") -> dict[str, Any]:
    """A random script step the screen allows; a field mostly gets what is typed there after `clicked`."""
    if desk.typing and rng.random() < 0.6:
        fit = _typed_after(desk.app, "train").get(clicked) if rng.random() < 0.85 else None
        return {"type": rng.choice(fit or typed_words(desk.app)) + rng.choice(["\n", "\n", ""])}
    dice = rng.random()
    if dice < 0.03:
        return {"press": rng.choice(hotkeys(desk.app))}
    clear = unambiguous(desk.elements())
    if desk.app in AWAY:
        return _random_click(desk.app, clear, rng)
    sliders, rows, targets = ([e for e in clear if e.role == role] for role in ("slider", "row", "target"))
    if sliders and dice < 0.12:
        ticks = [e for e in targets if e.name.lstrip("-").isdigit()] or targets
        return {"drag": [sliders[0].name, rng.choice(ticks).name]}
    if len(rows) > 1 and dice < 0.15:
        return {"drag": [e.name for e in rng.sample(rows, 2)]}
    if rows and dice < 0.18:
        return {"scroll": [rng.choice(rows).name, rng.choice(["down", "up"])]}
    if rows + targets and dice < 0.26:
        return {rng.choice(["double", "right"]): rng.choice(rows + targets).name}
    return {"click": rng.choice(clear).name}


def _random_click(app: str, clear: Sequence[Element], rng: Random) -> dict[str, Any]:
    """A click in a real application on what leaves it open, a share `_TO_FIELD` on fields; else Escape."""
    free = [e for e in clear if e.name not in AWAY[app] and not e.name.endswith("...")]
    if not free:
        return {"press": "esc"}
    fields = [e for e in free if e.role == "field"]
    target = rng.choice(fields if fields and rng.random() < _TO_FIELD else free)
    return {"double" if target.role == DOUBLE.get(app) and rng.random() < 0.3 else "click": target.name}


def unambiguous(elements: Iterable[Element], state: Mapping[str, Any] | None = None) -> list[Element]:
    """The elements that a name points out: no other has the name, and they are not mere values.

    Nor bodies of a sky that is drawn without names, as its state says.
    """
    elements, named = list(elements), (state or {}).get("labels", True)
    names = [e.name for e in elements]
    return [e for e in elements if names.count(e.name) == 1 and e.role != "value"
            and (named or e.role != "target" or e.name.lstrip("-").isdigit())]  # fmt: skip


def random_walk(
    desk: Window, rng: Random, region: str = "train", length: int = WALK_LENGTH
) -> Iterator[Transition]:
    """Random steps without end; after `length` steps or a fault the application starts anew.

    Starts are perturbed as in a region (train has nothing that is held back).  EnvironmentFault after
    `FAULTS` of them with no step between.
    """
    faults = 0
    for number in count(1):
        try:
            settings = random_settings(desk.app, dict(desk.defaults), rng)
            desk.begin(settings, draw_view(desk.app, rng, region))
            last = None
            for _ in range(length):
                clicked = str(last.step.get("click", "")) if last else ""
                last = perform(desk, random_step(desk, rng, clicked), last, number)
                faults = 0
                yield last
        except EnvironmentFault as fault:
            faults += 1
            if faults == FAULTS:
                raise
            print(f"walk {number} ends here: {fault}", flush=True)


def collect(app: str, length: int, seed: int | str, region: str = "train") -> list[Transition]:
    """The first `length` steps of a random walk, perturbed as in a region."""
    with closing(opened(app)) as env:
        return list(islice(random_walk(window_of(env), Random(f"{app} {seed}"), region), length))


def screenshot(desk: Window) -> bytes:
    """The screen as PNG."""
    return encode_image(Image.fromarray(desk.screenshot()))
