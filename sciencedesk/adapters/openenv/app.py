"""The server: `python -m sciencedesk.adapters.openenv.app --app gis --port 8000`."""

from __future__ import annotations

import argparse
from functools import partial

import uvicorn
from fastapi import FastAPI
from openenv.core.env_server.http_server import create_fastapi_app

from coda_lib.applications import ALL_APPS
from sciencedesk.adapters.openenv.environment import DeskEnvironment
from sciencedesk.adapters.openenv.models import DeskAction, DeskObservation

SESSIONS = 8  # windows at once


def make_app(app: str = "gis") -> FastAPI:
    """The server's application, for one application of ScienceDesk."""
    types, limits = (DeskAction, DeskObservation), {"max_concurrent_envs": SESSIONS}
    return create_fastapi_app(partial(DeskEnvironment, app), *types, **limits, env_name=f"coda-{app}")


app = make_app()  # what openenv.yaml names


def main() -> None:
    about = "Serve an application of ScienceDesk as an OpenEnv environment."
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--app", default="gis", choices=ALL_APPS)
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 in a container")
    parser.add_argument("--port", type=int, default=8000)
    chosen = parser.parse_args()
    uvicorn.run(make_app(chosen.app), host=chosen.host, port=chosen.port)


if __name__ == "__main__":
    main()
