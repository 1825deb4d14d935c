"""What the served models of a run were asked, and what that cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from coda_lib.files import read_json, reading, write_json
from coda_lib.models.chat import ChatModel
from coda_study.run import Run


def note_usage(run: Run, stage: str, **models: ChatModel) -> None:
    """Keep the usage of a stage's served models, by role, in usage/{stage}.json; no file if all are local."""
    used = {role: asdict(model.usage) for role, model in models.items() if hasattr(model, "usage")}
    if used:
        write_json(run.usage / f"{stage}.json", used)


def odd_replies(model: ChatModel | None) -> str:
    """`of 40 replies 3 empty, 2 cut`; empty for a local model and where every reply is a whole text."""
    if (used := getattr(model, "usage", None)) is None:
        return ""
    kinds = {"empty": used.empty, "cut": used.cut, "refused": used.refused, "calls of tools": used.tool_calls}
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    return f"of {used.requests} replies {counts}" if counts else ""


def usage_table(run: Run) -> pd.DataFrame:
    """A row for each stage and role: requests, prompt_tokens, completion_tokens, cost (None: no price)."""
    prices, rows = run.profile().prices, []
    for path in sorted(run.usage.rglob("*.json")):
        stage = path.relative_to(run.usage).with_suffix("").as_posix()
        with reading(path, "usage"):
            for role, used in read_json(path).items():
                rows.append({"stage": stage, "role": role} | used | {"cost": _cost(used, prices.get(role))})
    columns = ["stage", "role", "requests", "prompt_tokens", "completion_tokens", "cost"]
    return pd.DataFrame(rows, columns=columns)


def _cost(used: Mapping[str, Any], price: tuple[float, float] | None) -> float | None:
    """The cost at prices of a million tokens read and written."""
    if price is None:
        return None
    return (used["prompt_tokens"] * price[0] + used["completion_tokens"] * price[1]) / 1_000_000
