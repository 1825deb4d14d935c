"""Chat models: replies in batches, the processor's layout, and checkpoints that are not whole."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_models import CORPUS, save_tiny, screen
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from base_models.architecture import CHAT_TEMPLATE, PATCH, tokenizer
from coda_lib.errors import UserError
from coda_lib.models.chat import Message, ReplayModel, ResizeRule, Sampling, image, text
from coda_lib.models.local import ImageTextProcessor, LocalModel, encode, load_network, load_processor

pytest_plugins = ("tiny_checkpoints",)

GREEDY = Sampling(temperature=0, max_new_tokens=8)
HOT = Sampling(temperature=1.0, top_p=1.0, max_new_tokens=8)


def ask(*parts: str | Image.Image) -> list[Message]:
    return [
        {"role": "user", "content": [text(part) if isinstance(part, str) else image(part) for part in parts]}
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> LocalModel:
    """Give a network whose replies hang on what it is asked: its weights are large."""
    return LocalModel(save_tiny(tmp_path_factory.mktemp("model") / "wild", seed=4, spread=0.5))


# ---- replies ---------------------------------------------------------------------------------------------
def test_replay_gives_recorded_replies_in_order_and_scripted_ones_by_question():
    recorded = ReplayModel(["a", "b", "c"])
    assert recorded.generate([ask("x"), ask("y")], GREEDY, 0) + recorded.generate([ask("z")], GREEDY, 0) == [
        "a",
        "b",
        "c",
    ]
    scripted = ReplayModel(lambda conversation: conversation[0]["content"][0]["text"].upper())
    assert scripted.generate([ask("x"), ask("y")], GREEDY, 0) == ["X", "Y"]


def test_who_samples_elsewhere_in_the_process_is_not_disturbed(model):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    model.generate([ask("x")], HOT, seed=1)
    assert torch.equal(torch.rand(3), expected)


def test_the_same_seed_gives_the_same_replies_and_another_seed_others(model):
    asked = [ask(screen(i), f"task {i}") for i in range(3)]
    first = model.generate(asked, HOT, 1)
    torch.rand(3)  # what else is drawn in the process does not matter
    assert model.generate(asked, HOT, 1) == first
    assert model.generate(asked, HOT, 2) != first
    assert len(first) == 3


def test_equal_questions_of_one_call_get_replies_of_their_own(model):
    model.batch_size = 2
    replies = model.generate([ask(screen(1), "task")] * 4, HOT, 1)
    model.batch_size = 64
    assert len(set(replies)) == 4


def test_top_p_and_temperature_narrow_what_is_drawn(model):
    asked = [ask(screen(1), "task")] * 6
    greedy = model.generate(asked, GREEDY, 1)
    assert len(set(greedy)) == 1 and model.generate(asked, GREEDY, 2) == greedy
    assert model.generate(asked, Sampling(1.0, 1e-6, 8), 1) == greedy
    assert model.generate(asked, Sampling(1e-4, 1.0, 8), 1) == greedy
    assert len(set(model.generate(asked, HOT, 1))) > 1


def test_a_batch_of_different_lengths_gives_the_replies_of_one_by_one(model):
    asked = [
        ask(
            screen(1), screen(2), "turn the grid on, then off, then on again and tell the colour of the axes"
        ),
        ask(screen(3), "x"),
        ask(screen(2), screen(1), "Click 'Grid'."),
        [{"role": "system", "content": [text("You plan.")]}, *ask(screen(5), "DONE")],
    ]
    alone = [model.generate([question], GREEDY, 0)[0] for question in asked]
    assert model.generate(asked, GREEDY, 0) == alone
    assert model.generate(asked[::-1], GREEDY, 0) == alone[::-1]
    assert len(set(alone)) == 4  # they do hang on the question
    model.batch_size = 3
    assert model.generate(asked, GREEDY, 0) == alone
    model.batch_size = 64


def test_the_picture_counts(model):
    def next_token(*parts) -> torch.Tensor:
        with torch.no_grad():
            return model.network(**encode(model.processor, [ask(*parts)])).logits[0, -1]

    assert torch.equal(next_token(screen(1), "x"), next_token(screen(1), "x"))
    assert not torch.allclose(next_token(screen(1), "x"), next_token(screen(2), "x"), atol=1e-4)
    assert not torch.allclose(
        next_token(screen(1), screen(2), "x"), next_token(screen(2), screen(1), "x"), atol=1e-4
    )


def test_questions_without_pictures_are_answered(model):
    alone = [model.generate([ask(words)], GREEDY, 0)[0] for words in ("x", "turn the grid on")]
    assert model.generate([ask("x"), ask("turn the grid on")], GREEDY, 0) == alone


def test_no_question_no_reply(model):
    assert model.generate([], GREEDY, 0) == []


def test_a_model_for_asking_is_frozen_and_one_for_training_is_not(tiny_planner):
    asked = LocalModel(tiny_planner).network
    assert not asked.training and not any(p.requires_grad for p in asked.parameters())
    trained = load_network(tiny_planner, trainable=True, device="cpu")
    assert trained.training and all(p.requires_grad for p in trained.parameters())


# ---- layout ----------------------------------------------------------------------------------------------
def patches(
    picture: Image.Image, patch: int, merge: int, frames: int, mean: list[float], std: list[float]
) -> np.ndarray:
    """The rows that Qwen2.5-VL's vision tower reads (patches x channel·frame·y·x), straight from the pixels.

    Patches come in blocks of merge x merge, blocks and patches within them row by row; a picture fills all
    frames.
    """
    pixels = (np.asarray(picture, dtype=np.float64) / 255 - mean) / std
    rows = []
    for top in range(0, pixels.shape[0], patch * merge):
        for left in range(0, pixels.shape[1], patch * merge):
            for y in range(top, top + patch * merge, patch):
                for x in range(left, left + patch * merge, patch):
                    piece = pixels[y : y + patch, x : x + patch].transpose(2, 0, 1)
                    rows.append(np.stack([piece] * frames, axis=1).ravel())
    return np.array(rows)


def noise(width: int, height: int, seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def test_the_tiny_processor_gives_one_token_for_four_patches(tiny_planner):
    processor = load_processor(tiny_planner)
    shots = [noise(336, 252, 1), noise(336, 252, 2), noise(84, 112, 3)]
    batch = encode(processor, [ask(shots[0], shots[1], "x"), ask(shots[2], "a longer question")])
    assert batch["image_grid_thw"].tolist() == [[1, 18, 24], [1, 18, 24], [1, 8, 6]]
    pad = processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    assert (batch["input_ids"] == pad).sum(dim=1).tolist() == [216, 12]
    expected = np.concatenate([patches(shot, PATCH, 2, 1, [0.5] * 3, [0.3] * 3) for shot in shots])
    np.testing.assert_allclose(batch["pixel_values"].numpy(), expected, atol=1e-5)
    left = batch["attention_mask"][1]
    assert left[0] == 0 and left[-1] == 1 and (left.diff() >= 0).all()  # padding is on the left


MEAN, STD = (
    [0.48145466, 0.4578275, 0.40821073],
    [0.26862954, 0.26130258, 0.27577711],
)  # of the released checkpoints


@pytest.fixture(scope="module")
def real_settings(tmp_path_factory) -> Path:
    """Give a checkpoint with the preprocessing and vision settings of the released Qwen2.5-VL, and few
    weights.
    """
    folder = tmp_path_factory.mktemp("real") / "checkpoint"
    words = tokenizer(CORPUS, vocabulary=300)
    ids = words.convert_tokens_to_ids
    config = Qwen2_5_VLConfig(
        text_config=dict(
            vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
            rope_parameters={"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 1e6},
            eos_token_id=ids("<|im_end|>"), pad_token_id=ids("<|endoftext|>"), bos_token_id=None,
        ),
        vision_config=dict(
            depth=2, hidden_size=32, intermediate_size=64, num_heads=1, patch_size=14, spatial_merge_size=2,
            temporal_patch_size=2, out_hidden_size=32, window_size=112, fullatt_block_indexes=[1],
        ),
        image_token_id=ids("<|image_pad|>"), video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"), vision_end_token_id=ids("<|vision_end|>"),
    )  # fmt: skip
    torch.manual_seed(0)
    Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    pictures = Qwen2VLImageProcessorPil(
        patch_size=14, merge_size=2, temporal_patch_size=2, image_mean=MEAN, image_std=STD,
        do_convert_rgb=True,
        size={"shortest_edge": 3136, "longest_edge": 12845056},
    )  # fmt: skip
    words.chat_template = CHAT_TEMPLATE
    ImageTextProcessor(pictures, words, CHAT_TEMPLATE).save_pretrained(folder)
    assert (
        json.loads((folder / "processor_config.json").read_text())["processor_class"] == "Qwen2_5_VLProcessor"
    )  # of others
    return folder


def test_the_processor_reads_the_settings_of_the_released_checkpoints(real_settings):
    processor = load_processor(real_settings)
    shots = [noise(112, 84, 1), noise(168, 112, 2)]
    batch = encode(processor, [ask(shots[0], "x"), ask(shots[1], "y")])
    assert batch["image_grid_thw"].tolist() == [[1, 6, 8], [1, 8, 12]]
    pad = processor.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    assert (batch["input_ids"] == pad).sum(dim=1).tolist() == [12, 24]  # four patches make one token
    expected = np.concatenate([patches(shot, 14, 2, 2, MEAN, STD) for shot in shots])
    np.testing.assert_allclose(batch["pixel_values"].numpy(), expected, atol=1e-5)
    assert encode(processor, [ask(noise(130, 100, 1), "x")])["image_grid_thw"].tolist() == [
        [1, 8, 10]
    ]  # multiples of 28


@pytest.mark.parametrize(
    "limits",
    [
        {"size": None, "min_pixels": 3136, "max_pixels": 100352},
        {"size": {"shortest_edge": 3136, "longest_edge": 100352}, "min_pixels": None, "max_pixels": None},
    ],
)
def test_image_sizes_are_read_in_every_form_that_transformers_has_written(real_settings, tmp_path, limits):
    folder = shutil.copytree(real_settings, tmp_path / "copy")
    settings = json.loads((folder / "processor_config.json").read_text())
    pictures = {name: value for name, value in settings["image_processor"].items() if name != "size"}
    settings["image_processor"] = pictures | {name: value for name, value in limits.items() if value}
    (folder / "processor_config.json").write_text(json.dumps(settings))
    processor = load_processor(folder)
    assert processor.image_processor.resize_rule((1280, 800)) == (392, 224)
    assert encode(processor, [ask(noise(1280, 800, 1), "x")])["image_grid_thw"].tolist() == [[1, 16, 28]]


@pytest.mark.parametrize("size", [(112, 84), (130, 100), (1280, 800), (640, 480)])
def test_a_model_says_at_which_size_it_sees_a_picture(real_settings, tiny_planner, size):
    for path in (real_settings, tiny_planner):
        model = LocalModel(path)
        ((_, rows, columns),) = encode(model.processor, [ask(noise(*size, 1), "x")])[
            "image_grid_thw"
        ].tolist()
        patch = model.processor.image_processor.patch_size
        assert model.resize_rule(size) == (columns * patch, rows * patch)
    assert LocalModel(real_settings).resize_rule((1280, 800)) == (1288, 812) and model.resize_rule(
        (336, 252)
    ) == (336, 252)


def test_sizes_are_seen_as_the_image_processor_computes_them():
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    rng = random.Random(0)
    for _ in range(2000):
        size, factor = (rng.randint(1, 4000), rng.randint(1, 4000)), rng.choice((14, 28, 32))
        least = rng.choice((1, 56 * 56, 256 * 28 * 28))
        most = least * rng.choice((1, 4, 100, 10000))
        if max(size) / min(size) <= 200:  # the processor refuses others
            height, width = smart_resize(size[1], size[0], factor, least, most)
            assert ResizeRule(factor, least, most)(size) == (width, height)


def test_pictures_seen_before_give_the_same_patches(real_settings, monkeypatch):
    plain = Qwen2VLImageProcessorPil.from_pretrained(real_settings)
    processor = load_processor(real_settings).image_processor
    shots = [noise(112, 84, 1), noise(168, 112, 2), noise(112, 84, 1), noise(112, 84, 3)]
    for room in (2**28, 2**28, 1):  # new, remembered, and with room for hardly one
        monkeypatch.setattr(type(processor), "_ROOM", room)
        mine, usual = (of(shots, return_tensors="pt") for of in (processor, plain))
        assert all(torch.equal(mine[key], usual[key]) for key in ("pixel_values", "image_grid_thw"))
    assert len(processor._patches) == 1
    saved = processor.to_dict()
    assert (
        saved["image_processor_type"] == "Qwen2VLImageProcessor" and json.dumps(saved).count("_patches") == 0
    )


def test_a_network_with_the_settings_of_the_released_checkpoints_answers_in_batches(real_settings):
    model = LocalModel(real_settings)
    asked = [ask(noise(112, 84, 1), noise(112, 84, 2), "turn the grid on"), ask(noise(168, 112, 2), "y")]
    assert model.generate(asked, GREEDY, 0) == [
        model.generate([question], GREEDY, 0)[0] for question in asked
    ]


def test_messages_become_chatml_with_pictures_in_their_places(tiny_planner):
    processor = load_processor(tiny_planner)
    asked = [{"role": "system", "content": [text("Plan.")]}, *ask("a", screen(1), "b")]
    ids = encode(processor, [asked])["input_ids"][0]
    pad = "<|image_pad|>" * 9
    shown = (
        "<|im_start|>system\nPlan.<|im_end|>\n"
        f"<|im_start|>user\na<|vision_start|>{pad}<|vision_end|>b<|im_end|>\n"
    )
    assert processor.tokenizer.decode(ids) == shown + "<|im_start|>assistant\n"
    assert processor.tokenizer.decode(encode(processor, [asked], generate=False)["input_ids"][0]) == shown


@pytest.mark.parametrize(
    "reply",
    [
        "click(start_box='(120,48)')", "Type 'x^2 + 1' and press Enter.", "  2 ' s",
        "type(content='a , b .\\n')",
        "ANS 6.02e23 ± µ",
    ],
)  # fmt: skip
def test_the_tiny_tokenizer_keeps_every_character_of_a_reply(tiny_planner, reply):
    words = load_processor(tiny_planner).tokenizer
    assert words.decode(words(reply)["input_ids"], skip_special_tokens=True) == reply


# ---- checkpoints that are not whole ----------------------------------------------------------------------
def lose_a_weight(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def cut(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:1000])


def leave_a_pointer(folder: Path) -> None:
    (folder / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    )


def edit_config(**changes: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def pickle_weights(folder: Path) -> None:
    """Whole weights as a pickle, in the file that transformers would take."""
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def widen(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["text_config"]["intermediate_size"] *= 2
    path.write_text(json.dumps(config))


def defaults_of_a_larger_network(folder: Path) -> None:
    """Without its sizes a configuration is that of 72 billion parameters, which must not be made."""
    (folder / "config.json").write_text('{"model_type": "qwen2_5_vl"}')


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (shutil.rmtree, "no checkpoint at"),
        (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "processor"),
        (lambda folder: (folder / "processor_config.json").unlink(), "processor"),
        (lose_a_weight, "is partial: .*norm.weight is missing"),
        (cut("model.safetensors"), "cannot load the checkpoint"),
        (cut("config.json"), "cannot load the checkpoint"),
        (cut("tokenizer.json"), "processor"),
        (leave_a_pointer, "cannot load the checkpoint"),
        (pickle_weights, "cannot load the checkpoint.*model.safetensors"),
        (widen, "cannot load the checkpoint"),
        (lambda folder: (folder / "chat_template.jinja").unlink(), "has no chat template"),
        (lambda folder: (folder / "chat_template.jinja").write_text("{% if"), "chat template"),
        (
            defaults_of_a_larger_network,
            "config.json describes [0-9,]{10,} parameters, and the weights have [0-9,]+",
        ),
        (
            edit_config(model_type="bert", architectures=["BertModel"]),
            "holds a bert model; the kit needs .*qwen2_5_vl",
        ),
        (edit_config(model_type="qwen2_vl"), "holds a qwen2_vl model"),
        (edit_config(model_type="no_such_model"), "cannot load the checkpoint.*no_such_model"),
    ],
)
def test_a_checkpoint_that_is_not_whole_is_one_clear_message(tiny_planner, tmp_path, damage, named):
    folder = tmp_path / "checkpoint"
    shutil.copytree(tiny_planner, folder)
    LocalModel(folder)  # whole
    damage(folder)
    with pytest.raises(UserError, match=f"(?s){named}") as caught:
        LocalModel(folder)
    assert str(folder) in str(caught.value)


def test_training_needs_a_whole_checkpoint_too(tiny_planner, tmp_path):
    folder = tmp_path / "checkpoint"
    shutil.copytree(tiny_planner, folder)
    lose_a_weight(folder)
    with pytest.raises(UserError, match="is partial"):
        load_network(folder, trainable=True, device="cpu")


def test_patches_are_embedded_as_by_the_convolution(model):
    patches = model.network.model.visual.patch_embed
    pixels = torch.randn(10, patches.proj.weight[0].numel())
    torch.testing.assert_close(patches(pixels), type(patches).forward(patches, pixels), rtol=1e-4, atol=1e-3)
