"""The two training stages on TRL: `specialize` (decoupled GRPO, stage 1) and `generalize` (SFT, stage 2).

Departures from the paper: values that it does not publish (G, learning rate, β, ε, batch, steps) come from the profile; the
group's standard deviation is TRL's (sample deviation plus 1e-4).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from PIL import Image
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from coda_lib.action import parse_actions
from coda_lib.agent import carry_out
from coda_lib.config import GeneralizeSettings, SamplingSettings, SpecializeSettings
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.model import load_network, load_processor
from coda_lib.planner import Observation, PlanError, Turn, parse_plan
from coda_lib.reward import reward


class ActionReward:
    """Reward of sampled plans: what the frozen executor makes of each, against the labelled action (eq. 1).

    `distance=False` leaves r_dist out (an ablation).  Called by TRL with lists of one length; returns rewards in [0, 2].
    """

    __name__ = "action_reward"  # TRL logs rewards/<name>

    def __init__(self, executor: Executor, seed: int, distance: bool = True):
        self.executor, self.seed, self.distance, self._calls = executor, seed, distance, 0

    def __call__(
        self, completions: Sequence[Any], images: Sequence[Sequence[Image.Image]], target: Sequence[str],
        instruction: Sequence[str], turns: Sequence[Sequence[dict[str, str]]], **_: Any,
    ) -> list[float]:  # fmt: skip
        states = [
            Observation(text, tuple(Turn(**turn) for turn in past), *pictures)
            for text, past, pictures in zip(instruction, turns, images, strict=True)
        ]
        plans = [_plan_of(completion) for completion in completions]
        self._calls += 1
        decisions = carry_out(self.executor, states, plans, self.seed + self._calls)
        return [
            reward(decision.actions, parse_actions(label, state.current.size), distance=self.distance)
            for decision, label, state in zip(decisions, target, states, strict=True)
        ]


def _plan_of(completion: Any) -> str:
    """The plan of a completion as TRL hands it over; empty if there is none (the executor then does nothing)."""
    content = completion if isinstance(completion, str) else completion[0]["content"]
    content = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    try:
        return parse_plan(content)
    except PlanError:
        return ""


class MetricsLog(TrainerCallback):
    """Appends what the trainer logs to metrics.jsonl, one JSON object a step; a resumed run goes on where it was."""

    def __init__(self, path: Path):
        self.path = path

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        kept = [line for line in self._lines() if json.loads(line)["step"] <= state.global_step and state.global_step]
        self.path.write_text("".join(kept))

    def on_log(self, args, state, control, logs=None, **kwargs) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"step": state.global_step} | {k: v for k, v in logs.items() if k != "step"}) + "\n")

    def _lines(self) -> list[str]:
        return self.path.read_text().splitlines(keepends=True) if self.path.exists() else []


def specialize(
    rows: Dataset,
    planner: str | Path,
    executor: Executor,
    settings: SpecializeSettings,
    sampling: SamplingSettings,
    folder: Path,
    seed: int,
    distance: bool = True,
) -> Path:
    """Stage 1: train a specialist planner with decoupled GRPO (eq. 1-3); returns `folder`, which then holds its checkpoint.

    `planner` is any Qwen2.5-VL checkpoint; only it is trained.  Resumes from `folder`/checkpoints after a kill.
    UserError if there is not a single row to learn from.
    """
    _need(rows, "specialize")
    arguments = GRPOConfig(
        loss_type="grpo",  # eq. 3: mean over a plan's tokens, then over plans
        scale_rewards="group",  # eq. 2
        beta=settings.beta,
        epsilon=settings.epsilon,
        num_generations=settings.group_size,
        per_device_train_batch_size=settings.completions_per_step,
        max_completion_length=sampling.max_new_tokens,
        temperature=sampling.temperature,
        model_init_kwargs={"dtype": _dtype()},
        use_vllm=False,
        **_common(settings, folder, seed),
    )
    trainer = GRPOTrainer(
        model=str(planner),
        processing_class=load_processor(planner),
        reward_funcs=ActionReward(executor, seed, distance),
        args=arguments,
        train_dataset=rows,
        callbacks=[MetricsLog(folder / "metrics.jsonl")],
    )
    return _train(trainer, folder)


def generalize(rows: Dataset, planner: str | Path, settings: GeneralizeSettings, folder: Path, seed: int) -> Path:
    """Stage 2: fine-tune a fresh base planner on the specialists' positive steps; returns `folder` with its checkpoint."""
    _need(rows, "generalize")
    arguments = SFTConfig(
        per_device_train_batch_size=settings.batch_size,
        num_train_epochs=settings.epochs or 1,
        completion_only_loss=True,
        max_length=None,  # a cut would take image places away from their pictures
        **_common(settings, folder, seed),
    )
    trainer = SFTTrainer(
        model=load_network(planner, trainable=True, device="cuda" if torch.cuda.is_available() else "cpu"),
        processing_class=load_processor(planner),
        args=arguments,
        train_dataset=rows,
        callbacks=[MetricsLog(folder / "metrics.jsonl")],
    )
    return _train(trainer, folder)


def _common(settings: SpecializeSettings | GeneralizeSettings, folder: Path, seed: int) -> dict[str, Any]:
    steps = settings.steps or -1
    return {
        "output_dir": str(folder / "checkpoints"), "max_steps": steps, "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "constant", "seed": seed, "logging_steps": 1, "save_steps": max(10, steps // 4),
        "save_total_limit": 1, "bf16": torch.cuda.is_available(), "gradient_checkpointing": torch.cuda.is_available(),
        "report_to": "none", "disable_tqdm": True, "dataloader_pin_memory": False,
    }  # fmt: skip


def _dtype() -> str:
    return "bfloat16" if torch.cuda.is_available() else "float32"


def _need(rows: Dataset, stage: str) -> None:
    if not len(rows):
        raise UserError(f"{stage}: no positive step to learn from: the judge called no trajectory clean; explore more tasks")


def _train(trainer: GRPOTrainer | SFTTrainer, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    checkpoints = Path(trainer.args.output_dir)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(checkpoints) if checkpoints.is_dir() else None)
    trainer.save_model(str(folder))
    return folder
