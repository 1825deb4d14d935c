"""Tasks: an instruction for the agent, and conditions that say whether it is reached.

Task files have the shape of ScienceBoard's (`instruction`, `steps`, `initialize`, `evaluate`, `ans`), one
JSON file a task.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from coda_lib.applications import SPACE_APPS
from coda_lib.errors import UserError
from coda_lib.files import read_json
from coda_lib.paths import DATA
from coda_lib.trajectory import StopReason

_ABSENT = object()
LONGEST_FILE = 1_000_000  # bytes of a task file
LONGEST_ITEM, DEEPEST = 10_000, 20  # characters of one item as JSON, and lists and objects in each other


def lookup(state: Mapping[str, Any], key: str, absent: Any = _ABSENT) -> Any:
    """The value under a key such as 'grid' or 'variables.a'; `absent` if there is none."""
    if key in state:
        return state[key]
    head, _, rest = key.partition(".")
    inner = state.get(head)
    return lookup(inner, rest, absent) if rest and isinstance(inner, Mapping) else absent


def _equal(actual: Any, value: Any) -> bool:
    number = int | float
    if isinstance(actual, number) and isinstance(value, number) and not isinstance(actual, bool):
        return math.isclose(actual, value, rel_tol=1e-6, abs_tol=1e-9)
    return actual == value


PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "equals": _equal,
    "contains": lambda actual, value: actual is not _ABSENT and value in actual,
    "excludes": lambda actual, value: actual is not _ABSENT and value not in actual,
    "absent": lambda actual, value: actual is _ABSENT,
    "at_least": lambda actual, value: actual is not _ABSENT and actual >= value,
    "before": lambda actual, value: (
        actual is not _ABSENT and [x for x in actual if x in value] == list(value)
    ),
    "has_row": lambda actual, value: actual is not _ABSENT and any(row[0] == value for row in actual),
}
# what a predicate compares with, where not anything will do
VALUES = {"at_least": int | float, "before": list}


def holds(item: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether one item {'type': 'state', 'key', 'pred', 'value'} holds.  KeyError for an unknown predicate.

    What cannot be said of a value, such as that a text is at least 3, does not hold.
    """
    predicate, actual = PREDICATES[item.get("pred", "equals")], lookup(state, item["key"])
    try:
        return bool(predicate(actual, item.get("value")))
    except (TypeError, LookupError):
        return False


GRADES = ("A", "B", "C", "D")


@dataclass(frozen=True)
class Task:
    id: str  # 'algebra/A-01'
    app: str
    grade: str  # A (one or two actions) … D (several goals, or a question that needs work first)
    instruction: str
    steps: int  # limit of planner–executor steps
    # {'func': 'set', 'key', 'value'}: the application's settings at the start
    initialize: tuple[Mapping[str, Any], ...]
    # all must hold; {'type': 'state', …} or {'type': 'stop', 'value', 'args'}
    evaluate: tuple[Mapping[str, Any], ...]
    ans: str | None = None  # the answer of a question task
    solution: tuple[Mapping[str, Any], ...] = ()  # a script in names of widgets, for tests; no agent sees it
    # how the world looks in a run (sciencedesk/perturb.py)
    view: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        return {item["key"]: item["value"] for item in self.initialize}

    @property
    def goal(self) -> str:
        """The goal state as canonical text, to compare tasks."""
        return goal_text(self.app, self.evaluate)


def goal_text(app: str, evaluate: Iterable[Mapping[str, Any]]) -> str:
    """A goal state as canonical text; the order of its items does not count."""
    return json.dumps([app, sorted(json.dumps(item, sort_keys=True) for item in evaluate)])


def check(task: Task, state: Mapping[str, Any], stop: StopReason, answer: str | None) -> bool | None:
    """Whether an episode solved the task: the environment's own verdict.  None for a task without conditions.

    `state` is the application's state at the end of the episode, `stop` why it ended, `answer` the text of an
    ANS action.

    >>> goal = {"type": "state", "key": "grid", "value": True}
    >>> task = Task("gis/A-90", "gis", "A", "Turn the grid on.", steps=5, initialize=(), evaluate=(goal,))
    >>> [check(task, {"grid": on}, StopReason.DONE, None) for on in (True, False)]
    [True, False]
    """
    if not task.evaluate:
        return None
    return all(_item_holds(item, state, stop, answer) for item in task.evaluate)


def _item_holds(
    item: Mapping[str, Any], state: Mapping[str, Any], stop: StopReason, answer: str | None
) -> bool:
    if item["type"] == "state":
        return holds(item, state)
    given = (answer or "").strip().casefold()
    return stop == item["value"] and given in [str(a).casefold() for a in item.get("args", [given])]


def load_task(path: Path) -> Task:
    """Read one task file.  UserError names the file and the invalid field.

    >>> task = load_task(DATA / "tasks/test/gis/A-01.json")
    >>> task.id, task.instruction, task.steps
    ('gis/A-01', 'Move Peaks above Slope.', 6)
    """
    if path.is_file() and path.stat().st_size > LONGEST_FILE:
        raise UserError(f"{path}: a task file has at most {LONGEST_FILE} bytes")
    raw = read_json(path)
    return parse_task(raw, f"{path.parent.name}/{path.stem}", str(path))


def _is_small(item: Any) -> bool:
    level = [item]
    for _ in range(DEEPEST):
        parts = [
            part.values() if isinstance(part, dict) else part
            for part in level
            if isinstance(part, dict | list)
        ]
        level = [inner for part in parts for inner in part]
    return not level and len(json.dumps(item)) <= LONGEST_ITEM


def parse_task(raw: Any, identity: str, source: str) -> Task:
    """The task of a parsed file.  UserError names `source` and the invalid field."""

    def need(condition: bool, field: str, expected: str) -> None:
        if not condition:
            raise UserError(f"{source}: field {field!r} must be {expected}")

    def is_text(value: Any) -> bool:
        return isinstance(value, str) and value.strip() != ""

    need(isinstance(raw, dict), "(file)", "an object")
    missing = [k for k in ("type", "sort", "steps", "instruction", "initialize", "evaluate") if k not in raw]
    need(not missing, missing[0] if missing else "", "there")
    need(raw["type"] in SPACE_APPS, "type", f"one of {', '.join(SPACE_APPS)}, not {raw['type']!r}")
    need(raw["sort"] == "ScienceDesk", "sort", "'ScienceDesk'")
    need(type(raw["steps"]) is int and raw["steps"] > 0, "steps", "a positive whole number")
    need(is_text(raw["instruction"]), "instruction", "text")
    need(raw.get("ans") is None or is_text(raw["ans"]), "ans", "text or null")
    for name in ("initialize", "evaluate", "solution"):
        items = raw.get(name, [])
        need(isinstance(items, list) and all(isinstance(i, dict) for i in items), name, "a list of objects")
        for i, item in enumerate(items):
            need(_is_small(item), f"{name}[{i}]", f"at most {LONGEST_ITEM} characters and {DEEPEST} levels")
    need(len(raw["evaluate"]) > 0, "evaluate", "a list with at least one condition")
    for i, item in enumerate(raw["initialize"]):
        need(item.get("func") == "set", f"initialize[{i}].func", "'set'")
        need(is_text(item.get("key")), f"initialize[{i}].key", "text")
        need("value" in item, f"initialize[{i}].value", "there")
    for i, item in enumerate(raw["evaluate"]):
        need(item.get("type") in ("state", "stop"), f"evaluate[{i}].type", "'state' or 'stop'")
        if item["type"] == "state":
            pred = item.get("pred", "equals")
            need(is_text(item.get("key")), f"evaluate[{i}].key", "text")
            need(
                is_text(pred) and pred in PREDICATES, f"evaluate[{i}].pred", f"one of {', '.join(PREDICATES)}"
            )
            need("value" in item or pred == "absent", f"evaluate[{i}].value", "there")
            fits = isinstance(item.get("value"), VALUES.get(pred, object))
            need(fits, f"evaluate[{i}].value", f"of another type for {pred}")
        else:
            args = item.get("args", [])
            known = item.get("value") in list(StopReason)
            need(known, f"evaluate[{i}].value", f"one of {', '.join(StopReason)}")
            need(isinstance(args, list) and all(map(is_text, args)), f"evaluate[{i}].args", "a list of texts")
    for i, item in enumerate(raw.get("solution", [])):
        need(len(item) == 1, f"solution[{i}]", "one action, such as {'click': NAME}")
    grade = raw.get("grade", identity.rpartition("/")[2][:1])
    need(grade in GRADES, "grade", f"one of {', '.join(GRADES)}")
    return Task(
        identity, raw["type"], grade, raw["instruction"], raw["steps"], tuple(raw["initialize"]),
        tuple(raw["evaluate"]), raw.get("ans"), tuple(raw.get("solution", [])),
    )  # fmt: skip


def task_record(task: Task) -> dict[str, Any]:
    """A task as a file holds it; the inverse of `parse_task` but for the id."""
    raw = asdict(task)
    shape = {"type": task.app, "sort": "ScienceDesk", "version": "1", "snapshot": "default"}
    keys = ("grade", "instruction", "steps", "initialize", "evaluate", "ans", "solution")
    return shape | {key: raw[key] for key in keys}


def test_tasks(app: str, folder: Path = DATA / "tasks" / "test") -> list[Task]:
    """The held-out tasks of an application, sorted by name: the drawn ones, and any that are written by hand.

    UserError for an application without tasks.
    """
    if not (folder / app).is_dir():
        there = [name for name in SPACE_APPS if (folder / name).is_dir()]
        raise UserError(f"no test tasks for application {app!r}; there are {', '.join(there)}")
    return [load_task(path) for path in sorted((folder / app).glob("*.json"))]


test_tasks.__test__ = False  # pytest would take the name for a test wherever it is imported
