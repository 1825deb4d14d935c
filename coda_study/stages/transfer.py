"""Stage `transfer`: planners with executors, and in software, that they were not trained with.

Two executors: one that looks names up in the application's widget tree and sees no pixel, and the frozen one
with a *coder*, which is asked for every text to type; the planner then says only that something is typed
(released inference code: the planner writes `CODER_CALL`, and a code model supplies the text).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import product

import pandas as pd
from rapidfuzz import process

from coda_lib.action import Action, ActionError, ActionType
from coda_lib.agent import Agent, DualAgent
from coda_lib.config import Profile
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.grammar import format_action, parse_actions
from coda_lib.models.chat import ChatModel, Message, Sampling
from coda_lib.models.load import load_model
from coda_lib.planner import HISTORY, Observation, Planner
from coda_lib.prompts import render
from coda_study.run import Run
from coda_study.stages.common import Progress, begin, system_agent, unreported
from coda_study.stages.evaluate import play_in_turn
from sciencedesk.script import ScriptError, action_of, to_step

__all__ = ["WidgetTreeExecutor", "begin", "executors", "run"]

CALL = "CODER_CALL"  # stands where a delegated text would
_TYPED = re.compile(r"(?<=^Type ')(.*)(?='(?: and press Enter)?\.$)")
_LIKE = 75  # of 100: how alike a planned name and one on the screen must be


class WidgetTreeExecutor(Executor):
    """Carries a plan out by the names in the application's widget tree; no model.

    Its replies are in the grammar of the other executor, so that all behind it is the same; a plan that names
    nothing on the screen gives a reply that cannot be parsed and says why.  It acts where an application
    runs: a state read from a trajectory lists no elements, which is a UserError (as a reward it would be 0
    for every click).
    """

    def __init__(self) -> None:
        """There is nothing to load."""

    def execute(self, observations: Sequence[Observation], plans: Sequence[str], seed: int) -> list[str]:
        replies = []
        for observation, plan in zip(observations, plans, strict=True):
            try:
                action = action_of(to_step(plan), partial(_find, observation))
            except (ScriptError, ActionError) as error:
                replies.append(f"nothing done: {error}")
            else:
                replies.append(format_action(action, observation.current.size))
        return replies


def _find(observation: Observation, name: str) -> tuple[float, float]:
    """The center of the element that is called so, or most nearly so; usable ones before mere displays."""
    elements = sorted(observation.elements(), key=lambda element: element.role == "value")
    if not elements:
        need = "the widget-tree executor needs an application that runs and names its elements"
        raise UserError(f"{need}; this state has none")
    if not (match := process.extractOne(name, [element.name for element in elements], score_cutoff=_LIKE)):
        raise ScriptError(f"nothing on the screen is called {name!r}")
    return elements[match[2]].center


class CoderExecutor(Executor):
    """An executor whose texts to type come from a coder, told the instruction and that a text is wanted."""

    def __init__(self, executor: Executor, coder: ChatModel, sampling: Sampling):
        super().__init__(executor.model, executor.sampling, executor.prompts)
        self.coder, self.coder_sampling = coder, sampling

    def execute(self, observations: Sequence[Observation], plans: Sequence[str], seed: int) -> list[str]:
        """Raw replies; a delegated plan's is the coder's text, typed, with the plan's Enter."""
        delegated = [_TYPED.sub(CALL, plan) for plan in plans]
        typed = [i for i, plan in enumerate(delegated) if CALL in plan]
        rest = [i for i in range(len(plans)) if i not in set(typed)]
        chats = [coder_messages(observations[i], delegated[i], self.prompts) for i in typed]
        texts = self.coder.generate(chats, self.coder_sampling, seed) if typed else []
        replies = {
            i: _typing(text, delegated[i], observations[i].current.size)
            for i, text in zip(typed, texts, strict=True)
        }
        if rest:
            others = super().execute([observations[i] for i in rest], [plans[i] for i in rest], seed)
            replies |= zip(rest, others, strict=True)
        return [replies[i] for i in range(len(plans))]


def coder_messages(observation: Observation, plan: str, prompts: str) -> list[Message]:
    history = [vars(turn) for turn in observation.history[-HISTORY:]]
    seen = {"instruction": observation.instruction, "previous": observation.previous}
    return render(prompts, "coder", plan=plan, history=history, current=observation.current, **seen)


def _typing(reply: str, plan: str, size: tuple[int, int]) -> str:
    """The coder's reply as the executor's: it must type something; the plan says whether Enter is pressed."""
    try:
        actions = parse_actions(reply, size)
    except ActionError:
        return reply
    if len(actions) != 1 or actions[0].type is not ActionType.TYPE:
        return f"nothing typed: {reply}"
    text = actions[0].text.rstrip("\n") + ("\n" if plan.endswith("and press Enter.") else "")
    return format_action(Action.type_text(text), size)


def executors(profile: Profile) -> dict[str, Executor]:
    """The new executors."""
    usual, coder = Executor.load(profile), load_model(profile, "executor", profile.models.coder)
    return {"tree": WidgetTreeExecutor(), "coder": CoderExecutor(usual, coder, usual.sampling)}


def agents(run: Run, app: str) -> list[Agent]:
    """Base planner and generalist with each new executor.

    In an application that is not of the run: with the usual executor, and the executor alone.
    """
    profile, planners = run.profile(), ("base", "stage2")
    if app not in profile.apps:
        return [system_agent(run, system, app) for system in ("base", "executor", "stage2")]
    new = executors(profile)
    loaded = {name: Planner.load(profile, run.planner_checkpoint(name, app)) for name in planners}
    return [DualAgent(loaded[name], new[kind], f"{name}, {kind}") for kind, name in product(new, planners)]


def run(run: Run, app: str, progress: Progress = unreported) -> pd.DataFrame:
    """Play the held-out tasks of an application with `agents`; writes ablations/transfer/{app}.parquet."""
    players = agents(run, app)
    return play_in_turn(run, players, [app] * len(players), run.transfer(app), progress)
