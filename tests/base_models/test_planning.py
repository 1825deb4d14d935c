"""What a planner learns from: rows about the same screens, of taught goals alone, and reading of all."""

from __future__ import annotations

from random import Random

import pytest

from base_models.demonstrators import demonstrations
from base_models.hindsight import hindsights, planner_row
from base_models.manners import OPENERS, manners
from base_models.planning import Scenes, lessons, planner_sampler, text_sampler
from base_models.rows import value_of
from base_models.walks import shown_names, unambiguous
from coda_lib.trajectory import decode_image
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
    draw, rng = planner_sampler([walk], shown, {"gis": taught["gis"]}, 8, 4), Random(3)
    asked = {words_of(row).splitlines()[0] for _ in range(60) for rows in draw(rng) for row in rows}
    assert len(asked) > 60 and not asked & other


def test_first_decisions_and_answers_of_demonstrations_come_more_often(taught):
    shown = [demonstrations("gis", lessons("gis", taught), 12, 0.2, 1)]
    first = {planner_row(decisions[0]).messages[-1]["content"][-1]["text"] for decisions in shown[0]}
    all_rows = [planner_row(decision) for decisions in shown[0] for decision in decisions]
    answers = [row.reply for row in all_rows if row.reply.startswith("ANS ")]
    draw, rng = planner_sampler([], shown, {"gis": taught["gis"]}, 1, 4), Random(3)
    rows = [rows[0] for _ in range(150) for rows in draw(rng) if rows[0].pictures]
    begun = [row.messages[-1]["content"][-1]["text"] in first for row in rows]
    assert len(answers) < 0.1 * len(all_rows)
    assert 0.25 < sum(begun) / len(rows) < 0.6
    assert 0.15 < sum(row.reply in answers for row in rows) / len(rows) < 0.4


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
