"""The trainer of stage 1 with shared prefixes against stock TRL on the same plans: loss, gradient, steps,
skipped passes.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tiny_models import LABEL, hashed_click, made_up
from trl import GRPOTrainer

from coda_lib.action import Action
from coda_lib.config import SamplingSettings, SpecializeSettings
from coda_lib.dataset import grpo_rows
from coda_lib.executor import Executor
from coda_lib.models import shared_prefix_trainer
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.models.local import load_network
from coda_lib.models.shared_prefix import GroupRows
from coda_lib.models.shared_prefix_trainer import SharedPrefixTrainer
from coda_lib.trainer import ActionReward, specialize

pytest_plugins = ("tiny_checkpoints",)

ACTS = (
    ("Click 'Grid'.", Action.click(0.25, 0.5)),
    ("Click 'Axes'.", Action.click(0.75, 0.75)),
    ("DONE", Action.done()),
)
GENERATE, LOSS = SharedPrefixTrainer._generate_single_turn, SharedPrefixTrainer._compute_loss


@pytest.fixture
def rows() -> Dataset:
    """Give states with prompts of different lengths."""
    other = made_up(1, ACTS, instruction="turn the grid and the axes on, and then off")
    return grpo_rows([made_up(0, ACTS), other], "compact", LABEL)


@pytest.fixture
def train(rows, tiny_planner, tmp_path) -> Callable[..., list[dict[str, Any]]]:
    """Give a function that trains a planner and returns the trainer's log; its checkpoint is in
    `tmp_path`/NAME.
    """

    def train(name: str = "planner", **changes: Any) -> list[dict[str, Any]]:
        given = (
            dict(
                group_size=4,
                completions_per_step=8,
                steps=1,
                learning_rate=1e-3,
                beta=0.3,
                epsilon=0.05,
                reach=2,
            )
            | changes
        )
        executor = Executor(ReplayModel(hashed_click), Sampling(temperature=0))
        sampling = SamplingSettings(temperature=1.0, top_p=0.9, max_new_tokens=6)
        specialize(rows, tiny_planner, executor, SpecializeSettings(**given), sampling, tmp_path / name, 7)
        return [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]

    return train


def gradient(network: torch.nn.Module, loss: torch.Tensor) -> torch.Tensor:
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    found = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
    return torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for g, p in zip(found, parameters, strict=True)]
    )


@pytest.fixture
def both(monkeypatch, train) -> Callable[..., dict[bool, tuple[torch.Tensor, torch.Tensor]]]:
    """Give a function that trains one step, and the loss and gradient of its first pass by shared prefix:
    False, True.

    Plans have one to six tokens.  `change(trainer, inputs)` comes before the losses.
    """

    def both(change: Callable[[Any, dict], None] = lambda trainer, inputs: None, **settings: Any):
        found: dict[bool, tuple[torch.Tensor, torch.Tensor]] = {}

        def uneven(trainer, *args, **kwargs):
            plans, nothing = GENERATE(trainer, *args, **kwargs)
            return [
                [*plan[: i % 6], trainer._tokenizer.eos_token_id] for i, plan in enumerate(plans)
            ], nothing

        def compute(trainer, model, inputs):
            if not found:
                change(trainer, inputs)
                for shared in (False, True):
                    trainer.shared_prefix = shared
                    loss = LOSS(trainer, model, inputs)
                    found[shared] = loss.detach(), gradient(model, loss)
            return LOSS(trainer, model, inputs)

        monkeypatch.setattr(SharedPrefixTrainer, "_generate_single_turn", uneven)
        monkeypatch.setattr(SharedPrefixTrainer, "_compute_loss", compute)
        train(**settings)
        return found

    return both


def sampled(trainer: SharedPrefixTrainer, inputs: dict) -> None:
    """Every plan has a signal."""
    inputs["advantages"] = torch.linspace(-1, 1.5, len(inputs["advantages"]))


def checkpointed(trainer: SharedPrefixTrainer, inputs: dict) -> None:
    sampled(trainer, inputs)
    trainer.model.gradient_checkpointing_enable({"use_reentrant": False})


def moved(trainer: SharedPrefixTrainer, inputs: dict) -> None:
    """The planner is not what sampled: ratios are not 1, and some are clipped; KL terms are not 0."""
    torch.manual_seed(5)
    inputs["old_per_token_logps"] = inputs["ref_per_token_logps"] + 0.1 * torch.randn_like(
        inputs["ref_per_token_logps"]
    )
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter += 0.01 * torch.randn_like(parameter)


@pytest.mark.parametrize("change", [sampled, moved, checkpointed])
@pytest.mark.parametrize("settings", [{}, {"lora": 2}, {"at_once": 2}, {"group_size": 2}], ids=str)
def test_loss_and_gradient_are_those_of_stock_trl(both, change, settings):
    (loss, slope), (shared_loss, shared_slope) = both(change, **settings).values()
    torch.testing.assert_close(shared_loss, loss, rtol=1e-5, atol=1e-6)
    assert slope.norm() > 0 and (shared_slope - slope).norm() < 1e-5 * slope.norm()


def test_whole_trainings_are_the_same_plans_rewards_and_checkpoint(train, tmp_path, unrounded):
    shared, stock = train("shared", steps=4), train("stock", steps=4, shared_prefix=False)
    for one, other in zip(shared, stock, strict=True):
        assert (
            one["reward"] == other["reward"]
            and one["completions/mean_length"] == other["completions/mean_length"]
        )
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-5)
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-3)
    first, second = (load_network(tmp_path / name, False, "cpu").state_dict() for name in ("shared", "stock"))
    assert all(torch.allclose(weights, second[name], atol=1e-4) for name, weights in first.items())


def test_a_pass_reads_each_state_once(train, monkeypatch):
    """Of eight plans for two states, in one pass or in four."""
    read = []
    of = GroupRows.of.__func__

    def counted(cls, prompts, *args):
        read.append(len(prompts))
        return of(cls, prompts, *args)

    monkeypatch.setattr(GroupRows, "of", classmethod(counted))
    train("one")
    assert read == [1, 2, 2]  # the comparison with stock TRL, the reference, the policy
    read.clear()
    train("several", at_once=2)
    assert read == [1] + [1] * 4 + [1] * 4


def same_reward(trainer: SharedPrefixTrainer, inputs: dict) -> None:
    """The rewards of the first state do not differ."""
    inputs["advantages"][:4] = 0.0


@pytest.fixture
def scored(monkeypatch) -> list[set[int]]:
    """Give the list of the states of each pass."""
    passes, score = [], SharedPrefixTrainer._score

    def listed(trainer, model, batch, states, tokens):
        passes.append(set(states))
        return score(trainer, model, batch, states, tokens)

    monkeypatch.setattr(SharedPrefixTrainer, "_score", listed)
    return passes


def test_without_a_kl_term_a_group_without_signal_takes_no_pass(both, scored):
    (loss, slope), (shared_loss, shared_slope) = both(same_reward, beta=0.0).values()
    assert scored[-1] == {1}
    torch.testing.assert_close(shared_loss, loss, rtol=1e-5, atol=1e-6)
    assert slope.norm() > 0 and (shared_slope - slope).norm() < 1e-5 * slope.norm()


def test_with_a_kl_term_it_takes_one(both, scored):
    def change(trainer, inputs):
        moved(trainer, inputs)
        same_reward(trainer, inputs)

    (loss, slope), (shared_loss, shared_slope) = both(change).values()
    assert scored[-1] == {0, 1}
    assert (shared_slope - slope).norm() < 1e-5 * slope.norm()


@pytest.mark.parametrize(("beta", "share"), [(0.0, 0.5), (0.3, 1.0)])
def test_the_log_says_what_share_of_the_plans_took_a_pass(train, monkeypatch, beta, share):
    def compute(trainer, model, inputs):
        inputs["advantages"] = torch.tensor([0.0] * 4 + [1.0, -1.0, 1.0, -1.0])
        return LOSS(trainer, model, inputs)

    monkeypatch.setattr(SharedPrefixTrainer, "_compute_loss", compute)
    assert [step["passed"] for step in train(beta=beta)] == [share]


def test_without_any_signal_a_step_changes_nothing(train, monkeypatch, tiny_planner, tmp_path, unrounded):
    def compute(trainer, model, inputs):
        inputs["advantages"] = torch.zeros(8)
        return LOSS(trainer, model, inputs)

    monkeypatch.setattr(SharedPrefixTrainer, "_compute_loss", compute)
    assert train(beta=0.0)[0]["grad_norm"] == 0
    first, second = (
        load_network(path, False, "cpu").state_dict() for path in (tiny_planner, tmp_path / "planner")
    )
    assert all(torch.equal(weights, second[name]) for name, weights in first.items())


# ---- dynamic sampling ------------------------------------------------------------------------------------


@pytest.fixture
def dull(monkeypatch) -> None:
    """Every plan of the longer instruction earns the same, and every plan of the other one another reward."""
    earned = ActionReward.carry_out

    def by_state(rewarding, completions, images, target, instruction, *args, **kwargs):
        states, decisions, _ = earned(rewarding, completions, images, target, instruction, *args, **kwargs)
        return states, decisions, [0.5 if "axes" in text else float(i) for i, text in enumerate(instruction)]

    monkeypatch.setattr(ActionReward, "carry_out", by_state)


def test_states_without_signal_are_replaced(dull, train):
    without, replaced = train("without", steps=4), train("with", steps=4, refills=20)
    assert any(step["passed"] < 1 for step in train("beta", steps=4, beta=0.0))
    assert "refilled" not in without[0]
    assert {step["refilled"] for step in replaced} <= {0.0, 0.5, 1.0} and any(
        step["refilled"] for step in replaced
    )
    assert all(step["passed"] == 1 for step in train("all", steps=4, refills=20, beta=0.0))


def test_refilling_ends_at_its_bound(monkeypatch, train):
    monkeypatch.setattr(
        ActionReward, "__call__", lambda rewarding, completions, **_: [1.0] * len(completions)
    )
    calls = []
    score = SharedPrefixTrainer._sample_and_score
    monkeypatch.setattr(
        SharedPrefixTrainer,
        "_sample_and_score",
        lambda trainer, inputs: calls.append(len(inputs)) or score(trainer, inputs),
    )
    (step,) = train(refills=2)
    assert calls == [8, 8, 8] and step["refilled"] == 0


@pytest.mark.parametrize("settings", [{}, {"at_once": 2}], ids=str)
def test_loss_and_gradient_of_a_refilled_batch_are_those_of_stock_trl(dull, both, settings):
    (loss, slope), (shared_loss, shared_slope) = both(refills=20, **settings).values()
    torch.testing.assert_close(shared_loss, loss, rtol=1e-5, atol=1e-6)
    assert slope.norm() > 0 and (shared_slope - slope).norm() < 1e-5 * slope.norm()


def test_a_shared_pass_that_differs_from_stock_trl_is_switched_off_with_a_warning(
    train, monkeypatch, tmp_path
):
    of = GroupRows.of.__func__

    def wrong(cls, prompts, real, positions, *args):
        return of(cls, prompts, real, positions.flip(0) * 2, *args)

    stock = train("stock", shared_prefix=False)
    monkeypatch.setattr(GroupRows, "of", classmethod(wrong))
    with pytest.warns(UserWarning, match="shared prefixes are off: log-probabilities differ by"):
        shared = train("shared")
    assert shared[0]["loss"] == pytest.approx(stock[0]["loss"], abs=1e-6)


@pytest.mark.parametrize("noise, off", [(1e-4, False), (0.5, True)], ids=["as stock TRL alone", "more"])
def test_a_difference_that_stock_trl_has_from_itself_is_rounding(train, monkeypatch, noise, off):
    """In 16 bits a deep network rounds by more than the tolerance: log-probabilities of plans computed alone
    differ as much.
    """
    score, stock = SharedPrefixTrainer._score, GRPOTrainer._get_per_token_logps_and_entropies
    monkeypatch.setattr(
        shared_prefix_trainer, "TOLERANCE", dict.fromkeys(shared_prefix_trainer.TOLERANCE, 1e-5)
    )

    def rounded(logps: torch.Tensor, by: float) -> torch.Tensor:
        return logps + by * torch.ones_like(logps).cumsum(-1).remainder(2)

    def alone(self, *args: Any, batch_size: int | None = None, **how: Any) -> Any:
        logps, *rest = stock(self, *args, batch_size=batch_size, **how)
        return rounded(logps, 1e-4 if batch_size == 1 else 0), *rest

    def shared(self, *args: Any) -> Any:
        logps, entropies = score(self, *args)
        return rounded(logps, noise), entropies

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", alone)
    monkeypatch.setattr(SharedPrefixTrainer, "_score", shared)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train("rounded")
    assert any("shared prefixes are off" in str(warning.message) for warning in said) == off


def test_nothing_is_said_when_they_agree(train):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="shared prefixes")
        train()


def test_a_tiny_network_on_disk_is_not_touched(train, tiny_planner: Path):
    before = (tiny_planner / "model.safetensors").read_bytes()
    train()
    assert (tiny_planner / "model.safetensors").read_bytes() == before
