"""The whole loop, and the size of the package that holds it."""

from __future__ import annotations

import ast

import pytest

from coda_lib.config import load_profile
from coda_lib.loop import loop
from coda_lib.paths import REPO
from coda_lib.task import test_tasks
from sciencedesk import ScienceDesk
from sciencedesk.make import defaults
from sciencedesk.space import draw, space

METHOD = sorted((REPO / "coda_lib").rglob("*.py"))
MOST_LINES, MOST_FILES = 5_500, 21


@pytest.mark.slow
def test_the_loop_runs_from_exploring_to_the_evaluation_of_three_planners(tmp_path):
    profile = load_profile("smoke", ("evaluation_runs=1", "specialize.steps=1", "generalize.steps=1"))
    train = draw(space("gis"), "train", 12, 7, defaults("gis"), {"A": 1})
    test, said = test_tasks("gis")[:2], []
    table = loop(train, test, lambda: ScienceDesk("gis"), profile, tmp_path, said.append)
    assert table.groupby("system", sort=False).size().to_dict() == {
        "base": 2,
        "specialist": 2,
        "generalist": 2,
    }
    assert set(table["task_id"]) == {task.id for task in test} and table["success"].isin([True, False]).all()
    assert [line.split()[0] for line in said] == ["base", "stage", "specialist", "stage"]
    weights = {
        (folder / "model.safetensors").read_bytes()
        for folder in (tmp_path / "specialist", tmp_path / "generalist")
    }
    weights.add((REPO / profile.models.planner / "model.safetensors").read_bytes())
    assert len(weights) == 3  # both were trained, from the base planner


def test_the_method_is_thin():
    assert sum(len(path.read_text().splitlines()) for path in METHOD) <= MOST_LINES
    assert len([path for path in METHOD if path.parent.name == "coda_lib"]) <= MOST_FILES
    assert len((REPO / "coda_lib" / "loop.py").read_text().splitlines()) <= 150


def test_the_method_imports_nothing_else_of_the_kit():
    """Also not in a function, where import-linter looks as well, or for types."""
    for path in METHOD:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {name.split(".")[0] for name in names} & {
                "sciencedesk",
                "coda_study",
                "base_models",
            }, path
