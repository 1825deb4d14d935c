"""Atomic writes: a file is the old one or the whole new one, even when the process is killed."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coda_lib.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame
    from pydantic import BaseModel


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path in the folder of `path` to write a file or a folder to; rename it to `path` on success.

    A folder replaces an existing folder. On an exception the temporary path is removed and `path` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if path.is_dir():
            remove(path)
        os.replace(temporary, path)
    finally:
        remove(temporary)


def remove(path: Path) -> None:
    """Remove a file or a folder if it exists; a folder vanishes at once, by a rename, before its files are deleted."""
    if path.is_dir() and not path.is_symlink():
        import shutil

        trash = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        os.replace(path, trash)
        shutil.rmtree(trash)
    else:
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def write_table(path: Path, table: DataFrame) -> None:
    """Write a table as Parquet, without its index."""
    with atomic_path(path) as temporary:
        table.to_parquet(temporary, index=False)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, keys in their order."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def records(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a data frame as plain data for JSON, which knows no NaN: null stands for it."""
    return json.loads(frame.to_json(orient="records"))


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def sha256(path: Path) -> str:
    """Return the SHA-256 of the file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_rows(path: Path, kind: type[BaseModel]) -> list[Any]:
    """The rows of a YAML file, each checked.  UserError names file, row and field of what is missing or unknown."""
    import yaml
    from pydantic import TypeAdapter, ValidationError

    from coda_lib.paths import display

    try:
        return TypeAdapter(list[kind]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise UserError(f"{display(path)} is no YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{display(path)}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
