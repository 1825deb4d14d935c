"""The executor (the frozen 'cerebellum'): from plan and screen to low-level actions (paper, section 1)."""

from __future__ import annotations

from collections.abc import Sequence

from coda_lib.action import Action
from coda_lib.config import Profile
from coda_lib.grammar import parse_actions
from coda_lib.models.chat import ChatModel, Message, Sampling
from coda_lib.models.load import load_model
from coda_lib.planner import HISTORY, Observation
from coda_lib.prompts import render


class Executor:
    """Asks a chat model for the action of a plan; it is never trained.

    >>> from PIL import Image
    >>> from coda_lib import ReplayModel
    >>> screen = Image.new("RGB", (336, 252))
    >>> executor = Executor(ReplayModel(["click(start_box='(84,63)')"]), Sampling())
    >>> executor.execute([Observation("turn the grid on", (), screen, screen)], ["Click 'Grid'."], seed=0)
    ["click(start_box='(84,63)')"]
    """

    trainable = False

    def __init__(self, model: ChatModel, sampling: Sampling, prompts: str = "compact"):
        self.model, self.sampling, self.prompts = model, sampling, prompts

    @classmethod
    def load(cls, profile: Profile, checkpoint: str | None = None) -> Executor:
        """The executor of a profile, or that of another checkpoint.  UserError as in `load_model`."""
        model = load_model(profile, "executor", checkpoint or profile.models.executor)
        return cls(model, Sampling.of(profile.executor), profile.prompts)

    def greedy(self) -> Executor:
        return Executor(self.model, self.sampling.greedy, self.prompts)

    def execute(self, observations: Sequence[Observation], plans: Sequence[str], seed: int) -> list[str]:
        """Raw replies in the UI-TARS grammar, one for each (observation, plan), for `read_actions`."""
        pairs = zip(observations, plans, strict=True)
        return self.model.generate(
            [executor_messages(o, p, self.prompts) for o, p in pairs], self.sampling, seed
        )

    def act_alone(self, observations: Sequence[Observation], seed: int) -> list[str]:
        """Raw replies to the instruction itself, without a planner ('executor alone' of Table 1)."""
        return self.model.generate(
            [solo_messages(o, self.prompts) for o in observations], self.sampling, seed
        )


def read_actions(reply: str, observation: Observation) -> tuple[Action, ...]:
    """The actions of a reply, in pixels of the present screenshot.  ActionError if it cannot be parsed."""
    return parse_actions(reply, observation.current.size)


def executor_messages(observation: Observation, plan: str, prompts: str) -> list[Message]:
    return render(prompts, "executor", plan=plan, **_context(observation))


def solo_messages(observation: Observation, prompts: str) -> list[Message]:
    return render(prompts, "solo", **_context(observation))


def _context(observation: Observation) -> dict:
    history = [vars(turn) for turn in observation.history[-HISTORY:]]
    return {"instruction": observation.instruction, "history": history, "previous": observation.previous,
            "current": observation.current}  # fmt: skip
