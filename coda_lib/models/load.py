"""The models of a run, wherever they run: in this process, or behind servers."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache

from coda_lib.config import Profile, Role
from coda_lib.models.chat import ChatModel
from coda_lib.paths import checkpoint_path


def load_model(profile: Profile, role: Role, checkpoint: str) -> ChatModel:
    """A checkpoint as the model of a role, where the profile says that such models run.

    A server that is started for it serves this process until its end.  UserError as of `LocalModel` and
    `serve.served`.
    """
    path, where = checkpoint_path(checkpoint), getattr(profile.serving, role)
    if where == "local":
        from coda_lib.models.local import (
            LocalModel,  # takes torch along, which a process whose models are served does without
        )

        return LocalModel(path, max(8, profile.concurrency // 2) if role == "judge" else profile.concurrency)
    from coda_lib.models.endpoint import (
        EndpointModel,  # takes a second, which a process whose models are local does without
    )

    address = _started(path, profile.serving.options) if where == "started" else where
    return EndpointModel(address, path, concurrency=profile.concurrency)


@cache
def _started(path: str, options: tuple[str, ...]) -> str:
    """The address of a server that lives as long as this process."""
    from coda_lib.models.server import served

    servers = ExitStack()
    atexit.register(servers.close)
    return servers.enter_context(served(path, options=options)).model.url
