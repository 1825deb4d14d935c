"""A training that goes on after a kill, exactly where it was, from a file kept every `EVERY` steps."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from coda_lib.files import atomic_path, write_text

EVERY = 50  # steps from one keeping to the next


class Part(Protocol):
    """A network, an optimizer, its schedule, a log."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> Any: ...


class Kept:
    """The state of the stage that a part of a recipe is in; without a path nothing is kept.

    `begin` gives it back if it is of this part and stage, `keep` writes it.  `stage` is the one to go on
    with.
    """

    def __init__(self, path: Path | None = None, part: str = "", **parts: Part):
        self.path, self.part, self.parts = path, part, parts
        state = torch.load(path, weights_only=True) if path and path.is_file() else {}
        self.state = state if state.get("part") == part else {}
        self.stage: int = self.state.get("stage", 0)

    def begin(self, **parts: Part) -> tuple[int, dict[str, Any]]:
        """The steps of the stage that are done, and what `keep` was told; the parts get their states."""
        self.parts |= parts
        if not (state := self.state):
            return 0, {}
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])
        self.state = {}
        return state["steps"], state["told"]

    def keep(self, steps: int, of: int, told: dict[str, Any]) -> None:
        """Keep the state after `steps` steps of a stage that has `of`."""
        if self.path and (steps % EVERY == 0 or steps == of):
            states = {name: part.state_dict() for name, part in self.parts.items()}
            with atomic_path(self.path) as temporary:
                torch.save(
                    {"part": self.part, "stage": self.stage, "steps": steps, "told": told, "parts": states},
                    temporary,
                )

    def finish(self) -> None:
        """The next stage begins."""
        self.stage += 1


class Journal:
    """A log file, one line of JSON an entry, which goes back to where a kept training was."""

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


def skip(draw: Callable[[random.Random], Any], count: int, rng: random.Random) -> None:
    """Draw what was drawn before, so that the next drawings are those that would have followed."""
    for _ in range(count):
        draw(rng)
