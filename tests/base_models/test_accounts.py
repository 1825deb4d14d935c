"""Attempts as a judge is shown them, what is asked about them, and what the judge replies."""

from __future__ import annotations

import re
from random import Random

import pytest
from tiny_models import words_of

from base_models.accounts import Witness, ruling_sampler, told_attempts, told_rollouts, told_screens
from base_models.hindsight import held, script_verdict, wanted
from base_models.learning import item_of
from base_models.letters import processor
from base_models.packing import TOKEN
from base_models.rows import description
from base_models.rulings import Asked, Part, StateQuestions, _is_seen, _word, comparison
from base_models.seeing import Reader
from base_models.training_tasks import judge_tasks
from base_models.walks import by_goal, opened, perform, unambiguous, window_of
from coda_lib.agent import ScriptAgent
from coda_lib.judge import Verdict, _contradicts, account_messages, parse_verdict
from coda_lib.models.reading import NOTHING, changed, pictured
from coda_lib.rollout import play
from coda_lib.task import test_tasks
from coda_lib.trajectory import decode_image, encode_image
from sciencedesk.desk.elements import Element
from sciencedesk.script import action_of, find, to_plan
from sciencedesk.space import FEW, aims_of


@pytest.fixture(scope="module")
def told(walks):
    return [
        told for walk in walks if walk[0].app in ("gis", "algebra") for told in told_attempts(walk, 35, 1)
    ]


def test_attempts_show_each_step_and_the_verdict_is_the_applications(told):
    for attempt in told:
        assert len(attempt.changes) == len(attempt.plans) - 1
        rows = attempt.rows
        for question, row in zip(attempt.questions, rows, strict=True):
            *before, asked = row.messages[0]["content"]
            said = "".join(part.get("text", "") for part in before)
            assert all(plan in said for plan in attempt.plans) and question.instruction in asked["text"]
            assert question.instruction not in said and said.endswith("End: ")
            assert f'"Correctness": {str(question.success).lower()}' in row.reply
        seen = [png for png in (*attempt.changes, attempt.end) if png]
        assert [encode_image(picture) for picture in rows[0].pictures] == seen
        assert parse_verdict(rows[0].reply).correct == attempt.success and rows[0].whole
        assert not any(row.whole for row in rows[1:])
        tokens = sum(picture.width * picture.height // TOKEN**2 for picture in rows[0].pictures)
        assert attempt.length == tokens + sum(map(len, attempt.plans))
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


def test_a_witness_keeps_what_a_judge_is_shown():
    with opened("gis") as env:
        env.reset(test_tasks("gis")[0])
        desk = window_of(env)
        witness = Witness(desk)
        step = perform(desk, {"click": "View"})
        witness.look()
        before, after = decode_image(step.screen), decode_image(step.next_screen)
        left, top, right, bottom = box = changed(before, after)
        middles = [(e, e.box[0] + e.box[2] / 2, e.box[1] + e.box[3] / 2) for e in desk.elements()]
        inside = [e for e, x, y in middles if left <= x < right and top <= y < bottom]
        assert witness.changes == [Part(encode_image(after.crop(box)), box, inside)]
        assert witness.end == Part(encode_image(after), (0, 0, *after.size), desk.elements())
        assert witness.shown == [*witness.changes, witness.end]
        desk.perform(step.action)
        witness.look()
        perform(desk, {"press": "esc"})
        witness.look()
        perform(desk, {"press": "esc"})
        witness.look()
        assert witness.changes[-1] is None and None not in witness.shown


def test_rollouts_are_told_as_they_were_played(walks):
    """Played by a script: what each step changed, and what the application's check said."""
    tasks = [sampled for sampled in judge_tasks("gis") if sampled[1].grade == "A" and not sampled[1].ans][:3]
    with opened("gis") as env:

        def read(step, _):
            return to_plan(step), (action_of(step, lambda name: find(env.elements(), name).center),)

        agent = ScriptAgent({task.instruction: task.solution for _, task in tasks}, read)
        rollouts = [play(agent, env, task, 0, 0)[0] for _, task in tasks]
    (walk,) = [walk for walk in walks if walk[0].app == "gis"]
    made = told_rollouts(walk, rollouts, tasks, lambda task, run: task)
    for told, rollout in zip(made, rollouts, strict=True):
        asked = told.questions[0]
        assert (
            told.success and parse_verdict(asked.reply).correct and asked.instruction == rollout.instruction
        )
        assert told.plans == tuple(step.plan for step in rollout.steps)
        assert len(told.changes) == len(told.plans) - 1
        (account,) = pictured([rollout])
        assert told.account == account and told.rows[0].messages == account_messages(
            rollout.instruction, told.plans, account, rollout.answer, "compact"
        )


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


def test_a_batch_of_rulings_has_more_attempts_the_shorter_they_are(told, walks):
    screens = [told for walk in walks for told in told_screens(walk, 20, 1)]
    assert screens and all(one.plans == ("DONE",) and not one.changes for one in screens)
    draw, rng = ruling_sampler([told, screens], 2400, Reader()), Random(1)
    batches = [draw(rng) for _ in range(40)]
    alone = [len(batch[0][0].pictures) == 1 and "DONE" in words_of(batch[0][0].messages) for batch in batches]
    assert 5 < sum(alone) < 39
    sizes = [(len(batch), sum(len(rows[0].pictures) for rows in batch) / len(batch)) for batch in batches]
    few, many = ([shown for size, shown in sizes if (size > 3) is more] for more in (False, True))
    assert few and many and sum(few) / len(few) > 1.5 * sum(many) / len(many)
    rows = [row for batch in batches for rows in batch for row in rows]
    assert all('"Correctness"' in row.reply for row in rows) and len({row.reply for row in rows}) > 20


def test_what_is_found_is_seen_where_a_reply_says_so_and_what_is_wanted_is_copied_from_the_task(told):
    """In a picture that has it; the end's, if that has it too."""
    found = copied = 0
    for attempt in told:
        for question, row in zip(attempt.questions, attempt.rows, strict=True):
            line, text = question.reply.partition("\n")[0], row.messages[-1]["content"][-1]["text"]
            for begin, length, tokens, number in row.read:
                picture = row.pictures[number]
                assert all(0 <= token < picture.width * picture.height // TOKEN**2 for token in tokens)
                assert re.search(rf"\? [^?]*{re.escape(line[begin : begin + length])}", line)
                found += bool(tokens)
            for in_reply, in_text, length in row.copied:
                assert row.reply[in_reply : in_reply + length] == text[in_text : in_text + length]
                copied += 1
    assert found > len(told) and copied > len(told)
    item = item_of(told[0].rows)
    decode = processor().tokenizer.decode
    for question in item.questions:
        for at, places in question.spell.items():
            own = {decode([question.prompt[~p]]) for p in places if p < 0}
            assert own <= {decode([question.reply[at + 1]])}


def test_what_is_found_in_a_changed_part_alone_is_seen_there():
    parts = [Part(b"", (84, 84, 168, 168), [Element("Roads", "row", (90, 86, 60, 16))]),
             Part(b"", (0, 0, 336, 252), [Element("Peaks", "row", (10, 20, 60, 20))])]  # fmt: skip
    verdict = Verdict(correct=True)
    (read,) = Asked.about("show roads", ["Roads? Roads yes"], verdict, parts).read
    assert read == (7, 5, (0, 1, 2, 3), -2)
    (read,) = Asked.about("show peaks", ["Peaks? Peaks yes"], verdict, parts).read
    assert read[:2] == (7, 5) and read[3] == -1
    assert not Asked.about("hide roads", ["no Roads? - yes"], verdict, parts).read


def test_a_reply_says_of_a_list_what_is_most_like_what_is_wanted_and_no_more_than_is_said():
    remove = by_goal("gis")["remove"][0]
    name = remove.checks[0]["value"]
    like = f"{name}2"
    assert held(remove, {"layers": ["One", name, like]}) == name and held(remove, {"layers": []}) == NOTHING
    asked = wanted(remove)
    assert asked == f"no {name}" and held(remove, {"layers": ["One", like]}) == like
    assert comparison(remove, asked, {"layers": [name]}, f"Two. {name}.", False) == f"no {name}? {name} no"
    assert comparison(remove, asked, {"layers": [like]}, f"Two. {like}.", True) == f"no {name}? {like} yes"
    assert comparison(remove, asked, {"layers": [like]}, "Two.", True) == f"no {name}? - yes"
    order = by_goal("gis")["order"][0]
    above, below = order.checks[0]["value"]
    for state, holds in (([above, "Two", below], True), ([below, above], False)):
        found = ", ".join(one for one in state if one != "Two")
        said = f"{above}. {below}."
        reply = comparison(order, wanted(order), {"layers": state}, said, holds)
        assert reply == f"{above}, {below}? {found} {'yes' if holds else 'no'}"
        assert bool(_contradicts(reply)) != holds
    forget = by_goal("algebra")["forget"][0]
    state = {"variables": {forget.word: 3, "zeta": 4}}
    assert wanted(forget) == f"no {forget.word}" and held(forget, state) == forget.word
    assert held(forget, {"variables": {"zeta": 4}}) == "zeta"
    row = by_goal("algebra")["evaluate"][0]
    assert held(row, {"console": [[row.word, "2"], ["10/7", "1.43"]]}) == row.word


def test_a_choice_is_told_in_any_case_and_asked_about_seldom_where_no_text_says_it():
    light = next(
        aim for aim in aims_of("algebra", "train") if (aim.goal.name, aim.word) == ("theme", "light")
    )
    assert comparison(light, wanted(light), {"theme": "light"}, "Axes on.", True) == "light? light yes"
    legend = by_goal("algebra")["legend"][0]
    assert not _is_seen(legend, {"legend": True}, "Axes on.")  # another thing's
    tab = by_goal("algebra")["tab"][0]
    assert _is_seen(tab, {"tab": tab.word}, f"{tab.word}. 3") and not _is_seen(
        tab, {"tab": tab.word}, "Plots."
    )


def test_months_are_said_with_two_digits_and_a_word_is_none_of_another():
    date = by_goal("astron")["date"][0]
    year, month, day = (condition["value"] for condition in date.checks)
    state, shown = {"year": year, "month": 4, "day": day}, f"{year}-04-{day:02d} 18 h"
    found = comparison(date, wanted(date), state, shown, False)
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


def test_questions_are_answered_by_what_is_seen(walks):
    walk = next(walk for walk in walks if walk[0].app == "gis")
    asking, rng = StateQuestions(walk), Random(2)
    choices = {
        word for aim in aims_of("gis", "train") if len(aim.goal.values) < FEW for word in aim.goal.values
    }
    for step in walk[::10]:
        said = description(step.elements)
        for asked in asking.draw(step.before, [Part(b"", (0, 0, 336, 252), step.elements)], rng):
            found = re.findall(r"\? ([^;?]+) (?:yes|no)(?:;|$)", asked.reply.partition("\n")[0])
            assert found and all(
                part in said for parts in found if parts not in choices for part in parts.split(", ")
            )
        for asked in asking.draw(step.before, [Part(b"", (0, 0, 336, 252), [])], rng):
            said_of_all = re.findall(r"\? ([^;?]+) (?:yes|no)(?:;|$)", asked.reply.partition("\n")[0])
            assert {*said_of_all} <= choices  # may be seen by their effects
