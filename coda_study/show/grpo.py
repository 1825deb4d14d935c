"""Tables of notebooks 05 and 06: groups of plans, their rewards, steps of the planner's weights by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from coda_lib.action import Action
from coda_lib.agent import Agent, DualAgent, load_agent
from coda_lib.config import SpecializeSettings, load_profile
from coda_lib.grammar import action_text
from coda_lib.grpo import Group, grpo_loss, token_logprobs, trainable
from coda_lib.paths import checkpoint_path
from coda_lib.reward import reward
from coda_study.evaluation.statistics import paired_difference

# ---- groups -----------------------------------------------------------------------------------------------


def state_table(group: Group) -> pd.DataFrame:
    """Instruction, history and label of a group's state."""
    rows = {
        "instruction": group.state.instruction,
        "plans so far": " ".join(turn.plan for turn in group.state.history) or "–",
        "labelled action a_T": action_text(group.target, group.state.current.size),
    }
    return pd.DataFrame({"state": rows})


def group_table(group: Group) -> pd.DataFrame:
    """A row for each plan: plan, action, reward, advantage."""
    size = group.state.current.size
    columns = {
        "plan": group.plans,
        "action": [action_text(decision.actions, size) or "(no action)" for decision in group.decisions],
        "reward": group.rewards,
        "advantage": group.advantages,
    }
    return pd.DataFrame(columns, index=range(1, len(group.plans) + 1)).round(2)


def favourite(group: Group) -> str:
    """The plan sampled most often."""
    return max(group.plans, key=group.plans.count)


def most_varied(groups: Sequence[Group]) -> Group:
    """The group with a right plan among others, a label with a point, and the most plans and rewards."""

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
    table = pd.DataFrame(counts).fillna(0).astype(int).rename_axis("plan")
    return table.sort_values(list(groups)[-1], ascending=False)


def paired_rewards(groups: Mapping[str, Sequence[Group]], resamples: int, seed: int = 0) -> pd.DataFrame:
    """Mean reward of two planners in the same states; the change with its 95 % interval over states."""
    first, second = (np.array([group.rewards.mean() for group in drawn]) for drawn in groups.values())
    change = paired_difference([first / 2], [second / 2], np.random.default_rng(seed), resamples)
    means = dict(zip(groups, (first.mean().round(2), second.mean().round(2)), strict=True))
    interval = f"{2 * change.value:+.2f} [{2 * change.low:+.2f}, {2 * change.high:+.2f}]"
    row = {"states": len(first), **means, "change": interval}
    return pd.DataFrame(row, index=["reward (of 2)"])


def reward_examples(reach: float) -> pd.DataFrame:
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
    earned = {text: [reward([b], [a_T], reach) for b in (a, a_T)] for text, a, a_T in rows}
    rewards = [(text, a_T.type.label, *earned[text]) for text, _, a_T in rows]
    return pd.DataFrame(rewards, columns=["action", "type of a_T", "reward", "reward of a_T itself"]).round(2)


# ---- one step by hand ------------------------------------------------------------------------------------


def tiny_agent() -> Agent:
    """The laptop's base planner and executor, whatever models a run has: small enough for a step by hand."""
    profile = load_profile("laptop")
    return load_agent(profile, "base", checkpoint_path(profile.models.planner))


def step_table(group: Group, **logprobs: Tensor) -> pd.DataFrame:
    """A row for each plan: plan, advantage, its probability by each of `logprobs` (plans x tokens)."""
    columns = {"plan": group.plans, "advantage": group.advantages.round(2)}
    for name, value in logprobs.items():
        columns[name] = torch.exp(value.detach().sum(dim=1)).cpu().numpy()
    return pd.DataFrame(columns, index=range(1, len(group.plans) + 1))


def steps_by_hand(agent: DualAgent, group: Group, settings: SpecializeSettings, steps: int) -> pd.DataFrame:
    """Steps on the same group of plans, a row for each.

    Columns: loss, largest_ratio, outside (share of tokens with a ratio outside 1 ± ε), kl (mean over tokens)
    before the step; probability of each plan after it.
    """
    planner, rows = trainable(agent.planner), []
    advantage = torch.tensor(group.advantages, dtype=torch.float32)
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
