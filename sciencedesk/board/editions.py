"""ScienceBoard's editions: task files are known by their SHA-256, and a set of them by that of the list.

data/scienceboard/NAME.sha256 has the sums of an edition's files as `sha256sum KAlgebra/*.json` prints them,
so that `sha256sum KAlgebra/*.json | sha256sum` gives the digest that tables name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from coda_lib.errors import UserError
from coda_lib.files import reading, sha256
from coda_lib.paths import DATA

FOLDER = DATA / "scienceboard"
EDITIONS = ("release", "verified")  # the benchmark's own files, and HSZD-Team's corrected ones
NONE = "no edition of ScienceBoard"
_SHOWN = 12  # hexadecimal digits of a digest in a table


@cache
def sums(edition: str) -> Mapping[str, str]:
    """The SHA-256 of each file of an edition, by a name such as KAlgebra/A-01.json."""
    lines = (FOLDER / f"{edition}.sha256").read_text(encoding="utf-8").splitlines()
    return {name: found for found, name in (line.split("  ") for line in lines)}


def digest(found: Mapping[str, str]) -> str:
    """The SHA-256 of a list of files with their sums, in order of their names."""
    lines = "".join(f"{found[name]}  {name}\n" for name in sorted(found))
    return hashlib.sha256(os.fsencode(lines)).hexdigest()  # a name may be no UTF-8


@dataclass(frozen=True)
class Files:
    """Task files of one folder of an application; `sums` as of `sums`, empty for what is no readable file."""

    sums: Mapping[str, str]

    @property
    def digest(self) -> str:
        return digest(self.sums)

    @property
    def edition(self) -> str:
        """The edition with all of these files, `release and verified` for both, or `NONE`."""
        known = [name for name in EDITIONS if self.sums and self.sums.items() <= sums(name).items()]
        return " and ".join(known) or NONE

    def __str__(self) -> str:
        """The cell of a table: edition, what is missing or other than in the nearest one, digest."""
        near = {name: len(self.sums.items() & sums(name).items()) for name in EDITIONS}
        nearest = max(near, key=near.__getitem__)
        apps, about = {name.partition("/")[0] for name in self.sums}, ""
        whole = sum(name.partition("/")[0] in apps for name in sums(nearest))
        if self.edition != NONE and near[nearest] < whole:
            about = f" ({near[nearest]} of {whole} files)"
        elif self.edition == NONE and near[nearest]:
            others = len(self.sums) - near[nearest]
            about = f" ({others} of {len(self.sums)} files are not of the {nearest} one)"
        return f"{self.edition}{about}, {self.digest[:_SHOWN]}"


def files(paths: Iterable[Path]) -> Files:
    """What is known of these files, whose folder is their application's."""
    return Files({f"{path.parent.name}/{path.name}": _sum(path) for path in paths})


def _sum(path: Path) -> str:
    try:
        with reading(path, "JSON"):
            return sha256(path)
    except UserError:  # the same line as where the task is read, which tells the user
        return ""
