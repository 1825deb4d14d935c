"""What base models learn from: labels that the states bear out, and nothing of a test task."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest
import torch
from tiny_models import NO, YES, made_up, save_tiny

from coda_lib.action import Action, parse_actions
from coda_lib.applications import APPS
from coda_lib.base_models import recipe as base_recipe
from coda_lib.base_models.attempts import (
    NOTHING,
    Case,
    Question,
    names,
    needless,
    renamed,
    ruling_source,
    seen,
    told_attempts,
    told_lessons,
)
from coda_lib.base_models.checks import judging, paired
from coda_lib.base_models.hindsight import curiosity, distracted, hindsights, planner_row, reached, with_more, with_past
from coda_lib.base_models.judge_rows import JUDGE_BATCH, Examiner, attempts, judge_source
from coda_lib.base_models.lessons import demonstrate, demonstrations, how_to_row, judge_lessons, judge_tasks, lessons
from coda_lib.base_models.rows import READING, SIZE, Row, description_row, grounding_row, moved, moved_row
from coda_lib.base_models.sources import GROUP, UNSURE, executor_source, how_to_source, planner_source
from coda_lib.base_models.training import BATCH, batch_of, collect, packed_batch
from coda_lib.base_models.walks import Moment, screenshot, typed_words
from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class
from coda_lib.envs.sciencedesk.script import to_action, to_plan
from coda_lib.explore import aims, sentence, train_pool
from coda_lib.judge import Verdict, parse_verdict
from coda_lib.models.chat import ReplayModel
from coda_lib.models.local import encode, load_network, load_processor
from coda_lib.paths import CHECKPOINTS
from coda_lib.task import goal_text, holds, test_tasks
from coda_lib.trajectory import Step, StopReason, decode_image, save_trajectories


@pytest.fixture(scope="module")
def walks() -> list[list[Moment]]:
    """Give a short walk through each application."""
    return [collect(app, 150, seed=3) for app in APPS]


@pytest.fixture(scope="module")
def shown() -> list:
    """Give a few demonstrations in each application."""
    return [demonstrations(app, 4, UNSURE, seed=3) for app in APPS]


def words_of(row: Row) -> str:
    return "".join(part["text"] for message in row.messages for part in message["content"] if part["type"] == "text")


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


def test_what_has_moved_is_drawn_apart(walks):
    rng = random.Random(0)
    found = [(m, e) for moments in walks for m, elements in moved(moments) for e in elements]
    assert {"slider", "row", "target"} <= {element.role for _, element in found}
    places: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for moments in walks:
        for moment in moments:
            for e in moment.elements:
                places.setdefault((moment.app, e.name), []).append(e.box[:2])
    for moment, element in rng.sample(found, 60):
        x, y = element.box[:2]
        there = [abs(a - x) + abs(b - y) > 4 for a, b in places[moment.app, element.name]]
        assert sum(there) >= len(there) / 2  # mostly it is elsewhere
        row = moved_row(moment, element, rng)
        (action,) = parse_actions(row.reply, SIZE)
        assert f"'{element.name}'" in words_of(row) and near(element.box, action.x * SIZE[0], action.y * SIZE[1])


def test_the_executors_batches_are_of_one_kind_each(walks):
    source, rng = executor_source(walks), random.Random(0)
    batches = [[source(rng) for _ in range(BATCH)] for _ in range(4)]
    groups = batches[0] + batches[1]
    assert all(isinstance(group, list) and len(group) == GROUP for group in groups)
    for group in groups:
        (picture,) = {tuple(p.tobytes() for p in row.pictures) for row in group}
        assert len(picture) == 1
    assert {len(row.pictures) for row in batches[2]} == {2} and {len(row.pictures) for row in batches[3]} == {0}


def test_hindsight_asks_for_what_was_achieved(walks):
    for moments in walks:
        wishes = {sentence([aim]): aim for aim in aims(moments[0].app)}
        found = hindsights(moments[0].app, moments)
        assert found
        for done in (h for h in found if h.step is None):
            checks = wishes[done.instruction].checks
            assert all(holds(item, done.after) for item in checks)
            assert not all(holds(item, done.history[0].before) for item in checks) and len(done.history) <= 2


def test_no_instruction_of_a_test_task_is_learned(walks, shown):
    rng = random.Random(1)
    for moments, some in zip(walks, shown, strict=True):  # one application may ask what is a test task of another
        held_out = {task.instruction for task in test_tasks(moments[0].app)}
        for source in (planner_source([moments], [some]), executor_source([moments])):
            for _ in range(200):
                drawn = source(rng)
                for row in drawn if isinstance(drawn, list) else [drawn]:
                    assert not {line.strip() for line in words_of(row).splitlines()} & held_out


def test_the_judges_tasks_are_its_own():
    for app in APPS:
        defaults = ScienceDesk(app).desk.defaults
        others = [*test_tasks(app), *train_pool(app, defaults)]
        taken = {task.instruction for task in others} | {task.goal for task in others}
        own = judge_tasks(app)
        assert len(own) > 100 and not any({task.instruction, task.goal} & taken for task in own)


def test_lessons_are_about_what_neither_a_test_nor_a_train_task_asks():
    for app in APPS:
        others = [*test_tasks(app), *train_pool(app, ScienceDesk(app).desk.defaults)]
        instructions, goals = {task.instruction for task in others}, {task.goal for task in others}
        found = lessons(app)
        assert {len(parts) for parts, _ in found} == {1, 2, 3} and len(found) > 100
        for parts, task in found:
            assert task.instruction not in instructions and task.goal not in goals
            assert not {sentence([aim]) for aim in parts} & instructions
            assert not {goal_text(app, aim.checks) for aim in parts} & goals


def test_a_how_to_gives_the_next_step_of_a_script_without_a_picture():
    task = next(task for parts, task in lessons("gis") if len(parts) == 2 and not task.ans)
    plans = [*map(to_plan, task.solution), "DONE"]
    rows = [how_to_row(task, random.Random(seed)) for seed in range(60)]
    assert {row.reply for row in rows} == set(plans)
    for row in rows:
        assert not row.pictures and words_of(row).startswith(task.instruction)
        past = ["".join(f"{plan} " for plan in plans[:i]) for i, plan in enumerate(plans) if plan == row.reply]
        assert words_of(row) in [f"{task.instruction}\n{said}".rstrip("\n") for said in past]
    asked = {words_of(how_to_source(["gis"])(random.Random(seed))).splitlines()[0] for seed in range(40)}
    assert len(asked) > 20 and asked <= {task.instruction for _, task in lessons("gis")}


@pytest.mark.parametrize("app", APPS)
def test_a_demonstration_without_slips_is_the_script(app):
    env, rng = ScienceDesk(app), random.Random(0)
    for parts, task in rng.sample(lessons(app), 8):
        decisions = demonstrate(env, parts, task, rng, slips=0.0)
        script = [to_plan(step) for step in task.solution]
        plans = [planner_row(decision).reply for decision in decisions]
        assert plans in ([*script, "DONE"], script) and (plans == script) == (task.ans is not None)
        assert [len(d.history) for d in decisions] == list(range(len(plans)))
        assert all(d.previous == d.history[-1].screen for d in decisions if d.history)


def test_a_demonstration_with_slips_goes_astray_and_arrives():
    rng, env = random.Random(1), ScienceDesk("astron")
    parts, task = next((parts, task) for parts, task in lessons("astron") if len(parts) == 2 and not task.ans)
    tries = [demonstrate(env, parts, task, rng, slips=0.4) for _ in range(40)]
    arrived = [decisions for decisions in tries if decisions]
    assert 0 < len(arrived) < 40  # who has not solved it shows nothing
    script = {to_plan(step) for step in task.solution}
    assert any({planner_row(d).reply for d in decisions} - script - {"DONE"} for decisions in arrived)
    for decisions in arrived:
        assert len(decisions) <= task.steps and planner_row(decisions[-1]).reply == "DONE"
        env.reset(task)
        for decision in decisions[:-1]:
            env.step(decision.action)
        assert env.check(StopReason.DONE)


def test_what_is_read_out_is_what_the_screen_says(walks):
    for moments in walks:
        for moment in moments[:40]:
            row = description_row(moment)
            assert len(row.pictures) == 1
            assert all(e.text in row.reply for e in moment.elements if e.role == "value")
            assert all((e.name in row.reply.split(". ")) == (e.text == "selected") for e in moment.elements if e.role == "tab")


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
    monkeypatch.setattr("coda_lib.base_models.hindsight._held_out", lambda app: asked)
    assert with_more(hindsight, wish, random.Random(0)) == hindsight


def test_curiosity_is_what_the_walk_did(walks):
    moments = walks[1]
    curious = curiosity(moments, 40, "Anything.", random.Random(0))
    assert curious.step == moments[40].step and all(m in moments[37:40] for m in curious.history)


def states_of(case: Case, moments: list[Moment]) -> list[list[dict]]:
    """The states, from first to last, of every part of a walk that looks like a case."""
    n = len(case.pictures) - 1
    parts = (moments[start : start + n + 1] for start in range(len(moments)))
    if not n:
        return [[part[0].before] for part in parts if part[0].screen == case.pictures[0]]
    parts = (part[:n] for part in parts)
    shown = [part for part in parts if (*(m.screen for m in part), part[-1].next_screen) == case.pictures]
    return [[part[0].before, *(m.after for m in part)] for part in shown]


def verdict_of(case: Case) -> Verdict:
    return parse_verdict(case.questions[0].reply)


def test_what_is_said_of_walks_is_what_the_states_say(walks):
    said, lengths = [], set()
    for moments in walks:
        app = moments[0].app
        wishes = {sentence([aim]): aim for aim in aims(app)}
        tasks = [*test_tasks(app), *train_pool(app, desk_class(app).defaults)]
        taken = {task.instruction for task in tasks} | {task.goal for task in tasks}
        asked_for = [parts for n in (1, 2) for parts in permutations(wishes.values(), n)]
        goals = {sentence(parts): goal_text(app, [item for aim in parts for item in aim.checks]) for parts in asked_for}
        examiner = Examiner(moments)
        for seed in range(60):
            case = (examiner.stretch if seed % 2 else examiner.look)(random.Random(seed))
            asked = {q.instruction for q in case.questions if q.instruction != READING}
            assert not (asked | {goals[text] for text in asked}) & taken
            lengths.add(len(case.pictures))
            replies = {q.instruction: q.reply.split("\n")[1:] for q in case.questions if q.instruction != READING}
            told = {text: (held, '"Correctness": true' in ruling) for text, (held, ruling) in replies.items()}
            said += [correct for _, correct in told.values()]
            alone = [(wishes[text], *of) for text, of in told.items() if text in wishes]
            assert any(
                all((seen([aim], states[-1]), reached(aim, states[-1])) == (held, correct) for aim, held, correct in alone)
                for states in states_of(case, moments)
            )
            if len(case.pictures) > 1:  # an attempt: at something that did not hold before
                assert all(1 <= step < len(case.pictures) for step in verdict_of(case).redundant)
                aim = wishes[case.questions[0].instruction]
                assert not any(reached(aim, states[0]) for states in states_of(case, moments))
    assert 0.3 < sum(said) / len(said) < 0.55 and {1, 2, 3} <= lengths


def test_a_rollout_is_judged_by_the_check_and_the_script(walks):
    examiner = Examiner(walks[0])
    lesson = next(lesson for lesson in judge_lessons("algebra") if len(lesson[1].solution) == 3 and not lesson[1].ans)
    plans = [to_plan(step) for step in lesson[1].solution]
    shot = made_up().steps[0]

    def reply(said: list[str], success: bool) -> str:
        steps = tuple(Step(shot.screenshot, plan, "", (Action.wait(),)) for plan in said)
        played = replace(made_up(steps=steps, stop=StopReason.DONE, success=success), instruction=lesson[1].instruction)
        return examiner.rollout(played, lesson, random.Random(0)).questions[0].reply

    def verdict(said: list[str], success: bool) -> Verdict:
        return parse_verdict(reply(said, success))

    assert verdict([*plans, "DONE"], True).clean
    assert verdict([plans[0], "Click 'x'.", *plans[1:], "DONE"], True).redundant == (2,)
    failed = verdict([plans[0], "Click 'x'.", "DONE"], False)
    assert not failed.correct and failed.first_error_step == 2
    assert verdict([plans[0], "DONE"], False).first_error_step == 2  # ended too early
    steps = reply([plans[0], "Click 'x'.", "DONE"], False).split("\n")[0]
    assert steps.split(" ") == [NOTHING] * 2  # one screen, unchanged, and DONE adds no picture


def test_of_a_step_taken_twice_the_last_one_counts():
    assert needless(["a", "b"], ["a", "b"]) == () and needless(["x"], ["a", "b"]) == ()
    assert needless(["a", "x", "a", "b"], ["a", "b"]) == (1, 2)
    assert needless(["a", "b", "x"], ["a", "b"]) == (3,)
    assert needless(["x", "y", "b"], ["a", "b"]) == (1, 2)  # solved another way


def test_a_reply_says_what_was_done_then_what_holds_then_rules(walks):
    examiner = Examiner(walks[0])
    lesson = next(lesson for lesson in judge_lessons("algebra") if [aim.goal.name for aim in lesson[0]] == ["plot"])
    solved = next(
        case for seed in range(99) if verdict_of(case := examiner.script(lesson, [lesson], random.Random(seed))).clean
    )
    (aim,), task = lesson
    steps, held, ruling = solved.questions[0].reply.split("\n")
    assert aim.word in held.split(", ")
    assert steps.startswith("Click ") and steps.endswith(f"Type '{aim.word}' and press Enter.")
    (row,) = solved.rulings  # of other questions the words do not tell what holds
    assert row.given == f"{steps}\n" and row.reply == f"{held}\n{ruling}" and row.whole and not row.pictures
    asked = "".join(part["text"] for part in row.messages[0]["content"])
    assert asked.startswith(to_plan(task.solution[0])) and f"DONE\n{task.instruction}" in asked
    draw, rng = ruling_source(["algebra"], [[solved]]), random.Random(0)
    drawn = [draw(rng) for _ in range(40)]
    assert 5 < sum(row in solved.rulings for row in drawn) < 35  # the others are told with other names


def test_with_other_names_an_attempt_is_the_same():
    ask = "Set the title to lab and show the labels and select O1."
    clicks = [f"Click '{name}'." for name in ("File", "Title", "View", "Labels", "O1")]
    plans = (*clicks[:2], "Type 'talk' and press Enter.", *clicks[2:], "DONE")
    ruling = '{"Correctness": false, "Redundant": [], "First_Error_Step": 3}'
    case = Case((b"",) * 7, (Question(ask, None, f"{' '.join(plans[:6])}\ntalk; O1\n{ruling}"),), plans)
    for seed in range(20):
        told = renamed(case, names("biochem"), random.Random(seed))
        (asked,) = told.questions
        words = asked.instruction.removeprefix("Set the title to ").removesuffix(".").split(" and show the labels and select ")
        did, held, same = asked.reply.split("\n")
        typed = told.plans[2].removeprefix("Type '").removesuffix("' and press Enter.")
        assert same == ruling and did == " ".join(told.plans[:6]) and told.plans[5] == f"Click '{words[1]}'."
        assert held == f"{typed}; {words[1]}" and len({*words, typed}) == 3 and {*words, typed} <= {*names("biochem")}
    assert len({renamed(case, names("biochem"), random.Random(seed)).plans for seed in range(20)}) > 10
    question = replace(case, questions=(Question("What is the mass of furan?", "68", f"-\n68\n{ruling}"),))
    assert renamed(question, names("biochem"), random.Random(0)) is question


def test_what_is_given_is_not_learned(tmp_path):
    words = load_processor(save_tiny(tmp_path / "judge"))
    row = Row([{"role": "user", "content": [{"type": "text", "text": "Turn"}]}], "DONE", given="off\n")
    inputs, labels = batch_of(words, [row])
    learned = inputs["input_ids"][0][labels[0] >= 0].tolist()
    assert words.tokenizer.decode(learned) == f"DONE{words.tokenizer.eos_token}"
    assert "off" in words.tokenizer.decode(inputs["input_ids"][0])
    _, labels = batch_of(words, [replace(row, whole=False)])  # the beginning of a reply does not end it
    assert words.tokenizer.decode(labels[0][labels[0] >= 0].tolist()) == "DONE"


def test_further_questions_about_a_rollout_are_answered_by_its_states(walks):
    examiner = Examiner(walks[APPS.index("gis")])
    env = examiner.env
    lesson = next(lesson for lesson in judge_lessons("gis") if len(lesson[0]) == 2 and not lesson[1].ans)
    env.reset(lesson[1])
    steps = []
    for step in lesson[1].solution:
        action = to_action(env.desk, step)
        steps.append(Step(screenshot(env.desk), to_plan(step), "", (action,)))
        env.step(action)
    state = env.desk.state()
    played = replace(
        made_up(steps=tuple(steps), stop=StopReason.STEP_LIMIT, success=True), instruction=lesson[1].instruction
    )
    asked = [q for seed in range(12) for q in examiner.rollout(played, lesson, random.Random(seed)).questions[1:]]
    wishes = {sentence([aim]): aim for aim in aims("gis")}
    alone = [q for q in asked if q.instruction in wishes]
    assert alone and not any(q.whole for q in alone)
    for q in alone:
        aim, (_, held, ruling) = wishes[q.instruction], q.reply.split("\n")
        assert held == seen([aim], state) and ruling == f'{{"Correctness": {"true" if reached(aim, state) else "false"}, '


def test_attempts_by_script_are_labelled_by_the_check(walks):
    walk = walks[APPS.index("gis")]
    tried = attempts(walk, [], 40, seed=0)
    verdicts = [verdict_of(case) for case in tried]
    assert {v.correct for v in verdicts} == {True, False} and any(v.clean for v in verdicts)


def test_the_judges_batches_are_of_one_kind_each(walks):
    walk = walks[APPS.index("gis")]
    source, rng = judge_source([walk], [attempts(walk, [], 6, seed=0)], [told_attempts("gis", 9, 0)]), random.Random(0)
    batches = [[source(rng) for _ in range(JUDGE_BATCH)] for _ in range(36)]
    shown = [{bool(row.pictures) for rows in batch for row in rows} for batch in batches]
    assert all(len(kinds) == 1 for kinds in shown) and sum(kinds == {False} for kinds in shown) == 12
    assert all(rows for batch in batches for rows in batch)
    recipe = base_recipe.Recipe()
    for card in (base_recipe.card("judge", {}, recipe), (CHECKPOINTS / "judge" / "README.md").read_text()):
        assert "One batch in three is without pictures" in card  # 12 of 36


@pytest.mark.parametrize("app", APPS)
def test_attempts_told_in_words_are_labelled_by_the_check_and_ask_nothing_that_is_taken(app):
    told = told_attempts(app, 60, seed=0)
    assert [case.rulings for case in told] == [case.rulings for case in told_attempts(app, 60, seed=0)]
    verdicts = [verdict_of(case) for case in told]
    assert 0.25 < sum(v.correct for v in verdicts) / 60 < 0.75
    assert any(v.clean for v in verdicts) and any(v.correct and v.redundant for v in verdicts)
    others = {t.instruction for t in [*test_tasks(app), *train_pool(app, desk_class(app).defaults)]}
    assert others.isdisjoint(case.questions[0].instruction for case in told)
    for case in told:
        (ruling,) = case.rulings
        assert len(ruling.given.split("\n")[0]) <= len(" ".join(case.plans)) and not ruling.pictures
        assert case.plans[-1].split()[0] in ("DONE", "ANS")


def test_a_faultless_attempt_told_in_words_is_its_script():
    for case in told_attempts("algebra", 200, seed=1):
        lesson = next(task for some in told_lessons("algebra").values() for _, task in some
                      if task.instruction == case.questions[0].instruction)  # fmt: skip
        script = [to_plan(step) for step in lesson.solution]
        if list(case.plans[:-1]) == [plan for plan in script if not plan.startswith("ANS")] and not lesson.ans:
            assert verdict_of(case).clean, case
            return
    raise AssertionError("two hundred attempts and none by its script")


def test_rollouts_of_one_task_are_drawn_so_that_its_words_do_not_tell_the_verdict(walks):
    often, never = [task for task in judge_tasks("algebra") if not task.ans][:2]
    tries = [made_up(task_id=task.id, instruction=task.instruction, success=False) for task in (often, never)]
    failed = [replace(trajectory, run=run) for trajectory in tries for run in range(9)]
    solved = replace(tries[0], run=9, success=True)
    cases = [case for case in attempts(walks[0], [*failed, solved], 150, seed=0) if case.pictures == tuple(solved.screenshots)]
    told = {task.id: [verdict_of(c).correct for c in cases if c.questions[0].instruction == task.instruction]
            for task in (often, never)}  # fmt: skip
    assert not any(told[never.id]) and len(told[never.id]) > 5
    assert 0.2 < sum(told[often.id]) / len(told[often.id]) < 0.8


def test_of_each_task_as_many_solved_as_failed_rollouts_make_pairs():
    outcomes = {"gis/a": [True, False, False], "gis/b": [True, True], "gis/c": [False, True, False, True, True]}
    played = [made_up(task_id=name, run=i, success=s) for name, some in outcomes.items() for i, s in enumerate(some)]
    drawn = [(t.task_id, t.run) for t in paired(played)]
    assert sorted(drawn) == [("gis/a", 0), ("gis/a", 1), *[("gis/c", run) for run in range(4)]]


def test_a_judges_card_tells_one_that_looks_from_one_that_does_not(walks):
    tasks = judge_tasks("gis")[:6]
    ended = {success: made_up(number=int(success), acts=[("DONE", Action.done())], success=success) for success in (True, False)}
    played = [replace(ended[success], task_id=task.id, app="gis") for task in tasks for success in (True, False)]
    solved = decode_image(ended[True].screenshots[-1]).tobytes()

    def looks(messages) -> str:
        last = [part["image"] for part in messages[-1]["content"] if part["type"] == "image"][-1]
        return YES if last.tobytes() == solved else NO

    walk = [walks[APPS.index("gis")]]
    looking = judging(ReplayModel(looks), walk, [played], samples=12, seed=0)
    assert looking["rollouts"] == looking["pairs"] == 12 and looking["rollout_successes"] == 0.5
    assert looking["pair_accuracy"] == looking["pair_precision"] == looking["pair_recall"] == 1
    assert looking["pair_accuracy_swapped"] < 0.8
    credulous = judging(ReplayModel(lambda _: YES), walk, [played], samples=12, seed=0)
    assert credulous["pair_recall"] == credulous["pair_recall_swapped"] == 1
    assert credulous["pair_accuracy"] == credulous["pair_precision"] == credulous["pair_accuracy_swapped"] == 0.5
    mumbling = judging(ReplayModel(lambda _: "perhaps"), walk, [played], samples=12, seed=0)
    assert mumbling["pair_invalid"] == 12 and mumbling["pair_accuracy"] == mumbling["pair_recall"] == 0


def test_the_figures_of_the_judge_rest_on_tasks_that_it_never_tried(tmp_path):
    played = [made_up(task_id=f"gis/{task}", run=run) for run in range(2) for task in range(12)]
    save_trajectories(tmp_path / "rollouts" / "gis.parquet", played)
    (learnt,), (kept,) = base_recipe._rollouts(tmp_path, ["gis"])
    assert len(learnt) == 20 and len(kept) == 4
    assert not {t.task_id for t in learnt} & {t.task_id for t in kept}


def test_many_questions_about_an_attempt_are_to_the_model_as_one_row_each(walks, tmp_path):
    folder = save_tiny(tmp_path / "judge")
    words, network = load_processor(folder), load_network(folder, trainable=False, device="cpu")
    network.set_attn_implementation("sdpa")
    cases = [Examiner(walks[0]).stretch(random.Random(0)), Examiner(walks[1]).look(random.Random(1))]
    inputs, labels = packed_batch(words, network, [case.rows for case in cases])
    together = network(**inputs).logits
    for i, case in enumerate(cases):
        said = (labels[i] >= 0).nonzero()[:, 0]
        starts = [int(k) for k in said if labels[i, k - 1] < 0]  # where a reply begins
        assert len(starts) == len(case.rows) > 2
        for k, row, question in zip(starts, case.rows, case.questions, strict=True):
            alone = network(**encode(words, [row.messages])).logits[0, -1]
            assert torch.allclose(together[i, k - 1], alone, atol=1e-4)
            reply = words.tokenizer(row.reply, add_special_tokens=False)["input_ids"]
            assert labels[i, k : k + len(reply)].tolist() == reply
            ended = k + len(reply) < labels.shape[1] and labels[i, k + len(reply)] == words.tokenizer.eos_token_id
            assert ended == question.whole == row.reply.endswith(("}", "."))
