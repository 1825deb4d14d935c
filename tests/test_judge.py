"""The judge: verdicts, unanimity, and that a reply which is no verdict is neither a zero nor a yes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import NO, YES, made_up, pictures_of, words_of

from coda_lib.judge import (
    SAMPLING,
    VOTES,
    Judge,
    Verdict,
    VerdictError,
    format_verdict,
    judge_messages,
    parse_verdict,
    positive_steps,
    score,
    unanimous,
)
from coda_lib.models.chat import Message, ReplayModel, Sampling
from coda_lib.trajectory import StopReason, decode_image

THREE = '"Redundant": [], "First_Error_Step": null'
UNCLEAN = format_verdict(Verdict(True, (2,)))
NONSENSE = "I would say yes."


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (f'{{"Correctness": true, {THREE}}}', Verdict(True)),
        (f'{{"Correctness": false, {THREE}}}', Verdict(False)),
        (f'```json\n{{"Correctness": true, {THREE}}}\n```', Verdict(True)),
        (f'My verdict is:\n{{"Correctness": true,\n {THREE}}}\nThat is all.', Verdict(True)),
        ('{"Correctness": true, "Redundant": [2, 3], "First_Error_Step": null}', Verdict(True, (2, 3))),
        ('{"Correctness": false, "Redundant": [], "First_Error_Step": 4}', Verdict(False, (), 4)),
        ('{"Correctness": true, "Redundant": null, "First_Error_Step": null}', Verdict(True)),
        (
            '{"Correctness": false, "Redundant": [1], "Optimized": "click once", "First_Error_Step": 2, '
            '"Error_Type": "wrong {menu}", "Correct_Action": ""}',
            Verdict(False, (1,), 2, "click once", "wrong {menu}", None),
        ),
        (f'{{"Correctness": true, {THREE}, "Confidence": NaN}}', Verdict(True)),
    ],
)
def test_verdicts_are_read(reply, verdict):
    assert parse_verdict(reply) == verdict


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        ("", "no JSON"), (NONSENSE, "no JSON"), ("true", "no JSON"), ("}{", "no JSON"), ("{", "no JSON"),
        ('{"Correctness": true, "Redundant": [', "no JSON"), ("{Correctness: true}", "not JSON"),
        (f"{{'Correctness': True, {THREE}}}", "not JSON"), (f'{{"Correctness": True, {THREE}}}', "not JSON"),
        (f'{{"Correctness": true, {THREE},}}', "not JSON"),
        (f'{{"Correctness": true, {THREE}}} {{"Correctness": false, {THREE}}}', "not JSON"),
        ("{}", "Correctness"), (f"{{{THREE}}}", "Correctness"), (f'{{"correctness": true, {THREE}}}', "Correctness"),
        (f'{{"Correctness": "true", {THREE}}}', "Correctness"), (f'{{"Correctness": 1, {THREE}}}', "Correctness"),
        (f'{{"Correctness": null, {THREE}}}', "Correctness"), (f'{{"Correctness": NaN, {THREE}}}', "Correctness"),
        ('{"Correctness": true}', "no First_Error_Step and no Redundant"),
        ('{"Correctness": true, "Redundant": []}', "no First_Error_Step"),
        ('{"Correctness": true, "First_Error_Step": null}', "no Redundant"),
        ('{"Correctness": true, "Redundant": 2, "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": "2", "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": {}, "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": false, "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": "", "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": 0, "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": [0], "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": [1, "2"], "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": [true], "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": [NaN], "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": [[1]], "First_Error_Step": null}', "Redundant"),
        ('{"Correctness": true, "Redundant": [], "First_Error_Step": 0}', "First_Error_Step"),
        ('{"Correctness": true, "Redundant": [], "First_Error_Step": -1}', "First_Error_Step"),
        ('{"Correctness": true, "Redundant": [], "First_Error_Step": 1.5}', "First_Error_Step"),
        ('{"Correctness": true, "Redundant": [], "First_Error_Step": NaN}', "First_Error_Step"),
        ('{"Correctness": true, "Redundant": [], "First_Error_Step": Infinity}', "First_Error_Step"),
        ('{"Correctness": true, "Redundant": [], "First_Error_Step": true}', "First_Error_Step"),
        ('{"Correctness": true, "Redundant": [], "First_Error_Step": "none"}', "First_Error_Step"),
        ('{"Correctness": true, "Redundant": [], "First_Error_Step": []}', "First_Error_Step"),
        ('{"Correctness": true, "Redundant": [], "First_Error_Step": ' + "9" * 5000 + "}", "not JSON"),
        ('{"Correctness": true, "Redundant": ' + "[" * 100_000 + "]" * 100_000 + "}", "not JSON"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_verdict_is_an_error_that_says_why(reply, named):
    with pytest.raises(VerdictError, match=named) as caught:
        parse_verdict(reply)
    assert len(str(caught.value)) < 250


@given(
    st.text()
    | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5).map(json.dumps)
)
def test_no_reply_breaks_the_reader(reply):
    for text in (reply, f"{{{reply}}}", f'{{"Correctness": true, "Redundant": {reply}, "First_Error_Step": {reply}}}'):
        try:
            assert isinstance(parse_verdict(text), Verdict)
        except VerdictError:
            pass


steps = st.integers(1, 99)
words = st.none() | st.text(min_size=1)


@given(st.builds(Verdict, st.booleans(), st.lists(steps).map(tuple), st.none() | steps, words, words, words))
def test_a_verdict_survives_its_text(verdict):
    assert parse_verdict(format_verdict(verdict)) == verdict
    brief = parse_verdict(format_verdict(verdict, details=False))
    assert brief == Verdict(verdict.correct, verdict.redundant, verdict.first_error_step)


@pytest.mark.parametrize(
    ("verdict", "clean"),
    [
        (Verdict(True), True), (Verdict(True, optimized="shorter"), True), (Verdict(True, (1,)), False),
        (Verdict(True, (), 1), False), (Verdict(True, (2,), 2), False), (Verdict(False), False),
        (Verdict(False, (1,), 1), False),
    ],
)  # fmt: skip
def test_clean_is_correct_with_nothing_redundant_and_no_error(verdict, clean):
    assert verdict.clean is clean


# ---- votes -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("replies", "success", "clean", "invalid"),
    [
        ((YES,) * 4, True, True, 0),
        ((YES, YES, YES, NO), False, False, 0),
        ((NO, YES, YES, YES), False, False, 0),
        ((NO,) * 4, False, False, 0),
        ((YES, YES, YES, UNCLEAN), True, False, 0),
        ((UNCLEAN,) * 4, True, False, 0),
        ((YES, YES, YES, NONSENSE), False, False, 1),
        ((NONSENSE, "", "{}", YES), False, False, 3),
        ((NONSENSE,) * 4, False, False, 4),
        ((NO, NO, NONSENSE, NO), False, False, 1),
        ((YES,), True, True, 0),
    ],
)
def test_only_all_votes_together_are_a_yes(replies, success, clean, invalid):
    opinion = unanimous(replies)
    assert (opinion.success, opinion.clean, opinion.invalid) == (success, clean, invalid)


def test_no_vote_is_no_opinion():
    with pytest.raises(ValueError, match="without a vote"):
        unanimous(())


def test_the_steps_of_a_clean_trajectory_are_positive_and_of_no_other():
    assert positive_steps(made_up()) == (0, 1)
    assert positive_steps(made_up(success=False)) == (0, 1)  # the environment's own check has no say
    for verdicts in ((YES, YES, YES, UNCLEAN), (YES, YES, YES, NO), (YES, YES, YES, NONSENSE)):
        assert positive_steps(made_up(verdicts=verdicts)) == ()
    whole = made_up()
    unread = [type(step)(step.screenshot, step.plan, "??", (), "no action") for step in whole.steps]
    assert positive_steps(made_up(steps=(whole.steps[0], unread[1]))) == ()
    with pytest.raises(ValueError, match="without a vote"):
        positive_steps(made_up(verdicts=()))


class Recorder(ReplayModel):
    def __init__(self, replies: Sequence[str]):
        super().__init__(replies)
        self.calls: list[tuple[list[list[Message]], Sampling, int]] = []

    def generate(self, conversations: list[list[Message]], sampling: Sampling, seed: int) -> list[str]:
        self.calls.append((list(conversations), sampling, seed))
        return super().generate(conversations, sampling, seed)


def test_four_independent_votes_as_in_the_paper():
    model = Recorder([f"vote {vote} on {place}" for vote in range(4) for place in range(3)])
    asked = [made_up(i, verdicts=("old",)) for i in range(3)]
    judged = Judge(model).vote(asked, 5)
    assert [t.verdicts for t in judged] == [tuple(f"vote {vote} on {place}" for vote in range(4)) for place in range(3)]
    assert [t.task_id for t in judged] == [t.task_id for t in asked] and asked[0].verdicts == ("old",)
    assert len(model.calls) == VOTES == 4 and len({seed for _, _, seed in model.calls}) == 4
    assert {(s.temperature, s.top_p) for _, s, _ in model.calls} == {(1.0, 0.6)} and SAMPLING.temperature == 1.0
    assert Judge(Recorder(["x"] * 9)).vote([], 0) == []


def test_who_is_refused_once_need_not_be_asked_again():
    def reply(message: list[Message]) -> str:
        return next(said[text] for text in said if text in str(message))

    said = {"(1)": YES, "(2)": NO, "(3)": NONSENSE}
    asked = [made_up(i, verdicts=()) for i in (1, 2, 3)]
    model = Recorder(reply)
    judged = Judge(model, stop_at_no=True).vote(asked, 5)
    assert [t.verdicts for t in judged] == [(YES,) * 4, (NO,), (NONSENSE,)]
    assert [len(conversations) for conversations, _, _ in model.calls] == [3, 1, 1, 1]
    patient = Judge(Recorder(reply)).vote(asked, 5)
    assert [unanimous(t.verdicts).success for t in judged] == [unanimous(t.verdicts).success for t in patient]


def test_the_number_of_votes_and_the_sampling_can_be_set():
    model = Recorder([YES, YES])
    (judged,) = Judge(model, Sampling(0.5, 0.9, 7), votes=2).vote([made_up()], 0)
    assert judged.verdicts == (YES, YES) and model.calls[0][1] == Sampling(0.5, 0.9, 7)


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_the_judge_sees_all_screens_in_order_the_task_and_the_answer(prompts):
    model = Recorder([NO] * 4)
    asked = made_up(2, stop=StopReason.STEP_LIMIT, answer="12 cm")
    Judge(model, prompts=prompts).vote([asked], 0)
    ((conversation,), _, _) = model.calls[0]
    shown = [picture.tobytes() for picture in pictures_of(conversation)]
    assert shown == [decode_image(png).tobytes() for png in asked.screenshots] and len(shown) == 3
    assert asked.instruction in words_of(conversation) and "12 cm" in words_of(conversation)
    told = [step.plan for step in asked.steps]
    if prompts == "compact":  # the tiny judge is told the plans, each after the screen on which it was made
        (message,) = conversation
        kinds = [part["type"] if part["type"] == "image" else part["text"] for part in message["content"]]
        assert kinds[:4] == ["image", told[0], "image", told[1]] and kinds[4] == "image"
    else:
        assert not any(plan in words_of(conversation) for plan in told)
    assert "nswer given" not in words_of(judge_messages("x", [], None, prompts))


# ---- how good the judge is -------------------------------------------------------------------------------------------
def test_a_judge_is_scored_against_the_environments_check():
    cases = [
        (YES, True), (YES, True), (YES, False), (NO, True), (NO, False), (NONSENSE, True), (NONSENSE, False),
        (UNCLEAN, True),
    ]  # fmt: skip
    found = score([made_up(i, verdicts=(YES, YES, YES, last), success=truth) for i, (last, truth) in enumerate(cases)])
    assert (found.trajectories, found.successes, found.true_positive, found.false_positive) == (8, 5, 3, 1)
    assert (found.precision, found.recall, found.invalid_votes) == (3 / 4, 3 / 5, 2)


def test_precision_and_recall_are_undefined_where_there_is_nothing_to_divide_by():
    silent = score([made_up(verdicts=(NO,), success=True)])
    assert silent.precision is None and silent.recall == 0
    hopeless = score([made_up(verdicts=(YES,), success=False)])
    assert hopeless.precision == 0 and hopeless.recall is None
    nothing = score([])
    assert (nothing.precision, nothing.recall, nothing.trajectories) == (None, None, 0)


def test_an_episode_that_the_environment_broke_does_not_count():
    broken = made_up(1, verdicts=(YES, NONSENSE), success=None, stop=StopReason.ENVIRONMENT_ERROR)
    assert score([made_up(), broken]) == score([made_up()])
