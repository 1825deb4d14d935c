"""What the notebooks show of the task generator: rounds by hand, and what became of each task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from coda_lib.files import read_json
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.paths import DATA
from coda_study.generator import Feedback, Generator, Round, load_rounds
from coda_study.run import Run

BY_HAND = DATA / "generator" / "by_hand.json"


def rounds_by_hand() -> tuple[list[Round], list[str]]:
    """Two rounds with replies that a person wrote in place of a model, and all messages of both, in order."""
    raw = read_json(BY_HAND)
    replies = [reply for written in raw["rounds"] for reply in written["replies"]]
    model, rounds = ReplayModel(replies, "a person"), []
    generator = Generator.of(model, Sampling(), raw["app"], raw["count"])
    with TemporaryDirectory() as folder:
        for written in raw["rounds"]:
            feedback = [Feedback(**row) for row in written["outcomes"]]
            rounds.append(generator.next_round(Path(folder), feedback, 0))
        exchanges = [read_json(path) for path in sorted(Path(folder).glob("*/exchange.json"))]
    return rounds, [message["content"] for exchange in exchanges for message in exchange]


def rounds_of(run: Run, app: str) -> list[Round]:
    """The rounds of a run's own generator; none if its tasks come from templates."""
    return load_rounds(run.generated(app), app)


def rounds_table(rounds: Sequence[Round]) -> pd.DataFrame:
    """A row for each proposed task: round, instruction, 'accepted' or why it was dropped, because of what."""
    rows = []
    for drawn in rounds:
        rows += [(drawn.number, task.instruction, "accepted", "") for task in drawn.tasks]
        rows += [(drawn.number, task.instruction, task.reason, task.detail) for task in drawn.dropped]
    return pd.DataFrame(rows, columns=["round", "instruction", "outcome", "because of"])
