"""Virtual machines: the requests to them; a broken machine is never a failed task, and no action is carried
out twice.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from coda_lib.action import Action
from coda_lib.agent import Decision
from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.paths import DATA
from coda_lib.rollout import TRIES, jobs, play, rollout
from coda_lib.trajectory import StopReason, encode_image, screenshot_png
from sciencedesk.board.fake import SIZE, FakeMachine, screen
from sciencedesk.board.guest import Guest, Timing, decoded, program
from sciencedesk.board.machine import Machine, Machines, ScienceBoard, load_machines
from sciencedesk.board.tasks import app_task

FAST = Timing(
    connect=0.3,
    answer=0.25,
    action=0.25,
    prepare=0.25,
    item=0,
    boot=0.6,
    pause=0.01,
    after=0,
    settle=0.2,
    look=0.005,
    wait=0.1,
)
TASK = {
    "type": "KAlgebra", "sort": "VM", "steps": 3, "instruction": "Type twice.", "version": "0.1",
    "snapshot": "clean", "initialize": [{"func": "execute", "command": "make ready", "shell": True}],
    "evaluate": [{"type": "val", "key": "n", "value": 2}],
}  # fmt: skip


@pytest.fixture
def server():
    fake = FakeMachine()
    yield fake
    fake.close()


@pytest.fixture
def make_task(tmp_path):
    def make(name="A-01", **changes):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(TASK | changes))
        return app_task(path)

    return make


def machine(server: FakeMachine, **changes) -> Machine:
    return Machine(address=server.address, state_port=server.port, **changes)


class Typist:
    """Types twice, every time something that nobody has typed before, and is done."""

    name = "typist"

    def __init__(self):
        self.numbers = itertools.count()

    def decide(self, observations, seed):
        acts = [
            Action.done() if len(o.history) == 2 else Action.type_text(f"word {next(self.numbers)}")
            for o in observations
        ]
        return [Decision("plan", "reply", (act,)) for act in acts]


# ---- one machine -----------------------------------------------------------------------------------------


def test_a_task_is_prepared_played_and_checked(server, make_task):
    env = ScienceBoard(machine(server), FAST)
    items = [
        {"func": "launch", "command": "app «PORTLIKE»", "shell": True},
        {"func": "execute", "command": ["a", "«PORTLIKE»"]}, {"func": "opt", "depth": 6},
        {"func": "touch", "path": "/a", "text": "x"}, {"func": "tab", "index": 2},
        {"func": "func_2d", "expr": "x->x^2"}, {"func": "turn", "axis": "y", "angle": 1},
        {"func": "color", "style": "rainbow"}, {"func": "open", "name": "251d"}, {"func": "clear_log"},
        {"func": "alphafold_match", "name": "A"}, {"func": "destroy"},
    ]  # fmt: skip
    picture, _ = env.reset(make_task(initialize=items))
    assert picture.shape == (*SIZE[::-1], 3) and env.observation_space.contains(picture)
    sent = [
        (path, json.loads(body) if body[:1] in b'{["0123456789' else body.decode())
        for path, body in server.requests
        if body
    ]
    port = server.port
    assert "reset.sh" in sent[0][1]["command"] and sent[1:] == [
        ("/setup/launch", {"command": f"app {port}", "shell": True}),
        ("/setup/execute", {"command": ["a", str(port)], "shell": False}), ("/opt", {"depth": 6}),
        ("/write", {"path": "/a", "content": "x"}), ("/tab", 2), ("/add/2d", "x->x^2"),
        *(("/chimerax/run", {"port": port, "command": said}) for said in
          ("turn y 1", "rainbow", "open 251d", "log clear", "alphafold match A", "destroy")),
    ]  # fmt: skip
    seen, _, ended, _, info = env.step(Action.click(0.5, 0.5))
    assert (
        server.actions == ["click 80 60"]
        and not np.array_equal(seen, picture)
        and not ended
        and info["stop"] is None
    )
    env.step(Action.type_text('it\'s "x"\n'))
    assert server.actions[1:] == ['write it\'s "x"', "press enter"]
    png = server.picture
    assert env.step(Action.done())[2:] == (True, False, {"stop": StopReason.DONE, "answer": None})
    shown, ended = env.proceed(Action.done())
    assert ended and screenshot_png(shown) == png and np.array_equal(np.asarray(shown), env.render())
    played, _ = play(Typist(), ScienceBoard(machine(server), FAST), make_task(), 0, 7)
    assert played.final_screenshot == server.picture  # as it came
    small = ScienceBoard(machine(server), FAST, fit=lambda size: (32, 24))
    assert small.reset(make_task())[1] == {}
    assert env.check(StopReason.DONE) is False and env.lost is False  # three calls, not two


def test_what_cannot_be_typed_is_nothing_done(server, make_task):
    env = ScienceBoard(machine(server), FAST)
    env.reset(make_task())
    *_, info = env.step(Action.type_text("π"))
    assert server.actions == [] and "cannot type" in info["refused"]


@pytest.mark.parametrize(
    "text", ["'", '"', "\\", "'); import os; os.system('id') #", "\n'''\n", "{0}", "%s", "a\\'b"]
)
def test_what_is_typed_can_never_become_code(text):
    (call,) = [("write", (text,), {})]
    code = program([call])
    scope: dict = {
        "pyautogui": type(
            "Fake", (), {"write": staticmethod(lambda said: scope.update(said=said)), "FAILSAFE": 0}
        )
    }
    exec(code.replace("import pyautogui; ", ""), scope)  # our own code, with the text in it
    assert scope["said"] == text and len(code.splitlines()) == 1


def test_snapshots_are_reverted_by_the_users_command(server, make_task, tmp_path):
    mark = tmp_path / "mark"
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    words = (sys.executable, "-c", code, str(mark), "{snapshot}")
    env = ScienceBoard(machine(server, revert=words), FAST)
    env.reset(make_task())
    assert mark.read_text() == "clean"
    for broken in (("/no/such/command",), (sys.executable, "-c", "raise SystemExit('no such snapshot')")):
        with pytest.raises(EnvironmentFault, match="no such|No such"):
            ScienceBoard(machine(server, revert=broken), FAST).reset(make_task())


def test_a_slow_boot_is_waited_for_and_a_dead_machine_is_not_for_ever(make_task):
    slow = FakeMachine(boot_s=0.3)
    ScienceBoard(machine(slow), FAST).reset(make_task())
    slow.dead = True
    with pytest.raises(EnvironmentFault, match="does not answer 0.6 s after"):
        ScienceBoard(machine(slow), FAST).reset(make_task())
    slow.close()
    with pytest.raises(EnvironmentFault, match="does not answer"):
        ScienceBoard(machine(slow), FAST).reset(make_task())


@pytest.mark.parametrize("fault", ["error", "reset before", "truncated", "hang"])
def test_a_question_is_asked_again_and_at_last_given_up(fault):
    server = FakeMachine({fault: 0.5}, seed=3, hang_s=0.4)
    guest = Guest(server.address, Timing(**(vars(FAST) | {"tries": 12})))
    for _ in range(5):
        assert decoded(guest.screenshot()).shape == (*SIZE[::-1], 3)
    assert server.faults[fault] > 0
    server.rates = {fault: 1.0}
    with pytest.raises(EnvironmentFault):
        Guest(server.address, FAST).screenshot()
    server.close()


@pytest.mark.parametrize(
    ("fault", "done"), [("error", 0), ("reset before", 0), ("reset after", 1), ("hang", 1)]
)
def test_an_action_is_never_sent_twice(fault, done):
    server = FakeMachine({fault: 1.0}, hang_s=0.4)
    guest = Guest(server.address, FAST)
    with pytest.raises(EnvironmentFault):
        guest.act([("click", (1, 2), {})])
    server.close()
    time.sleep(0.3)  # what hung is done later
    assert len(server.actions) <= done and sum(path == "/execute" for path, _ in server.requests) == 1


def test_a_picture_counts_once_it_stands_still(server):
    guest = Guest(server.address, Timing(**(vars(FAST) | {"still": 0.08, "settle": 1.0})))
    server.rates = {"stale": 0.05}
    server.execute(["python", "-c", "pyautogui.click(1, 2)"])
    assert guest.settled() == screen(1)  # not the picture before the action


def test_a_screen_that_changes_its_size_is_a_fault(server, make_task, monkeypatch):
    env = ScienceBoard(machine(server), FAST)
    env.reset(make_task())
    monkeypatch.setattr(env.guest, "settled", lambda: encode_image(Image.new("RGB", (9, 9))))
    with pytest.raises(EnvironmentFault, match="the screen was"):
        env.step(Action.click(0, 0))


def test_machines_come_from_a_file(tmp_path):
    machine, container = load_machines(DATA / "machines.example.yaml")
    assert "{snapshot}" in machine.revert and machine.state_port == container.state_port == 8000
    assert container.timing == machine.timing and container.revert[-1] in container.start
    published = {f"{container.address}:{port}:{port}" for port in (5000, container.state_port)}
    assert published < {*container.start} and "{snapshot}" in container.start[-1]
    path = tmp_path / "machines.yaml"
    with pytest.raises(UserError, match="there is no file"):
        load_machines(path)
    path.write_text(
        "- {address: 10.0.0.7, revert: [vmrun, revertToSnapshot, a.vmx, clean]}\n"
        "- {address: '10.0.0.8:5001'}\n"
    )
    assert [m.address for m in load_machines(path)] == ["10.0.0.7", "10.0.0.8:5001"]
    path.write_text("- {address: 10.0.0.7}\n- {address: 10.0.0.8}\n- {address: 10.0.0.7}\n")
    with pytest.raises(UserError, match="machines.yaml lists 10.0.0.7 twice"):
        load_machines(path)
    path.write_text("- {adress: 10.0.0.7}\n")
    with pytest.raises(UserError, match="machines.yaml: 0.address"):
        load_machines(path)


# ---- many episodes ---------------------------------------------------------------------------------------


def test_with_no_machine_left_the_rest_is_kept_as_broken(make_task):
    dead = FakeMachine()
    dead.dead = True
    told = []
    found = rollout(
        Typist(), jobs([make_task()], 5), Machines([machine(dead)], FAST), 0, 4, report=told.append
    )
    assert [t.stop for t in found] == [StopReason.ENVIRONMENT_ERROR] * 5 and all(
        t.success is None for t in found
    )
    assert [t.run for t in found] == list(range(5)) and "no virtual machine is left" in told
    assert sum("does not answer" in said for said in told) == 3  # strikes
    dead.close()


@pytest.mark.slow
def test_a_thousand_episodes_on_machines_that_misbehave(make_task, monkeypatch):
    rates = dict.fromkeys(("latency", "truncated", "stale"), 0.02) | dict.fromkeys(
        ("error", "reset before", "reset after"), 0.01
    )
    rates["hang"] = 0.003
    servers = [FakeMachine(rates, seed, hang_s=0.35, boot_s=0.02) for seed in range(8)]
    servers[5].dead = True
    of = {server.address: server for server in servers}
    monkeypatch.setattr(
        ScienceBoard, "_command", lambda env, words: of[env.machine.address].revert() if words else None
    )
    told: list[str] = []
    tasks = [make_task(f"A-{i:02d}") for i in range(50)]
    todo = jobs(tasks, 20)
    machines = Machines([machine(server, revert=("revert",)) for server in servers], FAST)
    found = rollout(Typist(), todo, machines, 0, 8, report=told.append)
    assert [(t.task_id, t.run) for t in found] == [
        (task.id, run) for task, run in todo
    ]  # none lost, none twice
    broken = [t for t in found if t.stop is StopReason.ENVIRONMENT_ERROR]
    assert all(t.success is None for t in broken) and all(t.success for t in found if t not in broken)
    done = Counter(said for server in servers for said in server.actions)
    assert max(done.values()) == 1 and len(done) >= 2 * (1000 - len(broken))
    faults = sum((server.faults for server in servers), Counter())
    assert all(faults[name] > 10 for name in rates) and 0 < len(broken) < 50
    assert len(told) >= len(broken) * TRIES
    for server in servers:
        server.close()
