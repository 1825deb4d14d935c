"""Running one notebook: parameters, the executed copy, failures, records, resuming."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import nullcontext

import nbformat
import psutil
import pytest

from coda_lib.errors import StageError, UserError
from coda_lib.files import read_json
from coda_study.owned import claim
from coda_study.pipeline.notebook import declared_parameters, execute, read_parameters
from coda_study.pipeline.runner import run_stage
from coda_study.run import Run

TYPED = """app: str = "gis"  # application
steps: int = 3  # optimizer steps
rate: float = 0.5
quick: bool = False"""


def test_parameters_are_read_with_their_types(make_notebook):
    notebook = make_notebook("a.ipynb", TYPED)
    assert declared_parameters(notebook) == {"app": "str", "steps": "int", "rate": "float", "quick": "bool"}
    read = read_parameters(notebook, ["app=2024", "steps=4", "rate=1", "quick=true"])
    assert read == {"app": "2024", "steps": 4, "rate": 1, "quick": True}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steppes": 3}, "unknown parameter 'steppes'; it declares app, steps, rate, quick"),
        ({"steps": "many"}, "parameter steps must be int, not 'many'"),
        ({"steps": True}, "parameter steps must be int, not True"),
        ({"app": 3}, "parameter app must be str, not 3"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_runs(make_notebook, tmp_path, given, message):
    notebook = make_notebook("a.ipynb", TYPED, "open('ran', 'w')")
    with pytest.raises(UserError, match="a.ipynb") as caught:
        execute(notebook, tmp_path / "out" / "a.ipynb", given)
    assert message in str(caught.value)
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()


def test_a_notebook_without_parameters_says_so(make_notebook, tmp_path):
    with pytest.raises(UserError, match="no cell tagged 'parameters'"):
        execute(make_notebook("a.ipynb", "", "1"), tmp_path / "b.ipynb", {"app": "gis"})
    with pytest.raises(UserError, match="there is no notebook .*nowhere.ipynb"):
        execute(tmp_path / "nowhere.ipynb", tmp_path / "b.ipynb", {})


def test_execution_uses_this_interpreter_and_one_thread(make_notebook, tmp_path):
    code = """import os, sys
print(sys.executable, os.environ['OMP_NUM_THREADS'], app, steps)
block = bytearray(300 << 20)"""
    notebook = make_notebook("a.ipynb", TYPED, code)
    before = notebook.read_bytes()
    peak_rss_mb = execute(notebook, tmp_path / "out" / "a.ipynb", {"app": "astron"})
    executed = nbformat.read(tmp_path / "out" / "a.ipynb", as_version=4)
    assert executed.cells[-1].outputs[0].text == f"{sys.executable} 1 astron 3\n"
    assert notebook.read_bytes() == before
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.ipynb"]
    own = psutil.Process().memory_info().rss / 2**20  # which a child has too until it runs its own program
    assert 300 < peak_rss_mb < 2000 + own


def test_a_failing_cell_is_named_and_the_copy_kept(make_notebook, tmp_path):
    notebook = make_notebook(
        "a.ipynb", TYPED, "print('before')", "\nx = 1\nraise ValueError('no such star')", "print('after')"
    )
    with pytest.raises(StageError) as caught:
        execute(notebook, tmp_path / "out" / "a.ipynb", {})
    assert "a.ipynb, cell 3 (`x = 1`): ValueError: no such star" in str(caught.value)
    assert not (tmp_path / "out" / "a.ipynb").exists()
    partly = nbformat.read(tmp_path / "out" / "a.failed.ipynb", as_version=4)
    assert any(
        output.get("text") == "before\n" for cell in partly.cells for output in cell.get("outputs", [])
    )
    assert str(tmp_path / "out" / "a.failed.ipynb") in str(caught.value)


def test_a_killed_kernel_is_one_clear_error(make_notebook, tmp_path):
    notebook = make_notebook("a.ipynb", TYPED, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(
        StageError, match=r"cell 2 \(`import os, signal`\): the notebook's process died .* memory"
    ):
        execute(notebook, tmp_path / "a2.ipynb", {})


def stage_run(tmp_path) -> Run:
    return Run(str(tmp_path / "run"))


def test_a_stage_is_recorded(make_notebook, tmp_path):
    run, output, source = stage_run(tmp_path), tmp_path / "made.txt", tmp_path / "read.txt"
    source.write_text("in")
    notebook = make_notebook("a.ipynb", TYPED, f"_ = open({str(output)!r}, 'w').write(app)")
    run_stage(run, "explore/base/gis", notebook, run.notebooks / "a.ipynb", ["app=gis"], [source], [output])
    record = read_json(run.folder / "stages" / "explore-base-gis.json")
    assert record["state"] == "done" and record["stage"] == "explore/base/gis" and record["wall_s"] > 0
    assert list(record["inputs"]) == [str(source)] and list(record["outputs"]) == [str(output)]
    assert len(record["outputs"][str(output)]) == 64


def test_a_missing_output_is_a_failure_of_the_stage(make_notebook, tmp_path):
    run = stage_run(tmp_path)
    notebook = make_notebook("a.ipynb", TYPED, "1")
    with pytest.raises(StageError, match="did not write .*made.txt"):
        run_stage(run, "judge", notebook, run.notebooks / "a.ipynb", [], [], [tmp_path / "made.txt"])
    record = read_json(run.stage_record("judge"))
    assert record["state"] == "failed" and "made.txt" in record["error"]


def test_wrong_parameters_of_a_stage_are_recorded(make_notebook, tmp_path):
    run = stage_run(tmp_path)
    with pytest.raises(UserError):
        run_stage(run, "judge", make_notebook("a.ipynb", TYPED), run.notebooks / "a.ipynb", ["planet=x"])
    assert "unknown parameter 'planet'" in read_json(run.stage_record("judge"))["error"]


def test_a_resumable_stage_keeps_what_was_begun_alike_and_nothing_else(make_notebook, tmp_path):
    run = stage_run(tmp_path)
    claim(run.folder, "run")
    folder = run.generalist
    code = (
        f"from pathlib import Path\nfolder = Path({str(folder)!r})\n(folder / "
        "'checkpoints').mkdir(exist_ok=True)\n"
        "with (folder / 'checkpoints' / 'log').open('a') as log:\n    _ = log.write('x')\n"
        "_ = (folder / 'weights').write_text((folder / 'checkpoints' / 'log').read_text())\n"
        "assert steps > 0"
    )
    notebook = make_notebook("a.ipynb", TYPED, code)

    def attempt(*parameters: str, settings: str = "{}") -> str:
        outputs = [folder / "done.json"]
        run_stage(
            run, "train", notebook, run.notebooks / "a.ipynb", parameters, [], outputs, settings, folder
        )
        return (folder / "weights").read_text()

    assert attempt() == "x"
    assert list(read_json(folder / "done.json")["files"]) == ["weights"]
    assert attempt() == "xx"  # goes on from its own checkpoints
    assert attempt(settings='{"rate": 2}') == "x"  # begun otherwise: from the start
    with pytest.raises(StageError, match="AssertionError"):
        attempt("steps=0")
    assert attempt() == "x"


def test_a_stage_removes_no_folder_that_is_not_the_runs_own(make_notebook, tmp_path):
    run, notebook = stage_run(tmp_path), make_notebook("a.ipynb", TYPED, "1")
    claim(run.folder, "run")
    for folder in (tmp_path / "thesis", run.folder / "thesis"):
        folder.mkdir()
        (folder / "thesis.tex").write_text("precious")
        with pytest.raises(UserError, match="thesis is not removed"):
            run_stage(run, "train", notebook, run.notebooks / "a.ipynb", [], [], [], "{}", folder)
        assert (folder / "thesis.tex").exists()
    (tmp_path / "b.ipynb").write_text("somebody's")
    with pytest.raises(UserError, match=r"b\.ipynb is not removed"):
        execute(notebook, tmp_path / "b.ipynb", {})
    assert (tmp_path / "b.ipynb").read_text() == "somebody's"


def test_it_ends_with_the_process_that_started_it(make_notebook, tmp_path):
    """The stage's input closes when its starter is gone, however that ended; the kernel must go too."""
    mark = tmp_path / "kernel"
    code = f"import os, time\n_ = open({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(100)"
    notebook = make_notebook("a.ipynb", TYPED, code)
    command = [
        sys.executable,
        "-m",
        "coda_study.pipeline.runner",
        "train",
        "--attached",
        "--run",
        str(tmp_path / "run"),
    ]
    command += ["--notebook", str(notebook), "--executed", str(tmp_path / "b.ipynb")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    wait_for(lambda: mark.exists() and mark.read_text())
    kernel = int(mark.read_text())
    process.stdin.close()
    assert process.wait(60) == 1
    wait_for(lambda: not alive(kernel))


def test_the_command_prints_one_message_and_fails(make_notebook, tmp_path):
    command = [
        sys.executable,
        "-m",
        "coda_study.pipeline.runner",
        "judge",
        "--run",
        str(tmp_path / "run"),
        "--set",
        "planet=x",
    ]
    command += ["--notebook", str(make_notebook("a.ipynb", TYPED)), "--executed", str(tmp_path / "b.ipynb")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and ended.stdout == ""
    assert ended.stderr.count("\n") == 1 and "unknown parameter 'planet'" in ended.stderr


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def wait_for(condition, seconds: float = 120) -> None:
    deadline = time.time() + seconds
    while not condition():
        assert time.time() < deadline, "waited too long"
        time.sleep(0.05)


def test_the_environment_of_this_process_is_left_alone(make_notebook, tmp_path):
    before = dict(os.environ)
    execute(make_notebook("a.ipynb", TYPED, "1"), tmp_path / "b.ipynb", {})
    assert dict(os.environ) == before


def test_a_running_stages_notebook_is_not_called_failed(make_notebook, tmp_path):
    claim(tmp_path / "run", "run")
    copy = tmp_path / "run" / "notebooks" / "a.ipynb"
    names = "import os\nprint(*sorted(os.listdir(folder)))\nassert good"
    notebook = make_notebook("a.ipynb", f"good: bool = True\nfolder: str = {str(copy.parent)!r}", "1", names)
    for good, left in ((False, "a.failed.ipynb"), (True, "a.ipynb"), (True, "a.ipynb")):
        with nullcontext() if good else pytest.raises(StageError, match=r"see .*a\.failed\.ipynb"):
            execute(notebook, copy, {"good": good})
        assert os.listdir(copy.parent) == [left]
        cells = nbformat.read(copy.parent / left, as_version=4).cells
        assert [out.text for cell in cells for out in cell.get("outputs", []) if "text" in out] == [
            "a.running.ipynb\n"
        ]


@pytest.mark.parametrize("leave", ["sys.exit(0)", "sys.exit()", "raise SystemExit", "sys.exit(3)"])
def test_a_cell_that_ends_the_notebook_finishes_no_stage(make_notebook, tmp_path, leave):
    notebook = make_notebook("a.ipynb", TYPED, "import sys", leave, "made = 1")
    with pytest.raises(StageError, match=r"cell 3 \(`(sys|raise).*`\): SystemExit"):
        execute(notebook, tmp_path / "out" / "a.ipynb", {})
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.failed.ipynb"]
