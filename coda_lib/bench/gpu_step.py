"""One step of decoupled GRPO at full size, without weights, tokenizer or screens, cut into phases that `bench_gpu` times.

The networks have their sizes from a configuration and random weights of 16 bits, and read noise: as many tokens and as large
pictures as `coda plan` counts with.  What is trained is what the profile trains: adapters of 32 bits on the language model
(`specialize.lora`), or all weights where it has none.  Every layer is computed again on the way back.

Departures from a step of `trainer.specialize`:
* G plans for one state make a step; the profile's has `completions_per_step`.
* Every plan and action is as long as the profile assumes; none ends early, nothing is padded.
* The executor is run by transformers in the same process; profile gpu has it served by vLLM.
* Its prompts hold as many tokens as a plan has, not the plan's own, and the rewards are drawn: noise has no text and no action.
* The loss is eq. 3 written out.  TRL computes the log-probabilities in tiles, which takes less memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import AutoModelForImageTextToText, Qwen2_5_VLConfig

from coda_lib.bench.cost import Network
from coda_lib.bench.estimate import Request, action_request, plan_request
from coda_lib.config import Profile
from coda_lib.reward import advantages
from coda_lib.trainer import adapter_settings

HALF = torch.bfloat16


class Step:
    """A planner that is trained, the executor, and what one step makes them do: `phases`, to be called in order."""

    def __init__(self, planner: Network, executor: Network, profile: Profile, device: torch.device):
        self.settings, self.sampling, self.device = profile.specialize, profile.executor, device
        self.temperature, self.own = profile.planner.temperature, 0
        self.asked, self.told = plan_request(planner, profile.hardware), action_request(executor, profile.hardware)
        adapters = adapter_settings(self.settings)
        torch.manual_seed(profile.seed)
        self.rewards = np.random.default_rng(profile.seed)
        self.executor = _random(executor.config, HALF, device).requires_grad_(False)
        if adapters:
            from peft import get_peft_model

            self.policy = get_peft_model(_random(planner.config, HALF, device), adapters)  # makes them of 32 bits
            self.reference, self.own = self.policy, planner.adapter_parameters(self.settings.lora)
        else:
            self.policy = _random(planner.config, torch.float32, device)
            self.reference = copy.deepcopy(self.policy).requires_grad_(False)
        self.policy.gradient_checkpointing_enable()
        self.optimizer = torch.optim.AdamW(self.trained, self.settings.learning_rate, weight_decay=0.0, fused=True)
        self.prompt = _noise(self.asked, self.settings.group_size, device)
        self.orders = _noise(self.told, self.settings.group_size, device)
        self.phases: dict[str, Callable[[], None]] = {
            "plans": self.write, "actions": self.carry_out, "reference": self.refer, "policy": self.learn, "update": self.update,
        }  # fmt: skip

    @property
    def trained(self) -> list[torch.nn.Parameter]:
        return [weights for weights in self.policy.parameters() if weights.requires_grad]

    def loads(self) -> dict[str, tuple[int, int, float]]:
        """Of each phase the tokens that are read, those that are written, and the operations."""
        count, asked, told = self.settings.group_size, self.asked, self.told
        whole = asked.prompt + asked.reply
        adapting = 2 * self.own * whole  # operations of the adapters in a forward pass
        # Forward, once more for what was not kept, and backward: once where the network's own weights are frozen, else twice.
        passes = 3 if self.own else 4
        return {
            "plans": (count * asked.prompt, count * asked.reply, count * (asked.flops + adapting)),
            "actions": (count * told.prompt, count * told.reply, count * told.flops),
            "reference": (count * whole, 0, count * asked.pass_flops()),
            "policy": (count * whole, 0, count * (asked.pass_flops(passes) + 4 * adapting)),
            "update": (0, 0, 0.0),  # next to nothing
        }

    def write(self) -> None:
        """Draw G plans as TRL does."""
        self.plans_GT = _replies(self.policy, self.prompt, self.asked, self.temperature, 1.0)

    def carry_out(self) -> None:
        """The executor's reply to each plan, and an advantage of each (eq. 2)."""
        _replies(self.executor, self.orders, self.told, self.sampling.temperature, self.sampling.top_p)
        rewards_1_G = self.rewards.uniform(0, 2, (1, self.settings.group_size))
        self.gains_G = torch.tensor(advantages(rewards_1_G)[0], dtype=torch.float32, device=self.device)

    def refer(self) -> None:
        """What the planner at the start makes of the plans."""
        self.reference.eval()
        bare = self.policy.disable_adapter() if self.own else nullcontext()
        with torch.no_grad(), bare:
            self.then_GT = torch.cat([self._log_probabilities(self.reference, rows) for rows in self._portions()])

    def learn(self) -> None:
        """The loss of eq. 3 and its gradient, `at_once` plans at a time.  One update follows each sample: ρ is 1."""
        self.policy.train()
        low, high = 1 - self.settings.epsilon, 1 + self.settings.epsilon
        for rows in self._portions():
            now_NT, gains_N1 = self._log_probabilities(self.policy, rows), self.gains_G[rows, None]
            gap_NT = self.then_GT[rows] - now_NT
            ratio_NT = (now_NT - now_NT.detach()).exp()
            gained_NT = torch.min(ratio_NT * gains_N1, ratio_NT.clamp(low, high) * gains_N1)
            loss_N = -(gained_NT - self.settings.beta * (gap_NT.exp() - gap_NT - 1)).mean(dim=1)
            (loss_N.sum() / self.settings.group_size).backward()

    def update(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)  # the trainer's own limit
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _portions(self) -> list[slice]:
        count, size = self.settings.group_size, self.settings.at_once or self.settings.group_size
        return [slice(start, min(start + size, count)) for start in range(0, count, size)]

    def _log_probabilities(self, policy: torch.nn.Module, rows: slice) -> torch.Tensor:
        """Of the tokens of these plans, at the temperature at which they were drawn; rows x tokens, of 32 bits."""
        plans, count = self.plans_GT[rows], self.settings.group_size
        # The patches and grids of all prompts lie one after the other, without a row for each prompt.
        inputs = {name: tensor.unflatten(0, (count, -1))[rows].flatten(0, 1) for name, tensor in self.prompt.items()}
        inputs["input_ids"] = torch.cat([inputs["input_ids"], plans], dim=1)
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        inputs["mm_token_type_ids"] = pad(inputs["mm_token_type_ids"], (0, plans.shape[1]))
        with torch.autocast(self.device.type, HALF):
            scores = policy(**inputs, logits_to_keep=plans.shape[1] + 1, use_cache=False).logits[:, :-1]
        return torch.log_softmax(scores.float() / self.temperature, -1).gather(-1, plans[..., None])[..., 0]


def _random(config: Qwen2_5_VLConfig, dtype: torch.dtype, device: torch.device) -> torch.nn.Module:
    with device:
        return AutoModelForImageTextToText.from_config(copy.deepcopy(config), dtype=dtype)  # which notes the type in it


def _noise(asked: Request, count: int, device: torch.device) -> dict[str, torch.Tensor]:
    """One prompt `count` times, as the processor hands it over: its pictures among its words."""
    config, vision = asked.network.config, asked.network.config.vision_config
    side, merged = vision.patch_size, vision.spatial_merge_size**2
    grids = torch.tensor([(1, height // side, width // side) for width, height in asked.pictures])  # time, rows, columns
    words = torch.randint(config.text_config.vocab_size, (asked.words,))
    words[torch.isin(words, torch.tensor(_marks(config)))] = 0
    pieces = list(words.tensor_split(len(grids) + 1))
    for place, patches in reversed(list(enumerate(grids.prod(dim=1).tolist(), 1))):
        pieces.insert(place, torch.full((patches // merged,), config.image_token_id))
    ids = torch.cat(pieces).expand(count, -1)
    patches = torch.randn(int(grids.prod(dim=1).sum()), 3 * vision.temporal_patch_size * side**2)
    inputs = {
        "input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == config.image_token_id).int(),
        "pixel_values": patches.repeat(count, 1), "image_grid_thw": grids.repeat(count, 1),
    }  # fmt: skip
    return {name: tensor.to(device) for name, tensor in inputs.items()}


def _replies(
    policy: torch.nn.Module, prompt: dict[str, torch.Tensor], asked: Request, temperature: float, top_p: float
) -> torch.Tensor:
    """Replies of exactly the length that is assumed, without tokens that would stand for a picture; rows x tokens."""
    policy.eval()  # in training mode nothing that was computed would be kept for the next token
    with torch.no_grad():
        whole = policy.generate(
            **prompt, do_sample=True, temperature=temperature, top_p=top_p, top_k=0, min_new_tokens=asked.reply,
            max_new_tokens=asked.reply, suppress_tokens=_marks(asked.network.config),
        )  # fmt: skip
    return whole[:, prompt["input_ids"].shape[1] :]


def _marks(config: Qwen2_5_VLConfig) -> list[int]:
    return [config.image_token_id, config.video_token_id]
