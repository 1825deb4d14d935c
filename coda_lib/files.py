"""Files: atomic writes, safe names and locks, and reading what others may have written.

A written file is the old one or the whole new one, even when the process is killed; nothing is written over
but plain files. A file that cannot be read is one UserError, whatever is in it.  What removes is in `owned`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any

from coda_lib.errors import UserError, expected, one_line

if TYPE_CHECKING:
    from pandas import DataFrame
    from pydantic import BaseModel

# bytes of a file name that somebody else chose: a suffix and a temporary name fit beside it
LONGEST_NAME = 150
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket",
    stat.S_IFREG: "a file",
}  # fmt: skip


def require_file(path: Path) -> Path:
    """Return a path that a file may be written to: nothing is there, or a plain file.

    UserError for a folder, a link, a device or a pipe, which a rename would replace, and below what is no
    folder.
    """
    if (kind := _kind(path)) not in (None, "a file"):
        raise UserError(
            f"{path} is {kind} and is not replaced by a file: name a new file, or one to write over"
        )
    _require_parent(path)
    return path


def require_folder(path: Path) -> Path:
    """Return a path that files may be written in: a folder, or nothing yet.  UserError for all else."""
    if not path.is_dir() and (kind := _kind(path)):
        raise UserError(f"{path} is {kind} and no folder: name a folder")
    _require_parent(path)
    return path


def require_new(path: Path) -> Path:
    """Return a path where nothing is, or an empty folder.  UserError for all else, also a dead link."""
    if (kind := _kind(path)) and not (kind == "a folder" and not any(path.iterdir())):
        raise UserError(f"{path} is there already ({kind}): name another target")
    _require_parent(path)
    return path


def _kind(path: Path) -> str | None:
    return _KINDS.get(stat.S_IFMT(path.lstat().st_mode), "a device") if os.path.lexists(path) else None


def _require_parent(path: Path) -> None:
    above = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not above.is_dir():
        raise UserError(f"{path} cannot be written: {above} is no folder; name another place")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path in the folder of `path` to write a file to; rename it to `path` on success.

    On an exception the temporary file is removed and `path` stays as it was.  UserError as of `require_file`.
    """
    require_file(path)
    with temporary_beside(path) as temporary:
        yield temporary
        os.replace(temporary, require_file(path))


@contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """Give a path in the folder of `path`, at which nothing is, and remove what is there in the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    try:
        yield temporary
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def socket_folder(prefix: str = "coda-") -> TemporaryDirectory[str]:
    """A temporary folder with a short path, whatever TMPDIR is: that of a socket has at most 107 bytes."""
    place = "/tmp" if len(gettempdir()) > 50 else None
    return TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True)


def temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def final_name(name: str) -> str:
    """The name behind a temporary one that a killed process may have left; any other name as it is."""
    match = re.fullmatch(r"\.(.+)\.[0-9a-f]{8}\.tmp", name)
    return match[1] if match else name


def safe_name(text: str) -> str:
    """A file name for a text from elsewhere: it stays in its folder, and no two texts share one.

    >>> safe_name("A-01"), safe_name("../x"), safe_name("..")
    ('A-01', '..%2Fx', '%2E%2E')
    """
    name = re.sub(r"[\x00-\x1f\x7f%/\\\ud800-\udfff]", lambda found: f"%{ord(found[0]):02X}", text)
    name = name.replace(".", "%2E") if name in (".", "..") else name or "%"
    if len(name.encode()) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{name.encode()[: LONGEST_NAME - 18].decode(errors='ignore')}%-{digest}"


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Hold the lock of a file until the block or process ends.  UserError `refusal` if it is taken."""
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(path).acquire(blocking=False)
    except Timeout:
        raise UserError(refusal) from None
    with held:
        yield


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


@contextmanager
def reading(path: Path, kind: str) -> Iterator[Path]:
    """Give a plain file to a parser of this kind, such as 'JSON'.  UserError for all that it cannot read.

    A pipe, a socket or a device is refused before it is opened: reading from it may never end.
    """
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode):
            raise UserError(
                f"{path} is {_KINDS.get(stat.S_IFMT(mode), 'a device')} and no {kind} file: name a file"
            )
        yield path
    except UserError:
        raise
    except Exception as error:  # what a parser says to bytes that are no such file may be anything
        said = expected(error) or f"{path} is no {kind} file, or is damaged: {one_line(error)}"
        raise UserError(
            said if str(path) in said else f"{path}: {said}"
        ) from error  # a failed read does not name its file


def read_text(path: Path) -> str:
    with reading(path, "text"):
        return path.read_text(encoding="utf-8")


def read_json(path: Path) -> Any:
    with reading(path, "JSON"):
        return json.loads(path.read_text(encoding="utf-8"))


def read_object(path: Path, *names: str) -> dict[str, Any]:
    """The JSON object of a file.  UserError for another value, and for one without any of these names."""
    value = read_json(path)
    if not isinstance(value, dict) or (absent := [name for name in names if name not in value]):
        lacks = f"it has no {', '.join(absent)}" if isinstance(value, dict) else "no object"
        raise UserError(f"{path} holds something else: {lacks}")
    return value


def read_yaml(path: Path) -> Any:
    """What `yaml.safe_load` makes of a file."""
    import yaml

    with reading(path, "YAML"):
        return yaml.safe_load(path.read_text(encoding="utf-8"))


def whole_text(value: Any) -> Any:
    """A value out of JSON with halves of characters marked as such: no file can hold them."""
    if isinstance(value, str):
        return value if value.isascii() else re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return list(map(whole_text, value))
    if isinstance(value, dict):
        return {whole_text(key): whole_text(item) for key, item in value.items()}
    return value


def sha256(path: Path) -> str:
    """Return the SHA-256 of the file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_rows(path: Path, kind: type[BaseModel]) -> list[Any]:
    """The checked rows of a YAML file.  UserError names file, row and field of a fault."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(list[kind]).validate_python(read_yaml(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = [str(path), *([".".join(map(str, first["loc"]))] if first["loc"] else [])]
        raise UserError(": ".join([*where, first["msg"]])) from error
