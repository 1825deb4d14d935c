"""From rows to the tensors that the base models train on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from coda_lib.base_models.rows import Row
from coda_lib.models.local import ImageTextProcessor, encode

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
