"""Train tasks made by a chat model, in rounds (paper, section 4), where a profile's `models.generator` names one.

A round is one call: the model is shown a few tasks by people, the manual of the software that it has written so far, and how
the last tasks went; it rewrites the manual and sets new tasks.  Nobody wrote a check for these: the judge alone decides.
A round is a folder: manual.md, round.json (the tasks, and what was dropped for which reason) and exchange.json (every word said).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, StringConstraints, ValidationError

from coda_lib.config import Count, Section
from coda_lib.envs.sciencedesk.env import desk_class
from coda_lib.errors import StageError
from coda_lib.explore import train_pool
from coda_lib.files import atomic_path, read_json, write_json, write_text
from coda_lib.judge import read_verdict
from coda_lib.models.chat import ChatModel, Message, Sampling, text
from coda_lib.prompts import render
from coda_lib.task import Task, test_tasks
from coda_lib.trajectory import Trajectory

TRIES = 3  # replies asked for until one can be read
MOST_STEPS = 20  # of a task (paper: typically 5 to 20)
SPARE_STEPS = 5  # beyond what the model expects; ours
EXAMPLES = 6  # by people; the paper says "a few"
NEAR = 0.75  # of the words of two instructions together: share in common from which they ask for the same
HOW = re.compile(
    r"\b(click|double-click|right-click|press|tap|hover|scroll|drag|cursor|mouse|keyboard|shortcut|hotkey|button|menu|icon|checkbox"
    r"|toolbar|dialog|dropdown|ctrl)(s|es|ed|ing|ging)?\b|\b(alt|shift) ?\+", re.IGNORECASE,
)  # an instruction that says by which means  # fmt: skip
OUTSIDE = re.compile(
    r"https?:|\b(internet|online|web ?sites?|web ?pages?|e-?mails?|downloads?|uploads?|log ?in|passwords?|printer"
    r"|another program)\b", re.IGNORECASE,
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
class Outcome:
    """How the attempts at a task went, as the judge sees them, and what one of them did."""

    instruction: str
    attempts: int
    done: int
    plans: str
    said: str  # the judge's reply about that attempt


@dataclass(frozen=True)
class Round:
    number: int
    manual: str
    tasks: tuple[Task, ...]
    dropped: tuple[Dropped, ...]


class Generator:
    """A chat model that sets tasks for an application.

    `examples` are instructions by people; nothing like an instruction among `held_out` is set.  `count` tasks a call.
    """

    def __init__(
        self, model: ChatModel, sampling: Sampling, app: str, examples: Sequence[str], held_out: Sequence[str], count: int = 20
    ):
        self.model, self.sampling, self.app, self.count = model, sampling, app, count
        self.examples, self.held_out = list(examples), list(held_out)

    @classmethod
    def of(cls, model: ChatModel, sampling: Sampling, app: str, count: int) -> Generator:
        """For one of ScienceDesk's applications, with some goals that people wrote, none of them a test task."""
        return cls(model, sampling, app, examples_of(app), [task.instruction for task in test_tasks(app)], count)

    def go_on(self, folder: Path, outcomes: Sequence[Outcome], seed: int) -> Round:
        """The next round after those in `folder`, kept there.  StageError, with every word kept, if no reply can be used."""
        earlier = load_rounds(folder, self.app)
        number, manual = len(earlier) + 1, earlier[-1].manual if earlier else ""
        known = [task.instruction for one in earlier for task in one.tasks] + self.examples
        said: list[dict[str, Any]] = []
        try:
            found = self._ask(
                Proposals, "propose", seed, said, self._enough, count=self.count, most=MOST_STEPS, manual=manual,
                examples=self.examples, outcomes=[asdict(one) for one in outcomes], earlier=known,
            )  # fmt: skip
            kept, dropped = sieve(found.tasks, known, self.held_out)
            kept, doubted = self._feasible(kept, found.manual, seed, said)
        except StageError:
            write_json(folder / f"failed-{number:02d}.json", said)
            raise
        tasks = [_task(self.app, number, i, proposal) for i, proposal in enumerate(kept, start=1)]
        done = Round(number, found.manual, tuple(tasks), (*dropped, *doubted))
        _save(done, folder / f"{number:02d}", self.model.name, said)
        return done

    def _enough(self, found: Proposals) -> str | None:
        return None if len(found.tasks) == self.count else f"tasks: {self.count} are wanted, not {len(found.tasks)}"

    def _feasible(
        self, proposals: list[Proposal], manual: str, seed: int, said: list[dict[str, Any]]
    ) -> tuple[list[Proposal], list[Dropped]]:
        """A second look at the tasks, with the manual alone beside them."""
        if not proposals:
            return [], []
        names = [one.instruction for one in proposals]

        def about_these(found: Review) -> str | None:
            return next((f"there is no task {one.task}" for one in found.infeasible if one.task > len(names)), None)

        found = self._ask(Review, "review", seed + TRIES, said, about_these, manual=manual, instructions=names)
        why = {one.task - 1: one.why for one in found.infeasible}
        dropped = [Dropped(names[i], "infeasible", reason) for i, reason in sorted(why.items())]
        return [one for i, one in enumerate(proposals) if i not in why], dropped

    def _ask(
        self, kind: type[Reply], prompt: str, seed: int, said: list[dict[str, Any]], check: Callable[[Reply], str | None],
        **values: Any,
    ) -> Reply:  # fmt: skip
        """A reply of a kind; one that cannot be used goes back with the reason, until `TRIES` have been given.

        `check` says what is wrong with one that can be read.  All that is said is added to `said`.
        """
        messages = render("generator", prompt, software=self.app.capitalize(), **values)
        told: list[Message] = []
        for attempt in range(TRIES):
            (reply,) = self.model.generate([messages + told], self.sampling, seed + attempt)
            said += [{"role": one["role"], "content": _words(one)} for one in (told[-1:] if told else messages)]
            said.append({"role": "assistant", "content": reply})
            try:
                found = kind.model_validate_json(_object_in(reply))
                problem = check(found)
            except ValidationError as error:
                first = error.errors()[0]
                found, problem = None, f"{'.'.join(map(str, first['loc'])) or 'the reply'}: {first['msg']}"
            if found is not None and problem is None:
                return found
            told += [
                {"role": "assistant", "content": [text(reply)]},
                {"role": "user", "content": [text(f"That cannot be used: {problem}. Send all of it again, corrected.")]},
            ]
        raise StageError(f"{self.model.name} set no tasks that can be used in {TRIES} tries; the last time: {problem}")


def sieve(proposals: Sequence[Proposal], known: Sequence[str], held_out: Sequence[str]) -> tuple[list[Proposal], list[Dropped]]:
    """The proposals that can be set as tasks, and why the others cannot."""
    kept, dropped, taken = [], [], list(known)
    for proposal in proposals:
        said = proposal.instruction
        if hint := HOW.search(said):
            dropped.append(Dropped(said, "low-level hint", hint[0]))
        elif outside := OUTSIDE.search(said):
            dropped.append(Dropped(said, "infeasible", f"needs {outside[0]}"))
        elif proposal.steps > MOST_STEPS:
            dropped.append(Dropped(said, "infeasible", f"{proposal.steps} steps"))
        elif test := _like(said, held_out):
            dropped.append(Dropped(said, "close to a test task", test))
        elif other := _like(said, taken):
            dropped.append(Dropped(said, "duplicate", other))
        else:
            kept.append(proposal)
            taken.append(said)
    return kept, dropped


def outcomes_of(judged: Sequence[Trajectory]) -> list[Outcome]:
    """What is told of judged attempts, task by task; of the first attempt that was done, or else of the first, what it did."""
    by_task: dict[str, list[Trajectory]] = {}
    for trajectory in judged:
        by_task.setdefault(trajectory.task_id, []).append(trajectory)
    found = []
    for attempts in by_task.values():
        verdicts = [read_verdict(one.verdicts[0]) if one.verdicts else None for one in attempts]
        done = [verdict is not None and verdict.correct for verdict in verdicts]
        shown = attempts[done.index(True) if any(done) else 0]
        plans = " ".join(step.plan for step in shown.steps)
        said = shown.verdicts[0] if shown.verdicts else "nothing"
        found.append(Outcome(shown.instruction, len(attempts), sum(done), plans, said))
    return found


def examples_of(app: str) -> list[str]:
    """A few instructions of one human-written goal each, the same every time."""
    by_people = [task.instruction for task in train_pool(app, desk_class(app).defaults) if task.grade in "AB"]
    return random.Random(f"examples of {app}").sample(by_people, EXAMPLES)


def load_rounds(folder: Path, app: str) -> list[Round]:
    """The rounds so far, in order."""
    rounds = []
    for path in sorted(folder.glob("[0-9][0-9]/round.json")):
        raw, number = read_json(path), int(path.parent.name)
        proposals = [Proposal.model_validate(one) for one in raw["tasks"]]
        tasks = tuple(_task(app, number, i, one) for i, one in enumerate(proposals, start=1))
        manual = (path.parent / "manual.md").read_text(encoding="utf-8")
        rounds.append(Round(number, manual, tasks, tuple(Dropped(**one) for one in raw["dropped"])))
    return rounds


def _save(one: Round, folder: Path, model: str, said: list[dict[str, Any]]) -> None:
    tasks = [{"instruction": task.instruction, "steps": task.steps - SPARE_STEPS} for task in one.tasks]
    with atomic_path(folder) as temporary:
        write_text(temporary / "manual.md", one.manual)
        write_json(temporary / "exchange.json", said)
        write_json(temporary / "round.json", {"model": model, "tasks": tasks, "dropped": [asdict(item) for item in one.dropped]})


def _task(app: str, number: int, i: int, proposal: Proposal) -> Task:
    """Without a check; its grade tells the expected steps: A to 2, B to 5, C to 10, D more."""
    grade = next(grade for grade, most in (("A", 2), ("B", 5), ("C", 10), ("D", MOST_STEPS)) if proposal.steps <= most)
    steps = proposal.steps + SPARE_STEPS
    return Task(f"{app}/generated-{number:02d}-{i:02d}", app, grade, proposal.instruction, steps, (), (), None, ())


def _like(said: str, others: Sequence[str]) -> str | None:
    """The first of other instructions that asks for the same in nearly the same words."""
    own = _bag(said)
    return next((other for other in others if len(own & (bag := _bag(other))) >= NEAR * len(own | bag)), None)


def _bag(said: str) -> set[str]:
    return set(re.findall(r"[^\s,;:.?!'\"]+(?:[.,]\d+)?", said.casefold())) - _ARTICLES


def _object_in(reply: str) -> str:
    """The JSON object of a reply, which may have a Markdown fence around it; all of it if there is none."""
    start, end = reply.find("{"), reply.rfind("}")
    return reply[start : end + 1] if 0 <= start < end else reply


def _words(message: Message) -> str:
    return "".join(part["text"] for part in message["content"])
