"""The check of a ScienceBoard task: its `evaluate` items against an application's state (`BoardState`)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from coda_lib.errors import UserError
from coda_lib.trajectory import StopReason
from sciencedesk.board.costs import LambdaError, found
from sciencedesk.board.files import BoardTask, Database, Equation, File, Info, States, Stop, Value, Variable
from sciencedesk.board.lambdas import Lambda

NEAR = 1e-6  # tolerance of the number of a `val` item
STOPS = {
    "TIMEOUT": StopReason.STEP_LIMIT, "DONE": StopReason.DONE, "FAIL": StopReason.FAIL, "ANS": StopReason.ANS,
}  # fmt: skip


class BoardState:
    """The queries to an application's state; EnvironmentFault if one fails, UserError if it has none such."""

    kind: str
    task: Any

    def variables(self) -> Mapping[str, str]:
        """KAlgebra's variables and their expressions as text."""
        raise self._unanswered("val and var")

    def functions(self, points: Sequence[Sequence[float]]) -> Sequence[Mapping[str, Any]]:
        """KAlgebra's plots of that dimension: whether each point (a tuple as text) is on it; style."""
        raise self._unanswered("eqn")

    def plots(self) -> int:
        """Number of functions in KAlgebra's plots."""
        raise self._unanswered("eqn")

    def dump(self, task: BoardTask) -> Any:
        """The dump of the state server, or ChimeraX's states."""
        raise self._unanswered("info and states")

    def info(self, key: str) -> Sequence[str]:
        """The lines that ChimeraX's command `info KEY` prints."""
        raise self._unanswered("info")

    def command(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """The output of a GRASS command."""
        raise self._unanswered("db")

    def file(self, path: str) -> str | None:
        """The text of a file in the guest; None if it is not there."""
        raise self._unanswered("file")

    def _unanswered(self, items: str) -> UserError:
        return UserError(f"task {self.task.id}: evaluate: {self.kind} answers no {items} items")


# An expression on a state without the values that it needs raises one of these: its condition does not hold,
# as in the benchmark.
_MISSING = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, NameError)


def check_board(task: BoardTask, state: BoardState, stop: StopReason, answer: str | None) -> bool:
    """Whether every item of `evaluate` holds.  LambdaError if an expression or a pattern costs too much."""
    return all(_holds(item, task, state, stop, answer) for item in task.evaluate)


def _holds(item: Any, task: BoardTask, state: BoardState, stop: StopReason, answer: str | None) -> bool:
    if isinstance(item, Stop):
        answered = not item.args or (answer or "").split() == " ".join(item.args).split()
        return stop == STOPS[item.value] and answered
    value = _query(item, task, state)
    try:
        return bool(_compare(item, value, task))
    except LambdaError:
        raise
    except _MISSING:
        return False


def _query(item: Any, task: BoardTask, state: BoardState) -> Any:
    """What an item is about; outside of any `try`, since a fault of the environment is no failed task."""
    match item:
        case Value() | Variable():
            return state.variables()
        case Equation(key=str()):
            return state.plots()
        case Equation(key=points):
            return state.functions(points)
        case Database(cmd=name, kwargs=arguments):
            return state.command(name, arguments)
        case File(key=path):
            return state.file(path)
        case Info(key=key) if task.type == "ChimeraX":
            return state.info(key)
    return state.dump(task)


def _compare(item: Any, state: Any, task: BoardTask) -> bool:
    match item:
        case Value(key=key, value=value):
            return math.isclose(float(state[key]), value, rel_tol=0, abs_tol=NEAR)
        case Variable(key=key, value="#UNDEF"):
            return key not in state
        case Variable(key=key, value=value):
            return state[key] == value
        case Equation(key=str(), value=count):
            return state == count
        case Equation(value=wanted):
            return any(wanted.items() <= plot.items() for plot in state)
        case States():
            return _states_hold(item, state)
        case File(value=text):
            return state is not None and (Lambda(text)() if text.startswith("lambda") else text) in state
        case Info(value=lines) if task.type == "ChimeraX":
            return set(state) == set(lines)
    if item.key is None:
        actual = state
    else:
        actual = Lambda(item.key)(state) if item.key.startswith("lambda") else state[item.key]
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
    return found(item.pattern, value if isinstance(value, str) else json.dumps(value))
