"""One process of a training whose plans are made up, so that one process and several have the same ones; see test_train.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tiny_models import hashed_click, made_up
from trl import GRPOTrainer

from coda_lib.action import Action
from coda_lib.config import SamplingSettings, SpecializeSettings
from coda_lib.dataset import grpo_rows
from coda_lib.executor import Executor
from coda_lib.model import ReplayModel, Sampling
from coda_lib.trainer import specialize, together

ACTS = (("Click 'Grid'.", Action.click(0.25, 0.5)), ("Click 'Axes'.", Action.click(0.75, 0.75)), ("DONE", Action.done()))


def made_up_plans(trainer: GRPOTrainer, prompts: list[Any], *args: Any, **kwargs: Any) -> tuple[list[list[int]], None]:
    """Plans that follow from their place among those of all processes."""
    end, first = trainer._tokenizer.eos_token_id, together().process_index * len(prompts)
    places = range(first, first + len(prompts))
    return [[*(40 + (7 * place + 3 * i) % 200 for i in range(1 + place % 5)), end] for place in places], None


def main(planner: str, folder: str, steps: int, at_once: int) -> None:
    GRPOTrainer._generate_single_turn = made_up_plans
    Path(folder).mkdir(exist_ok=True)
    Path(folder, f"{together().process_index} of {together().num_processes}").touch()
    rows = grpo_rows([made_up(0, ACTS), made_up(1, ACTS, instruction="turn the grid and the axes on, and then off")], "compact")
    settings = SpecializeSettings(
        group_size=4, completions_per_step=16, steps=steps, learning_rate=1e-3, beta=0.3, epsilon=0.2, at_once=at_once
    )
    sampling = SamplingSettings(temperature=1.0, top_p=1.0, max_new_tokens=6)
    executor = Executor(ReplayModel(hashed_click), Sampling(temperature=0))
    specialize(rows, planner, executor, settings, sampling, Path(folder), 7)


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(json.loads, sys.argv[3:]))
