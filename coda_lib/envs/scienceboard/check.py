"""Whether a task of ScienceBoard's is solved: its `evaluate` items, asked of an application's state (`BoardState`)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from coda_lib.envs.scienceboard.files import BoardTask, Database, Equation, File, States, Stop, Value, Variable
from coda_lib.envs.scienceboard.lambdas import Lambda, LambdaError
from coda_lib.trajectory import StopReason

NEAR = 1e-6  # how far a number may be from the one that a `val` item asks for
STOPS = {"TIMEOUT": StopReason.STEP_LIMIT} | {stop.name: stop for stop in (StopReason.DONE, StopReason.FAIL, StopReason.ANS)}


class BoardState(Protocol):
    """What can be asked about an application; EnvironmentFault if it cannot be answered."""

    def variables(self) -> Mapping[str, str]:
        """KAlgebra's variables, each as it is written."""

    def functions(self, points: Sequence[Sequence[float]]) -> Sequence[Mapping[str, Any]]:
        """KAlgebra's plots of the points' dimension: for each, whether a point (a Python tuple's text) lies on it, and more."""

    def plots(self) -> int:
        """How many functions KAlgebra's plots show."""

    def dump(self, task: BoardTask) -> Any:
        """What the state server dumps, or ChimeraX's states."""

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What a GRASS command says."""

    def file(self, path: str) -> str:
        """A file in the guest."""


# What Python raises where a state has not what an expression asks for: the condition does not hold, as in the benchmark itself.
_NOT_SO = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, NameError)


def check_board(task: BoardTask, state: BoardState, stop: StopReason, answer: str | None) -> bool:
    """Whether an episode that ended so solved the task: every item of `evaluate` holds.

    LambdaError if an expression costs too much; it says nothing about the agent.
    """
    return all(_holds(item, task, state, stop, answer) for item in task.evaluate)


def _holds(item: Any, task: BoardTask, state: BoardState, stop: StopReason, answer: str | None) -> bool:
    if isinstance(item, Stop):
        return stop == STOPS[item.value] and (not item.args or (answer or "").split() == " ".join(item.args).split())
    found = _look(item, task, state)
    try:
        return bool(_compare(item, found))
    except LambdaError:
        raise
    except _NOT_SO:
        return False


def _look(item: Any, task: BoardTask, state: BoardState) -> Any:
    """What an item is about; asked outside of any `try`, so that a fault of the environment is never a failed task."""
    match item:
        case Value() | Variable():
            return state.variables()
        case Equation(key=str()):
            return state.plots()
        case Equation(key=points):
            return state.functions(points)
        case Database(cmd=name, kwargs=arguments):
            return state.command(name, arguments)
        case File(path=path):
            return state.file(path)
    return state.dump(task)


def _compare(item: Any, found: Any) -> bool:
    match item:
        case Value(key=key, value=value):
            return math.isclose(float(found[key]), value, rel_tol=0, abs_tol=NEAR)
        case Variable(key=key, value="#UNDEF"):
            return key not in found
        case Variable(key=key, value=value):
            return found[key] == value
        case Equation(key=str(), value=count):
            return found == count
        case Equation(value=wanted):
            return any(all(name in plot and plot[name] == value for name, value in wanted.items()) for plot in found)
        case States():
            return _states_hold(item, found)
    actual = found if item.key is None else Lambda(item.key)(found) if item.key.startswith("lambda") else found[item.key]
    return Lambda(item.pred)(actual, item.value) if item.pred else actual == item.value


def _states_hold(item: States, states: Mapping[str, Any]) -> bool:
    by_expression = item.key.startswith("lambda")
    if item.find:
        keys = [key for key, value in states.items() if Lambda(item.find)(key, value)]
        keys = [Lambda(item.key)(key) if by_expression else item.key for key in keys]
    else:
        keys = [key for key in states if (Lambda(item.key)(key) if by_expression else key == item.key)]
    if item.pattern is None and item.value is None:
        return not any(key in states for key in keys)
    value = states[keys[0]]
    if item.pattern is None:
        return value == item.value
    return re.search(item.pattern, value if isinstance(value, str) else json.dumps(value)) is not None
