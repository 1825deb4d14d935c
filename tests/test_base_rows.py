"""What base models learn from: labels that the states bear out, and nothing of a test task."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tiny_models import made_up

from coda_lib.action import parse_actions
from coda_lib.base_models import collect, executor_source, planner_source
from coda_lib.base_rows import (
    SIZE,
    Row,
    curiosity,
    distracted,
    grounding_row,
    hindsights,
    planner_row,
    with_more,
    with_past,
)
from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class
from coda_lib.envs.sciencedesk.script import to_plan
from coda_lib.envs.sciencedesk.walk import Moment, typed_words
from coda_lib.explore import aims, sentence, train_pool
from coda_lib.judge import parse_verdict
from coda_lib.judge_rows import judge_source, judge_tasks, judged_attempt, judged_rollout, judged_walk
from coda_lib.predicate import holds
from coda_lib.task import APPS, test_tasks
from coda_lib.trajectory import Step, StopReason, encode_image


@pytest.fixture(scope="module")
def walks() -> list[list[Moment]]:
    """Give a short walk through each application."""
    return [collect(app, 150, seed=3) for app in APPS]


def words_of(row: Row) -> str:
    return "".join(part["text"] for message in row.messages for part in message["content"] if part["type"] == "text")


def pictures_of(row: Row) -> list:
    return [part["image"] for message in row.messages for part in message["content"] if part["type"] == "image"]


def near(box: tuple[int, int, int, int], x: float, y: float) -> bool:
    """Whether a point is in a box, but for the coordinate grid."""
    return box[0] - 2 <= x <= box[0] + box[2] + 2 and box[1] - 2 <= y <= box[1] + box[3] + 2


def test_a_plan_grounded_on_a_screen_points_into_what_it_names(walks):
    rng = random.Random(0)
    for moments in walks:
        for moment in moments[:60]:
            row = grounding_row(moment, rng, typed_words(moment.app))
            (action,) = parse_actions(row.reply, SIZE)
            if action.x is None:
                assert action.text is not None
                continue
            named = [e for e in moment.elements if f"'{e.name}'" in words_of(row)]
            assert any(near(e.box, action.x * SIZE[0], action.y * SIZE[1]) for e in named)


def test_hindsight_asks_for_what_was_achieved(walks):
    for moments in walks:
        wishes = {sentence([aim]): aim for aim in aims(moments[0].app)}
        found = hindsights(moments[0].app, moments)
        assert found
        for done in (h for h in found if h.step is None):
            checks = wishes[done.instruction].checks
            assert all(holds(item, done.after) for item in checks)
            assert not all(holds(item, done.history[0].before) for item in checks) and len(done.history) <= 2


def test_no_instruction_of_a_test_task_is_learned(walks):
    rng = random.Random(1)
    for moments in walks:  # one application may ask what is a test task of another
        held_out = {task.instruction for task in test_tasks(moments[0].app)}
        for source in (planner_source([moments]), executor_source([moments])):
            for _ in range(200):
                assert not {line.strip() for line in words_of(source(rng)).splitlines()} & held_out


def test_the_judges_tasks_are_its_own():
    for app in APPS:
        defaults = ScienceDesk(app).desk.defaults
        others = [*test_tasks(app), *train_pool(app, defaults)]
        taken = {task.instruction for task in others} | {task.goal for task in others}
        own = judge_tasks(app)
        assert len(own) > 100 and not any({task.instruction, task.goal} & taken for task in own)


def test_an_episode_gone_astray_asks_the_same(walks):
    rng, moments = random.Random(2), walks[0]
    long = [h for h in hindsights("algebra", moments) if h.aimless and h.step]
    for hindsight in long[:30]:
        astray = with_past(hindsight, rng)
        assert (astray.instruction, astray.step, astray.current) == (hindsight.instruction, hindsight.step, hindsight.current)
        assert astray.history[len(astray.history) - len(hindsight.history) :] == hindsight.history
        if astray.history:
            assert astray.previous == astray.history[-1].screen
        assert planner_row(astray).reply == to_plan(hindsight.step)
        other = distracted(hindsight, rng, ("1",))
        assert replace(other, step=hindsight.step) == hindsight
    assert {len(with_past(long[-1], rng).history) - len(long[-1].history) for _ in range(60)} == {0, 1, 2, 3}


def test_more_may_be_asked_but_no_test_task(walks, monkeypatch):
    hindsight = next(h for h in hindsights("algebra", walks[0]) if h.step)
    wish = next(aim for aim in aims("algebra") if sentence([aim]) != hindsight.instruction)
    asked = {with_more(hindsight, wish, random.Random(seed)).instruction for seed in range(20)}
    assert len(asked) == 2 and all(" and " in text and text.endswith(".") for text in asked)
    monkeypatch.setattr("coda_lib.base_rows._held_out", lambda app: asked)
    assert with_more(hindsight, wish, random.Random(0)) == hindsight


def test_curiosity_is_what_the_walk_did(walks):
    moments = walks[1]
    curious = curiosity(moments, 40, "Anything.", random.Random(0))
    assert curious.step == moments[40].step and all(m in moments[37:40] for m in curious.history)


def stretch_of(row: Row, moments: list[Moment]) -> list[Moment]:
    """The part of a walk that a row shows."""
    shown = [encode_image(picture) for picture in pictures_of(row)]
    for start in range(len(moments)):
        part = moments[start : start + len(shown) - 1]
        if [m.screen for m in part] == shown[:-1] and part[-1].next_screen == shown[-1]:
            return part
    raise AssertionError("not a part of the walk")


def test_verdicts_on_walks_are_those_of_the_states(walks):
    said = []
    for moments in walks:
        app = moments[0].app
        wishes = {sentence([aim]): aim for aim in aims(app)}
        taken = {task.instruction for task in [*test_tasks(app), *train_pool(app, desk_class(app).defaults)]}
        for seed in range(60):
            row = judged_walk(moments, random.Random(seed))
            assert words_of(row).strip() not in taken
            verdict, part = parse_verdict(row.reply), stretch_of(row, moments)
            assert all(1 <= step <= len(part) for step in verdict.redundant)
            said.append(verdict.correct)
            if (aim := wishes.get(words_of(row).strip())) is None:
                continue
            truth = [all(holds(item, state) for item in aim.checks) for state in (part[0].before, part[-1].after)]
            assert verdict.correct == (truth == [False, True]) and (verdict.first_error_step is None) == verdict.correct
            if verdict.clean and len(part) == 1:
                assert verdict.correct
    assert 0.15 < sum(said) / len(said) < 0.6  # most of what a judge sees has failed


def test_a_rollout_is_judged_by_the_check_and_the_script():
    task = next(t for t in judge_tasks("algebra") if len(t.solution) == 3 and not t.ans)
    plans = [to_plan(step) for step in task.solution]
    shot = made_up().steps[0]

    def verdict(said: list[str], success: bool):
        steps = tuple(Step(shot.screenshot, plan, "", shot.actions) for plan in said)
        played = replace(made_up(steps=steps, stop=StopReason.DONE, success=success), instruction=task.instruction)
        return parse_verdict(judged_rollout(played, task).reply)

    assert verdict([*plans, "DONE"], True).clean
    assert verdict([plans[0], "Click 'x'.", *plans[1:], "DONE"], True).redundant == (2,)
    failed = verdict([plans[0], "Click 'x'.", "DONE"], False)
    assert not failed.correct and failed.first_error_step == 2
    assert verdict([plans[0], "DONE"], False).first_error_step == 2  # ended too early


def test_attempts_by_script_are_labelled_by_the_check(walks):
    env = ScienceDesk("gis")
    tasks = judge_tasks("gis")
    verdicts = [parse_verdict(judged_attempt(env, tasks[i], tasks, random.Random(i)).reply) for i in range(40)]
    assert {v.correct for v in verdicts} == {True, False} and any(v.clean for v in verdicts)
    source = judge_source(walks, [[] for _ in walks])
    assert all(parse_verdict(source(random.Random(i)).reply) for i in range(3))
