"""Batches of a training: the same ones from a kill on and from any number of processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from random import Random

import pytest
import torch
from torch import Tensor, nn

from base_models import feeding
from base_models.feeding import batches, near


def draw(rng: Random) -> list[float]:
    return [rng.random() for _ in range(3)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_is_drawn_from_its_own_number(workers, monkeypatch):
    whole = [*batches(draw, 7, range(6))]
    monkeypatch.setattr(feeding, "WORKERS", workers)
    monkeypatch.setattr(feeding.QApplication, "instance", lambda: None)
    assert [*batches(draw, 7, range(4, 6))] == whole[4:]
    assert [*batches(draw, 7, range(6))] == whole and len({*map(tuple, whole)}) == 6
    assert [*batches(draw, 8, range(6))] != whole


@pytest.mark.parametrize("drawn", [False, True])
def test_other_processes_draw_unless_qt_has_drawn_in_this_one(drawn, monkeypatch):
    monkeypatch.setattr(feeding, "WORKERS", 2)
    monkeypatch.setattr(feeding.QApplication, "instance", lambda: drawn or None)
    processes = {*batches(lambda _: os.getpid(), 7, range(8))}
    assert processes == {os.getpid()} if drawn else len(processes) == 2 and os.getpid() not in processes


@dataclass(frozen=True)
class Batch:
    ids: Tensor
    parts: tuple[Tensor, ...]
    name: str
    none: None = None


def test_a_batch_is_brought_to_where_the_network_is():
    with torch.device("meta"):  # as good as a GPU here
        network = nn.Linear(2, 2)
    moved = near(network, [Batch(torch.ones(2), (torch.zeros(1),), "x")])
    assert moved[0].ids.is_meta and moved[0].parts[0].is_meta
    assert (moved[0].name, moved[0].none) == ("x", None)
