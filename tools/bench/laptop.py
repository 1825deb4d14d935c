"""Speed and memory of the kit on this machine, beside their targets: `make bench`.

Times of ScienceDesk are processor time of one core and independent of other work on the machine.  All others
are wall-clock times and need an idle machine.
"""

from __future__ import annotations

import io
import json
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any

import httpx
from rich.console import Console

from coda_lib.agent import DualAgent, ScriptAgent
from coda_lib.applications import APPS
from coda_lib.config import Profile, load_profile
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.models.chat import Sampling, image, text
from coda_lib.models.endpoint import EndpointModel
from coda_lib.paths import require_checkpoint
from coda_lib.planner import Planner
from coda_lib.rollout import jobs, rollout
from coda_lib.task import Task, test_tasks
from coda_lib.trajectory import StopReason, from_png
from sciencedesk.board.fake import REAL_SIZE, screen
from sciencedesk.env import ScienceDesk
from sciencedesk.real.checks import timed

if TYPE_CHECKING:
    from datasets import Dataset

_EPISODES = 64  # side by side, as in the laptop profile
_GRPO_STEPS = 4  # the first warms up and does not count
_REQUESTS = 50
_APP = "algebra"  # application of the models' tasks


@dataclass(frozen=True)
class Measurement:
    """A measured value and its target."""

    name: str
    value: float
    unit: str
    target: str = ""  # as the documentation words it; empty: none
    met: bool | None = None


def measure(console: Console, profile: Profile | None = None) -> list[dict[str, Any]]:
    """All measurements as dictionaries (name, value, unit, target, met).

    Progress goes to `console`, and so does the reason where the models are not measured (a missing
    checkpoint).
    """
    settings = profile or load_profile("laptop")
    rows: list[Measurement] = []
    with console.status("") as status:
        for app in APPS:
            status.update(f"{app}: steps and resets")
            rows += desk_rows(ScienceDesk(app), test_tasks(app))
        try:
            for role, name in (("planner", settings.models.planner), ("executor", settings.models.executor)):
                require_checkpoint(role, name)
        except UserError as reason:
            console.print(f"models are not measured: {reason}", markup=False)
        else:
            with redirect_stdout(io.StringIO()):  # trainers print
                status.update("planner and executor: decisions")
                rows.append(decision_row(settings))
                status.update(f"GRPO: {_GRPO_STEPS} steps")
                rows.append(grpo_row(settings))
        status.update("requests to a served model")
        rows.append(endpoint_row())
        rows.append(memory_row())
    return [asdict(row) for row in rows]


def desk_rows(env: ScienceDesk, tasks: Sequence[Task]) -> list[Measurement]:
    """Steps per second (action, screenshot, state, check) and seconds of a reset, over the tasks' scripts,
    each played twice.
    """
    from sciencedesk.script import to_action

    steps, resets = [], []
    for task in [*tasks, *tasks]:
        start = time.process_time()
        env.reset(task)
        resets.append(time.process_time() - start)
        for step in task.solution:
            action = to_action(env.desk, step)  # looks up its target in the widget tree: not part of a step
            start = time.process_time()
            env.step(action)
            env.check(StopReason.DONE)
            steps.append(time.process_time() - start)
    speed, reset = len(steps) / sum(steps), 1000 * statistics.mean(resets)
    return [
        Measurement(f"{env.app}: steps", speed, "steps/s a core", ">= 300", speed >= 300),
        Measurement(f"{env.app}: reset", reset, "ms", "< 20", reset < 20),
    ]


def decision_row(settings: Profile) -> Measurement:
    """Steps per second of planner, executor and environment in a rollout of many episodes."""
    import torch

    from coda_lib.models.local import LocalModel

    torch.set_num_threads(settings.threads)
    model = LocalModel(require_checkpoint("planner", settings.models.planner), batch_size=_EPISODES)
    planner = Planner(model, Sampling.of(settings.planner), settings.prompts)
    agent = DualAgent(planner, Executor.load(settings), "base")
    play = jobs(test_tasks(_APP), 8)[:_EPISODES]
    seconds, played = timed(
        rollout, agent, play, lambda: ScienceDesk(_APP), settings.seed, _EPISODES, step_limit=3
    )
    speed = sum(len(trajectory.steps) for trajectory in played) / seconds
    return Measurement("planner, executor and application: rollout", speed, "steps/s")


def grpo_row(settings: Profile) -> Measurement:
    """Seconds of an optimizer step of stage 1; every step of a scripted episode counts as positive."""
    import torch

    from coda_lib.trainer import specialize

    torch.set_num_threads(settings.specialize.threads)
    rows = scripted_rows(settings)
    few = settings.specialize.model_copy(update={"steps": _GRPO_STEPS})
    planner = require_checkpoint("planner", settings.models.planner)
    with TemporaryDirectory(prefix="coda-bench-") as folder:
        specialize(rows, planner, Executor.load(settings), few, settings.planner, Path(folder), settings.seed)
        lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    seconds = statistics.median([json.loads(line)["step_time"] for line in lines][1:])
    completions = settings.specialize.completions_per_step
    return Measurement(
        f"decoupled GRPO: step of {completions} completions", seconds, "s", "<= 5", seconds <= 5
    )


def scripted_rows(settings: Profile) -> Dataset:
    """Rows of stage 1: the steps of scripted episodes."""
    from coda_lib.dataset import grpo_rows
    from sciencedesk.script import read_step

    tasks = test_tasks(_APP)
    agent = ScriptAgent({task.instruction: task.solution for task in tasks}, read_step)
    episodes = rollout(agent, jobs(tasks, 1), lambda: ScienceDesk(_APP), settings.seed, concurrency=1)
    return grpo_rows(episodes, settings.prompts, lambda episode: range(len(episode.steps)))


class _InstantServer(BaseHTTPRequestHandler):
    """Answers every request at once."""

    body = b""  # of the last request
    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1  # an answer is one packet
    answer = {"id": "0", "object": "chat.completion", "created": 0, "model": "none", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant",
         "content": "Click 'Grid'."}}]}  # fmt: skip

    def do_POST(self) -> None:
        _InstantServer.body = self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(self.answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def endpoint_row() -> Measurement:
    """Milliseconds that the client adds to a request with two screenshots of 1280 x 800, beyond sending its
    bytes and reading the answer.
    """
    screens = [image(from_png(screen(number, REAL_SIZE))) for number in range(2)]
    conversation = [{"role": "user", "content": [*screens, text("Turn the grid on.")]}]
    with ThreadingHTTPServer(("127.0.0.1", 0), _InstantServer) as server, httpx.Client() as bare:
        Thread(target=server.serve_forever, daemon=True).start()
        model = EndpointModel(f"http://127.0.0.1:{server.server_port}/v1", "none")
        requests, bytes_alone = [], []
        for _ in range(1 + _REQUESTS):  # by turns, so that other work on the machine slows both
            requests.append(timed(model.generate, [conversation], Sampling(), 0)[0])
            bytes_alone.append(
                timed(bare.post, f"{model.url}/chat/completions", content=_InstantServer.body)[0]
            )
        server.shutdown()
    added = 1000 * (statistics.median(requests[1:]) - statistics.median(bytes_alone[1:]))
    return Measurement("served model: added to a request with two screenshots", added, "ms", "< 3", added < 3)


def memory_row() -> Measurement:
    """Peak memory of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024  # bytes, or KiB
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    return Measurement("peak memory of all of the above", size, "GiB", "< 6", size < 6)
