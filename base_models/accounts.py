"""Attempts in words, as a judge that looks rules on them: what each step changed and what the end shows.

The words are true to what is on the screen; a model reads some letters wrong, and so do those to learn from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any

from PIL import Image

from base_models.hindsight import ending, held, reached, reworded, script_verdict, wanted
from base_models.rows import PROMPTS, Row, description
from base_models.training_tasks import SampledTask, judge_tasks, similar_tasks
from base_models.walks import (
    Walk,
    Window,
    by_goal,
    opened,
    random_step,
    through_faults,
    window_of,
)
from coda_lib.environment import Environment
from coda_lib.judge import Verdict, account_messages, format_verdict
from coda_lib.models.reading import NOTHING, Account, changed
from coda_lib.task import Task, check
from coda_lib.trajectory import StopReason, Trajectory
from sciencedesk.desk.elements import Element
from sciencedesk.goals import Aim, are_apart, sentence
from sciencedesk.perturb import draw_view
from sciencedesk.script import ScriptError, to_action, to_plan
from sciencedesk.space import space

_SLIPS = (0.0, 0.15, 0.3, 0.5)  # share of random steps, drawn for each attempt
_MORE = 4  # questions about an attempt, beside its own
_SELDOM = 0.1  # share of a walk's states
_PART = re.compile(r"(?!-,|-$)[^, ][^,]*")  # of what is wanted or found, where that is something
_FOUND = re.compile(r"(?<=\? )([^;?]+)(?= (?:yes|no)(?:;|$))", re.MULTILINE)  # in a reply's line
_WANTED = re.compile(r"(?:^|(?<=; ))(?:no )?([^;?]+)(?=\? )")


@dataclass(frozen=True)
class Asked:
    """What an attempt is ruled on by, and the judge's reply: what is wanted and found, and the verdict.

    The line 'on? off no; x^2? x^2 yes' puts side by side what is to be compared: a network that gave only
    what holds accepted answers that differ from it (of what it accepted, told what is truly on the screens,
    21 % was right in Algebra).

    Without `whole` the reply ends before the redundant steps: the state at the end does not tell them.
    """

    instruction: str
    reply: str
    success: bool
    whole: bool = True


@dataclass(frozen=True)
class Told:
    """An attempt in words; the first question is the one that it was made at, and may have an answer."""

    plans: tuple[str, ...]  # with the one that ended the attempt
    changes: tuple[str, ...]
    end: str
    answer: str | None
    questions: tuple[Asked, ...]

    @property
    def success(self) -> bool:
        return self.questions[0].success

    @property
    def length(self) -> int:
        """Letters of plans, changes, end and questions."""
        asked = (question.instruction for question in self.questions)
        return sum(map(len, (*self.plans, *self.changes, self.end, *asked)))

    @property
    def longest(self) -> int:
        """Letters of its longest question with the reply."""
        return max(len(question.instruction + question.reply) for question in self.questions)

    @property
    def rows(self) -> list[Row]:
        """A row for each question, alike up to the instruction."""
        account, answers = Account(self.changes, self.end), [self.answer, *[None] * len(self.questions)]
        rows = []
        for question, answer in zip(self.questions, answers, strict=False):
            messages = account_messages(question.instruction, self.plans, account, answer, PROMPTS)
            copied = _copied(question, messages[-1]["content"][0]["text"])
            rows.append(Row(messages, question.reply, question.whole, copied=copied))
        return rows


def _copied(question: Asked, text: str) -> tuple[tuple[int, int, int], ...]:
    """What a reply says is found, wherever the account says so as a word of its own, and what is wanted.

    That is copied from the instruction or the answer, which stand after the account.
    """
    line, after = question.reply.partition("\n")[0], text.rindex(question.instruction)
    told, asked = text[:after], text[after:]
    places = [(_FOUND, told, 0), (_WANTED, asked, after)]
    return tuple(
        (whole.start(1) + part.start(), begin + first, last - first)
        for pattern, source, begin in places for whole in pattern.finditer(line)
        for part in _PART.finditer(whole[1]) for first, last in places_of(part.group(), source)
    )  # fmt: skip


def derived(question: Asked) -> set[str]:
    """What a question wants and does not name, in small letters."""
    line, named = question.reply.partition("\n")[0].lower(), question.instruction.lower()
    parts = (part.group() for whole in _WANTED.finditer(line) for part in _PART.finditer(whole[1]))
    return {part for part in parts if part not in named}


def found_as(line: str, change: Callable[[str], str]) -> str:
    """The line of a reply, or the reply, with each thing that is found changed."""
    return _FOUND.sub(lambda found: _PART.sub(lambda part: change(part.group()), found[1]), line)


def places_of(text: str, said: str) -> Iterator[tuple[int, int]]:
    """Where a text stands as a word of its own."""
    return (found.span() for found in _word(text).finditer(said))


def _word(text: str) -> re.Pattern[str]:
    """The text as a word of its own: 'x^2' is none of '2*x^2', nor '30' of '30.5', but '08' is of a date."""
    word = re.escape(text)
    alone = rf"(?<![^\s'\"]){word}(?!\.?[^\s.,:;'\"]|:\S)"
    of_date = rf"|{word}(?=-\d\d-\d)|(?<=\d{{4}}-){word}(?=-\d)|(?<=\d{{4}}-\d\d-){word}(?!\d)"
    return re.compile(alone + of_date if text.isdigit() and len(text) > 1 else alone)


class StateQuestions:
    """Draws what else an attempt could have been made at, from how often each aim holds in a walk.

    Yes and no are about equally often the answer to each: otherwise its words would tell the answer, and a
    model would learn not to look (Goyal et al., arXiv 1612.00837).
    """

    def __init__(self, walk: Walk):
        self.space = space(walk[0].app)
        groups = [aims for aims in by_goal(walk[0].app).values() if not aims[0].goal.ask]
        self.aims = [aim for aims in groups for aim in aims]
        sample = walk[:: max(1, len(walk) // 500)]
        self.rates: list[float] = []  # seldom reached values of a goal count alike
        for aims in groups:
            rates = [sum(reached(aim, t.before) for t in sample) / len(sample) for aim in aims]
            seldom = [rate for rate in rates if rate < _SELDOM]
            self.rates += [rate if rate >= _SELDOM else sum(seldom) / len(seldom) for rate in rates]

    def draw(self, state: Mapping[str, Any], said: str, rng: Random, whole: bool = False) -> list[Asked]:
        """Up to `_MORE` questions that what is `said` of a state answers, three in ten for two things.

        The `whole` replies are those to an attempt without steps.
        """
        holds, more = [reached(aim, state) for aim in self.aims], {}
        holding = [aim for aim, success in zip(self.aims, holds, strict=True) if success]
        for aim, success, rate in zip(self.aims, holds, self.rates, strict=True):
            if rng.random() * (rate if success else 1 - rate) > min(rate, 1 - rate):
                continue
            parts = [aim]
            others = [other for other in holding if are_apart([aim.goal, other.goal])]
            if others and rng.random() < 0.3:
                pair = rng.sample([aim, rng.choice(others)], 2)
                parts = parts if self.space.is_committed(pair) else pair
            shown = [part.group() for one in parts for part in _PART.finditer(held(one, state, brief=False))]
            if shown and all(part in said for part in shown):
                text = sentence([reworded(part, rng) for part in parts])
                verdict = Verdict(success, first_error_step=None if success else 1)
                lines = [_compared(part, wanted(part), state, said, reached(part, state)) for part in parts]
                reply = _reply(lines, verdict, whole)
                more[text] = Asked(text, reply, success, whole)
        return rng.sample(list(more.values()), min(len(more), _MORE))


def _compared(aim: Aim, asked: str, state: Mapping[str, Any], said: str, success: bool) -> str:
    """What is asked for, what of it holds, as far as that is said, and whether it is the same."""

    def said_as(part: re.Match[str]) -> str:
        # a value may have another name than its word, and months of a date have two digits
        ways = (part[0], str(aim.goal.values.get(part[0], part[0])), part[0].zfill(2))
        chosen = re.search(rf"(?<!\S){re.escape(part[0])}(?=(?: \w+)?:? on\b)", said, re.IGNORECASE)
        return next((way for way in ways if _word(way).search(said)), chosen[0] if chosen else NOTHING)

    return f"{asked}? {_PART.sub(said_as, held(aim, state))} {'yes' if success else 'no'}"


def _reply(compared: Sequence[str], verdict: Verdict, whole: bool = True) -> str:
    """What is wanted and found, and the verdict."""
    reply = f"{'; '.join(compared)}\n{format_verdict(verdict, details=False)}"
    return reply if whole else reply.partition('"Redundant"')[0]


class Witness:
    """Tells what steps change in a window, from its elements in the part that a judge's reader would see."""

    def __init__(self, desk: Window):
        self.desk, self.seen = desk, Image.fromarray(desk.screenshot())
        self.changes: list[str] = []

    def look(self) -> None:
        """After a step."""
        before, self.seen = self.seen, Image.fromarray(self.desk.screenshot())
        box = changed(before, self.seen)
        self.changes.append(self.within(box) if box else NOTHING)

    def within(self, box: Sequence[int] | None = None) -> str:
        """The texts of a part of the screen, or of all of it."""
        return within(self.desk.elements(), box)


def within(elements: Sequence[Element], box: Sequence[int] | None) -> str:
    """The texts of elements of a part of the screen, or of all of it."""
    return description(elements_in(elements, box))


def elements_in(elements: Sequence[Element], box: Sequence[int] | None) -> Sequence[Element]:
    """Those whose middles lie in a box (left, top, right, bottom) in px, or all."""
    if not box:
        return elements
    middles = ((e, e.box[0] + e.box[2] / 2, e.box[1] + e.box[3] / 2) for e in elements)
    return [e for e, x, y in middles if box[0] <= x < box[2] and box[1] <= y < box[3]]


def told_attempts(walk: Walk, count: int, seed: int | str) -> list[Told]:
    """`count` attempts at the judge's tasks in the application of a walk; faults as in `through_faults`.

    They start perturbed as in the train region.  A third ask for one thing, half for two, the rest for three.
    All failed ones stay: a judge that is used to success believes in it.
    """
    app, further = walk[0].app, StateQuestions(walk)
    rng = Random(f"accounts {app} {seed}")
    tasks = {size: [task for task in judge_tasks(app) if len(task[0]) == size] for size in (1, 2, 3)}

    def draw() -> Told:
        (size,) = rng.choices([1, 2, 3], [0.35, 0.55, 0.1])
        pool = tasks[size] or tasks[2]
        return _play(env, rng.choice(pool), pool, further, rng)

    with closing(opened(app)) as env:
        return list(islice(through_faults(draw), count))


def told_rollouts(walk: Walk, rollouts: Sequence[Trajectory], tasks: Sequence[SampledTask]) -> list[Told]:
    """Rollouts at these tasks, played again for what they changed; labelled by the application's check."""
    app, further, by_id = (
        walk[0].app,
        StateQuestions(walk),
        {task.id: (parts, task) for parts, task in tasks},
    )
    told, rng = [], Random(f"rollouts of {app}")
    with closing(opened(app)) as env:
        for rollout in rollouts:
            parts, task = by_id[rollout.task_id]
            env.reset(task)
            desk = window_of(env)
            witness, plans = Witness(desk), [step.plan for step in rollout.steps]
            for step in rollout.steps:
                for action in (action for action in step.actions if not action.type.ends):
                    desk.perform(action)
                if not any(action.type.ends for action in step.actions):
                    witness.look()
            verdict = script_verdict(task, plans, bool(rollout.success))
            told.append(_told(task, parts, verdict, witness, plans, rollout.answer, further, rng))
    return told


def _told(
    task: Task, parts: Sequence[Aim], verdict: Verdict, witness: Witness, plans: Sequence[str],
    answer: str | None, further: StateQuestions, rng: Random,
) -> Told:  # fmt: skip
    changes, end, state = tuple(witness.changes), witness.within(), witness.desk.state()
    said = " ".join((*changes, end))
    asked = replace(task, evaluate=tuple(item for item in task.evaluate if item["type"] != "state"))
    compared = []
    for aim in parts:
        if aim.goal.ask:
            success = check(asked, state, StopReason.ANS, answer)
            compared.append(_compared(aim, answer or NOTHING, state, said, success))
        else:
            compared.append(_compared(aim, wanted(aim), state, said, reached(aim, state)))
    reply = _reply(compared, verdict)
    others = (one for one in further.draw(state, said, rng) if one.instruction != task.instruction)
    questions = (Asked(task.instruction, reply, verdict.correct), *others)
    return Told(tuple(plans), changes, end, answer, questions)


def _play(
    env: Environment,
    sampled: SampledTask,
    others: Sequence[SampledTask],
    further: StateQuestions,
    rng: Random,
) -> Told:
    parts, task = sampled
    start = replace(task, view=draw_view(task.app, rng, "train") | {"scroll": 0})
    script = _script(sampled, others, rng)
    slips, gives_up = rng.choice(_SLIPS), rng.random() < 0.25
    env.reset(start)
    desk, plans, answer = window_of(env), [], None
    witness = Witness(desk)
    while script and len(plans) < task.steps and not (gives_up and rng.random() < 0.3):
        slip = rng.random() < slips
        step = random_step(desk, rng) if slip else script[0]
        try:
            action = to_action(desk, step)
        except ScriptError:  # what this step needs is not there
            break
        if "answer" in step:
            answer = step["answer"]
            if rng.random() < 0.3:  # another value on the screen, or of another question
                asked = [task.ans for _, task in others if task.ans]
                answer = rng.choice(rng.choice((re.findall(r"[\w.-]+", witness.within()), asked)) or [answer])
            break
        desk.perform(action)
        witness.look()
        plans.append(to_plan(step))
        if not slip or rng.random() < 0.3:
            script = script[1:]
    last_plan, success = ending(env, answer)
    verdict = script_verdict(task, plans := [*plans, last_plan], success)
    return _told(task, parts, verdict, witness, plans, answer, further, rng)


def _script(sampled: SampledTask, others: Sequence[SampledTask], rng: Random) -> list:
    """The task's script; or that of a task like it, its text typed elsewhere, all aims but one, or twice."""
    parts, task = sampled
    dice = rng.random()
    if dice < 0.15:
        return list(rng.choice(similar_tasks(sampled, others))[1].solution)
    if dice < 0.25 and (texts := [step for step in task.solution if "type" in step]):
        other = rng.choice(others)[1].solution
        return [rng.choice(texts) if "type" in step else step for step in other]
    if dice < 0.45 and len(parts) > 1:
        missing = rng.randrange(len(parts))
        return [step for i, aim in enumerate(parts) if i != missing for step in aim.solution]
    return [*task.solution] * (2 if dice > 0.92 else 1)
