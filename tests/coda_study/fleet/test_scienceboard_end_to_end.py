"""All tasks of ScienceBoard on fake machines: planner, executor and judge over HTTP, from file to verdict.

The agent types one word and ends, so that nothing is solved: what is tested is that every episode is played
to its end, once, judged, and comes back in its place, whatever the machines do.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import chain
from threading import Thread
from types import SimpleNamespace

import pytest
from board_files import APPS, FOLDERS
from chat_server import Server, words_of

from coda_lib.agent import load_agent
from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.judge import Judge, Rule, Verdict, format_verdict, score
from coda_lib.rollout import jobs, rollout
from coda_lib.trajectory import StopReason
from sciencedesk.board.fake import FakeMachine
from sciencedesk.board.files import board_files
from sciencedesk.board.machine import Machines
from sciencedesk.board.tasks import app_task

RATES = {"hang": 0.01, "error": 0.02, "reset before": 0.02, "reset after": 0.02, "truncated": 0.03,
         "stale": 0.02, "latency": 0.05}  # fmt: skip


def answered(asked: dict) -> tuple[int, str]:
    """The three models: a word is typed after the first screen; later the episode ends."""
    words = words_of(asked)
    match asked["model"]:
        case "judge":
            return 200, format_verdict(Verdict(False, first_error_step=1))
        case "ByteDance-Seed/UI-TARS-1.5-7B":
            return 200, "Thought: the plan\nAction: type(content='coda')"
    return 200, "Thought: DONE" if "coda" in words else "Thought: Type 'coda'.\nAction: type"


@pytest.fixture
def models():
    server = Server(answered)
    Thread(target=server.serve_forever, daemon=True).start()
    served = (f"serving.{role}={server.url}" for role in ("planner", "executor", "judge"))
    named = (f"models.{role}={role}" for role in ("planner", "judge"))
    yield load_profile("paper", (*served, *named)), server
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("rates", [{}, RATES], ids=["quiet", "faults"])
@pytest.mark.parametrize("folder", FOLDERS or [None], ids=lambda folder: folder and folder.name)
def test_every_task_is_played_to_a_verdict(folder, rates, models, monkeypatch):
    if folder is None:
        pytest.skip("SCIENCEBOARD_TASKS names no folder")
    # the files ask for 2.5 to 10 s after each item, for the sake of real machines
    monkeypatch.setattr("sciencedesk.board.machine.time", SimpleNamespace(sleep=lambda seconds: None))
    profile, server = models
    agent = load_agent(profile, "base", profile.models.planner)
    tasks, unreadable = [], []
    for path in chain.from_iterable(board_files(folder / app) for app in APPS):
        try:
            tasks.append(app_task(path))
        except UserError:  # an expression that looks into the running program
            unreadable.append(path)
    machines = [FakeMachine(rates, seed=seed) for seed in range(8)]
    make = partial(Machines([fake.machine for fake in machines]), fit=lambda size: size)
    reports = []
    played = rollout(agent, jobs(tasks, 1), make, 7, len(machines), report=reports.append)
    injected = Counter(chain.from_iterable(fake.faults.elements() for fake in machines))
    for fake in machines:
        fake.close()
    assert [one.task_id for one in played] == [task.id for task in tasks]
    # the corrected edition has a file less
    assert len(tasks) + len(unreadable) in (126, 127) and len(unreadable) <= 1
    broken = [one for one in played if one.stop is StopReason.ENVIRONMENT_ERROR]
    whole = [one for one in played if one not in broken]
    if not rates:
        assert not broken and not reports and injected.keys() == {"none"}
    assert len(broken) <= 0.1 * len(tasks) and all(one.success is None for one in broken)
    assert len(broken) <= len(reports)  # each is said
    for one in whole:
        assert one.stop is StopReason.DONE and [step.plan for step in one.steps] == ["Type 'coda'.", "DONE"]
    judge = Judge.load(profile)
    judged = judge.vote(whole, 7)
    result = score(judged, Rule.of(profile.judge))
    assert (result.trajectories, result.accepted, result.invalid_votes) == (len(whole), 0, 0)
    asked = Counter(request["model"] for request in server.asked)
    assert asked["judge"] == len(whole)  # a first "no" decides
    assert asked["planner"] >= 2 * len(whole) and asked[profile.models.executor] >= len(whole)
    print(f"{len(whole)} of {len(tasks)} episodes, {injected}, {len(reports)} reports")
