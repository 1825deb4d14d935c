"""Training the laptop profile's base models from scratch: vision tower first, then executor, planner and judge.

They stand for downloads (Qwen2.5-VL, UI-TARS-1.5, a judge): made once, committed under data/checkpoints with a card, and loaded
by the same code as the real ones.  The order matters (measured while this was built): with the language-model loss alone a
tiny model learns where a label usually is, without looking; a tower trained first on what covers each patch prevents that.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import torch
from torch import nn
from transformers import Qwen2_5_VLForConditionalGeneration, get_cosine_schedule_with_warmup

from coda_lib.base_models.architecture import PATCH, configuration, processor, tokenizer
from coda_lib.base_models.rows import Row
from coda_lib.base_models.walks import Moment, typed_words, walk
from coda_lib.envs.sciencedesk.desk import HEIGHT, WIDTH
from coda_lib.envs.sciencedesk.env import ScienceDesk
from coda_lib.explore import aims
from coda_lib.models.local import ImageTextProcessor, encode
from coda_lib.trajectory import decode_image

_IGNORE = -100


def batch_of(words: ImageTextProcessor, rows: Sequence[Row]):
    """A training batch: inputs and labels, the loss on the reply and its end alone."""
    chats = [[*row.messages, {"role": "assistant", "content": [{"type": "text", "text": row.given + row.reply}]}] for row in rows]
    inputs = encode(words, chats, generate=False)
    labels = torch.full_like(inputs["input_ids"], _IGNORE)
    for i, row in enumerate(rows):
        tail = len(words.tokenizer(row.reply, add_special_tokens=False)["input_ids"]) + 2  # the reply, its end, a newline
        end = -1 if row.whole else -2
        labels[i, -tail:end] = inputs["input_ids"][i, -tail:end]
    return inputs, labels


def packed_batch(words: ImageTextProcessor, network: Qwen2_5_VLForConditionalGeneration, groups: Sequence[Sequence[Row]]):
    """A training batch of groups of rows, each about the same pictures, which stand there once, before all its questions.

    A question sees the pictures and itself, at the positions at which it would stand if it were the only one: to the model
    this is the same as a row for each question, at a fraction of the cost.
    """
    shown = encode(words, [rows[0].messages for rows in groups], generate=False)
    where, _ = network.model.get_rope_index(
        shown["input_ids"], mm_token_type_ids=shown["mm_token_type_ids"], image_grid_thw=shown["image_grid_thw"],
        attention_mask=shown["attention_mask"],
    )  # fmt: skip
    packed = [_packed(words, *each) for each in zip(groups, shown["input_ids"], where.unbind(1), strict=True)]
    longest = max(len(ids) for ids, *_ in packed)
    tokens = torch.full((len(packed), longest), words.tokenizer.pad_token_id)
    labels = torch.full_like(tokens, _IGNORE)
    positions = torch.zeros(3, len(packed), longest, dtype=torch.long)
    parts = torch.full((len(packed), longest), -1)  # 0: the pictures; k: the k-th question; -1: padding
    for i, (ids, wanted, places, part) in enumerate(packed):
        tokens[i, : len(ids)], labels[i, : len(ids)], parts[i, : len(ids)] = ids, wanted, part
        positions[:, i, : len(ids)] = places
    asked, asking = parts[:, None, :], parts[:, :, None]
    sees = ((asked == asking) | (asked == 0)) & torch.ones(longest, longest, dtype=torch.bool).tril()
    inputs = {"input_ids": tokens, "attention_mask": sees[:, None], "position_ids": positions}
    return inputs | {key: shown[key] for key in ("pixel_values", "image_grid_thw")}, labels


def _packed(
    words: ImageTextProcessor, rows: Sequence[Row], ids: torch.Tensor, where: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Token ids (n), labels (n), positions (3, n) and parts (n) of one group, of whose first question these are the ids."""
    tokens = words.tokenizer
    end = int((ids == tokens.convert_tokens_to_ids("<|vision_end|>")).nonzero()[-1]) + 1
    start = int((ids != tokens.pad_token_id).nonzero()[0])  # padding is on the left
    n = end - start
    pieces = [(ids[start:end], torch.full((n,), _IGNORE), where[:, start:end], torch.zeros(n, dtype=torch.long))]
    after = int(where[:, start:end].max()) + 1
    for k, row in enumerate(rows, 1):
        text = words.apply_chat_template(row.messages, tokenize=False, add_generation_prompt=True).rpartition("<|vision_end|>")[2]
        asked, said = (tokens(t, add_special_tokens=False)["input_ids"] for t in (text, row.reply))
        said += [tokens.eos_token_id] if row.whole else []
        n = len(asked + said)
        pieces.append(
            (torch.tensor(asked + said), torch.tensor([_IGNORE] * len(asked) + said), (after + torch.arange(n)).expand(3, -1),
             torch.full((n,), k))
        )  # fmt: skip
    return tuple(torch.cat(some, -1) for some in zip(*pieces, strict=True))


BATCH = 32  # rows a step
CELL = 14  # px; the tower is taught what covers each of the 3 x 3 cells of a patch


def collect(app: str, moments: int, seed: int) -> list[Moment]:
    """A random walk of so many moments."""
    return list(islice(walk(ScienceDesk(app).desk, random.Random(f"{app} {seed}")), moments))


def build_processor(walks: Sequence[Sequence[Moment]]) -> ImageTextProcessor:
    """Tokenizer and image processor from the walks: the words of plans, goals and screens, the pictures' own statistics."""
    rng = random.Random(0)
    corpus: list[str] = []
    for moments in walks:
        app = moments[0].app
        corpus += [moment.plan for moment in moments]
        corpus += [e.name for moment in moments[::5] for e in moment.elements]
        corpus += [aim.text for aim in aims(app)] * 20 + list(typed_words(app)) * 20
        corpus += [f"ANS {aim.value}" for aim in aims(app) if aim.goal.ask] * 10
        corpus += [aim.text[0].upper() + aim.text[1:] + " and" for aim in aims(app)] * 5
    corpus += ['{"Correctness": true, "Redundant": [1, 2], "First_Error_Step": null}', "assistant\nuser\nsystem\n"] * 50
    sample = [np.asarray(decode_image(rng.choice(rng.choice(walks)).screen), np.float32) / 255 for _ in range(200)]
    pixels = np.stack(sample).reshape(-1, 3)
    return processor(tokenizer(corpus), pixels.mean(0).round(4).tolist(), pixels.std(0).round(4).tolist())


def _fast_products() -> torch.autocast:
    """Products in bfloat16 where the processor has them (four times as fast); elsewhere they would be far slower."""
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.cpu.get_capabilities()["avx512_bf16"])


# -- vision tower --------------------------------------------------------------------------------------------------------


def _cells(moment: Moment, names: dict[str, int], texts: dict[str, int]) -> np.ndarray:
    """Labels (2, patches, 9): for each cell the class of the element on top of it, and of what that element shows."""
    grid = np.zeros((2, HEIGHT // CELL, WIDTH // CELL), np.int64)
    for element in sorted(moment.elements, key=lambda e: -e.box[2] * e.box[3]):
        x, y, w, h = element.box
        centres = (slice(round(y / CELL), max(round(y / CELL) + 1, round((y + h) / CELL))),
                   slice(round(x / CELL), max(round(x / CELL) + 1, round((x + w) / CELL))))  # fmt: skip
        grid[0][centres] = names.get(element.name, 0)
        grid[1][centres] = texts.get(element.text, 0)
    k = PATCH // CELL
    tiles = grid.reshape(2, HEIGHT // PATCH, k, WIDTH // PATCH, k).transpose(0, 1, 3, 2, 4)
    return tiles.reshape(2, -1, k * k)


def train_vision(
    network: Qwen2_5_VLForConditionalGeneration, words: ImageTextProcessor, moments: Sequence[Moment], steps: int,
    seed: int, log: Callable[[dict], None], batch: int = 32, rate: float = 1e-3,
) -> float:  # fmt: skip
    """Teach the tower what covers every cell of a screen; returns the accuracy on the cells of elements in the last steps."""
    names = _classes((e.name for m in moments for e in m.elements), 400)
    texts = _classes((e.text for m in moments for e in m.elements), 600)
    width, cells = network.config.vision_config.out_hidden_size, (PATCH // CELL) ** 2
    heads = nn.ModuleList([nn.Linear(width, cells * (len(c) + 1)) for c in (names, texts)])
    tower = network.model.visual.requires_grad_(True)
    network.set_attn_implementation("eager")
    optimizer = torch.optim.AdamW([*tower.parameters(), *heads.parameters()], lr=rate, weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, 50, steps)
    rng, right = random.Random(seed), 0.0
    unique = list({moment.screen: moment for moment in moments}.values())
    for step in range(steps):
        chosen = rng.sample(unique, min(batch, len(unique)))
        labels = torch.from_numpy(np.stack([_cells(m, names, texts) for m in chosen]))
        inputs = words.image_processor([decode_image(m.screen) for m in chosen], return_tensors="pt")
        with _fast_products():
            features = tower(inputs["pixel_values"], inputs["image_grid_thw"]).pooler_output.float()
        loss = 0.0
        for i, head in enumerate(heads):
            logits = head(features).view(labels.shape[0] * labels.shape[2] * cells, -1)
            target = labels[:, i].reshape(-1)
            weight = torch.ones(logits.shape[1])
            weight[0] = 0.1  # most cells are empty: without this the tower learns to say so
            loss = loss + nn.functional.cross_entropy(logits, target, weight)
            if i == 0:
                on = target > 0
                accuracy = (logits.argmax(-1)[on] == target[on]).float().mean().item()
        loss.backward()
        nn.utils.clip_grad_norm_(tower.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        right = accuracy if step == 0 else 0.95 * right + 0.05 * accuracy
        if step % 25 == 0 or step == steps - 1:
            log({"stage": "vision", "step": step, "loss": round(loss.item(), 4), "cell_accuracy": round(right, 4)})
    return right


def _classes(values, most: int) -> dict[str, int]:
    common = Counter(value for value in values if value).most_common(most)
    return {value: i + 1 for i, (value, _) in enumerate(common)}


# -- language ------------------------------------------------------------------------------------------------------------


def train_language(
    network: Qwen2_5_VLForConditionalGeneration, words: ImageTextProcessor, draw: Callable[[random.Random], Row | list[Row]],
    steps: int, seed: int, log: Callable[[dict], None], stage: str, batch: int = BATCH, rate: float = 1e-3,
) -> None:  # fmt: skip
    """Next-token training on rows drawn without end, alone or in groups about the same pictures (a batch is all of one kind)."""
    network.train()
    # eager is the faster one for short sequences; it does not take the masks of packed batches
    network.set_attn_implementation("eager" if stage in ("planner", "copying") else "sdpa")
    # learned with the tower, and a fifth of a step's time: only who must point at a pixel, or read, learns more of it
    network.model.visual.patch_embed.requires_grad_(stage != "planner")
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = get_cosine_schedule_with_warmup(optimizer, 60, steps)
    rng, average, start = random.Random(seed), None, time.time()
    for step in range(steps):
        drawn = [draw(rng) for _ in range(batch)]
        rows = [row for some in drawn for row in (some if isinstance(some, list) else [some])]
        packed = isinstance(drawn[0], list) and rows[0].pictures
        inputs, labels = packed_batch(words, network, drawn) if packed else batch_of(words, rows)
        with _fast_products():
            loss = network(**inputs, labels=labels).loss
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        if step % 25 == 0 or step == steps - 1:
            log({"stage": stage, "step": step, "loss": round(average, 4), "seconds": round(time.time() - start, 1)})


def new_network(words: ImageTextProcessor, seed: int) -> Qwen2_5_VLForConditionalGeneration:
    torch.manual_seed(seed)
    return Qwen2_5_VLForConditionalGeneration(configuration(words.tokenizer))
