"""What executor and planner learn from: labels that the states bear out, and nothing of a test task."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from base_models.demonstrators import demonstrate, demonstrations, questions
from base_models.hindsight import achievements, hindsights, planner_row, reached, with_more
from base_models.planning import planner_sampler
from base_models.rows import Row
from base_models.training_tasks import (
    foreign_names,
    how_to_row,
    judge_tasks,
    planner_tasks,
    value_row,
)
from base_models.walks import by_goal, perform, typed_words, window_of
from coda_lib.applications import APPS
from coda_lib.task import holds, test_tasks
from sciencedesk.env import ScienceDesk
from sciencedesk.goals import Aim, sentence
from sciencedesk.perturb import Guide, perturbed
from sciencedesk.script import to_plan
from sciencedesk.space import aims_of, region, space


@pytest.fixture(scope="module")
def shown() -> list:
    """Give a few demonstrations in each application."""
    return [demonstrations(app, planner_tasks(app), 4, 0.2, seed=3) for app in APPS]


def words_of(row: Row) -> str:
    return "".join(
        part["text"] for message in row.messages for part in message["content"] if part["type"] == "text"
    )


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
    for walk, of_app in zip(walks, shown, strict=True):  # one may ask what is a test task of another
        app = walk[0].app
        held_out = {task.instruction for task in test_tasks(app)}
        goals = {app: {goal.name for goal in space(app).goals}}
        answers = questions(app, planner_tasks(app), 5, 1)
        draw = planner_sampler([walk], [of_app], [answers], goals, 8, 4)
        for _ in range(100):
            for row in (row for rows in draw(rng) for row in rows):
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
    made = (value_row(rng.choice(planner_tasks(app)), foreign_names(app), rng) for _ in range(400))
    for row in filter(None, made):
        instruction = words_of(row).splitlines()[0]
        words = {word.lower() for word in re.findall(r"[A-Za-z]{2,}|\d+", row.reply.partition("'")[2])}
        assert words & set(re.findall(r"[a-z]{2,}|\d+", instruction.lower()))
        assert not row.pictures and not any(text in instruction.lower() for text in held_out)
        new += instruction not in known
    assert new > 30  # other names and numbers


@pytest.mark.parametrize("app", APPS)
def test_a_demonstration_without_slips_is_the_script_with_what_its_start_needs(app):
    env, rng, longer = ScienceDesk(app), random.Random(0), 0
    for parts, task in rng.sample(planner_tasks(app), 12):
        decisions = demonstrate(env, parts, task, rng, slips=0.0)
        script = [to_plan(step) for step in task.solution]
        plans = [planner_row(decision).reply for decision in decisions]
        rest = iter(plans)
        assert all(plan in rest for plan in script) and (plans[-1] == "DONE") == (task.ans is None)
        longer += len(plans) > len(script) + (task.ans is None)
        assert [len(d.history) for d in decisions] == list(range(len(plans)))
        assert all(d.screen == d.history[-1].next_screen for d in decisions if d.history)
    assert 0 < longer < 12  # some starts hide what is needed


@pytest.mark.parametrize("app", APPS)
def test_what_is_right_under_another_instruction_leads_there(app):
    env, rng, led, ended = ScienceDesk(app), random.Random(5), 0, 0
    known = [(parts, task) for parts, task in planner_tasks(app) if not task.ans and len(parts) < 3]
    others = [task for task in known if len(task[0]) == 1 and not task[0][0].goal.setup]
    for number in range(20):
        (parts, task), other = rng.choice(known), rng.choice(others)
        ((aim,), _) = other
        for shown in demonstrate(env, parts, task, random.Random(number), slips=0.0, others=[other]):
            for instead in shown.instead:
                assert (instead.screen, instead.history) == (shown.screen, shown.history)
                env.reset(perturbed(task, random.Random(number).randrange(2**31), "train"))
                guide, desk = Guide(env, task), window_of(env)
                for past in shown.history:
                    guide.before(past.step)
                    perform(desk, past.step)
                if instead.step is None:
                    assert reached(parts[0], desk.state()) and len(parts) == 2
                    ended += 1
                    continue
                at = aim.solution.index(instead.step) if instead.step in aim.solution else None
                if at is None and shown.history:
                    continue
                for step in [instead.step] if at is None else []:
                    perform(desk, step)
                for step in aim.solution[at or 0 :]:
                    while need := guide.before(step):
                        perform(desk, need)
                    perform(desk, step)
                assert reached(aim, desk.state())
                led += 1
    assert led > 10 and ended


def test_unsolved_demonstrations_show_their_steps_and_no_end():
    rng, env = random.Random(1), ScienceDesk("astron")
    parts, task = next(
        (parts, task) for parts, task in planner_tasks("astron") if len(parts) == 2 and not task.ans
    )
    tries = [demonstrate(env, parts, task, rng, slips=0.6, unsolved=True) for _ in range(20)]
    ended = [decisions for decisions in tries if decisions and decisions[-1].step is None]
    assert 0 < len(ended) < 20
    longest = max(len(decisions[-1].history) for decisions in tries if decisions and decisions not in ended)
    assert 8 < longest <= 13  # of 14 steps: perturbed, three more than else


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
    assert any({t.plan for t in decisions[-1].history} - script for decisions in arrived)
    for decisions in arrived:
        slips = {t.plan for t in decisions[-1].history} - {planner_row(d).reply for d in decisions}
        assert slips.isdisjoint(script)  # a random step is in the history, and nothing to learn
        assert len(decisions) <= 15 and planner_row(decisions[-1]).reply == "DONE"
        assert all(holds(item, decisions[-1].history[-1].after) for item in task.evaluate)


def test_more_may_be_asked(walks):
    hindsight = next(h for h in hindsights("algebra", walks[0]) if h.step)
    wish = next(aims[0] for name, aims in by_goal("algebra").items() if name != hindsight.goal)
    both = {with_more(hindsight, wish, random.Random(seed)).instruction for seed in range(20)}
    assert len(both) == 2 and all(" and " in text and text.endswith(".") for text in both)
