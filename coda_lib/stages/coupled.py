"""An ablation: *coupled* reinforcement learning, in which the executor is trained on the same rewards as the planner.

CODA trains the planner alone (paper, section 3).  Here the executor learns from every plan that it carries out, by the planner's
own loss (eq. 3) over the tokens of its reply.  One update follows each sample, so ρ_t is 1 and nothing is clipped.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset

from coda_lib.agent import Decision
from coda_lib.config import SamplingSettings, SpecializeSettings
from coda_lib.executor import Executor, executor_messages
from coda_lib.models.chat import Message
from coda_lib.models.local import LocalModel, encode
from coda_lib.planner import Observation
from coda_lib.reward import advantages
from coda_lib.trainer import ActionReward, Progress, SpecializeTrainer, specialize

EXECUTOR = "executor"  # folder of the trained executor, beside the planner that it was trained with
_STATE = "executor.pt"  # in a checkpoint of the trainer: the executor's weights and its optimizer's state
_PORTION = 16  # replies whose gradient is computed at a time


class CoupledReward(ActionReward):
    """The reward of `ActionReward`, which then also updates the executor; the executor's model must be a `LocalModel`."""

    def __init__(self, executor: Executor, seed: int, settings: SpecializeSettings, distance: bool = True):
        super().__init__(executor, seed, distance)
        assert isinstance(executor.model, LocalModel)
        self.settings, self.model = settings, executor.model
        self.reference = copy.deepcopy(self.model.network)
        self.model.network.requires_grad_(True)
        self.optimizer = torch.optim.AdamW(self.model.network.parameters(), settings.learning_rate, weight_decay=0.0)

    def __call__(self, *args: Any, **kwargs: Any) -> list[float]:
        states, decisions, rewards = self.carry_out(*args, **kwargs)
        self._update(states, decisions, rewards)
        return rewards

    def _update(self, states: Sequence[Observation], decisions: Sequence[Decision], rewards: Sequence[float]) -> None:
        """One optimizer step; a plan without a reply of the executor (DONE, ANS) counts in the mean and has no loss."""
        gains = advantages(np.reshape(rewards, (-1, self.settings.group_size))).ravel()
        replied = [i for i, decision in enumerate(decisions) if decision.reply]
        if not replied:
            return
        self.optimizer.zero_grad()
        for start in range(0, len(replied), _PORTION):
            some = replied[start : start + _PORTION]
            chats = [executor_messages(states[i], decisions[i].plan, self.executor.prompts) for i in some]
            loss = self._loss(chats, [decisions[i].reply for i in some], torch.tensor([gains[i] for i in some]))
            (loss / len(decisions)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.network.parameters(), 1.0)  # the trainer's own limit
        self.optimizer.step()

    def _loss(self, chats: Sequence[list[Message]], replies: Sequence[str], gains_N: torch.Tensor) -> torch.Tensor:
        """Eq. 3 with ρ = 1: the mean over the tokens of each reply, summed over the replies."""
        answers = [{"role": "assistant", "content": [{"type": "text", "text": reply}]} for reply in replies]
        answered = [[*chat, answer] for chat, answer in zip(chats, answers, strict=True)]
        inputs = encode(self.model.processor, answered, generate=False).to(self.model.device)
        tokenizer = self.model.processor.tokenizer
        # A reply, its end token and a newline close each row, which is padded on the left.
        lengths = [len(tokenizer(reply, add_special_tokens=False)["input_ids"]) + 2 for reply in replies]
        longest = max(lengths)
        from_end_T = torch.arange(longest, 0, -1)
        mask_NT = ((from_end_T <= torch.tensor(lengths)[:, None]) & (from_end_T > 1)).float().to(self.model.device)
        logp_NT = self._log_probabilities(self.model.network, inputs, longest)
        with torch.no_grad():
            reference_NT = self._log_probabilities(self.reference, inputs, longest)
        gap_NT = reference_NT - logp_NT
        kl_NT = gap_NT.exp() - gap_NT - 1
        ratio_NT = (logp_NT - logp_NT.detach()).exp()
        objective_NT = ratio_NT * gains_N.to(logp_NT)[:, None] - self.settings.beta * kl_NT
        return -((objective_NT * mask_NT).sum(dim=1) / mask_NT.sum(dim=1)).sum()

    def _log_probabilities(self, network: torch.nn.Module, inputs: Any, longest: int) -> torch.Tensor:
        """Log-probabilities of the last tokens of each row, at the sampling temperature: rows x `longest`."""
        logits = network(**inputs, logits_to_keep=longest + 1).logits[:, :-1]
        chosen = inputs["input_ids"][:, -longest:, None]
        return torch.log_softmax(logits.float() / self.executor.sampling.temperature, -1).gather(-1, chosen)[..., 0]


class CoupledTrainer(SpecializeTrainer):
    """Keeps the executor in the same checkpoints as the planner, so that an interrupted training goes on with both."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True, exist_ok=True)
        (rewarding,) = self.reward_funcs
        state = {"network": rewarding.model.network.state_dict(), "optimizer": rewarding.optimizer.state_dict()}
        torch.save(state, folder / _STATE)  # first: a checkpoint is complete once the trainer has written its own state
        super()._save_checkpoint(model, trial)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        (rewarding,) = self.reward_funcs
        state = torch.load(Path(resume_from_checkpoint) / _STATE, weights_only=True)
        rewarding.model.network.load_state_dict(state["network"])
        rewarding.optimizer.load_state_dict(state["optimizer"])


def specialize_coupled(
    rows: Dataset, planner: str | Path, executor: Executor, settings: SpecializeSettings, sampling: SamplingSettings,
    folder: Path, seed: int, distance: bool = True, progress: Progress = lambda done, total: None,
) -> Path:  # fmt: skip
    """`specialize` with the executor trained as well; `folder`/executor is its checkpoint."""
    rewarding = CoupledReward(executor, seed, settings, distance)
    how = {"rewarding": rewarding, "kind": CoupledTrainer, "progress": progress}
    specialize(rows, planner, executor, settings, sampling, folder, seed, **how)
    for part in (executor.model.network, executor.model.processor):
        part.save_pretrained(folder / EXECUTOR)
    return folder
