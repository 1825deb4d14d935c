"""What is typed into an application's fields and dialogs: read, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Container


class Refusal(Exception):
    """Why an application does not carry out a command; shown in its status line."""


def real_number(text: str, problem: str) -> float:
    """The number that a text stands for.  Refusal with the problem if it is none."""
    try:
        return float(text)
    except ValueError:
        raise Refusal(problem) from None


def number_among(allowed: Container[str], problem: str) -> Callable[[str], int]:
    """A reader of whole numbers for `Desk.add_entry`: one of the allowed texts, or a Refusal."""

    def read(text: str) -> int:
        if text not in allowed:
            raise Refusal(problem)
        return int(text)

    return read
