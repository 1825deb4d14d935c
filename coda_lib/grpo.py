"""GRPO by its equations (paper, eq. 2 and 3): a group of plans for one state, its advantages, the loss.

`coda_lib.trainer` trains with TRL, whose loss equals `grpo_loss` (tests/coda_study/show/test_notebooks.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from coda_lib.action import Action
from coda_lib.agent import Decision, DualAgent, carry_out
from coda_lib.dataset import observation
from coda_lib.errors import UserError
from coda_lib.models.chat import text
from coda_lib.models.local import LocalModel, encode, load_network
from coda_lib.planner import Observation, Planner, format_plan, read_plan
from coda_lib.reward import reward
from coda_lib.trajectory import Trajectory


@dataclass(frozen=True)
class Group:
    """G plans for one state, what the frozen executor made of each, and the rewards."""

    state: Observation
    target: tuple[Action, ...]  # a_T, the labelled positive action
    decisions: tuple[Decision, ...]  # one for each plan
    rewards: np.ndarray  # in [0, 2] (eq. 1)

    @property
    def plans(self) -> list[str]:
        return [decision.plan for decision in self.decisions]

    @property
    def actions(self) -> list[Action | None]:
        """The first action of each decision; None where the executor's reply could not be parsed."""
        return [decision.actions[0] if decision.actions else None for decision in self.decisions]

    @property
    def advantages(self) -> np.ndarray:
        return advantages(self.rewards[None])[0]


def draw_groups(
    agent: DualAgent, steps: Iterable[tuple[Trajectory, int]], size: int, seed: int, reach: float
) -> list[Group]:
    """Sample `size` plans for each step (trajectory, index from 0), let the executor act, and reward it.

    `reach` is that of `reward.reward`.  UserError if there is no step.
    """
    steps = list(steps)
    if not steps:
        raise UserError(
            "no positive step to sample plans for: the judge called no trajectory clean; explore more tasks"
        )
    states = [observation(trajectory, index) for trajectory, index in steps]
    repeated = [state for state in states for _ in range(size)]
    plans = [read_plan(reply) for reply in agent.planner.plan(repeated, seed)]
    decisions = carry_out(agent.executor, repeated, plans, seed + 1)
    groups = []
    for number, (state, (trajectory, index)) in enumerate(zip(states, steps, strict=True)):
        target = trajectory.steps[index].actions
        of_state = tuple(decisions[number * size : (number + 1) * size])
        rewards = np.array([reward(decision.actions, target, reach) for decision in of_state])
        groups.append(Group(state, target, of_state, rewards))
    return groups


def advantages(rewards_P_G: np.ndarray) -> np.ndarray:
    """A = (r - mean) / std within each group of plans for one state (eq. 2), problems x group, as floats.

    The standard deviation is that of a sample (divisor G - 1), as in TRL's trainer, which also adds 1e-4 to
    it.  A group whose rewards are all equal gets zeros.  ValueError for less than two plans a group.

    >>> advantages(np.array([[0, 1, 2], [1, 1, 1]])).tolist()
    [[-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    rewards_P_G = np.asarray(rewards_P_G, dtype=float)
    if rewards_P_G.ndim != 2 or rewards_P_G.shape[1] < 2:
        raise ValueError(
            f"rewards must be problems x group with a group of at least 2, not {rewards_P_G.shape}"
        )
    centred_P_G = rewards_P_G - rewards_P_G.mean(axis=1, keepdims=True)
    std_P_1 = rewards_P_G.std(axis=1, ddof=1, keepdims=True)
    spread_P_1 = np.ptp(rewards_P_G, axis=1, keepdims=True)
    varied_P_1 = spread_P_1 > 1e-9  # the std of equal floats is not always 0
    return np.where(varied_P_1, centred_P_G / np.where(varied_P_1, std_P_1, 1.0), 0.0)


def trainable(planner: Planner) -> Planner:
    """A copy of a planner in this process whose weights ask for gradients."""
    model = LocalModel(planner.model.name)
    model.network = load_network(model.name, trainable=True, device=model.device)
    return Planner(model, planner.sampling, planner.prompts)


def token_logprobs(planner: Planner, state: Observation, plans: Sequence[str]) -> tuple[Tensor, Tensor]:
    """log π(p_t) of each token of each plan, the end mark included, and 1 where there is a token, else 0.

    Both are plans x tokens of the longest plan; shorter plans begin further to the right.
    """
    prompt, processor, network = planner.messages(state), planner.model.processor, planner.model.network
    replies = [{"role": "assistant", "content": [text(format_plan(plan, planner.prompts))]} for plan in plans]
    batch = encode(processor, [[*prompt, reply] for reply in replies], generate=False).to(network.device)
    before = encode(processor, [prompt])["input_ids"].shape[1]  # tokens before the plan
    tokens = batch["attention_mask"].sum(1) - before - 1  # of each plan; a newline follows the end mark
    logits = network(**batch).logits[:, :-1]  # logits at place t are about token t + 1
    logprobs = torch.log_softmax(logits, -1).gather(-1, batch["input_ids"][:, 1:, None])[:, :-1, 0]
    longest = int(tokens.max())
    is_token = torch.arange(longest, 0, -1, device=network.device) <= tokens[:, None]
    return (logprobs[:, -longest:] * is_token).cpu(), is_token.float().cpu()


def grpo_loss(
    now: Tensor,  # log-probabilities of the tokens (plans x tokens) under the planner now,
    old: Tensor,  # under the planner that sampled the plans,
    ref: Tensor,  # and under the base planner
    is_token: Tensor,  # 1 where a plan has a token, else 0 (plans x tokens)
    advantage: Tensor,  # of each plan
    beta: float,
    epsilon: float,
) -> Tensor:
    """The loss of eq. 3 for one group."""
    ratio = torch.exp(now - old)  # ρ_t
    clipped = torch.clamp(ratio, 1 - epsilon, 1 + epsilon)
    gain = torch.minimum(ratio * advantage[:, None], clipped * advantage[:, None])
    kl = torch.exp(ref - now) - (ref - now) - 1  # KL_t, the k3 estimator
    plan_means = ((gain - beta * kl) * is_token).sum(dim=1) / is_token.sum(dim=1)
    return -plan_means.mean()
