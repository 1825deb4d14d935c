"""`make bench`: which figures there are, and what happens without models."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from coda_lib.applications import APPS
from coda_lib.config import load_profile
from coda_lib.task import test_tasks
from tools.bench import __main__ as command
from tools.bench import laptop as bench

pytest_plugins = ("tiny_checkpoints",)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure little: two tasks an application, two episodes, two steps of training."""
    monkeypatch.setattr(bench, "test_tasks", lambda app: test_tasks(app)[:2])
    monkeypatch.setattr(bench, "_EPISODES", 2)
    monkeypatch.setattr(bench, "_GRPO_STEPS", 2)


def measured(*overrides: str) -> tuple[list[dict], str]:
    console = Console(file=io.StringIO(), width=200)
    return bench.measure(console, load_profile("laptop", overrides)), console.file.getvalue()


def test_all_figures(tiny_planner: Path, tiny_executor: Path, capsys: pytest.CaptureFixture) -> None:
    rows, said = measured(
        f"models.planner={tiny_planner}", f"models.executor={tiny_executor}", "specialize.group_size=2",
        "specialize.completions_per_step=4", "planner.max_new_tokens=4", "executor.max_new_tokens=4",
    )  # fmt: skip
    assert [row["name"] for row in rows] == [
        *(f"{app}: {what}" for app in APPS for what in ("steps", "reset")),
        "planner, executor and application: rollout", "decoupled GRPO: step of 4 completions",
        "served model: added to a request with two screenshots",
        "peak memory of all of the above",
    ]  # fmt: skip
    assert all(row["value"] > 0 for row in rows) and "not measured" not in said
    assert {row["met"] for row in rows if not row["target"]} == {None}
    assert all(isinstance(row["met"], bool) for row in rows if row["target"])
    assert capsys.readouterr().out == ""  # stdout is for the figures


def test_without_checkpoints_the_rest_is_measured(tmp_path: Path) -> None:
    rows, said = measured(f"models.executor={tmp_path / 'none'}", f"models.planner={tmp_path / 'none'}")
    assert len(rows) == 10 and "models are not measured: the planner checkpoint" in said


def test_the_command_shows_the_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    row = {"name": "desk steps", "value": 345.678, "unit": "steps/s", "target": "at least 300"}
    monkeypatch.setattr(bench, "measure", lambda console: [row])
    command.bench(as_json=True)
    assert json.loads(capsys.readouterr().out) == [row]
    command.bench()
    assert "345.7" in capsys.readouterr().out
