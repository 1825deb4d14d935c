"""Training the laptop's base models from scratch: the vision tower first, then language.

The networks stand for downloads (Qwen2.5-VL, UI-TARS-1.5, a judge).  They are trained once, committed under
data/checkpoints with a card each, and loaded by the same code as the real ones.  The order matters
(measured): with the language-model loss alone a tiny model learns where a label usually is, without looking;
a tower that has learned what covers each patch prevents that.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import Qwen2_5_VLForConditionalGeneration as Network
from transformers import get_cosine_schedule_with_warmup

from base_models.architecture import configuration, processor, tokenizer
from base_models.checkpointing import Kept, skip
from base_models.reading import Reading, fast_products
from base_models.rows import Row, Shown
from base_models.sources import BATCH, Source, Walks
from base_models.training_tasks import lessons
from base_models.walks import typed_words
from coda_lib.models.local import ImageTextProcessor, encode
from coda_lib.trajectory import decode_image

_SCREENS = 16  # screens a step of the vision tower
_KEPT = 0.5  # weight of reading while the language model learns to point
_IGNORE = -100

Log = Callable[[dict[str, Any]], None]
Batch = tuple[dict[str, torch.Tensor], torch.Tensor]  # inputs of the network, and labels


def build_processor(walks: Walks) -> ImageTextProcessor:
    """Tokenizer and image processor of the walks, with the mean and deviation of their screens."""
    rng = random.Random(0)
    corpus: list[str] = []
    for walk in walks:
        app = walk[0].app
        corpus += [transition.plan for transition in walk]
        corpus += [e.name for transition in walk[::5] for e in transition.elements]
        corpus += [task.instruction for _, task in lessons(app)] * 2 + list(typed_words(app)) * 2
        corpus += [f"ANS {task.ans}" for _, task in lessons(app) if task.ans] * 2
    corpus += [
        '{"Correctness": true, "Redundant": [1, 2], "First_Error_Step": null}',
        "assistant\nuser\nsystem\n",
    ] * 50
    sample = [
        np.asarray(decode_image(rng.choice(rng.choice(walks)).screen), np.float32) / 255 for _ in range(200)
    ]
    pixels = np.stack(sample).reshape(-1, 3)
    return processor(tokenizer(corpus), pixels.mean(0).round(4).tolist(), pixels.std(0).round(4).tolist())


def new_network(words: ImageTextProcessor, seed: int) -> Network:
    """An untrained network for the processor's vocabulary."""
    torch.manual_seed(seed)
    return Network(configuration(words.tokenizer))


class _Learner:
    """Takes optimizer steps on losses; the gradient of the `clipped` parameters has at most norm 1."""

    def __init__(
        self,
        trained: Iterable[nn.Parameter],
        clipped: Iterable[nn.Parameter],
        warm_up: int,
        steps: int,
        **options: Any,
    ):
        self.optimizer = torch.optim.AdamW(trained, **{"lr": 1e-3, "weight_decay": 0.01} | options)
        self.schedule = get_cosine_schedule_with_warmup(self.optimizer, warm_up, steps)
        self.clipped = list(clipped)

    def __call__(self, loss: torch.Tensor) -> None:
        loss.backward()
        nn.utils.clip_grad_norm_(self.clipped, 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()


# -- vision tower ------------------------------------------------------------------------------------------


def train_vision(
    words: ImageTextProcessor, network: Network, log: Log, reading: Reading, draw: Callable[[random.Random],
    Shown],
    steps: int, seed: int, names: float, rate: float = 1e-3, kept: Kept | None = None,
) -> dict[str, float]:  # fmt: skip
    """Teach the tower to read the screens of a source; returns the shares of right letters and names in the
    last steps.

    With `kept` it goes on from there.  A tower that learns the names of walks alone knows screens by heart:
    after 1,600 steps it had no name of a page (measured).
    """
    tower = network.model.visual.requires_grad_(True)
    network.set_attn_implementation("sdpa")
    trained = [*tower.parameters(), *reading.heads.parameters()]
    learn, kept = _Learner(trained, tower.parameters(), 50, steps, lr=rate, betas=(0.9, 0.98)), kept or Kept()
    done, told = kept.begin(
        network=network, reading=reading, optimizer=learn.optimizer, schedule=learn.schedule
    )
    rng, average, start = random.Random(seed), told.get("average", {}), time.time() - told.get("seconds", 0.0)
    skip(draw, done * _SCREENS, rng)
    for step in range(done, steps):
        shown = [draw(rng) for _ in range(_SCREENS)]
        inputs = words.image_processor([decode_image(one.screen) for one in shown], return_tensors="pt")
        with fast_products():
            patches = tower(inputs["pixel_values"], inputs["image_grid_thw"]).last_hidden_state
        loss, shares = reading.loss(patches, inputs["image_grid_thw"], shown, names)
        learn(loss)
        average = _averaged(average, shares)
        if step % 25 == 0 or step == steps - 1:
            seconds = round(time.time() - start, 1)
            log(
                {
                    "stage": "vision",
                    "step": step,
                    "loss": round(loss.item(), 4),
                    **average,
                    "seconds": seconds,
                }
            )
        kept.keep(step + 1, steps, {"average": average, "seconds": time.time() - start})
    return average


def _averaged(average: dict[str, float], new: dict[str, float]) -> dict[str, float]:
    """The running average of each figure; one that is not a number does not count."""
    return average | {k: round(0.95 * average.get(k, v) + 0.05 * v, 4) for k, v in new.items() if v == v}


# -- language ----------------------------------------------------------------------------------------------


def train_language(
    words: ImageTextProcessor, network: Network, log: Log, stage: str, draw: Source, steps: int, seed: int,
    batch: int = BATCH,
    reading: Reading | None = None, rate: float = 1e-3, kept: Kept | None = None,
) -> None:  # fmt: skip
    """Next-token training on the rows of a source, single ones or lists about the same pictures (a batch is
    all of one kind).

    With `reading` the tower goes on reading the pictures of lists, while the language model learns to use it;
    with `kept` the training goes on from there.
    """
    network.train()
    # eager is faster for short sequences; it does not take the masks of packed batches
    network.set_attn_implementation("eager" if stage in ("planner", "copying") else "sdpa")
    # learned with the tower, and a fifth of a step's time: only pointing at a pixel and reading need more of
    # it
    network.model.visual.patch_embed.requires_grad_(stage != "planner")
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    heads, kept = reading.heads.parameters() if reading else (), kept or Kept()
    learn = _Learner([*trained, *heads], trained, 60, steps, lr=rate, betas=(0.9, 0.98))
    parts = {"network": network, "optimizer": learn.optimizer, "schedule": learn.schedule}
    done, told = kept.begin(**parts | ({"reading": reading} if reading else {}))
    seen: list[torch.Tensor] = []  # the patches of a step's pictures
    hook = network.model.visual.register_forward_hook(
        lambda _, __, output: seen.append(output.last_hidden_state)
    )
    rng, average, shares = random.Random(seed), told.get("average"), told.get("shares", {})
    start = time.time() - told.get("seconds", 0.0)
    skip(draw, done * batch, rng)
    for step in range(done, steps):
        drawn = [draw(rng) for _ in range(batch)]
        rows = [row for one in drawn for row in (one if isinstance(one, list) else [one])]
        packed = isinstance(drawn[0], list) and rows[0].pictures
        inputs, labels = packed_batch(words, network, drawn) if packed else batch_of(words, rows)
        seen.clear()
        with fast_products():
            loss = total = network(**inputs, labels=labels).loss
        if reading and packed:
            read, new = reading.loss(
                seen[-1], inputs["image_grid_thw"], [of_picture[0].shown for of_picture in drawn]
            )
            total, shares = loss + _KEPT * read, _averaged(shares, new | {"pointing": loss.item()})
        learn(total)
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        if step % 25 == 0 or step == steps - 1:
            log(
                {
                    "stage": stage,
                    "step": step,
                    "loss": round(average, 4),
                    **shares,
                    "seconds": round(time.time() - start, 1),
                }
            )
        kept.keep(step + 1, steps, {"average": average, "shares": shares, "seconds": time.time() - start})
    hook.remove()


def batch_of(words: ImageTextProcessor, rows: Sequence[Row]) -> Batch:
    """Inputs and labels of single rows; the loss is on the reply and its end alone."""
    chats = [
        [*row.messages, {"role": "assistant", "content": [{"type": "text", "text": row.given + row.reply}]}]
        for row in rows
    ]
    inputs = encode(words, chats, generate=False)
    labels = torch.full_like(inputs["input_ids"], _IGNORE)
    for i, row in enumerate(rows):
        # the reply, its end, a newline
        tail = len(words.tokenizer(row.reply, add_special_tokens=False)["input_ids"]) + 2
        end = -1 if row.whole else -2
        labels[i, -tail:end] = inputs["input_ids"][i, -tail:end]
    return inputs, labels


def packed_batch(words: ImageTextProcessor, network: Network, lists: Sequence[Sequence[Row]]) -> Batch:
    """Inputs and labels of lists of rows; the pictures of a list stand there once, before all its questions.

    A question sees the pictures and itself, at the positions that it has in a row of its own: to the model
    this is the same as a row for each question, at a fraction of the cost.
    """
    first = encode(words, [rows[0].messages for rows in lists], generate=False)
    starts, _ = network.model.get_rope_index(
        first["input_ids"], mm_token_type_ids=first["mm_token_type_ids"],
        image_grid_thw=first["image_grid_thw"],
        attention_mask=first["attention_mask"],
    )  # fmt: skip
    packed = [_packed(words, *each) for each in zip(lists, first["input_ids"], starts.unbind(1), strict=True)]
    shape = len(packed), max(len(ids) for ids, *_ in packed)
    tokens = torch.full(shape, words.tokenizer.pad_token_id)
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
    words: ImageTextProcessor, rows: Sequence[Row], ids: torch.Tensor, positions: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Ids (n), labels (n), positions (3, n) and parts (n) of a list; `ids`, `positions`: the first's."""
    tokens = words.tokenizer
    end = int((ids == tokens.convert_tokens_to_ids("<|vision_end|>")).nonzero()[-1]) + 1
    start = int((ids != tokens.pad_token_id).nonzero()[0])  # padding is on the left
    n = end - start
    pieces = [
        (ids[start:end], torch.full((n,), _IGNORE), positions[:, start:end], torch.zeros(n, dtype=torch.long))
    ]
    after = int(positions[:, start:end].max()) + 1
    for k, row in enumerate(rows, 1):
        text = words.apply_chat_template(row.messages, tokenize=False, add_generation_prompt=True).rpartition(
            "<|vision_end|>"
        )[2]
        prompt, reply = (tokens(t, add_special_tokens=False)["input_ids"] for t in (text, row.reply))
        reply += [tokens.eos_token_id] if row.whole else []
        n = len(prompt + reply)
        pieces.append(
            (torch.tensor(prompt + reply), torch.tensor([_IGNORE] * len(prompt) + reply),
             (after + torch.arange(n)).expand(3, -1),
             torch.full((n,), k))
        )  # fmt: skip
    return tuple(torch.cat(piece, -1) for piece in zip(*pieces, strict=True))
