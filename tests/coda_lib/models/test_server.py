"""Models behind servers of their own: `transformers serve` with the tiny checkpoints, and what can go wrong
with it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import httpx
import psutil
import pytest

from coda_lib.agent import DualAgent
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.files import read_json
from coda_lib.models.chat import Sampling
from coda_lib.models.local import LocalModel, load_processor
from coda_lib.models.server import served
from coda_lib.paths import REPO
from coda_lib.planner import Planner
from coda_lib.rollout import rollout
from coda_lib.task import test_tasks as tasks_of_tests
from sciencedesk.env import ScienceDesk

MODELS = REPO / "data" / "checkpoints"
GREEDY = Sampling(temperature=0.0, max_new_tokens=32)


def agent(planner, executor) -> DualAgent:
    return DualAgent(Planner(planner, GREEDY, "compact"), Executor(executor, GREEDY, "compact"), "base")


def played(planner, executor) -> list[tuple[str, str]]:
    """What was planned and done at each step of four episodes."""
    jobs = [(task, 0) for task in tasks_of_tests("gis")[:4]]
    trajectories = rollout(agent(planner, executor), jobs, lambda: ScienceDesk("gis"), 7, step_limit=3)
    return [(step.plan.strip(), str(step.actions)) for one in trajectories for step in one.steps]


@pytest.mark.slow
def test_served_models_plan_and_act_as_local_ones_do():
    local = played(
        LocalModel(MODELS / "planner", device="cpu"), LocalModel(MODELS / "executor", device="cpu")
    )
    with served(MODELS / "planner") as planner, served(MODELS / "executor") as executor:
        assert played(planner.model, executor.model) == local
        processes = [psutil.Process(server.process.pid) for server in (planner, executor)]
    assert len(local) >= 8 and not any(process.is_running() for process in processes)


def test_a_server_that_ends_is_said_with_its_last_words(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "qwen2_5_vl"}')
    with pytest.raises(UserError, match=r"(?s)the server of .* ended; its last words:\n.*"):
        with served(tmp_path):
            pass


def test_a_server_that_does_not_answer_in_time_is_stopped():
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(UserError, match="does not answer after 0 s"):
        with served(MODELS / "planner", deadline_s=0.1):
            pass
    assert set(psutil.Process().children(recursive=True)) == before


def test_a_taken_port_is_said():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} is taken .*--port"):
            with served(MODELS / "planner", port):
                pass


def coda_serve(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "coda_study.cli.main", "serve", *arguments], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_however_the_command_ends(end):
    command = coda_serve("executor", "--port", "18765")
    assert "http://127.0.0.1:18765/v1 (by transformers), model /" in command.stdout.readline()
    (server,) = psutil.Process(command.pid).children()
    assert httpx.get("http://127.0.0.1:18765/health").is_success
    assert {one.laddr.ip for one in server.net_connections("tcp") if one.status == psutil.CONN_LISTEN} == {
        "127.0.0.1"
    }
    os.kill(command.pid, end)
    command.wait(30)
    deadline = time.monotonic() + 10
    while server.is_running() and server.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE


def test_the_command_names_what_does_not_exist():
    said = subprocess.run(
        [sys.executable, "-m", "coda_study.cli.main", "serve", "critic"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        said.returncode == 2
        and "unknown role 'critic': choose one of planner, executor, judge" in said.stderr
    )


def test_vllm_of_another_environment_is_started_with_its_options(coda, tmp_path):
    command = tmp_path / "vllm"
    _, _, missing = coda("serve", "planner", "--vllm", str(command))
    assert f"no vLLM at {command}: pip install" in missing
    command.write_text('#!/bin/sh\necho "$@"\n')
    command.chmod(0o755)
    code, _, ended = coda(
        "serve", "planner", "--vllm", str(command), "--port", "18766", "--", "--dtype", "float32"
    )
    assert code == 2 and f"serve {MODELS / 'planner'} --host 127.0.0.1 --port 18766 --dtype float32" in ended


def test_the_processes_of_vllm_do_not_outlive_a_command_that_is_killed(tmp_path):
    command, python = tmp_path / "vllm", sys.executable
    command.write_text(
        f'#!/bin/sh\ncd {tmp_path}\ntouch health\nsleep 600 &\nexec {python} -m http.server "$6" --bind '
        '"$4"\n'
    )
    command.chmod(0o755)
    with coda_serve("executor", "--port", "18767", "--vllm", str(command)) as served_by:
        assert "(by vllm)" in served_by.stdout.readline()
        processes = psutil.Process(served_by.pid).children(recursive=True)
        assert "sleep" in [process.name() for process in processes]
        served_by.kill()
    assert not psutil.wait_procs(processes, 10)[1]


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in MODELS.rglob("processor_config.json")), ids=str
)
def test_vllm_can_load_the_processor_of_a_shipped_checkpoint(folder, tmp_path):
    """It loads Qwen2.5-VL's own class, which wants settings of videos."""
    load_processor(folder).save_pretrained(tmp_path)
    settings, saved = (read_json(path / "processor_config.json") for path in (folder, tmp_path))
    assert settings == saved and settings["processor_class"] == "Qwen2_5_VLProcessor"
    assert settings["video_processor"]["patch_size"] == settings["image_processor"]["patch_size"]


def test_a_profile_without_a_generator_is_said(coda):
    code, _, said = coda("serve", "generator")
    assert code == 2 and "profile laptop names no generator: give one with --checkpoint" in said
