"""What the judge learns from: walks, scripts and rollouts, labelled by the application's own check.

None of them asks what a test or a train task asks, in its words or in others.  A case is one attempt with several questions:
encoding the pictures is what costs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from coda_lib.action import ActionType
from coda_lib.base_models.attempts import Case, Question, State, did, needless, ruling_source, whole_reply
from coda_lib.base_models.hindsight import leads_to, reached
from coda_lib.base_models.lessons import Lesson, alike, is_taken, judge_lessons
from coda_lib.base_models.rows import READING, Row, description
from coda_lib.base_models.walks import Moment, random_step, screenshot
from coda_lib.envs.sciencedesk.env import ScienceDesk
from coda_lib.envs.sciencedesk.script import ScriptError, to_action, to_plan
from coda_lib.explore import Aim, aims, sentence
from coda_lib.judge import Verdict
from coda_lib.task import Task
from coda_lib.trajectory import StopReason, Trajectory

SHORT = "AB"  # grades of what a base planner solves now and then
JUDGE_BATCH = 8  # attempts a step
LOOKS = 16  # single screens a step
QUESTIONS = 8  # most questions about a single screen


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
        return Case((moment.screen,), (read, *self.questions([moment.before], (), rng, most=QUESTIONS)))

    def stretch(self, rng: random.Random) -> Case:
        """A stretch of the walk judged as an attempt at several things: what it achieved, and something near that it did not.

        Without a plan behind it a walk looks like most rollouts of a base planner, and its states say for sure what it achieved.
        """
        start = rng.randrange(len(self.walk))
        if rng.random() < 0.5:  # from where the walk began, as an episode does
            start = next(i for i in range(start, -1, -1) if not i or self.walk[i - 1].walk != self.walk[i].walk)
        length = rng.choice([1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6])
        part = [m for m in self.walk[start : start + length] if m.walk == self.walk[start].walk]
        states = [part[0].before, *(m.after for m in part)]
        steps = [did(m.plan, m.screen, m.next_screen) for m in part]
        pictures = (*(m.screen for m in part), part[-1].next_screen)
        found = {}
        for _ in range(3):
            aim, success = self._attempted(states, rng)
            needed = _needed(part, aim) if success else set(range(len(part)))
            redundant = tuple(i + 1 for i in range(len(part)) if i not in needed)
            reply = whole_reply([aim], states[-1], steps, Verdict(success, redundant, None if success else 1))
            found[sentence([aim])] = Question(sentence([aim]), None, reply)
        plans = (*(m.plan for m in part), "DONE")
        return Case(pictures, (*found.values(), *self.questions(states, list(found), rng, steps)), plans)

    def script(self, lesson: Lesson, others: Sequence[Lesson], rng: random.Random) -> Case:
        """One attempt at a task by its script, three times in five marred.

        Marring: a step left out, the script of another value of the task, an early end, a step that nobody needed, a wrong
        answer; and wandering, with or without the beginning of the script, as most rollouts of a base planner do.
        """
        parts, task = lesson
        script, first_error = _marred(task, [other for _, other in others], rng)
        order = list(enumerate(script))
        if rng.random() < 0.3:
            extra = rng.randrange(len(script) + 1)
            order.insert(extra, (extra, None))
        self.env.reset(task)
        desk = self.env.desk
        pictures, states, steps, plans, redundant, answer = [screenshot(desk)], [desk.state()], [], [], [], None
        for i, step in order:
            if step is None:
                redundant.append(len(pictures))
            try:
                step = step or random_step(desk, tuple(desk.elements()), rng)
                action = to_action(desk, step)
            except ScriptError:  # the marring has taken away what this step needs: the attempt ends here
                first_error = min(i, len(script) if first_error is None else first_error)
                break
            desk.perform(action)
            if action.type == ActionType.ANS:
                answer = action.text
            else:
                pictures.append(screenshot(desk))
                states.append(desk.state())
                plans.append(to_plan(step))
                steps.append(did(plans[-1], *pictures[-2:]))
        plans.append("DONE" if answer is None else f"ANS {answer}")
        success = self.env.check(StopReason.ANS if answer is not None else StopReason.DONE, answer)
        verdict = Verdict(success, tuple(redundant), None if success else (first_error or 0) + 1)
        asked = Question(task.instruction, answer, whole_reply(parts, states[-1], steps, verdict))
        return Case(tuple(pictures), (asked, *self.questions(states, [asked.instruction], rng, steps)), tuple(plans))

    def rollout(self, trajectory: Trajectory, lesson: Lesson, rng: random.Random) -> Case:
        """A rollout of a base planner at one of the judge's own tasks, played again for the states behind it.

        The first step that the task's script does not take is the error of a failed rollout.
        """
        parts, task = lesson
        script = [to_plan(step) for step in task.solution]
        plans = [step.plan for step in trajectory.steps if step.plan != "DONE"]
        other = [i + 1 for i, plan in enumerate(plans) if plan not in script]
        redundant = needless(plans, script) if trajectory.success else tuple(other)
        error = None if trajectory.success else (other or [len(trajectory.steps)])[0]
        self.env.reset(task)
        states = [self.env.desk.state()]
        for step in trajectory.steps:
            for action in step.actions:
                self.env.desk.perform(action)
            states.append(self.env.desk.state())
        pictures = tuple(trajectory.screenshots)
        # DONE, FAIL and an answer add no picture
        steps = [did(s.plan, a, b) for s, a, b in zip(trajectory.steps, pictures, pictures[1:], strict=False)]
        reply = whole_reply(parts, states[-1], steps, Verdict(bool(trajectory.success), redundant, error))
        asked = Question(trajectory.instruction, trajectory.answer, reply)
        told = tuple(step.plan for step in trajectory.steps)
        return Case(pictures, (asked, *self.questions(states, [asked.instruction], rng, steps)), told)

    def questions(
        self, states: Sequence[State], asked: Sequence[str], rng: random.Random, steps: Sequence[str] = (), most: int = 4
    ) -> list[Question]:
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
            if not is_taken(self.app, parts) and text not in asked:
                reply = whole_reply(parts, states[-1], steps, Verdict(holds)).partition('"Redundant"')[0]
                found[text] = Question(text, None, reply, whole=False)
        return rng.sample(list(found.values()), min(len(found), most))

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


def attempts(walk: Sequence[Moment], rollouts: Sequence[Trajectory], count: int, seed: int) -> list[Case]:
    """So many attempts at the judge's own tasks in one application: by script, and (as far as there are any) rollouts.

    Where a task was solved in some of its rollouts, half of those drawn are of these: or its words would tell the verdict.
    """
    examiner, rng = Examiner(walk), random.Random(f"attempts {walk[0].app} {seed}")
    lessons = judge_lessons(examiner.app)
    short = [lesson for lesson in lessons if lesson[1].grade in SHORT]
    named, played = {lesson[1].id: lesson for lesson in lessons}, by_task(rollouts)

    def attempt() -> Case:
        if played and rng.random() < 0.6:
            name, outcomes = rng.choice(played)
            return examiner.rollout(rng.choice(rng.choice(outcomes)), named[name], rng)
        lesson = rng.choice(short if rng.random() < 0.5 else lessons)
        return examiner.script(lesson, alike(lesson, lessons), rng)

    return [attempt() for _ in range(count)]


def judge_source(
    walks: Sequence[Sequence[Moment]], tried: Sequence[Sequence[Case]], told: Sequence[Sequence[Case]]
) -> Callable[[random.Random], list[Row]]:
    """Rows for the judge, one list a case: of five cases, one is a screen, two are stretches of walks and two of the attempts
    `tried` (a list an application); one batch in three is of four rulings each on what is `told` in words, or on what was tried.

    Cases of like length follow each other in groups of `JUDGE_BATCH`, so that little of a batch is padding.
    """
    examiners = [Examiner(moments) for moments in walks]
    apps = [examiner.app for examiner in examiners]
    rule = ruling_source(apps, [[*words, *acted, *acted] for words, acted in zip(told, tried, strict=True)])
    waiting: list[list[Row]] = []

    def case(rng: random.Random) -> Case:
        i, dice = rng.randrange(len(examiners)), rng.random()
        if dice < 0.4 and tried[i]:
            return rng.choice(tried[i])
        return examiners[i].stretch(rng) if dice < 0.8 else examiners[i].look(rng)

    def draw(rng: random.Random) -> list[Row]:
        if not waiting:
            made = sorted((case(rng) for _ in range(12 * JUDGE_BATCH)), key=lambda case: len(case.pictures))
            groups = [[one.rows for one in made[k : k + JUDGE_BATCH]] for k in range(0, len(made), JUDGE_BATCH)]
            groups += [[[rule(rng) for _ in range(4)] for _ in range(JUDGE_BATCH)] for _ in range(6)]
            rng.shuffle(groups)
            waiting.extend(rows for group in groups for rows in group)
        return waiting.pop()

    return draw
