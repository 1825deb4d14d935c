"""What takes long to make, kept in a Parquet file: lists of the recipes' own dataclasses.

A file is data alone: a reader names the classes that it takes, and nothing in the file can make another thing
(which pickle would do for whoever can write to the folder).  Pictures and objects that occur several times
are stored once, as steps of walks do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coda_lib.errors import UserError
from coda_lib.files import atomic_path

_SCHEMA = pa.schema([("kind", pa.string()), ("fields", pa.string()), ("data", pa.binary())])
_PLAIN = (str, int, float, bool, type(None))


def cached(path: Path, make: Callable[[], Any], kinds: Sequence[type]) -> Any:
    """The contents of a file, made first where there is none.  UserError as in `read`."""
    if not path.exists():
        write(path, make())
    return read(path, kinds)


def write(path: Path, value: Any) -> None:
    """Write lists, tuples and dicts of dataclasses, enums, bytes and plain values, or TypeError."""
    rows = _Rows()
    rows.add("", rows.plain(value))
    with atomic_path(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows.rows, _SCHEMA), temporary, compression="zstd")


def read(path: Path, kinds: Sequence[type]) -> Any:
    """What `write` wrote, made of these classes.  UserError for any other file or class."""
    known = {kind.__name__: kind for kind in kinds}
    try:
        table = pq.read_table(path)
        if not table.schema.equals(_SCHEMA):
            raise ValueError(f"it is another table: {', '.join(table.column_names)}")
        made: list[Any] = []
        for kind, text, data in zip(*(column.to_pylist() for column in table.columns), strict=True):
            if data is not None:
                made.append(data)
                continue
            value = _made(json.loads(text), made, known)
            made.append(known[kind](*value) if kind else value)
        return made[-1]
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path}: cannot be read ({error!r}); remove the file, and it is made again"
        ) from error


class _Rows:
    """The rows of a file, which refer to earlier ones: bytes, dataclasses by fields, last the whole."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._numbers: dict[Any, int] = {}  # rows of bytes by value, of objects by identity
        self._alive: list[Any] = []  # an identity is of this object as long as it lives

    def add(self, kind: str, value: Any, data: bytes | None = None) -> int:
        self.rows.append(
            {"kind": kind, "fields": None if data is not None else json.dumps(value), "data": data}
        )
        return len(self.rows) - 1

    def plain(self, value: Any) -> Any:
        """A value as JSON: a list is ["list", …], a reference to a row ["row", number]."""
        if isinstance(value, Enum):
            return ["enum", type(value).__name__, value.value]
        if isinstance(value, bytes):
            if value not in self._numbers:
                self._numbers[value] = self.add("", None, value)
            return ["row", self._numbers[value]]
        if is_dataclass(value):
            if id(value) not in self._numbers:
                parts = [self.plain(getattr(value, field.name)) for field in fields(value)]
                self._numbers[id(value)] = self.add(type(value).__name__, ["tuple", *parts])
                self._alive.append(value)
            return ["row", self._numbers[id(value)]]
        if type(value) in (list, tuple):
            return [type(value).__name__, *map(self.plain, value)]
        if type(value) is dict:
            return ["dict", *([self.plain(key), self.plain(inner)] for key, inner in value.items())]
        if type(value) in _PLAIN:
            return value
        raise TypeError(f"a {type(value).__name__} is not stored")


def _made(value: Any, made: Sequence[Any], known: dict[str, type]) -> Any:
    if not isinstance(value, list):
        return value
    word, *parts = value
    match word:
        case "row":
            (number,) = parts
            if not 0 <= number < len(made):
                raise ValueError(f"there is no row {number}")
            return made[number]
        case "enum":
            name, member = parts
            return known[name](member)
        case "dict":
            return {_made(key, made, known): _made(inner, made, known) for key, inner in parts}
        case "list" | "tuple":
            items = [_made(part, made, known) for part in parts]
            return items if word == "list" else tuple(items)
    raise ValueError(f"unknown form {word!r}")
