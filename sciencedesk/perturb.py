"""Perturbed runs: each run of a task starts in another window, from another state and with other words.

An agent that repeats what once worked, without a look, fails: place and size of the window, theme, size of
the text, layout, order and scroll position of what is listed, the open tab, an open menu or dialog, values
that the task does not touch, and the wording are drawn by the task and the run, the same for every system.
Some values are held back: only runs of the test region have them, so that tables can tell what was seen in
training from what was not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from coda_lib.action import Action
from coda_lib.applications import DESKTOP_APPS
from coda_lib.environment import Environment
from coda_lib.task import Task
from coda_lib.trajectory import StopReason
from sciencedesk.board.tasks import AppTask
from sciencedesk.content import readings
from sciencedesk.goals import Aim, Goal, are_apart, compose, goals, sentence_of
from sciencedesk.make import defaults
from sciencedesk.script import ScriptError, action_of, find
from sciencedesk.space import draw_starts, has_space, prepared, space

SCREEN, REAL_SCREEN = (336, 252), (640, 480)  # px; of ScienceDesk and of a real application
_SMALLEST = (0.9, 0.9)  # of the screen's width and height that a window takes
_LARGER = {"GrassGIS": (0.9, 0.97)}  # lower, its catalog has no room for a row
THEMES, TEXT_PX = ("light", "dark"), (11,)
LAYOUTS = ((), ("mirrored",), ("flipped",), ("south",), ("mirrored", "south"), ("flipped", "south"))
HELD_BACK = {  # what only runs of the test region have
    "theme": "contrast",
    "text": 10,
    "layout": (("mirrored", "flipped"), ("mirrored", "flipped", "south")),
    "place": 0.7,  # of the free room, beyond which the window's corner is
}
_DESKTOPS = ("#4a6178", "#203040", "#7a6a55", "#5b7a5b", "#b8c4cf")
_EXTRA = 3  # steps for a tab, a scroll and what is open
_LIMIT = 15  # steps of a task (paper, section 5)


def perturbed(task: Task, run: int, region: str) -> Task:
    """The task of a region as this run starts it.

    A question asks in each run for another value of its kind, of the same region: an answer that was right
    once is no answer.  Other goals keep theirs.  A task in ScienceBoard's format stays as it is.
    """
    if isinstance(task, AppTask):
        return task
    rng = random.Random(f"{task.id} {run}")
    is_real = task.app in DESKTOP_APPS
    view = draw_view(task.app, rng, region)
    aims = asked_goals(task.app, task.instruction) if has_space(task.app) else []
    if task.ans and aims:
        task, aims = _asking_another(task, aims, region, rng)
    settings, clicked = dict(task.settings), {step.get("click") for step in task.solution}
    if has_space(task.app):
        task_space = space(task.app)
        starts = {**task_space.starts, **task_space.runs}
        checked = {str(item.get("key", "")).partition(".")[0] for item in task.evaluate}
        bound = {"tab", *settings, *checked, *(key for goal, _ in aims for key in goal.setup)}
        if aims:  # else nobody knows what its script needs
            settings |= draw_starts(replace(task_space, starts=starts), bound, rng)
        tabs = [tab for tab in starts.get("tab", ()) if tab not in clicked]
        room = len(task.solution) + 1 + _EXTRA <= _LIMIT  # for more steps
        if tabs and "tab" not in checked and rng.random() < 0.7 and room:
            home, settings["tab"] = settings.get("tab", starts["tab"][0]), rng.choice(tabs)
            view |= {} if is_real else {"home": home}  # the script of a real application opens its tabs
        if is_real and "tab" in starts:  # other settings open one, too
            settings["tab"] = settings.pop("tab", starts["tab"][0])
        panels = [name for name in task_space.panels if name not in clicked]
        if panels and rng.random() < 0.3 and room:
            view["open"] = rng.choice(panels)
        if aims:
            said = [rng.choice(goal.wordings).replace("{v}", word) for goal, word in aims]
            task = replace(task, instruction=sentence_of(said, question=aims[-1][0].ask))
        if not room and not is_real:
            view["scroll"] = 0
    items = tuple({"func": "set", "key": key, "value": value} for key, value in settings.items())
    return replace(task, initialize=items, steps=min(_LIMIT, task.steps + _EXTRA), view=view)


def _asking_another(
    task: Task, aims: list[tuple[Goal, str]], region: str, rng: random.Random
) -> tuple[Task, list[tuple[Goal, str]]]:
    """The task with another value of its question, if the space has others in the region."""
    *others, (goal, _) = aims
    task_space = space(task.app)
    words = [word for word in goal.values if task_space.regions.get((goal.name, word), region) == region]
    known = all(word in goal.values for goal, word in others) and are_apart([goal for goal, _ in aims])
    if not (words and known):
        return task, aims
    aims = [*others, (goal, rng.choice(words))]
    parts = [prepared(task_space, Aim(goal, word)) for goal, word in aims]
    return compose(task.app, parts, defaults(task.app), task.id), aims


def draw_view(app: str, rng: random.Random, region: str) -> dict[str, Any]:
    """How the window looks (`coda_lib.task.Task.view`), with what is held back only in the test region."""
    test = region == "test"
    screen, least = screen_of(app), _LARGER.get(app, _SMALLEST)
    size = [round(side * rng.uniform(part, 1)) for side, part in zip(screen, least, strict=True)]
    far = 1 if test else HELD_BACK["place"]
    corner = [round((side - taken) * rng.uniform(0, far)) for side, taken in zip(screen, size, strict=True)]
    view = {
        "window": [*corner, *size],
        "theme": rng.choice([*THEMES, *([HELD_BACK["theme"]] if test else ())]),
    }
    if app in DESKTOP_APPS:
        return view | {"desktop": rng.choice(_DESKTOPS)}
    return view | {
        "text": rng.choice([*TEXT_PX, *([HELD_BACK["text"]] if test else ())]),
        "layout": rng.choice([*LAYOUTS, *(HELD_BACK["layout"] if test else ())]),
        "order": rng.randrange(1, 2**31),
        "scroll": rng.choice((0, 0, rng.random(), 1)),
        "desktop": rng.choice(_DESKTOPS),
    }


def screen_of(app: str) -> tuple[int, int]:
    """Width and height in px of the screen that a window of an application is placed on."""
    return REAL_SCREEN if app in DESKTOP_APPS else SCREEN


def held_back(view: Mapping[str, Any], app: str) -> dict[str, bool]:
    """Whether a run's window has, of each factor of the application, a value that training never had."""
    x, y, *size = view["window"]
    free = zip((x, y), screen_of(app), size, strict=True)
    found = {
        "theme": view["theme"] == HELD_BACK["theme"],
        "place": any(at > HELD_BACK["place"] * (side - taken) + 0.5 for at, side, taken in free),
    }
    if app in DESKTOP_APPS:
        return found
    return found | {
        "text": view["text"] == HELD_BACK["text"],
        "layout": view["layout"] in HELD_BACK["layout"],
    }


# ---- words -----------------------------------------------------------------------------------------------


def asked_goals(app: str, instruction: str) -> list[tuple[Goal, str]]:
    """The goals, with their words, that an instruction asks for; none if it is no sentence of the space."""
    return next(readings(instruction, _aims_by_text(app)), [])


@cache
def _aims_by_text(app: str) -> dict[str, tuple[Goal, str]]:
    """The goals of the space by all that is said of them, also of the values of the committed test tasks."""
    first = {} if app in DESKTOP_APPS else {goal.name: goal for goal in goals(app)}
    return {
        said.replace("{v}", word): (goal, word)
        for goal in (*space(app).goals, *space(app).asked)
        for form in (first.get(goal.name, goal), goal)
        for said in {*form.wordings, *goal.wordings}
        for word in form.values
    }


# ---- scripts ---------------------------------------------------------------------------------------------


class Guide:
    """What a perturbed start of a task, which `env` was just reset to, needs before the steps of a script."""

    def __init__(self, env: Environment, task: Task):
        self.env, self.is_real = env, task.app in DESKTOP_APPS
        self.home = task.view.get("home")
        self.covered = not self.is_real and bool(env.desk.view.get("open"))

    def before(self, step: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The next step that is needed before this one; None if there is none.  Asked until then."""
        ((kind, what),) = step.items()
        if self.is_real:
            return self.env.way_to(step.get("click", ""))
        if self.covered:
            self.covered = False
            return {"press": "esc"}
        if kind not in ("click", "double", "right", "drag", "scroll"):
            return None
        for name in what if kind == "drag" else [what if isinstance(what, str) else what[0]]:
            home = self.home
            is_there = home and name in self.env.desk.names_on(home)
            if is_there or name in self.env.desk.pages:
                self.home = None
            if need := {"click": home} if is_there else _way_to(self.env, name):
                return need
        return None


def walk(env: Environment, task: Task) -> Iterator[tuple[Mapping[str, Any], Action]]:
    """Perform a task's script and what a perturbed start needs in between; gives each step with its action.

    ScriptError if it cannot run.
    """
    env.reset(task)
    guide = Guide(env, task)
    for step in task.solution:
        while need := guide.before(step):
            yield _do(env, need)
        yield _do(env, step)


def _do(env: Environment, step: Mapping[str, Any]) -> tuple[Mapping[str, Any], Action]:
    action = action_of(step, lambda name: find(env.elements(), name).center)
    env.step(action)
    return step, action


def _way_to(env: Environment, name: str) -> Mapping[str, Any] | None:
    """The next step towards an element that is not on the screen; None if it is, or if there is no way."""
    seen = {element.role for element in env.elements() if element.name == name}
    return env.desk.way_to(name) if seen <= {"row"} else None


def solve(env: Environment, task: Task) -> bool:
    """Whether the script solves a perturbed task within its limit of steps.  ScriptError if it cannot run."""
    answer = None
    for number, (step, _) in enumerate(walk(env, task), 1):
        answer = step.get("answer", answer)
        if number + (answer is None) > task.steps:
            raise ScriptError(f"the script needs more than {task.steps} steps")
    return env.check(StopReason.ANS if answer is not None else StopReason.DONE, answer)
