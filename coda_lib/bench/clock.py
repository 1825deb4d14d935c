"""A clock around the methods of the trainer of stage 1."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import TrainerCallback

from coda_lib.trainer import SpecializeTrainer


def now() -> float:
    """Seconds on the clock once the GPU has done its work; peak memory counts from here."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    return time.perf_counter()


class Clock(TrainerCallback):
    """Seconds and peak bytes of each phase of each step: every moment of a step belongs to the innermost phase under way."""

    def __init__(self):
        self.steps: list[dict[str, tuple[float, int]]] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.steps.append({})
        self.phases, self.since = ["update"], now()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._charge()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._charge()
        self.phases.append(name)
        yield
        self._charge()
        self.phases.pop()

    def _charge(self) -> None:
        memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        seconds, most = self.steps[-1].get(self.phases[-1], (0.0, 0))
        end = now()
        self.steps[-1][self.phases[-1]] = seconds + end - self.since, max(most, memory)
        self.since = end


def timed_trainer(clock: Clock, words: Sequence[int]) -> type[SpecializeTrainer]:
    """The trainer of stage 1 with a clock around its methods.  Its plans consist of `words`, and it saves nothing."""

    def timed(name: str, phase: str) -> Callable[..., Any]:
        def method(self: SpecializeTrainer, *args: Any, **kwargs: Any) -> Any:
            with clock.phase(phase):
                return getattr(SpecializeTrainer, name)(self, *args, **kwargs)

        return method

    class TimedTrainer(SpecializeTrainer):
        training_step = timed("training_step", "policy")
        _generate_and_score_completions = timed("_generate_and_score_completions", "plans")
        _calculate_rewards = timed("_calculate_rewards", "actions")
        save_model = _save_checkpoint = lambda self, *_: None

        def __init__(self, **arguments: Any):
            super().__init__(**arguments)
            self.add_callback(clock)

        def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple[list[list[int]], Any]:
            plans, log_probabilities = super()._generate_single_turn(*args, **kwargs)  # a random token can stand for a picture
            return [[words[token % len(words)] for token in plan] for plan in plans], log_probabilities

        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor | None, ...]:
            with clock.phase("policy" if torch.is_grad_enabled() else "reference"):
                return super()._get_per_token_logps_and_entropies(*args, **kwargs)

    return TimedTrainer
