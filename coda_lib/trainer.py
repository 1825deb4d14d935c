"""The two training stages on TRL: `specialize` (decoupled GRPO, stage 1) and `generalize` (SFT, stage 2).

Departures from the paper: values that it does not publish (G, learning rate, β, ε, batch, steps) come from
the profile; the group's standard deviation is TRL's (sample deviation plus 1e-4).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import torch
from accelerate import PartialState
from datasets import Dataset
from PIL import Image
from transformers import PrinterCallback, TrainerCallback, TrainerState
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_utils import align_special_tokens
from transformers.utils import logging
from trl import GRPOConfig, SFTConfig, SFTTrainer

from coda_lib.agent import Decision, carry_out
from coda_lib.config import GeneralizeSettings, SamplingSettings, SpecializeSettings, TrainingSettings
from coda_lib.dataset import draw_states
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.files import write_text
from coda_lib.grammar import parse_actions
from coda_lib.models.bounded import uses_proxies
from coda_lib.models.local import Features, load_network, load_processor
from coda_lib.models.shared_prefix_trainer import SharedPrefixTrainer, unwrapped
from coda_lib.planner import Observation, Turn, read_plan
from coda_lib.reward import RIGHT, reward

if TYPE_CHECKING:
    from peft import PeftConfig

Progress = Callable[[int, int], None]  # (optimizer steps done, steps in all)
# One of several processes without a GPU loads checkpoints to "cpu:0", a name that torch.load does not know by
# itself.
torch.serialization.register_package(
    5, lambda _: None, lambda storage, place: storage if place.startswith("cpu:") else None
)
_APART = 1_000_003  # between the random numbers of two processes


class ActionReward:
    """Reward of sampled plans: the executor's action for each, against the labelled action (eq. 1).

    `distance=False` leaves r_dist out (an ablation), `settings.reach` is its scale (`coda_lib.reward`).
    Called by TRL with lists of one length; returns rewards in [0, 2].  The share of groups without a right
    plan is logged; with `settings.gate` the plans of such a group all earn their mean, and it teaches
    nothing.  UserError for a gate in a process that holds a part of a group.
    """

    __name__ = "action_reward"  # TRL logs rewards/<name>

    def __init__(self, executor: Executor, seed: int, settings: SpecializeSettings, distance: bool = True):
        self.executor, self.seed, self.settings, self.distance = executor, seed, settings, distance

    def __call__(self, *args: Any, **kwargs: Any) -> list[float]:
        return self.carry_out(*args, **kwargs)[2]

    def carry_out(
        self, completions: Sequence[Any], images: Sequence[Sequence[Image.Image]], target: Sequence[str],
        instruction: Sequence[str], turns: Sequence[Sequence[dict[str, str]]], trainer_state: TrainerState,
        log_metric: Callable[[str, float], None] = lambda name, value: None, **_: Any,
    ) -> tuple[list[Observation], list[Decision], list[float]]:  # fmt: skip
        """State, decision and reward of each plan."""
        reach, group = self.settings.reach, self.settings.group_size
        states = [
            Observation(text, tuple(Turn(**turn) for turn in past), *pictures)
            for text, past, pictures in zip(instruction, turns, images, strict=True)
        ]
        plans = [read_plan(_text_of(completion)) for completion in completions]
        seed = self.seed + 1 + trainer_state.global_step + _APART * together().process_index
        decisions = carry_out(self.executor, states, plans, seed)
        earned = [
            reward(decision.actions, parse_actions(label, state.current.size), reach, self.distance)
            for decision, label, state in zip(decisions, target, states, strict=True)
        ]
        if len(earned) % group:  # one of several processes holds a part of a group
            if self.settings.gate:
                raise UserError("specialize.gate needs whole groups in each process: take fewer processes")
            return states, decisions, earned
        earned_P_G = np.reshape(earned, (-1, group))
        wrong_P = earned_P_G.max(axis=1) < (RIGHT if self.distance else 1)
        log_metric("frac_without_right", float(wrong_P.mean()))
        if self.settings.gate:
            earned_P_G[wrong_P] = earned_P_G[wrong_P].mean(axis=1, keepdims=True)
        return states, decisions, earned_P_G.ravel().tolist()


def _text_of(completion: Any) -> str:
    """The text of a completion of TRL: a text, or a conversation of one message of text or parts."""
    content = completion if isinstance(completion, str) else completion[0]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def specialize(
    rows: Dataset, planner: str | Path, executor: Executor, settings: SpecializeSettings,
    sampling: SamplingSettings,
    folder: Path, seed: int, distance: bool = True, rewarding: ActionReward | None = None,
    kind: type[SpecializeTrainer] | None = None, progress: Progress = lambda done, total: None,
) -> Path:  # fmt: skip
    """Stage 1: train a specialist planner with decoupled GRPO (eq. 1-3) into `folder`, which it returns.

    `rows` are those of `dataset.grpo_rows`.  `planner` is any Qwen2.5-VL checkpoint; only it is trained.
    Resumes from `folder`/checkpoints after a kill.  `rewarding` and `kind` are for the ablation that trains
    the executor as well (`stages.coupled`).  UserError without a row, and if the vLLM server that writes the
    plans cannot be used.

    >>> from tempfile import mkdtemp
    >>> from coda_lib.config import load_profile
    >>> from coda_lib.dataset import grpo_rows
    >>> from coda_lib.paths import CHECKPOINTS
    >>> from coda_lib.trajectory import Step, StopReason, Trajectory, encode_image
    >>> screen = encode_image(Image.new("RGB", (336, 252)))
    >>> profile = load_profile("smoke", ("specialize.steps=1",))
    >>> steps = (Step(screen, "DONE", "", parse_actions("finished()", (336, 252))),)
    >>> clean = Trajectory("A-01", "algebra", "turn the grid on", "base", 0, steps, screen, StopReason.DONE)
    >>> rows, folder = grpo_rows([clean], profile.prompts, label=lambda trajectory: [0]), Path(mkdtemp())
    >>> settings, planner = profile.specialize, CHECKPOINTS / "planner"
    >>> specialize(rows, planner, Executor.load(profile), settings, profile.planner, folder, seed=7) == folder
    True
    """
    _need(rows, "specialize")
    if settings.refills and together().num_processes > 1:
        fault = "only a training of one process replaces states; set refills to 0"
        raise UserError(f"specialize.refills: {fault}")
    _reach(settings.vllm_server, planner)
    states = settings.steps * settings.completions_per_step // settings.group_size
    arguments = GRPOConfig(
        loss_type="grpo",  # eq. 3: mean over a plan's tokens, then over plans
        scale_rewards="group",  # eq. 2
        beta=settings.beta,
        epsilon=settings.epsilon,
        epsilon_high=settings.epsilon_high,
        use_bias_correction_kl=False,  # TRL would multiply KL_t by ρ_t; eq. 3 does not
        num_generations=settings.group_size,
        max_completion_length=sampling.max_new_tokens,
        temperature=sampling.temperature,
        shuffle_dataset=False,  # the rows come in their order
        use_vllm=bool(settings.vllm_server),
        vllm_mode="server",
        vllm_server_base_url=settings.vllm_server,
        vllm_importance_sampling_correction=False,  # TRL would mask and cap by it; eq. 3 has no such factor
        **_common(settings, settings.completions_per_step, folder, seed),
    )
    trainer = (kind or SpecializeTrainer)(
        **_planner(planner, settings),
        reward_funcs=rewarding or ActionReward(executor, seed, settings, distance),
        args=arguments,
        shared_prefix=settings.shared_prefix,
        refills=settings.refills,
        train_dataset=draw_states(rows, states, settings.draw, seed, settings.endings),
        callbacks=[MetricsLog(folder / "metrics.jsonl", progress)],
    )
    return _train(trainer, folder)


def generalize(
    rows: Dataset, planner: str | Path, settings: GeneralizeSettings, folder: Path, seed: int,
    progress: Progress = lambda done, total: None,
) -> Path:  # fmt: skip
    """Stage 2: fine-tune a fresh base planner on the specialists' positive steps; returns `folder`."""
    _need(rows, "generalize")
    arguments = SFTConfig(
        num_train_epochs=settings.epochs or 1,
        completion_only_loss=True,
        max_length=None,  # a cut would take image places away from their pictures
        **_common(settings, settings.batch_size, folder, seed),
    )
    trainer = GeneralizeTrainer(
        **_planner(planner, settings),
        args=arguments,
        train_dataset=rows,
        callbacks=[MetricsLog(folder / "metrics.jsonl", progress)],
    )
    return _train(trainer, folder)


def _common(
    settings: SpecializeSettings | GeneralizeSettings, samples: int, folder: Path, seed: int
) -> dict[str, Any]:
    """Arguments of both trainers; `samples` are behind each optimizer step, of all processes together.

    UserError if they cannot be divided among the processes.
    """
    processes = together().num_processes
    steps, at_once = settings.steps or -1, settings.at_once or samples // processes
    if not at_once or samples % (processes * at_once):
        among = f"{processes} processes, {at_once} at once in each"
        raise UserError(f"{samples} samples a step cannot be divided among {among}")
    return {
        "per_device_train_batch_size": at_once,
        "gradient_accumulation_steps": samples // (processes * at_once),
        "output_dir": str(folder / "checkpoints"), "max_steps": steps,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "constant_with_warmup" if settings.schedule == "constant" else settings.schedule,
        "warmup_steps": settings.warm_up, "seed": seed, "logging_steps": 1, "save_steps": max(10, steps // 4),
        "save_total_limit": 1, "bf16": torch.cuda.is_available(),
        "gradient_checkpointing": torch.cuda.is_available(),
        "use_cpu": not torch.cuda.is_available(), "dataloader_pin_memory": False,
        "report_to": settings.track, "disable_tqdm": True,
    }  # fmt: skip


def _planner(checkpoint: str | Path, settings: TrainingSettings) -> dict[str, Any]:
    """The trained network and its processor, as arguments of both trainers."""
    device = str(together().device) if torch.cuda.is_available() else "cpu"
    network = load_network(checkpoint, trainable=not settings.lora, device=device)
    processor = load_processor(checkpoint)
    level = logging.get_verbosity()
    logging.set_verbosity_error()  # the trainer does the same with a warning in red
    align_special_tokens(network, processor)
    logging.set_verbosity(level)
    if settings.frozen_vision:
        network.model.visual.requires_grad_(False)
    return {"model": network, "processing_class": processor, "peft_config": adapter_settings(settings)}


def adapter_settings(settings: TrainingSettings) -> PeftConfig | None:
    """Adapters on every linear layer of the language model, scaled by one; none on the vision tower."""
    if not settings.lora:
        return None
    if not find_spec("peft"):
        raise UserError("lora needs peft: pip install --editable '.[scale]'")
    from peft import LoraConfig

    layers = r".*language_model.*\.(q|k|v|o|gate|up|down)_proj"
    return LoraConfig(r=settings.lora, lora_alpha=settings.lora, target_modules=layers, task_type="CAUSAL_LM")


def together() -> PartialState:
    """The processes that train together: this one alone, unless `accelerate launch` has started more."""
    return PartialState(cpu=not torch.cuda.is_available())


def _need(rows: Dataset, stage: str) -> None:
    if not len(rows):
        fault = "no positive step to learn from: the judge called no trajectory clean"
        raise UserError(f"{stage}: {fault}; explore more tasks")


def _reach(server: str | None, planner: str | Path) -> None:
    """Check the vLLM server first: TRL waits for minutes and reports less."""
    if not server:
        return
    if not find_spec("vllm"):
        raise UserError("specialize.vllm_server needs vLLM here as well: pip install --editable '.[gpu]'")
    try:
        httpx.get(f"{server}/health", timeout=10.0, trust_env=uses_proxies(server)).raise_for_status()
    except httpx.HTTPError as error:
        raise UserError(
            f"specialize.vllm_server: {server} does not answer ({error}); start it with\n"
            f"  VLLM_SERVER_DEV_MODE=1 vllm serve {planner} "
            """--weight-transfer-config '{"backend": "nccl"}'"""
        ) from error


class _Resuming:
    """Reads checkpoints with `from_pretrained`.

    The weights have other names in the file than in memory.  The trainer's own reading skips what it does not
    find, with a warning, and would go on from the base planner.
    """

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if hasattr(self.model, "merge_and_unload"):  # adapters have names of their own
            return super()._load_from_checkpoint(resume_from_checkpoint, model)
        network = load_network(resume_from_checkpoint, trainable=True, device="cpu")
        self.model.load_state_dict(network.state_dict())


class SpecializeTrainer(_Resuming, SharedPrefixTrainer):
    pass


class GeneralizeTrainer(_Resuming, SFTTrainer):
    """Learns a reply up to its end mark.

    TRL counts the newline that the chat template writes after it as part of the reply.  No planner writes
    that newline, so its loss would dominate the training of a tiny one.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        # the mean is over the tokens of a step, in however many passes it is computed
        self.model_accepts_loss_kwargs = True
        collate, end = self.data_collator, self.processing_class.tokenizer.eos_token_id

        def up_to_the_end(features: list[dict[str, Any]]) -> dict[str, Any]:
            batch = collate(features)
            after = torch.zeros_like(batch["labels"], dtype=torch.bool)
            after[:, 1:] = batch["input_ids"][:, :-1] == end
            return {**batch, "labels": batch["labels"].masked_fill(after, -100)}

        self.data_collator = up_to_the_end


class MetricsLog(TrainerCallback):
    """Appends what the trainer logs to metrics.jsonl, one JSON object a step, also after a resume."""

    def __init__(self, path: Path, progress: Progress):
        self.path, self.progress = path, progress

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        if not state.is_world_process_zero:
            return
        whole = [line for line in self._lines() if line.endswith("\n")]  # a kill can cut the last line
        done = [line for line in whole if 0 < json.loads(line)["step"] <= state.global_step]
        write_text(self.path, "".join(done))

    def on_log(self, args, state, control, logs=None, **kwargs) -> None:
        # the trainer's summary at the end is no step
        if "train_runtime" in logs or not state.is_world_process_zero:
            return
        with self.path.open("a") as file:
            entry = {"step": state.global_step} | {k: v for k, v in logs.items() if k != "step"}
            file.write(f"{json.dumps(entry)}\n")
        self.progress(state.global_step, state.max_steps)

    def _lines(self) -> list[str]:
        return self.path.read_text().splitlines(keepends=True) if self.path.exists() else []


def _train(trainer: SpecializeTrainer | GeneralizeTrainer, folder: Path) -> Path:
    reference, tower = getattr(trainer, "ref_model", None), unwrapped(trainer.model).model.visual
    if not any(weight.requires_grad for weight in tower.parameters()):
        seen = Features()
        for network in filter(None, (trainer.model, reference)):
            seen.serve(unwrapped(network))
    trainer.remove_callback(PrinterCallback)  # metrics.jsonl has what it would print
    last, state = _last_checkpoint(Path(trainer.args.output_dir))
    steps = trainer.args.max_steps if trainer.args.max_steps > 0 else state.get("max_steps")
    if last and state["global_step"] >= steps:  # the trainer would do one step more
        trainer._load_from_checkpoint(str(last))
    else:
        try:
            trainer.train(resume_from_checkpoint=str(last) if last else None)
        except torch.OutOfMemoryError as error:
            raise UserError(
                f"out of memory: lower at_once, the samples of one pass of a device ({error})"
            ) from error
    # a checkpoint as every other: all else loads it without peft
    if hasattr(trainer.model, "merge_and_unload"):
        trainer.model = trainer.model.merge_and_unload()
    round_weights(trainer.model)
    # as before the first batch: a resumed run may see none
    trainer.processing_class.tokenizer.backend_tokenizer.no_padding()
    trainer.save_model(str(folder))
    # a pickle for the trainer alone, with the paths of this machine
    (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)
    return folder


@torch.no_grad()
def round_weights(network: torch.nn.Module) -> None:
    """Round weights to bfloat16, in place: a copy of a planner in 16 bit plays the very same episodes."""
    for weight in network.parameters():
        weight.copy_(weight.to(torch.bfloat16))


def _last_checkpoint(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The newest complete checkpoint and its state, which the trainer writes last."""
    whole = []
    for path in folder.glob("checkpoint-*/trainer_state.json"):
        try:
            whole.append((path.parent, json.loads(path.read_text())))
        except json.JSONDecodeError:  # killed while it was written
            continue
    return max(whole, key=lambda checkpoint: checkpoint[1]["global_step"], default=(None, {}))
