"""Untrained networks, made-up screens and made-up episodes, for tests of all that asks, trains or judges a model."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import Qwen2_5_VLForConditionalGeneration

from coda_lib.action import Action, ActionType
from coda_lib.envs.base import Environment, EnvironmentFault
from coda_lib.model import Message, Sampling
from coda_lib.network import LocalModel
from coda_lib.task import Task
from coda_lib.tiny import configuration, processor, tokenizer
from coda_lib.trajectory import Step, StopReason, Trajectory, encode_image
from coda_lib.verdict import Verdict, format_verdict

SIZE = (84, 84)  # px: four patches, so that a network sees a screen in four tokens
CORPUS = [
    "Click 'Grid'.",
    "Type 'x' and press Enter.",
    "turn the grid on",
    "click(start_box='(8,48)')",
    "DONE",
    "finished()",
]
YES = format_verdict(Verdict(True))
NO = format_verdict(Verdict(False, (), 1))


def save_tiny(folder: Path, seed: int = 0, spread: float = 0.1) -> Path:
    """Write an untrained checkpoint of Qwen2.5-VL's architecture; `spread` is the standard deviation of its weights."""
    torch.manual_seed(seed)
    words = tokenizer(CORPUS, vocabulary=300)
    network = Qwen2_5_VLForConditionalGeneration(configuration(words, width=32, layers=1, vision_layers=1))
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, spread)
    network.generation_config.pad_token_id = words.pad_token_id
    network.generation_config.eos_token_id = words.eos_token_id
    network.save_pretrained(folder)
    processor(words, mean=[0.5] * 3, std=[0.3] * 3).save_pretrained(folder)
    return folder


def screen(number: int) -> Image.Image:
    """A screenshot that differs from that of any other small number in every patch."""
    pixels = np.full((SIZE[1], SIZE[0], 3), 255, np.uint8)
    pixels[::2] = (37 * number % 256, 91 * number % 256, 200)
    return Image.fromarray(pixels)


def hashed_click(asked: list[Message] | str) -> str:
    """What a scripted executor does with a plan: one click, somewhere that the plan's text decides."""
    digest = zlib.crc32((asked if isinstance(asked, str) else words_of(asked)).encode())
    return f"click(start_box='({digest % SIZE[0]},{digest // 997 % SIZE[1]})')"


class ClickingModel(LocalModel):
    """A network that is really asked, and whose replies, which are noise, are read as clicks."""

    def generate(self, conversations: Sequence[list[Message]], sampling: Sampling, seed: int) -> list[str]:
        return [hashed_click(reply) for reply in super().generate(conversations, sampling, seed)]


def words_of(conversation: list[Message]) -> str:
    return "".join(part["text"] for message in conversation for part in message["content"] if part["type"] == "text")


def pictures_of(conversation: list[Message]) -> list[Image.Image]:
    return [part["image"] for message in conversation for part in message["content"] if part["type"] == "image"]


def made_up(
    number: int = 0,
    acts: Sequence[tuple[str, Action]] = (("Click 'Grid'.", Action.click(0.25, 0.5)), ("DONE", Action.done())),
    verdicts: Sequence[str] = (YES,) * 4,
    **changes: Any,
) -> Trajectory:
    """A trajectory in which every step sees another screen; by default a clean one of two steps."""
    steps = tuple(
        Step(encode_image(screen(10 * number + i)), plan, "", (action,)) for i, (plan, action) in enumerate(acts)
    )
    given: dict[str, Any] = dict(
        task_id=f"algebra/T-{number:02d}", app="algebra", instruction=f"turn the grid on ({number})",
        planner="script", run=0, steps=steps, final_screenshot=encode_image(screen(10 * number + 9)),
        stop=StopReason.DONE,
        success=True, verdicts=tuple(verdicts),
    )  # fmt: skip
    return Trajectory(**(given | changes))


def task(number: int = 0, steps: int = 5, **changes: Any) -> Task:
    given: dict[str, Any] = dict(
        id=f"algebra/T-{number:02d}", app="algebra", grade="A", instruction=f"task {number}", steps=steps,
        initialize=(), evaluate=({"type": "state", "key": "clicks", "value": 2},),
    )  # fmt: skip
    return Task(**(given | changes))


class Counter(Environment):
    """An application that counts clicks and shows the count; it breaks at a hotkey; a task is solved by two clicks."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def reset(
        self, task: Task, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self.task, self.clicks = task, 0
        self.log.append(task.id)
        return self._seen(), {}

    def step(self, action: Action) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if action.type is ActionType.HOTKEY:
            raise EnvironmentFault("the window is gone")
        self.clicks += action.type is ActionType.CLICK
        ended = action.type in (ActionType.DONE, ActionType.FAIL, ActionType.ANS)
        return self._seen(), 0.0, ended, False, {}

    def check(self, stop: StopReason, answer: str | None = None) -> bool:
        return stop is StopReason.DONE and self.clicks == 2

    def _seen(self) -> np.ndarray:
        return np.array(screen(self.clicks))
