"""Rows as items: the tokens of the real prompts, pictures encoded once, replies learned."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from base_models.learning import Encoded, compile_layers, exact, item_of, packed, train_language
from base_models.letters import processor
from base_models.network import Pointer
from base_models.packing import NOWHERE
from base_models.plain import joined
from base_models.rows import Row, swap_pictures
from base_models.seeing import Reader
from base_models.training_tasks import planned_row, text_row
from coda_lib.models.local import encode


def picture(seed: int, size: tuple[int, int] = (336, 252)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), np.uint8))


@pytest.fixture(scope="module")
def pointer():
    torch.manual_seed(1)
    return Pointer(Reader(), len(processor().tokenizer))


ROWS = {
    "two pictures": planned_row("grid on", ["Click 'View'."], "Click 'Grid'.", picture(1), picture(2)),
    "no picture": text_row("type 12", [], "Type '12'."),
    "a part": Row(
        [{"role": "user", "content": [
            {"type": "text", "text": "It shows "}, {"type": "image", "image": picture(3, (105, 63))},
            {"type": "text", "text": " at the end."}]}],
        '{"Correctness": true, ', whole=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_an_item_is_the_prompt_of_transformers_and_gives_its_logits(pointer, name):
    row = ROWS[name]
    network = joined(pointer.reader.tower, pointer.language, processor().tokenizer).eval()
    reply = {"role": "assistant", "content": [{"type": "text", "text": row.reply}]}
    inputs = encode(processor(), [[*row.messages, reply]], generate=False)
    batch = packed([item_of([row])])
    ids = [*batch.shared.ids[0].tolist(), *batch.asked.ids[0].tolist()]
    assert inputs["input_ids"][0].tolist()[: len(ids)] == ids
    assert len(inputs["input_ids"][0]) - len(ids) == (
        1 if row.whole else 2
    )  # a newline; the end is not learned
    learned = [token for token in batch.labels[0].tolist() if token != NOWHERE]
    assert processor().tokenizer.decode(learned) == row.reply + "<|im_end|>" * row.whole
    with torch.no_grad():
        states, *_ = pointer.states(batch, batch.asked.ids)
        theirs = network(**inputs).logits[:, batch.shared.ids.shape[1] : len(ids)]
    assert torch.allclose(theirs, pointer.language.logits(states), atol=2e-3)


def test_rows_about_the_same_pictures_are_told_as_if_each_stood_alone(pointer):
    ask = ("turn the grid on", "turn the axes off and the grid on")
    rows = [planned_row(text, [], f"Click '{text}'.", picture(1), picture(2)) for text in ask]
    together = packed([item_of(rows)])
    assert len(together.shared.ids) == 1 and len(together.asked.ids) == 2
    encoded = Encoded(pointer.reader.tower)
    with torch.no_grad():
        both, *_ = pointer.states(together, together.asked.ids)
        for row, states in zip(rows, both, strict=True):
            alone = encoded(packed([item_of([row])]))
            (own,), *_ = pointer.states(alone, alone.asked.ids)
            end = len(own) - together.shared.ids.shape[1] + alone.shared.ids.shape[1]
            assert torch.allclose(own, states[end - len(own) : end], atol=1e-4)


def test_a_picture_is_encoded_once(pointer, monkeypatch):
    encoded, calls = Encoded(pointer.reader.tower), []
    forward = pointer.reader.tower.forward
    monkeypatch.setattr(
        pointer.reader.tower, "forward", lambda pixels: calls.append(len(pixels)) or forward(pixels)
    )
    row = ROWS["two pictures"]
    for seeds in ((1, 2), (2, 1), (1, 1), (1, 3)):
        pictures = iter(map(picture, seeds))
        encoded(packed([item_of([swap_pictures(row, pictures.__next__)])]))
    assert calls == [2, 1]


def test_heads_are_shown_where_to_look_in_either_picture_and_what_to_copy_after_them():
    plain = planned_row("grid on", ["Click 'View'."], "Click 'Grid'.", picture(1), picture(2))
    image = processor().tokenizer.convert_tokens_to_ids("<|image_pad|>")
    text = plain.messages[-1]["content"][-1]["text"]
    row = replace(plain, read=((0, 1, [5], -2), (7, 1, [9], -1)), copied=((7, text.index("grid"), 4),))
    batch = packed([item_of([row])])
    ids = torch.cat((batch.shared.ids[0], batch.asked.ids[0]))
    pictures = (ids == image).nonzero()[:, 0]
    begins = [pictures[0].item(), pictures[192].item()]
    where = batch.finding.where
    assert [place.nonzero()[:, 0].tolist() for place in where[[0, -1]]] == [[begins[0] + 5], [begins[1] + 9]]
    copied = batch.spelling.where
    letters = processor().tokenizer.decode([ids[place.nonzero()[0, 0]] for place in copied])
    assert letters == "grid"


def test_replies_are_learned_and_the_tower_stands_still(tmp_path):
    torch.manual_seed(2)
    pointer = Pointer(Reader(), len(processor().tokenizer))
    tower = [weight.detach().clone() for weight in pointer.reader.parameters()]
    rows = [
        planned_row(f"show {name}", [], f"Click '{name}'.", picture(1), picture(2)) for name in ("x", "y")
    ]
    assert exact(pointer, rows) < 1
    train_language(
        tmp_path, "trial", pointer, lambda rng: [[rng.choice(rows)] for _ in range(4)], {"exact": rows}, 200
    )
    assert exact(pointer, rows) == 1
    assert all(torch.equal(one, other.float()) for one, other in
               zip((w.to(w2.dtype).float() for w, w2 in zip(tower, pointer.reader.parameters(), strict=True)),
                   pointer.reader.parameters(), strict=True))  # fmt: skip


@pytest.mark.skipif(not shutil.which("g++"), reason="no compiler")
def test_compiled_layers_learn_the_same():
    torch.manual_seed(3)
    pointer = Pointer(Reader(), len(processor().tokenizer))

    def learned() -> list[torch.Tensor]:
        batch = packed([item_of([row]) for row in ROWS.values()])
        pointer.zero_grad()
        pointer.losses(batch)["reply"].backward()
        return [weight.grad.clone() for weight in pointer.language.parameters()]

    before, layer = learned(), pointer.language.layers[0]
    compile_layers([layer])
    assert "forward" in vars(layer)
    for one, other in zip(before, learned(), strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_without_a_compiler_layers_stay_as_they_are(monkeypatch):
    def none(*_, **__):
        raise RuntimeError("no working C++ compiler\nmore")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: none)
    layer = torch.nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="not compiled: no working C"):
        compile_layers([layer])
    assert "forward" not in vars(layer)


def test_texts_without_pictures_go_with_those_that_have_some(pointer):
    rows = [text_row("enter it", [], "Type 'sin(x)'."), *ROWS.values()]
    losses = pointer.losses(packed([item_of([row]) for row in rows]))
    assert torch.isfinite(losses["reply"]) and exact(pointer, rows) == 0


def test_what_texts_have_in_common_stands_there_once(pointer):
    rows = [
        text_row(f"first this, then {what}", ["Click 'View'."], f"Click '{what}'.") for what in ("a", "b")
    ]
    together, alone = packed([item_of(rows)]), packed([item_of(rows[:1])])
    text = processor().tokenizer.decode(together.shared.ids[0])
    assert text.endswith("first this, then ") and len(alone.asked.ids[0]) < len(together.asked.ids[0])
    with torch.no_grad():
        (first, _), *_ = pointer.states(together, together.asked.ids)
        (own,), *_ = pointer.states(alone, alone.asked.ids)
    ends = [int((batch.labels[0] != NOWHERE).nonzero().max()) + 1 for batch in (together, alone)]
    assert torch.allclose(first[ends[0] - ends[1] : ends[0]], own[: ends[1]], atol=1e-4)
