"""Attempts in words: what a reader would see of them, and what the judge replies."""

from __future__ import annotations

import re
from random import Random

import pytest

from base_models.accounts import (
    Asked,
    StateQuestions,
    Told,
    Witness,
    _reply,
    _word,
    told_attempts,
    told_rollouts,
)
from base_models.hindsight import held, script_verdict
from base_models.learning import item_of
from base_models.letters import processor
from base_models.rows import description
from base_models.rulings import MISREAD, misread, part_sampler, renamed, ruling_sampler
from base_models.training_tasks import judge_tasks
from base_models.walks import by_goal, collect, opened, perform, window_of
from coda_lib.agent import ScriptAgent
from coda_lib.judge import Verdict, parse_verdict
from coda_lib.models.reading import NOTHING, accounts, changed
from coda_lib.rollout import play
from coda_lib.task import test_tasks
from coda_lib.trajectory import decode_image
from sciencedesk.script import action_of, find, to_plan

NAMES = ("elevation", "geology", "roads", "mizar", "traffic")


@pytest.fixture(scope="module")
def told(walks):
    return [
        told for walk in walks if walk[0].app in ("gis", "algebra") for told in told_attempts(walk, 25, 1)
    ]


def test_attempts_tell_each_step_and_the_verdict_is_the_applications(told):
    for attempt in told:
        assert len(attempt.changes) == len(attempt.plans) - 1
        rows = attempt.rows
        for question, row in zip(attempt.questions, rows, strict=True):
            text = row.messages[0]["content"][0]["text"]
            assert all(plan in text for plan in attempt.plans) and question.instruction in text
            assert text.index(f"End: {attempt.end}") < text.rindex(question.instruction)
            assert f'"Correctness": {str(question.success).lower()}' in row.reply
        assert parse_verdict(rows[0].reply).correct == attempt.success and rows[0].whole
        assert not any(row.whole for row in rows[1:])
    assert 0.15 < sum(attempt.success for attempt in told) / len(told) < 0.85
    assert {"DONE"} < {attempt.plans[-1] for attempt in told} or any(a.answer for a in told)
    assert len({attempt.rows[0].reply for attempt in told}) > 10


def test_an_attempt_has_more_questions_and_half_of_the_answers_are_yes(told):
    more = [question for attempt in told for question in attempt.questions[1:]]
    assert len(more) > 2 * len(told)
    assert 0.35 < sum(question.success for question in more) / len(more) < 0.65
    for attempt in told:
        asked = [question.instruction for question in attempt.questions]
        assert len({*asked}) == len(asked)


def test_a_witness_tells_what_a_reader_could_see():
    with opened("gis") as env:
        env.reset(test_tasks("gis")[0])
        desk = window_of(env)
        witness = Witness(desk)
        step = perform(desk, {"click": "View"})
        witness.look()
        before, after = decode_image(step.screen), decode_image(step.next_screen)
        left, top, right, bottom = changed(before, after)
        middles = [(e, e.box[0] + e.box[2] / 2, e.box[1] + e.box[3] / 2) for e in desk.elements()]
        shown = [e for e, x, y in middles if left <= x < right and top <= y < bottom]
        assert witness.changes == [description(shown)]
        assert witness.within() == description(desk.elements())
        desk.perform(step.action)
        witness.look()
        perform(desk, {"press": "esc"})
        witness.look()
        perform(desk, {"press": "esc"})
        witness.look()
        assert witness.changes[-1] == NOTHING


def test_letters_are_misread_at_the_drawn_share_and_nothing_else_changes():
    said = "Elevation 1240 m. Roads. Opacity 50. " * 40
    attempt = Told(("DONE",), (), said, None, (Asked("show the roads", "on\n{}", True),))
    shares = set()
    for seed in range(40):
        wrong = misread(attempt, Random(seed))
        assert (wrong.questions, wrong.plans) == (attempt.questions, attempt.plans)
        kept = sum(a == b for a, b in zip(wrong.end.split(), said.split(), strict=False))
        shares.add(wrong.end == said)
        assert wrong.end.count(" ") == said.count(" ") and kept >= 0
        assert abs(len(wrong.end) - len(said)) <= max(MISREAD) * len(said)
    assert shares == {True, False}


def test_names_change_alike_everywhere():
    asked = [Asked("show roads", 'Roads\n{"Correctness": true}', True), Asked("hide roads", "-\n{}", False)]
    attempt = Told(
        ("Click 'Roads'.", "DONE"), ("Roads: on. Geology.",), "Roads. Geology.", None, tuple(asked)
    )
    for seed in range(20):
        other = renamed(attempt, NAMES, Random(seed))
        first, second = other.questions
        (name,) = [name for name in NAMES if first.instruction == f"show {name}"]
        assert second.instruction == f"hide {name}" and second.reply == "-\n{}"
        shown = name.capitalize()
        assert other.plans[0] == f"Click '{shown}'." and first.reply.startswith(f"{shown}\n")
        assert other.changes[0].startswith(f"{shown}: on. ") and other.end.startswith(f"{shown}. ")
        assert len({word.strip(".") for word in other.end.split()}) == 2
    answered = Told((), (), "Roads.", "3", (Asked("How many?", "3\n{}", True),))
    assert renamed(answered, NAMES, Random(1)) == answered


def test_rollouts_are_told_as_they_were_played(walks):
    """Played by a script: what each step changed, and what the application's check said."""
    tasks = [sampled for sampled in judge_tasks("gis") if sampled[1].grade == "A" and not sampled[1].ans][:3]
    with opened("gis") as env:

        def read(step, _):
            return to_plan(step), (action_of(step, lambda name: find(env.elements(), name).center),)

        agent = ScriptAgent({task.instruction: task.solution for _, task in tasks}, read)
        rollouts = [play(agent, env, task, 0, 0)[0] for _, task in tasks]
    (walk,) = [walk for walk in walks if walk[0].app == "gis"]
    for told, rollout in zip(told_rollouts(walk, rollouts, tasks), rollouts, strict=True):
        asked = told.questions[0]
        assert (
            told.success and parse_verdict(asked.reply).correct and asked.instruction == rollout.instruction
        )
        assert told.plans == tuple(step.plan for step in rollout.steps)
        account = accounts(lambda pictures: [f"{p.size}" for p in pictures], [rollout])[0]
        assert len(told.changes) == len(account.changes) == len(told.plans) - 1
        assert [c == NOTHING for c in told.changes] == [c == NOTHING for c in account.changes]
        assert told.end != NOTHING


def test_parts_of_screens_are_read_out_as_a_reader_gets_them():
    walk = collect("gis", 40, 3)
    draw, rng = part_sampler([walk]), Random(1)
    sizes, texts = set(), set()
    for _ in range(60):
        row = draw(rng)
        sizes.add(row.pictures[0].size)
        texts.add(row.reply)
        assert row.messages[0]["content"][-1]["text"] == "What is on the screen?" and row.reply.endswith(".")
    assert (336, 252) in sizes and len(sizes) > 2 and len(texts) > 5


def texts_of(rows):
    return [row.messages[-1]["content"][0]["text"] for row in rows]


def test_a_batch_of_rulings_has_more_attempts_the_shorter_they_are_or_single_screens(told, walks):
    chosen = [walk for walk in walks if walk[0].app in ("gis", "algebra")]
    draw, rng = ruling_sampler(chosen, [told[:25], told[25:]], 1500), Random(1)
    batches = [draw(rng) for _ in range(20)]
    letters = [[sum(map(len, texts_of(rows[:1]))) for rows in batch] for batch in batches]
    few, many = ([sum(of) / len(of) for of in letters if (len(of) > 3) is more] for more in (False, True))
    assert sum(few) / len(few) > 1.5 * sum(many) / len(many)
    rows = [row for batch in batches for rows in batch for row in rows]
    assert all('"Correctness"' in row.reply and not row.pictures for row in rows)
    assert len({row.reply for row in rows}) > 20


def test_what_a_reply_copies_stands_in_the_account(told):
    copied = 0
    for row in (row for attempt in told for row in attempt.rows):
        text = row.messages[-1]["content"][0]["text"]
        for in_reply, in_text, length in row.copied:
            assert row.reply[in_reply : in_reply + length] == text[in_text : in_text + length]
            copied += 1
    assert copied > len(told)
    item = item_of(told[0].rows, None)
    decode = processor().tokenizer.decode
    for question in item.questions:
        for at, places in question.spell.items():
            assert {decode([item.shared[0][place]]) for place in places} == {decode([question.reply[at + 1]])}


def test_a_reply_says_of_a_list_what_was_asked_and_no_more_than_is_said():
    remove = by_goal("gis")["remove"][0]
    name = remove.checks[0]["value"]
    state = {"layers": ["One", name, "Two"]}
    assert held([remove], state) == name and held([remove], {"layers": ["One"]}) == NOTHING
    assert held([remove], state, brief=False) == f"One, {name}, Two"
    assert _reply([remove], state, f"One. {name}.", Verdict(False)).startswith(f"{name}\n")
    assert _reply([remove], state, f"One. {name}2.", Verdict(False)).startswith("-\n")
    assert (
        not _word("x^2").search("2*x^2. x^2-1")
        and not _word("30").search("30.5")
        and _word("30").search("30.")
    )


def test_the_end_of_a_solved_attempt_is_not_needless():
    task = next(task for _, task in judge_tasks("gis") if task.ans is None)
    script = [*map(to_plan, task.solution), "DONE"]
    assert script_verdict(task, ["Click 'Help'.", *script], True).redundant == (1,)
    assert script_verdict(task, script, True).clean


def test_questions_are_answered_by_what_is_said(walks):
    walk = next(walk for walk in walks if walk[0].app == "gis")
    asking, rng = StateQuestions(walk), Random(2)
    for step in walk[::10]:
        said = description(step.elements)
        for asked in asking.draw(step.before, said, rng):
            line = asked.reply.partition("\n")[0]
            assert all(part in said for part in re.split("[;,] ", line) if len(part) > 1)
        assert asking.draw(step.before, "", rng) == []
