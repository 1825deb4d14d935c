"""Safe checks of a task's `evaluate` items on an application's state: data in, truth out, nothing executed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

_ABSENT = object()


def lookup(state: Mapping[str, Any], key: str) -> Any:
    """The value under a key such as 'grid' or 'variables.a'; a private mark if there is none."""
    if key in state:
        return state[key]
    head, _, rest = key.partition(".")
    inner = state.get(head, _ABSENT)
    return lookup(inner, rest) if rest and isinstance(inner, Mapping) else _ABSENT


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
    "before": lambda actual, value: actual is not _ABSENT and [x for x in actual if x in value] == list(value),
    "has_row": lambda actual, value: actual is not _ABSENT and any(row[0] == value for row in actual),
}


def holds(item: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether one item {'type': 'state', 'key', 'pred', 'value'} holds.  KeyError for a predicate that is not known."""
    return PREDICATES[item.get("pred", "equals")](lookup(state, item["key"]), item.get("value"))
