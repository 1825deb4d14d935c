"""Learning language: rows about pictures become items, and a network learns their replies.

What a network says of pictures rests on what its tower has learned to read (`pointing`), so the tower may
stand still here: then each picture is encoded once.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from os.path import commonprefix
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from base_models.feeding import ON_GPU
from base_models.letters import processor
from base_models.network import Pointer, weighted
from base_models.packing import NOWHERE, Item, Packed, Pictures, Question, Shown, pack
from base_models.plain import Tower
from base_models.rows import Row, Rows
from base_models.seeing import normalised, train

IMAGE, SEEN = "<|image_pad|>", "<|vision_end|>"
Draw = Callable[[Random], Sequence[Rows]]  # a batch
KEPT = 20_000  # encoded pictures: 1 GB
LONG = 1_000  # steps: the two minutes that a compiler takes are won back


class Encoded:
    """Batches with their pictures as a tower that stands still sees them, each encoded once.

    On a GPU, where this takes less than finding them again, they are not kept; nor is what is drawn once:
    pages, and parts of screens that have a place.
    """

    def __init__(self, tower: Tower):
        self.tower = tower
        self._kept: dict[bytes, Tensor] = {}

    def __call__(self, batch: Packed) -> Packed:
        return replace(batch, pictures=[self._encoded(group) for group in batch.pictures])

    @torch.no_grad()
    def _encoded(self, group: Pictures) -> Pictures:
        none = group.lettered[:0]
        if ON_GPU or len(group.lettered) or (group.places != NOWHERE).any():
            return replace(group, tokens=self.tower(normalised(group.pixels))[1], lettered=none)
        if len(self._kept) > KEPT:
            self._kept.clear()
        keys = [_key(picture.numpy()) for picture in group.pixels]
        new = list({key: i for i, key in enumerate(keys) if key not in self._kept}.values())
        if new:
            tokens = self.tower(normalised(group.pixels[new]))[1]
            self._kept |= zip([keys[i] for i in new], tokens, strict=True)
        return replace(group, tokens=torch.stack([self._kept[key] for key in keys]), lettered=none)


def _key(pixels: np.ndarray) -> bytes:
    return hashlib.blake2b(pixels.tobytes() + repr(pixels.shape).encode(), digest_size=16).digest()


def item_of(rows: Rows) -> Item:
    """The item of rows about the same pictures: these stand there once, before all questions.

    So does the text after them as far as it is the same for all.
    """
    texts = [_processor().apply_chat_template(row.messages, tokenize=False, add_generation_prompt=True)
             for row in rows]  # fmt: skip
    before, marker, _ = texts[0].rpartition(SEEN)
    first, *others = before.split(IMAGE) if marker else [texts[0][: texts[0].index("\n") + 1]]
    shared: list[list[int] | Shown] = [_encode(first)]
    pictures = rows[0].pictures
    for picture, place, text in zip(pictures, rows[0].places or [None] * len(pictures), others, strict=True):
        shared += [Shown(np.asarray(picture), place), _encode(text)]
    if marker:
        shared[-1] += _encode(marker)
    begin = len(before) + len(marker) if marker else len(first)
    prompts = [_encode(text[begin:]) for text in texts]
    common = len(commonprefix([prompt[:-1] for prompt in prompts]))
    starts = _starts(shared)
    at = _length(shared) - (_length(shared[:1]) if starts else 0)  # counted from the first picture
    shared[-1] += prompts[0][:common]
    questions = []
    for row, text, prompt in zip(rows, texts, prompts, strict=True):
        end = _processor().tokenizer.eos_token if row.whole else ""
        find, spell = _looked(row, starts), _lettered(row, starts) | _spelled(row, text[begin:], at, common)
        questions.append(Question(prompt[common:], _encode(row.reply + end), find=find, spell=spell))
    return Item(shared, questions)


def _length(shared: Sequence[list[int] | Shown]) -> int:
    return sum(np.prod(part.grid) if isinstance(part, Shown) else len(part) for part in shared)


def _starts(shared: Sequence[list[int] | Shown]) -> list[int]:
    """Where the tokens of each picture begin, counted from the first one."""
    first = len(shared[0])
    return [_length(shared[:i]) - first for i, part in enumerate(shared) if isinstance(part, Shown)]


def _looked(row: Row, starts: Sequence[int]) -> dict[int, Sequence[int]]:
    """By tokens of a reply those of the pictures that show what is read next."""
    begun = begins(row.reply) if row.read else {}
    return {begun[at] - 1: [starts[picture] + token for token in tokens]
            for first, length, tokens, picture in row.read if tokens
            for at in range(first, first + length) if at in begun}  # fmt: skip


def _lettered(row: Row, starts: Sequence[int]) -> dict[int, list[int]]:
    """By tokens of a reply that of a picture which shows the letter that follows."""
    begun = begins(row.reply) if row.letters else {}
    return {begun[at] - 1: [starts[picture] + token] for at, token, picture in row.letters if at in begun}


def begins(text: str) -> dict[int, int]:
    """Numbers of a text's tokens by the letters that they begin with."""
    found = _processor().tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return {start: number for number, (start, _) in enumerate(found["offset_mapping"])}


def _spelled(row: Row, prompt: str, first: int, common: int) -> dict[int, list[int]]:
    """By tokens of a reply those of which one is copied next.

    The first `common` tokens of the prompt are of what all rows of an item share, `first` on.
    """
    if not row.copied:
        return {}
    *_, text = (part.get("text") for message in row.messages for part in message["content"])
    offset, ends = prompt.index(text), (begins(row.reply), begins(prompt))
    spelled: dict[int, list[int]] = defaultdict(list)
    for in_reply, in_text, length in row.copied:
        for k in range(length):
            to, of = ends[0].get(in_reply + k), ends[1].get(offset + in_text + k)
            if to is not None and of is not None:
                spelled[to - 1].append(first + of if of < common else ~(of - common))
    return spelled


@cache
def _processor() -> Any:
    return processor()


def _encode(text: str) -> list[int]:
    return _processor().tokenizer(text, add_special_tokens=False)["input_ids"]


def packed(items: Sequence[Item]) -> Packed:
    tokenizer = _processor().tokenizer
    return pack(items, tokenizer.convert_tokens_to_ids(IMAGE), tokenizer.pad_token_id)


def train_language(
    folder: Path, stage: str, pointer: Pointer, draw: Draw, unseen: Mapping[str, Sequence[Row]], steps: int,
    rate: float = 1e-3, seed: int = 0,
) -> None:  # fmt: skip
    """Teach the language model the replies of a sampler; tower and probe stand still.  Goes on where it was.

    Writes STAGE.pt and STAGE.jsonl, which has the shares of `unseen` rows, by kind, that are replied to
    exactly.
    """
    torch.manual_seed(seed)
    pointer.reader.requires_grad_(False)
    if steps >= LONG:
        compile_layers([*pointer.language.layers, *pointer.reader.tower.blocks])
    encoded = Encoded(pointer.reader.tower)

    def drawn(rng: Random) -> Packed:
        return packed([item_of(rows) for rows in draw(rng)])

    def loss_of(batch: Packed) -> tuple[Tensor, dict[str, Tensor]]:
        losses = pointer.losses(encoded(batch))
        return weighted({name: loss for name, loss in losses.items() if name != "place"})

    def measure() -> dict[str, float]:
        return {kind: exact(pointer, rows) for kind, rows in unseen.items() if rows}

    train(folder, stage, pointer, drawn, loss_of, measure, steps, rate, seed)


def compile_layers(layers: Sequence[nn.Module]) -> None:
    """Have each layer's small operations made into few; where none can be compiled it says so.

    On processors that multiply matrices fast (AMX) most of a step are passes over memory: the planner's takes
    1.0 s in place of 1.7.  Elsewhere a tenth is saved.
    """
    if ON_GPU:
        return
    try:
        torch.compile(lambda x: x.sin() + 1)(torch.ones(2))
    except RuntimeError as error:  # no compiler, or no headers of Python
        warnings.warn(f"layers are not compiled: {str(error).splitlines()[0]}", stacklevel=2)
        return
    torch._dynamo.config.recompile_limit = 64  # with and without gradients, with and without a mask
    for layer in layers:
        layer.forward = torch.compile(layer.forward, dynamic=True)


def exact(pointer: Pointer, rows: Sequence[Row], at_once: int = 20) -> float:
    """The share of rows whose reply is the most likely one, token by token."""
    right = []
    for i in range(0, len(rows), at_once):
        batch = packed([item_of([row]) for row in rows[i : i + at_once]])
        right += pointer.told(batch).all(-1).tolist()
    return round(float(np.mean(right)), 4)
