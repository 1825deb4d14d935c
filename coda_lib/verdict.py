"""What a judge says of a trajectory, and how it is written: JSON with the paper's fields (section 4)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


class VerdictError(ValueError):
    """A judge's reply that is no verdict: counted and reported, never taken as a 'no'."""


@dataclass(frozen=True)
class Verdict:
    """One judgment; step numbers count from 1."""

    correct: bool
    redundant: tuple[int, ...] = ()
    first_error_step: int | None = None
    optimized: str | None = None
    error_type: str | None = None
    correct_action: str | None = None

    @property
    def clean(self) -> bool:
        """Correct, nothing redundant, no error: then every action is a labelled positive action."""
        return self.correct and not self.redundant and self.first_error_step is None


def parse_verdict(reply: str) -> Verdict:
    """Read the JSON object of a reply (a Markdown fence around it is allowed).  VerdictError names what is wrong."""
    start, end = reply.find("{"), reply.rfind("}")
    if start < 0 or end < start:
        raise VerdictError(f"no JSON object in {reply[:80]!r}")
    try:
        raw = json.loads(reply[start : end + 1])
    except (ValueError, RecursionError) as error:  # ValueError also of a number with thousands of digits
        raise VerdictError(f"not JSON: {reply[:80]!r}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("Correctness"), bool):
        raise VerdictError(f"Correctness must be true or false in {reply[:80]!r}")
    if missing := {"Redundant", "First_Error_Step"} - raw.keys():
        raise VerdictError(f"no {' and no '.join(sorted(missing))} in {reply[:80]!r}")
    first = raw["First_Error_Step"]
    redundant = [] if raw["Redundant"] is None else raw["Redundant"]
    if not isinstance(redundant, list) or not all(_is_step(step) for step in redundant):
        raise VerdictError(f"Redundant must be a list of step numbers in {reply[:80]!r}")
    if first is not None and not _is_step(first):
        raise VerdictError(f"First_Error_Step must be a step number or null in {reply[:80]!r}")
    words = {key: _words(raw.get(key)) for key in ("Optimized", "Error_Type", "Correct_Action")}
    return Verdict(
        raw["Correctness"], tuple(redundant), first, words["Optimized"], words["Error_Type"], words["Correct_Action"]
    )


def format_verdict(verdict: Verdict, details: bool = True) -> str:
    """A verdict as the JSON that `parse_verdict` reads; without `details` only the three fields that decide."""
    raw: dict[str, Any] = {
        "Correctness": verdict.correct,
        "Redundant": list(verdict.redundant),
        "First_Error_Step": verdict.first_error_step,
    }
    if details:
        raw |= {"Optimized": verdict.optimized, "Error_Type": verdict.error_type, "Correct_Action": verdict.correct_action}
    return json.dumps(raw)


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _words(value: Any) -> str | None:
    return None if value in (None, "") else str(value)
