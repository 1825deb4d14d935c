"""The screenshots of a page, each once: lossless WebP, or a patch of another where that is smaller."""

from __future__ import annotations

import hashlib
import io
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain
from os import cpu_count
from typing import NamedTuple

from PIL import Image, ImageChops

WHOLE = 24  # of the last whole pictures of an application those that a patch may be of
SHARE = 0.5  # of a picture's area that a patch covers at most


class Picture(NamedTuple):
    """A picture file, or the patch of whole picture number `base` at the pixel (left, top)."""

    kind: str  # webp, or jpeg as it came
    content: bytes
    base: int | None = None
    left: int = 0
    top: int = 0

    @property
    def place(self) -> str:
        return "" if self.base is None else f",{self.base},{self.left},{self.top}"


class Pictures:
    """A collection of pictures without repetition."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}  # by the digest of the file
        self._files: list[tuple[bytes, str]] = []

    def add(self, file: bytes, app: str) -> int:
        """The number of a picture file of an application, which is the same for equal files."""
        number = self._numbers.setdefault(hashlib.blake2b(file, digest_size=16).digest(), len(self._files))
        if number == len(self._files):
            self._files.append((file, app))
        return number

    def __len__(self) -> int:
        return len(self._files)

    @cached_property
    def packed(self) -> list[Picture]:
        """All pictures by number, as they are written to a page.  Call it when the last one is added."""
        apps: dict[str, list[int]] = {}
        for number, (_, app) in enumerate(self._files):
            apps.setdefault(app, []).append(number)
        with ThreadPoolExecutor(cpu_count()) as pool:  # Pillow's work is done outside of Python's lock
            packed = dict(chain(*pool.map(lambda numbers: list(self._packed(numbers)), apps.values())))
        return [packed[number] for number in range(len(packed))]

    def _packed(self, numbers: Sequence[int]) -> Iterator[tuple[int, Picture]]:
        """The pictures of one application, each with its number."""
        bases: deque[tuple[int, Image.Image]] = deque(maxlen=WHOLE)
        for number in numbers:
            file = self._files[number][0]
            with Image.open(io.BytesIO(file)) as opened:
                if opened.format == "JPEG":  # not exact, and smaller than any lossless file
                    yield number, Picture("jpeg", file)
                    continue
                picture = opened.convert("RGB")
            boxes = [(_changed(base, picture), known) for known, base in bases if base.size == picture.size]
            box, base = min(boxes, key=lambda found: _area(found[0]), default=((0, 0, *picture.size), None))
            if base is None or _area(box) > SHARE * picture.width * picture.height:
                bases.append((number, picture))
                yield number, Picture("webp", _webp(picture))
            else:
                yield number, Picture("webp", _webp(picture.crop(box)), base, *box[:2])


def _changed(base: Image.Image, picture: Image.Image) -> tuple[int, int, int, int]:
    """The box of pixels that differ; one pixel if none does."""
    return ImageChops.difference(base, picture).getbbox() or (0, 0, 1, 1)


def _area(box: tuple[int, int, int, int]) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


def _webp(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="WEBP", lossless=True, quality=50, method=1)
    return buffer.getvalue()
