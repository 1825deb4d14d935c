"""What the tests share: quiet libraries, and fake notebooks that stand in for the real ones."""

from __future__ import annotations

import os

# Before anything imports torch or transformers: tests share the machine's cores and never ask the network.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and rich would take it for good

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_notebooks import ROLES, write_fake_notebooks, write_notebook
from hypothesis import HealthCheck, settings

from coda_study.cli import main as cli

settings.register_profile(
    "kit", suppress_health_check=[HealthCheck.too_slow], deadline=None
)  # of a busy machine
settings.load_profile("kit")
signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # ignored in a background job, and so by what tests start


@pytest.fixture
def make_notebook(tmp_path: Path) -> Callable[..., Path]:
    """Give a function (name, parameters, *cells) that writes a notebook into the test's folder."""
    return lambda name, parameters, *cells: write_notebook(tmp_path / name, parameters, *cells)


@pytest.fixture
def fake_notebooks(tmp_path: Path) -> Path:
    """Give a folder of such notebooks."""
    return write_fake_notebooks(tmp_path / "notebooks")


@pytest.fixture
def fake_checkpoints(tmp_path: Path) -> tuple[str, ...]:
    """Give the overrides that put one small folder in the place of the checkpoints."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    return tuple(f"models.{role}={tmp_path / 'checkpoint'}" for role in ROLES)


@pytest.fixture
def coda(monkeypatch, capsys):
    """Give a function that runs the command in this process and returns exit code, output and messages."""

    def coda(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["coda", *words])
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return coda


@pytest.fixture
def unrounded(monkeypatch) -> None:
    """Trained weights are saved as they are, so that they can be compared to the last bit."""
    monkeypatch.setattr("coda_lib.trainer.round_weights", lambda network: None)
