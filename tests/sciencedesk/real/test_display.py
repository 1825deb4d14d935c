"""A display of one's own: pictures, mouse and keyboard, and that nothing is left behind."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from coda_lib.environment import EnvironmentFault
from coda_lib.errors import UserError
from coda_lib.paths import REPO
from sciencedesk.real import display as module
from sciencedesk.real import isolation
from sciencedesk.real.display import Display, lacking

SIZE = (320, 240)
_WINDOW = """
import tkinter
root = tkinter.Tk()
root.geometry("300x200+0+0")
root.configure(background="#ff0000")
entry = tkinter.Entry(root)
entry.pack()
entry.focus_force()
root.bind("<Button-1>", lambda event: root.configure(background="#00ff00"))
entry.bind("<Return>", lambda event: open("typed.txt", "w").write(entry.get()))
root.mainloop()
"""

pytestmark = pytest.mark.skipif(bool(lacking()), reason="a display's programs are not installed")


@pytest.fixture
def display():
    made = Display(SIZE)
    yield made
    made.close()


def family(display: Display) -> list[psutil.Process]:
    return psutil.Process(display._process.pid).children(recursive=True)


def gone(processes: list[psutil.Process]) -> bool:
    psutil.wait_procs(processes, timeout=5)
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def test_a_window_is_seen_clicked_and_typed_into(display):
    if (
        not shutil.which("python3")
        or subprocess.run(["/usr/bin/python3", "-c", "import tkinter"], check=False).returncode
    ):
        pytest.skip("tkinter is not installed")
    empty = display.settled()
    assert empty.shape == (240, 320, 3)
    pid = display.start(["/usr/bin/python3", "-c", _WINDOW])
    end = time.monotonic() + 20
    while (display.screenshot()[150, 150] != [255, 0, 0]).any() and time.monotonic() < end:
        time.sleep(0.1)
    display.act([("click", (150, 150), {})])
    assert display.settled()[150, 150].tolist() == [0, 255, 0]
    display.act([("click", (150, 12), {}), ("write", ('it\'s "x" $(id)',), {}), ("press", ("enter",), {})])
    display.settled()
    with open(os.path.join(display.env["HOME"], "typed.txt")) as file:
        assert file.read() == 'it\'s "x" $(id)'
    assert display.ended(pid) is None
    display.stop(pid)
    assert np.array_equal(display.settled(), empty)


def test_a_frozen_program_costs_nothing_and_goes_on(display):
    pid = display.start([sys.executable, "-c", "while True: pass"])
    busy = psutil.Process(pid)
    display.freeze(pid)
    before = sum(busy.cpu_times()[:2])
    time.sleep(0.5)
    assert sum(busy.cpu_times()[:2]) - before < 0.05 and display.ended(pid) is None
    display.thaw(pid)
    time.sleep(0.5)
    assert sum(busy.cpu_times()[:2]) > before
    display.freeze(pid)
    display.stop(pid)  # a stopped program is ended, too
    assert gone([busy])


def test_programs_that_detached_themselves_and_ended_are_taken_leave_of(display):
    pid = display.start(
        [sys.executable, "-c", "import os, time; os.fork() or (os.setsid(), time.sleep(0.3), os._exit(0))"]
    )
    before, end = len(family(display)), time.monotonic() + 10
    while display.ended(pid) is None and time.monotonic() < end:
        time.sleep(0.05)
    while (
        any(one.status() == psutil.STATUS_ZOMBIE for one in family(display)) or len(family(display)) >= before
    ):
        assert time.monotonic() < end
        time.sleep(0.05)
        display.screenshot()
    assert display.ended(pid) == 0


def test_nothing_is_left_when_it_is_closed_or_its_owner_is_killed(tmp_path):
    detaching = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork(); time.sleep(600)"
    display = Display(SIZE)
    display.start([sys.executable, "-c", detaching])
    time.sleep(0.5)
    processes, home = family(display), display.env["HOME"]
    assert len(processes) >= 5  # Xvfb, bus, window manager, and two that detached themselves
    display.close()
    assert gone(processes) and not os.path.exists(home)
    code = (
        "import sys, time; from sciencedesk.real.display import Display; "
        "d = Display((64, 48)); d.start(['sleep', '600']);"
        "print(d._process.pid, flush=True); time.sleep(600)"
    )
    for number in (signal.SIGKILL, signal.SIGINT):
        owner = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        first = psutil.Process(int(owner.stdout.readline()))
        processes = [first, *first.children(recursive=True)]
        owner.send_signal(number)
        owner.wait(10)
        assert gone(processes)


def test_a_display_whose_owner_goes_while_it_answers_ends_without_a_word(capfd):
    display = Display(SIZE)
    display._process.stdout.close()
    display._process.stdin.write(b'{"do": "screenshot"}\n')
    display._process.stdin.flush()
    assert display._process.wait(10) == 0
    assert capfd.readouterr().err == ""
    display.close()


def test_two_displays_know_nothing_of_each_other(display):
    other = Display((64, 48))
    assert other.env["HOME"] != display.env["HOME"]
    assert display.sandboxed or other.env["DISPLAY"] != display.env["DISPLAY"]  # each has a /tmp of its own
    assert other.env["DBUS_SESSION_BUS_ADDRESS"] != display.env["DBUS_SESSION_BUS_ADDRESS"]
    other.close()
    assert display.screenshot().shape == (240, 320, 3)


def test_only_the_calls_of_actions_are_carried_out(display):
    for name in ("alert", "screenshot", "__class__", "prompt", "sleep"):
        with pytest.raises(EnvironmentFault, match="unknown pyautogui call"):
            display.act([(name, ("x",), {})])
    assert display.screenshot().shape == (240, 320, 3)  # it goes on


def test_a_display_that_is_gone_is_a_fault(display):
    (server,) = [process for process in family(display) if process.name() == "Xvfb"]
    server.kill()
    time.sleep(0.3)
    with pytest.raises(EnvironmentFault):
        for _ in range(3):
            display.screenshot()
    dead = Display((64, 48))
    for process in [*family(dead), psutil.Process(dead._process.pid)]:
        process.kill()
    dead._process.wait()
    with pytest.raises(EnvironmentFault, match="gone|no answer"):
        dead.screenshot()


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(
        module.shutil, "which", lambda name: None if name == "openbox" else f"/usr/bin/{name}"
    )
    with pytest.raises(UserError, match="a display needs openbox; .*apt-get install openbox$"):
        Display(SIZE)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match="a display needs openbox, tkinter; .*apt-get install openbox python3-tk$"
    ):
        Display(SIZE)


SERVER = """
import socket, time
server = socket.create_server(("127.0.0.1", 0))
while True:
    one, _ = server.accept()
    one.sendall(b"hello")
    one.close()
"""
CALLER = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
    said = "reached"
except OSError as error:
    said = type(error).__name__
open("said", "w").write(said)
"""


def until(true) -> None:
    end = time.monotonic() + 20
    while not true() and time.monotonic() < end:
        time.sleep(0.02)


def greeted(display) -> int:
    """Start a server on the display, have it greet us; its port."""
    pid = display.start([sys.executable, "-c", SERVER])
    until(lambda: display.listening(pid))
    (port,) = display.listening(pid)
    with display.connect(port) as connection:
        assert connection.recv(5) == b"hello"
    return port


def test_a_server_on_the_display_is_reached_through_its_process(display):
    port = greeted(display)
    if display.isolated:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
    with pytest.raises(ConnectionRefusedError, match="nothing listens on port 1 of display :"):
        display.connect(1)


def test_programs_on_the_display_reach_nobody_outside(display):
    if not display.isolated:
        pytest.skip("the kernel lets no user make networks")
    with socket.create_server(("127.0.0.1", 0)) as server:
        display.start([sys.executable, "-c", CALLER, str(server.getsockname()[1])])
        said = Path(display.env["HOME"]) / "said"
        until(said.exists)
        until(said.read_text)
        assert said.read_text() == "ConnectionRefusedError"


def test_where_the_kernel_refuses_the_network_is_the_machines(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "from sciencedesk.real import isolation\nisolation._enter = lambda: False\n"
    )
    monkeypatch.setattr(module, "sandbox", lambda home: [])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    display = Display(SIZE)
    try:
        assert not display.isolated
        port = greeted(display)
        socket.create_connection(("127.0.0.1", port), 5).close()
    finally:
        display.close()


def test_nobody_without_the_cookie_may_look(display):
    asking = [sys.executable, "-c", "import Xlib.display; Xlib.display.Display()"]
    permits = display.env["XAUTHORITY"], os.devnull
    pids = [display.start(asking, {"XAUTHORITY": permit}) for permit in permits]
    until(lambda: None not in map(display.ended, pids))
    allowed, refused = map(display.ended, pids)
    assert allowed == 0 != refused
    if display.sandboxed:  # nobody outside may, cookie or not
        env = os.environ | {name: display.env[name] for name in ("DISPLAY", "XAUTHORITY")}
        assert subprocess.run(asking, env=env, capture_output=True).returncode


INTRUDER = """
import os, pathlib, sys
said = {}
for place in sys.argv[1:]:
    path = pathlib.Path(place)
    try:
        seen = sorted(os.listdir(path))
        (path / "intruder").write_text("x")
        said[place] = "written"
    except OSError as error:
        said[place] = f"{type(error).__name__} {seen}"
pathlib.Path("said").write_text(repr(said))
"""


def test_programs_in_a_sandbox_write_to_no_file_of_this_machine(display, tmp_path):
    if not display.sandboxed:
        pytest.skip("bubblewrap is not installed, or the kernel refuses it")
    secret = tmp_path / "secret.txt"
    secret.write_text("x")
    places = ["/usr", str(REPO), str(tmp_path.parents[1]), str(Path.home())]
    display.start([sys.executable, "-c", INTRUDER, *places])
    said = Path(display.env["HOME"]) / "said"
    until(lambda: said.exists() and said.read_text())
    found = ast.literal_eval(said.read_text())
    assert all("Read-only" in found[place] or found[place].startswith("OSError") for place in places[:2]), (
        found
    )
    assert secret.exists() and not (tmp_path.parents[1] / "intruder").exists()
    assert not (Path.home() / "intruder").exists()  # what it wrote there is in memory, and gone with it


def test_a_home_with_something_in_it_is_refused_and_kept(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "sciencedesk.real.display_process", "64", "48", str(theirs.fileno())]
    done = subprocess.run(
        [*command, str(tmp_path), "new"], input=b"", capture_output=True, pass_fds=[theirs.fileno()]
    )
    assert b"is not empty" in done.stdout and (tmp_path / "mine.txt").read_text() == "x"
    ours.close()
    theirs.close()


def test_without_bubblewrap_a_display_works_as_well(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert isolation.sandbox(Path("/tmp")) == []
    monkeypatch.undo()
    monkeypatch.setattr(module, "sandbox", lambda home: [])
    display = Display(SIZE)
    assert not display.sandboxed and display.screenshot().shape == (240, 320, 3)
    home = Path(display.env["HOME"])
    display.close()
    assert not home.exists()
