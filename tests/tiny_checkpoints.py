"""Fixtures: untrained checkpoints, made once a session; `pytest_plugins = ("tiny_checkpoints",)` brings them in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_models import save_tiny


@pytest.fixture(scope="session")
def tiny_planner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of an untrained planner."""
    torch.set_num_threads(1)
    return save_tiny(tmp_path_factory.mktemp("tiny") / "planner", seed=1)


@pytest.fixture(scope="session")
def tiny_executor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of an untrained executor, which is another network than the planner."""
    torch.set_num_threads(1)
    return save_tiny(tmp_path_factory.mktemp("tiny") / "executor", seed=2)
