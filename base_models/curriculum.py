"""How base models learn: to see (letters, tokens, pointing, whole screens), to plan, to judge.

Each stage goes on where it was interrupted, and begins with what the one before it has learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch

from base_models.accounts import Told, part_sampler, ruling_sampler
from base_models.hindsight import Hindsight, hindsights, planner_row
from base_models.learning import train_language
from base_models.letters import processor
from base_models.network import Pointer
from base_models.pointing import train_pointing, train_screens
from base_models.seeing import HELD_OUT, train_letters, train_tokens
from base_models.sources import how_to_sampler, mixed, planner_sampler, shown_names, value_sampler
from base_models.walks import Walks, names, typed_words

LONGEST = 24  # letters of a name that a page has room for


SEED = 7  # of the first weights of a language model
HELD_ROWS = 200  # behind each figure of a learning curve
CHEAP, PLANS, PARTS, RULINGS = 32, 12, 8, 12  # rows a step


@dataclass(frozen=True)
class Roles:
    """Steps of the stages of planner and judge."""

    how_tos: int = 6_000
    planner: int = 12_000
    parts: int = 8_000
    rulings: int = 8_000


@dataclass(frozen=True)
class Steps:
    """Steps of each stage."""

    letters: int = 28_000
    tokens: int = 4_000
    pointing: int = 20_000
    screens: int = 20_000


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
    train_pointing(folder, pointer, known, steps.pointing)
    train_screens(folder, pointer, known, walks, unseen, steps.screens)
    pointer.write(folder / "pointer.safetensors")
    return pointer


def train_planner(
    folder: Path, pointer: Pointer, walks: Walks, unseen: Walks,
    demonstrations: Sequence[Sequence[Sequence[Hindsight]]], steps: Roles,
) -> None:  # fmt: skip
    """Teach a network that sees to plan: how-tos and values without pictures first, which are cheap.

    Writes the state and the learning curve of both stages, and planner.safetensors.
    """
    apps, rng = [walk[0].app for walk in walks], Random(HELD_OUT)
    cheap = mixed(how_to_sampler(apps), value_sampler(apps), size=CHEAP)
    texts = [cheap(rng) for _ in range(HELD_ROWS)]
    train_language(folder, "how_tos", pointer, cheap, texts, steps.how_tos, CHEAP)
    decisions = [decision for walk in unseen for decision in hindsights(walk[0].app, walk)]
    rows = [planner_row(decision) for decision in rng.sample(decisions, min(len(decisions), HELD_ROWS))]
    draw = planner_sampler(walks, demonstrations)
    train_language(folder, "planner", pointer, draw, rows, steps.planner, PLANS)
    pointer.write(folder / "planner.safetensors")


def train_judge(
    folder: Path, pointer: Pointer, walks: Walks, unseen: Walks, attempts: Sequence[Sequence[Told]],
    steps: Roles, name: str = "base_judge",
) -> None:  # fmt: skip
    """Teach a network that sees to read parts of screens out, and to rule on attempts in words.

    Writes the state and the learning curve of both stages, and NAME.safetensors.
    """
    apps, rng = [walk[0].app for walk in walks], Random(HELD_OUT)
    draw_unseen = part_sampler(unseen)
    parts = [draw_unseen(rng) for _ in range(HELD_ROWS)]
    train_language(folder, f"{name}_parts", pointer, part_sampler(walks), parts, steps.parts, PARTS)
    kept = [told[HELD_ROWS // len(apps) :] for told in attempts]
    held = [row for told in attempts for row in (told.row for told in told[: HELD_ROWS // len(apps)])]
    train_language(
        folder, f"{name}_rulings", pointer, ruling_sampler(apps, kept), held, steps.rulings, RULINGS
    )
    pointer.write(folder / f"{name}.safetensors")
