"""ScienceBoard's task files, validated; `check` decides whether a task is solved.

Format and meaning follow the benchmark's public release (tasks/VM/APP/GRADE-NN.json, and the task classes
that read them). `lambdas` interprets the expressions in them without `eval`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, create_model, model_validator

from coda_lib.applications import RealApp
from coda_lib.errors import UserError
from coda_lib.files import read_json
from sciencedesk.board.costs import check_pattern
from sciencedesk.board.lambdas import Lambda

Scalar = bool | int | float | str


class Part(BaseModel):
    """A part of a task file; other fields are errors."""

    model_config = {"frozen": True, "extra": "forbid"}


def _expression(source: str) -> str:
    return Lambda(source).source


Text = Annotated[str, Field(min_length=1)]
Number = int | float
Expression = Annotated[Text, AfterValidator(_expression)]
# a name, or an expression that gives the value
Key = Annotated[Text, AfterValidator(lambda key: _expression(key) if key.startswith("lambda") else key)]
Point = Annotated[list[Number], Field(min_length=2, max_length=3)]

# -- initialize ----------------------------------------------------------------------------------------


class Init(Part):
    wait: float = Field(0, ge=0)  # seconds to wait afterwards


class Command(Init):
    func: Literal["launch", "execute"]
    command: Text | list[str]  # «PORTLIKE»: the port of the state server
    shell: bool = False


class Touch(Init):
    func: Literal["touch"]
    path: Text
    text: str = ""


class Call(Init):
    """A call that a local application offers for preparation, such as PyMOL's `fab`."""

    func: Literal["call"]
    name: Text
    args: list[Scalar] = []
    kwargs: dict[str, Scalar] = {}


def _init(*funcs: str, **fields: Any) -> type[Init]:
    """The model of an item with these fields, for each `func` of these names."""
    return create_model(funcs[0], __base__=Init, func=Literal[funcs], **fields)


Initialize = Annotated[
    Call
    | Command
    | Touch
    | _init("opt", depth=Annotated[int, Field(ge=0)])
    | _init("open", name=(Text | None, None), path=(Text | None, None))
    | _init("clear_log", "destroy")
    | _init("turn", axis=Literal["x", "y", "z"], angle=Number)
    | _init("color", style=Text)
    | _init("alphafold_match", name=Text)
    | _init("download", url=Text, path=Text)
    | _init("map", grassdb=Text, location=Text, mapset=Text)
    | _init("layer", query=dict[str, Any])
    | _init("scale", scale=Number)
    | _init("tab", index=Annotated[int, Field(ge=0, le=3)])
    | _init("func_2d", "func_3d", expr=Text),
    Field(discriminator="func"),
]

# -- evaluate ------------------------------------------------------------------------------------------


class Stop(Part):
    """The stop reason, and for ANS the words of the answer."""

    type: Literal["stop"]
    value: Literal["DONE", "FAIL", "ANS", "TIMEOUT"]
    args: list[str] = []


class Condition(Part):
    """A condition on a value or on the part that `key` gives: equal to `value`, or true under `pred`."""

    key: Key | None = None
    value: Any
    pred: Expression | None = None


class Info(Condition):
    """A value in the state server's dump; with ChimeraX the lines of its `info KEY`, in any order."""

    type: Literal["info"]
    key: Key


class States(Part):
    """A value in ChimeraX's states at `key`, or at what `find` and `key` give; null: no such key."""

    type: Literal["states"]
    key: Key
    find: Expression | None = None
    value: Any = None
    pattern: Annotated[Text, AfterValidator(check_pattern)] | None = None

    @model_validator(mode="after")
    def _one_condition(self) -> States:
        if not {"value", "pattern"} & self.model_fields_set:
            raise ValueError("give value or pattern")
        return self


class Database(Condition):
    """The output of a GRASS command."""

    type: Literal["db"]
    cmd: Text
    kwargs: dict[str, Any] = {}


class File(Part):
    """A file in the guest at `key` whose text contains `value`, or what it gives as an expression."""

    type: Literal["file"]
    key: Text
    value: Key


class Value(Part):
    """The number in a KAlgebra variable."""

    type: Literal["val"]
    key: Text
    value: Number


class Variable(Part):
    """The expression in a KAlgebra variable as text; `#UNDEF`: there is no such variable."""

    type: Literal["var"]
    key: Text
    value: Text


class Equation(Part):
    """A plot's points (on it or not) and its color, resolution or style; or the number of plots."""

    type: Literal["eqn"]
    key: list[Point] | Literal["#SIZE"]
    value: dict[str, bool | int | str] | int

    @model_validator(mode="after")
    def _alike(self) -> Equation:
        if isinstance(self.key, list) != isinstance(self.value, dict):
            raise ValueError("value must be a count for #SIZE, and a condition for each point for points")
        if isinstance(self.key, list) and len({len(point) for point in self.key}) != 1:
            raise ValueError("key must be points of one dimension")
        return self


_Item = Stop | Info | States | Database | File | Value | Variable | Equation
Evaluate = Annotated[_Item, Field(discriminator="type")]


class BoardTask(Part):
    """A ScienceBoard task."""

    type: RealApp
    sort: Literal["VM", "Display"]
    steps: Annotated[int, Field(ge=1)]
    instruction: Text
    version: Text
    snapshot: Text
    initialize: list[Initialize]
    evaluate: Annotated[list[Evaluate], Field(min_length=1)]
    ans: str | None = None  # a solution in words, for readers
    solution: list[Text] = []  # UI-TARS actions for a local display; tests play them, no agent sees them
    query: list[dict[str, Any]] | dict[str, Any] | None = None  # of Celestia's state server
    # 'k:n': after k invalid steps n steps are lost
    penalty: Annotated[str, Field(pattern=r"^\d+:\d+$")] | None = None

    @model_validator(mode="after")
    def _lines_for_chimerax(self) -> BoardTask:
        for item in self.evaluate if self.type == "ChimeraX" else ():
            lines = item.value if isinstance(item, Info) else []
            if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
                value = f"the value of info {item.key!r}"
                raise ValueError(f"evaluate: {value} must be the lines that ChimeraX prints")
        return self


def board_files(folder: Path) -> list[Path]:
    """The task files below a folder and its links, each once, sorted.  UserError if there is none."""
    paths, walked = [], set()
    for place, inner, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(place)) in walked:  # as in a loop of links
            inner.clear()
            continue
        walked.add(real)
        # a folder of that name is an error
        paths += [Path(place, name) for name in (*names, *inner) if name.endswith(".json")]
        inner[:] = [name for name in inner if not name.endswith(".json")]
    if not paths:
        raise UserError(f"no task files in {folder}: expected ScienceBoard's, such as KAlgebra/A-01.json")
    return sorted(paths)


def load_board_task(path: Path) -> BoardTask:
    """A task file.  UserError names the file, the field, and what is not allowed in an expression."""
    raw = read_json(path)
    try:
        return BoardTask.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(file)"
        raise UserError(f"{path}: field {field}: {first['msg'].removeprefix('Value error, ')}") from error
