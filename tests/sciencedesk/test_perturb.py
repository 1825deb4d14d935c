"""Perturbed runs: the same for everybody, solvable by who looks, and not by who repeats what worked once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QFont, QImage, QPainter

from coda_lib.applications import APPS
from coda_lib.paths import REPO
from coda_lib.task import test_tasks
from coda_lib.trajectory import StopReason, load_trajectories
from coda_study.evaluation.replay import Replay, replayed
from sciencedesk.board.tasks import app_tasks
from sciencedesk.desk.drawing import width_of, write
from sciencedesk.desk.qt import application
from sciencedesk.env import ScienceDesk
from sciencedesk.goals import Aim, compose
from sciencedesk.make import defaults
from sciencedesk.perturb import HELD_BACK, REAL_SCREEN, SCREEN, held_back, perturbed, solve, walk
from sciencedesk.script import ScriptError, idle
from sciencedesk.space import draw, prepared, space


@pytest.fixture(scope="module")
def desks():
    windows = {app: ScienceDesk(app) for app in (*APPS, "spectra")}
    yield windows
    for window in windows.values():
        window.close()


@pytest.mark.parametrize("app", [*APPS, "spectra"])
def test_every_test_task_is_solved_by_its_script_in_a_perturbed_run_and_not_by_doing_nothing(app, desks):
    for number, task in enumerate(test_tasks(app)):
        start = perturbed(task, number % 8, "test")
        assert solve(desks[app], start), (task.id, start)
        assert not idle(desks[app], start), (task.id, start)


@pytest.mark.parametrize("app", APPS)
def test_drawn_tasks_are_solved_as_well(app, desks):
    for number, task in enumerate(draw(space(app), "development", 12, 3, defaults(app))):
        start = perturbed(task, number % 8, "development")
        assert solve(desks[app], start) and not idle(desks[app], start), (task.id, start)


def test_a_run_is_the_same_for_everybody_and_runs_differ():
    task = test_tasks("gis")[0]
    assert perturbed(task, 3, "test") == perturbed(task, 3, "test")
    views = [perturbed(task, run, "test").view for run in range(8)]
    assert all(a != b for a, b in itertools.combinations(views, 2))
    assert len({perturbed(task, run, "test").instruction for run in range(8)}) > 1


def test_the_first_screens_of_runs_differ_and_the_window_is_on_the_screen(desks):
    for app, task in [("gis", test_tasks("gis")[0]), ("astron", test_tasks("astron")[5])]:
        screens = []
        for run in range(8):
            start = perturbed(task, run, "test")
            screens.append(desks[app].reset(start)[0].tobytes())
            x, y, width, height = start.view["window"]
            assert x >= 0 and y >= 0 and x + width <= SCREEN[0] and y + height <= SCREEN[1]
            for element in desks[app].elements():
                left, top, w, h = element.box
                assert x <= left and left + w <= x + width and y <= top and top + h <= y + height, element
        assert len(set(screens)) == 8


def test_training_never_meets_what_is_held_back():
    tasks = draw(space("algebra"), "train", 60, 1, defaults("algebra"))
    for task, run in itertools.product(tasks, range(4)):
        assert not any(held_back(perturbed(task, run, "train").view, "algebra").values())
    seen = [held_back(perturbed(task, run, "test").view, "algebra") for task in tasks for run in range(4)]
    for factor in HELD_BACK:
        assert 0.1 < np.mean([row[factor] for row in seen]) < 0.8, factor


def test_an_unperturbed_window_is_drawn_as_ever(desks):
    """The committed episodes, to the pixel, after perturbed ones in the same window."""
    for app in APPS:
        path = REPO / "results" / "reference" / "laptop" / "evaluation" / "base" / f"{app}.actions.parquet"
        kept = load_trajectories(path, screens=False)[::60]
        desks[app].reset(perturbed(test_tasks(app)[0], 1, "test"))
        count = Replay()
        replayed(kept, app, {task.id: task for task in test_tasks(app)}, count)
        assert count.exact and count.episodes >= 4


def test_a_question_asks_for_another_value_in_each_run_with_the_answer_on_the_screen(desks):
    asking = [task for app in APPS for task in test_tasks(app) if task.ans]
    several = [task for task in asking if len({perturbed(task, run, "test").ans for run in range(8)}) > 2]
    assert len(several) >= 0.6 * len(asking)


def test_what_worked_once_fails_in_other_runs(desks):
    solved = played = 0
    for task in [task for app in APPS for task in test_tasks(app)[::6]]:
        desk = desks[task.app]
        done = [action for _, action in walk(desk, perturbed(task, 0, "test"))]
        answer = next((action.text for action in done if action.type.ends), None)
        for run in (1, 2, 3):
            desk.reset(perturbed(task, run, "test"))
            for action in done:
                desk.step(action)
            solved += bool(desk.check(StopReason.ANS if answer else StopReason.DONE, answer))
            played += 1
    assert played >= 60 and solved <= 0.05 * played


def test_a_task_whose_sentence_the_space_does_not_know_keeps_its_settings(desks):
    (task,) = [task for task in test_tasks("biochem") if task.id == "biochem/D-03"]
    task = replace(task, instruction=f"Please: {task.instruction}")
    for run in range(8):
        start = perturbed(task, run, "test")
        assert start.instruction == task.instruction and solve(desks["biochem"], start)
        assert {**start.settings, "tab": ""} == {**task.settings, "tab": ""}


@pytest.mark.parametrize(
    ("name", "answers"),
    [("astron/B-06", 2), ("astron/B-12", 5), ("astron/D-01", 5), ("astron/D-03", 5), ("biochem/D-03", 5)],
)
def test_a_question_that_no_drawn_task_asks_varies_too(name, answers, desks):
    (task,) = [task for task in test_tasks(name.partition("/")[0]) if task.id == name]
    starts = [perturbed(task, run, "test") for run in range(8)]
    assert len({start.ans for start in starts}) >= answers
    for start in starts:
        assert solve(desks[task.app], start) and not idle(desks[task.app], start), start


@pytest.mark.parametrize("app", ["astron", "biochem"])
def test_what_it_asks_then_has_the_answer_that_the_application_shows(app, desks):
    task_space, desk = space(app), desks[app]
    assert not {goal.name for goal in task_space.asked} & {goal.name for goal in task_space.goals}
    for goal in task_space.asked:
        counts = Counter(Aim(goal, word).answer for word in goal.values)
        assert max(counts.values()) <= (0.1 if len(counts) > 2 else 0.5) * counts.total()
        for word in goal.values:
            task = compose(app, [prepared(task_space, Aim(goal, word))], defaults(app), f"{app}/{{grade}}-00")
            for step, action in walk(desk, replace(task, view={"window": [0, 0, *SCREEN]})):
                if "answer" in step:
                    assert str(desk.desk.state()[goal.fact]) == action.text, (goal.name, word)


def test_a_task_in_the_format_of_scienceboard_stays_as_it_is():
    task = app_tasks("KAlgebra")[0]
    assert perturbed(task, 1, "test") is task


@pytest.mark.parametrize("app", ["KAlgebra", "PyMOL", "GrassGIS"])
def test_real_applications_have_windows_themes_and_starts(app):
    tasks = [(task, run) for task in test_tasks(app)[::3] for run in range(8)]
    for task, run in tasks:
        start = perturbed(task, run, "test")
        assert start == perturbed(task, run, "test") and start.view != perturbed(task, run + 1, "test").view
        x, y, width, height = start.view["window"]
        assert x >= 0 and y >= 0 and x + width <= REAL_SCREEN[0] and y + height <= REAL_SCREEN[1]
        assert not any(held_back(perturbed(task, run, "train").view, app).values())
        clicked = {step.get("click") for step in task.solution}
        assert start.settings.get("tab", "Calculator") not in clicked - {"Calculator"}
    seen = [held_back(perturbed(task, run, "test").view, app) for task, run in tasks]
    for factor in ("theme", "place"):
        assert 0.1 < np.mean([row[factor] for row in seen]) < 0.8, factor
    for key in space(app).runs:
        values = [perturbed(task, run, "test").settings.get(key) for task, run in tasks]
        assert any(value in space(app).runs[key] for value in values), key


def test_no_setting_of_a_run_is_what_a_goal_is_about():
    """Else a run could begin solved."""
    for app in ("KAlgebra", "PyMOL", "GrassGIS"):
        said = " ".join(word for goal in space(app).goals for word in goal.values)
        for value in (
            part for key in ("plots", "surface", "copies", "peptide") for part in space(app).runs.get(key, ())
        ):
            for text in [value] if isinstance(value, str) else value:
                assert text.rpartition(">")[2] not in said.replace(",", " ").split(), (app, text)


def test_a_script_that_needs_too_many_steps_is_named(desks):
    task = test_tasks("algebra")[0]
    short = replace(perturbed(task, 0, "test"), steps=1)
    with pytest.raises(ScriptError, match="more than 1 steps"):
        solve(desks["algebra"], short)


def test_letters_of_a_picture_keep_their_size_where_it_is_drawn_smaller():
    """In a small window Qt's own text has fewer pixels and is blurred: names on a sky could not be read."""
    application()

    def ink(scale: float, draw_text: Callable[..., None]) -> np.ndarray:
        image = QImage(160, 40, QImage.Format.Format_Grayscale8)
        image.fill("white")
        with QPainter(image) as painter:
            painter.setFont(QFont(application().font()))
            painter.scale(scale, scale)
            box = QRect(20, 8, width_of(painter, "Menkalinan"), 12)
            draw_text(painter, box, Qt.AlignmentFlag.AlignLeft, "Menkalinan")
        rows = np.frombuffer(image.constBits(), np.uint8).reshape(40, image.bytesPerLine())[:, :160]
        written = np.argwhere(rows < 255)
        return rows[slice(written[:, 0].min(), written[:, 0].max() + 1),
                    slice(written[:, 1].min(), written[:, 1].max() + 1)].copy()  # fmt: skip

    whole = ink(1.0, write)
    for scale in (0.8, 0.9):
        assert np.array_equal(ink(scale, write), whole)
        assert ink(scale, lambda painter, *what: painter.drawText(*what)).shape != whole.shape
