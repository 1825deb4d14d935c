"""What the tests of the base models share: a short walk through each application."""

from __future__ import annotations

import pytest

from base_models.walks import Transition, collect
from coda_lib.applications import APPS


@pytest.fixture(scope="session")
def walks() -> list[list[Transition]]:
    """Give a short walk through each application."""
    return [collect(app, 150, seed=3) for app in APPS]
