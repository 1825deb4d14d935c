"""An ablation: *coupled* reinforcement learning, which trains the executor on the planner's rewards as well.

CODA trains the planner alone (paper, section 3).  Here the executor learns from every plan that it carries
out, by the planner's own loss (eq. 3) over the tokens of its reply.  One update follows each sample, so ρ_t
is 1 and nothing is clipped.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
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
from coda_lib.trainer import ActionReward, SpecializeTrainer, round_weights, specialize

EXECUTOR = "executor"  # folder of the trained executor, beside the planner that it was trained with
_STATE = "executor.pt"  # in a checkpoint of the trainer: the executor's weights and its optimizer's state
Chats = Sequence[list[Message]]
_PORTION = 16  # replies whose gradient is computed at a time


class CoupledReward(ActionReward):
    """`ActionReward` that also updates the executor, whose model must be a `LocalModel`."""

    def __init__(self, executor: Executor, seed: int, settings: SpecializeSettings, distance: bool = True):
        super().__init__(executor, seed, settings, distance)
        assert isinstance(executor.model, LocalModel)
        self.model = executor.model
        self.reference = copy.deepcopy(self.model.network)
        weights = self.model.network.requires_grad_(True).parameters()
        self.optimizer = torch.optim.AdamW(weights, settings.learning_rate, weight_decay=0.0)

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
            portion = replied[start : start + _PORTION]
            chats = [executor_messages(states[i], decisions[i].plan, self.executor.prompts) for i in portion]
            replies = [decisions[i].reply for i in portion]
            loss = self._loss(chats, replies, torch.tensor(gains[portion]))
            (loss / len(decisions)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.network.parameters(), 1.0)  # the trainer's own limit
        self.optimizer.step()

    def _loss(self, chats: Chats, replies: Sequence[str], gains_N: torch.Tensor) -> torch.Tensor:
        """Eq. 3 with ρ = 1: the mean over the tokens of each reply, summed over the replies."""
        batch = _Replies.of(self.model, chats, replies)
        logp_M = self._log_probabilities(self.model.network, batch)
        with torch.no_grad():
            reference_M = self._log_probabilities(self.reference, batch)
        gap_M = reference_M - logp_M
        kl_M = gap_M.exp() - gap_M - 1
        ratio_M = (logp_M - logp_M.detach()).exp()
        gain_M = gains_N.to(logp_M).repeat_interleave(batch.tokens_N)
        share_M = (1 / batch.tokens_N).to(logp_M).repeat_interleave(batch.tokens_N)
        return -((ratio_M * gain_M - self.settings.beta * kl_M) * share_M).sum()

    def _log_probabilities(self, network: Any, batch: _Replies) -> torch.Tensor:
        """Log-probabilities of the tokens of all replies, at the sampling temperature."""
        rows, mask = batch.rows, {"full_attention": batch.rows.mask_S1LL}
        places = {"attention_mask": mask, "position_ids": rows.positions_3SL}
        hidden_SLd = network.model(input_ids=rows.ids_SL, **places, **batch.pictures).last_hidden_state
        logits_MV = network.lm_head(hidden_SLd[batch.places_M]).float() / self.executor.sampling.temperature
        return torch.log_softmax(logits_MV, -1).gather(-1, batch.ids_M[:, None])[:, 0]


@dataclass(frozen=True)
class _Replies:
    """Chats and N replies to them, in one row for each distinct beginning, up to its last picture."""

    rows: GroupRows
    pictures: dict[str, torch.Tensor]
    ids_M: torch.Tensor  # the tokens of all replies, each with its end token, one behind another
    tokens_N: torch.Tensor  # how many
    places_M: tuple[torch.Tensor, torch.Tensor]  # row and column of the token before each

    @classmethod
    def of(cls, model: LocalModel, chats: Chats, replies: Sequence[str]) -> _Replies:
        processor, network, device = model.processor, model.network, model.device
        picture = network.config.image_token_id
        answers = [{"role": "assistant", "content": [{"type": "text", "text": reply}]} for reply in replies]
        closed = [[*chat, answer] for chat, answer in zip(chats, answers, strict=True)]
        whole = encode(processor, closed, generate=False)
        real_NL = whole["attention_mask"].bool()
        whole_N = [ids[real] for ids, real in zip(whole["input_ids"], real_NL, strict=True)]
        # A beginning includes the mark behind its last picture, which is text: positions count on from it.
        end_N = [int((ids == picture).nonzero()[-1]) + 2 for ids in whole_N]
        beginnings = [ids[:end] for ids, end in zip(whole_N, end_N, strict=True)]
        names = zip((tuple(ids.tolist()) for ids in beginnings), map(picture_names, chats), strict=True)
        first, which = distinct(list(names))
        ids_SP, real_SP = _padded([beginnings[i] for i in first], "left", device)
        ends = [ids[end:] for ids, end in zip(whole_N, end_N, strict=True)]
        ids_NT, real_NT = _padded(ends, "right", device)
        seen = encode(processor, [chats[i] for i in first]).to(device)
        pictures = {name: seen[name] for name in ("pixel_values", "image_grid_thw")}
        grid, kinds_SP = pictures["image_grid_thw"], (ids_SP == picture).int()
        positions_3SP, _ = network.model.get_rope_index(ids_SP, kinds_SP, grid, attention_mask=real_SP)
        rows = GroupRows.of(ids_SP, real_SP, positions_3SP, ids_NT, real_NT, which)
        row_N1, column_NT = rows.places_NT
        # A reply, its end token and a newline close each chat.
        tokens = processor.tokenizer(list(replies), add_special_tokens=False)["input_ids"]
        length_N = torch.tensor([len(ids) + 2 for ids in tokens], device=device)
        from_end_NT = real_NT.flip(1).cumsum(dim=1).flip(1) * real_NT
        reply_NT = (from_end_NT > 1) & (from_end_NT <= length_N[:, None])
        places_M = row_N1.expand_as(column_NT)[reply_NT], column_NT[reply_NT] - 1
        return cls(rows, pictures, ids_NT[reply_NT], reply_NT.sum(dim=1), places_M)


def _padded(rows: Sequence[torch.Tensor], side: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of tokens padded to one length, and which of them are real (1) or padding (0)."""
    pad = partial(pad_sequence, batch_first=True, padding_side=side)
    return pad(rows).to(device), pad([torch.ones_like(row) for row in rows]).to(device)


class CoupledTrainer(SpecializeTrainer):
    """Keeps the executor in the same checkpoints as the planner, so that training goes on with both."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        folder.mkdir(parents=True, exist_ok=True)
        (rewarding,) = self.reward_funcs
        learned = {"network": rewarding.model.network, "optimizer": rewarding.optimizer}
        # first: a checkpoint is complete once the trainer has written its own state
        torch.save({name: part.state_dict() for name, part in learned.items()}, folder / _STATE)
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
    **how: Any,
) -> Path:
    """`specialize` with the executor trained as well; `folder`/executor is its checkpoint."""
    how |= {"rewarding": CoupledReward(executor, seed, settings, distance), "kind": CoupledTrainer}
    specialize(rows, planner, executor, settings, sampling, folder, seed, **how)
    round_weights(executor.model.network)
    for part in (executor.model.network, executor.model.processor):
        part.save_pretrained(folder / EXECUTOR)
    return folder
