"""Judged steps as chat messages with images, for the trainers of others: the planner's prompt, and its plan.

A folder with `train.jsonl` (`messages` with <image> in their text, and the paths of `images`) and
`dataset_info.json`, which ms-swift and LLaMA-Factory read, and the same rows as `train.parquet` in TRL's form
(`prompt`, `completion`, `images`).  Prompts are the full ones, for models that the kit has not trained.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coda_lib.errors import UserError
from coda_lib.files import write_json, write_text
from coda_lib.judge import Rule, positive_steps
from coda_lib.trajectory import Trajectory
from coda_study.owned import kind_of
from coda_study.run import Run

if TYPE_CHECKING:
    from coda_lib.dataset import Labeller

PROMPTS, NAME = "full", "coda"
PLACE = "<image>"
PLACES = re.compile(r"<(image|video|audio)>")  # what these trainers take for a place of a file
COLUMNS = {"messages": "messages", "images": "images"}
TAGS = {"role_tag": "role", "content_tag": "content"}
TAGS |= {f"{role}_tag": role for role in ("user", "assistant", "system")}
INDEX = {NAME: {"file_name": "train.jsonl", "formatting": "sharegpt", "columns": COLUMNS, "tags": TAGS}}


def label_of(source: Path, report: Callable[[str], object]) -> Labeller:
    """The labels of a file of judged trajectories: by the rule of its run, or else where all votes agree."""
    run = next((folder for folder in source.resolve().parents if kind_of(folder) == "run"), None)
    if run is None:
        report("labels: steps of attempts that all votes call correct and clean")
        return lambda t: positive_steps(t, _all_of(len(t.verdicts))) if t.verdicts else ()
    rule = Rule.of(Run(str(run)).profile().judge)
    report(f"labels: by the rule of run {run.name}, {rule.name}{', trimmed' if rule.trim else ''}")
    return partial(positive_steps, rule=rule)


def _all_of(votes: int) -> Rule:
    return Rule(f"voting@{votes}", (("judge", votes),), votes)


def write(trajectories: Sequence[Trajectory], folder: Path, label: Labeller) -> None:
    """Write the labelled steps.  UserError if there is none."""
    from datasets import Image, List

    from coda_lib.dataset import sft_rows

    rows = sft_rows(trajectories, PROMPTS, label)
    if not len(rows):
        judged = sum(bool(trajectory.verdicts) for trajectory in trajectories)
        fault = f"none of {len(trajectories)} trajectories has a labelled step, {judged} are judged"
        raise UserError(f"{fault}: take a file of a run's folder judged/")
    (folder / "images").mkdir(parents=True)
    rows.to_parquet(folder / "train.parquet")
    lines = []
    for row in rows.cast_column("images", List(Image(decode=False))):
        names = [f"images/{hashlib.sha256(image['bytes']).hexdigest()[:32]}.png" for image in row["images"]]
        for name, image in zip(names, row["images"], strict=True):
            (folder / name).write_bytes(image["bytes"])
        messages = [
            {"role": message["role"], "content": _text(message["content"])}
            for message in row["prompt"] + row["completion"]
        ]
        lines.append(json.dumps({"messages": messages, "images": names}, ensure_ascii=False))
    write_text(folder / "train.jsonl", "\n".join(lines) + "\n")
    write_json(folder / "dataset_info.json", INDEX)


def _text(content: Sequence[dict[str, Any]]) -> str:
    """The parts of a message as one text; what only looks like an image's place in it is broken up."""
    texts = (PLACE if part["type"] == "image" else PLACES.sub(r"< \1>", part["text"]) for part in content)
    return "".join(texts)
