"""Training the laptop's base models from scratch: the vision tower first, then language.

The networks stand for downloads (Qwen2.5-VL, UI-TARS-1.5, a judge).  They are trained once, committed under data/checkpoints with
a card each, and loaded by the same code as the real ones.  The order matters (measured): with the language-model loss alone a
tiny model learns where a label usually is, without looking; a tower that has learned what covers each patch prevents that.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import Qwen2_5_VLForConditionalGeneration as Network
from transformers import get_cosine_schedule_with_warmup

from coda_lib.base_models.architecture import PATCH, TOKEN, configuration, processor, tokenizer
from coda_lib.base_models.lessons import lessons
from coda_lib.base_models.rows import Row
from coda_lib.base_models.sources import BATCH, Source, Walks
from coda_lib.base_models.walks import Transition, typed_words
from coda_lib.envs.sciencedesk.desk import HEIGHT, WIDTH
from coda_lib.models.local import ImageTextProcessor, encode
from coda_lib.trajectory import decode_image

CELLS = (TOKEN // PATCH) ** 2  # patches of an image token; the tower learns what covers each of them
_SCREENS = 32  # screens a step of the vision tower
_CROWDED = 0.6  # share of screens with lists or drawn objects among them
_CLASSES = 1_400  # names that the tower tells apart, and as many texts
_IGNORE = -100

Log = Callable[[dict[str, Any]], None]
Batch = tuple[dict[str, torch.Tensor], torch.Tensor]  # inputs of the network, and labels


def build_processor(walks: Walks) -> ImageTextProcessor:
    """Tokenizer and image processor of the walks: the texts of plans, goals and screens, the screens' own mean and deviation."""
    rng = random.Random(0)
    corpus: list[str] = []
    for walk in walks:
        app = walk[0].app
        corpus += [transition.plan for transition in walk]
        corpus += [e.name for transition in walk[::5] for e in transition.elements]
        corpus += [task.instruction for _, task in lessons(app)] * 2 + list(typed_words(app)) * 2
        corpus += [f"ANS {task.ans}" for _, task in lessons(app) if task.ans] * 2
    corpus += ['{"Correctness": true, "Redundant": [1, 2], "First_Error_Step": null}', "assistant\nuser\nsystem\n"] * 50
    sample = [np.asarray(decode_image(rng.choice(rng.choice(walks)).screen), np.float32) / 255 for _ in range(200)]
    pixels = np.stack(sample).reshape(-1, 3)
    return processor(tokenizer(corpus), pixels.mean(0).round(4).tolist(), pixels.std(0).round(4).tolist())


def new_network(words: ImageTextProcessor, seed: int) -> Network:
    """An untrained network for the processor's vocabulary."""
    torch.manual_seed(seed)
    return Network(configuration(words.tokenizer))


def _learner(trained: Iterable[nn.Parameter], clipped: Iterable[nn.Parameter], warm_up: int, steps: int, **options: Any):
    """A function that takes an optimizer step on a loss; the gradient of the `clipped` parameters has at most norm 1."""
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.01, **options)
    schedule = get_cosine_schedule_with_warmup(optimizer, warm_up, steps)
    clipped = list(clipped)

    def learn(loss: torch.Tensor) -> None:
        loss.backward()
        nn.utils.clip_grad_norm_(clipped, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    return learn


def _fast_products() -> torch.autocast:
    """Products in bfloat16 where the processor has them (four times as fast); elsewhere they would be far slower."""
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu.get_capabilities()["avx512_bf16"])


# -- vision tower --------------------------------------------------------------------------------------------------------


def train_vision(
    words: ImageTextProcessor, network: Network, log: Log, walk: Sequence[Transition], steps: int, seed: int
) -> float:
    """Teach the tower what covers every cell of a screen; returns the accuracy on the cells of elements in the last steps.

    Rare names weigh more than those that are on every screen, and most screens have lists or drawn objects: what a task asks for
    is among these.
    """
    names = Counter(e.name for t in walk for e in t.elements)
    texts = Counter(e.text for t in walk for e in t.elements)
    classes = [_classes(names), _classes(texts)]
    weights = [_weights(names, classes[0]), torch.ones(len(classes[1]) + 1)]
    heads = nn.ModuleList([nn.Linear(network.config.vision_config.out_hidden_size, CELLS * len(w)) for w in weights])
    tower = network.model.visual.requires_grad_(True)
    network.set_attn_implementation("sdpa")
    learn = _learner([*tower.parameters(), *heads.parameters()], tower.parameters(), 50, steps)
    rng, chance, average = random.Random(seed), torch.Generator().manual_seed(seed), None
    screens = list({transition.screen: transition for transition in walk}.values())
    crowded = [t for t in screens if sum(e.role in ("row", "target") for e in t.elements) > 3]
    for step in range(steps):
        batch = [rng.choice(crowded if crowded and rng.random() < _CROWDED else screens) for _ in range(_SCREENS)]
        inputs = words.image_processor([decode_image(t.screen) for t in batch], return_tensors="pt")
        with _fast_products():
            features = tower(inputs["pixel_values"], inputs["image_grid_thw"]).pooler_output.float()
        targets = torch.from_numpy(np.stack([_cells(t, *classes) for t in batch])).transpose(0, 1).reshape(2, -1, CELLS)
        of_names, of_texts = map(partial(_cell_loss, features, chance), heads, targets, weights)
        loss, right = of_names[0] + of_texts[0], of_names[1]
        learn(loss)
        average = right if average is None else 0.95 * average + 0.05 * right
        if step % 25 == 0 or step == steps - 1:
            log({"stage": "vision", "step": step, "loss": round(loss.item(), 4), "cell_accuracy": round(average, 4)})
    return average


def _cell_loss(
    features: torch.Tensor, chance: torch.Generator, head: nn.Linear, target: torch.Tensor, weights: torch.Tensor
) -> tuple[torch.Tensor, float]:
    """Mean weighted loss, and the share of right classes, of the covered cells of `target` (tokens x CELLS).

    Of the empty cells, which are most, a tenth is drawn: else the tower would learn to say so.
    """
    drawn = (target > 0) | (torch.rand(target.shape, generator=chance) < 0.1)
    token, cell = drawn.nonzero(as_tuple=True)
    order = cell.argsort()
    token, cell = token[order], cell[order]
    label = target[token, cell]
    of_cell = zip(head.weight.view(CELLS, -1, head.in_features), head.bias.view(CELLS, -1),
                  features[token].split(cell.bincount(minlength=CELLS).tolist()), strict=True)  # fmt: skip
    with _fast_products():
        logits = torch.cat([nn.functional.linear(some, weight, bias) for weight, bias, some in of_cell]).float()
    covered = label > 0
    right = (logits.argmax(-1) == label)[covered].float().mean().item()
    return nn.functional.cross_entropy(logits, label, weights), right


def _classes(counts: Counter[str]) -> dict[str, int]:
    """The most frequent of these texts, numbered from 1."""
    return {value: i for i, (value, _) in enumerate(((v, n) for v, n in counts.most_common(_CLASSES + 1) if v), 1)}


def _weights(counts: Counter[str], classes: dict[str, int]) -> torch.Tensor:
    """By class one over the root of its frequency, 1 on average over what is seen; of class 0, nothing, 1."""
    seen = torch.tensor([counts[value] for value in classes], dtype=torch.float)
    rarity = (seen.max() / seen).sqrt().clamp(max=20)
    return torch.cat([torch.ones(1), rarity * seen.sum() / (rarity * seen).sum()])


def _cells(transition: Transition, names: dict[str, int], texts: dict[str, int]) -> np.ndarray:
    """Labels (2, tokens, CELLS): for each cell the classes of the name and the text of the element on top."""
    grid = np.zeros((2, HEIGHT // PATCH, WIDTH // PATCH), np.int64)
    for element in sorted(transition.elements, key=lambda e: -e.box[2] * e.box[3]):
        x, y, w, h = element.box
        centres = (slice(round(y / PATCH), max(round(y / PATCH) + 1, round((y + h) / PATCH))),
                   slice(round(x / PATCH), max(round(x / PATCH) + 1, round((x + w) / PATCH))))  # fmt: skip
        grid[0][centres] = names.get(element.name, 0)
        grid[1][centres] = texts.get(element.text, 0)
    k = TOKEN // PATCH
    tiles = grid.reshape(2, HEIGHT // TOKEN, k, WIDTH // TOKEN, k).transpose(0, 1, 3, 2, 4)
    return tiles.reshape(2, -1, CELLS)


# -- language ------------------------------------------------------------------------------------------------------------


def train_language(
    words: ImageTextProcessor, network: Network, log: Log, stage: str, draw: Source, steps: int, seed: int, batch: int = BATCH
) -> None:
    """Next-token training on the rows of a source, single ones or lists about the same pictures (a batch is all of one kind)."""
    network.train()
    # eager is faster for short sequences; it does not take the masks of packed batches
    network.set_attn_implementation("eager" if stage in ("planner", "copying") else "sdpa")
    # learned with the tower, and a fifth of a step's time: only pointing at a pixel and reading need more of it
    network.model.visual.patch_embed.requires_grad_(stage != "planner")
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    learn = _learner(trained, trained, 60, steps, betas=(0.9, 0.98))
    rng, average, start = random.Random(seed), None, time.time()
    for step in range(steps):
        drawn = [draw(rng) for _ in range(batch)]
        rows = [row for one in drawn for row in (one if isinstance(one, list) else [one])]
        packed = isinstance(drawn[0], list) and rows[0].pictures
        inputs, labels = packed_batch(words, network, drawn) if packed else batch_of(words, rows)
        with _fast_products():
            loss = network(**inputs, labels=labels).loss
        learn(loss)
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        if step % 25 == 0 or step == steps - 1:
            log({"stage": stage, "step": step, "loss": round(average, 4), "seconds": round(time.time() - start, 1)})


def batch_of(words: ImageTextProcessor, rows: Sequence[Row]) -> Batch:
    """Inputs and labels of single rows; the loss is on the reply and its end alone."""
    chats = [[*row.messages, {"role": "assistant", "content": [{"type": "text", "text": row.given + row.reply}]}] for row in rows]
    inputs = encode(words, chats, generate=False)
    labels = torch.full_like(inputs["input_ids"], _IGNORE)
    for i, row in enumerate(rows):
        tail = len(words.tokenizer(row.reply, add_special_tokens=False)["input_ids"]) + 2  # the reply, its end, a newline
        end = -1 if row.whole else -2
        labels[i, -tail:end] = inputs["input_ids"][i, -tail:end]
    return inputs, labels


def packed_batch(words: ImageTextProcessor, network: Network, lists: Sequence[Sequence[Row]]) -> Batch:
    """Inputs and labels of lists of rows; the pictures of a list stand there once, before all its questions.

    A question sees the pictures and itself, at the positions that it has in a row of its own: to the model this is the same as a
    row for each question, at a fraction of the cost.
    """
    first = encode(words, [rows[0].messages for rows in lists], generate=False)
    starts, _ = network.model.get_rope_index(
        first["input_ids"], mm_token_type_ids=first["mm_token_type_ids"], image_grid_thw=first["image_grid_thw"],
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
    """Token ids (n), labels (n), positions (3, n) and parts (n) of a list of rows; `ids` and `positions` are the first row's."""
    tokens = words.tokenizer
    end = int((ids == tokens.convert_tokens_to_ids("<|vision_end|>")).nonzero()[-1]) + 1
    start = int((ids != tokens.pad_token_id).nonzero()[0])  # padding is on the left
    n = end - start
    pieces = [(ids[start:end], torch.full((n,), _IGNORE), positions[:, start:end], torch.zeros(n, dtype=torch.long))]
    after = int(positions[:, start:end].max()) + 1
    for k, row in enumerate(rows, 1):
        text = words.apply_chat_template(row.messages, tokenize=False, add_generation_prompt=True).rpartition("<|vision_end|>")[2]
        prompt, reply = (tokens(t, add_special_tokens=False)["input_ids"] for t in (text, row.reply))
        reply += [tokens.eos_token_id] if row.whole else []
        n = len(prompt + reply)
        pieces.append(
            (torch.tensor(prompt + reply), torch.tensor([_IGNORE] * len(prompt) + reply), (after + torch.arange(n)).expand(3, -1),
             torch.full((n,), k))
        )  # fmt: skip
    return tuple(torch.cat(piece, -1) for piece in zip(*pieces, strict=True))
