"""An ablation: *coupled* reinforcement learning, in which the executor is trained on the same rewards as the
planner.

CODA trains the planner alone (paper, section 3).  Here the executor learns from every plan that it carries
out, by the planner's own loss (eq. 3) over the tokens of its reply.  One update follows each sample, so ρ_t
is 1 and nothing is clipped.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence

from coda_lib.agent import Decision
from coda_lib.config import SamplingSettings, SpecializeSettings
from coda_lib.executor import Executor, executor_messages
from coda_lib.grpo import advantages
from coda_lib.models.chat import Message
from coda_lib.models.local import LocalModel, encode, picture_names
from coda_lib.models.shared_prefix import GroupRows, distinct
from coda_lib.planner import Observation
from coda_lib.trainer import ActionReward, Progress, SpecializeTrainer, specialize

EXECUTOR = "executor"  # folder of the trained executor, beside the planner that it was trained with
_STATE = "executor.pt"  # in a checkpoint of the trainer: the executor's weights and its optimizer's state
_PORTION = 16  # replies whose gradient is computed at a time


class CoupledReward(ActionReward):
    """`ActionReward` that also updates the executor, whose model must be a `LocalModel`."""

    def __init__(self, executor: Executor, seed: int, settings: SpecializeSettings, distance: bool = True):
        super().__init__(executor, seed, settings.reach, distance)
        assert isinstance(executor.model, LocalModel)
        self.settings, self.model = settings, executor.model
        self.reference = copy.deepcopy(self.model.network)
        self.model.network.requires_grad_(True)
        self.optimizer = torch.optim.AdamW(
            self.model.network.parameters(), settings.learning_rate, weight_decay=0.0
        )

    def __call__(self, *args: Any, **kwargs: Any) -> list[float]:
        states, decisions, rewards = self.carry_out(*args, **kwargs)
        self._update(states, decisions, rewards)
        return rewards

    def _update(
        self, states: Sequence[Observation], decisions: Sequence[Decision], rewards: Sequence[float]
    ) -> None:
        """One optimizer step; a plan without a reply (DONE, ANS) counts in the mean and has no loss."""
        gains = advantages(np.reshape(rewards, (-1, self.settings.group_size))).ravel()
        replied = [i for i, decision in enumerate(decisions) if decision.reply]
        if not replied:
            return
        self.optimizer.zero_grad()
        for start in range(0, len(replied), _PORTION):
            some = replied[start : start + _PORTION]
            chats = [executor_messages(states[i], decisions[i].plan, self.executor.prompts) for i in some]
            loss = self._loss(
                chats, [decisions[i].reply for i in some], torch.tensor([gains[i] for i in some])
            )
            (loss / len(decisions)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.network.parameters(), 1.0)  # the trainer's own limit
        self.optimizer.step()

    def _loss(
        self, chats: Sequence[list[Message]], replies: Sequence[str], gains_N: torch.Tensor
    ) -> torch.Tensor:
        """Eq. 3 with ρ = 1: the mean over the tokens of each reply, summed over the replies."""
        said = _Said.of(self.model, chats, replies)
        logp_M = self._log_probabilities(self.model.network, said)
        with torch.no_grad():
            reference_M = self._log_probabilities(self.reference, said)
        gap_M = reference_M - logp_M
        kl_M = gap_M.exp() - gap_M - 1
        ratio_M = (logp_M - logp_M.detach()).exp()
        gain_M, share_M = (
            each.to(logp_M).repeat_interleave(said.tokens_N) for each in (gains_N, 1 / said.tokens_N)
        )
        return -((ratio_M * gain_M - self.settings.beta * kl_M) * share_M).sum()

    def _log_probabilities(self, network: Any, said: _Said) -> torch.Tensor:
        """Log-probabilities of the tokens of all replies, at the sampling temperature."""
        where = {
            "attention_mask": {"full_attention": said.rows.mask_S1LL},
            "position_ids": said.rows.positions_3SL,
        }
        hidden_SLd = network.model(input_ids=said.rows.ids_SL, **where, **said.pictures).last_hidden_state
        logits_MV = network.lm_head(hidden_SLd[said.places_M]).float() / self.executor.sampling.temperature
        return torch.log_softmax(logits_MV, -1).gather(-1, said.ids_M[:, None])[:, 0]


@dataclass(frozen=True)
class _Said:
    """Chats and N replies to them, in one row for each distinct beginning, up to its last picture."""

    rows: GroupRows
    pictures: dict[str, torch.Tensor]
    ids_M: torch.Tensor  # the tokens of all replies, each with its end token, one behind another
    tokens_N: torch.Tensor  # how many
    places_M: tuple[torch.Tensor, torch.Tensor]  # row and column of the token before each

    @classmethod
    def of(cls, model: LocalModel, chats: Sequence[list[Message]], replies: Sequence[str]) -> _Said:
        processor, network = model.processor, model.network
        picture = network.config.image_token_id
        answers = [{"role": "assistant", "content": [{"type": "text", "text": reply}]} for reply in replies]
        whole = encode(
            processor, [[*chat, answer] for chat, answer in zip(chats, answers, strict=True)], generate=False
        )
        whole_N = [
            ids[real] for ids, real in zip(whole["input_ids"], whole["attention_mask"].bool(), strict=True)
        ]
        # A beginning includes the mark behind its last picture, which is text: positions count on from it.
        end_N = [int((ids == picture).nonzero()[-1]) + 2 for ids in whole_N]
        names = [
            (tuple(ids[:end].tolist()), picture_names(chat))
            for ids, end, chat in zip(whole_N, end_N, chats, strict=True)
        ]
        first, which = distinct(names)
        ids_SP, real_SP = _padded([whole_N[i][: end_N[i]] for i in first], "left", model.device)
        ids_NT, real_NT = _padded(
            [ids[end:] for ids, end in zip(whole_N, end_N, strict=True)], "right", model.device
        )
        seen = encode(processor, [chats[i] for i in first]).to(model.device)
        pictures = {name: seen[name] for name in ("pixel_values", "image_grid_thw")}
        kinds_SP = (ids_SP == picture).int()
        positions_3SP, _ = network.model.get_rope_index(
            ids_SP, kinds_SP, pictures["image_grid_thw"], attention_mask=real_SP
        )
        rows = GroupRows.of(ids_SP, real_SP, positions_3SP, ids_NT, real_NT, which)
        row_N1, column_NT = rows.places_NT
        # A reply, its end token and a newline close each chat.
        length_N = [
            len(processor.tokenizer(reply, add_special_tokens=False)["input_ids"]) + 2 for reply in replies
        ]
        from_end_NT = real_NT.flip(1).cumsum(dim=1).flip(1) * real_NT
        said_NT = (from_end_NT > 1) & (from_end_NT <= torch.tensor(length_N, device=model.device)[:, None])
        places_M = row_N1.expand_as(column_NT)[said_NT], column_NT[said_NT] - 1
        return cls(rows, pictures, ids_NT[said_NT], said_NT.sum(dim=1), places_M)


def _padded(rows: Sequence[torch.Tensor], side: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of tokens padded to one length, and which of them are real (1) or padding (0)."""
    every = (rows, [torch.ones_like(row) for row in rows])
    ids, real = (pad_sequence(some, batch_first=True, padding_side=side).to(device) for some in every)
    return ids, real


class CoupledTrainer(SpecializeTrainer):
    """Keeps the executor in the same checkpoints as the planner, so that training goes on with both."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True, exist_ok=True)
        (rewarding,) = self.reward_funcs
        state = {
            "network": rewarding.model.network.state_dict(),
            "optimizer": rewarding.optimizer.state_dict(),
        }
        torch.save(
            state, folder / _STATE
        )  # first: a checkpoint is complete once the trainer has written its own state
        super()._save_checkpoint(model, trial)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        (rewarding,) = self.reward_funcs
        state = torch.load(Path(resume_from_checkpoint) / _STATE, weights_only=True)
        rewarding.model.network.load_state_dict(state["network"])
        rewarding.optimizer.load_state_dict(state["optimizer"])


def specialize_coupled(
    rows: Dataset,
    planner: str | Path,
    executor: Executor,
    settings: SpecializeSettings,
    sampling: SamplingSettings,
    folder: Path,
    seed: int,
    distance: bool = True,
    progress: Progress = lambda done, total: None,
) -> Path:
    """`specialize` with the executor trained as well; `folder`/executor is its checkpoint."""
    rewarding = CoupledReward(executor, seed, settings, distance)
    how = {"rewarding": rewarding, "kind": CoupledTrainer, "progress": progress}
    specialize(rows, planner, executor, settings, sampling, folder, seed, **how)
    for part in (executor.model.network, executor.model.processor):
        part.save_pretrained(folder / EXECUTOR)
    return folder
