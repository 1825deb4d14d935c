"""Training the laptop's base models from scratch: the vision tower first, then language.

The networks stand for downloads (Qwen2.5-VL, UI-TARS-1.5, a judge).  They are trained once, committed under
data/checkpoints with a card each, and loaded by the same code as the real ones.  The order matters
(measured): with the language-model loss alone a tiny model learns where a label usually is, without looking;
a tower that has learned what covers each patch prevents that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import Qwen2_5_VLForConditionalGeneration as Network
from transformers import get_cosine_schedule_with_warmup

from base_models.architecture import configuration, processor, tokenizer
from base_models.checkpointing import Checkpointer, Stateful, skip
from base_models.reading import ReadingHeads, fast_products
from base_models.rows import LabelledScreen, Row
from base_models.sources import BATCH, SCREENS, Sampler
from base_models.training_tasks import planner_tasks
from base_models.walks import Walks, typed_words
from coda_lib.models.chat import Message
from coda_lib.models.local import ImageTextProcessor, encode
from coda_lib.trajectory import decode_image

_READING = 0.5  # weight of the loss of reading while the language model learns to point
_IGNORE = -100

Log = Callable[[dict[str, Any]], None]
State = dict[str, Any]  # running averages of a stage
Batch = tuple[dict[str, torch.Tensor], torch.Tensor]  # inputs of the network, and labels


def build_processor(walks: Walks) -> ImageTextProcessor:
    """Tokenizer of texts of plans, goals and screens; image processor of the screens' mean and deviation."""
    rng, corpus = Random(0), []
    for walk in walks:
        app = walk[0].app
        corpus += [transition.plan for transition in walk]
        corpus += [e.name for transition in walk[::5] for e in transition.elements]
        corpus += [task.instruction for _, task in planner_tasks(app)] * 2 + list(typed_words(app)) * 2
        corpus += [f"ANS {task.ans}" for _, task in planner_tasks(app) if task.ans] * 2
    verdict = '{"Correctness": true, "Redundant": [1, 2], "First_Error_Step": null}'
    corpus += [verdict, "assistant\nuser\nsystem\n"] * 50
    screens = [decode_image(rng.choice(rng.choice(walks)).screen) for _ in range(200)]
    pixels = np.stack([np.asarray(screen, np.float32) / 255 for screen in screens]).reshape(-1, 3)
    return processor(tokenizer(corpus), pixels.mean(0).round(4).tolist(), pixels.std(0).round(4).tolist())


def new_network(processor: ImageTextProcessor, seed: int) -> Network:
    """An untrained network for the processor's vocabulary."""
    torch.manual_seed(seed)
    return Network(configuration(processor.tokenizer))


def _train(
    log: Log, stage: str, draw: Callable[[Random], Any], steps: int, seed: int, batch: int,
    loss_of: Callable[[list[Any], State], tuple[torch.Tensor, dict[str, float], State]],
    trained: Iterable[nn.Parameter], clipped: Iterable[nn.Parameter], parts: dict[str, Stateful],
    warm_up: int, rate: float, checkpointer: Checkpointer | None,
) -> State:  # fmt: skip
    """Take the optimizer steps of a stage; returns its last state.

    `loss_of(drawn, state)` gives the loss, the figures for the log and the new state.  The gradient of the
    `clipped` parameters has at most norm 1.  With a checkpointer the stage goes on from there with `parts`.
    """
    clipped, checkpointer = list(clipped), checkpointer or Checkpointer()
    optimizer = torch.optim.AdamW(trained, lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, warm_up, steps)
    done, state = checkpointer.restore(**parts, optimizer=optimizer, schedule=schedule)
    rng, start = Random(seed), time.time() - state.get("seconds", 0.0)
    skip(draw, done * batch, rng)
    for step in range(done, steps):
        loss, figures, state = loss_of([draw(rng) for _ in range(batch)], state)
        loss.backward()
        nn.utils.clip_grad_norm_(clipped, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        seconds = time.time() - start
        if step % 25 == 0 or step == steps - 1:
            log({"stage": stage, "step": step, **figures, "seconds": round(seconds, 1)})
        checkpointer.save(step + 1, steps, state | {"seconds": seconds})
    return state


def _averaged(average: dict[str, float], new: dict[str, float]) -> dict[str, float]:
    """The running average of each figure; one that is not a number does not count."""
    return average | {k: round(0.95 * average.get(k, v) + 0.05 * v, 4) for k, v in new.items() if v == v}


def train_vision(
    processor: ImageTextProcessor, network: Network, log: Log, reading: ReadingHeads,
    draw: Callable[[Random], LabelledScreen], steps: int, seed: int, names: float,
    rate: float = 1e-3, checkpointer: Checkpointer | None = None,
) -> dict[str, float]:  # fmt: skip
    """Teach the tower to read the screens of a sampler; returns the shares of right letters and names.

    The shares are running averages.  A tower that learns the names of walks alone knows screens by heart:
    after 1,600 steps it had no name of a page (measured).
    """
    tower = network.model.visual.requires_grad_(True)
    network.set_attn_implementation("sdpa")

    def loss_of(screens: list[LabelledScreen], state: State) -> tuple[torch.Tensor, dict[str, float], State]:
        images = [decode_image(screen.screen) for screen in screens]
        inputs = processor.image_processor(images, return_tensors="pt")
        with fast_products():
            patches = tower(inputs["pixel_values"], inputs["image_grid_thw"]).last_hidden_state
        loss, shares = reading.loss(patches, inputs["image_grid_thw"], screens, names)
        average = _averaged(state.get("average", {}), shares)
        return loss, {"loss": round(loss.item(), 4), **average}, {"average": average}

    trained = [*tower.parameters(), *reading.heads.parameters()]
    parts = {"network": network, "reading": reading}
    state = _train(
        log, "vision", draw, steps, seed, SCREENS, loss_of, trained, tower.parameters(), parts, 50, rate,
        checkpointer,
    )  # fmt: skip
    return state.get("average", {})


# -- language ----------------------------------------------------------------------------------------------


def train_language(
    processor: ImageTextProcessor, network: Network, log: Log, stage: str, draw: Sampler, steps: int,
    seed: int, batch: int = BATCH, reading: ReadingHeads | None = None,
    checkpointer: Checkpointer | None = None,
) -> None:  # fmt: skip
    """Next-token training on the rows of a sampler, single ones or lists about the same pictures.

    A batch is all of one kind.  With `reading` the tower goes on reading the pictures of lists, while the
    language model learns to use it; with a checkpointer the training goes on from there.
    """
    network.train()
    # eager is faster for short sequences; it does not take the masks of packed batches
    network.set_attn_implementation("eager" if stage in ("planner", "copying") else "sdpa")
    # learned with the tower, and a fifth of a step's time: only pointing at a pixel and reading need more
    network.model.visual.patch_embed.requires_grad_(stage != "planner")
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    patches: list[torch.Tensor] = []  # of a step's pictures
    hook = network.model.visual.register_forward_hook(
        lambda _, __, output: patches.append(output.last_hidden_state)
    )

    def loss_of(drawn: list[Any], state: State) -> tuple[torch.Tensor, dict[str, float], State]:
        rows = [row for item in drawn for row in (item if isinstance(item, list) else [item])]
        packed = isinstance(drawn[0], list) and rows[0].pictures
        inputs, labels = packed_batch(processor, network, drawn) if packed else batch_of(processor, rows)
        patches.clear()
        with fast_products():
            loss = total = network(**inputs, labels=labels).loss
        shares, language = state.get("shares", {}), loss.item()
        if reading and packed:
            screens = [of_picture[0].screen for of_picture in drawn]
            read, new = reading.loss(patches[-1], inputs["image_grid_thw"], screens)
            total, shares = loss + _READING * read, _averaged(shares, new | {"pointing": language})
        average = 0.98 * state["average"] + 0.02 * language if state else language
        return total, {"loss": round(average, 4), **shares}, {"average": average, "shares": shares}

    parts: dict[str, Stateful] = {"network": network} | ({"reading": reading} if reading else {})
    heads = reading.heads.parameters() if reading else ()
    _train(
        log, stage, draw, steps, seed, batch, loss_of, [*trained, *heads], trained, parts, 60, 1e-3,
        checkpointer,
    )  # fmt: skip
    hook.remove()


def batch_of(processor: ImageTextProcessor, rows: Sequence[Row]) -> Batch:
    """Inputs and labels of single rows; the loss is on the reply and its end alone."""

    def answered(row: Row) -> list[Message]:
        reply = {"type": "text", "text": row.given + row.reply}
        return [*row.messages, {"role": "assistant", "content": [reply]}]

    inputs = encode(processor, list(map(answered, rows)), generate=False)
    labels = torch.full_like(inputs["input_ids"], _IGNORE)
    for i, row in enumerate(rows):
        # the reply, its end, a newline
        tail = len(processor.tokenizer(row.reply, add_special_tokens=False)["input_ids"]) + 2
        end = -1 if row.whole else -2
        labels[i, -tail:end] = inputs["input_ids"][i, -tail:end]
    return inputs, labels


def packed_batch(processor: ImageTextProcessor, network: Network, lists: Sequence[Sequence[Row]]) -> Batch:
    """Inputs and labels of lists of rows; the pictures of a list stand there once, before all its questions.

    A question sees the pictures and itself, at the positions that it has in a row of its own: to the model
    this is the same as a row for each question, at a fraction of the cost.
    """
    first = encode(processor, [rows[0].messages for rows in lists], generate=False)
    names = ("input_ids", "mm_token_type_ids", "image_grid_thw", "attention_mask")
    starts, _ = network.model.get_rope_index(**{name: first[name] for name in names})
    packed = list(map(partial(_packed, processor), lists, first["input_ids"], starts.unbind(1)))
    shape = len(packed), max(len(ids) for ids, *_ in packed)
    tokens = torch.full(shape, processor.tokenizer.pad_token_id)
    labels = torch.full(shape, _IGNORE)
    positions = torch.zeros(3, *shape, dtype=torch.long)
    parts = torch.full(shape, -1)  # 0: the pictures; k: the k-th question; -1: padding
    for i, (ids, *others) in enumerate(packed):
        n = len(ids)
        tokens[i, :n] = ids
        labels[i, :n], positions[:, i, :n], parts[i, :n] = others
    seen, seeing = parts[:, None, :], parts[:, :, None]
    mask = ((seen == seeing) | (seen == 0)) & torch.ones(shape[1], shape[1], dtype=torch.bool).tril()
    inputs = {"input_ids": tokens, "attention_mask": mask[:, None], "position_ids": positions}
    return inputs | {key: first[key] for key in ("pixel_values", "image_grid_thw")}, labels


def _packed(
    processor: ImageTextProcessor, rows: Sequence[Row], ids: torch.Tensor, positions: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Tokens (n), labels (n), positions (3, n), parts (n) of rows; given `ids`, `positions` of the first."""
    tokenizer = processor.tokenizer
    marker = "<|vision_end|>"
    end = int((ids == tokenizer.convert_tokens_to_ids(marker)).nonzero()[-1]) + 1
    start = int((ids != tokenizer.pad_token_id).nonzero()[0])  # padding is on the left
    ids, positions = ids[start:end], positions[:, start:end]
    pieces = [(ids, torch.full_like(ids, _IGNORE), positions, torch.zeros_like(ids))]
    after = int(positions.max()) + 1
    for k, row in enumerate(rows, 1):
        text = processor.apply_chat_template(row.messages, tokenize=False, add_generation_prompt=True)
        texts = text.rpartition(marker)[2], row.reply
        prompt, reply = (tokenizer(t, add_special_tokens=False)["input_ids"] for t in texts)
        reply += [tokenizer.eos_token_id] if row.whole else []
        n = len(prompt + reply)
        tokens, labels = torch.tensor(prompt + reply), torch.tensor([_IGNORE] * len(prompt) + reply)
        pieces.append((tokens, labels, (after + torch.arange(n)).expand(3, -1), torch.full((n,), k)))
    return tuple(torch.cat(piece, -1) for piece in zip(*pieces, strict=True))
