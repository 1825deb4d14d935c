"""What a judge replies about an attempt: what each step did, what holds at the end, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from base_models.hindsight import reached
from coda_lib.environment import Environment
from coda_lib.judge import Verdict, format_verdict
from coda_lib.task import Task, lookup
from coda_lib.trajectory import StopReason
from sciencedesk.goals import Aim
from sciencedesk.script import to_plan
from sciencedesk.space import FEW

NOTHING = "-"  # stands for a step that changed nothing, and for a value that does not hold
State = Mapping[str, Any]


def held(parts: Sequence[Aim], state: State) -> str:
    """What holds of what the aims are about: 'off; dark', or for goals of many values 'off; sin(x), x^2'."""
    return "; ".join(_held(aim, state) for aim in parts)


def _held(aim: Aim, state: State) -> str:
    if aim.goal.ask:
        return str(state.get(aim.goal.fact, "")) or NOTHING
    if len(aim.goal.values) < FEW:
        return ", ".join(word for word in aim.goal.values if reached(Aim(aim.goal, word), state)) or NOTHING
    keys = dict.fromkeys(item["key"] for item in aim.checks)
    return ", ".join(_shown(lookup(state, key, "")) for key in keys)


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


def effects_of(plans: Sequence[str], pictures: Sequence[bytes]) -> list[str]:
    """The visible effect of each step between two pictures: its plan, or `NOTHING` where they are equal."""
    changes = zip(plans, pictures, pictures[1:], strict=False)  # DONE, FAIL and an answer add no picture
    return [plan if before != after else NOTHING for plan, before, after in changes]


def whole_reply(parts: Sequence[Aim], state: State, effects: Sequence[str], verdict: Verdict) -> str:
    """The effects of the steps, what holds at the end, and the verdict, a line each."""
    return f"{' '.join(effects)}\n{held(parts, state)}\n{format_verdict(verdict, details=False)}"


def needless(plans: Sequence[str], script: Sequence[str]) -> tuple[int, ...]:
    """The redundant steps of a solved attempt, counted from 1: those that its task's script does not take.

    Of a step taken more than once the last one counts.  None if there are no more steps than in the script.
    """
    if len(plans) <= len(script):
        return ()
    rest, redundant = list(script), []
    for i in range(len(plans), 0, -1):
        if rest and plans[i - 1] == rest[-1]:
            rest.pop()
        else:
            redundant.append(i)
    return tuple(reversed(redundant)) if not rest else _not_in(script, plans)


def _not_in(script: Sequence[str], plans: Sequence[str]) -> tuple[int, ...]:
    return tuple(i for i, plan in enumerate(plans, 1) if plan not in script)


def script_verdict(task: Task, plans: Sequence[str], success: bool, steps: int) -> Verdict:
    """The verdict on an attempt of so many steps; the first one not in the script is a failed one's error."""
    script = [to_plan(step) for step in task.solution]
    if success:
        return Verdict(True, needless(plans, script))
    other = _not_in(script, plans)
    return Verdict(False, other, (other or [steps])[0])


def ending(env: Environment, answer: str | None) -> tuple[str, bool]:
    """The plan that ends an attempt, and the application's check of an attempt that ends now."""
    if answer is None:
        return "DONE", env.check(StopReason.DONE)
    return f"ANS {answer}", env.check(StopReason.ANS, answer)
