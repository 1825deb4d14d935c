"""ScienceDesk as an OpenEnv environment: OpenEnv's own check of a running server, and its client.  Left out
without OpenEnv.
"""

from __future__ import annotations

import base64
import io
import re
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from PIL import Image

from coda_lib.applications import ALL_APPS
from coda_lib.grammar import format_action
from coda_lib.paths import REPO
from coda_lib.task import test_tasks
from sciencedesk.env import ScienceDesk
from sciencedesk.script import to_action

ROOM = REPO / "sciencedesk" / "adapters" / "openenv"


def test_what_the_container_installs_is_pinned():
    lines = [
        line for line in (ROOM / "requirements.txt").read_text().splitlines() if not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", line) for line in lines)
    names = [line.partition("==")[0].lower() for line in lines]
    assert "openenv" in names and len(set(names)) == len(names) and not {"gradio", "pillow"} & set(names)
    container = (ROOM / "Containerfile").read_text()
    assert (
        str((ROOM / "requirements.txt").relative_to(REPO)) in container
        and "sciencedesk.adapters.openenv.app" in container
    )


@pytest.fixture
def serve():
    """Give a function that serves an application and returns the address."""
    pytest.importorskip("openenv")
    started = []

    def serve(app: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "sciencedesk.adapters.openenv.app",
            "--app",
            app,
            "--port",
            str(port),
        ]
        started.append(
            subprocess.Popen(command, cwd=REPO, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        deadline = time.time() + 120
        while started[-1].poll() is None and time.time() < deadline:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
                return f"http://127.0.0.1:{port}"
            except OSError:
                time.sleep(0.2)
        raise AssertionError("the server did not start")

    yield serve
    for process in started:
        process.terminate()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("app", ALL_APPS)
def test_openenvs_own_check_passes(serve, app):
    command = [sys.executable, "-m", "openenv.cli", "validate", "--url", serve(app), "--timeout", "60"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0 and "Verdict: PASS" in checked.stdout, checked.stdout


@pytest.mark.slow
def test_the_client_plays_two_sessions_apart_and_a_solved_task_earns_1(serve):
    address = serve("gis")
    from sciencedesk.adapters.openenv.client import DeskClient
    from sciencedesk.adapters.openenv.models import DeskAction

    task = next(task for task in test_tasks("gis") if len(task.solution) == 1 and not task.ans)
    env = ScienceDesk("gis")
    env.reset(task)
    action = format_action(to_action(env.desk, task.solution[0]), (336, 252))
    with DeskClient(base_url=address).sync() as one, DeskClient(base_url=address).sync() as other:
        first, second = one.reset(task=task.id).observation, other.reset(seed=3).observation
        assert first.instruction == task.instruction != second.instruction and first.metadata == {
            "task": task.id
        }
        picture = Image.open(io.BytesIO(base64.b64decode(first.screenshot)))
        assert picture.size == (first.width, first.height) == (336, 252)
        refused = one.step(DeskAction(action="click the button")).observation
        assert refused.error and refused.screenshot == first.screenshot and not refused.done
        assert one.step(DeskAction(action=action)).reward == 0.0
        ended = one.step(DeskAction(action="finished()"))
        assert (ended.reward, ended.done) == (1.0, True) and one.state().step_count == 3
        ended = other.step(DeskAction(action="finished()"))
        assert (ended.reward, ended.done) == (0.0, True)
