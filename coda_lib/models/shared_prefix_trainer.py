"""GRPO on TRL's trainer with each state encoded once, for policy, reference and generation.

TRL encodes the prompt of every plan, G times a state.  Loss, gradient, random numbers, logs, checkpoints and
arguments stay TRL's.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.nn.functional import pad
from trl import GRPOTrainer
from trl.models.utils import unwrap_model_for_generation
from trl.trainer.utils import split_pixel_values_by_grid, split_tensor_dict, unsplit_pixel_values_by_grid

from coda_lib.models.local import embed_patches_by_product
from coda_lib.models.shared_prefix import GroupRows, distinct, prompts_of, sample

# of a log-probability, by the type that the network computes in
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.2}
SIGNAL = 1e-3  # an advantage below it comes of rounding: the rewards of its group are equal

_PICTURES = ("pixel_values", "image_grid_thw")
# tensors of plans x tokens of a plan
_PLANS = ("completion", "old_per_token", "ref_per_token", "sampling_per_token")
Scores = tuple[torch.Tensor, torch.Tensor | None, None]  # log-probabilities, entropies, no auxiliary loss


class SharedPrefixTrainer(GRPOTrainer):
    """TRL's GRPO trainer for Qwen2.5-VL; without `shared_prefix` and `refills` it is stock TRL.

    The first pass of a training computes one group both ways.  If they differ by more than the tolerance, and
    by more than twice what stock TRL differs from itself there, the trainer warns and goes on as stock TRL.
    Up to `refills` times a step, states whose plans all earn the same are replaced by others (dynamic
    sampling, as in DAPO, arXiv 2503.14476); what is left without signal then stays.
    """

    def __init__(self, *args: Any, shared_prefix: bool = True, refills: int = 0, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.shared_prefix, self.refills, self._compared = shared_prefix, refills, False
        if self.ref_model is not None and shared_prefix:
            embed_patches_by_product(unwrapped(self.accelerator.unwrap_model(self.ref_model)))
        self._states: list[int] = []  # number of the state of each plan at hand

    def get_train_dataloader(self) -> Any:
        rows = self.train_dataset
        self.train_dataset = _EachOnce(rows) if self.shared_prefix else rows
        try:
            return super().get_train_dataloader()
        finally:
            self.train_dataset = rows

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch, replaced = self._sample_and_score(inputs), 0
        for number in range(self.refills if self.model.training else 0):
            empty = _groups(batch, with_signal=False)
            if not empty:
                break
            draw = random.Random(f"{self.args.seed}/{self.state.global_step}/{number}")
            rows = [self.train_dataset[draw.randrange(len(self.train_dataset))] for _ in empty]
            more = self._sample_and_score([row for row in rows for _ in range(self.num_generations)])
            if not (better := _groups(more, with_signal=True)):
                continue
            keep = [*_groups(batch, with_signal=True), *empty[len(better) :]]
            batch = self._joined(_of_states(batch, keep), _of_states(more, better))
            replaced += len(better)
        if self.refills and self.model.training:
            self._metrics["train"]["refilled"].append(replaced * self.num_generations / len(inputs))
        return batch if self.shared_prefix else unsplit_pixel_values_by_grid(batch)

    def _sample_and_score(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        first = self.accelerator.process_index * len(inputs)  # a group may lie on two processes
        self._states = [(first + i) // self.num_generations for i in range(len(inputs))]
        whole = self.processing_class
        self.processing_class = _EachStateOnce(whole, self._states) if self.shared_prefix else whole
        try:
            batch = super()._generate_and_score_completions(inputs)
        finally:
            self.processing_class = whole
        return _split(batch, self._states) | {"state": torch.tensor(self._states)}

    def _joined(self, *parts: dict[str, Any]) -> dict[str, Any]:
        """One batch of several: prompts padded on the left, plans on the right."""
        prompt, plan = (
            max(part[name].shape[1] for part in parts) for name in ("prompt_ids", "completion_ids")
        )
        joined: dict[str, Any] = {}
        for name, values in parts[0].items():
            if isinstance(values, list):
                joined[name] = [value for part in parts for value in part[name]]
            elif not values.ndim:  # tokens of all plans
                joined[name] = sum(part["completion_mask"].sum() for part in parts)
            elif values.ndim == 1:
                joined[name] = torch.cat([part[name] for part in parts])
            else:
                before, after = not name.startswith(_PLANS), not name.startswith("prompt")
                rows = []
                for part in parts:
                    left, right = prompt - part["prompt_ids"].shape[1], plan - part["completion_ids"].shape[1]
                    rows.append(pad(part[name], (left * before, right * after)))
                joined[name] = torch.cat(list(rows))
        self._states = [i // self.num_generations for i in range(len(joined["prompt_ids"]))]
        return joined | {"state": torch.tensor(self._states)}

    def _tokenize_prompts(self, prompts: list[Any]) -> tuple[list[Any], list[Any] | None, dict[str, Any]]:
        if not self.shared_prefix:
            return super()._tokenize_prompts(prompts)
        first, which = distinct(self._states)
        ids, images, fields = super()._tokenize_prompts([prompts[i] for i in first])
        return [ids[i] for i in which], images and [images[i] for i in which], fields

    def _generate_single_turn(
        self,
        prompt_ids: list[list[int]],
        images: Any,
        multimodal_fields: dict[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> tuple[list[list[int]], Any]:
        if not self.shared_prefix or self.use_vllm:
            return super()._generate_single_turn(prompt_ids, images, multimodal_fields, *args, **kwargs)
        first, which = distinct(self._states)
        read = {"input_ids": [prompt_ids[i] for i in first]}
        inputs = dict(self.processing_class.tokenizer.pad(read, return_tensors="pt"))
        if images:
            inputs |= {
                name: torch.as_tensor(multimodal_fields[name]) for name in ("pixel_values", "image_grid_thw")
            }
        inputs = {name: values.to(self.accelerator.device) for name, values in inputs.items()}
        checkpointing = self.args.gradient_checkpointing_kwargs
        sampling = unwrap_model_for_generation(
            self.model_wrapped,
            self.accelerator,
            True,
            self.generation_kwargs,
            gradient_checkpointing_kwargs=checkpointing,
        )
        with sampling as model, torch.no_grad():
            network = unwrapped(model)
            plans = sample(network, prompts_of(network, inputs), which, self.generation_config)
        return [_up_to_end(plan, self.eos_token_ids) for plan in plans.tolist()], None

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """The plans of one pass; in the order of their states, which TRL shuffles."""
        if not (self.shared_prefix and self.model.training):
            return super()._prepare_inputs(generation_batch)
        passes = self.args.steps_per_generation
        if self._step % (passes * self.num_iterations) == 0 or self._buffered_inputs is None:
            batch = _split(self._generate_and_score_completions(generation_batch), self._states)
            torch.randperm(len(self._states))  # TRL draws its shuffle here: what is drawn next stays as there
            self._buffered_inputs = split_tensor_dict(batch, passes)
        return self._buffered_inputs[self._step % passes]

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        """TRL's loss; without a KL term a group of equal rewards has no gradient and takes no pass.

        With one (beta > 0) every group takes it: the term is due for each plan, whatever its reward.
        """
        inputs = dict(inputs)
        states = inputs.pop("state")
        share = 1.0
        if self.shared_prefix and not self.beta:
            with_signal = _groups(inputs | {"state": states}, with_signal=True)
            with_signal = with_signal or [int(states[0])]  # a pass cannot be empty
            keep = [i for i, state in enumerate(states.tolist()) if state in with_signal]
            share, states = len(keep) / len(states), states[keep]
            inputs = _plans(inputs, keep)
        self._metrics["train" if self.model.training else "eval"]["passed"].append(share)
        self._states = states.tolist()
        return super()._compute_loss(model, inputs) * share

    def _get_per_token_logps_and_entropies(
        self, model: torch.nn.Module, input_ids: torch.Tensor, attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None, compute_entropy: bool = False, **fields: Any,
    ) -> Scores:  # fmt: skip
        """Log-probabilities and entropies (plans x `logits_to_keep`), `batch_size` plans at a time."""
        stock = super()._get_per_token_logps_and_entropies
        batch = _split({"input_ids": input_ids, "attention_mask": attention_mask} | fields, self._states)
        if self.shared_prefix and not self._compared:
            self._compare(model, batch, logits_to_keep)
        if not self.shared_prefix:
            batch = unsplit_pixel_values_by_grid(batch)
            how = {"logits_to_keep": logits_to_keep, "batch_size": batch_size}
            return stock(model, compute_entropy=compute_entropy, **how, **batch)
        count, size = len(input_ids), batch_size or len(input_ids)
        parts = [
            self._score(model, _plans(batch, some), [self._states[i] for i in some], logits_to_keep)
            for some in (range(start, min(start + size, count)) for start in range(0, count, size))
        ]
        logps, entropies = (
            torch.cat(part) if part[0] is not None else None for part in zip(*parts, strict=True)
        )
        return logps, entropies if compute_entropy else None, None

    def _score(
        self, model: torch.nn.Module, batch: dict[str, Any], states: Sequence[int], tokens: int
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Log-probabilities and entropies of plans, each state in one row: plans x `tokens`."""
        first, which = distinct(states)
        network = unwrapped(self.accelerator.unwrap_model(model))
        given = [name for name in _PICTURES if batch.get(name) is not None]
        prompts = {name: torch.cat([batch[name][i] for i in first]) for name in given}
        ids_SP, real_SP = batch["input_ids"][first, :-tokens], batch["attention_mask"][first, :-tokens]
        kinds_SP = (ids_SP == network.config.image_token_id).int()
        positions_3SP, _ = network.model.get_rope_index(
            ids_SP, kinds_SP, prompts.get("image_grid_thw"), attention_mask=real_SP
        )
        plans = (batch[name][:, -tokens:] for name in ("input_ids", "attention_mask"))
        rows = GroupRows.of(ids_SP, real_SP, positions_3SP, *plans, which)
        with self.accelerator.autocast():
            scored = model(
                input_ids=rows.ids_SL, attention_mask={"full_attention": rows.mask_S1LL},
                position_ids=rows.positions_3SL,
                labels=rows.labels_SL, fused_lm_head=True, **prompts,
            )  # fmt: skip
        row, column = rows.places_NT
        padding = batch["attention_mask"][:, -tokens:] == 0
        found = (scored.log_probs, scored.entropy)
        return tuple(
            values if values is None else values[row, column - 1].masked_fill(padding, 0) for values in found
        )

    def _compare(self, model: torch.nn.Module, batch: dict[str, Any], tokens: int) -> None:
        """Compute the first state's plans both ways; warn and use stock TRL if they truly differ.

        How much rounding does depends on the network: 0.15 with all 36 layers of the 3B in 16 bits.  Stock
        TRL shows it, too, when it computes the plans one at a time instead of together.
        """
        self._compared = True
        group = [i for i, state in enumerate(self._states) if state == self._states[0]]
        some = _plans(batch, group)
        score = partial(super()._get_per_token_logps_and_entropies, model, logits_to_keep=tokens)
        whole, real = unsplit_pixel_values_by_grid(some), some["attention_mask"][:, -tokens:]
        with torch.no_grad():
            stock = score(**whole)[0]
            gap = ((self._score(model, some, [0] * len(group), tokens)[0] - stock) * real).abs().max().item()
            if gap <= TOLERANCE[torch.bfloat16 if self.args.bf16 else torch.float32]:
                return
            own = ((score(**whole, batch_size=1)[0] - stock) * real).abs().max().item()
        if not gap <= 2 * own:
            self.shared_prefix = False
            warnings.warn(
                f"shared prefixes are off: log-probabilities differ by {gap:.1e} from stock TRL's",
                stacklevel=2,
            )


def unwrapped(model: torch.nn.Module) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _groups(batch: dict[str, Any], with_signal: bool) -> list[int]:
    """The states of a batch whose plans earn different rewards, or those whose plans all earn the same."""
    differ = set(batch["state"][batch["advantages"].abs().cpu() > SIGNAL].tolist())
    return [state for state in dict.fromkeys(batch["state"].tolist()) if (state in differ) == with_signal]


def _of_states(batch: dict[str, Any], states: Sequence[int]) -> dict[str, Any]:
    return _plans(batch, [i for i, state in enumerate(batch["state"].tolist()) if state in states])


def _split(batch: dict[str, Any], states: Sequence[int]) -> dict[str, Any]:
    """A batch with the pictures of each plan apart; those of one state are the same tensor."""
    pixels, grids_K3 = (batch.get(name) for name in _PICTURES)
    if not isinstance(pixels, torch.Tensor):  # none, or apart already
        return batch
    if len(grids_K3) == sum(batch["num_images"]):
        return split_pixel_values_by_grid(batch)
    first, which = distinct(states)
    counts = [batch["num_images"][i] for i in first]
    pictures = {"pixel_values": pixels, "image_grid_thw": grids_K3, "num_images": counts}
    once = split_pixel_values_by_grid(pictures)
    return batch | {name: [once[name][n] for n in which] for name in _PICTURES}


def _plans(batch: dict[str, Any], keep: Sequence[int]) -> dict[str, Any]:
    """These plans of a batch whose pictures are apart."""
    index, count = list(keep), len(batch["input_ids"] if "input_ids" in batch else batch["completion_ids"])

    def chosen(values: Any) -> Any:
        if isinstance(values, torch.Tensor) and values.ndim and len(values) == count:
            return values[index]
        return [values[i] for i in index] if isinstance(values, list) else values

    return {name: chosen(values) for name, values in batch.items() if values is not None}


class _EachOnce(torch.utils.data.Dataset):
    """Rows of a data set, of which a batch holds each several times: read and decoded once."""

    def __init__(self, rows: Any):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        rows = {i: self.rows[i] for i in dict.fromkeys(indices)}
        return [rows[i] for i in indices]


class _EachStateOnce:
    """A processor of prompts that encodes the pictures of each state once, with its first plan."""

    def __init__(self, processor: Any, states: Sequence[int]):
        self._processor, self._states = processor, states

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def __call__(self, images: Sequence[Any], text: Sequence[str], **options: Any) -> dict[str, Any]:
        first, which = distinct(self._states)
        once = self._processor(images=[images[i] for i in first], text=[text[i] for i in first], **options)
        return {name: values if name in _PICTURES else values[which] for name, values in once.items()}


def _up_to_end(ids: list[int], ends: Sequence[int]) -> list[int]:
    """The tokens of a plan up to its first end token."""
    return next((ids[: n + 1] for n, token in enumerate(ids) if token in ends), ids)
