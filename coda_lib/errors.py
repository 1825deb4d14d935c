"""Errors that are the user's to fix: the command line prints their message alone, without a traceback."""

from __future__ import annotations

from typing import Any


class UserError(Exception):
    """Something was asked for that does not exist or cannot be done; the message says what, and what to do."""


class StageError(Exception):
    """A stage of a run failed; the message says which notebook, which cell and why."""


def describe(errors: list[Any]) -> str:
    """Return one line for all errors; the length of a list is no news when its items are at fault."""
    if len(errors) > 1:
        errors = [item for item in errors if item["type"] != "too_short"]
    return "; ".join(_describe_one(item) for item in errors)


def _describe_one(item: Any) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"{field}: unknown field"
    if item["type"] == "missing":
        return f"{field}: missing"
    message = ": ".join(filter(None, [field, item["msg"].removeprefix("Value error, ")]))
    return message if isinstance(item["input"], dict) else f"{message} (got {item['input']!r})"
