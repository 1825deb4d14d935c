"""The planner, the trainable 'cerebrum' (paper, section 1): it says what to do next."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from coda_lib.action import CONTROL, Action
from coda_lib.config import Profile
from coda_lib.grammar import LONGEST_REPLY
from coda_lib.models.chat import ChatModel, Message, Sampling
from coda_lib.models.load import load_model
from coda_lib.prompts import render

HISTORY = 15  # past turns in a prompt (released inference code)
CUT = " … (cut)"  # ends a plan of which a part was not read


@dataclass(frozen=True)
class Turn:
    """One past step (p_i, a_i) as text."""

    plan: str
    action: str


@dataclass(frozen=True)
class Observation:
    """The input of the agent at step t: the instruction, m_{t-1}, o_{t-1} and o_t (at t = 1, o_{t-1} is o_t).

    `elements` lists the named elements on the screen (empty if the application cannot).  CODA's models see
    pixels alone; only the widget-tree executor of `stages.transfer` uses it.
    """

    instruction: str
    history: tuple[Turn, ...]
    previous: Image.Image
    current: Image.Image
    elements: Callable[[], Sequence[Any]] = field(default=tuple, compare=False, repr=False)


def read_plan(reply: str) -> str:
    r"""The plan in a reply: the thought of 'Thought: … Action: …', or all of it but such words.

    Empty if the reply holds no plan.  Of a longer reply the first `LONGEST_REPLY` characters are read, and
    the plan ends with `CUT` if it is longer than these: `is_cut` tells such plans, which are counted.

    >>> read_plan("Thought: Click 'Grid'.\nAction: click(start_box='(84,63)')")
    "Click 'Grid'."
    """
    thought, *action = re.split(r"Action\s*+:", reply[:LONGEST_REPLY], maxsplit=1)
    plan = re.sub(r"^\s*+Thought\s*+:", "", thought).strip()
    return plan + CUT if len(reply) > LONGEST_REPLY and plan and not action else plan


def is_cut(plan: str) -> bool:
    """Whether a plan is that of a reply which was too long to be read whole."""
    return plan.endswith(CUT)


def format_plan(plan: str, prompts: str) -> str:
    """A plan as a planner of this prompt set writes it; the inverse of `read_plan`."""
    return plan if prompts == "compact" else f"Thought: {plan}"


def control_action(plan: str) -> Action | None:
    """The action of a plan that needs no executor (ANS value, DONE, FAIL, WAIT), or None for any other plan.

    >>> control_action("ANS 4 cm") == Action.answer("4 cm")
    True
    >>> control_action("Click 'Grid'.") is None
    True
    """
    word, _, text = plan.partition(" ")
    kind = CONTROL.get(word)
    if kind and kind.fields and text.strip():  # ANS
        return Action(kind, text=text.strip())
    kind = CONTROL.get(plan.rstrip("."))
    return Action(kind) if kind and not kind.fields else None


class Planner:
    """Asks a chat model for the next plan.

    >>> from coda_lib import ReplayModel
    >>> screen = Image.new("RGB", (336, 252))
    >>> planner = Planner(ReplayModel(["Click 'Grid'."]), Sampling())
    >>> planner.plan([Observation("turn the grid on", (), screen, screen)], seed=0)
    ["Click 'Grid'."]
    """

    def __init__(self, model: ChatModel, sampling: Sampling, prompts: str = "compact"):
        self.model, self.sampling, self.prompts = model, sampling, prompts

    @classmethod
    def load(cls, profile: Profile, checkpoint: str | None = None) -> Planner:
        """The base planner of a profile, or that of another checkpoint.  UserError as in `load_model`."""
        model = load_model(profile, "planner", checkpoint or profile.models.planner)
        return cls(model, Sampling.of(profile.planner), profile.prompts)

    def greedy(self) -> Planner:
        return Planner(self.model, self.sampling.greedy, self.prompts)

    def messages(self, observation: Observation) -> list[Message]:
        return planner_messages(observation, self.prompts)

    def plan(self, observations: Sequence[Observation], seed: int) -> list[str]:
        """Raw replies, one for each observation, for `read_plan`."""
        return self.model.generate([self.messages(o) for o in observations], self.sampling, seed)


def planner_messages(observation: Observation, prompts: str) -> list[Message]:
    history = [vars(turn) for turn in observation.history[-HISTORY:]]
    screens = {"previous": observation.previous, "current": observation.current}
    return render(prompts, "planner", instruction=observation.instruction, history=history, **screens)
