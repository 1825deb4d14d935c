"""Environments by the names of their applications: ScienceDesk's windows and real applications alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coda_lib.applications import DESKTOP_APPS
from coda_lib.environment import Environment, Fit


def environment(app: str, fit: Fit | None = None) -> Environment:
    """A new environment of an application.  UserError for an unknown one, and for one that is not installed.

    `fit` is of a real application: from its screen's size to that of the observations.
    """
    if app in DESKTOP_APPS:
        from sciencedesk.real import app_class

        return app_class(app)(fit=fit)
    from sciencedesk.env import ScienceDesk

    return ScienceDesk(app)


def defaults(app: str) -> Mapping[str, Any]:
    """The state after the application's start, of the keys of goals.  UserError as in `environment`."""
    if app in DESKTOP_APPS:
        from sciencedesk.real import app_class

        return app_class(app).defaults
    from sciencedesk.env import desk_class

    return desk_class(app).defaults
