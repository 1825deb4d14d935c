"""Real applications of Debian's, each on a display of its own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from coda_lib.errors import UserError

if TYPE_CHECKING:
    from coda_lib.envs.desktop.app import App

KINDS = ("KAlgebra", "PyMOL", "GrassGIS", "Stellarium")


def app_class(kind: str) -> type[App]:
    """The class of an application.  UserError for one that there is not."""
    if kind not in KINDS:
        raise UserError(f"no local application {kind!r}; there are {', '.join(KINDS)}")
    return getattr(importlib.import_module(f"coda_lib.envs.desktop.{kind.lower()}"), kind)
