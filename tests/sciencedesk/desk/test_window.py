"""Real windows on a display of Xvfb, each in a process of its own."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coda_lib.errors import UserError
from sciencedesk.env import ScienceDesk

_PICTURE = """
from sciencedesk.env import ScienceDesk
import hashlib
found = hashlib.sha256(ScienceDesk("algebra", visible=VISIBLE).render().tobytes()).hexdigest()
"""
_BY_HAND = """
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QLabel
from sciencedesk.env import by_hand
from sciencedesk.desk.qt import application
from coda_lib.task import Task

def close_after(*changes):
    windows = [w for w in QApplication.topLevelWidgets() if w.isVisible()]
    notes.append([w.text() for w in windows if isinstance(w, QLabel)])
    (window,) = [w for w in windows if not isinstance(w, QLabel)]
    for change in changes:
        window.set(*change)
    window.close()

goal = {"type": "state", "key": "grid", "value": True}
turn = Task("gis/x", "gis", "A", "Turn the grid on.", 5, (), (goal,))
five = {"type": "stop", "value": "ANS", "args": ["5"]}
mean = Task("gis/y", "gis", "A", "What is the mean?", 5, (), (five,), "5")
application(visible=True)
found, notes = {}, []
cases = [
    ("nothing", ("gis", turn), []),
    ("solved", ("gis", turn), [("grid", True)]),
    ("right", ("gis", mean, lambda: "5"), []),
    ("wrong", ("gis", mean, lambda: "6"), []),
    ("free", ("gis",), []),
]
for name, arguments, changes in cases:
    QTimer.singleShot(200, lambda: close_after(*changes))
    found[name] = by_hand(*arguments)
found["notes"] = notes
"""
_COMMAND = """
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from typer.testing import CliRunner
from coda_study.cli.main import app
from sciencedesk.desk.qt import application
from coda_lib.task import test_tasks

application(visible=True)
question = next(task for task in test_tasks("gis") if task.ans and len(task.evaluate) == 1)
found = []
for answer in (question.ans, "?"):
    QTimer.singleShot(200, lambda: [window.close() for window in QApplication.topLevelWidgets()])
    command = CliRunner().invoke(app, ["desk", "gis", "--task", question.id], input=answer + "\\n")
    found.append(command.output.replace(question.ans, "ANSWER").splitlines()[-1])
"""


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """Give a display of its own, as in 'DISPLAY'."""
    if not shutil.which("Xvfb"):
        pytest.skip("Xvfb is not installed")
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "800x600x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield f":{server.stdout.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def needs_windows() -> None:
    """Skip where Qt's library for X11 windows lacks one of the system's."""
    plugins = Path(importlib.util.find_spec("PySide6").origin).parent / "Qt" / "plugins" / "platforms"
    try:
        ctypes.CDLL(str(plugins / "libqxcb.so"))
    except OSError as error:
        pytest.skip(f"Qt cannot open windows here: {error}")


def run(code: str, display: str) -> Any:
    """The value of `found` after the code, run in a process that sees the display (which asks for no
    authority).
    """
    around = {key: value for key, value in os.environ.items() if not key.startswith(("QT_", "WAYLAND_"))}
    program = f"import json, sys\nsys.path[:0] = {sys.path!r}\n{code}\nprint(json.dumps(found))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=around | {"DISPLAY": display, "XAUTHORITY": os.devnull},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.usefixtures("needs_windows")
def test_a_window_shows_what_the_agent_sees(display):
    assert run(_PICTURE.replace("VISIBLE", "True"), display) == run(
        _PICTURE.replace("VISIBLE", "False"), display
    )


@pytest.mark.usefixtures("needs_windows")
def test_a_person_is_told_whether_the_task_is_solved(display):
    found = run(_BY_HAND, display)
    turn, ask = ["Turn the grid on."], ["What is the mean?"]
    assert found.pop("notes") == [turn, turn, ask, ask, []]
    assert found == {"nothing": False, "solved": True, "right": True, "wrong": False, "free": None}


@pytest.mark.usefixtures("needs_windows")
def test_the_command_asks_for_the_answer_of_a_question_and_checks_it(display):
    assert run(_COMMAND, display) == ["solved", "not solved; the answer is ANSWER"]


def test_no_window_where_there_is_no_display():
    with pytest.raises(UserError, match="no display.*libxcb-cursor0"):
        ScienceDesk("gis", visible=True)  # tests draw off screen
    code = "from sciencedesk.env import ScienceDesk\nfrom coda_lib.errors import UserError\n"
    code += "try:\n    found = ScienceDesk('gis', visible=True)\n"
    code += "except UserError as error:\n    found = str(error)"
    assert "no display" in run(code, ":9876")  # a display that does not answer


def test_packages_that_are_missing_are_named_before_qt_starts(display, tmp_path):
    code = "import ctypes\nfrom coda_lib.errors import UserError\nfrom sciencedesk.env import desk_class\n"
    code += "def absent(name, load=ctypes.CDLL):\n    if 'xcb-cursor' in name or 'x11' in name:\n"
    code += "        raise OSError(name)\n    return load(name)\n"
    code += "desk_class('gis')\nctypes.CDLL = absent\n"
    code += "from sciencedesk.desk.qt import application\n"
    code += (
        "try:\n    found = str(application(visible=True))\nexcept UserError as error:\n    found = str(error)"
    )
    assert run(code, display).endswith("apt-get install libxcb-cursor0 libxkbcommon-x11-0")


def test_qt_that_cannot_be_loaded_is_one_line_with_the_packages(tmp_path):
    (tmp_path / "PySide6").mkdir()
    for name in ("__init__", "QtCore", "QtGui", "QtTest", "QtWidgets"):
        fault = "" if name == "__init__" else "raise ImportError('libEGL.so.1: cannot open')"
        (tmp_path / "PySide6" / f"{name}.py").write_text(fault)
    code = f"sys.path.insert(0, {str(tmp_path)!r})\nfrom typer.testing import CliRunner\n"
    code += "from coda_study.cli.main import app\n"
    code += "found = repr(CliRunner().invoke(app, ['desk', 'gis']).exception)"
    found = run(code, ":9876")
    assert found.startswith("UserError('Qt cannot be loaded") and "apt-get install libegl1" in found
