"""The dual brain: planner, then executor; one step of many concurrent episodes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from coda_lib.action import Action, ActionError
from coda_lib.config import Profile
from coda_lib.executor import Executor, read_actions
from coda_lib.models.chat import ChatModel
from coda_lib.planner import Observation, Planner, control_action, read_plan

if TYPE_CHECKING:
    from coda_lib.environment import Fit

TRIES = 3  # replies before a step counts as failed (released inference code)


@dataclass(frozen=True)
class Decision:
    """What the agent does at one step; `error` is the fault of the last of three replies.

    `reply` is the executor's raw reply, or the planner's if that holds no plan.
    """

    plan: str
    reply: str
    actions: tuple[Action, ...] = ()
    error: str | None = None


class Agent(Protocol):
    name: str

    def decide(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        """One decision for each observation, in order."""


class DualAgent:
    """Planner and executor (CODA).

    >>> from PIL import Image
    >>> from coda_lib import ReplayModel, Sampling
    >>> from coda_lib.grammar import action_text
    >>> planner = Planner(ReplayModel(["Click 'Grid'."]), Sampling())
    >>> executor = Executor(ReplayModel(["click(start_box='(84,63)')"]), Sampling())
    >>> screen = Image.new("RGB", (336, 252))
    >>> state = Observation("turn the grid on", (), screen, screen)
    >>> (decision,) = DualAgent(planner, executor, "example").decide([state], seed=0)
    >>> decision.plan, action_text(decision.actions, screen.size)
    ("Click 'Grid'.", "click(start_box='(84,63)')")
    """

    def __init__(self, planner: Planner, executor: Executor, name: str):
        self.planner, self.executor, self.name = planner, executor, name

    def greedy(self) -> DualAgent:
        return DualAgent(self.planner.greedy(), self.executor.greedy(), self.name)

    def decide(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        return _in_tries(self._try, observations, seed)

    def _try(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        replies = self.planner.plan(observations, seed)
        plans = [read_plan(reply) for reply in replies]
        decisions = carry_out(self.executor, observations, plans, seed + 1)
        return [d if d.plan else replace(d, reply=reply) for d, reply in zip(decisions, replies, strict=True)]


class SoloAgent:
    """The executor alone, with the instruction in place of a plan."""

    def __init__(self, executor: Executor, name: str = "executor"):
        self.executor, self.name = executor, name

    def greedy(self) -> SoloAgent:
        return SoloAgent(self.executor.greedy(), self.name)

    def decide(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        return _in_tries(self._try, observations, seed)

    def _try(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        replies = self.executor.act_alone(observations, seed)
        return [_read("", reply, o) for reply, o in zip(replies, observations, strict=True)]


class ScriptAgent:
    """Plays the script of a task, found by its instruction, and then DONE: a perfect agent.

    `read` gives the plan and the actions of a script step for the present observation.
    """

    name = "script"

    def __init__(
        self,
        scripts: Mapping[str, Sequence[Any]],
        read: Callable[[Any, Observation], tuple[str, tuple[Action, ...]]],
    ):
        self.scripts, self.read = scripts, read

    def decide(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        return [self._next(observation) for observation in observations]

    def _next(self, observation: Observation) -> Decision:
        script, steps = self.scripts[observation.instruction], len(observation.history)
        plan, actions = (
            self.read(script[steps], observation) if steps < len(script) else ("DONE", (Action.done(),))
        )
        return Decision(plan, "", actions)


def load_agent(profile: Profile, name: str, planner: str | None, executor: str | None = None) -> Agent:
    """The agent of a profile with the planner of a checkpoint, or, without one, the executor alone.

    `executor` is a checkpoint in place of the profile's.  UserError as in `load_model`.
    """
    loaded = Executor.load(profile, executor)
    return DualAgent(Planner.load(profile, planner), loaded, name) if planner else SoloAgent(loaded)


def models_of(agent: Agent) -> dict[str, ChatModel]:
    """The models behind an agent, by role."""
    parts = {role: getattr(agent, role, None) for role in ("planner", "executor")}
    return {role: part.model for role, part in parts.items() if hasattr(part, "model")}


def resize_rule_of(agent: Agent) -> Fit:
    """The executor's rule from a screen's size to that of the pictures, or the planner's."""
    return [*models_of(agent).values()][-1].resize_rule


def carry_out(
    executor: Executor, observations: Sequence[Observation], plans: Sequence[str], seed: int
) -> list[Decision]:
    """Turn plans into actions: control plans directly, all others by one batch of the executor."""
    controls = [control_action(plan) for plan in plans]
    indices = [i for i, action in enumerate(controls) if action is None and plans[i]]
    replies = (
        executor.execute([observations[i] for i in indices], [plans[i] for i in indices], seed)
        if indices
        else []
    )
    reply_of = dict(zip(indices, replies, strict=True))
    decisions = []
    for i, (plan, action) in enumerate(zip(plans, controls, strict=True)):
        if action is not None:
            decisions.append(Decision(plan, "", (action,)))
        elif not plan:
            decisions.append(Decision(plan, "", error="the planner's reply holds no plan"))
        else:
            decisions.append(_read(plan, reply_of[i], observations[i]))
    return decisions


def _read(plan: str, reply: str, observation: Observation) -> Decision:
    try:
        return Decision(plan, reply, read_actions(reply, observation))
    except ActionError as error:
        return Decision(plan, reply, error=str(error))


def _in_tries(attempt, observations: Sequence[Observation], seed: int) -> list[Decision]:
    """Decisions of up to three tries; only those whose reply cannot be parsed are tried again."""
    decisions = attempt(observations, seed)
    for again in range(1, TRIES):
        failed = [i for i, decision in enumerate(decisions) if decision.error]
        if not failed:
            break
        for i, decision in zip(
            failed, attempt([observations[i] for i in failed], seed + 1000 * again), strict=True
        ):
            decisions[i] = decision
    return decisions
