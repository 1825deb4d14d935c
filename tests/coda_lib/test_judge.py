"""The judge: verdicts, voting rules, and that a reply without a verdict is neither a zero nor a yes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import NO, RULE, YES, made_up, pictures_of, words_of

from coda_lib.config import load_profile, profile_names
from coda_lib.errors import UserError
from coda_lib.judge import (
    SAMPLING,
    VOTES,
    Judge,
    JudgeScore,
    Rule,
    Verdict,
    VerdictError,
    format_verdict,
    judge_messages,
    parse_verdict,
    positive_steps,
    read_verdict,
    score,
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
        ("{}", "Correctness"), (f"{{{THREE}}}", "Correctness"), (f'{{"correctness": true, {THREE}}}',
         "Correctness"),
        (f'{{"Correctness": "true", {THREE}}}', "Correctness"), (f'{{"Correctness": 1, {THREE}}}',
         "Correctness"),
        (f'{{"Correctness": null, {THREE}}}', "Correctness"), (f'{{"Correctness": NaN, {THREE}}}',
         "Correctness"),
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
    assert len(str(caught.value)) < 250 and read_verdict(reply) is None


@pytest.mark.parametrize(
    ("compared", "heeded"),
    [
        ("160? 160 yes", True),
        ("160? 180 yes", False),
        ("160? 180 no", False),  # and yet "Correctness": true
        ("radians? radians yes; no count? - yes", True),
        ("no Heat? Peaks, Elevation yes", True),
        ("no Heat? Peaks, Heat yes", False),
        ("H1, O1? O1 yes", False),
        ("Grid? - yes", True),  # what is nowhere to be seen is not held against it
        ("It is on.", True),
    ],
)
def test_a_vote_that_does_not_heed_what_it_found_is_none(compared, heeded):
    accepts, refuses = (format_verdict(Verdict(correct)) for correct in (True, False))
    assert (read_verdict(f"{compared}\n{accepts}") is not None) == heeded
    assert read_verdict(f"{compared}\n{refuses}") == Verdict(False)


@given(
    st.text()
    | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5).map(
        json.dumps
    )
)
def test_no_reply_breaks_the_reader(reply):
    for text in (
        reply,
        f"{{{reply}}}",
        f'{{"Correctness": true, "Redundant": {reply}, "First_Error_Step": {reply}}}',
    ):
        try:
            assert isinstance(parse_verdict(text), Verdict)
        except VerdictError:
            pass


steps = st.integers(1, 99)
words = st.none() | st.text(min_size=1)


@given(st.builds(Verdict, st.booleans(), st.lists(steps).map(tuple), st.none() | steps, words, words, words))
def test_a_verdict_survives_its_text(verdict):
    assert parse_verdict(format_verdict(verdict)) == read_verdict(format_verdict(verdict)) == verdict
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


# ---- votes -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("replies", "success", "clean", "invalid"),
    [
        ((YES,) * 4, True, True, 0),
        ((YES, YES, YES, NO), False, False, 0),
        ((NO, YES, YES, YES), False, False, 0),
        ((NO,) * 4, False, False, 0),
        ((YES, NO), False, False, 0),
        ((YES, YES, YES, UNCLEAN), True, False, 0),
        ((UNCLEAN,) * 4, True, False, 0),
        ((YES, YES, YES, NONSENSE), False, False, 1),
        ((NONSENSE, "", "{}", YES), False, False, 3),
        ((NONSENSE,) * 4, False, False, 4),
        ((NO, NO, NONSENSE, NO), False, False, 1),
    ],
)
def test_only_all_votes_together_are_a_yes(replies, success, clean, invalid):
    outcome = RULE.outcome(replies)
    assert (outcome.success, outcome.clean, outcome.invalid) == (success, clean, invalid)


@pytest.mark.parametrize(
    ("change", "votes", "needed", "name"),
    [
        (("votes=4",), 4, 4, "voting@4"), (("votes=1",), 1, 1, "voting@1"),
        (("rule=majority",), 4, 3, "majority@4"), (("rule=majority", "votes=5"), 5, 3, "majority@5"),
        (("rule=agreement", "agree=2"), 4, 2, "2 of 4"), (("rule=single",), 1, 1, "single"),
    ],
)  # fmt: skip
def test_the_rule_is_a_word_in_the_profile(change, votes, needed, name):
    rule = Rule.of(load_profile("laptop", tuple(f"judge.{field}" for field in change)).judge)
    assert (rule.votes, rule.needed, rule.name) == (votes, needed, name)


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_has_the_papers_rule_but_desktop(name):
    settings = load_profile(name).judge
    assert settings.rule == ("agreement" if name == "desktop" else "unanimous")
    assert Rule.of(settings).votes == settings.votes and Rule.of(settings).needed == (
        1 if name == "desktop" else settings.votes
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rule=most", "judge.rule"), ("rule=agreement", "judge: give agree with rule: agreement"),
        ("agree=2", "judge: give agree with rule: agreement"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_is_refused(change, message):
    with pytest.raises(UserError, match=message):
        load_profile("laptop", (f"judge.{change}",))
    with pytest.raises(UserError, match="agree 5 is more than votes 4"):
        load_profile("laptop", ("judge.rule=agreement", "judge.agree=5"))


@pytest.mark.parametrize(
    ("needed", "replies", "success", "clean"),
    [
        (3, (YES, YES, YES), True, True), (3, (YES, NO, YES, YES), True, True), (3, (YES, NO, UNCLEAN, YES),
         True, False),
        (3, (NO, NO), False, False), (3, (YES, NO, NONSENSE), False, False), (2, (YES, NO, NO, YES), True,
         True),
        (1, (NO, NO, UNCLEAN, NO), True, False), (1, (NO, NO, NO, YES), True, True), (3, (UNCLEAN, YES,
         UNCLEAN), True, False),
    ],
)  # fmt: skip
def test_enough_votes_are_a_yes(needed, replies, success, clean):
    outcome = Rule("", (("judge", 4),), needed).outcome(replies)
    assert (outcome.success, outcome.clean) == (success, clean)


@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.lists(st.sampled_from([YES, UNCLEAN, NO, NONSENSE]), min_size=5, max_size=5),
)
def test_votes_stop_where_they_can_change_nothing(votes, needed, replies):
    rule = Rule("", (("judge", votes),), min(needed, votes))
    given_ = next(n for n in range(votes + 1) if not rule.undecided(replies[:n]))
    early, late = rule.outcome(replies[:given_]), rule.outcome(replies[:votes])
    assert (early.success, early.clean) == (late.success, late.clean)
    if given_:
        with pytest.raises(ValueError, match="votes do not decide"):
            rule.outcome(replies[: given_ - 1])


def test_no_vote_is_no_opinion():
    with pytest.raises(ValueError, match="voting@4: 0 of 4 votes do not decide, 4 must agree"):
        RULE.outcome(())


def test_the_steps_of_a_clean_trajectory_are_positive_and_of_no_other():
    assert positive_steps(made_up(), RULE) == (0, 1)
    assert positive_steps(made_up(success=False), RULE) == (0, 1)  # the environment's own check has no say
    for verdicts in ((YES, YES, YES, UNCLEAN), (YES, YES, YES, NO), (YES, YES, YES, NONSENSE)):
        assert positive_steps(made_up(verdicts=verdicts), RULE) == ()
        assert positive_steps(made_up(verdicts=verdicts), Rule("majority@4", (("judge", 4),), 3)) == (0, 1)
    whole = made_up()
    unread = [type(step)(step.screenshot, step.plan, "??", (), "no action") for step in whole.steps]
    assert positive_steps(made_up(steps=(whole.steps[0], unread[1])), RULE) == ()
    with pytest.raises(ValueError, match="votes do not decide"):
        positive_steps(made_up(verdicts=()), RULE)


def test_trimmed_attempts_lose_the_steps_that_a_vote_names():
    named = format_verdict(Verdict(correct=True, redundant=(1,)))
    trimming = replace(RULE, trim=True)
    assert positive_steps(made_up(verdicts=(YES, YES, YES, named)), trimming) == (1,)
    assert positive_steps(made_up(verdicts=(YES, YES, YES, NO)), trimming) == ()
    assert positive_steps(made_up(), trimming) == (0, 1)
    assert Rule.of(load_profile("laptop").judge).trim and not Rule.of(load_profile("ablations").judge).trim


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
    assert [t.verdicts for t in judged] == [
        tuple(f"vote {vote} on {place}" for vote in range(4)) for place in range(3)
    ]
    assert [t.task_id for t in judged] == [t.task_id for t in asked] and asked[0].verdicts == ("old",)
    assert len(model.calls) == VOTES == 4 and len({seed for _, _, seed in model.calls}) == 4
    assert {(s.temperature, s.top_p) for _, s, _ in model.calls} == {
        (1.0, 0.6)
    } and SAMPLING.temperature == 1.0
    assert Judge(Recorder(["x"] * 9)).vote([], 0) == []


@pytest.mark.parametrize(
    ("needed", "votes", "sizes"),
    [(4, (4, 1, 4, 1), [4, 2, 2, 2]), (3, (3, 2, 3, 2), [4, 4, 2]), (1, (1, 4, 4, 4), [4, 3, 3, 3])],
)
def test_a_judge_with_a_rule_stops_where_the_outcome_is_decided(needed, votes, sizes):
    def reply(message: list[Message]) -> str:
        return next(replies[text] for text in replies if text in str(message))

    replies = {"(1)": YES, "(2)": NO, "(3)": UNCLEAN, "(4)": NONSENSE}
    attempts, rule = [made_up(i, verdicts=()) for i in (1, 2, 3, 4)], Rule("", (("judge", 4),), needed)
    model = Recorder(reply)
    judged = Judge(model, rule=rule).vote(attempts, 5)
    assert [t.verdicts for t in judged] == [
        (text,) * n for text, n in zip(replies.values(), votes, strict=True)
    ]
    assert [len(conversations) for conversations, _, _ in model.calls] == sizes
    patient = Judge(Recorder(reply)).vote(attempts, 5)
    assert all(len(t.verdicts) == 4 for t in patient)
    assert [rule.outcome(t.verdicts).clean for t in judged] == [
        rule.outcome(t.verdicts).clean for t in patient
    ]


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


# ---- how good the judge is -------------------------------------------------------------------------------
def test_a_judge_is_scored_against_the_environments_check():
    cases = [
        (YES, True), (YES, True), (YES, False), (NO, True), (NO, False), (NONSENSE, True), (NONSENSE, False),
        (UNCLEAN, True),
    ]  # fmt: skip
    attempts = [
        made_up(i, verdicts=(YES, YES, YES, last), success=truth) for i, (last, truth) in enumerate(cases)
    ]
    found = score(attempts, RULE)
    assert (found.trajectories, found.successes, found.true_positive, found.false_positive) == (8, 5, 3, 1)
    assert (found.precision, found.recall, found.invalid_votes) == (3 / 4, 3 / 5, 2)
    lenient = score(attempts, Rule("majority@4", (("judge", 4),), 3))
    assert (lenient.true_positive, lenient.false_positive, lenient.precision, lenient.recall) == (
        5,
        3,
        5 / 8,
        1,
    )


def test_precision_and_recall_are_undefined_where_there_is_nothing_to_divide_by():
    silent = JudgeScore.of([False], [True])
    assert silent.precision is None and silent.recall == 0
    hopeless = JudgeScore.of([True], [False])
    assert hopeless.precision == 0 and hopeless.recall is None
    nothing = score([], RULE)
    assert (nothing.precision, nothing.recall, nothing.trajectories) == (None, None, 0)


def test_an_episode_that_the_environment_broke_does_not_count():
    broken = made_up(1, verdicts=(YES, NONSENSE), success=None, stop=StopReason.ENVIRONMENT_ERROR)
    assert score([made_up(), broken], RULE) == score([made_up()], RULE)
