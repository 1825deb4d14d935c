"""A training that goes on after a kill, exactly where it was: one file a recipe holds its latest state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch.distributed.checkpoint.stateful import Stateful

from coda_lib.files import atomic_path, write_text

EVERY = 50  # steps from one checkpoint to the next


class Checkpointer:
    """The state of the stage (number `stage`) that a part of a recipe is in; without a path none is saved."""

    def __init__(self, path: Path | None = None, part: str = "", **parts: Stateful):
        self.path, self.part, self.parts = path, part, parts
        saved = torch.load(path, weights_only=True) if path and path.is_file() else {}
        self._saved = saved if saved.get("part") == part else {}
        self.stage: int = self._saved.get("stage", 0)

    def restore(self, **parts: Stateful) -> tuple[int, dict[str, Any]]:
        """The steps of the stage that are done, and the state given to `save`; loads the parts' states."""
        self.parts |= parts
        if not (saved := self._saved):
            return 0, {}
        for name, part in self.parts.items():
            part.load_state_dict(saved["parts"][name])
        self._saved = {}
        return saved["steps"], saved["told"]

    def save(self, steps: int, of: int, state: dict[str, Any]) -> None:
        """Save the state after `steps` steps of a stage that has `of`, every `EVERY` steps and at its end."""
        if self.path and (steps % EVERY == 0 or steps == of):
            states = {name: part.state_dict() for name, part in self.parts.items()}
            saved = {"part": self.part, "stage": self.stage, "steps": steps, "told": state, "parts": states}
            with atomic_path(self.path) as temporary:
                torch.save(saved, temporary)

    def next_stage(self) -> None:
        """The next stage begins."""
        self.stage += 1


class Journal:
    """A log file, one line of JSON an entry, which goes back to where an interrupted training was."""

    def __init__(self, path: Path):
        self.path = path
        write_text(path, "")

    def __call__(self, entry: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def state_dict(self) -> dict[str, Any]:
        return {"lines": self.path.read_text(encoding="utf-8")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        write_text(self.path, state["lines"])


def skip(draw: Callable[[Random], Any], count: int, rng: Random) -> None:
    """Draw what was drawn before, so that the next drawings are those that would have followed."""
    for _ in range(count):
        draw(rng)
