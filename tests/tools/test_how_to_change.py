"""docs/how-to-change.md: all its diffs together, applied to a copy of the kit; each change is tried there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coda_lib.paths import REPO
from coda_study.pipeline.dependencies import PACKAGES

PAGE = (REPO / "docs" / "how-to-change.md").read_text()
DIFFS = re.findall(r"(?ms)^```diff\n(.*?)^```", PAGE)
OWN_RUNS = [line.split("#")[0].strip() for line in re.findall(r"(?m)^coda reproduce --run .*$", PAGE)]


def apply(diff: str, folder: Path) -> None:
    """Apply one diff of the page; it has no line numbers, so its old lines must stand in the file exactly
    once.
    """
    old, new, *lines = diff.splitlines()
    path = folder / new.removeprefix("+++ b/")
    before = "\n".join(line[1:] for line in lines if line[0] != "+")
    after = "\n".join(line[1:] for line in lines if line[0] != "-")
    if old.endswith("/dev/null"):
        assert not path.exists(), path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(after + "\n")
    else:
        text = path.read_text()
        assert text.count(before) == 1, f"{path}: {before}"
        path.write_text(text.replace(before, after))


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A copy of the kit with all changes of the page; what none of them touches is linked."""
    copy = tmp_path_factory.mktemp("changed")
    for name in (*PACKAGES, "profiles"):
        shutil.copytree(REPO / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPO / "data" / "tasks", copy / "data" / "tasks")
    for path in (*(REPO / "data").iterdir(), REPO / "notebooks", REPO / "Snakefile", REPO / "pyproject.toml"):
        target = copy / path.relative_to(REPO)
        if not target.exists():
            target.symlink_to(path)
    for diff in DIFFS:
        apply(diff, copy)
    return copy


@pytest.fixture
def python(changed):
    """Runs Python in the copy: a program as text, or the arguments of a module; returns what it prints."""

    def run(*arguments: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(changed), "QT_QPA_PLATFORM": "offscreen"}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=changed, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_a_click_is_scored_by_euclidean_distance(python):
    program = (
        "from coda_lib.reward import Action, similarity; "
        "print(similarity(Action.click(0, 0), Action.click(0.3, 0.4), 2))"
    )
    assert float(python("-c", program)) == pytest.approx(1 - 0.5 / 2**0.5)


TRIPLE_CLICK = """
from unittest.mock import Mock
from PIL import Image
import sciencedesk.desk.hands as hands
from coda_lib.action import ActionType
from coda_lib.grammar import parse_actions
from sciencedesk.real.display_process import CALLS
from sciencedesk.pyautogui import pyautogui_calls
from coda_lib.executor import executor_messages, solo_messages
from coda_lib.planner import Observation
from coda_lib.reward import similarity
from coda_study.show.pictures import _mark

(action,) = parse_actions("left_triple(start_box='(30,40)')", (100, 100))
assert action.type is ActionType.TRIPLE_CLICK and similarity(action, action, 2) == 1
((name, point, _),) = pyautogui_calls(action, (100, 100))
assert name == "tripleClick" and name in CALLS and point == (30, 40)
hands.QTest, window = Mock(), Mock(held=frozenset())
hands.perform(window, action)
print([call[0] for call in hands.QTest.method_calls])
axes = Mock()
_mark(axes, action, (100, 100), "red")
assert axes.plot.call_count == 3
screen = Image.new("RGB", (8, 8))
observation = Observation("Do it.", (), screen, screen)
assert "left_triple(" in str(executor_messages(observation, "Do it.", "full"))
assert "left_triple(" in str(solo_messages(observation, "full"))
"""


def test_a_triple_click_is_parsed_scored_done_and_drawn(python):
    assert python("-c", TRIPLE_CLICK).strip() == "['mouseClick', 'mouseDClick', 'mouseRelease', 'mouseClick']"


PROMPT = """
from PIL import Image
from coda_lib.planner import Observation, Turn, planner_messages
screen = Image.new("RGB", (8, 8))
turns = tuple(Turn(f"plan-{i}", "wait()") for i in range(5))
print(planner_messages(Observation("Do it.", turns, screen, screen), "compact"))
"""


def test_the_planner_sees_the_last_three_plans(python):
    assert re.findall(r"plan-\d", python("-c", PROMPT)) == ["plan-2", "plan-3", "plan-4"]


@pytest.mark.parametrize(("app", "tasks"), [("optics", 1), ("gis", 35)])
def test_the_new_tasks_can_be_solved_and_not_by_doing_nothing(python, app, tasks):
    table = python("-m", "coda_study.cli.main", "tasks", "check", "--app", app)
    assert re.search(rf"(?m)^{app} +test( +{tasks}){{3}} +0", table), table


def test_the_judges_rule_is_that_of_the_profile(python):
    program = "from coda_lib.config import load_profile; print(load_profile('laptop').judge.rule)"
    assert python("-c", program).strip() == "majority"


TABLE = """
import pandas as pd
from coda_study.evaluation import table1
rows = [("gis/A-01", 0, True), ("gis/A-01", 1, False), ("gis/A-02", 0, True), ("gis/A-02", 1, True)]
episodes = pd.DataFrame(rows, columns=["task_id", "run", "success"])
episodes = episodes.assign(app="gis", system="base", stop="DONE")
print(table1(episodes, ["base"], apps=["gis"])["solved"].tolist())
"""


def test_table1_has_the_column_of_solved_episodes(python):
    assert python("-c", TABLE).strip() == "[3, 3, 3, 3]"


def test_the_real_application_is_in_the_tables_and_its_task_is_read(python):
    program = "from sciencedesk.real import app_class; print(app_class('L3afpad').needs)"
    assert "l3afpad" in python("-c", program)
    told = python("-m", "coda_study.cli.main", "tasks", "check", "data/tasks/apps")
    assert re.search(r"(?m)^L3afpad .* 1 of 1 +info 1", told)


@pytest.mark.parametrize("line", OWN_RUNS)
def test_the_profile_value_of_each_shown_command_is_accepted(line, python):
    python("-m", *line.replace("coda ", "coda_study.cli.main ", 1).split(), "--dry-run")
