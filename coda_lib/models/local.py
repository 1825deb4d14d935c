"""Qwen2.5-VL checkpoints in this process: loading one, and a chat model of it."""

from __future__ import annotations

import hashlib
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BatchFeature,
    GenerationConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
)
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.utils import logging

from coda_lib.errors import UserError, one_line
from coda_lib.files import reading
from coda_lib.models.chat import Message, ResizeRule, Sampling
from coda_lib.models.shared_prefix import features, prompts_of, sample
from coda_lib.trajectory import digest

# transformers changes its classes while it loads, and keeps the change when two loads overlap
_LOADING = Lock()


class ScreenshotProcessor(Qwen2VLImageProcessorPil):
    """Qwen2-VL's image processor; the patches of the last pictures are kept for the whole process.

    A screenshot comes back within seconds: as o_t for planner and executor, as o_{t-1}, and for every plan of
    a group.
    """

    _ROOM = 2**28  # bytes: about 256 screenshots of the tiny models, or 5 of the real ones
    _patches: OrderedDict[bytes, BatchFeature] = OrderedDict()  # by picture and settings

    def __init__(self, **settings: Any) -> None:
        size = settings.get("size") or {}
        if "max_pixels" in size:  # as some checkpoints have it
            settings["size"] = {"shortest_edge": size["min_pixels"], "longest_edge": size["max_pixels"]}
        super().__init__(**settings)

    def _preprocess(
        self, images: list[np.ndarray], return_tensors: Any = None, **kwargs: Any
    ) -> BatchFeature:
        found = [self._remember(image, kwargs) for image in images]
        keys = ("pixel_values", "image_grid_thw")
        data = {key: np.concatenate([patches[key] for patches in found]) for key in keys}
        return BatchFeature(data, tensor_type=return_tensors)

    def _remember(self, image: np.ndarray, kwargs: dict[str, Any]) -> BatchFeature:
        key = hashlib.blake2b(repr((image.shape, sorted(kwargs.items()))).encode())
        key.update(np.ascontiguousarray(image))
        patches = self._patches.pop(key.digest(), None)
        if patches is None:
            patches = super()._preprocess([image], return_tensors=None, **kwargs)
        self._patches[key.digest()] = patches
        while len(self._patches) > self._ROOM // patches["pixel_values"].nbytes + 1:
            self._patches.popitem(last=False)
        return patches

    @property
    def resize_rule(self) -> ResizeRule:
        token, size = self.patch_size * self.merge_size, self.size
        return ResizeRule(token, size["shortest_edge"], size["longest_edge"])

    def to_dict(self) -> dict[str, Any]:
        """The settings as a hub holds them: those of the class that everybody has."""
        return super().to_dict() | {"image_processor_type": "Qwen2VLImageProcessor"}


class ImageTextProcessor(Qwen2_5_VLProcessor):
    """Qwen2.5-VL's processor without its video half, which cannot be loaded where torchvision is missing."""

    def __init__(self, image_processor=None, tokenizer=None, chat_template=None, **kwargs):
        super().__init__(image_processor, tokenizer, chat_template=chat_template, **kwargs)

    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
        return None if argument is None else super().check_argument_for_proper_class(argument_name, argument)

    def to_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """As Qwen2.5-VL's own class loads it, for others (vLLM) know no other and want the video half;
        `load_processor` does not.

        The settings of videos are those of pictures.
        """
        settings = super().to_dict(*args, **kwargs)
        videos = settings["image_processor"] | {"video_processor_type": "Qwen2VLVideoProcessor"}
        del videos["image_processor_type"]
        return settings | {"processor_class": Qwen2_5_VLProcessor.__name__, "video_processor": videos}


def load_processor(path: str | Path) -> ImageTextProcessor:
    """The processor of any Qwen2.5-VL checkpoint (folder or hub name), images and text only.

    UserError as of `load_network`, and for a checkpoint without a chat template or with one that fails.
    """
    _check_architecture(path)
    with _loading(path, "processor"):
        tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
        if tokenizer.chat_template is None:
            fault = f"the checkpoint {path} has no chat template (chat_template.jinja)"
            raise UserError(f"{fault}: add that of its base model")
        pictures = ScreenshotProcessor.from_pretrained(path)
        processor = ImageTextProcessor(pictures, tokenizer, tokenizer.chat_template)
    with _loading(path, "chat template"):
        chat = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
        if "x" not in processor.apply_chat_template(chat, tokenize=False):
            raise ValueError("it leaves out what is said")
    return processor


@contextmanager
def _loading(path: str | Path, part: str) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # transformers raises whatever it runs into in a damaged folder
        raise UserError(f"cannot load the checkpoint {path} ({part}): {one_line(error)}") from error


def load_network(path: str | Path, trainable: bool, device: str) -> Qwen2_5_VLForConditionalGeneration:
    """The network of a Qwen2.5-VL checkpoint; not `trainable`, none of its parameters asks for a gradient.

    On a GPU it is of 16 bits unless it is trainable: at the learning rates of these stages nearly every
    update of a weight of 16 bits would be rounded away. UserError if the folder is missing, partial or of
    another architecture.
    """
    _check_architecture(path)
    logging.disable_progress_bar()  # of the weights, which are there at once
    with _LOADING, _loading(path, "network"):
        _check_size(Path(path))
        network, report = Qwen2_5_VLForConditionalGeneration.from_pretrained(
            path,
            dtype=torch.float32 if device == "cpu" or trainable else torch.bfloat16,
            output_loading_info=True,
            use_safetensors=True,  # other files of weights are pickles
        )
    if missing := sorted(report["missing_keys"]):
        raise UserError(f"the checkpoint {path} is partial: {missing[0]} is missing")
    if network.generation_config.eos_token_id is None:
        fault = "eos_token_id is missing in generation_config.json"
        raise UserError(f"the checkpoint {path} names no end of a reply: {fault}")
    embed_patches_by_product(network)
    return network.to(device).requires_grad_(trainable).train(trainable)


def embed_patches_by_product(network: Qwen2_5_VLForConditionalGeneration) -> None:
    """Compute the patch embedding as a matrix product: its convolution has no overlap and is slower."""
    patches = network.model.visual.patch_embed
    patches.forward = partial(_product, patches)


def _product(patches: torch.nn.Module, pixels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(pixels.to(patches.proj.weight.dtype), patches.proj.weight.flatten(1))


def _check_architecture(path: str | Path) -> None:
    is_folder = str(path).startswith((".", "/")) or "data/checkpoints" in str(path)
    if is_folder and not (Path(path) / "config.json").is_file():
        raise UserError(f"no checkpoint at {path}: config.json is missing")
    for file in Path(path).glob("*.*"):  # none where a hub's name is given
        if not file.is_dir():
            with reading(file, "checkpoint"):
                pass  # a pipe among them would never end
    with _loading(path, "configuration"):
        config = AutoConfig.from_pretrained(path)
    if config.model_type != "qwen2_5_vl":
        fault = f"{path} holds a {config.model_type} model"
        raise UserError(f"{fault}; the kit needs the qwen2_5_vl architecture")


def _check_size(folder: Path) -> None:
    """UserError if config.json describes a network far larger than the weights: it would be made."""
    stored = 0
    for path in folder.glob("*.safetensors"):  # none where a hub's name is given
        with safe_open(path, "pt") as weights:
            names = weights.keys()
            stored += sum(math.prod(weights.get_slice(name).get_shape()) for name in names)
    if stored:
        with torch.device("meta"):
            network = Qwen2_5_VLForConditionalGeneration(AutoConfig.from_pretrained(folder))
        described = network.num_parameters()
        if described > 2 * stored:
            raise UserError(
                f"{folder}: config.json describes {described:,} parameters, and the weights have {stored:,}"
            )


class Features(OrderedDict[bytes, tuple[torch.Tensor, torch.Tensor]]):
    """Features and grids of pictures as one vision tower sees them, the last ones last.

    Pictures are seen one by one: how one is rounded does not depend on those that come with it.
    """

    # bytes of features: more than 10,000 screenshots of the tiny models, or about 30 of the real ones
    _ROOM = 2**28
    _of_towers: WeakValueDictionary[bytes, Features] = WeakValueDictionary()

    @classmethod
    def of(cls, network: Qwen2_5_VLForConditionalGeneration, processor: ImageTextProcessor) -> Features:
        """Those of a network's tower, the same for all of this process that see alike."""
        settings = network.config.vision_config, processor.image_processor, network.dtype, network.device
        key = hashlib.blake2b(repr(settings).encode())
        for weight in network.model.visual.parameters():
            key.update(weight.detach().float().cpu().numpy())
        return cls._of_towers.setdefault(key.digest(), cls())

    def kept(
        self, key: bytes, see: Callable[[], tuple[torch.Tensor, torch.Tensor]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of the picture that `key` stands for, which is seen only if they are not kept."""
        found = self[key] = self.pop(key, None) or see()
        while len(self) > self._ROOM // found[0].nbytes:
            self.popitem(last=False)
        return found

    def serve(self, network: Qwen2_5_VLForConditionalGeneration) -> None:
        """Let a network whose tower is not trained see each picture once, in all passes of a training."""
        stock = network.model.get_image_features

        def see(pixels: torch.Tensor, grid_13: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.cat(stock(pixels, grid_13).pooler_output).detach(), grid_13[0]

        def seen(pixel_values: torch.Tensor, image_grid_thw: torch.Tensor, **_: Any) -> Any:
            found = []
            for pixels, grid_13 in zip(pixel_values.split(image_grid_thw.prod(-1).tolist()),
                                       image_grid_thw.split(1), strict=True):  # fmt: skip
                key = hashlib.blake2b(pixels.cpu().numpy()).digest()
                found.append(self.kept(key, partial(see, pixels, grid_13))[0])
            return BaseModelOutputWithPooling(pooler_output=tuple(found))

        network.model.get_image_features = seen


class LocalModel:
    """A Qwen2.5-VL checkpoint run by transformers in this process.

    In a batch, equal conversations and equal beginnings are encoded once (`shared_prefix`).  The features of
    the last pictures are kept, for all models with the same tower: a screenshot is o_t of planner and
    executor, o_{t-1} of the next step, and many episodes begin with the same screen.
    """

    def __init__(self, path: str | Path, batch_size: int = 64, device: str | None = None):
        self.name = str(path)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.processor = load_processor(path)
        self.network = load_network(path, trainable=False, device=self.device).eval()
        self.batch_size = batch_size
        self.shared = True  # False: transformers' own `generate` on every conversation, with the same replies
        self._seen = Features.of(self.network, self.processor)

    def generate(self, conversations: Sequence[list[Message]], sampling: Sampling, seed: int) -> list[str]:
        """Sample replies, the same for the same conversations, sampling and seed on one machine.

        Torch's own random numbers go on as if nothing was sampled: a trainer draws the same plans wherever
        the executor runs.
        """
        replies: list[str] = []
        with torch.random.fork_rng([] if self.device == "cpu" else [self.device]):
            for start in range(0, len(conversations), self.batch_size):
                torch.manual_seed(seed + start)
                replies += self._generate(conversations[start : start + self.batch_size], sampling)
        return replies

    @property
    def resize_rule(self) -> ResizeRule:
        return self.processor.image_processor.resize_rule

    @torch.inference_mode()
    def _generate(self, conversations: Sequence[list[Message]], sampling: Sampling) -> list[str]:
        draw = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
        config = GenerationConfig(
            **(draw if sampling.temperature > 0 else {"do_sample": False}),
            max_new_tokens=sampling.max_new_tokens,
            pad_token_id=self.processor.tokenizer.pad_token_id,
        )
        output = (self._sample if self.shared else self._sample_plainly)(conversations, config)
        return self.processor.tokenizer.batch_decode(output, skip_special_tokens=True)

    def _sample_plainly(self, chats: Sequence[list[Message]], config: GenerationConfig) -> torch.Tensor:
        inputs = encode(self.processor, chats).to(self.device)
        return self.network.generate(**inputs, generation_config=config)[:, inputs["input_ids"].shape[1] :]

    def _sample(self, conversations: Sequence[list[Message]], config: GenerationConfig) -> torch.Tensor:
        keys = [conversation_key(conversation) for conversation in conversations]
        distinct = dict(zip(keys, conversations, strict=True))
        order = {key: index for index, key in enumerate(distinct)}
        pictures = [_pictures(conversation) for conversation in distinct.values()]
        seen = self._see([picture for some in pictures for picture in some])
        inputs = self._read(list(distinct.values()), [len(one) for one, _ in seen]).to(self.device)
        if seen:
            inputs["image_grid_thw"] = torch.stack([grid for _, grid in seen])
        prompts = prompts_of(self.network, inputs, torch.cat([one for one, _ in seen]) if seen else None)
        beginnings = [
            (tuple(prompt.ids_n[: prompt.pictures_end].tolist()), *map(digest, some))
            for prompt, some in zip(prompts, pictures, strict=True)
        ]
        return sample(self.network, prompts, [order[key] for key in keys], config, beginnings)

    def _read(self, conversations: Sequence[list[Message]], tokens: Sequence[int]) -> Any:
        """`encode` without the pixels: `tokens` are the image tokens of each picture."""
        texts, count, mark = _texts(self.processor, conversations), iter(tokens), self.processor.image_token
        texts = [re.sub(re.escape(mark), lambda _: mark * next(count), text) for text in texts]
        return self.processor.tokenizer(texts, padding=True, return_tensors="pt")

    def _see(self, pictures: Sequence[Image.Image]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Features (image tokens x width) and grid of each picture; none are kept while training."""
        if next(self.network.parameters()).requires_grad:
            self._seen = Features()
        return [self._seen.kept(digest(picture), partial(self._look, picture)) for picture in pictures]

    def _look(self, picture: Image.Image) -> tuple[torch.Tensor, torch.Tensor]:
        patches = self.processor.image_processor([picture], return_tensors="pt").to(self.device)
        grid_13 = patches["image_grid_thw"]
        return features(self.network, patches["pixel_values"], grid_13), grid_13[0]


def conversation_key(conversation: list[Message]) -> tuple[tuple[str, str, Any], ...]:
    """What tells conversations apart: role, kind of part, and text or digest of the picture."""
    return tuple(
        (message["role"], part["type"], part["text"] if part["type"] == "text" else digest(part["image"]))
        for message in conversation
        for part in message["content"]
    )


def picture_names(conversation: list[Message]) -> tuple[bytes, ...]:
    """What tells the pictures of conversations apart, in order."""
    return tuple(map(digest, _pictures(conversation)))


def encode(
    processor: ImageTextProcessor, conversations: Sequence[list[Message]], generate: bool = True
) -> Any:
    """Conversations as a left-padded batch of tensors, ending in the assistant's turn when `generate`."""
    images = [_pictures(conversation) for conversation in conversations]
    texts = _texts(processor, conversations, generate)
    return processor(text=texts, images=images if any(images) else None, padding=True, return_tensors="pt")


def _texts(processor: ImageTextProcessor, chats: Sequence[list[Message]], generate: bool = True) -> list[str]:
    """Conversations in the chat template, with one mark for each picture."""
    return [processor.apply_chat_template(c, tokenize=False, add_generation_prompt=generate) for c in chats]


def _pictures(conversation: list[Message]) -> list[Image.Image]:
    parts = [part for message in conversation for part in message["content"]]
    return [part["image"] for part in parts if part["type"] == "image"]
