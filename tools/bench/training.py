"""Optimizer steps of stage 1, stock TRL against shared prefixes: `make bench ARGS=--training`.

Both ways train one planner on the same rows, plans and random numbers, one after the other in this process.
What is measured is `trainer.specialize` itself.  The laptop's networks are those of its profile.  The 3B and
the 7B have random weights and screens of noise, and rewards are random numbers; without a GPU they have one
layer, some blocks of the vision tower and one group a step, which tells shapes and ratios.  Their checkpoints
are written to the temporary folder (TMPDIR).
"""

from __future__ import annotations

import copy
import gc
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from rich.console import Console
from transformers import TrainerCallback

from coda_lib.config import Profile, load_profile
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.models.chat import Sampling
from coda_lib.models.local import LocalModel
from coda_lib.trainer import SpecializeTrainer, specialize
from coda_study.cost import Network
from coda_study.estimate import network
from coda_study.evaluation.provenance import hardware, package_versions
from tools.bench.laptop import scripted_rows
from tools.bench.noise import Noise
from tools.bench.operations import Operations

SIZES = {"laptop": None, "3b": "Qwen/Qwen2.5-VL-3B-Instruct", "7b": "Qwen/Qwen2.5-VL-7B-Instruct"}
WAYS = {
    "shared prefix": True,
    "stock TRL": False,
}  # the smaller peak first: a process does not give memory back
_STEPS = 3  # measured, after one that warms up and whose operations are counted
_BLOCKS = 8  # of the vision tower without a GPU: one of them attends to the whole picture
_SIDE = 8192  # of the matrices whose product gives the peak: 128 MiB each
_PRODUCTS, _TRIES = 10, 5


@dataclass
class Moment:
    """What a phase of a step took."""

    seconds: float = 0.0
    tokens: int = 0  # read or written by a language model, padding included
    flops: int = 0  # counted by torch in the first step alone
    memory: int = 0  # peak bytes of the GPU


@dataclass(frozen=True)
class Phase:
    """A phase of a step in one way: medians over `_STEPS` steps."""

    way: str
    name: str
    seconds: float
    tokens: int
    tflops: float  # 10¹² operations
    share: float | None  # of the GPU's measured peak in 16 bits; None without a GPU
    memory_gb: float  # peak: of the GPU, or of this process so far


@dataclass(frozen=True)
class Report:
    size: str
    hardware: dict[str, Any]  # that of a manifest, and the GPU's name, memory and measured peak
    versions: dict[str, str | None]
    settings: dict[str, Any]
    phases: tuple[Phase, ...]
    loss_difference: float | None  # of the first step, absolute; None where a way does not fit into memory
    gradient_difference: float | None  # of the first step, relative to the norm
    failed: dict[str, str] = field(default_factory=dict)  # reason by way

    def seconds(self, way: str, *names: str) -> float:
        """Seconds of these phases, or of the whole step."""
        return sum(
            phase.seconds for phase in self.phases if phase.way == way and (not names or phase.name in names)
        )


def measure_training(console: Console, size: str = "laptop", profile: Profile | None = None) -> Report:
    """Measure both ways.  UserError as of `load_profile`, `estimate.network` and `trainer.specialize`."""
    name, on_gpu = SIZES[size], torch.cuda.is_available()
    profile = profile or load_profile("gpu" if name else "laptop")
    if name and not on_gpu:
        settings = profile.specialize.model_copy(
            update={"completions_per_step": profile.specialize.group_size, "at_once": None}
        )
        profile = profile.model_copy(update={"specialize": settings})
    peak = peak_flops() if on_gpu else None
    torch.set_num_threads(profile.specialize.threads if not name else torch.get_num_threads())
    with TemporaryDirectory(prefix="coda-bench-") as folder, console.status("") as status:
        rows, planner, executor, noise = _parts(profile, name, Path(folder))
        clocks, failed, plans = {}, {}, []
        for way, shared in WAYS.items():
            status.update(f"{size}: {1 + _STEPS} steps, {way}")
            executor.model.shared, clock = shared, Clock(executor.model.network)
            try:
                specialize(
                    rows, planner, executor,
                    profile.specialize.model_copy(update={"steps": 1 + _STEPS, "vllm_server": None,
                    "shared_prefix": shared}),
                    profile.planner.model_copy(
                        update={"max_new_tokens": noise.hardware.plan_tokens} if noise else {}
                    ),
                    Path(folder, way), profile.seed, kind=timed_trainer(clock, plans, noise and noise.words),
                )  # fmt: skip
                clocks[way] = clock
            except (torch.OutOfMemoryError, UserError) as error:
                if not isinstance(
                    error.__cause__ or error, torch.OutOfMemoryError
                ):  # `specialize` says what to do about it
                    raise
                failed[way] = f"does not fit: lower specialize.at_once ({error})"
            gc.collect()  # after the handler, because the error's frames hold the networks
            torch.cuda.empty_cache()
    both = len(clocks) == len(WAYS) and [clocks[way] for way in WAYS]
    gpu = torch.cuda.get_device_properties(0) if on_gpu else None
    machine = {
        "gpu": gpu and gpu.name,
        "gpu_memory_gb": gpu and gpu.total_memory / 1e9,
        "peak_tflops": peak and peak / 1e12,
    }
    keys = {"group_size", "completions_per_step", "at_once", "lora", "beta", "threads"}
    return Report(
        size,
        hardware() | machine,
        package_versions() | {"cuda": torch.version.cuda},
        profile.specialize.model_dump(include=keys) | {"planner": name or profile.models.planner},
        tuple(phase for way, clock in clocks.items() for phase in _phases(way, clock, peak)),
        abs(both[0].loss - both[1].loss) if both else None,
        ((both[0].gradient - both[1].gradient).norm() / both[1].gradient.norm()).item() if both else None,
        failed,
    )


def _parts(profile: Profile, name: str | None, folder: Path) -> tuple[Dataset, Path, Executor, Noise | None]:
    """Rows, planner and executor: those of the profile, or noise of a released size."""
    if not name:
        return scripted_rows(profile), Path(profile.models.planner), Executor.load(profile), None
    noise = Noise(profile.hardware, profile.prompts, profile.seed)
    for role, released in (("planner", name), ("executor", profile.models.executor)):
        noise.checkpoint(folder / role, _cut(network(released)))
    sampling = Sampling(profile.executor.temperature, profile.executor.top_p, profile.hardware.action_tokens)
    executor = Executor(LocalModel(folder / "executor"), sampling, profile.prompts)
    states = profile.specialize.completions_per_step // profile.specialize.group_size
    return noise.rows(executor.model.processor, states), folder / "planner", executor, noise


def _cut(whole: Network) -> Network:
    if torch.cuda.is_available():
        return whole
    config = copy.deepcopy(whole.config)
    config.text_config.num_hidden_layers, config.vision_config.depth = (
        1,
        min(_BLOCKS, config.vision_config.depth),
    )
    config.text_config.layer_types = config.text_config.layer_types[:1]
    return Network(config)


def _phases(way: str, clock: Clock, peak: float | None) -> Iterator[Phase]:
    for name, first in clock.steps[0].items():
        moments = [step[name] for step in clock.steps[1:]]
        seconds = statistics.median(moment.seconds for moment in moments)
        memory = max(moment.memory for moment in moments) if torch.cuda.is_available() else clock.memory
        share = first.flops / seconds / peak if peak else None
        tokens = int(statistics.median(moment.tokens for moment in moments))
        yield Phase(way, name, seconds, tokens, first.flops / 1e12, share, memory / 1e9)


def now() -> float:
    """Seconds on the clock once the GPU has done its work; peak memory counts from here."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    return time.perf_counter()


class Clock(TrainerCallback):
    """What each phase of each step took: every moment of a step belongs to the innermost phase under way."""

    def __init__(self, executor: torch.nn.Module):
        self.steps: list[dict[str, Moment]] = []
        self.tokens, self.operations, self.memory = 0, Operations(), 0
        self.watch(executor)

    def watch(self, model: torch.nn.Module) -> None:
        """Count the tokens that a network's language model reads and writes."""
        base = model.get_base_model() if hasattr(model, "get_base_model") else model

        def count(_: Any, arguments: Any, given: dict[str, Any]) -> None:
            self.tokens += given["inputs_embeds"].shape[:2].numel()

        base.model.language_model.register_forward_pre_hook(count, with_kwargs=True)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if not self.steps:
            self.operations.__enter__()
        self.steps.append({})
        self.phases, self.since, self.before = ["update"], now(), self._counts()

    def on_pre_optimizer_step(self, *_: Any, model: torch.nn.Module, **__: Any) -> None:
        if len(self.steps) == 1:
            slopes = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
            self.gradient = torch.cat([slope.flatten().float().cpu() for slope in slopes])

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._charge()
        if len(self.steps) == 1:
            self.operations.__exit__(None, None, None)
        unit = 1 if sys.platform == "darwin" else 1024  # bytes, or KiB
        self.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def on_log(self, *_: Any, logs: dict[str, Any], **__: Any) -> None:
        if len(self.steps) == 1 and "loss" in logs:
            self.loss = logs["loss"]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._charge()
        self.phases.append(name)
        yield
        self._charge()
        self.phases.pop()

    def _counts(self) -> tuple[int, int]:
        return self.tokens, self.operations.total

    def _charge(self) -> None:
        moment = self.steps[-1].setdefault(self.phases[-1], Moment())
        if torch.cuda.is_available():
            moment.memory = max(moment.memory, torch.cuda.max_memory_allocated())
        end, (tokens, flops) = now(), self._counts()
        moment.seconds += end - self.since
        moment.tokens += tokens - self.before[0]
        moment.flops += flops - self.before[1]
        self.since, self.before = end, (tokens, flops)


def timed_trainer(clock: Clock, plans: list[Any], words: Sequence[int] | None) -> type[SpecializeTrainer]:
    """The trainer of stage 1 with a clock around its methods; it saves nothing.

    The first way's `plans` are those of the second, too, which samples its own and drops them.  With `words`
    plans consist of these tokens, and rewards are random numbers.
    """

    def timed(name: str, phase: str) -> Callable[..., Any]:
        def method(self: SpecializeTrainer, *args: Any, **kwargs: Any) -> Any:
            with clock.phase(phase):
                return getattr(SpecializeTrainer, name)(self, *args, **kwargs)

        return method

    replayed = list(plans)

    class TimedTrainer(SpecializeTrainer):
        training_step = timed("training_step", "policy")
        _generate_and_score_completions = timed("_generate_and_score_completions", "prepare")
        save_model = _save_checkpoint = lambda self, *_: None

        def __init__(self, **arguments: Any):
            super().__init__(**arguments)
            clock.watch(self.model)
            if self.ref_model is not None:
                clock.watch(self.ref_model)
            self.add_callback(clock)

        def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple[list[list[int]], Any]:
            with clock.phase("plans"):
                sampled, log_probabilities = super()._generate_single_turn(*args, **kwargs)
            if words:
                sampled = [[words[token % len(words)] for token in plan] for plan in sampled]
            plans.append(replayed[len(plans) - len(replayed)] if replayed else sampled)
            return plans[-1], log_probabilities

        def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            with clock.phase("actions"):
                rewards = super()._calculate_rewards(*args, **kwargs)
            draw = torch.Generator().manual_seed(len(clock.steps))
            return torch.rand(rewards.shape, generator=draw).to(rewards) if words else rewards

        def _get_per_token_logps_and_entropies(
            self, *args: Any, **kwargs: Any
        ) -> tuple[torch.Tensor | None, ...]:
            with clock.phase("policy" if torch.is_grad_enabled() else "reference"):
                return super()._get_per_token_logps_and_entropies(*args, **kwargs)

    return TimedTrainer


def peak_flops() -> float:
    """Operations per second of products of large 16-bit matrices, the best of some tries: the peak that a
    program can reach.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    left, right = (torch.randn(_SIDE, _SIDE, dtype=torch.bfloat16, device=device) for _ in range(2))
    out, seconds = torch.empty_like(left), []
    for _ in range(1 + _TRIES):  # the first warms up
        start = now()
        for _ in range(_PRODUCTS):
            torch.mm(left, right, out=out)
        seconds.append(now() - start)
    return _PRODUCTS * 2 * _SIDE**3 / min(seconds[1:])
