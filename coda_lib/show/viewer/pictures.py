"""The screenshots of a page: each is kept once, as lossless WebP where that is smaller."""

from __future__ import annotations

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from os import cpu_count
from typing import NamedTuple

from PIL import Image


class Picture(NamedTuple):
    kind: str  # png, jpeg or webp
    content: bytes


class Pictures:
    """A collection of pictures without repetition."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}  # by the digest of the file
        self._files: list[bytes] = []

    def add(self, file: bytes) -> int:
        """The number of a picture file, which is the same for equal files."""
        number = self._numbers.setdefault(hashlib.blake2b(file, digest_size=16).digest(), len(self._files))
        if number == len(self._files):
            self._files.append(file)
        return number

    def __len__(self) -> int:
        return len(self._files)

    @cached_property
    def packed(self) -> list[Picture]:
        """All pictures by their numbers, as they are written to a page.  Call it when the last one is added."""
        with ThreadPoolExecutor(cpu_count()) as pool:
            return list(pool.map(_pack, self._files))


def _pack(file: bytes) -> Picture:
    with Image.open(io.BytesIO(file)) as picture:
        kind, buffer = picture.format.lower(), io.BytesIO()
        if kind == "jpeg":
            return Picture(kind, file)
        picture.convert("RGB").save(buffer, format="WEBP", lossless=True, quality=50, method=4)
    return Picture("webp", buffer.getvalue()) if kind != "png" or buffer.tell() < len(file) else Picture(kind, file)
