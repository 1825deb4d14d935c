"""What `coda bench` measures: speed and memory on this machine, beside what the kit promises.

Times of ScienceDesk are seconds of one core (processor time), so that other work on the machine does not count; all
others are seconds on the clock and want a machine that is otherwise idle.
"""

from __future__ import annotations

import io
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from rich.console import Console

from coda_lib.config import Profile, load_profile
from coda_lib.envs.sciencedesk.env import ScienceDesk
from coda_lib.errors import UserError
from coda_lib.paths import require_checkpoint
from coda_lib.task import APPS, Task, test_tasks
from coda_lib.trajectory import StopReason, Trajectory, from_png

_EPISODES = 64  # side by side, as in the laptop profile
_GRPO_STEPS = 4  # of which the first, which warms up, does not count
_REQUESTS = 50
_APP = "algebra"  # whose tasks the models see here


@dataclass(frozen=True)
class Row:
    """One figure and what is promised for it."""

    name: str
    value: float
    unit: str
    target: str = ""  # as the README words it; empty where nothing is promised
    met: bool | None = None


def measure(console: Console, profile: Profile | None = None) -> list[dict[str, Any]]:
    """All figures as rows (name, value, unit, target, met).

    Progress, and why a figure is left out (a checkpoint of the profile that is missing), go to `console`.
    """
    settings = profile or load_profile("laptop")
    rows: list[Row] = []
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


def desk_rows(env: ScienceDesk, tasks: Sequence[Task]) -> list[Row]:
    """Steps per second (action, screenshot, state, check) and the time of a reset, over the tasks' scripts, twice."""
    from coda_lib.envs.sciencedesk.script import to_action

    steps, resets = [], []
    for task in [*tasks, *tasks]:
        start = time.process_time()
        env.reset(task)
        resets.append(time.process_time() - start)
        for step in task.solution:
            action = to_action(env.desk, step)  # looks its target up in the widget tree: no part of a step
            start = time.process_time()
            env.step(action)
            env.check(StopReason.DONE)
            steps.append(time.process_time() - start)
    speed, reset = len(steps) / sum(steps), 1000 * statistics.mean(resets)
    return [
        Row(f"{env.app}: steps", speed, "steps/s a core", ">= 300", speed >= 300),
        Row(f"{env.app}: reset", reset, "ms", "< 20", reset < 20),
    ]


def decision_row(settings: Profile) -> Row:
    """Planner and executor together in a rollout of many episodes, the environment's part included."""
    import torch

    from coda_lib.agent import DualAgent
    from coda_lib.executor import Executor
    from coda_lib.models.chat import Sampling
    from coda_lib.models.local import LocalModel
    from coda_lib.planner import Planner
    from coda_lib.rollout import jobs, rollout

    torch.set_num_threads(settings.threads)
    model = LocalModel(require_checkpoint("planner", settings.models.planner), batch_size=_EPISODES)
    planner = Planner(model, Sampling.of(settings.planner), settings.prompts)
    agent = DualAgent(planner, Executor.load(settings), "base")
    play = jobs(test_tasks(_APP), 8)[:_EPISODES]
    start = time.perf_counter()
    played = rollout(agent, play, lambda: ScienceDesk(_APP), settings.seed, _EPISODES, step_limit=3)
    speed = sum(len(trajectory.steps) for trajectory in played) / (time.perf_counter() - start)
    return Row("planner, executor and application: rollout", speed, "steps/s")


def grpo_row(settings: Profile) -> Row:
    """One optimizer step of stage 1, on scripted episodes that pass for judged ones."""
    import torch

    from coda_lib.dataset import grpo_rows
    from coda_lib.executor import Executor
    from coda_lib.trainer import specialize

    torch.set_num_threads(settings.specialize.threads)
    rows = grpo_rows([_judged(task) for task in test_tasks(_APP)], settings.prompts)
    few = settings.specialize.model_copy(update={"steps": _GRPO_STEPS})
    planner = require_checkpoint("planner", settings.models.planner)
    with TemporaryDirectory(prefix="coda-bench-") as folder:
        specialize(rows, planner, Executor.load(settings), few, settings.planner, Path(folder), settings.seed)
        lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    seconds = statistics.median([json.loads(line)["step_time"] for line in lines][1:])
    completions = settings.specialize.completions_per_step
    return Row(f"decoupled GRPO: step of {completions} completions", seconds, "s", "<= 5", seconds <= 5)


class _Answering(BaseHTTPRequestHandler):
    """Answers every request at once."""

    asked = b""  # the last
    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1  # an answer is one packet, sent at once
    answer = {"id": "0", "object": "chat.completion", "created": 0, "model": "none", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Click 'Grid'."}}]}  # fmt: skip

    def do_POST(self) -> None:
        _Answering.asked = self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(self.answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def endpoint_row() -> Row:
    """What a request with two screenshots of 1280x800, as a virtual machine sends them, takes beyond its bare bytes' way to the
    server and back.
    """
    import httpx

    from coda_lib.envs.scienceboard.pretended import pictures
    from coda_lib.models.chat import Sampling, image, text
    from coda_lib.models.endpoint import EndpointModel

    asked = [{"role": "user", "content": [*(image(from_png(png)) for png in pictures()), text("Turn the grid on.")]}]
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server, httpx.Client() as bare:
        Thread(target=server.serve_forever, daemon=True).start()
        model = EndpointModel(f"http://127.0.0.1:{server.server_port}/v1", "none")
        whole, bytes_alone = [], []
        for _ in range(1 + _REQUESTS):  # by turns, so that whatever else goes on here slows both
            whole.append(_seconds(lambda: model.generate([asked], Sampling(), 0)))
            bytes_alone.append(_seconds(lambda: bare.post(f"{model.url}/chat/completions", content=_Answering.asked).read()))
        server.shutdown()
    added = 1000 * (statistics.median(whole[1:]) - statistics.median(bytes_alone[1:]))
    return Row("served model: added to a request with two screenshots", added, "ms", "< 3", added < 3)


def _seconds(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def memory_row() -> Row:
    """The largest size of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024  # bytes, or KiB
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    return Row("peak memory of all of the above", size, "GiB", "< 6", size < 6)


def _judged(task: Task) -> Trajectory:
    from coda_lib.judge import VOTES, Verdict, format_verdict
    from coda_lib.show.examples import scripted

    return replace(scripted(task), verdicts=(format_verdict(Verdict(correct=True)),) * VOTES)
