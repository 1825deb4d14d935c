"""Errors that are the user's to fix, as one line: what is wrong, where, and what to do."""

from __future__ import annotations

import errno
import os
import re
from typing import Any


class UserError(Exception):
    """Something was asked for that does not exist or cannot be done; the message says what to do."""


class StageError(Exception):
    """A stage of a run failed; the message says which notebook, which cell and why."""


_SPACE = "free some space and run the same command again"
_ADVICE = {  # of the operating system's errors: what it is called here, and what to do
    errno.EACCES: ("permission is denied", "run the command as the owner, or name another place"),
    errno.EPERM: ("permission is denied", "run the command as the owner, or name another place"),
    errno.EROFS: ("it is on a read-only disk", "name another place"),
    errno.ENOSPC: ("the disk is full", _SPACE),
    errno.EDQUOT: ("your share of the disk is full", _SPACE),
    errno.EFBIG: ("the file would be too large", _SPACE),
    errno.ENOENT: ("it is not there", "check the name"),
    errno.ENOTDIR: ("a part of this path is no folder", "check the name"),
    errno.EISDIR: ("it is a folder", "name a file"),
    errno.ELOOP: ("its links lead in a circle", "name the file itself"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
    errno.EIO: ("it cannot be read or written", "check the disk"),
    errno.EMFILE: ("too many files are open", "raise the limit with ulimit -n"),
    errno.ENFILE: ("too many files are open", "end other programs"),
    errno.EAGAIN: (
        "no further process can be started",
        "raise the limit with ulimit -u, or end other programs",
    ),
    errno.ENOMEM: ("memory is used up", "end other programs, or choose a smaller profile"),
}  # fmt: skip
LONGEST = 300  # characters of what a library says


def expected(error: BaseException) -> str | None:
    """The one line about a failure that is not the kit's fault; None if it is a bug.

    >>> expected(PermissionError(13, "Permission denied", "results/x"))
    'results/x: permission is denied: run the command as the owner, or name another place'
    """
    if isinstance(error, UserError | StageError):
        return str(error)
    if isinstance(error, MemoryError):
        return ": ".join(_ADVICE[errno.ENOMEM])
    if isinstance(error, OSError) and error.errno in _ADVICE:
        place = error.filename2 or error.filename  # of a rename, the target
        return ": ".join([*([str(place)] if place else []), *_ADVICE[error.errno]])
    if os.strerror(errno.ENOSPC) in str(error):  # libraries have their own exceptions for it
        return ": ".join(_ADVICE[errno.ENOSPC])
    return None


def one_line(error: BaseException) -> str:
    """What an exception of a library says, as one line of at most 300 characters; without words, its name.

    >>> one_line(ValueError("bad\\n  value")), one_line(KeyError())
    ('bad value', 'KeyError')
    """
    said = re.sub(r" <[^<>]* at 0x[0-9a-f]+>", "", " ".join(str(error).split())) or type(error).__name__
    return said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"


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
