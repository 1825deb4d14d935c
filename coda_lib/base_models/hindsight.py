"""Hindsight: what one or two steps of a walk happened to achieve, as the instruction, and what it did, as the plan.

The base planner learns from it, and the executor for when it is asked alone.  Instructions of test tasks never occur.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from coda_lib.action import Action
from coda_lib.base_models.rows import PROMPTS, Row, on_grid, unambiguous
from coda_lib.base_models.walks import Moment
from coda_lib.envs.sciencedesk.script import to_plan
from coda_lib.executor import solo_messages
from coda_lib.explore import Aim, aims, combinations, sentence
from coda_lib.planner import Observation, Turn, planner_messages
from coda_lib.task import holds, test_tasks
from coda_lib.trajectory import decode_image


@cache
def _held_out(app: str) -> frozenset[str]:
    return frozenset(task.instruction for task in test_tasks(app))


@dataclass(frozen=True)
class Hindsight:
    """One decision seen in hindsight: at this point of a walk, this instruction asks for this step (None: it is done)."""

    instruction: str
    history: tuple[Moment, ...]  # the steps of the segment already taken, and perhaps some aimless ones before
    previous: bytes
    current: bytes
    step: dict | None
    action: Action
    instead: tuple[str, ...] = ()  # what else is on the screen
    aimless: tuple[Moment, ...] = ()  # up to three steps of the walk before the segment
    after: dict | None = None  # the state, where it is done


def hindsights(app: str, moments: Sequence[Moment]) -> list[Hindsight]:
    """All hindsight decisions of a walk's one- and two-step segments."""
    found: list[Hindsight] = []
    for i, moment in enumerate(moments):
        aimless = tuple(m for m in moments[max(0, i - 3) : i] if m.walk == moment.walk)
        found += _segment(app, (moment,), aimless)
        if i + 1 < len(moments) and moments[i + 1].walk == moment.walk and leads_to(moment, moments[i + 1]):
            found += _segment(app, (moment, moments[i + 1]), aimless)
    return found


def leads_to(first: Moment, second: Moment) -> bool:
    """Whether the second step needed the first: what it acts on was not there before, or it types into a new focus."""
    (kind, what), visible = next(iter(second.step.items())), {e.name for e in first.elements}
    if kind == "type":
        return first.screen != first.next_screen and "click" in first.step
    return kind != "press" and not ({what} if isinstance(what, str) else {what[0]}) <= visible


def _segment(app: str, segment: tuple[Moment, ...], aimless: tuple[Moment, ...]) -> Iterator[Hindsight]:
    achieved = [aim for aim in aims(app) if not aim.goal.ask and _achieved(aim, segment[0].before, segment[-1].after)]
    if len(segment) == 2 and any(_achieved(aim, segment[0].before, segment[0].after) for aim in achieved):
        return
    for instruction in (sentence([aim]) for aim in achieved):
        if instruction in _held_out(app):
            continue
        for k, moment in enumerate(segment):
            previous = segment[k - 1].screen if k else moment.screen
            instead = tuple(e.name for e in unambiguous(moment))
            yield Hindsight(
                instruction, segment[:k], previous, moment.screen, moment.step, moment.action, instead, aimless
            )  # fmt: skip
        last = segment[-1]
        yield Hindsight(
            instruction, segment, last.screen, last.next_screen, None, Action.done(), aimless=aimless, after=last.after
        )  # fmt: skip


def _achieved(aim: Aim, before: dict, after: dict) -> bool:
    return reached(aim, after) and not reached(aim, before)


def reached(aim: Aim, state: dict) -> bool:
    """Whether an aim holds in an application's state."""
    return all(holds(item, state) for item in aim.checks)


def _observation(hindsight: Hindsight) -> Observation:
    history = tuple(Turn(moment.plan, on_grid(moment.action)) for moment in hindsight.history)
    return Observation(hindsight.instruction, history, decode_image(hindsight.previous), decode_image(hindsight.current))


def planner_row(hindsight: Hindsight) -> Row:
    plan = "DONE" if hindsight.step is None else to_plan(hindsight.step)
    return Row(planner_messages(_observation(hindsight), PROMPTS), plan)


def solo_row(hindsight: Hindsight) -> Row:
    return Row(solo_messages(_observation(hindsight), PROMPTS), on_grid(hindsight.action))


def reading(moment: Moment, rng: random.Random) -> Hindsight | None:
    """A question that the present screen answers: one labelled value is asked for, and answering is the one step."""
    shown = [e for e in moment.elements if e.role == "value" and e.text.startswith(f"{e.name}: ") and e.text[-1] != "-"]
    if not shown:
        return None
    element = rng.choice(shown)
    answer = element.text.partition(": ")[2]
    name = element.name.lower()
    step = {"answer": answer}
    return Hindsight(f"What is the {name}?", (), moment.screen, moment.screen, step, Action.answer(answer))


def instructions(app: str) -> list[str]:
    """What one may ask of an application: each aim, and pairs of them, without the instructions of test tasks."""
    rng = random.Random(f"instructions of {app}")
    single = [sentence([aim]) for aim in aims(app)]
    pairs = [sentence(parts) for parts in combinations(app, 2, rng)[:300]]
    return [text for text in single + pairs if text not in _held_out(app)]


def curiosity(moments: Sequence[Moment], index: int, instruction: str, rng: random.Random) -> Hindsight:
    """What a walk did next, after up to three steps of it, under an instruction that has nothing to do with it."""
    moment = moments[index]
    past = tuple(m for m in moments[max(0, index - rng.randint(0, 3)) : index] if m.walk == moment.walk)
    previous = past[-1].screen if past else moment.screen
    return Hindsight(instruction, past, previous, moment.screen, moment.step, moment.action)


def with_past(hindsight: Hindsight, rng: random.Random) -> Hindsight:
    """The same decision after up to three aimless steps, as in an episode that has gone astray."""
    n = rng.randint(0, len(hindsight.aimless))
    if not n:
        return hindsight
    past = hindsight.aimless[len(hindsight.aimless) - n :]
    return replace(
        hindsight, history=past + hindsight.history, previous=hindsight.previous if hindsight.history else past[-1].screen
    )


def with_more(hindsight: Hindsight, wish: Aim, rng: random.Random) -> Hindsight:
    """The same decision where the instruction asks for something more, before or after; never a test task's instruction."""
    text = hindsight.instruction[:-1]
    more = wish.text[0].upper() + wish.text[1:]
    first, second = (text, more) if rng.random() < 0.5 else (more, text)
    asked = f"{first} and {second[0].lower()}{second[1:]}."
    return hindsight if asked in _held_out(wish.goal.app) else replace(hindsight, instruction=asked)


def distracted(hindsight: Hindsight, rng: random.Random, words: Sequence[str]) -> Hindsight:
    """The same decision by somebody whose attention slips: anything else that one could do on this screen."""
    if "type" in hindsight.step:
        step = {"type": rng.choice(words) + rng.choice(["\n", ""])}
    else:
        step = {"click": rng.choice(hindsight.instead)}
    return replace(hindsight, step=step)
