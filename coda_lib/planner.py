"""The planner (the trainable 'cerebrum'): instruction, history and two screenshots in, the next plan out (paper, section 1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from coda_lib.action import Action
from coda_lib.config import Profile
from coda_lib.models.chat import ChatModel, Message, Sampling
from coda_lib.models.load import load_model
from coda_lib.prompts import render

HISTORY = 15  # turns of history that the released inference code keeps


@dataclass(frozen=True)
class Turn:
    """One past step (p_i, a_i) as text."""

    plan: str
    action: str


@dataclass(frozen=True)
class Observation:
    """What the agent knows at step t: the instruction, m_{t-1}, o_{t-1} and o_t (at t = 1, o_{t-1} is o_t).

    `elements` asks the application what is on the screen by name (none where it cannot say).  CODA's models see
    pixels alone; only an executor of an ablation looks at it.
    """

    instruction: str
    history: tuple[Turn, ...]
    previous: Image.Image
    current: Image.Image
    elements: Callable[[], Sequence[Any]] = field(default=tuple, compare=False, repr=False)


class PlanError(ValueError):
    """The planner's reply holds no plan."""


def parse_plan(reply: str) -> str:
    """The thought of a reply 'Thought: … Action: …'; a reply without these words is all thought.  PlanError if empty."""
    thought = re.split(r"\n?\s*Action\s*:", reply, maxsplit=1)[0]
    thought = re.sub(r"^\s*Thought\s*:", "", thought).strip()
    if not thought:
        raise PlanError(f"no plan in the planner's reply {reply!r}")
    return thought


def format_plan(plan: str, prompts: str) -> str:
    """A plan as a planner of this prompt set writes it; what `parse_plan` reads back."""
    return plan if prompts == "compact" else f"Thought: {plan}"


def control_action(plan: str) -> Action | None:
    """The action of a plan that needs no executor (ANS value, DONE, FAIL, WAIT), or None for any other plan."""
    word, _, rest = plan.partition(" ")
    if word == "ANS" and rest.strip():
        return Action.answer(rest.strip())
    return {"DONE": Action.done, "FAIL": Action.fail, "WAIT": Action.wait}.get(plan.rstrip("."), lambda: None)()


class Planner:
    def __init__(self, model: ChatModel, sampling: Sampling, prompts: str = "compact"):
        self.model, self.sampling, self.prompts = model, sampling, prompts

    @classmethod
    def load(cls, profile: Profile, checkpoint: str | None = None) -> Planner:
        """The base planner of a profile, or another checkpoint in its place.  UserError as of `load_model`."""
        model = load_model(profile, "planner", checkpoint or profile.models.planner)
        return cls(model, Sampling.of(profile.planner), profile.prompts)

    def messages(self, observation: Observation) -> list[Message]:
        return planner_messages(observation, self.prompts)

    def plan(self, observations: Sequence[Observation], seed: int) -> list[str]:
        """Raw replies, one for each observation."""
        return self.model.generate([self.messages(o) for o in observations], self.sampling, seed)


def planner_messages(observation: Observation, prompts: str) -> list[Message]:
    return render(
        prompts,
        "planner",
        instruction=observation.instruction,
        history=[vars(turn) for turn in observation.history[-HISTORY:]],
        previous=observation.previous,
        current=observation.current,
    )
