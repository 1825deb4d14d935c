"""The tokenizer of networks that read: letters are tokens, and so are the pieces of the action grammar.

A name that no training showed is letters like any other.  Coordinates are tokens with what stands around them
in the grammar, so that digits of values stay letters.
"""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from base_models.architecture import CHAT_TEMPLATE, GRID, PIXELS
from base_models.plain import DEVIATION, MEAN, MERGE, PATCH
from coda_lib.models.local import ImageTextProcessor, ScreenshotProcessor
from sciencedesk.desk.widgets import WIDTH

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>",
)  # fmt: skip
_PIECES = (
    "user\n", "assistant\n", "click(start_", "left_double(start_", "right_single(start_", "drag(start_",
    "', end_", "scroll(start_", "', direction='", "hotkey(key='", "type(content='", "\\n')", "')",
    "finished()", "wait()", "call_user()", "Click '", "Double-click '", "Right-click '", "Drag '", "' to '",
    "Type '", "' and press Enter.", "Press '", "Scroll ", " on '", "'.", "ANS ", "DONE", "FAIL", "WAIT",
    '{"Correctness": true, ', '{"Correctness": false, ', '"Redundant": [', '], "First_Error_Step": ', "null}",
)  # fmt: skip
COORDINATES = range(0, WIDTH + GRID, GRID)  # px


def processor() -> ImageTextProcessor:
    """Tokenizer, and pictures normalised as in training: photos' constants hide almost white screens."""
    pictures = ScreenshotProcessor(
        patch_size=PATCH, merge_size=MERGE, temporal_patch_size=1, image_mean=[MEAN] * 3,
        image_std=[DEVIATION] * 3, size=PIXELS,
    )  # fmt: skip
    return ImageTextProcessor(pictures, letter_tokenizer(), CHAT_TEMPLATE)


def across(x: int) -> str:
    """The token of a point's first coordinate."""
    return f"box='({x}"


def down(y: int) -> str:
    return f",{y})"


def letter_tokenizer() -> PreTrainedTokenizerFast:
    """Bytes, pieces of the grammar and coordinates; nothing is learned from a corpus."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *alphabet])}
    raw = Tokenizer(models.BPE(vocabulary, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(list(SPECIAL))
    points = [write(n) for write in (across, down) for n in COORDINATES]
    raw.add_tokens([AddedToken(piece, normalized=False) for piece in (*_PIECES, *points)])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left",
        chat_template=CHAT_TEMPLATE, model_max_length=4096,
    )  # fmt: skip
