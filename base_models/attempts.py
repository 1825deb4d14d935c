"""Attempts for the judge to learn from: walks, scripts and rollouts, labelled by the application's state.

The judge replies what each step did, what holds at the end, and then its verdict.  From verdicts alone, one
bit an attempt, a tiny model learns which instructions are hard, and does not look.  (The paper's judge
learned from captions of frames, too.) Encoding pictures is what costs, so each attempt has several questions.
All ask what is to be trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any

from base_models.hindsight import (
    State,
    effects_of,
    ending,
    leads_to,
    reached,
    reworded,
    script_verdict,
    whole_reply,
)
from base_models.rows import PROMPTS, READING, Row, description, without_pictures
from base_models.training_tasks import SampledTask, judge_tasks, similar_tasks
from base_models.walks import (
    Walk,
    by_goal,
    opened,
    perform,
    random_step,
    screenshot,
    through_faults,
    window_of,
)
from coda_lib.judge import Verdict, judge_messages
from coda_lib.models.chat import Message
from coda_lib.task import Task
from coda_lib.trajectory import Trajectory, decode_image
from sciencedesk.goals import Aim, are_apart, sentence
from sciencedesk.script import ScriptError
from sciencedesk.space import space

_SELDOM = 0.1  # share of a walk's states
_SHORT = "AB"  # grades of the tasks that a base planner solves now and then


@dataclass(frozen=True)
class Question:
    """The instruction to judge an attempt by, the answer that it gave, and the judge's reply.

    Without `whole` the reply ends with `Correctness`: the states do not tell the redundant steps.  About a
    single screen the reply may also be its description.
    """

    instruction: str
    answer: str | None
    reply: str
    whole: bool = True


@dataclass(frozen=True)
class Attempt:
    """PNG screenshots in order, and questions about them; the first with `plans` has a whole reply.

    `plans` are those of all steps, with the one that ended the attempt; a single screen has none.
    """

    pictures: tuple[bytes, ...]
    questions: tuple[Question, ...]
    plans: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """One row for each question, in the judge's prompt."""
        images = [decode_image(png) for png in self.pictures]
        return [Row(self._messages(q, images), q.reply, q.whole) for q in self.questions]

    @property
    def rulings(self) -> list[Row]:
        """Whole replies without pictures, of which what each step did is given and the rest is learned."""
        rows = []
        for question in (q for q in self.questions if q.whole and self.plans):
            steps, _, ruling = question.reply.partition("\n")
            row = Row(self._messages(question, self.pictures), ruling, given=f"{steps}\n")
            rows.append(without_pictures(row))
        return rows

    def _messages(self, question: Question, pictures: Sequence[Any]) -> list[Message]:
        return judge_messages(question.instruction, pictures, question.answer, PROMPTS, self.plans)


class AttemptMaker:
    """Makes attempts of one application, from a random walk; it tells how often each aim holds by chance."""

    def __init__(self, walk: Walk):
        self.walk, self.app = walk, walk[0].app
        self.env = opened(self.app)
        groups = [aims for aims in by_goal(self.app).values() if not aims[0].goal.ask]
        self.aims = [aim for aims in groups for aim in aims]
        sample = walk[:: max(1, len(walk) // 500)]
        self.rates: list[float] = []  # seldom reached values of a goal count alike
        for aims in groups:
            rates = [sum(reached(aim, t.before) for t in sample) / len(sample) for aim in aims]
            seldom = [rate for rate in rates if rate < _SELDOM]
            self.rates += [rate if rate >= _SELDOM else sum(seldom) / len(seldom) for rate in rates]

    def screen(self, rng: Random) -> Attempt:
        """A single screen to read out and be asked about: a judge mostly has to see what a screen shows."""
        transition = rng.choice(self.walk)
        read, state = Question(READING, None, description(transition.elements)), transition.before
        return self._with_more([read], state, (), [transition.screen], (), rng, most=8)

    def stretch(self, rng: Random) -> Attempt:
        """A stretch of the walk, judged as an attempt at three aims that it reached or came near to.

        A walk without a purpose looks like most rollouts of a base planner, and its states tell for certain
        what it achieved.
        """
        start = rng.randrange(len(self.walk))
        if rng.random() < 0.5:  # from the beginning of a walk, as an episode
            while start and self.walk[start - 1].walk == self.walk[start].walk:
                start -= 1
        length = rng.choice([1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6])
        part = [t for t in self.walk[start : start + length] if t.walk == self.walk[start].walk]
        before, after = part[0].before, part[-1].after
        pictures, plans = [*(t.screen for t in part), part[-1].next_screen], [*(t.plan for t in part), "DONE"]
        effects, questions = effects_of(plans, pictures), {}
        for _ in range(3):
            aim, success = self._draw_aim(before, after, rng)
            verdict = Verdict(True, _redundant(part, aim)) if success else Verdict(False, (), 1)
            reply = whole_reply([aim], after, effects, verdict)
            text = sentence([reworded(aim, rng)])
            questions[text] = Question(text, None, reply)
        return self._with_more(list(questions.values()), after, effects, pictures, plans, rng)

    def script(self, sampled: SampledTask, others: Sequence[SampledTask], rng: Random) -> Attempt:
        """An attempt by script, in three of five cases with a fault, three of ten with a redundant step."""
        parts, task = sampled
        script, first_error = _with_fault(parts, task, [other for _, other in others], rng)
        steps = list(enumerate(script))
        if rng.random() < 0.3:
            extra = rng.randrange(len(script) + 1)
            steps.insert(extra, (extra, None))
        self.env.reset(task)
        desk, taken, redundant, answer = window_of(self.env), [], [], None
        for i, step in steps:
            if step is None:
                redundant.append(len(taken) + 1)
            elif "answer" in step:
                answer = step["answer"]
                continue
            try:
                taken.append(perform(desk, step or random_step(desk, rng), *taken[-1:]))
            except ScriptError:  # the fault took away what this step needs: the attempt ends here
                first_error = min(i, len(script) if first_error is None else first_error)
                break
        last_plan, success = ending(self.env, answer)
        pictures = [*(t.screen for t in taken), screenshot(desk)]
        plans = [*(t.plan for t in taken), last_plan]
        verdict = Verdict(success, tuple(redundant), None if success else (first_error or 0) + 1)
        return self._ended(parts, task.instruction, answer, verdict, pictures, plans, rng)

    def rollout(self, trajectory: Trajectory, sampled: SampledTask, rng: Random) -> Attempt:
        """A rollout at one of the judge's tasks, played again for the state at its end."""
        (parts, task), plans = sampled, [step.plan for step in trajectory.steps]
        taken = [plan for plan in plans if plan != "DONE"]
        verdict = script_verdict(task, taken, bool(trajectory.success), len(plans))
        self.env.reset(task)
        desk = window_of(self.env)
        for action in (action for step in trajectory.steps for action in step.actions):
            desk.perform(action)
        instruction, pictures = trajectory.instruction, trajectory.screenshots
        return self._ended(parts, instruction, trajectory.answer, verdict, pictures, plans, rng)

    def _ended(
        self, parts: Sequence[Aim], instruction: str, answer: str | None, verdict: Verdict,
        pictures: Sequence[bytes], plans: Sequence[str], rng: Random,
    ) -> Attempt:  # fmt: skip
        """The attempt that ends in the application's present state."""
        state, effects = window_of(self.env).state(), effects_of(plans, pictures)
        question = Question(instruction, answer, whole_reply(parts, state, effects, verdict))
        return self._with_more([question], state, effects, pictures, plans, rng)

    def _with_more(
        self, questions: Sequence[Question], state: State, effects: Sequence[str],
        pictures: Sequence[bytes], plans: Sequence[str], rng: Random, most: int = 4,
    ) -> Attempt:  # fmt: skip
        """The attempt with at most so many other questions, answered by the state at its end.

        Each is drawn so that yes and no are about equally often the answer: otherwise its words would
        tell the answer, and a model would learn not to look (Goyal et al., arXiv 1612.00837).
        """
        holds = [reached(aim, state) for aim in self.aims]
        holding = [aim for aim, success in zip(self.aims, holds, strict=True) if success]
        asked, more = {question.instruction for question in questions}, {}
        for aim, success, rate in zip(self.aims, holds, self.rates, strict=True):
            if rng.random() * (rate if success else 1 - rate) > min(rate, 1 - rate):
                continue
            parts = [aim]
            others = [other for other in holding if are_apart([aim.goal, other.goal])]
            if others and rng.random() < 0.3:
                pair = rng.sample([aim, rng.choice(others)], 2)
                parts = parts if space(self.app).is_committed(pair) else pair
            text = sentence([reworded(part, rng) for part in parts])
            if text not in asked:
                reply = whole_reply(parts, state, effects, Verdict(success)).partition('"Redundant"')[0]
                more[text] = Question(text, None, reply, whole=False)
        drawn = rng.sample(list(more.values()), min(len(more), most))
        return Attempt(tuple(pictures), (*questions, *drawn), tuple(plans))

    def _draw_aim(self, before: State, after: State, rng: Random) -> tuple[Aim, bool]:
        """An aim that did not hold before an attempt, and whether the attempt reached it."""
        free = [aim for aim in self.aims if not reached(aim, before)]
        done = [aim for aim in free if reached(aim, after)]
        missed = [aim for aim in free if aim not in done]
        changed = {aim.goal.name for aim in done}
        near = [aim for aim in missed if aim.goal.name in changed] or missed
        return (rng.choice(done), True) if done and rng.random() < 0.6 else (rng.choice(near), False)


def _with_fault(
    parts: Sequence[Aim], task: Task, others: Sequence[Task], rng: Random
) -> tuple[list[Mapping[str, Any] | None], int | None]:
    """A task's script, perhaps with a fault (None: a random step), and the index of its first error."""
    script: list[Mapping[str, Any] | None] = list(task.solution)
    if len(parts) > 1 and rng.random() < 0.2:  # half of what was asked looks much like all of it
        k = rng.randrange(len(parts))
        start = sum(len(aim.solution) for aim in parts[:k])
        return script[:start] + script[start + len(parts[k].solution) :], start
    dice = rng.random()
    cut = rng.randrange(len(script))
    if dice < 0.1:
        return script[:cut] + script[cut + 1 :], cut
    if dice < 0.2:
        return script[:cut], cut
    if dice < 0.4:
        other = list(rng.choice(others).solution)
        same = next((i for i, (a, b) in enumerate(zip(script, other, strict=False)) if a != b), len(script))
        return other, same
    if dice < 0.6:
        cut = rng.choice([0, cut + 1])
        return script[:cut] + [None] * rng.randint(1, 4), cut
    return script, None


def _redundant(part: Walk, aim: Aim) -> tuple[int, ...]:
    """The steps, counted from 1, but for the last one that reached an aim and those that led to it."""
    i = max(i for i, t in enumerate(part) if reached(aim, t.after) and not reached(aim, t.before))
    needed = {i}
    while i:
        earlier = part[i - 1]  # what is typed and not yet entered is part of a form
        if not leads_to(earlier, part[i]) and str(earlier.step.get("type", "\n")).endswith("\n"):
            break
        i -= 1
        needed.add(i)
    return tuple(i + 1 for i in range(len(part)) if i not in needed)


def by_task(rollouts: Sequence[Trajectory]) -> dict[str, list[list[Trajectory]]]:
    """The rollouts of each task, those that solved it and those that did not, as far as there are any."""
    outcomes: dict[str, dict[bool, list[Trajectory]]] = {}
    for trajectory in rollouts:
        of_task = outcomes.setdefault(trajectory.task_id, {})
        of_task.setdefault(bool(trajectory.success), []).append(trajectory)
    return {task: list(lists.values()) for task, lists in outcomes.items()}


def labelled_attempts(
    walk: Walk, rollouts: Sequence[Trajectory], count: int, seed: int | str
) -> list[Attempt]:
    """`count` attempts at the judge's tasks in the application of a walk: three of five by rollouts if any.

    The others are by script.  Of a task with both outcomes, half of the rollouts drawn are of each: otherwise
    its words would tell the verdict.  Such tasks are at least half of those drawn.  EnvironmentFault as in
    `through_faults`.
    """
    maker, rng = AttemptMaker(walk), Random(f"attempts {walk[0].app} {seed}")
    pool, played = judge_tasks(maker.app), list(by_task(rollouts).items())
    by_id = {sampled[1].id: sampled for sampled in pool}
    both = [(task, outcomes) for task, outcomes in played if len(outcomes) > 1] or played
    short = [sampled for sampled in pool if sampled[1].grade in _SHORT]

    def draw() -> Attempt:
        if played and rng.random() < 0.6:
            task, outcomes = rng.choice(both if rng.random() < 0.5 else played)
            return maker.rollout(rng.choice(rng.choice(outcomes)), by_id[task], rng)
        sampled = rng.choice(short if rng.random() < 0.5 else pool)
        return maker.script(sampled, similar_tasks(sampled, pool), rng)

    with closing(maker.env):
        return list(islice(through_faults(draw), count))
