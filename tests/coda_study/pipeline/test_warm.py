"""Stages forked from a process that has imported what they import: nothing stale, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from coda_lib.files import read_json
from coda_study.pipeline.warm import warmed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stages are forked on Linux only")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warm")
    with (folder / "log").open("w") as log, warmed(folder, 9, log) as address:
        yield address


@pytest.fixture
def start(address, tmp_path, make_notebook):
    """Give a function that has a notebook of one cell run as a stage, from another folder than this one."""

    def start(code: str, **how) -> subprocess.Popen:
        notebook = make_notebook("a.ipynb", "steps: int = 3", code)
        start = [sys.executable, "-m", "coda_study.pipeline.warm", "start", str(address)]
        command = [*start, "judge", "--run", str(tmp_path / "run")]
        command += ["--notebook", notebook.name, "--executed", "out/a.ipynb", "--set", "steps=4"]
        return subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how
        )

    return start


def wait_for(condition, seconds: float = 120) -> None:
    deadline = time.time() + seconds
    while not condition():
        assert time.time() < deadline, "waited too long"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


SEEN = """
import json, os, sys, threading
before = set(sys.modules)
from coda_study.pipeline.dependencies import PACKAGES
threads = os.environ["OMP_NUM_THREADS"]
import pkgutil, coda_study.stages, coda_study.show, coda_study.evaluation
for package in (coda_study.stages, coda_study.show, coda_study.evaluation):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if module.name != "coda_study.show.desktop":  # two notebooks alone need it, and served models
            __import__(module.name)
import torch
ours = (*PACKAGES, "__mp_main__")
new = [name for name in set(sys.modules) - before if name.partition(".")[0] not in ours]
kit = [name for name in before if name.partition(".")[0] in PACKAGES and "." in name]
kit = [name for name in kit if not name.startswith("coda_study.pipeline")]
print(json.dumps({"threads": [threads, torch.get_num_threads()], "new": sorted(new), "steps": steps,
                  "here": "" in sys.path, "folder": os.getcwd(), "kit": sorted(kit)}))
"""


def test_a_stage_finds_libraries_imported_and_the_kit_not(start, tmp_path):
    stage = start(SEEN)
    assert (stage.wait(300), stage.stdout.read()) == (0, "")
    (output,) = nbformat.read(tmp_path / "out" / "a.ipynb", as_version=4).cells[-1].outputs
    seen = json.loads(output.text)
    assert (
        seen["threads"] == ["1", 1]
        and seen["steps"] == 4
        and seen["folder"] == str(tmp_path)
        and seen["here"]
    )
    assert len(seen["new"]) < 60, f"imported by each stage anew: {seen['new']}"
    assert "coda_lib.judge" not in seen["kit"] and "coda_lib.trainer" not in seen["kit"]
    assert read_json(tmp_path / "run" / "stages" / "judge.json")["state"] == "done"


LATE = """
import os, time
def hook():  # ipykernel's own, after each reply, but slow: until it is done, a signal interrupts
    try:
        time.sleep(0.5)
    except KeyboardInterrupt:
        os.write(2, b"interrupted")
get_ipython().kernel.post_handler_hook = hook
"""


def test_a_kernel_that_has_replied_is_not_interrupted(start):
    stage = start(LATE)
    said, _ = stage.communicate(timeout=300)
    assert (stage.returncode, said) == (0, "")


def test_what_is_forked_has_no_threads_of_its_own(start):
    start("1").wait(300)
    (server,) = [child for child in psutil.Process().children() if "serve" in child.cmdline()]
    names = [
        Path(f"/proc/{server.pid}/task/{thread.id}/comm").read_text().strip() for thread in server.threads()
    ]
    assert [name for name in names if name != "jemalloc_bg_thd"] == [
        "python"
    ]  # jemalloc's own survives a fork


def test_a_failing_stage_says_why_to_the_one_who_asked(start, tmp_path):
    stage = start("raise ValueError('no such star')")
    said, _ = stage.communicate(timeout=300)
    assert stage.returncode == 1 and "a.ipynb, cell 2" in said and "ValueError: no such star" in said
    assert read_json(tmp_path / "run" / "stages" / "judge.json")["state"] == "failed"


def test_a_killed_kernel_and_a_killed_stage_are_errors(start, tmp_path):
    stage = start("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    said, _ = stage.communicate(timeout=300)
    assert stage.returncode == 1 and "the notebook's process died" in said
    (tmp_path / "out" / "a.failed.ipynb").unlink()  # in a folder that is not the kit's own
    stage = start("import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(100)")
    said, _ = stage.communicate(timeout=300)
    assert (
        stage.returncode == 1
        and said == "the process of stage judge was killed; it may have run out of memory\n"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stage_ends_with_the_one_who_asked(start, tmp_path, number):
    mark = tmp_path / "kernel"
    stage = start(
        f"import os, time\n_ = open({str(mark)!r}, 'w').write(f'{{os.getpid()}} "
        f"{{os.getppid()}}')\ntime.sleep(100)"
    )
    wait_for(lambda: mark.exists() and " " in mark.read_text())
    processes = [int(word) for word in mark.read_text().split()]
    stage.send_signal(number)
    stage.communicate(timeout=60)
    wait_for(lambda: not any(map(alive, processes)), 20)
    record = read_json(tmp_path / "run" / "stages" / "judge.json")
    assert record["state"] == "failed" and record["error"] == "stopped"


def test_it_ends_with_the_run_and_is_not_started_for_a_few_stages(tmp_path):
    with (tmp_path / "log").open("w") as log:
        with warmed(tmp_path, 2, log) as address:
            assert address is None
        with warmed(tmp_path, 3, log) as address:
            (server,) = [
                child for child in psutil.Process(os.getpid()).children() if str(tmp_path) in child.cmdline()
            ]
        assert not server.is_running() and not address.exists()
