"""Train tasks from a chat model, in rounds (paper, section 4), if a profile's `models.generator` names one.

In a round the model sees a few tasks by people, the manual of the software that it has written so far, and
how the last tasks went; it rewrites the manual and proposes new tasks.  They have no check: the judge alone
decides.  A round is a folder with manual.md, round.json (the tasks, and the dropped ones with the reason) and
exchange.json (all messages).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, StringConstraints, ValidationError

from coda_lib.config import Count, Section
from coda_lib.errors import StageError
from coda_lib.files import read_json, write_json, write_text
from coda_lib.judge import read_verdict
from coda_lib.models.chat import ChatModel, Message, Sampling, text
from coda_lib.prompts import render
from coda_lib.task import Task, test_tasks
from coda_lib.trajectory import Trajectory
from coda_study.owned import new_folder
from sciencedesk.env import desk_class
from sciencedesk.space import draw, space

TRIES = 3  # replies asked for until one is valid
MOST_STEPS = 20  # of a task (paper: typically 5 to 20)
SPARE_STEPS = 5  # beyond the steps that the model expects; ours
EXAMPLES = 6  # tasks by people; the paper says "a few"
NEAR = 0.75  # share of common words from which two instructions ask for the same
HOW = re.compile(
    r"\b(click|double-click|right-click|press|tap|hover|scroll|drag|cursor|mouse|keyboard|shortcut|hotkey"
    r"|button|menu|icon|checkbox|toolbar|dialog|dropdown|ctrl)(s|es|ed|ing|ging)?\b|\b(alt|shift) ?\+",
    re.IGNORECASE)  # an instruction that says by which means  # fmt: skip
OUTSIDE = re.compile(
    r"https?:|\b(internet|online|web ?sites?|web ?pages?|e-?mails?|downloads?|uploads?|log ?in|passwords?"
    r"|printer|another program)\b", re.IGNORECASE,
)  # what no application here has  # fmt: skip
_ARTICLES = {"a", "an", "the", "please", "of", "to"}

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Reason = Literal["duplicate", "low-level hint", "infeasible", "close to a test task"]


class Proposal(Section):
    instruction: Annotated[Text, Field(max_length=300)]
    steps: Count


class Proposals(Section):
    manual: Annotated[Text, Field(max_length=20_000)]
    tasks: list[Proposal]


class Doubt(Section):
    task: Count
    why: Text


class Review(Section):
    infeasible: list[Doubt]


Reply = TypeVar("Reply", bound=Section)


@dataclass(frozen=True)
class Dropped:
    instruction: str
    reason: Reason
    detail: str


@dataclass(frozen=True)
class Feedback:
    """How the attempts at a task went, as the judge sees them, and the plans of one of them."""

    instruction: str
    attempts: int
    done: int
    plans: str
    verdict: str  # the judge's reply about that attempt


@dataclass(frozen=True)
class Round:
    number: int
    manual: str
    tasks: tuple[Task, ...]
    dropped: tuple[Dropped, ...]


class Generator:
    """A chat model that proposes `count` tasks a round for an application.

    `examples` are instructions by people; an instruction close to one of `held_out` is dropped.
    """

    def __init__(
        self, model: ChatModel, sampling: Sampling, app: str, examples: Sequence[str],
        held_out: Sequence[str], count: int = 20,
    ):  # fmt: skip
        self.model, self.sampling, self.app, self.count = model, sampling, app, count
        self.examples, self.held_out = list(examples), list(held_out)

    @classmethod
    def of(cls, model: ChatModel, sampling: Sampling, app: str, count: int) -> Generator:
        """For an application of ScienceDesk, with some human-written goals as examples."""
        held_out = [task.instruction for task in test_tasks(app)]
        return cls(model, sampling, app, examples_of(app), held_out, count)

    def next_round(self, folder: Path, feedback: Sequence[Feedback], seed: int) -> Round:
        """The round after those in `folder`, stored there.  StageError if no reply is valid."""
        earlier = load_rounds(folder, self.app)
        number, manual = len(earlier) + 1, earlier[-1].manual if earlier else ""
        known = [task.instruction for past in earlier for task in past.tasks] + self.examples
        exchange: list[Message] = []
        values = {
            "count": self.count, "most": MOST_STEPS, "manual": manual, "examples": self.examples,
            "outcomes": list(map(asdict, feedback)), "earlier": known,
        }  # fmt: skip
        try:
            proposals = self._ask(Proposals, "propose", seed, exchange, self._wrong_count, **values)
            fit, dropped = sieve(proposals.tasks, known, self.held_out)
            fit, infeasible = self._review(fit, proposals.manual, seed, exchange)
        except StageError:
            write_json(folder / f"failed-{number:02d}.json", _plain(exchange))
            raise
        tasks = [_task(self.app, number, i, proposal) for i, proposal in enumerate(fit, start=1)]
        done = Round(number, proposals.manual, tuple(tasks), (*dropped, *infeasible))
        _save(done, folder / f"{number:02d}", self.model.name, exchange)
        return done

    def _wrong_count(self, reply: Proposals) -> str | None:
        if len(reply.tasks) == self.count:
            return None
        return f"tasks: {self.count} are wanted, not {len(reply.tasks)}"

    def _review(
        self, proposals: list[Proposal], manual: str, seed: int, exchange: list[Message]
    ) -> tuple[list[Proposal], list[Dropped]]:
        """The proposals that the model calls feasible in a second look, with the manual alone; the others."""
        if not proposals:
            return [], []
        instructions = [proposal.instruction for proposal in proposals]

        def unknown_task(reply: Review) -> str | None:
            unknown = [doubt.task for doubt in reply.infeasible if doubt.task > len(proposals)]
            return f"there is no task {unknown[0]}" if unknown else None

        values = {"manual": manual, "instructions": instructions}
        review = self._ask(Review, "review", seed + TRIES, exchange, unknown_task, **values)
        why = {doubt.task - 1: doubt.why for doubt in review.infeasible}
        dropped = [Dropped(instructions[i], "infeasible", reason) for i, reason in sorted(why.items())]
        return [proposal for i, proposal in enumerate(proposals) if i not in why], dropped

    def _ask(
        self, kind: type[Reply], prompt: str, seed: int, exchange: list[Message],
        fault: Callable[[Reply], str | None], **values: Any,
    ) -> Reply:  # fmt: skip
        """A valid reply; an invalid one goes back with the reason, up to `TRIES` times.

        `fault` says what is wrong with a reply of the right form.  All messages are added to `exchange`.
        """
        start, problem = len(exchange), None
        exchange += render("generator", prompt, software=self.app.capitalize(), **values)
        for attempt in range(TRIES):
            if problem:
                correction = f"That cannot be used: {problem}. Send all of it again, corrected."
                exchange.append({"role": "user", "content": [text(correction)]})
            (reply,) = self.model.generate([exchange[start:]], self.sampling, seed + attempt)
            exchange.append({"role": "assistant", "content": [text(reply)]})
            try:
                parsed = kind.model_validate_json(_json_object(reply))
                problem = fault(parsed)
            except ValidationError as error:
                first = error.errors()[0]
                problem = f"{'.'.join(map(str, first['loc'])) or 'the reply'}: {first['msg']}"
            if problem is None:
                return parsed
        failed = f"{self.model.name} set no tasks that can be used in {TRIES} tries"
        raise StageError(f"{failed}; the last time: {problem}")


def sieve(
    proposals: Sequence[Proposal], known: Sequence[str], held_out: Sequence[str]
) -> tuple[list[Proposal], list[Dropped]]:
    """The proposals that become tasks, and the others with the reason.

    >>> proposals = [Proposal(instruction=text, steps=3) for text in ("Plot cos(x).", "Click Plot.")]
    >>> fit, dropped = sieve(proposals, known=["Plot sin(x)."], held_out=[])
    >>> fit[0].instruction, dropped[0].reason
    ('Plot cos(x).', 'low-level hint')
    """
    fit, dropped, taken = [], [], list(known)
    for proposal in proposals:
        if fault := _fault(proposal, taken, held_out):
            dropped.append(Dropped(proposal.instruction, *fault))
        else:
            fit.append(proposal)
            taken.append(proposal.instruction)
    return fit, dropped


def _fault(proposal: Proposal, taken: Sequence[str], held_out: Sequence[str]) -> tuple[Reason, str] | None:
    """Why a proposal becomes no task, and the detail."""
    instruction = proposal.instruction
    if hint := HOW.search(instruction):
        return "low-level hint", hint[0]
    if outside := OUTSIDE.search(instruction):
        return "infeasible", f"needs {outside[0]}"
    if proposal.steps > MOST_STEPS:
        return "infeasible", f"{proposal.steps} steps"
    if test := _like(instruction, held_out):
        return "close to a test task", test
    if other := _like(instruction, taken):
        return "duplicate", other
    return None


def feedback_of(judged: Sequence[Trajectory]) -> list[Feedback]:
    """The feedback on each attempted task, with the first attempt that was done, or else the first."""
    by_task: dict[str, list[Trajectory]] = {}
    for trajectory in judged:
        by_task.setdefault(trajectory.task_id, []).append(trajectory)
    feedback = []
    for attempts in by_task.values():
        verdicts = [read_verdict(attempt.verdicts[0]) if attempt.verdicts else None for attempt in attempts]
        done = [verdict is not None and verdict.correct for verdict in verdicts]
        shown = attempts[done.index(True) if any(done) else 0]
        plans, verdict = " ".join(step.plan for step in shown.steps), next(iter(shown.verdicts), "nothing")
        feedback.append(Feedback(shown.instruction, len(attempts), sum(done), plans, verdict))
    return feedback


def examples_of(app: str) -> list[str]:
    """A few human-written instructions of one goal each, always the same ones; they are to be trained on."""
    drawn = draw(space(app), "train", EXAMPLES, 0, desk_class(app).defaults, {"A": 1, "B": 1})
    return [task.instruction for task in drawn]


def load_rounds(folder: Path, app: str) -> list[Round]:
    """The rounds in a folder, in order."""
    rounds = []
    for path in sorted(folder.glob("[0-9][0-9]/round.json")):
        raw, number = read_json(path), int(path.parent.name)
        proposals = [Proposal.model_validate(task) for task in raw["tasks"]]
        tasks = tuple(_task(app, number, i, proposal) for i, proposal in enumerate(proposals, start=1))
        manual = (path.parent / "manual.md").read_text(encoding="utf-8")
        rounds.append(Round(number, manual, tasks, tuple(Dropped(**item) for item in raw["dropped"])))
    return rounds


def _save(done: Round, folder: Path, model: str, exchange: Sequence[Message]) -> None:
    tasks = [{"instruction": task.instruction, "steps": task.steps - SPARE_STEPS} for task in done.tasks]
    about = {"model": model, "tasks": tasks, "dropped": list(map(asdict, done.dropped))}
    with new_folder(folder) as temporary:
        write_text(temporary / "manual.md", done.manual)
        write_json(temporary / "exchange.json", _plain(exchange))
        write_json(temporary / "round.json", about)


def _plain(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [
        {"role": message["role"], "content": "".join(part["text"] for part in message["content"])}
        for message in messages
    ]


def _task(app: str, number: int, i: int, proposal: Proposal) -> Task:
    """A task without a check; its grade follows from the expected steps: A to 2, B to 5, C to 10, D more."""
    grade = "ABCD"[bisect_left((2, 5, 10), proposal.steps)]
    name, steps = f"{app}/generated-{number:02d}-{i:02d}", proposal.steps + SPARE_STEPS
    return Task(name, app, grade, proposal.instruction, steps, (), (), None, ())


def _like(instruction: str, others: Sequence[str]) -> str | None:
    """The first other instruction that asks for the same in nearly the same words."""
    words = _words(instruction)
    for other in others:
        if len(words & (theirs := _words(other))) >= NEAR * len(words | theirs):
            return other
    return None


def _words(instruction: str) -> set[str]:
    return set(re.findall(r"[^\s,;:.?!'\"]+(?:[.,]\d+)?", instruction.casefold())) - _ARTICLES


def _json_object(reply: str) -> str:
    """The JSON object of a reply, perhaps within a Markdown fence; the whole reply if it has none."""
    start, end = reply.find("{"), reply.rfind("}")
    return reply[start : end + 1] if 0 <= start < end else reply
