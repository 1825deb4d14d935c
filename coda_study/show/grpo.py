"""GRPO by hand, as notebooks 05 and 06 show it: a group of plans, its rewards, and one step of the planner's
weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from coda_lib.action import Action
from coda_lib.agent import Agent, Decision, DualAgent, carry_out, load_agent
from coda_lib.config import SpecializeSettings, load_profile
from coda_lib.dataset import observation
from coda_lib.errors import UserError
from coda_lib.grammar import action_text
from coda_lib.models.chat import text
from coda_lib.models.local import LocalModel, encode, load_network
from coda_lib.paths import checkpoint_path
from coda_lib.planner import Observation, Planner, format_plan, read_plan
from coda_lib.reward import advantages, reward
from coda_lib.trajectory import Trajectory
from coda_study.evaluation.statistics import paired_difference

# ---- groups ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """G plans for one state, what the frozen executor made of each, and the rewards (eq. 1 and 2)."""

    state: Observation
    target: tuple[Action, ...]  # a_T, the labelled positive action
    decisions: tuple[Decision, ...]  # one for each plan
    rewards: np.ndarray  # (G,), in [0, 2]

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

    @property
    def favourite(self) -> str:
        """The plan sampled most often."""
        return max(self.plans, key=self.plans.count)

    @property
    def about(self) -> pd.DataFrame:
        """Instruction, history and label of the state."""
        history = " ".join(turn.plan for turn in self.state.history) or "–"
        label = action_text(self.target, self.state.current.size)
        rows = {"instruction": self.state.instruction, "plans so far": history, "labelled action a_T": label}
        return pd.DataFrame({"state": rows})

    @property
    def table(self) -> pd.DataFrame:
        """A row for each plan: plan, action, reward, advantage."""
        size = self.state.current.size
        actions = [action_text(decision.actions, size) or "(no action)" for decision in self.decisions]
        columns = {
            "plan": self.plans,
            "action": actions,
            "reward": self.rewards,
            "advantage": self.advantages,
        }
        return pd.DataFrame(columns, index=range(1, len(self.rewards) + 1)).round(2)


def draw_groups(
    agent: DualAgent, steps: Iterable[tuple[Trajectory, int]], size: int, seed: int
) -> list[Group]:
    """Sample `size` plans for each step (trajectory, index from 0), let the executor act, and reward its
    actions.

    UserError if there is no step.
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
        target, own = trajectory.steps[index].actions, tuple(decisions[number * size : (number + 1) * size])
        groups.append(
            Group(state, target, own, np.array([reward(decision.actions, target) for decision in own]))
        )
    return groups


def most_varied(groups: Sequence[Group]) -> Group:
    """The group that shows most: with a right plan among others, a label that has a point, many different
    plans and rewards.
    """

    def variety(group: Group) -> tuple[bool, bool, int, int]:
        right = group.rewards.max() > 1.99 and np.ptp(group.rewards) > 0
        return right, group.target[0].x is not None, len(set(group.plans)), len(set(group.rewards.round(2)))

    return max(groups, key=variety)


def spread_of(groups: Sequence[Group]) -> pd.DataFrame:
    """Number of groups whose rewards differ; all others have no advantage and teach nothing."""
    alike = {True: "all equal, all right", False: "all equal, not right"}
    kinds = [
        "different" if np.ptp(group.rewards) > 1e-9 else alike[group.rewards.min() > 1.99] for group in groups
    ]
    return pd.Series(kinds, dtype=str).value_counts().rename_axis("rewards").rename("groups").to_frame()


def plan_counts(groups: Mapping[str, Group]) -> pd.DataFrame:
    """How often each plan was sampled: a row for each plan, a column for each group (of one planner each)."""
    counts = {name: pd.Series(group.plans).value_counts() for name, group in groups.items()}
    return (
        pd.DataFrame(counts)
        .fillna(0)
        .astype(int)
        .sort_values(list(groups)[-1], ascending=False)
        .rename_axis("plan")
    )


def paired_rewards(groups: Mapping[str, Sequence[Group]], resamples: int, seed: int = 0) -> pd.DataFrame:
    """Mean reward of two planners in the same states, and the change: 95 % interval and p value over states."""
    first, second = (np.array([group.rewards.mean() for group in one]) for one in groups.values())
    change = paired_difference([first / 2], [second / 2], np.random.default_rng(seed), resamples)
    means = dict(zip(groups, (first.mean().round(2), second.mean().round(2)), strict=True))
    interval = f"{2 * change.value:+.2f} [{2 * change.low:+.2f}, {2 * change.high:+.2f}]"
    return pd.DataFrame(
        {"states": len(first), **means, "change": interval, "p": round(change.p, 3)}, index=["reward (of 2)"]
    )


def reward_examples() -> pd.DataFrame:
    """The reward of one imperfect action of each type, and of the labelled action itself."""
    rows = [
        ("click 5 % of the screen to the right", Action.click(0.35, 0.5), Action.click(0.30, 0.5)),
        ("click in place of a double click", Action.click(0.3, 0.5), Action.double_click(0.3, 0.5)),
        ("drag half as far", Action.drag(0.2, 0.5, 0.4, 0.5), Action.drag(0.2, 0.5, 0.6, 0.5)),
        ("drag in the opposite direction", Action.drag(0.6, 0.5, 0.2, 0.5), Action.drag(0.2, 0.5, 0.6, 0.5)),
        ("one of six letters wrong", Action.type_text("sin(y)"), Action.type_text("sin(x)")),
        ("one of two keys wrong", Action.hotkey("ctrl x"), Action.hotkey("ctrl c")),
        ("scroll in the opposite direction", Action.scroll(0.5, 0.5, "up"), Action.scroll(0.5, 0.5, "down")),
        ("done too early", Action.done(), Action.click(0.3, 0.5)),
    ]
    shown = [
        (what, a_T.type.label, reward([action], [a_T]), reward([a_T], [a_T])) for what, action, a_T in rows
    ]
    return pd.DataFrame(shown, columns=["action", "type of a_T", "reward", "reward of a_T itself"]).round(2)


# ---- one step by hand --------------------------------------------------------------------------------------


def tiny_agent() -> Agent:
    """The base planner and the executor of the laptop, whatever models a run has: small enough for a step by
    hand.
    """
    profile = load_profile("laptop")
    return load_agent(profile, "base", checkpoint_path(profile.models.planner))


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


def step_table(group: Group, **logprobs: Tensor) -> pd.DataFrame:
    """A row for each plan: plan, advantage, and its probability by each of the log-probabilities (plans x
    tokens).
    """
    probabilities = {
        name: torch.exp(value.detach().sum(dim=1)).cpu().numpy() for name, value in logprobs.items()
    }
    columns = {"plan": group.plans, "advantage": group.advantages.round(2)} | probabilities
    return pd.DataFrame(columns, index=range(1, len(group.plans) + 1))


def steps_by_hand(agent: DualAgent, group: Group, settings: SpecializeSettings, steps: int) -> pd.DataFrame:
    """Steps on the same group of plans, a row for each.

    Columns: loss, largest_ratio, outside (share of tokens with a ratio outside 1 ± ε), kl (mean over tokens)
    before the step; probability of each plan after it.
    """
    planner, advantage, rows = (
        trainable(agent.planner),
        torch.tensor(group.advantages, dtype=torch.float32),
        [],
    )
    optimizer = torch.optim.Adam(planner.model.network.parameters(), lr=settings.learning_rate)
    now, is_token = token_logprobs(planner, group.state, group.plans)
    old = now.detach()
    for _ in range(steps):
        loss = grpo_loss(now, old, old, is_token, advantage, settings.beta, settings.epsilon)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        change = (now.detach() - old)[is_token > 0]
        ratio, kl = torch.exp(change), torch.exp(-change) + change - 1
        outside = ((ratio - 1).abs() > settings.epsilon).float().mean()
        row = {"loss": loss.detach(), "largest_ratio": ratio.max(), "outside": outside, "kl": kl.mean()}
        now, _ = token_logprobs(planner, group.state, group.plans)
        after = dict(zip(group.plans, torch.exp(now.detach().sum(dim=1)), strict=True))
        rows.append({name: float(value) for name, value in (row | after).items()})
    return pd.DataFrame(rows, index=pd.RangeIndex(1, steps + 1, name="step")).round(3)
