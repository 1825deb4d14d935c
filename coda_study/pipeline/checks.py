"""What a run needs from outside before its first stage: model servers, and checkpoints of a hub."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import httpx

from coda_lib.config import Profile, Role
from coda_lib.errors import UserError, one_line
from coda_lib.paths import checkpoint_path

PATIENCE_S = 10.0  # for a server to say that it is there


def require_models(profile: Profile) -> None:
    """UserError for a model server that does not answer, and a checkpoint neither here nor on the hub."""
    for role in get_args(Role):
        where, name = getattr(profile.serving, role), getattr(profile.models, role)
        if name is None:
            continue
        if where.startswith("http"):
            _require_server(f"serving.{role}", where)
        # which is trained here, wherever it acts
        asked_alone = where.startswith("http") and role != "planner"
        if not asked_alone and not Path(checkpoint_path(name)).is_absolute():
            _require_on_hub(f"models.{role}", name)
    for field, name in profile.curve.checkpoints.items() if profile.curve else ():
        if not Path(checkpoint_path(name)).is_absolute():
            _require_on_hub(field, name)


def _require_server(field: str, address: str) -> None:
    try:
        with httpx.stream("GET", f"{address.rstrip('/')}/models", timeout=PATIENCE_S):
            return  # whatever it says: not every server lists its models
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UserError(
            f"{field}: {address} does not answer ({one_line(error)}): start the server first"
        ) from error


def _require_on_hub(field: str, name: str) -> None:
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(name, "config.json")  # from the cache, if it is there
    except Exception as error:  # of the network, the hub's client or its checks of the name
        raise UserError(
            f"{field}: {name} is no folder here, and the hub does not give it ({one_line(error)}): "
            "name a folder, or fetch it where there is a network with `hf download`"
        ) from error
