"""A step of `trainer.specialize` measured phase by phase on this machine's GPU: `coda bench --gpu`.

Planner and executor have the sizes of released models and random weights; screens are noise, and plans are random words.  The
executor runs in the same process, where profile gpu has it served by vLLM.  Its replies are noise, too, and earn no reward.
Operations are those of `cost`, with recomputed layers and adapters: their share of the peak is the load of the GPU.
The checkpoints are written to the temporary folder (TMPDIR): 24 GB for the 3B, 33 GB for the 7B with a 7B executor.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rich.console import Console

from coda_lib.bench.clock import Clock, now, timed_trainer
from coda_lib.bench.cost import Network
from coda_lib.bench.estimate import Request, action_request, network, plan_request
from coda_lib.bench.noise import Noise, prompt_tokens
from coda_lib.config import Profile, load_profile
from coda_lib.errors import UserError
from coda_lib.evaluation.provenance import hardware, package_versions
from coda_lib.executor import Executor, executor_messages
from coda_lib.models.chat import Sampling
from coda_lib.models.local import LocalModel
from coda_lib.trainer import specialize

MODELS = ("Qwen/Qwen2.5-VL-3B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct")
_STEPS = 3  # measured, after one that warms up
_SIDE = 8192  # of the matrices whose product gives the peak: 128 MiB each
_PRODUCTS, _TRIES = 10, 5


@dataclass(frozen=True)
class Phase:
    """A phase of a step: median time and largest memory over `_STEPS` steps."""

    model: str
    name: str
    seconds: float
    read: int  # tokens
    written: int  # tokens
    flops: float
    share: float  # of the measured peak
    memory_gb: float | None  # peak, with all networks; None without a GPU

    @property
    def tokens_s(self) -> float:
        """Tokens per second: those written, or those read where none are written."""
        return (self.written or self.read) / self.seconds


@dataclass(frozen=True)
class Report:
    hardware: dict[str, Any]  # that of a manifest, and name, memory and measured peak of the GPU
    versions: dict[str, str | None]
    settings: dict[str, Any]
    phases: tuple[Phase, ...]
    failed: dict[str, str]  # reason by model

    def together(self, model: str) -> Phase:
        """The whole step of a model; tokens are not added up, because several phases read the same prompt."""
        phases = [phase for phase in self.phases if phase.model == model]
        seconds, flops = sum(phase.seconds for phase in phases), sum(phase.flops for phase in phases)
        share = sum(phase.share * phase.seconds for phase in phases) / seconds
        memory = max((phase.memory_gb for phase in phases if phase.memory_gb is not None), default=None)
        return Phase(model, "together", seconds, 0, 0, flops, share, memory)


def measure_gpu(console: Console, models: Sequence[str] = MODELS) -> Report:
    """Measure a step with each planner and the settings of profile gpu.  UserError without a GPU, and as of `measure`."""
    if not torch.cuda.is_available():
        raise UserError(
            "coda bench --gpu measures a GPU, and torch finds none here: run it where `nvidia-smi` lists one and torch was built "
            "for it; `coda estimate gpu` needs none"
        )
    return measure(console, models, load_profile("gpu"))


def measure(console: Console, models: Sequence[str], profile: Profile) -> Report:
    """As `measure_gpu`, on any device; a planner that does not fit into memory is reported as failed.

    UserError as of `estimate.network` and `trainer.specialize`.
    """
    planners, executor = {name: network(name) for name in models}, network(profile.models.executor)
    peak, phases, failed = peak_flops(), [], {}
    with console.status("") as status:
        for name, planner in planners.items():
            status.update(f"a step of {name}: {1 + _STEPS} times")
            try:
                phases += _measured(name, planner, executor, profile, peak)
            except torch.OutOfMemoryError as error:
                failed[name] = f"does not fit: lower specialize.at_once in profiles/gpu.yaml, or name a smaller --model ({error})"
            gc.collect()  # after the handler, because the error's frames hold the networks
            torch.cuda.empty_cache()
    training = profile.specialize.model_dump(include={"group_size", "completions_per_step", "at_once", "lora", "beta", "epsilon"})
    lengths = profile.hardware.model_dump(include={"screen", "pixels", "prompt_tokens", "plan_tokens", "action_tokens"})
    settings = {"executor": profile.models.executor} | training | lengths
    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    machine = hardware() | {"gpu": gpu and gpu.name, "gpu_memory_gb": gpu and gpu.total_memory / 1e9, "peak_tflops": peak / 1e12}
    return Report(machine, package_versions() | {"cuda": torch.version.cuda}, settings, tuple(phases), failed)


def _measured(name: str, planner: Network, executor: Network, profile: Profile, peak: float) -> list[Phase]:
    h, count, clock = profile.hardware, profile.specialize.completions_per_step, Clock()
    plans, actions, noise = plan_request(planner, h), action_request(executor, h), Noise(h, profile.prompts, profile.seed)
    with TemporaryDirectory(prefix="coda-bench-") as folder:
        paths = {role: Path(folder, role) for role in ("planner", "executor", "specialist")}
        state = noise.state(noise.checkpoint(paths["planner"], planner), plans.prompt)
        noise.checkpoint(paths["executor"], executor)
        sampling = Sampling(profile.executor.temperature, profile.executor.top_p, h.action_tokens)
        acting = Executor(LocalModel(paths["executor"]), sampling, profile.prompts)
        words = prompt_tokens(acting.model.processor, executor_messages(state, noise.text(h.plan_tokens), profile.prompts))
        actions = replace(actions, words=actions.words + words - actions.prompt)
        specialize(
            noise.rows(state), paths["planner"], acting,
            profile.specialize.model_copy(update={"steps": 1 + _STEPS, "vllm_server": None}),
            profile.planner.model_copy(update={"max_new_tokens": h.plan_tokens}), paths["specialist"], profile.seed,
            kind=timed_trainer(clock, noise.words),
        )  # fmt: skip
    adapters = planner.adapter_parameters(profile.specialize.lora) if profile.specialize.lora else 0
    loads = {phase: load for phase, load in _loads(plans, actions, adapters).items() if phase in clock.steps[0]}
    return [_phase(name, phase, [step[phase] for step in clock.steps[1:]], count, load, peak) for phase, load in loads.items()]


def _phase(
    model: str, name: str, taken: Sequence[tuple[float, int]], count: int, load: tuple[int, int, float], peak: float
) -> Phase:
    read, written, flops = (count * each for each in load)
    seconds = statistics.median(seconds for seconds, _ in taken)
    memory = max(memory for _, memory in taken) / 1e9 if torch.cuda.is_available() else None
    return Phase(model, name, seconds, read, written, flops, flops / seconds / peak, memory)


def _loads(plans: Request, actions: Request, adapters: int) -> dict[str, tuple[int, int, float]]:
    """Tokens read, tokens written and operations of each phase for one plan; `adapters` is their number of parameters."""
    tokens, recomputed = plans.prompt + plans.reply, int(torch.cuda.is_available())  # gradient checkpointing on a GPU alone
    adapting = 2 * adapters * tokens  # operations of the adapters in a forward pass
    passes = (2 if adapters else 3) + recomputed  # forward and backward, which is worth two where all weights are trained
    return {
        "plans": (plans.prompt, plans.reply, plans.flops + adapting),
        "actions": (actions.prompt, actions.reply, actions.flops),
        "reference": (tokens, 0, plans.pass_flops()),
        "policy": (tokens, 0, plans.pass_flops(passes) + (3 + recomputed) * adapting),
        "update": (0, 0, 0.0),  # next to none
    }


def peak_flops() -> float:
    """Operations per second of products of large 16-bit matrices, the best of some tries: the peak that a program can reach."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    left, right = (torch.randn(_SIDE, _SIDE, dtype=torch.bfloat16, device=device) for _ in range(2))
    out, seconds = torch.empty_like(left), []
    for _ in range(1 + _TRIES):  # the first warms up
        start = now()
        for _ in range(_PRODUCTS):
            torch.mm(left, right, out=out)
        seconds.append(now() - start)
    return _PRODUCTS * 2 * _SIDE**3 / min(seconds[1:])
