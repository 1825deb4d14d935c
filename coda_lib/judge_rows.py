"""What the judge learns from: walks, scripts and rollouts, labelled by the application's own check.

None of them asks what a test or a train task asks.  A case is one attempt with many questions about it: encoding the pictures
is what costs, and one verdict an attempt would teach a tiny model next to nothing for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from coda_lib.action import ActionType
from coda_lib.base_rows import PROMPTS, Row, leads_to, reached
from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class
from coda_lib.envs.sciencedesk.script import ScriptError, to_action, to_plan
from coda_lib.envs.sciencedesk.walk import Moment, random_step, screenshot
from coda_lib.explore import Aim, aims, combinations, compose, sentence, train_pool
from coda_lib.judge import Verdict, format_verdict, judge_messages
from coda_lib.task import Task, test_tasks
from coda_lib.trajectory import StopReason, Trajectory, decode_image

JUDGE_BATCH = 8  # cases a step
QUESTIONS = 16  # most further questions about a case
State = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """What an attempt is asked to have done, the answer that it gave, and what the judge says of it.

    `reply` is a whole verdict, or only its beginning, up to what the states tell for sure: `Correctness`.
    """

    instruction: str
    answer: str | None
    reply: str


@dataclass(frozen=True)
class Case:
    """An attempt as PNG screenshots in order, and questions about it; the first has a whole verdict."""

    pictures: tuple[bytes, ...]
    questions: tuple[Question, ...]

    @property
    def rows(self) -> list[Row]:
        """The questions one by one, as a judge is asked them."""
        images = [decode_image(png) for png in self.pictures]
        return [Row(judge_messages(q.instruction, images, q.answer, PROMPTS), q.reply) for q in self.questions]


@cache
def _taken(app: str) -> frozenset[str]:
    """Instructions and goals of the test and train tasks, of which the judge must know nothing."""
    others = [*test_tasks(app), *train_pool(app, desk_class(app).defaults)]
    return frozenset({task.instruction for task in others} | {task.goal for task in others})


@cache
def judge_tasks(app: str) -> tuple[Task, ...]:
    """Tasks for the judge to learn from: of the same goals, but neither test nor train tasks."""
    taken = _taken(app)
    rng = random.Random(f"judge tasks of {app}")
    parts = [*((aim,) for aim in aims(app)), *combinations(app, 2, rng)[:400], *combinations(app, 3, rng)[:120]]
    defaults = desk_class(app).defaults
    tasks = [compose(app, part, defaults, f"{app}/judge-{i:03d}") for i, part in enumerate(parts)]
    return tuple(task for task in tasks if not {task.instruction, task.goal} & taken)


# -- attempts --------------------------------------------------------------------------------------------------------------


def script_case(env: ScienceDesk, task: Task, others: Sequence[Task], rng: random.Random) -> Case:
    """One attempt at a task by its script, half of the time marred.

    Marring: a step left out, the script of another value of the task, an early end, a step that nobody needed, a wrong answer;
    and wandering, with or without the beginning of the script, since that is what most rollouts of a base planner look like.
    """
    script: list[dict | None] = [dict(step) for step in task.solution]  # None: whatever a curious person might do
    first_error: int | None = None
    redundant: list[int] = []
    dice = rng.random()
    if dice < 0.1:
        first_error = rng.randrange(len(script))
        script = script[:first_error] + script[first_error + 1 :]
    elif dice < 0.2:
        cut = rng.randrange(len(script))
        script, first_error = script[:cut], cut
    elif dice < 0.4:
        other = rng.choice(others)
        same = next((i for i, (a, b) in enumerate(zip(script, other.solution, strict=False)) if a != b), len(script))
        script, first_error = [dict(step) for step in other.solution], same
    elif dice < 0.6:
        cut = rng.choice([0, rng.randrange(len(script) + 1)])
        script, first_error = script[:cut] + [None] * rng.randint(1, 4), cut
    extra = rng.randrange(len(script) + 1) if rng.random() < 0.3 else None
    env.reset(task)
    pictures, states = [screenshot(env.desk)], [env.desk.state()]
    answer = None

    def act(step: Mapping[str, Any]) -> None:
        action = to_action(env.desk, step)
        env.desk.perform(action)
        if action.type != ActionType.ANS:
            pictures.append(screenshot(env.desk))
            states.append(env.desk.state())

    for i, step in enumerate(script):
        for wanted in ([None] if i == extra else []) + [step]:
            if wanted is None:
                redundant.append(len(pictures))
                wanted = random_step(env.desk, tuple(env.desk.elements()), rng)
            try:
                act(wanted)
            except ScriptError:  # the marring has taken away what this step needs: the attempt ends here
                first_error = min(i, len(script) if first_error is None else first_error)
                break
            answer = wanted.get("answer", answer)
        else:
            continue
        break
    success = env.check(StopReason.ANS if answer is not None else StopReason.DONE, answer)
    verdict = Verdict(success, tuple(redundant), None if success else (first_error or 0) + 1)
    asked = Question(task.instruction, answer, format_verdict(verdict, details=False))
    return Case(tuple(pictures), (asked, *further_questions(env.app, states, asked.instruction, rng)))


def walk_case(moments: Sequence[Moment], rng: random.Random) -> Case:
    """A stretch of a random walk judged as an attempt at something: what it achieved, or something near that it did not.

    Without a plan behind it a walk looks like most rollouts of a base planner, and its states say for sure what it achieved.
    Two in five are a single screen: to tell what it shows is most of a judge's work.
    """
    start = rng.randrange(len(moments))
    if rng.random() < 0.4:
        state = moments[start].before
        return Case((moments[start].screen,), tuple(further_questions(moments[start].app, [state], None, rng)))
    if rng.random() < 0.5:  # from where the walk began, as an episode does
        start = next(i for i in range(start, -1, -1) if not i or moments[i - 1].walk != moments[i].walk)
    length = rng.choice([1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6])
    stretch = [m for m in moments[start : start + length] if m.walk == moments[start].walk]
    app, states = stretch[0].app, [stretch[0].before, *(m.after for m in stretch)]
    wishes = Wishes.of(app, states)
    drawn = iter(lambda: wishes.attempted(rng), None)
    parts, success = next((parts, success) for parts, success in drawn if sentence(parts) not in _taken(app))
    needed = _needed(stretch, parts) if success else set(range(len(stretch)))
    redundant = tuple(i + 1 for i in range(len(stretch)) if i not in needed)
    verdict = Verdict(success, redundant, None if success else 1)
    asked = Question(sentence(parts), None, format_verdict(verdict, details=False))
    pictures = (*(m.screen for m in stretch), stretch[-1].next_screen)
    return Case(pictures, (asked, *further_questions(app, states, asked.instruction, rng)))


def rollout_case(env: ScienceDesk, trajectory: Trajectory, task: Task, rng: random.Random) -> Case:
    """A rollout of a base planner at one of the judge's own tasks, played again for the states behind it.

    Steps that the task's script does not take count as redundant, unless the rollout succeeded in no more steps than the
    script: then it found a way of its own.  The first of them is the error of a failed rollout.
    """
    script = [to_plan(step) for step in task.solution]
    steps = [step.plan for step in trajectory.steps if step.plan != "DONE"]
    other = [i + 1 for i, plan in enumerate(steps) if plan not in script]
    redundant = () if trajectory.success and len(steps) <= len(script) else tuple(other)
    error = None if trajectory.success else (other or [len(trajectory.steps)])[0]
    verdict = Verdict(bool(trajectory.success), redundant, error)
    asked = Question(trajectory.instruction, trajectory.answer, format_verdict(verdict, details=False))
    env.reset(task)
    states = [env.desk.state()]
    for step in trajectory.steps:
        for action in step.actions:
            env.desk.perform(action)
        states.append(env.desk.state())
    return Case(tuple(trajectory.screenshots), (asked, *further_questions(env.app, states, asked.instruction, rng)))


# -- questions about them --------------------------------------------------------------------------------------------------


Wish = tuple[Aim, bool]  # an aim, and whether it holds when the attempt ends


@dataclass(frozen=True)
class Wishes:
    """What one might ask of an attempt."""

    achieved: list[Wish]  # hold when it ends, and did not when it began
    held: list[Wish]  # hold when it ends, and did when it began
    lost: list[Wish]  # held when it began, and do no longer
    near: list[Wish]  # never held but in between, if at all: undone again, or another value of something that holds
    far: list[Wish]  # never held

    @classmethod
    def of(cls, app: str, states: Sequence[State]) -> Wishes:
        wishes = [aim for aim in aims(app) if not aim.goal.ask]
        held = [[reached(aim, state) for state in states] for aim in wishes]
        touched = {aim.goal.name for aim, then in zip(wishes, held, strict=True) if then[-1]}
        made = cls([], [], [], [], [])
        for aim, then in zip(wishes, held, strict=True):
            if then[-1]:
                (made.held if then[0] else made.achieved).append((aim, True))
            elif then[0]:
                made.lost.append((aim, False))
            else:
                (made.near if any(then) or aim.goal.name in touched else made.far).append((aim, False))
        return made

    def attempted(self, rng: random.Random) -> tuple[list[Aim], bool]:
        """What an attempt may have been about: nothing that held before; and whether it did it."""
        aim, done = rng.choice(self.achieved if self.achieved and rng.random() < 0.5 else self.near or self.far)
        return [aim], done

    def any(self, rng: random.Random) -> tuple[list[Aim], bool]:
        """One to three aims of different goals, and whether all of them hold."""
        holding = self.achieved if self.achieved and rng.random() < 0.6 else self.held
        close = self.near + self.lost
        pools = [holding if rng.random() < 0.6 else close if rng.random() < 0.6 else self.far]
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            pools.append(rng.choice([self.held, self.achieved or self.held, self.held, close]))
        parts = list({wish[0].goal.name: wish for wish in map(rng.choice, filter(None, pools))}.values())
        rng.shuffle(parts)
        return [aim for aim, _ in parts], all(holds for _, holds in parts)


def further_questions(app: str, states: Sequence[State], asked: str | None, rng: random.Random) -> list[Question]:
    """What else one might ask of the same attempt: only how it ended decides."""
    wishes = Wishes.of(app, states)
    found: dict[str, Question] = {}
    for _ in range(QUESTIONS):
        parts, success = wishes.any(rng)
        text = sentence(parts)
        if text not in _taken(app) and text != asked:
            whole = format_verdict(Verdict(success), details=False)
            found[text] = Question(text, None, whole[: whole.index('"Redundant"')])
    return list(found.values())


def _needed(stretch: Sequence[Moment], parts: Sequence[Aim]) -> set[int]:
    """The steps that achieved the aims, for each the last one to do so, and those that led to them."""
    needed = set()
    for aim in parts:
        i = max(i for i, m in enumerate(stretch) if reached(aim, m.after) and not reached(aim, m.before))
        needed.add(i)
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


def judge_source(
    walks: Sequence[Sequence[Moment]], rollouts: Sequence[Sequence[Trajectory]]
) -> Callable[[random.Random], Case]:
    """Cases for the judge: walks, scripts of tasks of its own, and the base planner's `rollouts` at such tasks.

    One list of rollouts an application.  Cases of like length follow each other in groups of `JUDGE_BATCH`, so that little
    of a batch is padding.
    """
    envs = [ScienceDesk(moments[0].app) for moments in walks]
    short = [[task for task in judge_tasks(env.app) if task.grade in "AB"] for env in envs]  # what a base planner solves
    named = {task.id: task for env in envs for task in judge_tasks(env.app)}
    near: dict[str, list[Task]] = {}
    waiting: list[Case] = []

    def attempt(rng: random.Random) -> Case:
        i, dice = rng.randrange(len(envs)), rng.random()
        if dice < 0.5:
            return walk_case(walks[i], rng)
        if dice < 0.75 and rollouts[i]:
            played = rng.choice(rollouts[i])
            return rollout_case(envs[i], played, named[played.task_id], rng)
        task = rng.choice(short[i] if rng.random() < 0.4 else judge_tasks(envs[i].app))
        if task.id not in near:
            near[task.id] = alike(task, judge_tasks(envs[i].app))
        return script_case(envs[i], task, near[task.id], rng)

    def draw(rng: random.Random) -> Case:
        if not waiting:
            made = sorted((attempt(rng) for _ in range(12 * JUDGE_BATCH)), key=lambda case: len(case.pictures))
            groups = [made[k : k + JUDGE_BATCH] for k in range(0, len(made), JUDGE_BATCH)]
            rng.shuffle(groups)
            waiting.extend(case for group in groups for case in group)
        return waiting.pop()

    return draw
