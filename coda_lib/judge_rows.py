"""What the judge learns from: walks, scripts and rollouts, labelled by the application's own check.

None of them asks what a test or a train task asks, in its words or in others.  A case is one attempt with many questions about
it: encoding the pictures is what costs, and one verdict an attempt would teach a tiny model next to nothing for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from coda_lib.action import ActionType
from coda_lib.base_rows import PROMPTS, READING, Row, description
from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class
from coda_lib.envs.sciencedesk.script import ScriptError, to_action, to_plan
from coda_lib.envs.sciencedesk.walk import Moment, random_step, screenshot
from coda_lib.explore import Aim, aims, combinations, compose, sentence, train_pool
from coda_lib.hindsight import leads_to, reached
from coda_lib.judge import judge_messages
from coda_lib.task import Task, goal_text, test_tasks
from coda_lib.trajectory import StopReason, Trajectory, decode_image
from coda_lib.verdict import Verdict, format_verdict

SHORT = "AB"  # grades of what a base planner solves now and then
JUDGE_BATCH = 8  # attempts a step
LOOKS = 20  # single screens a step
QUESTIONS = 16  # most further questions about a case
State = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """What an attempt is asked to have done, the answer that it gave, and what the judge says of it.

    `reply` is a `whole` verdict, or only its beginning, up to what the states tell for sure: `Correctness`; of a single screen
    it may also be what the screen says.
    """

    instruction: str
    answer: str | None
    reply: str
    whole: bool = True


@dataclass(frozen=True)
class Case:
    """An attempt as PNG screenshots in order, and questions about it; of more than a look the first has a whole verdict."""

    pictures: tuple[bytes, ...]
    questions: tuple[Question, ...]

    @property
    def rows(self) -> list[Row]:
        """The questions one by one, as a judge is asked them."""
        images = [decode_image(png) for png in self.pictures]
        return [Row(judge_messages(q.instruction, images, q.answer, PROMPTS), q.reply, q.whole) for q in self.questions]


@cache
def _taken(app: str) -> frozenset[str]:
    """Instructions and goals of the test and train tasks, of which the judge must know nothing."""
    others = [*test_tasks(app), *train_pool(app, desk_class(app).defaults)]
    return frozenset({task.instruction for task in others} | {task.goal for task in others})


def is_taken(app: str, parts: Sequence[Aim]) -> bool:
    """Whether a test or a train task asks for these aims, in these words or in others."""
    goal = goal_text(app, [item for aim in parts for item in aim.checks])
    return not _taken(app).isdisjoint({sentence(parts), goal})


@cache
def judge_tasks(app: str) -> tuple[Task, ...]:
    """Tasks for the judge to learn from: of the same goals, but neither test nor train tasks."""
    taken = _taken(app)
    rng = random.Random(f"judge tasks of {app}")
    parts = [*((aim,) for aim in aims(app)), *combinations(app, 2, rng)[:400], *combinations(app, 3, rng)[:120]]
    defaults = desk_class(app).defaults
    tasks = [compose(app, part, defaults, f"{app}/judge-{i:03d}") for i, part in enumerate(parts)]
    return tuple(task for task in tasks if not {task.instruction, task.goal} & taken)


class Examiner:
    """Makes cases of one application, whose random walk also tells how often each aim holds anyway."""

    def __init__(self, walk: Sequence[Moment]):
        self.walk, self.app = walk, walk[0].app
        self.env = ScienceDesk(self.app)
        self.aims = [aim for aim in aims(self.app) if not aim.goal.ask]
        some = walk[:: max(1, len(walk) // 1500)]
        self.rates = [sum(reached(aim, m.before) for m in some) / len(some) for aim in self.aims]

    def look(self, rng: random.Random) -> Case:
        """A single screen, to be read out and asked about: to tell what it shows is most of a judge's work."""
        moment = rng.choice(self.walk)
        read = Question(READING, None, description(moment))
        return Case((moment.screen,), (read, *self.questions([moment.before], None, rng)))

    def stretch(self, rng: random.Random) -> Case:
        """A stretch of the walk judged as an attempt at something: what it achieved, or something near that it did not.

        Without a plan behind it a walk looks like most rollouts of a base planner, and its states say for sure what it achieved.
        """
        start = rng.randrange(len(self.walk))
        if rng.random() < 0.5:  # from where the walk began, as an episode does
            start = next(i for i in range(start, -1, -1) if not i or self.walk[i - 1].walk != self.walk[i].walk)
        length = rng.choice([1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6])
        part = [m for m in self.walk[start : start + length] if m.walk == self.walk[start].walk]
        states = [part[0].before, *(m.after for m in part)]
        aim, success = self._attempted(states, rng)
        needed = _needed(part, aim) if success else set(range(len(part)))
        redundant = tuple(i + 1 for i in range(len(part)) if i not in needed)
        verdict = Verdict(success, redundant, None if success else 1)
        asked = Question(sentence([aim]), None, format_verdict(verdict, details=False))
        pictures = (*(m.screen for m in part), part[-1].next_screen)
        return Case(pictures, (asked, *self.questions(states, asked.instruction, rng)))

    def script(self, task: Task, others: Sequence[Task], rng: random.Random) -> Case:
        """One attempt at a task by its script, three times in five marred.

        Marring: a step left out, the script of another value of the task, an early end, a step that nobody needed, a wrong
        answer; and wandering, with or without the beginning of the script, as most rollouts of a base planner do.
        """
        script, first_error = _marred(task, others, rng)
        steps = list(enumerate(script))
        if rng.random() < 0.3:
            extra = rng.randrange(len(script) + 1)
            steps.insert(extra, (extra, None))
        self.env.reset(task)
        desk = self.env.desk
        pictures, states, redundant, answer = [screenshot(desk)], [desk.state()], [], None
        for i, step in steps:
            if step is None:
                redundant.append(len(pictures))
            try:
                action = to_action(desk, step or random_step(desk, tuple(desk.elements()), rng))
            except ScriptError:  # the marring has taken away what this step needs: the attempt ends here
                first_error = min(i, len(script) if first_error is None else first_error)
                break
            desk.perform(action)
            if action.type == ActionType.ANS:
                answer = action.text
            else:
                pictures.append(screenshot(desk))
                states.append(desk.state())
        success = self.env.check(StopReason.ANS if answer is not None else StopReason.DONE, answer)
        verdict = Verdict(success, tuple(redundant), None if success else (first_error or 0) + 1)
        asked = Question(task.instruction, answer, format_verdict(verdict, details=False))
        return Case(tuple(pictures), (asked, *self.questions(states, asked.instruction, rng)))

    def rollout(self, trajectory: Trajectory, task: Task, rng: random.Random) -> Case:
        """A rollout of a base planner at one of the judge's own tasks, played again for the states behind it.

        Steps that the task's script does not take count as redundant, unless the rollout succeeded in no more steps than
        the script: then it found a way of its own.  The first of them is the error of a failed rollout.
        """
        script = [to_plan(step) for step in task.solution]
        steps = [step.plan for step in trajectory.steps if step.plan != "DONE"]
        other = [i + 1 for i, plan in enumerate(steps) if plan not in script]
        redundant = () if trajectory.success and len(steps) <= len(script) else tuple(other)
        error = None if trajectory.success else (other or [len(trajectory.steps)])[0]
        verdict = Verdict(bool(trajectory.success), redundant, error)
        asked = Question(trajectory.instruction, trajectory.answer, format_verdict(verdict, details=False))
        self.env.reset(task)
        states = [self.env.desk.state()]
        for step in trajectory.steps:
            for action in step.actions:
                self.env.desk.perform(action)
            states.append(self.env.desk.state())
        return Case(tuple(trajectory.screenshots), (asked, *self.questions(states, asked.instruction, rng)))

    def questions(self, states: Sequence[State], asked: str | None, rng: random.Random) -> list[Question]:
        """What else one might ask of the same attempt; only how it ended decides.

        Drawn so that each is answered with yes and with no about equally often (at most one to three): or its words would
        tell the answer, and a model would learn not to look (Goyal et al., arXiv 1612.00837).
        """
        now = [reached(aim, states[-1]) for aim in self.aims]
        holding = [aim for aim, holds in zip(self.aims, now, strict=True) if holds]
        found: dict[str, Question] = {}
        for aim, holds, rate in zip(self.aims, now, self.rates, strict=True):
            if rng.random() * (rate if holds else 1 - rate) > 3 * min(rate, 1 - rate):
                continue
            parts = [aim]
            others = [other for other in holding if other.goal.name != aim.goal.name]
            if others and (is_taken(self.app, parts) or rng.random() < 0.3):
                parts = rng.sample([aim, rng.choice(others)], 2)
            text = sentence(parts)
            if not is_taken(self.app, parts) and text != asked:
                verdict = format_verdict(Verdict(holds), details=False)
                found[text] = Question(text, None, verdict[: verdict.index('"Redundant"')], whole=False)
        return rng.sample(list(found.values()), min(len(found), QUESTIONS))

    def _attempted(self, states: Sequence[State], rng: random.Random) -> tuple[Aim, bool]:
        """What an attempt may have been about: nothing that held before; and whether it did it."""
        open_ = [aim for aim in self.aims if not reached(aim, states[0]) and not is_taken(self.app, [aim])]
        done = [aim for aim in open_ if reached(aim, states[-1])]
        missed = [aim for aim in open_ if aim not in done]
        moved = {aim.goal.name for aim in self.aims if reached(aim, states[-1]) and not reached(aim, states[0])}
        near = [aim for aim in missed if aim.goal.name in moved] or missed
        return (rng.choice(done), True) if done and rng.random() < 0.6 else (rng.choice(near), False)


def _marred(task: Task, others: Sequence[Task], rng: random.Random) -> tuple[list[dict[str, Any] | None], int | None]:
    """A task's script, perhaps marred (None: whatever a curious person might do), and where its first error is."""
    script: list[dict[str, Any] | None] = [dict(step) for step in task.solution]
    dice = rng.random()
    cut = rng.randrange(len(script))
    if dice < 0.1:
        return script[:cut] + script[cut + 1 :], cut
    if dice < 0.2:
        return script[:cut], cut
    if dice < 0.4:
        other = rng.choice(others).solution
        same = next((i for i, (a, b) in enumerate(zip(script, other, strict=False)) if a != b), len(script))
        return [dict(step) for step in other], same
    if dice < 0.6:
        cut = rng.choice([0, cut + 1])
        return script[:cut] + [None] * rng.randint(1, 4), cut
    return script, None


def _needed(stretch: Sequence[Moment], aim: Aim) -> set[int]:
    """The steps that achieved an aim: the last one to do so, and those that led to it."""
    i = max(i for i, m in enumerate(stretch) if reached(aim, m.after) and not reached(aim, m.before))
    needed = {i}
    while i and (leads_to(stretch[i - 1], stretch[i]) or not str(stretch[i - 1].step.get("type", "\n")).endswith("\n")):
        i -= 1  # what opened the way; what was typed and not yet entered is part of a form
        needed.add(i)
    return needed


def alike(task: Task, tasks: Sequence[Task]) -> list[Task]:
    """Tasks that differ from this one in a value or in one goal: the attempts that are hardest to tell apart."""
    words = task.instruction.split()
    near = [t for t in tasks if t.id != task.id and len(t.instruction.split()) == len(words)]
    near = [t for t in near if sum(a != b for a, b in zip(words, t.instruction.split(), strict=True)) <= 2]
    return near or [t for t in tasks if t.id != task.id]


def looking_source(walks: Sequence[Sequence[Moment]]) -> Callable[[random.Random], Case]:
    """Single screens alone, with which a judge begins: a screen is a fraction of an attempt's cost, and says as much."""
    examiners = [Examiner(moments) for moments in walks]
    return lambda rng: rng.choice(examiners).look(rng)


def by_task(rollouts: Sequence[Trajectory]) -> list[tuple[str, list[list[Trajectory]]]]:
    """The rollouts of each task, those that solved it and those that did not, as far as there are any."""
    found: dict[str, dict[bool, list[Trajectory]]] = {}
    for trajectory in rollouts:
        found.setdefault(trajectory.task_id, {}).setdefault(bool(trajectory.success), []).append(trajectory)
    return [(name, list(outcomes.values())) for name, outcomes in found.items()]


def judge_source(
    walks: Sequence[Sequence[Moment]], rollouts: Sequence[Sequence[Trajectory]]
) -> Callable[[random.Random], Case]:
    """Cases for the judge: screens, walks, scripts of tasks of its own, and the base planner's `rollouts` at such tasks.

    One list of rollouts an application.  Where a task was solved in some of its rollouts, half of those drawn are of these:
    or its words would tell the verdict.  Cases of like length follow each other in groups of `JUDGE_BATCH`, so that little of
    a batch is padding.
    """
    examiners = [Examiner(moments) for moments in walks]
    tasks = [judge_tasks(examiner.app) for examiner in examiners]
    short = [[task for task in own if task.grade in SHORT] for own in tasks]
    named = {task.id: task for own in tasks for task in own}
    played = [by_task(some) for some in rollouts]
    near: dict[str, list[Task]] = {}
    waiting: list[Case] = []

    def attempt(rng: random.Random) -> Case:
        i, dice = rng.randrange(len(examiners)), rng.random()
        if dice < 0.4:
            return examiners[i].look(rng)
        if dice < 0.6:
            return examiners[i].stretch(rng)
        if dice < 0.8 and rollouts[i]:
            name, outcomes = rng.choice(played[i])
            return examiners[i].rollout(rng.choice(rng.choice(outcomes)), named[name], rng)
        task = rng.choice(short[i] if rng.random() < 0.4 else tasks[i])
        if task.id not in near:
            near[task.id] = alike(task, tasks[i])
        return examiners[i].script(task, near[task.id], rng)

    def draw(rng: random.Random) -> Case:
        if not waiting:
            made = sorted((attempt(rng) for _ in range(12 * JUDGE_BATCH)), key=lambda case: len(case.pictures))
            groups = [made[k : k + JUDGE_BATCH] for k in range(0, len(made), JUDGE_BATCH)]
            rng.shuffle(groups)
            waiting.extend(case for group in groups for case in group)
        return waiting.pop()

    return draw
