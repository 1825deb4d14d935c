"""ScienceBoard's task files for its four graphical applications: read, validated, and checked on an application's state.

Format and meaning follow the benchmark's public release (tasks/VM/APP/GRADE-NN.json, and the task classes that read them); the
expressions in them are interpreted by `lambdas`, never evaluated.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from coda_lib.errors import UserError
from coda_lib.lambdas import Lambda, LambdaError
from coda_lib.trajectory import StopReason

APPS = {"KAlgebra": "algebra", "ChimeraX": "biochem", "GrassGIS": "gis", "Celestia": "astron"}  # theirs -> ours
NEAR = 1e-6  # how far a number may be from the one that a `val` item asks for
STOPS = {"TIMEOUT": StopReason.STEP_LIMIT} | {stop.name: stop for stop in (StopReason.DONE, StopReason.FAIL, StopReason.ANS)}


class Part(BaseModel):
    """A part of a task file: knows no other fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _expression(source: str) -> str:
    Lambda(source)
    return source


def _pattern(source: str) -> str:
    try:
        re.compile(source)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return source


def _key(source: str) -> str:
    return _expression(source) if source.startswith("lambda") else source


Text = Annotated[str, Field(min_length=1)]
Number = int | float
Expression = Annotated[Text, AfterValidator(_expression)]
Key = Annotated[Text, AfterValidator(_key)]  # a name, or an expression that leads to the value
Point = Annotated[list[Number], Field(min_length=2, max_length=3)]

# -- initialize ----------------------------------------------------------------------------------------------------------


class Init(Part):
    wait: float = Field(0, ge=0)  # seconds to wait afterwards


class Command(Init):
    func: Literal["launch", "execute"]
    command: Text | list[str]  # «PORTLIKE» stands for the port of the state server
    shell: bool = False


class Depth(Init):
    func: Literal["opt"]
    depth: Annotated[int, Field(ge=0)]


class Open(Init):
    func: Literal["open"]
    name: Text | None = None
    path: Text | None = None


class Plain(Init):
    func: Literal["clear_log", "destroy"]


class Turn(Init):
    func: Literal["turn"]
    axis: Literal["x", "y", "z"]
    angle: Number


class Color(Init):
    func: Literal["color"]
    style: Text


class Match(Init):
    func: Literal["alphafold_match"]
    name: Text


class Download(Init):
    func: Literal["download"]
    url: Text
    path: Text


class Touch(Init):
    func: Literal["touch"]
    path: Text
    text: str = ""


class Map(Init):
    func: Literal["map"]
    grassdb: Text
    location: Text
    mapset: Text


class Layer(Init):
    func: Literal["layer"]
    query: dict[str, Any]


class Scale(Init):
    func: Literal["scale"]
    scale: Number


class Tab(Init):
    func: Literal["tab"]
    index: Annotated[int, Field(ge=0, le=3)]


class Curve(Init):
    func: Literal["func_2d", "func_3d"]
    expr: Text


Initialize = Annotated[
    Command | Depth | Open | Plain | Turn | Color | Match | Download | Touch | Map | Layer | Scale | Tab | Curve,
    Field(discriminator="func"),
]

# -- evaluate ------------------------------------------------------------------------------------------------------------


class Stop(Part):
    """How the episode must end; with ANS, the words of the answer."""

    type: Literal["stop"]
    value: Literal["DONE", "FAIL", "ANS", "TIMEOUT"]
    args: list[str] = []


class Info(Part):
    """A value in what the state server dumps."""

    type: Literal["info"]
    key: Key
    value: Any
    pred: Expression | None = None


class States(Part):
    """A value in ChimeraX's states: of a key, or of the key that `find` and `key` lead to; null: there must be none."""

    type: Literal["states"]
    key: Key
    find: Expression | None = None
    value: Any = None
    pattern: Annotated[Text, AfterValidator(_pattern)] | None = None

    @model_validator(mode="after")
    def _one_condition(self) -> States:
        if not {"value", "pattern"} & self.model_fields_set:
            raise ValueError("give value or pattern")
        return self


class Database(Part):
    """What a GRASS command says."""

    type: Literal["db"]
    cmd: Text
    kwargs: dict[str, Any] = {}
    key: Key | None = None
    value: Any
    pred: Expression | None = None


class File(Part):
    """What a file in the guest holds."""

    type: Literal["file"]
    path: Text
    key: Key | None = None
    value: Any
    pred: Expression | None = None


class Value(Part):
    """The number in a variable of KAlgebra's."""

    type: Literal["val"]
    key: Text
    value: Number


class Variable(Part):
    """The expression in a variable of KAlgebra's, as it writes it; `#UNDEF`: there is no such variable."""

    type: Literal["var"]
    key: Text
    value: Text


class Equation(Part):
    """A plot that goes through each of these points or misses it, perhaps of a color, resolution or style; or their number."""

    type: Literal["eqn"]
    key: list[Point] | Literal["#SIZE"]
    value: dict[str, bool | int | str] | int

    @model_validator(mode="after")
    def _alike(self) -> Equation:
        if isinstance(self.key, list) != isinstance(self.value, dict):
            raise ValueError("value must be a count for #SIZE, and what holds at each point for points")
        if isinstance(self.key, list) and len({len(point) for point in self.key}) != 1:
            raise ValueError("key must be points of one dimension")
        return self


Evaluate = Annotated[
    Stop | Info | States | Database | File | Value | Variable | Equation,
    Field(discriminator="type"),
]


class BoardTask(Part):
    """A task of ScienceBoard's."""

    type: Literal["KAlgebra", "ChimeraX", "GrassGIS", "Celestia"]
    sort: Literal["VM"]
    steps: Annotated[int, Field(ge=1)]
    instruction: Text
    version: Text
    snapshot: Text
    initialize: list[Initialize]
    evaluate: Annotated[list[Evaluate], Field(min_length=1)]
    ans: str | None = None  # a solution in words, for people
    query: list[dict[str, Any]] | dict[str, Any] | None = None  # what Celestia's state server is to dump
    penalty: Annotated[str, Field(pattern=r"^\d+:\d+$")] | None = None  # after k invalid steps n steps are lost: 'k:n'


def load_board_task(path: Path) -> BoardTask:
    """A task file.  UserError names the file, the field and, of an expression, what in it is not allowed."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # ValueError: no UTF-8, no JSON, or a number of thousands of digits
        raise UserError(f"{path}: not a JSON file ({error})") from error
    try:
        return BoardTask.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(file)"
        raise UserError(f"{path}: field {field}: {first['msg'].removeprefix('Value error, ')}") from error


# -- the check -----------------------------------------------------------------------------------------------------------


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
