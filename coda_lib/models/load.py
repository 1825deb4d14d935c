"""The models of a run, wherever they run: in this process, or behind servers."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache
from typing import Any

import pandas as pd

from coda_lib.config import Profile, Role
from coda_lib.files import read_json, reading, write_json
from coda_lib.models.chat import ChatModel
from coda_lib.paths import checkpoint_path
from coda_lib.run import Run

MILLION = 1_000_000


def load_model(profile: Profile, role: Role, checkpoint: str) -> ChatModel:
    """A checkpoint as the model of a role, where the profile says that such models run.

    A server that is started for it serves this process until its end.  UserError as of `LocalModel` and `serve.served`.
    """
    path, where = checkpoint_path(checkpoint), getattr(profile.serving, role)
    if where == "local":
        from coda_lib.models.local import LocalModel  # takes torch along, which a process whose models are served does without

        return LocalModel(path, max(8, profile.concurrency // 2) if role == "judge" else profile.concurrency)
    from coda_lib.models.endpoint import EndpointModel  # takes a second, which a process whose models are local does without

    address = _started(path, profile.serving.options) if where == "started" else where
    return EndpointModel(address, path, concurrency=profile.concurrency)


@cache
def _started(path: str, options: tuple[str, ...]) -> str:
    """The address of a server that lives as long as this process."""
    from coda_lib.models.server import served

    servers = ExitStack()
    atexit.register(servers.close)
    return servers.enter_context(served(path, options=options)).model.url


# ---- what served models were asked ---------------------------------------------------------------------------------------


def note_usage(run: Run, stage: str, **models: ChatModel) -> None:
    """Keep what the served models of a stage were asked, by role, in usage/{stage}.json; no file where all are local."""
    used = {role: asdict(model.usage) for role, model in models.items() if hasattr(model, "usage")}
    if used:
        write_json(run.usage / f"{stage}.json", used)


def usage_table(run: Run) -> pd.DataFrame:
    """One row for each stage and role: requests, prompt_tokens, completion_tokens, and cost (None without a price)."""
    prices, rows = run.profile().prices, []
    for path in sorted(run.usage.rglob("*.json")):
        stage = path.relative_to(run.usage).with_suffix("").as_posix()
        with reading(path, "usage"):
            for role, used in read_json(path).items():
                rows.append({"stage": stage, "role": role} | used | {"cost": _cost(used, prices.get(role))})
    return pd.DataFrame(rows, columns=["stage", "role", "requests", "prompt_tokens", "completion_tokens", "cost"])


def _cost(used: Mapping[str, Any], price: tuple[float, float] | None) -> float | None:
    return (used["prompt_tokens"] * price[0] + used["completion_tokens"] * price[1]) / MILLION if price else None
