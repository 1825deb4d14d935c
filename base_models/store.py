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
from filelock import FileLock

from coda_lib.errors import UserError
from coda_lib.files import atomic_path

_SCHEMA = pa.schema([("kind", pa.string()), ("fields", pa.string()), ("data", pa.binary())])
_PLAIN = (str, int, float, bool, type(None))


def cached(path: Path, make: Callable[[], Any], kinds: Sequence[type]) -> Any:
    """The contents of a file, made first where there is none, by one process.  UserError as in `read`."""
    with made_once(path):
        if not path.exists():
            write(path, make())
    return read(path, kinds)


def made_once(path: Path) -> FileLock:
    """What holds processes off a file while one of them makes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_name(f".{path.name}.lock"))


def write(path: Path, value: Any) -> None:
    """Write lists, tuples and dicts of dataclasses, enum members, bytes and plain values, else TypeError."""
    encoder = _Encoder()
    encoder.add("", encoder.plain(value))
    with atomic_path(path) as temporary:
        pq.write_table(pa.Table.from_pylist(encoder.rows, _SCHEMA), temporary, compression="zstd")


def read(path: Path, kinds: Sequence[type]) -> Any:
    """What `write` wrote, made of these classes.  UserError for any other file, or other classes."""
    known = {kind.__name__: kind for kind in kinds}
    try:
        table = pq.read_table(path)
        if not table.schema.equals(_SCHEMA):
            raise ValueError(f"it is another table: {', '.join(table.column_names)}")
        rows: list[Any] = []
        for kind, text, data in zip(*(column.to_pylist() for column in table.columns), strict=True):
            value = _decode(json.loads(text), rows, known) if data is None else data
            rows.append(known[kind](*value) if kind else value)
        return rows[-1]
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, RecursionError) as error:
        reason = f"cannot be read ({error!r}); remove the file, and it is made again"
        raise UserError(f"{path}: {reason}") from error


class _Encoder:
    """The rows of a file: bytes, dataclasses by their fields, last the whole; each refers to earlier ones."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._numbers: dict[Any, int] = {}  # rows of bytes by value, of objects by identity

    def add(self, kind: str, value: Any, data: bytes | None = None) -> int:
        text = None if data is not None else json.dumps(value)
        self.rows.append({"kind": kind, "fields": text, "data": data})
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
            return ["row", self._numbers[id(value)]]
        if type(value) in (list, tuple):
            return [type(value).__name__, *map(self.plain, value)]
        if type(value) is dict:
            return ["dict", *([self.plain(key), self.plain(inner)] for key, inner in value.items())]
        if type(value) in _PLAIN:
            return value
        raise TypeError(f"a {type(value).__name__} is not stored")


def _decode(value: Any, rows: Sequence[Any], known: dict[str, type]) -> Any:
    if not isinstance(value, list):
        return value
    form, *parts = value
    match form:
        case "row":
            (number,) = parts
            if not 0 <= number < len(rows):
                raise ValueError(f"there is no row {number}")
            return rows[number]
        case "enum":
            name, member = parts
            return known[name](member)
        case "dict":
            return {_decode(key, rows, known): _decode(inner, rows, known) for key, inner in parts}
        case "list" | "tuple":
            items = [_decode(part, rows, known) for part in parts]
            return items if form == "list" else tuple(items)
    raise ValueError(f"unknown form {form!r}")
