"""The examples in docstrings run, and what a student meets first has one."""

from __future__ import annotations

import doctest
import importlib

import pytest
from kit import kit_files

from coda_lib.paths import REPO

MODULES = sorted(
    ".".join(path.relative_to(REPO).with_suffix("").parts)
    for path in kit_files()
    if ">>> " in path.read_text(encoding="utf-8")
)
FIRST = [  # what a student meets first
    *(f"coda_lib.{name}" for name in (
        "action.Action", "grammar.parse_actions", "grammar.format_action", "planner.Planner",
        "planner.read_plan",
        "planner.control_action", "executor.Executor", "agent.DualAgent", "reward.reward",
        "reward.similarity",
        "grpo.advantages", "rollout.rollout", "judge.Rule", "judge.parse_verdict", "judge.positive_steps",
        "trainer.specialize",
    )),
    "sciencedesk.pyautogui.pyautogui_calls", "coda_study.evaluation.tables.table1",
]  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_run(module):
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted and not results.failed


@pytest.mark.parametrize("name", FIRST)
def test_what_a_student_meets_first_has_an_example(name):
    module, _, thing = name.rpartition(".")
    assert ">>> " in getattr(importlib.import_module(module), thing).__doc__
