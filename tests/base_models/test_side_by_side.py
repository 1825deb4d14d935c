"""Processes that learn side by side step on the mean of their gradients, and one of them writes."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path
from random import Random

import pytest
import torch
from torch import Tensor, nn

from base_models import seeing
from base_models.seeing import train
from base_models.side_by_side import number, side_by_side, wait

SEED, STEPS = 5, 4


def rows(rng: Random) -> Tensor:
    return torch.tensor([[rng.gauss(0, 1) for _ in range(5)] for _ in range(3)])


def learn(folder: Path, draw, steps: int = STEPS) -> None:
    torch.manual_seed(0)
    network = nn.Linear(4, 1)

    def loss_of(batches: list[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        told = ((network(batch[:, :4].to(network.weight.dtype)).float(), batch[:, 4:]) for batch in batches)
        loss = sum((said - right).pow(2).mean() for said, right in told) / len(batches)
        return loss, {"loss": loss}

    train(folder, "line", network, draw, loss_of, dict, steps, 5.0, SEED)
    torch.save(network.weight.float(), folder / f"{number()}.weights")
    wait()


def one(rng: Random) -> list[Tensor]:
    return [rows(rng)]


def weights(folder: Path, rank: int = 0) -> Tensor:
    return torch.load(folder / f"{rank}.weights")


def test_two_processes_learn_from_both_their_batches(tmp_path):
    together, alone, pair = (tmp_path / name for name in ("together", "alone", "pair"))
    for folder in (together, alone, pair):
        folder.mkdir()
    with side_by_side(2, learn, together, one):
        learn(together, one)
    numbers = count(1)

    def both(_: Random) -> list[Tensor]:
        step = next(numbers)
        return [rows(Random(f"{SEED} {step}")), rows(Random(f"{SEED}/1 {step}"))]

    learn(pair, both)
    learn(alone, one)
    assert torch.equal(weights(together), weights(together, 1))
    assert torch.allclose(weights(together), weights(pair), atol=0.02)
    assert not torch.allclose(weights(together), weights(alone), atol=0.05)
    logged = [json.loads(line) for line in (together / "line.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in logged] == [STEPS]  # one of them writes


def learn_until(folder: Path, end: int) -> None:
    """Learn with a state kept every second step; step `end` breaks off."""
    seeing.EVERY = 2
    numbers = count(end)

    def draw(rng: Random) -> list[Tensor]:
        if next(numbers) == STEPS + 1:
            raise InterruptedError
        return one(rng)

    learn(folder, draw)


def test_what_was_broken_off_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(seeing, "EVERY", 2)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
    with side_by_side(2, learn_until, whole, -STEPS):
        learn_until(whole, -STEPS)
    with pytest.raises((InterruptedError, RuntimeError)), side_by_side(2, learn_until, broken, 2):
        learn_until(broken, 2)  # in the fourth step, after the second was kept
    assert not (broken / "0.weights").exists() and (broken / "line.pt").exists()
    with side_by_side(2, learn_until, broken, -STEPS):
        learn_until(broken, -STEPS)
    for rank in (0, 1):
        assert torch.equal(weights(whole), weights(broken, rank))


def fail(_: Path) -> None:
    os._exit(3)


def test_where_one_of_them_ends_the_others_do(tmp_path):
    with pytest.raises(RuntimeError), side_by_side(2, fail, tmp_path):
        learn(tmp_path, one)
