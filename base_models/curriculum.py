"""How base models learn to see: letters, what a token hands on of them, pointing on pages, whole screens.

Each stage goes on where it was interrupted, and begins with what the one before it has learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from base_models.network import Pointer
from base_models.pointing import train_pointing, train_screens
from base_models.seeing import Reader, train_letters, train_tokens
from base_models.sources import shown_names
from base_models.walks import Walks, names, typed_words

LONGEST = 24  # letters of a name that a page has room for


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
    folder: Path, walks: Walks, unseen: Walks, steps: Steps, reader: Path | None = None
) -> Pointer:
    """A network that points and reads on whole screens; with a `reader` the letters are learned already.

    Writes the state and the learning curve of each stage, and pointer.safetensors.  UserError as of
    `Reader.load`.
    """
    known = known_names(walks)
    tower = Reader.load(reader) if reader else train_letters(folder, known, steps.letters)
    train_tokens(folder, tower, known, steps.tokens)
    pointer = train_pointing(folder, tower, known, steps.pointing)
    train_screens(folder, pointer, known, walks, unseen, steps.screens)
    pointer.write(folder / "pointer.safetensors")
    return pointer
