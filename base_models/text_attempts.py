"""Attempts in words, for the judge to rule on: steps and what holds at the end, without pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from random import Random

from base_models.attempts import Attempt, Question
from base_models.hindsight import NOTHING, ending, script_verdict, whole_reply
from base_models.training_tasks import SampledTask, judge_tasks, similar_tasks
from base_models.walks import opened, random_step, through_faults, window_of
from coda_lib.environment import Environment
from sciencedesk.script import ScriptError, to_action, to_plan

_SLIPS = (0.0, 0.15, 0.3, 0.5)  # share of random steps, drawn for each attempt
_FAILED = 0.65  # share of the failed attempts that stay, so that about as many succeed as fail


def tasks_by_size(app: str) -> dict[int, list[SampledTask]]:
    """The judge's tasks by their number of aims."""
    return {size: [sampled for sampled in judge_tasks(app) if len(sampled[0]) == size] for size in (1, 2, 3)}


def text_attempts(app: str, count: int, seed: int | str) -> list[Attempt]:
    """`count` attempts, a third at one aim, half at two, the rest at three; faults as in `through_faults`."""
    rng, tasks = Random(f"told attempts {app} {seed}"), tasks_by_size(app)

    def draw() -> Attempt | None:
        (size,) = rng.choices([1, 2, 3], [0.35, 0.55, 0.1])
        pool = tasks[size] or tasks[2]
        attempt, success = _play(env, rng.choice(pool), pool, rng)
        return attempt if success or rng.random() < _FAILED else None

    with closing(opened(app)) as env:
        return list(islice(filter(None, through_faults(draw)), count))


def _play(
    env: Environment, sampled: SampledTask, others: Sequence[SampledTask], rng: Random
) -> tuple[Attempt, bool]:
    """An attempt by script with random steps, and whether it solves the task."""
    parts, task = sampled
    played = task if rng.random() < 0.75 else rng.choice(similar_tasks(sampled, others))[1]
    script = list(played.solution)  # one in four plays that of a task like it
    if len(parts) > 1 and rng.random() < 0.2:  # all aims but one
        missing = rng.randrange(len(parts))
        script = [step for i, aim in enumerate(parts) if i != missing for step in aim.solution]
    if rng.random() < 0.1:  # twice, so that the second time undoes a toggle
        script = [*script, *script]
    slips, gives_up, rest = rng.choice(_SLIPS), rng.random() < 0.25, list(script)
    env.reset(task)
    desk, plans, effects, answer = window_of(env), [], [], None
    screen = desk.screenshot().tobytes()
    while rest and len(plans) < task.steps and not (gives_up and rng.random() < 0.3):
        slip = rng.random() < slips
        step = random_step(desk, rng) if slip else rest[0]
        try:
            action = to_action(desk, step)
        except ScriptError:  # a random step took away what this step needs: start again, or stop
            if rng.random() < 0.5:
                break
            slips, rest = slips + 0.2, list(script)
            continue
        if "answer" in step:
            answer = step["answer"]
            break
        desk.perform(action)
        before, screen = screen, desk.screenshot().tobytes()
        plans.append(to_plan(step))
        effects.append(plans[-1] if screen != before else NOTHING)
        if not slip or rng.random() < 0.3:
            rest = rest[1:]
    last_plan, success = ending(env, answer)
    reply = whole_reply(parts, desk.state(), effects, script_verdict(task, plans, success, len(plans) + 1))
    plans.append(last_plan)
    return Attempt((b"",) * len(plans), (Question(task.instruction, answer, reply),), tuple(plans)), success


def renamed(attempt: Attempt, others: tuple[str, ...], rng: Random) -> Attempt:
    """The attempt's first question with other names, alike in instruction, plans and reply."""
    question = attempt.questions[0]
    if question.instruction.endswith("?"):  # the answer depends on the name
        return attempt
    effects, held, ruling = question.reply.split("\n", 2)
    rename = renaming(" ".join([question.instruction, held, *attempt.plans]), others, rng)
    reply = f"{rename(effects)}\n{rename(held)}\n{ruling}"
    question = replace(question, instruction=rename(question.instruction), reply=reply)
    return replace(attempt, plans=tuple(map(rename, attempt.plans)), questions=(question,))


def renaming(said: str, others: tuple[str, ...], rng: Random) -> Callable[[str], str]:
    """A function that gives the names that are `said` others, alike in all texts."""
    old = sorted(set(_any_of(others).findall(said)))
    new = dict(zip(old, rng.sample(others, len(old)), strict=True))
    new |= {name: old for old, name in new.items() if name not in new}  # so that no two things get one name
    return lambda text: _any_of(tuple(new)).sub(lambda match: new[match.group()], text) if new else text


@lru_cache
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{longest_first})(?!\w)")
