"""What the judge learns from: attempts that the application's states label, and nothing of a test task."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain

import pytest
from tiny_models import made_up

from base_models.attempts import Attempt, AttemptMaker, Question, labelled_attempts
from base_models.hindsight import NOTHING, held, needless, reached
from base_models.rows import READING
from base_models.sources import JUDGE_BATCH, RULINGS, judge_sampler, ruling_sampler
from base_models.text_attempts import renamed, tasks_by_size, text_attempts
from base_models.training_tasks import judge_tasks
from base_models.walks import Transition, names, screenshot
from coda_lib.action import Action
from coda_lib.applications import APPS
from coda_lib.judge import Verdict, parse_verdict
from coda_lib.task import test_tasks
from coda_lib.trajectory import Step, StopReason
from sciencedesk.goals import Aim, sentence
from sciencedesk.script import to_action, to_plan
from sciencedesk.space import aims_of


def states_of(attempt: Attempt, walk: list[Transition]) -> list[list[dict]]:
    """The states, from first to last, of every part of a walk that looks like an attempt."""
    n = len(attempt.pictures) - 1
    parts = (walk[start : start + n + 1] for start in range(len(walk)))
    if not n:
        return [[part[0].before] for part in parts if part[0].screen == attempt.pictures[0]]
    parts = (part[:n] for part in parts)
    shown = [part for part in parts if (*(t.screen for t in part), part[-1].next_screen) == attempt.pictures]
    return [[part[0].before, *(t.after for t in part)] for part in shown]


def wishes_of(app: str) -> dict[str, Aim]:
    """The aims to be trained on by all their wordings."""
    aims = (replace(aim, wording=i) for aim in aims_of(app, "train") for i in range(len(aim.goal.wordings)))
    return {sentence([aim]): aim for aim in aims}


def verdict_of(attempt: Attempt) -> Verdict:
    return parse_verdict(attempt.questions[0].reply)


def test_what_a_reply_says_of_walks_is_what_the_states_say(walks):
    verdicts, lengths = [], set()
    for walk in walks:
        app = walk[0].app
        wishes, taken, maker = (
            wishes_of(app),
            {task.instruction for task in test_tasks(app)},
            AttemptMaker(walk),
        )
        for seed in range(60):
            attempt = (maker.stretch if seed % 2 else maker.screen)(random.Random(seed))
            replies = {
                q.instruction: q.reply.split("\n")[1:] for q in attempt.questions if q.instruction != READING
            }
            assert not replies.keys() & taken
            lengths.add(len(attempt.pictures))
            labels = {
                text: (values, '"Correctness": true' in ruling) for text, (values, ruling) in replies.items()
            }
            verdicts += [correct for _, correct in labels.values()]
            single = [(wishes[text], label) for text, label in labels.items() if text in wishes]
            assert any(
                all((held([aim], states[-1]), reached(aim, states[-1])) == label for aim, label in single)
                for states in states_of(attempt, walk)
            )
            if len(attempt.pictures) > 1:  # the aim of an attempt did not hold before
                assert all(1 <= step < len(attempt.pictures) for step in verdict_of(attempt).redundant)
                aim = wishes[attempt.questions[0].instruction]
                assert not any(reached(aim, states[0]) for states in states_of(attempt, walk))
    assert 0.3 < sum(verdicts) / len(verdicts) < 0.55 and {1, 2, 3} <= lengths


def test_a_rollout_is_judged_by_the_check_and_the_script(walks):
    maker = AttemptMaker(walks[0])
    sampled = next(
        sampled for sampled in judge_tasks("algebra") if len(sampled[1].solution) == 3 and not sampled[1].ans
    )
    plans = [to_plan(step) for step in sampled[1].solution]
    shot = made_up().steps[0]

    def reply(plans: list[str], success: bool) -> str:
        steps = tuple(Step(shot.screenshot, plan, "", (Action.wait(),)) for plan in plans)
        played = replace(
            made_up(steps=steps, stop=StopReason.DONE, success=success), instruction=sampled[1].instruction
        )
        return maker.rollout(played, sampled, random.Random(0)).questions[0].reply

    def verdict(plans: list[str], success: bool) -> Verdict:
        return parse_verdict(reply(plans, success))

    assert verdict([*plans, "DONE"], True).clean
    assert verdict([plans[0], "Click 'x'.", *plans[1:], "DONE"], True).redundant == (2,)
    failed = verdict([plans[0], "Click 'x'.", "DONE"], False)
    assert not failed.correct and failed.first_error_step == 2
    assert verdict([plans[0], "DONE"], False).first_error_step == 2  # ended too early
    effects = reply([plans[0], "Click 'x'.", "DONE"], False).split("\n")[0]
    assert effects.split(" ") == [NOTHING] * 2  # one screen, unchanged, and DONE adds no picture


def test_of_a_step_taken_twice_the_last_one_counts():
    assert needless(["a", "b"], ["a", "b"]) == () and needless(["x"], ["a", "b"]) == ()
    assert needless(["a", "x", "a", "b"], ["a", "b"]) == (1, 2)
    assert needless(["a", "b", "x"], ["a", "b"]) == (3,)
    assert needless(["x", "y", "b"], ["a", "b"]) == (1, 2)  # solved another way


def test_a_reply_says_what_was_done_then_what_holds_then_rules(walks):
    maker = AttemptMaker(walks[0])
    sampled = next(
        sampled for sampled in judge_tasks("algebra") if [aim.goal.name for aim in sampled[0]] == ["plot"]
    )
    solved = next(
        attempt
        for seed in range(99)
        if verdict_of(attempt := maker.script(sampled, [sampled], random.Random(seed))).clean
    )
    (aim,), task = sampled
    effects, values, ruling = solved.questions[0].reply.split("\n")
    assert aim.word in values.split(", ")
    assert effects.startswith("Click ") and effects.endswith(f"Type '{aim.word}' and press Enter.")
    (row,) = solved.rulings  # of other questions the words do not tell what holds
    assert (
        row.given == f"{effects}\n" and row.reply == f"{values}\n{ruling}" and row.whole and not row.pictures
    )
    prompt = "".join(part["text"] for part in row.messages[0]["content"])
    assert prompt.startswith(to_plan(task.solution[0])) and f"DONE\n{task.instruction}" in prompt
    draw, rng = ruling_sampler(["algebra"], [[solved]]), random.Random(0)
    drawn = [draw(rng) for _ in range(12 * RULINGS)]  # sorted by length: all of a portion
    assert 0.3 < sum(row in solved.rulings for row in drawn) / len(drawn) < 0.7  # the others have other names


def test_with_other_names_an_attempt_is_the_same():
    ask = "Set the title to lab and show the labels and select 118."
    clicks = [f"Click '{name}'." for name in ("File", "Title", "View", "Labels", "118")]
    plans = (*clicks[:2], "Type 'talk' and press Enter.", *clicks[2:], "DONE")
    ruling = '{"Correctness": false, "Redundant": [], "First_Error_Step": 3}'
    attempt = Attempt(
        (b"",) * 7, (Question(ask, None, f"{' '.join(plans[:6])}\ntalk; 118\n{ruling}"),), plans
    )
    for seed in range(20):
        other = renamed(attempt, names("biochem"), random.Random(seed))
        (question,) = other.questions
        words = (
            question.instruction.removeprefix("Set the title to ")
            .removesuffix(".")
            .split(" and show the labels and select ")
        )
        effects, values, same = question.reply.split("\n")
        typed = other.plans[2].removeprefix("Type '").removesuffix("' and press Enter.")
        assert (
            same == ruling
            and effects == " ".join(other.plans[:6])
            and other.plans[5] == f"Click '{words[1]}'."
        )
        assert (
            values == f"{typed}; {words[1]}"
            and len({*words, typed}) == 3
            and {*words, typed} <= {*names("biochem")}
        )
    assert len({renamed(attempt, names("biochem"), random.Random(seed)).plans for seed in range(20)}) > 10
    question = replace(attempt, questions=(Question("What is the mass of furan?", "68", f"-\n68\n{ruling}"),))
    assert renamed(question, names("biochem"), random.Random(0)) is question


def test_further_questions_about_a_rollout_are_answered_by_its_states(walks):
    maker = AttemptMaker(walks[APPS.index("gis")])
    env = maker.env
    sampled = next(sampled for sampled in judge_tasks("gis") if len(sampled[0]) == 2 and not sampled[1].ans)
    env.reset(sampled[1])
    steps = []
    for step in sampled[1].solution:
        action = to_action(env.desk, step)
        steps.append(Step(screenshot(env.desk), to_plan(step), "", (action,)))
        env.step(action)
    state = env.desk.state()
    played = replace(
        made_up(steps=tuple(steps), stop=StopReason.STEP_LIMIT, success=True),
        instruction=sampled[1].instruction,
    )
    more = [
        q for seed in range(12) for q in maker.rollout(played, sampled, random.Random(seed)).questions[1:]
    ]
    wishes = wishes_of("gis")
    single = [q for q in more if q.instruction in wishes]
    assert single and not any(q.whole for q in single)
    for q in single:
        aim, (_, values, ruling) = wishes[q.instruction], q.reply.split("\n")
        assert (
            values == held([aim], state)
            and ruling == f'{{"Correctness": {"true" if reached(aim, state) else "false"}, '
        )


def test_attempts_by_script_are_labelled_by_the_check(walks):
    walk = walks[APPS.index("gis")]
    verdicts = [verdict_of(attempt) for attempt in labelled_attempts(walk, [], 40, seed=0)]
    assert {v.correct for v in verdicts} == {True, False} and any(v.clean for v in verdicts)


def test_the_judges_batches_are_of_one_kind_each(walks):
    walk = walks[APPS.index("gis")]
    source, rng = (
        judge_sampler([walk], [labelled_attempts(walk, [], 6, seed=0)], [text_attempts("gis", 9, 0)]),
        random.Random(0),
    )
    batches = [[source(rng) for _ in range(JUDGE_BATCH)] for _ in range(36)]
    shown = [{bool(row.pictures) for rows in batch for row in rows} for batch in batches]
    assert all(len(kinds) == 1 for kinds in shown) and sum(kinds == {False} for kinds in shown) == 12
    assert all(rows for batch in batches for rows in batch)
    assert "One batch in three is without pictures" in " ".join(judge_sampler.__doc__.split())  # 12 of 36


@pytest.mark.parametrize("app", APPS)
def test_attempts_in_words_are_labelled_by_the_check(app):
    attempts = text_attempts(app, 60, seed=0)
    assert [attempt.rulings for attempt in attempts] == [
        attempt.rulings for attempt in text_attempts(app, 60, seed=0)
    ]
    verdicts = [verdict_of(attempt) for attempt in attempts]
    assert 0.25 < sum(v.correct for v in verdicts) / 60 < 0.75
    assert any(v.clean for v in verdicts) and any(v.correct and v.redundant for v in verdicts)
    assert {task.instruction for task in test_tasks(app)}.isdisjoint(
        attempt.questions[0].instruction for attempt in attempts
    )
    for attempt in attempts:
        (ruling,) = attempt.rulings
        assert len(ruling.given.split("\n")[0]) <= len(" ".join(attempt.plans)) and not ruling.pictures
        assert attempt.plans[-1].split()[0] in ("DONE", "ANS")


def test_a_faultless_attempt_in_words_is_its_script():
    sampled = chain.from_iterable(tasks_by_size("algebra").values())
    tasks = {task.instruction: task for _, task in sampled}
    for attempt in text_attempts("algebra", 200, seed=1):
        task = tasks[attempt.questions[0].instruction]
        if list(attempt.plans[:-1]) == [to_plan(step) for step in task.solution] and not task.ans:
            assert verdict_of(attempt).clean, attempt
            return
    raise AssertionError("two hundred attempts and none by its script")


def test_rollouts_of_one_task_are_drawn_so_that_its_words_do_not_tell_the_verdict(walks):
    often, never = [task for _, task in judge_tasks("algebra") if not task.ans][:2]
    tries = [made_up(task_id=task.id, instruction=task.instruction, success=False) for task in (often, never)]
    failed = [replace(trajectory, run=run) for trajectory in tries for run in range(9)]
    solved = replace(tries[0], run=9, success=True)
    attempts = labelled_attempts(walks[0], [*failed, solved], 150, seed=0)
    played = [attempt for attempt in attempts if attempt.pictures == tuple(solved.screenshots)]
    verdicts = {
        task.id: [verdict_of(a).correct for a in played if a.questions[0].instruction == task.instruction]
        for task in (often, never)
    }
    assert not any(verdicts[never.id]) and len(verdicts[never.id]) > 5
    assert 0.2 < sum(verdicts[often.id]) / len(verdicts[often.id]) < 0.8
