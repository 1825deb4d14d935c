"""What was measured against the benchmark's real servers: their answers, segments, leaks and pace."""

from __future__ import annotations

import json
import socket
import time
from threading import Thread

import pytest
from board_files import each_edition, names

from coda_lib.action import Action
from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.trajectory import StopReason
from sciencedesk.board.fake import CLIENTS, FakeMachine
from sciencedesk.board.guest import SHOTS, TOGETHER, Guest, Timing
from sciencedesk.board.machine import PREPARED, ScienceBoard, load_machines
from sciencedesk.board.tasks import app_task
from sciencedesk.pyautogui import pyautogui_calls

FAST = Timing(
    connect=0.3,
    answer=0.3,
    action=0.3,
    prepare=0.3,
    item=0,
    boot=0.6,
    pause=0.01,
    after=0,
    settle=0.2,
    look=0.01,
)
TASK = {
    "type": "KAlgebra", "sort": "VM", "steps": 3, "instruction": "Plot a sphere.", "version": "0.1",
    "snapshot": "sci_bench", "initialize": [{"func": "tab", "index": 2}],
    "evaluate": [{"type": "stop", "value": "DONE"}],
}  # fmt: skip
CHIMERAX = {"type": "ChimeraX", "initialize": [{"func": "open", "name": "251d"}]}


@pytest.fixture
def server():
    fake = FakeMachine()
    yield fake
    fake.close()


@pytest.fixture
def play(tmp_path, server):
    """An environment in which a task has begun."""

    def begin(task=None, timing=FAST, **changes):
        path = tmp_path / "A-01.json"
        path.write_text(json.dumps(TASK | (task or {})))
        env = ScienceBoard(server.machine.model_copy(update=changes), timing)
        env.begin(app_task(path))
        return env

    return begin


# ---- answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("on_it", "solved"), [(True, True), (False, False)])
def test_the_plot_of_three_dimensions_is_one_object(server, play, on_it, solved):
    item = {"type": "eqn", "key": [[0, 0, 1]], "value": {"(0, 0, 1)": True}}
    server.answers["/func/3d"] = [json.dumps({"(0, 0, 1)": on_it, "color": "#000000"}).encode()]
    assert play({"evaluate": [item]}).check(StopReason.DONE) is solved


def test_chimeraxs_info_is_a_command_whose_lines_are_compared(server, play):
    item = {
        "type": "info",
        "key": "residues attribute name",
        "value": ["residue id /A:1 name ALA", "residue id /A:2 name GLY"],
    }
    env = play(CHIMERAX | {"evaluate": [item]})
    for notes, solved in (
        (["residue id /A:2 name GLY\nresidue id /A:1 name ALA\n"], True),
        (["residue id /A:2 name GLY"], False), ([], False),
    ):  # fmt: skip
        server.answers["/chimerax/run"] = [
            json.dumps({"error": None, "log messages": {"note": notes}}).encode()
        ]
        assert env.check(StopReason.DONE) is solved
    assert json.loads(server.requests[-1][1])["command"] == "info residues attribute name"


def test_a_file_that_is_not_there_is_a_failed_task_and_no_fault(server, play):
    env = play({"evaluate": [{"type": "file", "key": "/home/user/a.txt", "value": "41 distances"}]})
    assert env.check(StopReason.DONE) is False and env.begun == 0
    server.files["/home/user/a.txt"] = b"\xff 41 distances"
    assert env.check(StopReason.DONE) is True
    server.files["/home/user/a.txt"] = b"40 distances"
    assert env.check(StopReason.DONE) is False
    server.rates = {"error": 1.0}
    with pytest.raises(EnvironmentFault):
        env.check(StopReason.DONE)


def test_a_grass_command_without_output_is_no_crash(server, play):
    item = {
        "type": "db",
        "cmd": "v.db.select",
        "kwargs": {"map": "m"},
        "key": "lambda out: out.strip()",
        "value": "1",
    }
    env = play({"type": "GrassGIS", "evaluate": [item]})
    server.answers["/gcmd"] = [b'{"stderr": "no such map"}', b'{"stdout": "1\\n"}']
    assert env.check(StopReason.DONE) is False and env.check(StopReason.DONE) is True


# ---- preparation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "path", "refusal"),
    [
        ({}, "/tab", b"no such tab"),
        ({"initialize": [{"func": "func_3d", "expr": "x"}]}, "/add/3d", b""),
        ({"initialize": [{"func": "touch", "path": "/a"}]}, "/write", b"<html>"),
        ({"type": "GrassGIS", "initialize": [{"func": "scale", "scale": 2}]}, "/init/scale", b"False"),
        (CHIMERAX, "/chimerax/run", b'{"error": {"type": "UserError"}, "log messages": {}}'),
        (CHIMERAX, "/chimerax/run", b"[]"),
    ],
)
def test_a_refused_preparation_is_begun_again_from_the_snapshot_and_is_never_a_failed_task(
    server, play, task, path, refusal
):
    server.answers[path] = [refusal] * (PREPARED - 1)
    play(task)
    assert server.reverts == PREPARED and server.restarts == PREPARED
    server.answers[path] = [refusal] * PREPARED
    with pytest.raises(EnvironmentFault, match=f"A-01 was not prepared in {PREPARED} tries, last: "):
        play(task)
    with pytest.raises(EnvironmentFault, match="not prepared in 1 tries"):
        server.answers[path] = [refusal]
        play(task, revert=())  # what was prepared would be there twice


def test_the_server_is_restarted_after_a_revert(server, play):
    play()
    assert "/home/user/server/reset.sh" in server.requests[1][1].decode() and server.restarts == 1
    play(reset="")
    assert server.restarts == 1


# ---- segments --------------------------------------------------------------------------------------------


def test_a_request_leaves_in_one_segment():
    listener, received = socket.create_server(("127.0.0.1", 0)), []

    def serve() -> None:
        for _ in range(20):
            connection, _ = listener.accept()
            received.append(connection.recv(1 << 16))  # one, as KAlgebra's server does
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK")
            connection.close()

    Thread(target=serve, daemon=True).start()
    port = listener.getsockname()[1]
    guest = Guest("127.0.0.1:1", FAST)
    for number in range(20):
        guest.order("/tab", port, json=number)
    assert [body.partition(b"\r\n\r\n")[2] for body in received] == [
        str(number).encode() for number in range(20)
    ]
    listener.close()


def test_a_state_server_gets_no_second_part(server):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"POST /tab HTTP/1.1\r\nContent-Length: 1\r\n\r\n")
        time.sleep(0.05)
        connection.sendall(b"2")
        with pytest.raises(ConnectionResetError):
            connection.recv(100)


# ---- what screenshots leak -------------------------------------------------------------------------------


def test_a_step_takes_one_screenshot_and_a_machine_is_never_worn_out(server, play):
    env = play()
    for _ in range(10):
        env.proceed(Action.click(0.5, 0.5))
    assert server.clients == 11 == env.guest.shots
    watched = play(timing=FAST.model_copy(update={"still": 0.05, "settle": 1.0}))
    for _ in range(60):
        watched.proceed(Action.click(0.5, 0.5))
    assert server.clients == watched.guest.shots < SHOTS < CLIENTS
    with pytest.raises(EnvironmentFault, match=f"gave {SHOTS} screenshots and would soon end"):
        for _ in range(SHOTS):
            watched.guest.screenshot()
    for _ in range(3):  # a machine without a revert has its server restarted
        env = play(revert=())
        for _ in range(100):
            env.guest.screenshot()


def test_a_real_server_ends_after_so_many_screenshots(server):
    guest = Guest(server.address, FAST)
    for _ in range(CLIENTS):
        guest._client.get(f"http://{server.address}/screenshot")
    with pytest.raises(EnvironmentFault, match="Maximum number of clients"):
        guest.screenshot()
    with pytest.raises(EnvironmentFault, match="Maximum number of clients"):
        guest.act([("click", (1, 2), {})])


def test_a_late_effect_is_in_the_picture_of_its_step(server, play):
    assert Timing().after >= 2.0 and Timing().wait == 5.0
    server.effect_s = 0.3
    late = play(timing=FAST.model_copy(update={"after": 0.4}))
    first = late.picture()
    assert late.proceed(Action.click(0.5, 0.5))[0].tobytes() != first.tobytes()


def test_waits_are_set_for_each_machine(tmp_path):
    path = tmp_path / "machines.yaml"
    path.write_text(
        "- {address: a, timing: &slow {after: 1, wait: 3}}\n- {address: b, timing: *slow}\n- {address: c}\n"
    )
    machines = load_machines(path)
    assert [machine.timing.wait for machine in machines] == [3, 3, 5] and machines[1].timing.after == 1
    assert ScienceBoard(machines[0]).wait_s == 3 and ScienceBoard(machines[0]).guest.timing.after == 1
    path.write_text("- {address: a, timing: {after: -1}}\n")
    with pytest.raises(UserError, match="machines.yaml: 0.timing.after"):
        load_machines(path)


# ---- held keys -------------------------------------------------------------------------------------------


def test_held_keys_are_held_and_let_go_before_the_next_task(server, play):
    env = play()
    shift, ctrl = Action("press", text="shift"), Action("press", text="ctrl")
    for action in (
        shift,
        Action.click(0.5, 0.5),
        Action("release", text="shift"),
        ctrl,
        Action("mouse_down", 0.1, 0.1),
    ):
        env.proceed(action)
    assert server.actions == [
        "keyDown shift",
        "click 80 60",
        "keyUp shift",
        "keyDown ctrl",
        "mouseDown 16 12",
    ]
    assert env.held == ("ctrl", "mouse")
    for refused in (Action.hotkey("alt t"), Action("press", text="alt delete"), Action.type_text("t")):
        assert "refused" in env.do(refused)
    env.machine = env.machine.model_copy(update={"revert": ()})
    env.begin(env.task)
    assert server.actions[5:] == ["keyUp ctrl", "mouseUp"] and env.held == ()


# ---- long text -------------------------------------------------------------------------------------------


def test_text_that_takes_long_is_typed_in_parts_and_breaks_no_machine(server, play):
    server.call_s = 0.002
    env = play()
    text = "<\n" * 900
    calls = pyautogui_calls(Action.type_text(text), (10, 10))
    assert len(calls) * server.call_s > FAST.action
    env.proceed(Action.type_text(text))
    assert (
        len(server.actions) == len(calls)
        and sum(path == "/execute" for path, _ in server.requests) == len(calls) / TOGETHER
    )
    assert env.check(StopReason.DONE) is True


# ---- the benchmark's own files ---------------------------------------------------------------------------


def _kalgebra(item: dict, holds: bool) -> dict[str, object]:
    """Answers of KAlgebra's server in which one item of `evaluate` holds, or not."""
    key, value = item["key"], item["value"]
    if item["type"] in ("val", "var"):
        if value == "#UNDEF":
            return {"/vars": {} if holds else {key: "1"}}
        return {"/vars": {key: str(value)} if holds else {key: f"9{value}"}}
    if key == "#SIZE":
        return {"/func/2d": [{}] * (value if holds else value + 1)}
    plot = (
        value
        if holds
        else {name: not on if isinstance(on, bool) else "#123456" for name, on in value.items()}
    )
    dimension = len(key[0])  # a single plot of three dimensions is an object
    return {f"/func/{dimension}d": plot if dimension == 3 else [{"(9, 9)": True}, plot]}


@each_edition("KAlgebra")
def test_kalgebras_tasks_are_solved_in_states_that_solve_them_and_in_no_others(server, edition, app, folder):
    verdicts, of_3d = [], 0
    for path in sorted(folder.glob("*.json")):
        task = app_task(path)
        items = [item for item in json.loads(path.read_text())["evaluate"] if item["type"] != "stop"]
        stops = [item["value"] for item in json.loads(path.read_text())["evaluate"] if item["type"] == "stop"]
        stop = (
            {"TIMEOUT": StopReason.STEP_LIMIT}.get(stops[0], StopReason[stops[0]])
            if stops
            else StopReason.DONE
        )
        answer = next((item.args for item in task.board.evaluate if getattr(item, "args", None)), None)
        of_3d += any(
            item["type"] == "eqn" and item["key"] != "#SIZE" and len(item["key"][0]) == 3 for item in items
        )
        env = ScienceBoard(server.machine, FAST)
        env.task = task
        for wrong in (None, *range(len(items))):
            server.answers.clear()
            for number, item in enumerate(items):
                for where, said in _kalgebra(item, number != wrong).items():
                    server.answers.setdefault(where, []).append(json.dumps(said).encode())
            verdict = env.check(stop, " ".join(answer) if answer else None)
            verdicts.append((path.stem, wrong, verdict is (wrong is None)))
        if stops:
            other = StopReason.DONE if stop is StopReason.FAIL else StopReason.FAIL
            verdicts.append((path.stem, stop, env.check(other) is False))
    assert not [verdict for verdict in verdicts if not verdict[-1]] and len(verdicts) > 62 and of_3d == 7
    assert {name for name, *_ in verdicts} == names(edition, app)
