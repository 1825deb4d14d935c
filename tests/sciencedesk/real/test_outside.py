"""What random steps through real applications leave on the machine: nothing."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from app_tests import installed

from base_models.walks import AWAY, opened, random_walk, window_of
from coda_lib.applications import DESKTOP_APPS
from coda_lib.paths import REPO

STEPS = 1_000  # of all applications together
SYSTEM = ("/etc", "/opt", "/root", "/srv", "/usr", "/var/lib", "/var/spool")


def files(folder: Path) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Every entry below a folder with its kind, size and time of change; what Python and pytest write for
    themselves left out.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in ("__pycache__", ".pytest_cache", ".ruff_cache", ".git"):
                continue
            about = entry.stat(follow_symlinks=False)
            is_folder = entry.is_dir(follow_symlinks=False)
            yield (
                entry.path,
                (about.st_mode, 0, 0) if is_folder else (about.st_mode, about.st_size, about.st_mtime_ns),
            )
            if is_folder:
                yield from files(Path(entry.path))


def machine() -> dict[str, tuple[int, int, int]]:
    """All files that a user's programs could change, and the names in the folder of temporary files."""
    roots = {Path.home(), *(Path(name) for name in SYSTEM), REPO}
    found = {
        path: about
        for root in roots
        if root.is_dir() and os.access(root, os.R_OK)
        for path, about in files(root)
    }
    return found | {
        f"{tempfile.gettempdir()}/{name}": (0, 0, 0) for name in os.listdir(tempfile.gettempdir())
    }


@pytest.mark.apps
@pytest.mark.slow
@pytest.mark.parametrize("app", [app for app in DESKTOP_APPS if app in AWAY])
def test_random_steps_change_no_file_outside_of_the_applications_home(app):
    if not installed(app):
        pytest.skip(f"{app} is not installed")
    before = machine()
    with closing(opened(app)) as env:
        steps = list(
            islice(random_walk(window_of(env), random.Random(f"outside {app}")), round(STEPS / len(AWAY)))
        )
    after = machine()
    assert len({step.screen for step in steps}) > 50
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert not changed, sorted(changed)[:20]
