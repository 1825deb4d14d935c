"""Attempts in words, as a judge that looks rules on them: what each step changed and what the end shows.

The words are true to what is on the screen; a model reads some letters wrong, and so do those to learn from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

from PIL import Image

from base_models.hindsight import ending, held, script_verdict
from base_models.rows import PROMPTS, Row, description
from base_models.text_attempts import renaming, tasks_by_size
from base_models.training_tasks import SampledTask, similar_tasks
from base_models.walks import (
    Transition,
    Walks,
    Window,
    names,
    opened,
    random_step,
    through_faults,
    window_of,
)
from coda_lib.environment import Environment
from coda_lib.judge import Verdict, account_messages, format_verdict
from coda_lib.models.reading import NOTHING, Account, changed
from coda_lib.prompts import render
from coda_lib.trajectory import Trajectory, decode_image
from sciencedesk.desk.elements import Element
from sciencedesk.goals import Aim
from sciencedesk.perturb import draw_view
from sciencedesk.script import ScriptError, to_action, to_plan

_SLIPS = (0.0, 0.15, 0.3, 0.5)  # share of random steps, drawn for each attempt
_LIKE = ("iIl1j|!", "hnb", "oO0QDe", "rf", "uvw", "mn", "cea", "sS5", "zZ2", "gq9", "8B", ",.", ":;", "-~_")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_FAILED = 0.4  # share of the failed attempts that stay: some three of ten of those kept succeed
MISREAD = (0.0, 0.02, 0.06, 0.1)  # share of letters, drawn for each attempt


@dataclass(frozen=True)
class Told:
    """An attempt in words and the judge's reply: what holds of what was asked, and the verdict."""

    instruction: str
    plans: tuple[str, ...]  # with the one that ended the attempt
    changes: tuple[str, ...]
    end: str
    answer: str | None
    reply: str
    success: bool

    @property
    def row(self) -> Row:
        account = Account(self.changes, self.end)
        return Row(account_messages(self.instruction, self.plans, account, self.answer, PROMPTS), self.reply)


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
        return _within(self.desk.elements(), box)


def _within(elements: Sequence[Element], box: Sequence[int] | None) -> str:
    if box:
        middles = ((e, e.box[0] + e.box[2] / 2, e.box[1] + e.box[3] / 2) for e in elements)
        elements = [e for e, x, y in middles if box[0] <= x < box[2] and box[1] <= y < box[3]]
    return description(elements)


def told_attempts(app: str, count: int, seed: int | str) -> list[Told]:
    """`count` attempts at the judge's tasks, in windows of any look; faults as in `through_faults`.

    A third ask for one thing, half for two, the rest for three.
    """
    rng, tasks = Random(f"accounts {app} {seed}"), tasks_by_size(app)

    def draw() -> Told | None:
        (size,) = rng.choices([1, 2, 3], [0.35, 0.55, 0.1])
        pool = tasks[size] or tasks[2]
        told = _play(env, rng.choice(pool), pool, rng)
        return told if told.success or rng.random() < _FAILED else None

    with closing(opened(app)) as env:
        return list(islice(filter(None, through_faults(draw)), count))


def told_rollouts(app: str, rollouts: Sequence[Trajectory], tasks: Sequence[SampledTask]) -> list[Told]:
    """Rollouts at these tasks, played again for what they changed; labelled by the application's check."""
    by_id = {task.id: (parts, task) for parts, task in tasks}
    told = []
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
            verdict = script_verdict(task, plans, bool(rollout.success), len(plans))
            told.append(_told(rollout.instruction, parts, witness, plans, rollout.answer, verdict))
    return told


def _told(
    instruction: str, parts: Sequence[Aim], witness: Witness, plans: Sequence[str], answer: str | None,
    verdict: Verdict,
) -> Told:  # fmt: skip
    reply = f"{held(parts, witness.desk.state())}\n{format_verdict(verdict, details=False)}"
    changes = tuple(witness.changes)
    return Told(instruction, tuple(plans), changes, witness.within(), answer, reply, verdict.correct)


def _play(env: Environment, sampled: SampledTask, others: Sequence[SampledTask], rng: Random) -> Told:
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
            if rng.random() < 0.3:  # another value on the screen
                answer = rng.choice(re.findall(r"[\w.-]+", witness.within()) or [answer])
            break
        desk.perform(action)
        witness.look()
        plans.append(to_plan(step))
        if not slip or rng.random() < 0.3:
            script = script[1:]
    last_plan, success = ending(env, answer)
    verdict = script_verdict(task, plans, success, len(plans) + 1)
    return _told(task.instruction, parts, witness, [*plans, last_plan], answer, verdict)


def _script(sampled: SampledTask, others: Sequence[SampledTask], rng: Random) -> list:
    """The task's script; or that of a task like it, all aims but one, or a script played twice."""
    parts, task = sampled
    dice = rng.random()
    if dice < 0.25:
        return list(rng.choice(similar_tasks(sampled, others))[1].solution)
    if dice < 0.45 and len(parts) > 1:
        missing = rng.randrange(len(parts))
        return [step for i, aim in enumerate(parts) if i != missing for step in aim.solution]
    return [*task.solution] * (2 if dice > 0.92 else 1)


def part_row(step: Transition, following: Transition | None, rng: Random) -> Row:
    """A screen to read out, or the part of the next one that a step of a walk changed."""
    screen, after = decode_image(step.screen), decode_image(step.next_screen)
    box = changed(screen, after) if following and rng.random() < 0.7 else None
    picture, elements = (after.crop(box), following.elements) if box else (screen, step.elements)
    return Row(render(PROMPTS, "reading", picture=picture), _within(elements, box))


def ruling_sampler(apps: Sequence[str], attempts: Sequence[Sequence[Told]]) -> Callable[[Random], Row]:
    """Attempts in words to rule on, half of them with other names, with letters that a reader confused."""

    def draw(rng: Random) -> Row:
        i = rng.randrange(len(apps))
        told = rng.choice(attempts[i])
        return misread(renamed(told, names(apps[i]), rng) if rng.random() < 0.5 else told, rng).row

    return draw


def part_sampler(walks: Walks) -> Callable[[Random], Row]:
    """Parts of screens to read out, as a judge's reader gets them."""

    def draw(rng: Random) -> Row:
        walk = rng.choice(walks)
        i = rng.randrange(len(walk))
        following = walk[i + 1] if i + 1 < len(walk) and walk[i + 1].walk == walk[i].walk else None
        return part_row(walk[i], following, rng)

    return draw


def misread(told: Told, rng: Random) -> Told:
    """The attempt as a reader that confuses letters would tell it."""
    share = rng.choice(MISREAD)

    def letters(text: str) -> Iterator[str]:
        for letter in text:
            if letter.isspace() or rng.random() >= share:
                yield letter
            elif rng.random() < 0.85:  # some are left out
                like = [group for group in _LIKE if letter in group]
                yield rng.choice(rng.choice(like) if like and rng.random() < 0.7 else _LETTERS)

    changes = tuple("".join(letters(change)) for change in told.changes)
    return replace(told, changes=changes, end="".join(letters(told.end)))


def renamed(told: Told, others: tuple[str, ...], rng: Random) -> Told:
    """The attempt with other names, alike in all that is said of it: names are compared, not known."""
    if told.answer is not None:  # the answer depends on the name
        return told
    held_, _, verdict = told.reply.partition("\n")
    said = " ".join([told.instruction, held_, told.end, *told.plans, *told.changes])
    rename = renaming(said, others, rng)
    return replace(
        told, instruction=rename(told.instruction), plans=tuple(map(rename, told.plans)),
        changes=tuple(map(rename, told.changes)), end=rename(told.end), reply=f"{rename(held_)}\n{verdict}",
    )  # fmt: skip
