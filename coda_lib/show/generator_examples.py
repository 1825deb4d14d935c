"""What notebook 03 shows of tasks that a chat model sets.  Nothing here is a stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from coda_lib.files import read_json
from coda_lib.generator import Generator, Outcome, Round
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.paths import DATA

BY_HAND = DATA / "generator" / "by_hand.json"


def rounds_by_hand() -> tuple[list[Round], list[dict[str, Any]]]:
    """Two rounds with replies that a person wrote in a model's place, and all that was said in them."""
    raw = read_json(BY_HAND)
    replies = [reply for one in raw["rounds"] for reply in one["replies"]]
    made = Generator.of(ReplayModel(replies, "a person"), Sampling(), raw["app"], raw["count"])
    with TemporaryDirectory() as folder:
        rounds = [made.go_on(Path(folder), [Outcome(**said) for said in one["outcomes"]], 0) for one in raw["rounds"]]
        said = [turn for path in sorted(Path(folder).glob("*/exchange.json")) for turn in read_json(path)]
    return rounds, said


def rounds_table(rounds: Sequence[Round]) -> pd.DataFrame:
    """A row for each proposed task: its round, the instruction, and 'kept' or why it was dropped."""
    rows = []
    for one in rounds:
        rows += [(one.number, task.instruction, "kept", "") for task in one.tasks]
        rows += [(one.number, item.instruction, item.reason, item.detail) for item in one.dropped]
    return pd.DataFrame(rows, columns=["round", "instruction", "became", "because of"])
