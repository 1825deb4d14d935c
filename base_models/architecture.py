"""Tiny models of the real architecture: Qwen2.5-VL's configuration, tokenizer and image processor."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig

from coda_lib.models.local import ImageTextProcessor, ScreenshotProcessor

PATCH = 14  # px, as in Qwen2.5-VL: a letter or two of the applications' names
TOKEN = 28  # px, as in Qwen2.5-VL: 2 x 2 patches; 12 x 9 = 108 image tokens for a 336 x 252 screenshot
# of a picture, at least and at most: a pixel more than a window has, for with none to spare rounding makes
# 336 x 224 of 640 x 480
PIXELS = {"shortest_edge": TOKEN * TOKEN, "longest_edge": 336 * 252 + 1}
GRID = 4  # px; coordinates are written on this grid, so that each is one token
_SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>",
)  # fmt: skip
# Frequent pieces of the action grammar and of plans as one token each: fewer tokens to generate, the text is
# the same.
_PIECES = (
    "click(start_box='(", "left_double(start_box='(", "right_single(start_box='(", "drag(start_box='(",
    ")', end_box='(", "scroll(start_box='(", ")', direction='", "hotkey(key='", "type(content='", "\\n')",
    ")')", "')", "finished()", "wait()", "call_user()", "Click '", "Double-click '", "Right-click '",
    "Drag '", "' to '", "Type '", "' and press Enter.", "Press '", "Scroll ", " on '", "'.", "ANS ", "DONE",
    "FAIL", "WAIT", '{"Correctness": true, ', '{"Correctness": false, ', '"Redundant": [',
    '], "First_Error_Step": ', "null}",
)  # fmt: skip
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c['text'] "
    "}}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer(corpus: Iterable[str], vocabulary: int = 900) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of this corpus; grammar pieces and numbers of the grid are single tokens."""
    raw = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Sequence(list(pieces)), decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    options = dict(vocab_size=vocabulary, special_tokens=list(_SPECIAL), initial_alphabet=alphabet)
    raw.train_from_iterator(corpus, trainers.BpeTrainer(**options))
    numbers = [str(n) for n in range(8, 340, GRID)]
    raw.add_tokens([AddedToken(piece, normalized=False) for piece in (*_PIECES, *numbers)])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left",
        chat_template=CHAT_TEMPLATE, model_max_length=4096,
    )  # fmt: skip


def processor(tokenizer: PreTrainedTokenizerFast, mean: list[float], std: list[float]) -> ImageTextProcessor:
    """Screenshots are normalised by their own statistics: photos' constants hide almost white screens."""
    pictures = ScreenshotProcessor(
        patch_size=PATCH, merge_size=TOKEN // PATCH, temporal_patch_size=1, image_mean=mean, image_std=std,
        size=PIXELS,
    )  # fmt: skip
    return ImageTextProcessor(pictures, tokenizer, CHAT_TEMPLATE)


def configuration(
    tokenizer: PreTrainedTokenizerFast, width: int = 128, layers: int = 4, vision_layers: int = 3
) -> Qwen2_5_VLConfig:
    """Qwen2.5-VL with heads of 32 and full attention in the vision tower."""
    ids = tokenizer.convert_tokens_to_ids
    text = dict(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers,
        num_attention_heads=width // 32, num_key_value_heads=width // 32, max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10000.0},
        bos_token_id=None, eos_token_id=ids("<|im_end|>"), pad_token_id=ids("<|endoftext|>"),
        tie_word_embeddings=True,
    )  # fmt: skip
    vision = dict(
        depth=vision_layers, hidden_size=width, intermediate_size=3 * width, num_heads=width // 32,
        patch_size=PATCH, spatial_merge_size=TOKEN // PATCH, temporal_patch_size=1, out_hidden_size=width,
        window_size=TOKEN * 8, fullatt_block_indexes=list(range(vision_layers)),
    )  # fmt: skip
    return Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True,
        image_token_id=ids("<|image_pad|>"), video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"), vision_end_token_id=ids("<|vision_end|>"),
    )  # fmt: skip
