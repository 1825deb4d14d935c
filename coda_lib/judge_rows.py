"""What the judge learns from: walks, scripts and rollouts, labelled by the application's own check.

None of them asks what a test or a train task asks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache

from coda_lib.action import ActionType
from coda_lib.base_rows import PROMPTS, Row, leads_to, reached
from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class
from coda_lib.envs.sciencedesk.script import ScriptError, to_action, to_plan
from coda_lib.envs.sciencedesk.walk import Moment, random_step, screenshot
from coda_lib.explore import Aim, aims, combinations, compose, sentence, train_pool
from coda_lib.judge import Verdict, format_verdict, judge_messages
from coda_lib.task import Task, test_tasks
from coda_lib.trajectory import StopReason, Trajectory, decode_image

JUDGE_BATCH = 24
SOLVED = 0.6  # of the rollouts that the judge learns from; fewer, and it would call hardly any a success


@cache
def _taken(app: str) -> frozenset[str]:
    """Instructions and goals of the test and train tasks, of which the judge must know nothing."""
    others = [*test_tasks(app), *train_pool(app, desk_class(app).defaults)]
    return frozenset({task.instruction for task in others} | {task.goal for task in others})


def judge_tasks(app: str) -> list[Task]:
    """Tasks for the judge to learn from: of the same goals, but neither test nor train tasks."""
    taken = _taken(app)
    rng = random.Random(f"judge tasks of {app}")
    parts = [*((aim,) for aim in aims(app)), *combinations(app, 2, rng)[:400], *combinations(app, 3, rng)[:120]]
    defaults = desk_class(app).defaults
    tasks = [compose(app, part, defaults, f"{app}/judge-{i:03d}") for i, part in enumerate(parts)]
    return [task for task in tasks if not {task.instruction, task.goal} & taken]


def judged_attempt(env: ScienceDesk, task: Task, others: Sequence[Task], rng: random.Random) -> Row:
    """One attempt at a task by its script, half of the time marred, with the verdict that the application's check gives.

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
    elif dice < 0.78:
        cut = rng.choice([0, 0, rng.randrange(len(script) + 1)])
        script, first_error = script[:cut] + [None] * rng.randint(1, 7), cut
    extra = rng.randrange(len(script) + 1) if rng.random() < 0.3 else None
    env.reset(task)
    pictures = [screenshot(env.desk)]
    answer = None
    for i, step in enumerate(script):
        if i == extra:
            redundant.append(len(pictures))
            env.step(to_action(env.desk, random_step(env.desk, tuple(env.desk.elements()), rng)))
            pictures.append(screenshot(env.desk))
        if step is None:
            step = random_step(env.desk, tuple(env.desk.elements()), rng)
            redundant.append(len(pictures))
        try:
            action = to_action(env.desk, step)
        except ScriptError:  # the marring has taken away what this step needs: the attempt ends here
            first_error = min(i, len(script) if first_error is None else first_error)
            break
        env.step(action)
        answer = step.get("answer", answer)
        if action.type != ActionType.ANS:
            pictures.append(screenshot(env.desk))
    success = env.check(StopReason.ANS if answer is not None else StopReason.DONE, answer)
    verdict = Verdict(success, tuple(redundant), None if success else (first_error or 0) + 1)
    images = [decode_image(png) for png in pictures]
    return Row(judge_messages(task.instruction, images, answer, PROMPTS), format_verdict(verdict, details=False))


def judged_walk(moments: Sequence[Moment], rng: random.Random) -> Row:
    """A stretch of a random walk judged as an attempt at something: what it achieved, or something near that it did not.

    Without a plan behind it a walk looks like most rollouts of a base planner, and its states say for sure what it achieved.
    """
    start = rng.randrange(len(moments))
    if rng.random() < 0.5:  # from where the walk began, as an episode does
        start = next(i for i in range(start, -1, -1) if not i or moments[i - 1].walk != moments[i].walk)
    length = rng.choice([1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5, 7])
    stretch = [m for m in moments[start : start + length] if m.walk == moments[start].walk]
    before, after = stretch[0].before, stretch[-1].after
    wishes = [aim for aim in aims(stretch[0].app) if not aim.goal.ask]
    open_ = [aim for aim in wishes if not reached(aim, before)]
    achieved = [aim for aim in open_ if reached(aim, after)]
    missed = [aim for aim in open_ if aim not in achieved]
    touched = {aim.goal.name for aim in achieved}
    near = [aim for aim in missed if aim.goal.name in touched] or missed
    dice = rng.random()
    if achieved and dice < 0.45:
        parts = rng.sample(achieved, min(len(achieved), rng.choice([1, 1, 2, 3])))
    elif achieved and dice < 0.6:
        parts = [rng.choice(achieved), rng.choice(missed)]
        rng.shuffle(parts)
    else:
        parts = rng.sample(near if dice < 0.85 else missed, rng.choice([1, 1, 2]) if len(near) > 1 else 1)
    if sentence(parts) in _taken(stretch[0].app):
        return judged_walk(moments, rng)  # another stretch, another wish
    success = all(aim in achieved for aim in parts)
    needed = _needed(stretch, parts) if success else set(range(len(stretch)))
    redundant = tuple(i + 1 for i in range(len(stretch)) if i not in needed)
    verdict = Verdict(success, redundant, None if success else 1)
    images = [decode_image(m.screen) for m in stretch] + [decode_image(stretch[-1].next_screen)]
    return Row(judge_messages(sentence(parts), images, None, PROMPTS), format_verdict(verdict, details=False))


def _needed(stretch: Sequence[Moment], parts: Sequence[Aim]) -> set[int]:
    """The steps that achieved the aims, for each the last one to do so, and those that led to them."""
    needed = set()
    for aim in parts:
        i = max(i for i, m in enumerate(stretch) if reached(aim, m.after) and not reached(aim, m.before))
        needed.add(i)
        while i and leads_to(stretch[i - 1], stretch[i]):
            i -= 1
            needed.add(i)
    return needed


def judged_rollout(trajectory: Trajectory, task: Task) -> Row:
    """A rollout of a base planner at one of the judge's own tasks, labelled by the application's check.

    Steps that the task's script does not take count as redundant, unless the rollout succeeded in no more steps than the
    script: then it found a way of its own.  The first of them is the error of a failed rollout.
    """
    script = [to_plan(step) for step in task.solution]
    steps = [step.plan for step in trajectory.steps if step.plan != "DONE"]
    other = [i + 1 for i, plan in enumerate(steps) if plan not in script]
    redundant = () if trajectory.success and len(steps) <= len(script) else tuple(other)
    error = None if trajectory.success else (other or [len(trajectory.steps)])[0]
    verdict = Verdict(bool(trajectory.success), redundant, error)
    images = [decode_image(png) for png in trajectory.screenshots]
    messages = judge_messages(trajectory.instruction, images, trajectory.answer, PROMPTS)
    return Row(messages, format_verdict(verdict, details=False))


def alike(task: Task, tasks: Sequence[Task]) -> list[Task]:
    """Tasks that differ from this one in a value or in one goal: the attempts that are hardest to tell apart."""
    words = task.instruction.split()
    near = [t for t in tasks if t.id != task.id and len(t.instruction.split()) == len(words)]
    near = [t for t in near if sum(a != b for a, b in zip(words, t.instruction.split(), strict=True)) <= 2]
    return near or [t for t in tasks if t.id != task.id]


def judge_source(
    walks: Sequence[Sequence[Moment]], rollouts: Sequence[Sequence[Trajectory]]
) -> Callable[[random.Random], Row]:
    """Rows for the judge, whose doubts should be those of its work: most of what it will see has failed.

    A third are stretches of walks, a quarter scripts of tasks of its own, whole or marred and played as they are drawn, and
    the rest `rollouts` of the base planner at such tasks (one list an application).  Attempts of like length follow each
    other in groups of `JUDGE_BATCH`, so that little of a batch is padding.
    """
    envs = [ScienceDesk(moments[0].app) for moments in walks]
    tasks = [judge_tasks(env.app) for env in envs]
    short = [[task for task in own if task.grade in "AB"] for own in tasks]  # what a base planner solves now and then
    named = {task.id: task for own in tasks for task in own}
    near: dict[str, list] = {}
    waiting: list[Row] = []

    def attempt(rng: random.Random) -> Row:
        i, dice = rng.randrange(len(envs)), rng.random()
        if dice < 0.35:
            return judged_walk(walks[i], rng)
        if dice < 0.75 and rollouts[i]:
            solved = [played for played in rollouts[i] if played.success] if rng.random() < SOLVED else []
            played = rng.choice(solved or rollouts[i])
            return judged_rollout(played, named[played.task_id])
        task = rng.choice(short[i] if rng.random() < 0.5 else tasks[i])
        if task.id not in near:
            near[task.id] = alike(task, tasks[i])
        return judged_attempt(envs[i], task, near[task.id], rng)

    def draw(rng: random.Random) -> Row:
        if not waiting:
            made = sorted((attempt(rng) for _ in range(6 * JUDGE_BATCH)), key=lambda row: len(row.messages[0]["content"]))
            groups = [made[k : k + JUDGE_BATCH] for k in range(0, len(made), JUDGE_BATCH)]
            rng.shuffle(groups)
            waiting.extend(row for group in groups for row in group)
        return waiting.pop()

    return draw
