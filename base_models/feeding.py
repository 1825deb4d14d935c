"""Batches for training, each drawn from its own number, and brought to where the network is.

On a GPU other processes draw ahead, and a step takes more pictures and texts at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

import torch
from PySide6.QtWidgets import QApplication
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
MANY = 8 if ON_GPU else 1  # times as many pictures and texts a step, which take a GPU no longer
WORKERS = len(os.sched_getaffinity(0)) - 1 if ON_GPU else 0  # processes that draw
Draw = Callable[[Random], Any]  # a batch


class _Drawn(Dataset):
    def __init__(self, draw: Draw, seed: int | str):
        self.draw, self.seed = draw, seed

    def __getitem__(self, step: int) -> Any:
        return self.draw(Random(f"{self.seed} {step}"))


def batches(draw: Draw, seed: int | str, steps: range) -> Iterator[Any]:
    """The batches of these steps, whatever came before: what was interrupted goes on with the same.

    Where Qt has drawn in this process it draws them all: one that is forked from it would stand still (seen
    with Qt 6.9).
    """
    workers = 0 if QApplication.instance() else WORKERS
    how = {"multiprocessing_context": "fork"} if workers else {}
    yield from DataLoader(
        _Drawn(draw, seed), None, sampler=steps, num_workers=workers, collate_fn=_as_it_is, **how
    )


def _as_it_is(batch: Any) -> Any:
    return batch


def near(network: nn.Module, batch: Any) -> Any:
    """The batch with all its tensors where the network is."""
    return _moved(batch, next(network.parameters()).device)


def _moved(part: Any, device: torch.device) -> Any:
    if isinstance(part, Tensor):
        return part.to(device, non_blocking=True)
    if isinstance(part, list | tuple):
        return type(part)(_moved(one, device) for one in part)
    if is_dataclass(part):
        return replace(part, **{f.name: _moved(getattr(part, f.name), device) for f in fields(part)})
    return part
