"""What executor and planner learn from: labels that the states bear out, and nothing of a test task."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from base_models.hindsight import (
    achievements,
    distracted,
    hindsights,
    planner_row,
    undirected_step,
    with_more,
    with_past,
)
from base_models.rows import MOVING, SIZE, Row, description_row, element_row, grounding_row, moving
from base_models.sources import GROUP, SCREENS, UNSURE, executor_sampler, how_to_sampler, planner_sampler
from base_models.training_tasks import (
    demonstrate,
    demonstrations,
    draw_value_row,
    how_to_row,
    judge_tasks,
    planner_tasks,
)
from base_models.walks import by_goal, typed_words
from coda_lib.applications import APPS
from coda_lib.grammar import parse_actions
from coda_lib.task import holds, test_tasks
from coda_lib.trajectory import StopReason, decode_image
from sciencedesk.env import ScienceDesk
from sciencedesk.goals import Aim, sentence
from sciencedesk.script import to_plan
from sciencedesk.space import aims_of, region, space


@pytest.fixture(scope="module")
def shown() -> list:
    """Give a few demonstrations in each application."""
    return [demonstrations(app, 4, UNSURE, seed=3) for app in APPS]


def words_of(row: Row) -> str:
    return "".join(
        part["text"] for message in row.messages for part in message["content"] if part["type"] == "text"
    )


def near(box: tuple[int, int, int, int], x: float, y: float) -> bool:
    """Whether a point is in a box, but for the coordinate grid."""
    return box[0] - 2 <= x <= box[0] + box[2] + 2 and box[1] - 2 <= y <= box[1] + box[3] + 2


def test_a_plan_grounded_on_a_screen_points_into_what_it_names(walks):
    rng = random.Random(0)
    for walk in walks:
        for transition in walk[:60]:
            row = grounding_row(transition, rng, typed_words(transition.app))
            (action,) = parse_actions(row.reply, SIZE)
            if action.x is None:
                assert action.text is not None
                continue
            named = [e for e in transition.elements if f"'{e.name}'" in words_of(row)]
            assert any(near(e.box, action.x * SIZE[0], action.y * SIZE[1]) for e in named)


def test_what_has_no_usual_place_is_asked_for(walks):
    rng = random.Random(0)
    asked = [(t, e) for walk in walks for t, elements in moving(walk) for e in elements]
    assert {"slider", "row", "target"} <= {element.role for _, element in asked}
    corners: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for walk in walks:
        for transition in walk:
            for e in transition.elements:
                corners.setdefault((transition.app, e.name), set()).add(e.box[:2])
    for transition, element in rng.sample(asked, 60):
        assert element.role in MOVING or len(corners[transition.app, element.name]) > 1
        row = element_row(transition, element, rng)
        (action,) = parse_actions(row.reply, SIZE)
        assert f"'{element.name}'" in words_of(row) and near(
            element.box, action.x * SIZE[0], action.y * SIZE[1]
        )
    tabs = [e for walk in walks for t, elements in moving(walk) for e in elements if e.role == "tab"]
    assert tabs  # the window is elsewhere in each walk, and its tabs in another order


def test_the_executors_batches_are_of_one_kind_each(walks):
    source, rng = executor_sampler(walks), random.Random(0)
    batches = [[source(rng) for _ in range(SCREENS)] for _ in range(8)]
    copies, alone = batches.pop(7), batches.pop(3)
    groups = [group for batch in batches for group in batch]
    assert (
        all(isinstance(group, list) and len(group) <= GROUP for group in groups)
        and max(map(len, groups)) > GROUP // 2
    )
    for group in groups:
        (picture,) = {tuple(p.tobytes() for p in row.pictures) for row in group}
        assert len(picture) == 1
    assert {len(row.pictures) for row in alone} == {2} and {len(row.pictures) for row in copies} == {0}


def wishes_of(app: str) -> dict[str, Aim]:
    """The aims to be trained on by all their wordings."""
    aims = (replace(aim, wording=i) for aim in aims_of(app, "train") for i in range(len(aim.goal.wordings)))
    return {sentence([aim]): aim for aim in aims}


def test_hindsight_asks_for_what_was_achieved(walks):
    for walk in walks:
        wishes = wishes_of(walk[0].app)
        decisions = hindsights(walk[0].app, walk)
        assert len({decision.goal for decision in decisions}) > 5
        for done in (decision for decision in decisions if decision.step is None):
            checks = wishes[done.instruction].checks
            assert all(holds(item, done.after) for item in checks)
            assert not all(holds(item, done.history[0].before) for item in checks) and len(done.history) <= 2


def test_achievements_are_found_by_what_has_changed(walks):
    """As if every aim were looked at."""
    for walk in walks:
        everything = [aim for aim in aims_of(walk[0].app, "train") if not aim.goal.ask]
        for t in walk[::5]:
            new = [(a.goal.name, a.word) for a in everything if all(holds(i, t.after) for i in a.checks)
                   and not all(holds(i, t.before) for i in a.checks)]  # fmt: skip
            assert sorted(new) == sorted(
                (aim.goal.name, aim.word) for aim in achievements(t.app, t.before, t.after)
            )


def test_no_instruction_of_a_test_task_is_learned(walks, shown):
    rng = random.Random(1)
    for walk, demonstrated in zip(
        walks, shown, strict=True
    ):  # one application may ask what is a test task of another
        held_out = {task.instruction for task in test_tasks(walk[0].app)}
        for source in (planner_sampler([walk], [demonstrated]), executor_sampler([walk])):
            for _ in range(200):
                drawn = source(rng)
                for row in drawn if isinstance(drawn, list) else [drawn]:
                    assert not {line.strip() for line in words_of(row).splitlines()} & held_out


@pytest.mark.parametrize("app", APPS)
def test_base_models_learn_from_the_train_region_alone(app):
    for drawn in (planner_tasks(app), judge_tasks(app)):
        assert {len(parts) for parts, _ in drawn} == {1, 2, 3} and len(drawn) >= 1500
        assert {region(space(app), parts) for parts, _ in drawn} == {"train"}
    asked = {task.instruction for _, task in (*planner_tasks(app), *judge_tasks(app))}
    assert not asked & {task.instruction for task in test_tasks(app)}
    assert len({*typed_words(app, "development")} - {*typed_words(app)}) > 20


def test_a_how_to_gives_the_next_step_of_a_script_without_a_picture():
    task = next(task for parts, task in planner_tasks("gis") if len(parts) == 2 and not task.ans)
    plans = [*map(to_plan, task.solution), "DONE"]
    rows = [how_to_row(task, random.Random(seed)) for seed in range(60)]
    assert {row.reply for row in rows} == set(plans)
    for row in rows:
        assert not row.pictures and words_of(row).startswith(task.instruction)
        past = [
            "".join(f"{plan} " for plan in plans[:i]) for i, plan in enumerate(plans) if plan == row.reply
        ]
        assert words_of(row) in [f"{task.instruction}\n{plans}".rstrip("\n") for plans in past]
    asked = {words_of(how_to_sampler(["gis"])(random.Random(seed))).splitlines()[0] for seed in range(40)}
    assert len(asked) > 20 and asked <= {task.instruction for _, task in planner_tasks("gis")}


@pytest.mark.parametrize("app", APPS)
def test_values_to_copy_stand_in_the_instruction_and_are_of_no_other_region(app):
    here, rng = space(app), random.Random(0)
    held_out = {
        replace(aim, wording=number).text.lower()
        for aims in here.aims.values() for aim in aims if here.regions[aim.goal.name, aim.word] != "train"
        for number in range(len(aim.goal.wordings))
    }  # fmt: skip
    known = {task.instruction for _, task in planner_tasks(app)}
    new = 0
    for _ in range(300):
        row = draw_value_row([app], rng)
        instruction = words_of(row).splitlines()[0]
        words = {word.lower() for word in re.findall(r"[A-Za-z]{2,}|\d+", row.reply.partition("'")[2])}
        assert words & set(re.findall(r"[a-z]{2,}|\d+", instruction.lower()))
        assert not row.pictures and not any(text in instruction.lower() for text in held_out)
        new += instruction not in known
    assert new > 30  # other names and numbers


def test_values_to_copy_can_have_pictures_of_their_own_application(walks):
    row = draw_value_row(["gis"], random.Random(0), [walk for walk in walks if walk[0].app == "gis"])
    seen = [transition for walk in walks if walk[0].app == "gis" for transition in walk]
    shots = [[decode_image(t.screen).tobytes(), decode_image(t.next_screen).tobytes()] for t in seen]
    assert [picture.tobytes() for picture in row.pictures] in shots


@pytest.mark.parametrize("app", APPS)
def test_a_demonstration_without_slips_is_the_script(app):
    env, rng = ScienceDesk(app), random.Random(0)
    for parts, task in rng.sample(planner_tasks(app), 8):
        decisions = demonstrate(env, parts, task, rng, slips=0.0)
        script = [to_plan(step) for step in task.solution]
        plans = [planner_row(decision).reply for decision in decisions]
        assert plans in ([*script, "DONE"], script) and (plans == script) == (task.ans is not None)
        assert [len(d.history) for d in decisions] == list(range(len(plans)))
        assert all(d.screen == d.history[-1].next_screen for d in decisions if d.history)


def test_unsolved_demonstrations_show_their_steps_and_no_end():
    rng, env = random.Random(1), ScienceDesk("astron")
    parts, task = next(
        (parts, task) for parts, task in planner_tasks("astron") if len(parts) == 2 and not task.ans
    )
    tries = [demonstrate(env, parts, task, rng, slips=0.6, unsolved=True) for _ in range(20)]
    ended = [decisions for decisions in tries if decisions and decisions[-1].step is None]
    assert 0 < len(ended) < 20
    assert max(len(decisions) for decisions in tries if decisions not in ended) == task.steps


def test_a_demonstration_of_what_holds_already_ends_at_once():
    env = ScienceDesk("astron")
    parts, task = next(
        (parts, task) for parts, task in planner_tasks("astron") if len(parts) == 1 and parts[0].goal.key
    )
    held = replace(
        task,
        initialize=(*task.initialize, {"func": "set", "key": parts[0].goal.key, "value": parts[0].value}),
    )
    (decision,) = demonstrate(env, parts, held, random.Random(0), slips=0.0)
    assert decision.step is None and not decision.history


def test_a_demonstration_with_slips_goes_astray_and_arrives():
    rng, env = random.Random(1), ScienceDesk("astron")
    parts, task = next(
        (parts, task) for parts, task in planner_tasks("astron") if len(parts) == 2 and not task.ans
    )
    tries = [demonstrate(env, parts, task, rng, slips=0.4) for _ in range(40)]
    arrived = [decisions for decisions in tries if decisions]
    assert 0 < len(arrived) < 40  # an attempt that does not solve the task shows nothing
    script = {to_plan(step) for step in task.solution}
    assert any({planner_row(d).reply for d in decisions} - script - {"DONE"} for decisions in arrived)
    for decisions in arrived:
        assert len(decisions) <= task.steps and planner_row(decisions[-1]).reply == "DONE"
        env.reset(task)
        for decision in decisions[:-1]:
            env.step(decision.action)
        assert env.check(StopReason.DONE)


def test_what_is_read_out_is_what_the_screen_says(walks):
    for walk in walks:
        for transition in walk[:40]:
            row = description_row(transition)
            assert len(row.pictures) == 1
            assert all(e.text in row.reply for e in transition.elements if e.role == "value")
            assert all(
                (e.name in row.reply.split(". ")) == (e.text == "selected")
                for e in transition.elements
                if e.role == "tab"
            )


def test_an_episode_gone_astray_asks_the_same(walks):
    rng, walk = random.Random(2), walks[0]
    long = [h for h in hindsights("algebra", walk) if len(h.aimless) == 3 and h.step]
    for hindsight in long[:30]:
        astray = with_past(hindsight, rng)
        assert (astray.instruction, astray.step, astray.screen) == (
            hindsight.instruction,
            hindsight.step,
            hindsight.screen,
        )
        assert astray.history[len(astray.history) - len(hindsight.history) :] == hindsight.history
        if astray.history:
            assert astray.observation.previous.tobytes() == decode_image(astray.history[-1].screen).tobytes()
        assert planner_row(astray).reply == to_plan(hindsight.step)
        other = distracted(hindsight, rng, ("1",))
        assert replace(other, step=hindsight.step) == hindsight
    assert {len(with_past(long[-1], rng).history) - len(long[-1].history) for _ in range(60)} == {0, 1, 2, 3}


def test_more_may_be_asked(walks):
    hindsight = next(h for h in hindsights("algebra", walks[0]) if h.step)
    wish = next(aims[0] for name, aims in by_goal("algebra").items() if name != hindsight.goal)
    both = {with_more(hindsight, wish, random.Random(seed)).instruction for seed in range(20)}
    assert len(both) == 2 and all(" and " in text and text.endswith(".") for text in both)


def test_curiosity_is_what_the_walk_did(walks):
    walk = walks[1]
    curious = undirected_step(walk, 40, "Anything.", random.Random(0))
    assert curious.step == walk[40].step and all(past in walk[37:40] for past in curious.history)
