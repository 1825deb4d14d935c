"""Counts the operations of training steps."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, mm_flop


class Operations(TorchDispatchMode):
    """Counts the operations of what runs within it, by torch's formulas.

    `FlopCounterMode` also tells them apart by module, and its hooks keep the activations of every
    checkpointed pass: training steps of the 3B and the 7B did not fit into 80 GB (measured).
    """

    # torch's own formula takes for the result's shape its type, which TRL's kernels name on a GPU
    formulas = flop_registry | {
        torch.ops.aten.addmm: lambda _, left, right, *__, **___: mm_flop(left.shape, right.shape)
    }

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(
        self, operation: Any, _: Any, given: tuple = (), named: dict[str, Any] | None = None
    ) -> Any:
        named = named or {}
        if formula := self.formulas.get(operation.overloadpacket):
            result = operation(*given, **named)
            self.total += formula(*given, **named, out_val=result)
            return result
        with self:  # one that torch composes of others, as in inference mode
            parts = operation.decompose(*given, **named)
        return operation(*given, **named) if parts is NotImplemented else parts
