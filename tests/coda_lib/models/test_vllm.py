"""A real vLLM that `coda serve` starts: `CODA_VLLM=/path/to/bin/vllm pytest -m vllm -s` (docs/scale.md,
"Served by vLLM").
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import psutil
import pytest

from coda_lib.agent import DualAgent
from coda_lib.executor import Executor
from coda_lib.judge import Judge
from coda_lib.models.chat import Sampling
from coda_lib.models.endpoint import EndpointModel
from coda_lib.models.local import LocalModel
from coda_lib.models.server import served
from coda_lib.paths import REPO
from coda_lib.planner import Planner
from coda_lib.rollout import rollout
from coda_lib.task import test_tasks as tasks_of_tests
from coda_lib.trajectory import Trajectory
from sciencedesk.env import ScienceDesk

VLLM = os.environ.get("CODA_VLLM")
pytestmark = [pytest.mark.vllm, pytest.mark.skipif(not VLLM, reason="CODA_VLLM does not name a vLLM command")]

MODELS = REPO / "data" / "checkpoints"
ROLES = {
    "planner": (18781, signal.SIGINT),
    "executor": (18782, signal.SIGTERM),
    "judge": (18783, signal.SIGKILL),
}  # port, end
BLOCK = 32  # tokens of the cache that are shared as a whole
OPTIONS = ("--dtype", "float32", "--enforce-eager", "--block-size", str(BLOCK))
GREEDY = Sampling(temperature=0.0, max_new_tokens=128)


class Recorder:
    """A model whose conversations and replies are kept."""

    def __init__(self, model):
        self.model, self.name, self.resize_rule, self.conversations, self.replies = (
            model,
            model.name,
            model.resize_rule,
            [],
            [],
        )

    def generate(self, conversations, sampling, seed) -> list[str]:
        replies = self.model.generate(conversations, sampling, seed)
        self.conversations += conversations
        self.replies += replies
        return replies


@contextmanager
def coda_serve(role: str) -> Iterator[EndpointModel]:
    """A model that the command serves by vLLM; however the command ends, nothing of it is left."""
    port, end = ROLES[role]
    words = [
        sys.executable,
        "-m",
        "coda_study.cli.main",
        "serve",
        role,
        "--port",
        str(port),
        "--vllm",
        str(VLLM),
        "--",
    ]
    memory = {"VLLM_CPU_KVCACHE_SPACE": "1"}  # GB, for a CPU build
    command = subprocess.Popen([*words, *OPTIONS], stdout=subprocess.PIPE, text=True, env=os.environ | memory)
    try:
        first = re.fullmatch(rf"{role}: (\S+) \(by vllm\), model (.+)\n", command.stdout.readline())
        processes = psutil.Process(command.pid).children(recursive=True)
        yield EndpointModel(first[1], first[2])
    finally:
        command.send_signal(end)
        command.wait(60)
    _, alive = psutil.wait_procs(processes, 10)
    assert len(processes) >= 2 and not alive


@pytest.fixture(scope="module")
def by_vllm() -> Iterator[dict[str, EndpointModel]]:
    """Give the profile's three models, each behind a vLLM of its own."""
    with ExitStack() as servers:
        yield {role: servers.enter_context(coda_serve(role)) for role in ROLES}


def judged(models, app: str, number: int) -> list[Trajectory]:
    """Greedy episodes of planner and executor, judged."""
    agent = DualAgent(
        Planner(models["planner"], GREEDY, "compact"), Executor(models["executor"], GREEDY, "compact"), "base"
    )
    jobs = [(task, 0) for task in tasks_of_tests(app)[:number]]
    episodes = rollout(agent, jobs, lambda: ScienceDesk(app), 7, step_limit=6)
    return Judge(models["judge"], GREEDY, votes=1).vote(episodes, 7)


@pytest.fixture(scope="module")
def local() -> dict[str, Recorder]:
    """Give the three models in this process, after twelve episodes of each application."""
    models = {role: Recorder(LocalModel(MODELS / role, device="cpu")) for role in ROLES}
    for app in ("algebra", "astron", "biochem", "gis"):
        judged(models, app, 12)
    return models


def test_an_episode_planned_acted_and_judged_by_vllm_is_the_local_one(by_vllm, local):
    (theirs,), (ours,) = (
        judged(by_vllm, "gis", 1),
        judged({role: one.model for role, one in local.items()}, "gis", 1),
    )
    assert theirs == ours and len(ours.steps) >= 2 and len(ours.verdicts) == 1


@pytest.mark.parametrize("role", ROLES)
def test_greedy_replies_are_those_of_the_other_engines(by_vllm, local, role):
    conversations, replies = local[role].conversations, local[role].replies
    with served(MODELS / role) as transformers:
        here = LocalModel(MODELS / role, device="cpu")
        for name, model in {
            "LocalModel": here,
            "transformers": transformers.model,
            "vLLM": by_vllm[role],
        }.items():
            began = time.perf_counter()
            answers = model.generate(conversations, GREEDY, 0)
            seconds = time.perf_counter() - began
            equal = sum(one == other for one, other in zip(answers, replies, strict=True))
            print(
                f"{role} by {name}: {len(answers) / seconds:.1f} replies/s, {equal} of {len(answers)} equal"
            )
            assert equal >= 0.98 * len(replies)  # the rest: two tokens of nearly equal logits


def test_samples_of_a_prompt_share_its_prefix_and_are_drawn_by_seed(by_vllm, local):
    planner, sampling = by_vllm["planner"], Sampling(temperature=2.0, max_new_tokens=32)
    conversation = local["planner"].conversations[-1]
    planner.generate([conversation], sampling, 0)
    read, known = tokens(planner, "prompt_tokens"), tokens(planner, "prefix_cache_hits")
    replies = planner.generate([conversation] * 8, sampling, 1)
    read, known = tokens(planner, "prompt_tokens") - read, tokens(planner, "prefix_cache_hits") - known
    print(f"8 samples: {known} of {read} tokens from the cache, {len(set(replies))} distinct replies")
    assert (
        known == 8 * ((read // 8 - 1) // BLOCK * BLOCK) > read / 2
    )  # all whole blocks; the last token is always computed
    assert planner.generate([conversation] * 8, sampling, 1) == replies and len(set(replies)) > 1


def tokens(model: EndpointModel, counter: str) -> int:
    """A counter of vLLM's, after its log has caught up."""
    time.sleep(1)
    metrics = httpx.get(model.url.removesuffix("/v1") + "/metrics").text
    return int(float(re.search(rf"^vllm:{counter}_total\S* (\S+)$", metrics, re.MULTILINE)[1]))
