"""How base models learn: to see (letters, tokens, pointing, whole screens), to act, to plan, to judge.

Each stage goes on where it was interrupted, and begins with what the one before it has learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import torch

from base_models.accounts import Told, ruling_sampler
from base_models.feeding import MANY
from base_models.hindsight import planner_row, reading
from base_models.learning import train_language
from base_models.letters import processor
from base_models.network import Pointer
from base_models.planning import Answers, Demonstrations, Taught, planner_sampler, text_sampler
from base_models.pointing import train_pointing, train_screens
from base_models.seeing import HELD_OUT, train_letters, train_tokens
from base_models.walks import Walks, names, shown_names, typed_words

LONGEST = 24  # letters of a name that a page has room for

EXECUTOR_HELD = 60  # screens of an application behind each figure of the executor's curve
SEED = 7  # of the first weights of a language model
TEXTS, SCENES = 32, 6  # rows or pairs of screens a step
LENGTH = 2_400  # tokens of pictures and letters of plans that are ruled on in a step


@dataclass(frozen=True)
class Roles:
    """Steps of the stages of executor, planner and judge."""

    executor: int = 23_000
    how_tos: int = 4_500
    planner: int = 9_000
    base_judge: int = 16_000
    judge: int = 8_000  # on the base planner's attempts too
    held: int = 200  # rows behind each figure of a learning curve


@dataclass(frozen=True)
class Steps:
    """Steps of each stage."""

    letters: int = 28_000
    tokens: int = 4_000
    pointing: int = 20_000
    screens: int = 24_000
    held: int = 60  # pages, or screens of an application, behind each figure of a learning curve


def known_names(walks: Walks) -> list[str]:
    """What pages are written with, beside what means nothing: names of screens and goals, typed texts."""
    found: set[str] = set()
    for walk in walks:
        found |= {*shown_names(walk), *names(walk[0].app), *typed_words(walk[0].app)}
    return sorted(name for name in found if name.strip() and name.isprintable() and len(name) <= LONGEST)


def train_to_see(
    folder: Path, walks: Walks, unseen: Walks, steps: Steps, begun: Path | None = None
) -> Pointer:
    """A network that points and reads on whole screens; `begun` is one to go on from, else it is new.

    Writes the state and the learning curve of each stage, and pointer.safetensors.  UserError as of
    `Pointer.load`.
    """
    known = known_names(walks)
    if begun:
        pointer = Pointer.load(begun)
    else:
        reader = train_letters(folder, known, steps.letters)
        train_tokens(folder, reader, known, steps.tokens)
        torch.manual_seed(SEED)
        pointer = Pointer(reader, len(processor().tokenizer))
    train_pointing(folder, pointer, known, steps.pointing, steps.held)
    train_screens(folder, pointer, known, walks, unseen, steps.screens, steps.held)
    pointer.write(folder / "pointer.safetensors")
    return pointer


def train_executor(
    folder: Path, pointer: Pointer, walks: Walks, unseen: Walks, steps: Roles, fresh: Sequence[str] = ()
) -> None:  # fmt: skip
    """Go on pointing with a tower that stands still, a third of the steps in new windows of `fresh`.

    A network that had learned from 334 windows an application was inside on 96 % of the clicks there and on
    81 % elsewhere (Algebra).  Writes the state and the learning curve, and executor.safetensors.
    """
    train_screens(folder, pointer, known_names(walks), walks, unseen, steps.executor, EXECUTOR_HELD,
                  rate=7e-4, seed=10, stage="executor", still=True, fresh=fresh)  # fmt: skip
    pointer.write(folder / "executor.safetensors")


def train_planner(
    folder: Path, pointer: Pointer, walks: Walks, unseen: Walks, demonstrations: Demonstrations,
    answers: Answers, shown: Demonstrations, taught: Taught, steps: Roles,
) -> None:  # fmt: skip
    """Teach a network that sees to plan; texts first, which are cheap.

    `shown` are demonstrations that nothing is learned from.  Writes the state and the learning curve of both
    stages, and planner.safetensors.
    """
    rng, cheap = Random(HELD_OUT), text_sampler(taught)
    texts = [row for _ in range(steps.held) for row in cheap(rng)]
    train_language(
        folder, "how_tos", pointer, lambda rng: [cheap(rng) for _ in range(MANY * TEXTS)], {"exact": texts},
        steps.how_tos,
    )  # fmt: skip
    decided = [planner_row(decision) for of_app in shown for one in of_app for decision in one]
    asked = (reading(step, rng) for walk in unseen for step in walk)
    read = [planner_row(question) for question in asked if question]
    held = {name: rng.sample(rows, min(len(rows), steps.held))
            for name, rows in (("decided", decided), ("read", read)) if rows}  # fmt: skip
    draw = planner_sampler(walks, demonstrations, answers, taught, MANY * TEXTS, MANY * SCENES)
    train_language(folder, "planner", pointer, draw, held, steps.planner)
    pointer.write(folder / "planner.safetensors")


def train_judge(
    folder: Path, pointer: Pointer, pools: Sequence[Sequence[Told]], unseen: Sequence[Told], held: int,
    steps: int, name: str = "base_judge",
) -> None:  # fmt: skip
    """Teach a network that reads answers to rule on attempts.

    The learning curve has the shares of exact replies to `held` `unseen` attempts, with their own pictures
    and with those of another.  Writes the state and the curve, and NAME.safetensors.
    """
    own = unseen[:held]
    other = [replace(told, changes=shown.changes, end=shown.end) for told, shown in pairwise([*own, own[0]])]
    figures = {"own": [told.rows[0] for told in own], "other": [told.rows[0] for told in other]}
    draw = ruling_sampler(pools, MANY * LENGTH, deepcopy(pointer.reader))
    train_language(folder, name, pointer, draw, figures, steps)
    pointer.write(folder / f"{name}.safetensors")
