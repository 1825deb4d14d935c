"""Errors that are the user's to fix: the command line prints their message alone, without a traceback."""

from __future__ import annotations


class UserError(Exception):
    """Something was asked for that does not exist or cannot be done; the message says what, and what to do."""


class StageError(Exception):
    """A stage of a run failed; the message says which notebook, which cell and why."""
