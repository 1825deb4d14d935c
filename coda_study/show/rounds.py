"""What the notebooks show of the task generator: rounds whose replies were written by hand, and what became
of each task.
"""

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
    replies = [reply for one in raw["rounds"] for reply in one["replies"]]
    generator = Generator.of(ReplayModel(replies, "a person"), Sampling(), raw["app"], raw["count"])
    with TemporaryDirectory() as folder:
        rounds = [
            generator.next_round(Path(folder), [Feedback(**row) for row in one["outcomes"]], 0)
            for one in raw["rounds"]
        ]
        messages = [
            message["content"]
            for path in sorted(Path(folder).glob("*/exchange.json"))
            for message in read_json(path)
        ]
    return rounds, messages


def rounds_of(run: Run, app: str) -> list[Round]:
    """The rounds of a run's own generator; none if its tasks come from templates."""
    return load_rounds(run.generated(app), app)


def rounds_table(rounds: Sequence[Round]) -> pd.DataFrame:
    """A row for each proposed task: round, instruction, 'accepted' or why it was dropped, and what this is
    about.
    """
    rows = []
    for one in rounds:
        rows += [(one.number, task.instruction, "accepted", "") for task in one.tasks]
        rows += [(one.number, item.instruction, item.reason, item.detail) for item in one.dropped]
    return pd.DataFrame(rows, columns=["round", "instruction", "outcome", "because of"])
