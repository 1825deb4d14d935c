"""Coupled training: the executor's update is eq. 3 with its own reply, and a killed training goes on with
both models.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from datasets import Dataset
from tiny_models import LABEL, ClickingModel, made_up

from coda_lib import trainer
from coda_lib.action import Action
from coda_lib.agent import Decision
from coda_lib.config import SamplingSettings, SpecializeSettings
from coda_lib.dataset import grpo_rows, observation
from coda_lib.executor import Executor, executor_messages
from coda_lib.models.chat import Sampling
from coda_lib.models.local import LocalModel, encode, load_network
from coda_study.stages.coupled import EXECUTOR, CoupledReward, _Replies, specialize_coupled

pytest_plugins = ("tiny_checkpoints",)

SETTINGS = SpecializeSettings(
    group_size=2, completions_per_step=4, steps=4, learning_rate=1e-3, beta=0.3, epsilon=0.2, reach=2
)
SAMPLING = SamplingSettings(temperature=1.0, top_p=1.0, max_new_tokens=4)
ACTS = (
    ("Click 'Grid'.", Action.click(0.25, 0.5)),
    ("Click 'Axes'.", Action.click(0.75, 0.75)),
    ("DONE", Action.done()),
)


@pytest.fixture
def rows() -> Dataset:
    return grpo_rows([made_up(0, ACTS), made_up(1, ACTS)], "compact", LABEL)


def executor_of(folder: Path) -> Executor:
    return Executor(ClickingModel(folder), Sampling(temperature=0.7, max_new_tokens=4))


def log_probability(
    network: torch.nn.Module, model: LocalModel, chat: list, reply: str, temperature: float
) -> torch.Tensor:
    """Of each token of one reply and of its end, from this reply alone."""
    asked = encode(model.processor, [chat])
    said = model.processor.tokenizer(reply, add_special_tokens=False)["input_ids"] + [
        model.processor.tokenizer.eos_token_id
    ]
    n = len(said)
    inputs = dict(asked) | {"input_ids": torch.cat([asked["input_ids"], torch.tensor([said])], dim=1)}
    more = {"attention_mask": 1, "mm_token_type_ids": 0}
    inputs |= {key: torch.nn.functional.pad(asked[key], (0, n), value=value) for key, value in more.items()}
    logits = network(**inputs).logits[0, -n - 1 : -1] / temperature
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(said)[:, None])[:, 0]


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_the_executors_loss_is_eq_3_over_its_replies(tiny_executor, prompts):
    executor = executor_of(tiny_executor)
    rewarding = CoupledReward(executor, 0, SETTINGS)
    with torch.no_grad():  # away from the reference, so that KL is not 0
        torch.manual_seed(1)
        for parameter in executor.model.network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    states = [
        observation(made_up(i, ACTS), 1) for i in (0, 1, 0, 0)
    ]  # replies to one state share its encoded screens
    plans = ("Click 'Grid'.", "turn", "turn", "turn")
    chats = [executor_messages(state, plan, prompts) for state, plan in zip(states, plans, strict=True)]
    replies, gains = (
        ["click(start_box='(8,48)')", "DONE", "finished()", "DONE"],
        torch.tensor([0.5, -2.0, 1.0, 0.25]),
    )
    expected = torch.tensor(0.0)
    for chat, reply, gain in zip(chats, replies, gains, strict=True):
        now = log_probability(executor.model.network, executor.model, chat, reply, 0.7)
        gap = log_probability(rewarding.reference, executor.model, chat, reply, 0.7).detach() - now
        expected = (
            expected - (gain * (now - now.detach()).exp() - SETTINGS.beta * (gap.exp() - gap - 1)).mean()
        )
    found = rewarding._loss(chats, replies, gains)
    parameters = list(executor.model.network.parameters())
    wanted = torch.autograd.grad(expected, parameters, allow_unused=True)
    given = torch.autograd.grad(found, parameters, allow_unused=True)
    assert torch.isclose(found, expected, rtol=1e-5)
    assert [one is None for one in wanted] == [one is None for one in given]
    wanted, given = (torch.cat([g.flatten() for g in some if g is not None]) for some in (wanted, given))
    assert wanted.abs().max() > 1e-3 and (wanted - given).norm() < 1e-5 * wanted.norm()
    assert len(_Replies.of(executor.model, chats, replies).rows.ids_SL) == 2


def test_good_replies_grow_likelier_and_what_needed_no_executor_teaches_nothing(tiny_executor):
    executor = executor_of(tiny_executor)
    rewarding = CoupledReward(executor, 0, SETTINGS)
    state = observation(made_up(0, ACTS), 1)
    chat = executor_messages(state, "turn", "compact")
    replies = ["click(start_box='(8,48)')", "finished()"]
    decisions = [Decision("turn", reply) for reply in replies] + [Decision("DONE", "")] * 2
    likely = [
        log_probability(executor.model.network, executor.model, chat, reply, 0.7).sum().item()
        for reply in replies
    ]
    assert rewarding.settings is SETTINGS
    rewarding._update([state] * 4, decisions, [2.0, 0.0, 2.0, 0.0])
    after = [
        log_probability(executor.model.network, executor.model, chat, reply, 0.7).sum().item()
        for reply in replies
    ]
    assert after[0] > likely[0] and after[1] < likely[1]
    before = {name: value.clone() for name, value in executor.model.network.named_parameters()}
    rewarding._update([state] * 2, [Decision("DONE", "")] * 2, [2.0, 0.0])
    assert all(torch.equal(value, before[name]) for name, value in executor.model.network.named_parameters())


def test_a_killed_training_goes_on_with_both_models(rows, tiny_planner, tiny_executor, tmp_path, monkeypatch):
    def train(folder: Path) -> Path:
        return specialize_coupled(
            rows, tiny_planner, executor_of(tiny_executor), SETTINGS, SAMPLING, folder, 0
        )

    whole = train(tmp_path / "whole")
    for folder, base in ((whole, tiny_planner), (whole / EXECUTOR, tiny_executor)):
        trained, before = load_network(folder, False, "cpu"), load_network(base, False, "cpu")
        assert any(
            not torch.equal(value, before.get_parameter(name)) for name, value in trained.named_parameters()
        )
        assert all(torch.equal(value, value.bfloat16().float()) for value in trained.parameters())

    usual = trainer._common
    monkeypatch.setattr(trainer, "_common", lambda *given: usual(*given) | {"save_steps": 2})
    update, calls = CoupledReward._update, []

    def killed(self, *args) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        update(self, *args)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(CoupledReward, "_update", killed)
        train(tmp_path / "killed")
    resumed = train(tmp_path / "killed")
    for name in ("model.safetensors", f"{EXECUTOR}/model.safetensors"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes()
    again = train(tmp_path / "killed")  # nothing is left to do, and nothing is lost
    assert (again / EXECUTOR / "model.safetensors").read_bytes() == (
        whole / EXECUTOR / "model.safetensors"
    ).read_bytes()
