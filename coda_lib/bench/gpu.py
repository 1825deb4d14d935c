"""A step of decoupled GRPO (`bench_step`) measured on this machine's GPU, phase by phase: `coda bench --gpu`.

Operations are those of `cost`, with what is computed again and what the adapters add: their share of the peak is what the GPU was
busy with, not what the training gained.  Attention counts as over all pairs of tokens, although kernels may skip the masked half.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console

from coda_lib.bench.estimate import network
from coda_lib.bench.gpu_step import HALF, Step
from coda_lib.config import Profile, load_profile
from coda_lib.errors import UserError
from coda_lib.evaluation.provenance import hardware, package_versions

MODELS = ("Qwen/Qwen2.5-VL-3B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct")
_STEPS = 3  # measured, after one that warms up
_SIDE = 8192  # of the matrices whose product gives the peak: 128 MiB each
_PRODUCTS, _TRIES = 10, 5


@dataclass(frozen=True)
class Phase:
    """What a phase of a step took; medians of `_STEPS` steps, the memory the most of them."""

    model: str
    name: str
    seconds: float
    read: int  # tokens
    written: int  # tokens
    flops: float
    share: float  # of the measured peak
    memory_gb: float | None  # at most, all networks included; None without a GPU

    @property
    def tokens_s(self) -> float:
        """Tokens a second: those that are written, or where none are those that are read."""
        return (self.written or self.read) / self.seconds


@dataclass(frozen=True)
class Report:
    hardware: dict[str, Any]  # that of a manifest, and name, memory and measured peak of the GPU
    versions: dict[str, str | None]
    settings: dict[str, Any]
    phases: tuple[Phase, ...]
    failed: dict[str, str]  # why, by model

    def together(self, model: str) -> Phase:
        """The phases of a model's step as one; the tokens are not added up, for a prompt is read in several phases."""
        phases = [phase for phase in self.phases if phase.model == model]
        seconds, flops = sum(phase.seconds for phase in phases), sum(phase.flops for phase in phases)
        share = sum(phase.share * phase.seconds for phase in phases) / seconds
        memory = max((phase.memory_gb for phase in phases if phase.memory_gb is not None), default=None)
        return Phase(model, "together", seconds, 0, 0, flops, share, memory)


def measure_gpu(console: Console, models: Sequence[str] = MODELS) -> Report:
    """A step of each of these planners, with the settings of profile gpu.

    UserError without a GPU, as of `plan.network`, and where adapters need peft.
    """
    if not torch.cuda.is_available():
        raise UserError(
            "coda bench --gpu measures a GPU, and torch finds none here: run it where `nvidia-smi` lists one and torch was built "
            "for it; `coda estimate gpu` needs none"
        )
    return measure(console, models, load_profile("gpu"), torch.device("cuda"))


def measure(console: Console, models: Sequence[str], profile: Profile, device: torch.device) -> Report:
    """As `measure_gpu`, on any device.  A planner that does not fit in its memory is said to, and the next one is measured."""
    planners, executor = {name: network(name) for name in models}, network(profile.models.executor)
    peak, phases, failed = peak_flops(device), [], {}
    with console.status("") as status:
        for name, planner in planners.items():
            status.update(f"a step of {name}: {1 + _STEPS} times")
            try:
                phases += _measured(name, Step(planner, executor, profile, device), peak)
            except torch.OutOfMemoryError as error:
                failed[name] = f"does not fit: lower specialize.at_once in profiles/gpu.yaml, or name a smaller --model ({error})"
            gc.collect()  # after the error, whose frames hold the networks
            torch.cuda.empty_cache()
    told = profile.specialize.model_dump(include={"group_size", "at_once", "lora", "beta", "epsilon"})
    read = profile.hardware.model_dump(include={"screen", "pixels", "prompt_tokens", "plan_tokens", "action_tokens"})
    settings = {"executor": profile.models.executor} | told | read
    machine = hardware() | _gpu(device) | {"peak_tflops": peak / 1e12}
    return Report(machine, package_versions() | {"cuda": torch.version.cuda}, settings, tuple(phases), failed)


def _measured(name: str, step: Step, peak: float) -> list[Phase]:
    taken = [{phase: _timed(work, step.device) for phase, work in step.phases.items()} for _ in range(1 + _STEPS)][1:]
    found = []
    for phase, (read, written, flops) in step.loads().items():
        seconds = statistics.median(one[phase][0] for one in taken)
        memory = max((one[phase][1] for one in taken if one[phase][1] is not None), default=None)
        found.append(Phase(name, phase, seconds, read, written, flops, flops / seconds / peak, memory))
    return found


def peak_flops(device: torch.device) -> float:
    """Operations a second of products of large matrices of 16 bits, the best of some tries: the peak that a program can reach."""
    left, right = (torch.randn(_SIDE, _SIDE, dtype=HALF, device=device) for _ in range(2))
    out = torch.empty_like(left)

    def multiply() -> None:
        for _ in range(_PRODUCTS):
            torch.mm(left, right, out=out)

    seconds = min([_timed(multiply, device)[0] for _ in range(1 + _TRIES)][1:])
    return _PRODUCTS * 2 * _SIDE**3 / seconds


def _timed(work: Callable[[], None], device: torch.device) -> tuple[float, float | None]:
    """Seconds until all of it is done, and the most GB that were taken meanwhile."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    start = time.perf_counter()
    work()
    if on_gpu:
        torch.cuda.synchronize(device)
    return time.perf_counter() - start, torch.cuda.max_memory_allocated(device) / 1e9 if on_gpu else None


def _gpu(device: torch.device) -> dict[str, Any]:
    if device.type != "cuda":
        return {"gpu": None, "gpu_memory_gb": None}
    found = torch.cuda.get_device_properties(device)
    return {"gpu": found.name, "gpu_memory_gb": found.total_memory / 1e9}
