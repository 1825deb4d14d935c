"""Hindsight: what one or two steps of a walk achieved becomes the instruction, the steps become the plans.

The planner learns from it, and the executor for its use without a planner.  The aims are those to be trained
on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from random import Random
from typing import Any

from rapidfuzz.distance import Levenshtein

from base_models.rows import PROMPTS, Row, on_grid, value_of
from base_models.walks import Transition, Walk
from coda_lib.action import Action
from coda_lib.environment import Environment
from coda_lib.executor import solo_messages
from coda_lib.judge import Verdict
from coda_lib.planner import Observation, Turn, planner_messages
from coda_lib.task import Task, holds, lookup
from coda_lib.trajectory import StopReason, decode_image
from sciencedesk.goals import Aim, sentence
from sciencedesk.script import needless, not_in, script_plans, to_plan
from sciencedesk.space import FEW, aims_of


@dataclass(frozen=True)
class Hindsight:
    """A decision and the instruction under which it is right; without a step it is fulfilled: DONE."""

    instruction: str
    history: tuple[Transition, ...]  # the earlier steps
    screen: bytes  # PNG
    step: dict[str, Any] | None
    action: Action
    aimless: tuple[Transition, ...] = ()  # up to three steps of the walk before the history
    after: dict[str, Any] | None = None  # the state, where the instruction is fulfilled
    goal: str = ""  # the name of what was achieved
    instead: tuple[Hindsight, ...] = ()  # what is right here under other instructions
    box: tuple[int, int, int, int] | None = None  # (x, y, width, height) in px of what shows an answer

    @property
    def observation(self) -> Observation:
        """What planner and executor see."""
        history = tuple(Turn(past.plan, on_grid(past.action)) for past in self.history)
        previous = self.history[-1].screen if self.history else self.screen
        return Observation(self.instruction, history, decode_image(previous), decode_image(self.screen))


def hindsights(app: str, walk: Walk) -> list[Hindsight]:
    """The decisions of all segments of one or two steps that achieved something."""
    decisions, rng = [], Random(f"hindsight {app}")
    for i, (first, second) in enumerate(zip_longest(walk, walk[1:])):
        aimless = tuple(t for t in walk[max(0, i - 3) : i] if t.walk == first.walk)
        decisions += _segment(app, (first,), aimless, rng)
        if second and second.walk == first.walk and leads_to(first, second):
            decisions += _segment(app, (first, second), aimless, rng)
    return decisions


def leads_to(first: Transition, second: Transition) -> bool:
    """Whether the second step's target was hidden before the first, or it types into a field just clicked."""
    (kind, target), visible = next(iter(second.step.items())), {e.name for e in first.elements}
    if kind == "type":
        return first.screen != first.next_screen and "click" in first.step
    return kind != "press" and (target if isinstance(target, str) else target[0]) not in visible


def _segment(
    app: str, segment: tuple[Transition, ...], aimless: tuple[Transition, ...], rng: Random
) -> Iterator[Hindsight]:
    first, last = segment[0], segment[-1]
    achieved = achievements(app, first.before, last.after)
    if len(segment) == 2 and any(reached(aim, first.after) for aim in achieved):
        return
    for aim in achieved:
        instruction, goal = sentence([reworded(aim, rng)]), aim.goal.name
        for k, t in enumerate(segment):
            yield Hindsight(instruction, segment[:k], t.screen, t.step, t.action, aimless, goal=goal)
        end = last.next_screen
        yield Hindsight(instruction, segment, end, None, Action.done(), aimless, last.after, goal)


def reworded(aim: Aim, rng: Random) -> Aim:
    """The aim in any of its wordings."""
    return replace(aim, wording=rng.randrange(len(aim.goal.wordings)))


@cache
def _by_key(app: str) -> dict[str, list[Aim]]:
    """The aims to be trained on, questions left out, by each setting that they check."""
    groups: dict[str, list[Aim]] = {}
    for aim in aims_of(app, "train"):
        for key in {str(item["key"]).partition(".")[0] for item in aim.checks} if not aim.goal.ask else ():
            groups.setdefault(key, []).append(aim)
    return groups


def achievements(app: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Aim]:
    """The aims that hold in a state and did not in an earlier one."""
    changed = [aims for key, aims in _by_key(app).items() if before.get(key) != after.get(key)]
    held = (aim for aims in changed for aim in aims if reached(aim, after))
    aims = {(aim.goal.name, aim.word): aim for aim in held}
    return [aim for aim in aims.values() if not reached(aim, before)]


def reached(aim: Aim, state: Mapping[str, Any]) -> bool:
    """Whether an aim holds in an application's state."""
    return all(holds(item, state) for item in aim.checks)


def planner_row(hindsight: Hindsight) -> Row:
    """The planner's prompt and the decision's plan."""
    plan = "DONE" if hindsight.step is None else to_plan(hindsight.step)
    return Row(planner_messages(hindsight.observation, PROMPTS), plan)


def solo_row(hindsight: Hindsight) -> Row:
    """The prompt of an executor without a planner, and the decision's action."""
    return Row(solo_messages(hindsight.observation, PROMPTS), on_grid(hindsight.action))


def reading(transition: Transition, rng: Random) -> Hindsight | None:
    """A question about one labelled value of the screen, and its answer; None where it shows no value."""
    shown = [element for element in transition.elements if value_of(element)]
    if not shown:
        return None
    element = rng.choice(shown)
    question, answer = f"What is the {element.name.lower()}?", value_of(element)
    return Hindsight(question, (), transition.screen, {"answer": answer}, Action.answer(answer))


def with_more(hindsight: Hindsight, wish: Aim, rng: Random) -> Hindsight:
    """The same decision under an instruction that asks for a second aim, before or after the first."""
    text = hindsight.instruction[:-1]
    more = wish.text[0].upper() + wish.text[1:]
    first, second = (text, more) if rng.random() < 0.5 else (more, text)
    return replace(hindsight, instruction=f"{first} and {second[0].lower()}{second[1:]}.")


_LACKS = ("excludes", "absent")  # predicates
NOTHING = "-"  # stands for a step that changed nothing, and for a value that does not hold
State = Mapping[str, Any]


def wanted(aim: Aim) -> str:
    """What an aim asks for, as `held` says what holds of it: 'off', or 'no x^2'."""
    if len(aim.goal.values) < FEW:
        return aim.word
    return ", ".join(dict.fromkeys(_wanted(item, aim.word) for item in aim.checks))


def _wanted(condition: Mapping[str, Any], word: str) -> str:
    shown = _shown(condition.get("value", word))
    return f"no {shown}" if condition.get("pred") in _LACKS else shown


def held(aim: Aim, state: State) -> str:
    """What holds of what an aim is about: 'off', or of more '-5, 12'.

    Of a list in which an aim looks for something it is what is most like that, as it stands there: so a judge
    has a name to find, and need neither read out a whole list nor tell that a name is nowhere.
    """
    if aim.goal.ask:
        return str(state.get(aim.goal.fact, "")) or NOTHING
    if len(aim.goal.values) < FEW:
        return ", ".join(word for word in aim.goal.values if reached(Aim(aim.goal, word), state)) or NOTHING
    return ", ".join(dict.fromkeys(_held(condition, aim.word, state) for condition in aim.checks))


def _held(condition: Mapping[str, Any], word: str, state: State) -> str:
    """The same for a part of an aim."""
    key, asked = condition["key"], condition.get("value", word)
    value = lookup(state, key, "")
    match condition["pred"]:
        case "absent":  # a name among others
            value = [*lookup(state, key.rpartition(".")[0], {})]
        case "has_row":
            value = [row[0] for row in value]
        case "before":
            value = sorted({_most_like(one, value) for one in asked}, key=value.index) if value else value
            return _shown(value)
        case "equals" | "at_least":
            return f"{value:02d}" if key in ("month", "day") and value else _shown(value)
    return _shown(_most_like(asked, value) if value else value)


def _most_like(asked: Any, values: Sequence[Any]) -> Any:
    return max(values, key=lambda value: Levenshtein.normalized_similarity(_shown(value), _shown(asked)))


def _shown(value: Any) -> str:
    """A part of a state as the reply gives it."""
    match value:
        case None | "" | [] | {}:
            return NOTHING
        case bool():
            return "on" if value else "off"
        case float():
            return f"{value:g}"
        case list() | tuple():
            return ", ".join(map(_shown, value))
        case dict():
            return ", ".join(f"{key} {_shown(part)}" for key, part in value.items())
    return str(value)


def script_verdict(task: Task, plans: Sequence[str], success: bool) -> Verdict:
    """The verdict on an attempt; the first of its plans that is not in the script is a failed one's error."""
    script = script_plans(task)
    if success:
        return Verdict(True, needless(plans, script))
    other = not_in(script, plans)
    return Verdict(False, other, (other or [len(plans)])[0])


def ending(env: Environment, answer: str | None) -> tuple[str, bool]:
    """The plan that ends an attempt, and the application's check of an attempt that ends now."""
    if answer is None:
        return "DONE", env.check(StopReason.DONE)
    return f"ANS {answer}", env.check(StopReason.ANS, answer)
