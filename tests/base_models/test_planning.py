"""What a planner learns from: rows about the same screens, of taught goals alone, and reading of all."""

from __future__ import annotations

import re
from contextlib import closing
from random import Random

import numpy as np
import pytest

from base_models.demonstrators import another, demonstrations, questions, shown_instead
from base_models.hindsight import hindsights, planner_row
from base_models.learning import item_of
from base_models.manners import OPENERS, manners
from base_models.packing import TOKEN, Shown
from base_models.planning import CLOSE, Scenes, lessons, planner_sampler, text_sampler
from base_models.rows import closer, value_of
from base_models.training_tasks import newly_named, planner_tasks, text_row
from base_models.walks import opened, shown_names, unambiguous
from coda_lib.action import Action
from coda_lib.trajectory import decode_image
from sciencedesk.desk.desk import HEIGHT, WIDTH
from sciencedesk.knowledge import kinds_of
from sciencedesk.space import space

APPS = ("gis", "algebra")


@pytest.fixture(scope="module")
def taught():
    return {app: {goal for goal, kind in kinds_of(app, 1).items() if kind == "taught"} for app in APPS}


@pytest.fixture
def walk(walks):
    return next(walk for walk in walks if walk[0].app == "gis")


def words_of(row) -> str:
    return "".join(part["text"] for part in row.messages[0]["content"] if part["type"] == "text")


def test_lessons_ask_for_taught_goals_alone(taught):
    for app in APPS:
        for unseen in (False, True):
            asked = {aim.goal.name for parts, _ in lessons(app, taught, unseen) for aim in parts}
            assert asked and asked <= taught[app]
        everything = {app: {goal.name for goal in space(app).goals}}
        assert len(lessons(app, everything)) > 2 * len(lessons(app, taught))


def test_rows_of_a_scene_share_their_pictures_and_differ_in_plan_or_question(walk, taught):
    scenes, rng = Scenes(walk, taught), Random(1)
    drawn = [scenes.draw(rng) for _ in range(120)]
    shots = [[picture.tobytes() for picture in row.pictures] for rows in drawn for row in rows]
    for rows in drawn:
        assert len({tuple(picture.tobytes() for picture in row.pictures) for row in rows}) == 1
        assert all(len(row.pictures) == 2 for row in rows)
    assert any(len({row.reply for row in rows}) > 2 for rows in drawn)
    assert any(one == other for one, other in shots) and any(one != other for one, other in shots)
    replies = [row.reply for rows in drawn for row in rows]
    assert 0.03 < replies.count("DONE") / len(replies) < 0.5


def test_values_are_read_off_the_screen(walk, taught):
    scenes, rng, read = Scenes(walk, taught), Random(2), 0
    values = {}
    for step in walk:
        key = decode_image(step.screen).tobytes()
        values[key] = {f"What is the {e.name.lower()}?": value_of(e) for e in step.elements if value_of(e)}
    for row in [row for _ in range(60) for row in (*scenes.draw(rng), *scenes.read(rng))]:
        asked = words_of(row).splitlines()[0]
        if answer := values[row.pictures[-1].tobytes()].get(asked):
            assert row.reply == f"ANS {answer}" and not (row.read or row.letters or row.copied)
            read += 1
    assert read > 40


def test_nothing_shows_the_way_of_a_goal_that_is_not_taught(walk, taught):
    """In hindsight as little as in how-tos; a random step may happen to be on it."""
    scenes = Scenes(walk, taught)
    goals = space("gis").goals
    words = {kind: {goal.name: goal.wordings for goal in goals if (goal.name in taught["gis"]) == kind}
             for kind in (True, False)}  # fmt: skip
    both = {wording for of_goal in words[True].values() for wording in of_goal}
    other = {decision.instruction for decision in hindsights("gis", walk)
             if decision.goal in words[False] and not both & {*words[False][decision.goal]}}  # fmt: skip
    assert other and set(scenes.goals) <= taught["gis"] and set(scenes.wishes) <= taught["gis"]
    shown = [demonstrations("gis", lessons("gis", taught), 3, 0.2, 1)]
    draw, rng = planner_sampler([walk], shown, [[]], {"gis": taught["gis"]}, 8, 4), Random(3)
    asked = {words_of(row).splitlines()[0] for _ in range(60) for rows in draw(rng) for row in rows}
    assert len(asked) > 60 and not asked & other


def test_first_decisions_of_demonstrations_come_more_often_and_answers_beside_them(taught, monkeypatch):
    monkeypatch.setattr("base_models.planning.RENAMED", 0.0)  # names and numbers tell the rows
    shown = [demonstrations("gis", lessons("gis", taught), 12, 0.2, 1)]
    answers = [questions("gis", lessons("gis", taught), 4, 1)]
    asked = {planner_row(one).messages[-1]["content"][-1]["text"] for one in answers[0]}
    first = {planner_row(decisions[0]).messages[-1]["content"][-1]["text"] for decisions in shown[0]}
    draw, rng = planner_sampler([], shown, answers, {"gis": taught["gis"]}, 1, 4), Random(3)
    batches = [draw(rng) for _ in range(300)]
    close = sum(bool(batch[0][0].places) for batch in batches) / len(batches)
    assert abs(close - CLOSE) < 0.1 and {len(batch) for batch in batches} == {1, 4}
    rows = [rows[0] for batch in batches for rows in batch if rows[0].pictures and not rows[0].places]
    alone = planner_sampler([], shown, [[]], {"gis": taught["gis"]}, 1, 4)
    pairs = sum(len(alone(rng)) == 4 for _ in range(100))
    assert pairs > 70  # without answers that have a place, pairs take their share
    texts = [row.messages[-1]["content"][-1]["text"] for row in rows]
    assert 0.2 < sum(text in first for text in texts) / len(rows) < 0.6
    assert 0.08 < sum(text in asked for text in texts) / len(rows) < 0.3


@pytest.mark.parametrize("app", APPS)
def test_a_question_is_not_answered_by_heart(app):
    """One instruction has several answers, and each is what its screen shows."""
    tasks = [task for task in planner_tasks(app) if task[1].ans]
    own = {task.instruction: task.ans for _, task in tasks}
    told = questions(app, tasks, 12, 1)
    by_heart = sum(one.step["answer"] == own.get(one.instruction) for one in told)
    assert len(told) > 24 and by_heart < 0.6 * len(told)
    assert questions(app, [task for task in planner_tasks(app) if not task[1].ans], 2, 1) == []
    screens = {(one.screen, one.instruction): one.step["answer"] for one in told}
    assert len(screens) == len({*screens.items()}) == len({*screens})
    for one in told:
        assert (
            len({other.step["answer"] for other in one.instead if other.instruction == one.instruction}) < 2
        )
        assert one.action == Action.answer(one.step["answer"]) and len(one.history) >= 2


@pytest.mark.parametrize("app", APPS)
def test_an_answer_is_read_on_a_part_of_its_screen_at_its_place(app):
    told, rng = questions(app, [task for task in planner_tasks(app) if task[1].ans], 6, 1), Random(2)
    boxed = [one for decision in told for one in (decision, *decision.instead) if one.box]
    assert len(boxed) > 2 * len(told)
    for one in boxed:
        whole = planner_row(one)
        row = closer(whole, one.box, rng)
        (_, part), (_, (column, line)) = row.pictures, row.places
        left, top = column * TOKEN, line * TOKEN
        x, y, width, height = one.box
        assert left <= x and top <= y and part.width * part.height < 0.4 * WIDTH * HEIGHT
        assert x + width <= left + part.width and y + height <= top + part.height
        assert np.array_equal(part, whole.pictures[1].crop((left, top, left + part.width, top + part.height)))
        assert [piece.place for piece in item_of([row]).shared if isinstance(piece, Shown)] == [*row.places]


def test_values_of_walks_are_read_on_parts_too(walk, taught):
    scenes, rng = Scenes(walk, {"gis": taught["gis"]}), Random(5)
    for _ in range(20):
        ((row,),) = [scenes.close(rng)]
        assert row.places and row.reply.startswith("ANS ") and words_of(row).startswith("What is the ")


def test_a_window_shows_its_own_values_again():
    with closing(opened("algebra")) as env:
        desk = env.desk
        desk.change(console=[["2+2", "4"]], tab="Console")
        before = desk.screenshot()
        with shown_instead(desk, "4", "71") as shown:
            texts = {element.name: element.text for element in desk.elements()}
            assert shown and texts["Result"] == "Result: 71" and "2+2 = 71" in texts
            assert not np.array_equal(desk.screenshot(), before)
        assert np.array_equal(desk.screenshot(), before)
        with shown_instead(desk, "44", "71") as shown:
            assert not shown and np.array_equal(desk.screenshot(), before)


def test_another_value_looks_like_the_one_it_stands_for():
    rng = Random(1)
    assert {re.sub(r"\d", "0", another("astron", "14:39", rng)) for _ in range(9)} == {"00:00"}
    formulas = {another("algebra", "(x+2)*(x-8)", rng) for _ in range(50)}
    assert len(formulas) > 40 and all(re.fullmatch(r"\(x[+-]\d\)\*\(x[+-]\d\)", one) for one in formulas)
    assert len({another("gis", "Larch", rng) for _ in range(20)}) > 10


def test_a_row_is_newly_named_in_instruction_and_plans_alike_and_its_choices_stay(monkeypatch):
    rng, past = Random(2), ["Click 'Objects'.", "Click 'Search'."]
    row = text_row("Find Vega and then turn the grid on.", past, "Type 'Vega' and press Enter.")
    renamed = [newly_named(row, "astron", rng) for _ in range(20)]
    names = [
        re.fullmatch(r"Type '([A-Z][a-z]{2,8})' and press Enter\.", one.reply).group(1) for one in renamed
    ]
    assert len({*names}) > 15 and "Vega" not in names
    for one, name in zip(renamed, names, strict=True):
        words = words_of(one)
        assert f"Find {name} and then turn the grid on.\nClick 'Objects'. Click 'Search'." in words
    row = text_row("Highlight oxirane in the list of molecules.", [], "Click 'oxirane'.")
    assert words_of(newly_named(row, "biochem", rng)).endswith(" in the list of molecules.")
    row = text_row("Set the interval to 27 m.", ["Click 'Plot 27D'."], "Type '27' and press Enter.")
    monkeypatch.setattr("base_models.training_tasks._open_words", lambda app: {"27"})
    numbers = {re.findall(r"\d+", newly_named(row, "gis", rng).reply)[0] for _ in range(40)}
    assert len(numbers) > 15 and {len(number) for number in numbers} == {2}
    assert "Plot 27D" in words_of(newly_named(row, "gis", rng))
    held_out = tuple(f"interval to {number} m" for number in range(10, 100) if number != 27)
    monkeypatch.setattr("base_models.training_tasks._held_out", lambda app: held_out)
    assert {newly_named(row, "gis", rng).reply for _ in range(40)} == {row.reply}
    row = text_row("Set the interval to 27 m and turn the grid on.", [], "Type '27' and press Enter.")
    assert newly_named(row, "gis", rng) == row
    monkeypatch.undo()
    plain = text_row("Turn the grid on.", ["Click 'View'."], "Click 'Grid'.")
    assert newly_named(plain, "astron", rng) == plain
    answer = text_row("Which is brighter, Vega or Deneb?", [], "ANS Vega")
    assert newly_named(answer, "astron", rng).reply == "ANS Vega"


def test_some_decisions_are_under_new_names(taught, monkeypatch):
    shown = [demonstrations("gis", lessons("gis", taught), 6, 0.2, 1)]
    known = {one.instruction for decisions in shown[0] for d in decisions for one in (d, *d.instead)}
    for share in (0.0, 1.0):
        monkeypatch.setattr("base_models.planning.RENAMED", share)
        draw, rng = planner_sampler([], shown, [[]], {"gis": taught["gis"]}, 1, 4), Random(3)
        pairs = [rows for batch in (draw(rng) for _ in range(60)) if len(batch) == 4 for rows in batch]
        said = [words_of(row).partition("\n")[0] for rows in pairs for row in rows]
        new = sum(text not in known for text in said) / len(said)
        assert new == 0 if share == 0 else new > 0.2


def test_texts_are_without_pictures_and_of_all_applications(taught):
    draw, rng = text_sampler(taught), Random(4)
    rows = [draw(rng)[0] for _ in range(60)]
    assert not any(row.pictures for row in rows)
    assert len({words_of(row) for row in rows}) > 40 and len({row.reply for row in rows}) > 20


def test_manners_click_what_is_named_or_open_something_type_what_is_asked_and_end(walk):
    names, rng, kinds = sorted(shown_names(walk)), Random(4), {"named": 0, "opened": 0, "Type": 0, "DONE": 0}
    for i, step in list(enumerate(walk)) * 3:
        roles = {e.name: e.role for e in unambiguous(step.elements)}
        for row in manners(walk, i, names, 5, rng):
            asked, (kind, _, rest) = words_of(row).partition("\n")[0].lower(), row.reply.partition(" ")
            if kind == "Click":
                name = rest[1:-2]
                named = name.lower() in asked
                assert named or roles[name] in OPENERS
                kinds["named" if named else "opened"] += 1
            else:
                kinds[kind] += 1
                last = walk[i - 1].step
                text = step.step["type"] if kind == "Type" else next(iter(last.values()))
                assert text.rstrip().lower() in asked
    assert min(kinds.values()) > 5 and kinds["named"] > kinds["opened"]
