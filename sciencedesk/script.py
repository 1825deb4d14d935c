"""Scripts by names of widgets: they prove tasks solvable and give the base models their grounding data.

A script step is {'click': NAME}, {'double': NAME}, {'right': NAME}, {'drag': [FROM, TO]}, {'scroll': [NAME,
DIRECTION]}, {'type': TEXT}, {'press': KEYS}, {'answer': TEXT} or {'done': true}.  No agent sees the widget
tree behind the names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coda_lib.action import Action
from coda_lib.environment import Environment
from coda_lib.task import Task
from coda_lib.trajectory import StopReason
from sciencedesk.desk.elements import Element

if TYPE_CHECKING:
    from coda_lib.planner import Observation

_POINTED = {"click": Action.click, "double": Action.double_click, "right": Action.right_click}
_PLANS = {  # kind of a step: its plan, with the step's values
    "click": "Click '{}'.", "double": "Double-click '{}'.", "right": "Right-click '{}'.",
    "drag": "Drag '{}' to '{}'.", "scroll": "Scroll {1} on '{0}'.", "type": "Type '{}'.",
    "press": "Press '{}'.", "answer": "ANS {}", "done": "DONE",
}  # fmt: skip


class ScriptError(LookupError):
    """A script step that does not exist, or the name of no element on the screen."""


def find(elements: Sequence[Element], name: str) -> Element:
    """The visible element of that name.  ScriptError if there is none, or several can be clicked."""
    named = [e for e in elements if e.name == name]
    if len(named) > 1:
        named = [e for e in named if e.role != "value"]
    if len(named) != 1:
        visible = ", ".join(e.name for e in elements)
        raise ScriptError(f"{len(named)} elements are called {name!r}; visible: {visible}")
    return named[0]


def read_step(step: Mapping[str, Any], observation: Observation) -> tuple[str, tuple[Action, ...]]:
    """Plan and action of a script step on the present screen, for `agent.ScriptAgent`."""
    elements = observation.elements()
    return to_plan(step), (action_of(step, lambda name: find(elements, name).center),)


def to_action(desk: Any, step: Mapping[str, Any]) -> Action:
    """The action that a script step stands for on the present screen."""
    return action_of(step, lambda name: find(desk.elements(), name).center)


def action_of(step: Mapping[str, Any], locate: Callable[[str], tuple[float, float]]) -> Action:
    """The action of a script step; `locate` gives the point of a name, in fractions of the screen."""
    ((kind, what),) = step.items()
    match kind:
        case "click" | "double" | "right":
            return _POINTED[kind](*locate(what))
        case "drag":
            return Action.drag(*locate(what[0]), *locate(what[1]))
        case "scroll":
            return Action.scroll(*locate(what[0]), what[1])
        case "type":
            return Action.type_text(what)
        case "press":
            return Action.hotkey(what)
        case "answer":
            return Action.answer(what)
        case "done":
            return Action.done()
    raise ScriptError(f"unknown script step {kind!r}")


def to_plan(step: Mapping[str, Any]) -> str:
    """The plan of a script step, as a planner writes it."""
    ((kind, what),) = step.items()
    if kind not in _PLANS:
        raise ScriptError(f"unknown script step {kind!r}")
    if kind == "type" and what.endswith("\n"):
        return f"Type '{what.rstrip()}' and press Enter."
    return _PLANS[kind].format(*(what if kind in ("drag", "scroll") else [what]))


def to_step(plan: str) -> dict[str, Any]:
    """The script step of a plan, the inverse of `to_plan`.  ScriptError for a plan of no such step."""
    plan = plan.strip()
    if match := re.fullmatch(r"(Click|Double-click|Right-click) '(.+)'\.", plan):
        return {match[1].partition("-")[0].lower(): match[2]}
    if match := re.fullmatch(r"Drag '(.+)' to '(.+)'\.", plan):
        return {"drag": [match[1], match[2]]}
    if match := re.fullmatch(r"Scroll (up|down|left|right) on '(.+)'\.", plan):
        return {"scroll": [match[2], match[1]]}
    if match := re.fullmatch(r"Type '(.*)'( and press Enter)?\.", plan):
        return {"type": match[1] + ("\n" if match[2] else "")}
    if match := re.fullmatch(r"Press '(.+)'\.", plan):
        return {"press": match[1]}
    raise ScriptError(f"no step that can be carried out by name: {plan!r}")


def script_plans(task: Task) -> list[str]:
    """The plans of a task's script, with the one that ends the episode."""
    return [*map(to_plan, task.solution), *(["DONE"] if task.ans is None else [])]


def needless(plans: Sequence[str], script: Sequence[str]) -> tuple[int, ...]:
    """The redundant plans of a solved attempt, counted from 1: those that its task's script does not take.

    Of a plan taken more than once the last one counts.  Empty if there are no more plans than in the script.

    >>> needless(["Click 'View'.", "Click 'Grid'.", "DONE"], ["Click 'Grid'.", "DONE"])
    (1,)
    """
    if len(plans) <= len(script):
        return ()
    rest, redundant = list(script), []
    for i in range(len(plans), 0, -1):
        if rest and plans[i - 1] == rest[-1]:
            rest.pop()
        else:
            redundant.append(i)
    return tuple(reversed(redundant)) if not rest else not_in(script, plans)


def not_in(script: Sequence[str], plans: Sequence[str]) -> tuple[int, ...]:
    """The plans, counted from 1, that a script does not have."""
    return tuple(i for i, plan in enumerate(plans, 1) if plan not in script)


def solve(env: Environment, task: Task) -> bool:
    """Whether the task's script solves it.  ScriptError if the script cannot run."""
    env.reset(task)
    answer = None
    for step in task.solution:
        env.step(action_of(step, lambda name: find(env.elements(), name).center))
        answer = step.get("answer", answer)
    return env.check(StopReason.ANS if answer is not None else StopReason.DONE, answer)


def idle(env: Environment, task: Task) -> bool:
    """Whether doing nothing solves the task (it must not)."""
    env.reset(task)
    return env.check(StopReason.DONE) or env.check(StopReason.ANS, "")
