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
    _compared,
    _word,
    told_attempts,
    told_rollouts,
)
from base_models.hindsight import held, script_verdict, wanted
from base_models.learning import item_of
from base_models.letters import processor
from base_models.packing import TOKEN
from base_models.rows import description
from base_models.rulings import (
    MISREAD,
    misread,
    page_rows,
    part_sampler,
    renamed,
    ruling_sampler,
    single_names,
)
from base_models.training_tasks import judge_tasks
from base_models.walks import by_goal, collect, opened, perform, unambiguous, window_of
from coda_lib.agent import ScriptAgent
from coda_lib.judge import parse_verdict
from coda_lib.models.reading import NOTHING, accounts, changed
from coda_lib.rollout import play
from coda_lib.task import test_tasks
from coda_lib.trajectory import decode_image
from sciencedesk.desk.elements import Element
from sciencedesk.script import action_of, find, to_plan
from sciencedesk.space import aims_of

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
    said = "Elevation 1240 m. Roads. Opacity 50. " * 40 + "Title abcdefghijklmnopqrstuvwxyz."
    line = "Roads? Roads yes; abc? abcdefghijklmnopqrstuvwxyz no"
    attempt = Told(("DONE",), (), said, None, (Asked("show the roads", f"{line}\n{{}}", True),))
    shares, found = set(), set()
    for seed in range(40):
        wrong = misread(attempt, Random(seed))
        assert wrong.plans == attempt.plans
        as_read = re.fullmatch(r"Roads\? (.*) yes; abc\? (.*) no\n\{\}", wrong.questions[0].reply).groups()
        assert as_read[0] in wrong.end and wrong.end.endswith(f" {as_read[1]}.")
        found.add(as_read[1])
        kept = sum(a == b for a, b in zip(wrong.end.split(), said.split(), strict=False))
        shares.add(wrong.end == said)
        assert wrong.end.count(" ") == said.count(" ") and kept >= 0
        assert abs(len(wrong.end) - len(said)) <= max(MISREAD) * len(said)
    assert shares == {True, False} and len(found) > 3


def test_names_change_alike_everywhere():
    asked = [Asked("show roads", 'Roads? Roads yes\n{"Correctness": true}', True),
             Asked("hide roads", "no Roads? Roads no\n{}", False)]  # fmt: skip
    attempt = Told(
        ("Click 'Roads'.", "DONE"), ("Roads: on. Geology.",), "Roads. Geology.", None, tuple(asked)
    )
    for seed in range(20):
        other = renamed(attempt, NAMES, Random(seed))
        first, second = other.questions
        (name,) = [name for name in NAMES if first.instruction == f"show {name}"]
        shown = name.capitalize()
        assert second.instruction == f"hide {name}" and second.reply == f"no {shown}? {shown} no\n{{}}"
        assert other.plans[0] == f"Click '{shown}'." and first.reply.startswith(f"{shown}? {shown} yes\n")
        assert other.changes[0].startswith(f"{shown}: on. ") and other.end.startswith(f"{shown}. ")
        assert len({word.strip(".") for word in other.end.split()}) == 2
    answered = Told((), (), "Roads.", "3", (Asked("How many?", "3? 3 yes\n{}", True),))
    assert renamed(answered, NAMES, Random(1)) == answered


def test_a_name_gives_way_to_one_of_its_kind_and_what_is_derived_keeps_its():
    names = ("3*x^2", "x^3", "7", "12", "roads", "geology", "sin(x)")
    derivative = Asked("plot the derivative of x^3", "3*x^2? 3*x^2 yes\n{}", True)
    attempt = Told(("Type '7'.",), (), "3*x^2. x^3. 7. Roads.", None, (derivative,))
    for seed in range(20):
        other = renamed(attempt, names, Random(seed))
        first, formula, number, word = other.end.removesuffix(".").split(". ")
        assert first == "3*x^2" and other.questions[0].reply == derivative.reply
        assert formula in ("x^3", "sin(x)") and number in ("7", "12") and word in ("Roads", "Geology")
        assert other.plans == (f"Type '{number}'.",) and other.questions[0].instruction.endswith(
            f" {formula}"
        )
    assert not {"in", "on", "the", "console", "plot"} & {*map(str.lower, single_names("algebra"))}


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
        tokens = row.pictures[0].width // TOKEN * (row.pictures[0].height // TOKEN)
        told = [row.reply[at : at + length] for at, length, *_ in row.read]
        assert f"{'. '.join(told)}." == row.reply
        assert all(max(seen) < tokens for _, _, seen, _ in row.read if seen)
        question = item_of([row]).questions[0]
        assert len(question.find) >= 0.9 * sum(
            len(text) for text, (_, _, seen, _) in zip(told, row.read, strict=True) if seen
        )
        sizes.add(row.pictures[0].size)
        texts.add(row.reply)
        assert row.messages[0]["content"][-1]["text"] == "What is on the screen?" and row.reply.endswith(".")
    assert (336, 252) in sizes and len(sizes) > 2 and len(texts) > 5


def test_pages_are_read_out_with_the_place_of_each_letter():
    rng, shown, whole = Random(5), 0, set()
    for _ in range(12):
        rows = page_rows([f"{name} {i}" for name in NAMES for i in range(9)], rng)
        assert len({row.pictures[0].size for row in rows}) == 1
        for row in rows:
            whole.add(row.whole)
            spell = item_of([row]).questions[0].spell
            assert 0.8 * len(row.letters) < len(spell) <= len(row.letters)  # some tokens have two letters
            assert {*map(len, spell.values())} == {1}
            of_names = {at + i: tokens for at, length, tokens, _ in row.read for i in range(length)}
            assert all(token in of_names[at] for at, token in row.letters)
            across = row.pictures[0].width // TOKEN
            starts = [dict(row.letters)[at] for at, *_ in row.read]
            assert [start // across for start in starts] == sorted(start // across for start in starts)
            shown += len(starts)
    assert shown > 100 and whole == {True, False}


def test_a_choice_that_is_on_is_copied_and_an_hour_is_no_number():
    assert _word("Radians").search("Console. Radians: on.") and not _word("10").search("Rise: 10:30")


def test_bodies_that_are_drawn_without_names_are_not_pointed_out():
    elements = [Element(name, role, (0, 0, 9, 9)) for name, role in
                (("Mars", "target"), ("30", "target"), ("Grid", "toggle"))]  # fmt: skip
    named = [
        [e.name for e in unambiguous(elements, state)]
        for state in (None, {"labels": True}, {"labels": False})
    ]
    assert named == [["Mars", "30", "Grid"], ["Mars", "30", "Grid"], ["30", "Grid"]]


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
    item = item_of(told[0].rows)
    decode = processor().tokenizer.decode
    for question in item.questions:
        for at, places in question.spell.items():
            seen = [item.shared[0][p] if p >= 0 else question.prompt[~p] for p in places]
            assert {*map(decode, ([token] for token in seen))} == {decode([question.reply[at + 1]])}
    owned = [p for question in item.questions for places in question.spell.values() for p in places]
    assert min(owned) < 0 <= max(owned)  # of the instructions, and of the account


def test_a_reply_says_of_a_list_what_was_asked_and_no_more_than_is_said():
    remove = by_goal("gis")["remove"][0]
    name = remove.checks[0]["value"]
    state = {"layers": ["One", name, "Two"]}
    assert held(remove, state) == name and held(remove, {"layers": ["One"]}) == NOTHING
    assert held(remove, state, brief=False) == f"One, {name}, Two"
    asked = wanted(remove)
    assert asked == f"no {name}"
    assert _compared(remove, asked, state, f"One. {name}.", False) == f"no {name}? {name} no"
    assert _compared(remove, asked, state, f"One. {name}2.", False) == f"no {name}? - no"
    assert _compared(remove, asked, {"layers": []}, "One.", True) == f"no {name}? - yes"
    light = next(
        aim for aim in aims_of("algebra", "train") if (aim.goal.name, aim.word) == ("theme", "light")
    )
    for said, found in (
        ("Console. Light theme: on.", "Light"),
        ("Axes on. Light theme", "-"),
        ("A light day", "light"),
    ):
        assert _compared(light, wanted(light), {"theme": "light"}, said, True) == f"light? {found} yes"
    date = next(aim for aim in aims_of("astron", "train") if aim.goal.name == "date")
    year, month, day = (condition["value"] for condition in date.checks)
    state, shown = {"year": year, "month": 4, "day": day}, f"{year}-04-{day:02d} 18 h"
    found = _compared(date, wanted(date), state, shown, False)
    assert found == f"{year}, {month}, {day}? {year}, 04, {day:02d} no"
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
            found = re.findall(r"\? ([^;?]+) (?:yes|no)(?:;|$)", asked.reply.partition("\n")[0])
            assert found and all(
                part in said for parts in found for part in parts.split(", ") if len(part) > 1
            )
        assert asking.draw(step.before, "", rng) == []
