"""The judge: did a trajectory do its task, and which of its actions may be learned from (paper, section 4).

Top-down: `Judge` asks a model for votes, a `Rule` turns votes into an outcome, `positive_steps` labels the
actions to learn from, `JudgeScore` compares outcomes with the application's own check, and `parse_verdict`
reads a single vote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, assert_never

from coda_lib.config import JudgeSettings, Profile
from coda_lib.models.chat import ChatModel, Message, Sampling
from coda_lib.models.load import load_model
from coda_lib.models.reading import NOTHING, Account, Accounts, character_reader, pictured, read_out
from coda_lib.prompts import render
from coda_lib.trajectory import Trajectory, decode_image

VOTES = 4  # independent votes (paper, section 4)
SAMPLING = Sampling(temperature=1.0, top_p=0.6, max_new_tokens=256)  # paper, section 4; the length is ours
_PORTION = 128  # trajectories whose screenshots are held in memory at once


# ---- votes -----------------------------------------------------------------------------------------------


class Judge:
    """A model that gives up to `votes` votes on each trajectory.

    With a `rule` it gives no further vote on a trajectory whose outcome is decided: under the unanimous rule
    the first vote without a "correct" decides.  Without a rule it gives all votes.  `resolution` scales width
    and height of pictures.  With `accounts` it is shown what they give of an attempt, before it is told the
    task, in place of all screenshots.
    """

    def __init__(
        self, model: ChatModel, sampling: Sampling = SAMPLING, prompts: str = "compact", votes: int = VOTES,
        rule: Rule | None = None, resolution: float = 1.0, accounts: Accounts | None = None,
    ):  # fmt: skip
        self.model, self.sampling, self.prompts, self.votes = model, sampling, prompts, votes
        self.rule, self.resolution, self.accounts = rule, resolution, accounts

    @classmethod
    def load(cls, profile: Profile, checkpoint: str | None = None, **changes: Any) -> Judge:
        """The judge of a profile, by default its own checkpoint; `changes` replace arguments of `Judge`."""
        model, rule = load_model(profile, "judge", checkpoint or profile.models.judge), Rule.of(profile.judge)
        ways = {"changes": lambda: pictured, "words": lambda: partial(read_out, character_reader())}
        accounts = ways[profile.judge.shows]() if profile.judge.shows in ways else None
        given = {"votes": rule.votes, "rule": rule, "accounts": accounts} | changes
        return cls(model, Sampling.of(profile.judge), profile.prompts, **given)

    def vote(self, trajectories: Sequence[Trajectory], seed: int) -> list[Trajectory]:
        """The same trajectories with the raw replies of the votes as their `verdicts`."""
        portions = range(0, len(trajectories), _PORTION)
        return [t for i in portions for t in self._vote(trajectories[i : i + _PORTION], seed + i)]

    def _vote(self, trajectories: Sequence[Trajectory], seed: int) -> list[Trajectory]:
        accounts = self.accounts(trajectories) if self.accounts else [None] * len(trajectories)
        conversations = list(map(self._conversation, trajectories, accounts))
        votes: list[list[str]] = [[] for _ in trajectories]
        for number in range(self.votes):
            asked = [i for i, replies in enumerate(votes) if not self.rule or self.rule.undecided(replies)]
            if not asked:
                break
            questions = [conversations[i] for i in asked]
            replies = self.model.generate(questions, self.sampling, seed + 7919 * number)
            for i, reply in zip(asked, replies, strict=True):
                votes[i].append(reply)
        return [replace(t, verdicts=tuple(replies)) for t, replies in zip(trajectories, votes, strict=True)]

    def _conversation(self, t: Trajectory, account: Account | None) -> list[Message]:
        plans = [step.plan for step in t.steps]
        if account:
            shown = Account(tuple(map(self._resized, account.changes)), self._resized(account.end))
            return account_messages(t.instruction, plans, shown, t.answer, self.prompts)
        screenshots = [self._resized(decode_image(png)) for png in t.screenshots]
        return judge_messages(t.instruction, screenshots, t.answer, self.prompts, plans)

    def _resized(self, shown: Any) -> Any:
        if self.resolution == 1 or isinstance(shown, str):
            return shown
        return shown.resize([round(side * self.resolution) for side in shown.size])


def judge_messages(
    instruction: str, screenshots: Sequence[Any], answer: str | None, prompts: str, plans: Sequence[str] = ()
) -> list[Message]:
    """The judge's prompt: the instruction, all screenshots in order, and the answer of a question task.

    The prompts of the tiny judge (`compact`) also hold the plan behind each step; the paper's do not.
    """
    return render(
        prompts, "judge", instruction=instruction, screenshots=list(screenshots), answer=answer,
        plans=list(plans)
    )  # fmt: skip


def account_messages(
    instruction: str, plans: Sequence[str], account: Account, answer: str | None, prompts: str
) -> list[Message]:
    """The prompt with what each step changed and what the end shows, then the task.

    What is looked for is known when all has been seen: a short reply says what of it was found.
    """
    return render(
        prompts, "account", instruction=instruction, plans=list(plans), changes=list(account.changes),
        end=account.end, answer=answer,
    )  # fmt: skip


@dataclass(frozen=True)
class VoteOutcome:
    """The outcome of the votes on one trajectory."""

    success: bool  # enough votes say correct
    clean: bool  # enough votes say clean
    invalid: int  # votes that are no verdict
    # steps (from 1) that a vote of "correct" calls redundant or an error
    needless: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Rule:
    """A voting rule: successful or clean is a trajectory that at least `needed` votes call so.

    `ballots` are the votes in the order in which they are given: (judge, number of its votes).  In the paper
    four votes of one judge must be unanimous (section 4).

    >>> yes, no = format_verdict(Verdict(correct=True)), format_verdict(Verdict(correct=False))
    >>> Rule("voting@3", (("judge", 3),), needed=3).outcome([yes, yes, no])
    VoteOutcome(success=False, clean=False, invalid=0, needless=frozenset())
    >>> Rule("majority@3", (("judge", 3),), needed=2).outcome([yes, yes])  # a third vote would change nothing
    VoteOutcome(success=True, clean=True, invalid=0, needless=frozenset())
    """

    name: str
    ballots: tuple[tuple[str, int], ...]
    needed: int
    trim: bool = False  # steps of a trajectory that is successful and not clean are labelled, too

    @classmethod
    def of(cls, settings: JudgeSettings, *ballots: tuple[str, int], name: str = "") -> Rule:
        """The rule of a profile, over the votes of its judge or over these `ballots`."""
        ballots = ballots or (("judge", 1 if settings.rule == "single" else settings.votes),)
        votes = sum(number for _, number in ballots)
        match settings.rule:
            case "unanimous":
                needed, default = votes, f"voting@{votes}"
            case "majority":
                needed, default = votes // 2 + 1, f"majority@{votes}"
            case "agreement":
                needed = min(settings.agree, votes)
                default = f"{needed} of {votes}"
            case "single":  # one vote of each judge
                needed, default = votes, "single"
            case _:
                assert_never(settings.rule)
        return cls(name or default, ballots, needed, settings.trim)

    @property
    def votes(self) -> int:
        return sum(number for _, number in self.ballots)

    def outcome(self, replies: Sequence[str]) -> VoteOutcome:
        """The outcome of raw replies; one that is no verdict is counted and agrees with nothing.

        Raises ValueError if the votes are too few to decide.
        """
        verdicts = [read_verdict(reply) for reply in replies[: self.votes]]
        correct, clean = _agreeing(verdicts)
        if self.is_open(correct, clean, len(verdicts)):
            raise ValueError(
                f"{self.name}: {len(verdicts)} of {self.votes} votes do not decide, {self.needed} must agree"
            )
        named = (
            v.redundant + (v.first_error_step,) * (v.first_error_step is not None)
            for v in verdicts
            if v and v.correct
        )
        return VoteOutcome(
            correct >= self.needed, clean >= self.needed, verdicts.count(None), frozenset(chain(*named))
        )

    def undecided(self, replies: Sequence[str]) -> bool:
        """Whether further votes can change the outcome."""
        return self.is_open(*_agreeing(map(read_verdict, replies)), len(replies))

    def is_open(self, correct: Any, clean: Any, given: Any) -> Any:
        """`undecided` by the numbers of votes: correct, clean, given; integers or arrays of them."""

        def can_change(agreeing: Any) -> Any:
            return (agreeing < self.needed) & (agreeing + self.votes - given >= self.needed)

        return can_change(correct) | can_change(clean)


def _agreeing(verdicts: Iterable[Verdict | None]) -> tuple[int, int]:
    """The numbers of verdicts that say correct, and that say clean."""
    valid = [verdict for verdict in verdicts if verdict]
    return sum(verdict.correct for verdict in valid), sum(verdict.clean for verdict in valid)


# ---- labels and score ------------------------------------------------------------------------------------


def positive_steps(trajectory: Trajectory, rule: Rule) -> tuple[int, ...]:
    """Indices (from 0) of the steps labelled positive: all of a clean trajectory, else none.

    A step whose reply could not be parsed has no action to learn from and makes the trajectory unclean.  With
    `rule.trim` a successful trajectory that is not clean gives the steps that no vote calls redundant or an
    error.

    >>> from coda_lib.trajectory import Step, StopReason
    >>> steps, votes = (Step(b"", "Click 'Grid'.", "", ()),) * 3, (format_verdict(Verdict(correct=True)),) * 2
    >>> done = StopReason.DONE
    >>> clean = Trajectory("A-01", "algebra", "grid on", "base", 0, steps, b"", done, verdicts=votes)
    >>> positive_steps(clean, Rule("voting@2", (("judge", 2),), needed=2))
    (0, 1, 2)
    """
    outcome, steps = rule.outcome(trajectory.verdicts), range(len(trajectory.steps))
    unread = [i for i in steps if trajectory.steps[i].error]
    if outcome.clean and not unread:
        return tuple(steps)
    if not (rule.trim and outcome.success):
        return ()
    return tuple(i for i in steps if i + 1 not in outcome.needless and i not in unread)


@dataclass(frozen=True)
class JudgeScore:
    """Accepted trajectories against successes by the application's own check; all fields count.

    >>> judged = JudgeScore.of(accepted=[True, True, False], success=[True, False, True])
    >>> judged.precision, judged.recall
    (0.5, 0.5)
    """

    trajectories: int
    successes: int
    true_positive: int
    false_positive: int
    invalid_votes: int = 0

    @classmethod
    def of(cls, accepted: Iterable[bool], success: Iterable[bool], invalid_votes: int = 0) -> JudgeScore:
        pairs = [(bool(yes), bool(truth)) for yes, truth in zip(accepted, success, strict=True)]
        right, wrong = pairs.count((True, True)), pairs.count((True, False))
        return cls(len(pairs), sum(truth for _, truth in pairs), right, wrong, invalid_votes)

    @property
    def accepted(self) -> int:
        return self.true_positive + self.false_positive

    @property
    def precision(self) -> float | None:
        """Share of the accepted trajectories that are successes; None where none is accepted."""
        return self.true_positive / self.accepted if self.accepted else None

    @property
    def recall(self) -> float | None:
        """Share of the successes that are accepted; None where there is no success."""
        return self.true_positive / self.successes if self.successes else None


def score(trajectories: Sequence[Trajectory], rule: Rule) -> JudgeScore:
    """The score of a voting rule.  Trajectories without an outcome (the environment failed) are left out."""
    checked = [trajectory for trajectory in trajectories if trajectory.success is not None]
    outcomes = [rule.outcome(trajectory.verdicts) for trajectory in checked]
    invalid = sum(outcome.invalid for outcome in outcomes)
    accepted, success = [outcome.success for outcome in outcomes], [bool(t.success) for t in checked]
    return JudgeScore.of(accepted, success, invalid)


# ---- one vote --------------------------------------------------------------------------------------------

_COMPARED = re.compile(r"(.+?)\? (.*) (yes|no)")
_DETAILS = ("Optimized", "Error_Type", "Correct_Action")


@dataclass(frozen=True)
class Verdict:
    """One vote; step numbers count from 1."""

    correct: bool
    redundant: tuple[int, ...] = ()
    first_error_step: int | None = None
    optimized: str | None = None
    error_type: str | None = None
    correct_action: str | None = None

    @property
    def clean(self) -> bool:
        """Correct, nothing redundant, no error: then every action is a labelled positive action."""
        return self.correct and not self.redundant and self.first_error_step is None


class VerdictError(ValueError):
    """A judge's reply that is no verdict: it is counted and reported, and is no "not correct"."""


def read_verdict(reply: str) -> Verdict | None:
    """The verdict in a judge's reply; None if it holds none."""
    try:
        return parse_verdict(reply)
    except VerdictError:
        return None


def parse_verdict(reply: str) -> Verdict:
    """The verdict in a judge's reply: a JSON object, with or without text and a Markdown fence around it.

    Raises VerdictError that names what is wrong.

    >>> parse_verdict('On. {"Correctness": true, "Redundant": [2], "First_Error_Step": null}').redundant
    (2,)
    >>> parse_verdict("yes")
    Traceback (most recent call last):
    coda_lib.judge.VerdictError: no JSON object in 'yes'
    """
    start, end = reply.find("{"), reply.rfind("}")
    if start < 0 or end < start:
        raise VerdictError(f"no JSON object in {reply[:80]!r}")
    try:
        raw = json.loads(reply[start : end + 1])
    except (ValueError, RecursionError) as error:  # ValueError also of a number with thousands of digits
        raise VerdictError(f"not JSON: {reply[:80]!r}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("Correctness"), bool):
        raise VerdictError(f"Correctness must be true or false in {reply[:80]!r}")
    if missing := {"Redundant", "First_Error_Step"} - raw.keys():
        raise VerdictError(f"no {' and no '.join(sorted(missing))} in {reply[:80]!r}")
    first = raw["First_Error_Step"]
    redundant = [] if raw["Redundant"] is None else raw["Redundant"]
    if not isinstance(redundant, list) or not all(_is_step(step) for step in redundant):
        raise VerdictError(f"Redundant must be a list of step numbers in {reply[:80]!r}")
    if first is not None and not _is_step(first):
        raise VerdictError(f"First_Error_Step must be a step number or null in {reply[:80]!r}")
    if raw["Correctness"] and _contradicts(reply[:start]):
        raise VerdictError(f"accepts what it did not find: {reply[:80]!r}")
    details = [str(raw[key]) if raw.get(key) not in (None, "") else None for key in _DETAILS]
    return Verdict(raw["Correctness"], tuple(redundant), first, *details)


def _contradicts(said: str) -> bool:
    """Whether a line 'wanted? found yes' before the verdict says that something was found, and else what.

    A tiny judge compares in that form, and now and then does not heed what it has read.

    >>> [_contradicts(said) for said in ("2? 3 yes", "2? 02 yes", "2? - yes", "A, no B? A, B yes")]
    [True, False, False, True]
    """
    for compared in filter(None, map(_COMPARED.fullmatch, said.casefold().strip().split("; "))):
        wanted, found = ([part.lstrip("0") for part in text.split(", ")] for text in compared.group(1, 2))
        absent = [part.removeprefix("no ") for part in wanted if part.startswith("no ")]
        lacking = {*wanted} - {f"no {part}" for part in absent} - {*found}
        if compared[3] == "no" or {*absent} & {*found} or lacking and NOTHING not in found:
            return True
    return False


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def format_verdict(verdict: Verdict, details: bool = True) -> str:
    """A verdict as JSON for `parse_verdict`; without `details` only the three fields that decide."""
    raw: dict[str, Any] = {
        "Correctness": verdict.correct,
        "Redundant": list(verdict.redundant),
        "First_Error_Step": verdict.first_error_step,
    }
    if details:
        values = (verdict.optimized, verdict.error_type, verdict.correct_action)
        raw |= dict(zip(_DETAILS, values, strict=True))
    return json.dumps(raw)
