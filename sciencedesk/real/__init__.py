"""Real applications of Debian, each on a display of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coda_lib.errors import UserError

if TYPE_CHECKING:
    from sciencedesk.real.app import App


def app_class(kind: str) -> type[App]:
    """The class of an application of `DESKTOP_APPS`.  UserError for an unknown one."""
    from sciencedesk.real.grassgis import GrassGIS
    from sciencedesk.real.kalgebra import KAlgebra
    from sciencedesk.real.pymol import PyMOL

    classes = {app.kind: app for app in (KAlgebra, PyMOL, GrassGIS)}
    if kind not in classes:
        raise UserError(f"unknown real application {kind!r}; there are {', '.join(classes)}")
    return classes[kind]
