"""Attempts as a judge that looks is shown them: by script, by the base planner, and single screens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from random import Random

import numpy as np
from PIL import Image

from base_models.hindsight import ending, reached, script_verdict, wanted
from base_models.lettering import letter_scores, tokens_of_letters
from base_models.packing import TOKEN
from base_models.rows import PROMPTS, Row, Rows, description
from base_models.rulings import Asked, Part, StateQuestions, comparison, said_of
from base_models.seeing import Reader
from base_models.training_tasks import SampledTask, judge_tasks, similar_tasks
from base_models.walks import (
    Walk,
    Walks,
    Window,
    opened,
    random_step,
    through_faults,
    window_of,
)
from coda_lib.environment import Environment
from coda_lib.judge import Verdict, account_messages
from coda_lib.models.reading import NOTHING, Account, changed
from coda_lib.task import Task, check
from coda_lib.trajectory import StopReason, Trajectory, decode_image, encode_image
from sciencedesk.desk.elements import Element
from sciencedesk.goals import Aim
from sciencedesk.perturb import asked_goals, draw_view, perturbed
from sciencedesk.script import ScriptError, to_action, to_plan

_NEAR = 4  # batches of attempts of like length, of which one is drawn
_SLIPS = (0.0, 0.15, 0.3, 0.5)  # share of random steps, drawn for each attempt
_START = partial(perturbed, region="train")  # of a run of a task


@dataclass(frozen=True)
class Told:
    """An attempt as it is shown; the first question is that of its task, and may have an answer."""

    plans: tuple[str, ...]  # with the one that ended the attempt
    changes: tuple[bytes | None, ...]  # PNG of the part that each step changed
    end: bytes  # PNG of the last screen
    answer: str | None
    questions: tuple[Asked, ...]
    length: int  # tokens of the pictures and letters of the plans

    @property
    def success(self) -> bool:
        return self.questions[0].success

    @property
    def account(self) -> Account:
        changes = (decode_image(png) if png else NOTHING for png in self.changes)
        return Account(tuple(changes), decode_image(self.end))

    @property
    def rows(self) -> list[Row]:
        """A row for each question, alike up to the instruction."""
        account, answers = self.account, [self.answer, *[None] * len(self.questions)]
        rows = []
        for question, answer in zip(self.questions, answers, strict=False):
            messages = account_messages(question.instruction, self.plans, account, answer, PROMPTS)
            copied = question.copied(messages[-1]["content"][-1]["text"])
            rows.append(Row(messages, question.reply, question.whole, read=question.read,
                            letters=question.letters, copied=copied))  # fmt: skip
        return rows

    def lettered(self, reader: Reader) -> Told:
        """The same with the places of the letters that a reader finds."""
        shown = [png for png in (*self.changes, self.end) if png]

        @cache
        def scores(number: int) -> np.ndarray:
            return letter_scores(reader, decode_image(shown[number]))

        def letters(question: Asked) -> Iterator[tuple[int, int, int]]:
            for begin, length, tokens, number in question.read:
                text = question.reply[begin : begin + length]
                _, found = (tokens_of_letters(scores(number), text, tokens) if tokens else None) or (0, ())
                yield from ((begin + at, token, number) for at, token in enumerate(found))

        return replace(self, questions=tuple(replace(q, letters=tuple(letters(q))) for q in self.questions))


class Witness:
    """Keeps what steps change in a window, as a judge is shown it, with the elements there."""

    def __init__(self, desk: Window):
        self.desk, self.seen = desk, Image.fromarray(desk.screenshot())
        self.changes: list[Part | None] = []

    def look(self) -> None:
        """After a step."""
        before, self.seen = self.seen, Image.fromarray(self.desk.screenshot())
        box = changed(before, self.seen)
        self.changes.append(self._part(box) if box else None)

    @property
    def end(self) -> Part:
        return self._part((0, 0, *self.seen.size))

    @property
    def shown(self) -> list[Part]:
        """All that there is to see, in order."""
        return [*filter(None, self.changes), self.end]

    def _part(self, box: tuple[int, int, int, int]) -> Part:
        return Part(encode_image(self.seen.crop(box)), box, elements_in(self.desk.elements(), box))


def elements_in(elements: Sequence[Element], box: Sequence[int]) -> Sequence[Element]:
    """Those whose middles lie in a box (left, top, right, bottom) in px."""
    middles = ((e, e.box[0] + e.box[2] / 2, e.box[1] + e.box[3] / 2) for e in elements)
    return [e for e, x, y in middles if box[0] <= x < box[2] and box[1] <= y < box[3]]


def told_screens(walk: Walk, count: int, seed: int | str) -> list[Told]:
    """At most `count` screens of a walk, each with what could be asked."""
    draw, rng = screen_sampler([walk]), Random(f"screens {walk[0].app} {seed}")
    return [told for told in (draw(rng) for _ in range(count)) if told]


def screen_sampler(walks: Walks) -> Callable[[Random], Told | None]:
    """Single screens as attempts without steps, which cost less; None where there is nothing to ask."""
    asking = [(StateQuestions(walk), walk) for walk in walks]

    def draw(rng: Random) -> Told | None:
        questions, walk = rng.choice(asking)
        step = rng.choice(walk)
        end = Part(step.screen, (0, 0, *decode_image(step.screen).size), step.elements)
        asked = questions.draw(step.before, [end], rng)
        return (
            Told(("DONE",), (), step.screen, None, tuple(asked), _length(["DONE"], [end])) if asked else None
        )

    return draw


def _length(plans: Sequence[str], shown: Sequence[Part]) -> int:
    areas = ((right - left) * (bottom - top) for left, top, right, bottom in (part.box for part in shown))
    return sum(map(len, plans)) + sum(area // TOKEN**2 for area in areas)


def told_attempts(walk: Walk, count: int, seed: int | str) -> list[Told]:
    """`count` attempts by script at the judge's tasks in a walk's application; faults as in `through_faults`.

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


def told_rollouts(
    walk: Walk, rollouts: Sequence[Trajectory], tasks: Sequence[SampledTask],
    start: Callable[[Task, int], Task] = _START,
) -> list[Told]:  # fmt: skip
    """Rollouts at these tasks, each run from its own `start`, played again for what they changed.

    They are labelled by the application's check.
    """
    app, further, by_id = (
        walk[0].app,
        StateQuestions(walk),
        {task.id: (parts, task) for parts, task in tasks},
    )
    told, rng = [], Random(f"rollouts of {app}")
    with closing(opened(app)) as env:
        for rollout in rollouts:
            parts, task = by_id[rollout.task_id]
            task = start(task, rollout.run)
            if task.ans:  # another run may ask for another value
                parts = [Aim(goal, word) for goal, word in asked_goals(app, task.instruction)] or parts
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
    shown, state = witness.shown, witness.desk.state()
    said = said_of(shown)
    asked = replace(task, evaluate=tuple(item for item in task.evaluate if item["type"] != "state"))
    compared = []
    for aim in parts:
        if aim.goal.ask:
            success = check(asked, state, StopReason.ANS, answer)
            compared.append(comparison(aim, answer or NOTHING, state, said, success))
        else:
            compared.append(comparison(aim, wanted(aim), state, said, reached(aim, state)))
    others = (one for one in further.draw(state, shown, rng) if one.instruction != task.instruction)
    questions = (Asked.about(task.instruction, compared, verdict, shown), *others)
    changes = tuple(part and part.picture for part in witness.changes)
    return Told(tuple(plans), changes, shown[-1].picture, answer, questions, _length(plans, shown))


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
                answer = rng.choice(
                    rng.choice((re.findall(r"[\w.-]+", description(desk.elements())), asked)) or [answer]
                )
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


def ruling_sampler(
    pools: Sequence[Sequence[Told]], length: int, reader: Reader
) -> Callable[[Random], list[Rows]]:  # fmt: skip
    """Batches of attempts to rule on, from each pool equally often, with the letters that a reader finds.

    Those of a batch are of like length, or half of it were padding; they are as many as have some `length`
    (tokens and letters) together.
    """
    lettered = cache(lambda told: told.lettered(reader))
    sorted_pools = [sorted(pool, key=lambda told: told.length) for pool in pools if pool]

    def draw(rng: Random) -> list[Rows]:
        pool = rng.choice(sorted_pools)
        at = rng.randrange(len(pool))
        batch = min(len(pool), max(1, length // pool[at].length))
        near = min(len(pool), _NEAR * batch)
        first = min(max(0, at - near // 2), len(pool) - near)
        return [lettered(told).rows for told in rng.sample(pool[first : first + near], batch)]

    return draw
