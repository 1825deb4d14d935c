"""Runs of fake notebooks: order, what is run again, failures, kills, and a second start."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from fake_notebooks import write_notebook
from rich.console import Console

from coda_lib.config import load_profile
from coda_lib.errors import StageError, UserError
from coda_lib.files import read_json, write_json
from coda_lib.paths import REPO
from coda_study import owned
from coda_study.pipeline import scheduler
from coda_study.pipeline.checks import STAGES
from coda_study.pipeline.dependencies import checkpoint_files, code_files, data_files
from coda_study.pipeline.drive import _stages, _why_it_stopped, expected_seconds, preview, reproduce
from coda_study.pipeline.progress import Lines, clock
from coda_study.run import Run

SMALL = ("apps=[algebra]", "systems=[base, stage2]")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(str(tmp_path / "run"))


@pytest.fixture
def go(run, fake_notebooks, fake_checkpoints):
    """Give a function that brings the run up to date and returns the stages that were run, and what was
    printed.
    """

    def go(*overrides: str, until: str = "results", fresh: bool = False) -> tuple[list[str], str]:
        profile = load_profile("smoke", (*fake_checkpoints, *SMALL, *overrides))
        started, shown = time.time(), io.StringIO()
        console = Console(file=shown, width=200, color_system=None)
        reproduce(run, profile, 2, until, fresh, console, fake_notebooks)
        records = [read_json(path) for path in (run.folder / "stages").glob("*.json")]
        return sorted(r["stage"] for r in records if r["started"] >= started), shown.getvalue()

    return go


def replace_code(notebook: Path, code: str) -> None:
    content = nbformat.read(notebook, as_version=4)
    content.cells[-1].source = code
    nbformat.write(content, notebook)


# ---- the graph ----


def test_the_stages_of_the_whole_study(run, fake_notebooks, fake_checkpoints):
    stages = preview(run, load_profile("smoke", fake_checkpoints), "results", fake_notebooks)
    assert len(stages) == len(set(stages)) == 4 + 2 * (4 + 4) + 4 + 1 + 4 * 4 + 4 + 4 + 2
    assert stages[-1] == "results"
    before = {
        "judge/base/gis": "explore/base/gis",
        "specialize/specialist/gis": "judge/base/gis",
        "explore/specialist/gis": "specialize/specialist/gis",
        "generalize": "judge/specialist/gis",
        "evaluate/stage1/gis": "specialize/specialist/gis",
        "evaluate/stage2/gis": "generalize",
        "reward": "judge/base/algebra",
    }
    assert all(stages.index(first) < stages.index(then) for then, first in before.items())
    assert not run.profile_file.exists()  # planning changes nothing


def test_a_second_round_goes_on_from_the_first(run, fake_notebooks, fake_checkpoints):
    round1 = "explore.round1={tasks: 4, grades: {A: 1}, runs: 2}"
    stages = preview(run, load_profile("smoke", (*fake_checkpoints, round1)), "results", fake_notebooks)
    assert len(stages) == len(set(stages)) == 4 + 3 * (4 + 4) + 2 * 4 + 1 + 4 * 4 + 4 + 4 + 2
    order = ["judge/base/gis", "specialize/round1/gis", "explore/round1/gis", "judge/round1/gis",
    "specialize/specialist/gis",
             "explore/specialist/gis", "judge/specialist/gis", "generalize"]  # fmt: skip
    assert sorted(order, key=stages.index) == order


@pytest.mark.parametrize(
    ("until", "stages"),
    [
        ("judge", ["explore/base/algebra", "judge/base/algebra"]),
        ("base_models", ["base_models"]),
        ("evaluate", 8),
    ],
)
def test_targets(run, fake_notebooks, fake_checkpoints, until, stages):
    planned = preview(run, load_profile("smoke", (*fake_checkpoints, *SMALL)), until, fake_notebooks)
    assert planned == stages or len(planned) == stages


def test_a_preview_that_names_no_stage_is_an_error_and_not_up_to_date():
    command = "/usr/bin/python -m {} explore/base/gis --run x"
    job = f"rule explore:\n    output: x\n\n{command}\n\nlocalrule until_x:\n"
    assert _stages(job.format("coda_study.pipeline.runner")) == ["explore/base/gis"]
    with pytest.raises(
        StageError, match="1 jobs are to run, but 0 of their commands call coda_study.pipeline.runner"
    ):
        _stages(job.format("coda_lib.runner"))


def test_unknown_stage_missing_checkpoint_and_foreign_folder(run, fake_notebooks, fake_checkpoints, tmp_path):
    profile = load_profile("smoke", fake_checkpoints)
    with pytest.raises(UserError, match=f"unknown stage 'train': choose one of {', '.join(STAGES)}"):
        preview(run, profile, "train", fake_notebooks)
    with pytest.raises(UserError, match="profile laptop has no curve: take --profile ablations"):
        preview(run, load_profile("laptop", fake_checkpoints), "curve", fake_notebooks)
    with pytest.raises(UserError, match="the judge checkpoint /nowhere is missing"):
        preview(
            run,
            load_profile("smoke", (*fake_checkpoints, "models.judge=/nowhere")),
            "results",
            fake_notebooks,
        )
    curve = "curve={app: gis, tasks: [2], episodes: 4, starts: {other: /nowhere, scratch: null}}"
    with pytest.raises(UserError, match="the curve.starts.other checkpoint /nowhere is missing"):
        preview(run, load_profile("smoke", (*fake_checkpoints, curve)), "results", fake_notebooks)
    run.folder.mkdir()
    for name in ("profile.yaml", "thesis.tex"):  # many tools have a file of that name
        (run.folder / name).write_text("precious")
        for fresh in (True, False):
            with pytest.raises(
                UserError, match="is not the folder of a run: it has no mark .coda; choose another name"
            ):
                reproduce(run, profile, 1, fresh=fresh, notebooks=fake_notebooks)
    assert {path.name: path.read_text() for path in run.folder.iterdir()} == dict.fromkeys(
        ("thesis.tex", "profile.yaml"), "precious"
    )


def test_committed_results_are_never_written_or_cleared(
    tmp_path, monkeypatch, fake_notebooks, fake_checkpoints
):
    monkeypatch.setattr(owned, "REFERENCE", tmp_path / "results" / "reference")
    (tmp_path / "link").symlink_to(tmp_path / "results")
    there = Run(str(tmp_path / "results" / "reference" / "laptop"))
    there.store(load_profile("laptop"))  # marked, as a run that was put there by hand
    profile = load_profile("laptop", fake_checkpoints)
    for folder in (
        there.folder,
        tmp_path / "results" / "reference",
        tmp_path / "link" / "reference" / "laptop",
    ):
        for fresh in (True, False):
            with pytest.raises(UserError, match="belongs to the committed results"):
                reproduce(Run(str(folder)), profile, 1, "quickstart", fresh, notebooks=fake_notebooks)
    with pytest.raises(UserError, match="is not removed"):
        owned.remove(there.profile_file)
    assert sorted(path.name for path in there.folder.iterdir()) == [".coda", "profile.yaml"]


def test_fresh_leaves_what_the_kit_did_not_make(go, run, tmp_path):
    go(until="explore")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "data").write_text("precious")
    (run.folder / "notes.md").write_text("mine")
    (run.folder / ".git").mkdir()
    (run.folder / "judged").symlink_to(tmp_path / "elsewhere")
    (run.folder / ".report.html.01234567.tmp").write_text("of a process that was killed")
    timings = read_json(run.timings)
    assert go(until="explore", fresh=True)[0] == ["explore/base/algebra"]
    assert read_json(run.timings).keys() == timings.keys()
    assert (run.folder / "notes.md").read_text() == "mine" and (run.folder / ".git").is_dir()
    assert (
        tmp_path / "elsewhere" / "data"
    ).read_text() == "precious"  # a link goes, and not what it leads to
    assert not (run.folder / "judged").exists() and not (run.folder / ".report.html.01234567.tmp").exists()


def test_code_behind_a_notebook(tmp_path):
    notebook = write_notebook(
        tmp_path / "a.ipynb", "", "%matplotlib inline\nfrom coda_study.run import Run\nimport numpy"
    )
    names = {path.relative_to(REPO).as_posix() for path in code_files(notebook)}
    modules = {name for name in names if name.endswith(".py")}
    method = ("__init__", "paths", "errors", "config/__init__", "config/sections", "applications", "files")
    study = ("__init__", "notebooks", "run", "owned")
    assert modules == {f"coda_lib/{name}.py" for name in method} | {f"coda_study/{name}.py" for name in study}
    shown = write_notebook(
        tmp_path / "b.ipynb", "", "from coda_study.evaluation import report\nimport coda_study.pipeline.drive"
    )
    assert REPO / "coda_study/evaluation/report.py" in code_files(shown)
    assert REPO / "coda_study/evaluation/report.py" not in code_files(
        shown, without=["coda_study.evaluation"]
    )
    assert REPO / "coda_study/pipeline/drive.py" not in code_files(shown)


def test_files_of_checkpoints_and_data(tmp_path):
    for name in ("b.json", "a/c.json", "a/README.md", ".hidden", "checkpoints/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert data_files(tmp_path, without="checkpoints") == [
        tmp_path / "a/README.md",
        tmp_path / "a/c.json",
        tmp_path / "b.json",
    ]
    assert checkpoint_files(str(tmp_path / "a")) == [tmp_path / "a/c.json"]
    assert checkpoint_files("Qwen/Qwen2.5-VL-7B-Instruct") == []


def test_times():
    assert [clock(s) for s in (0.4, 59.7, 61, 3723)] == ["0 s", "1 min 00 s", "1 min 01 s", "62 min 03 s"]


def test_expected_times_are_of_the_last_run_of_this_machine(run):
    run.folder.mkdir()
    assert expected_seconds(run, load_profile("smoke")).get("explore/base/gis", 0) != 123.5
    write_json(run.timings, {"explore/base/gis": 123.5})
    assert expected_seconds(run, load_profile("smoke"))["explore/base/gis"] == 123.5


def test_the_time_left_learns_from_the_stages_that_are_done(run):
    stages, shown = ["explore/a", "explore/b", "judge/a", "judge/b", "results"], io.StringIO()
    console = Console(file=shown, width=200, color_system=None)
    lines = Lines(
        run, stages, {"explore/a": 10.0, "explore/b": 20.0, "judge/a": 30.0, "results": 5}, console, 2
    )
    run.stage_record("x").parent.mkdir(parents=True)

    def ended(stage: str, seconds: float, state: str = "done") -> str:
        record = {"started": time.time(), "state": state, "wall_s": seconds, "error": ""}
        write_json(run.stage_record(stage), record)
        lines.update(0)
        return shown.getvalue().splitlines()[-1]

    assert lines.left() is None  # judge/b: unheard of
    assert " left" not in ended("explore/a", 30.0)
    assert lines.usual("explore/b") == 60.0 and lines.usual("judge/b") is None
    # judge/a took 3 times as long as well, and so would judge/b: 60 s, 90 s and 15 s on two cores
    assert ended("judge/a", 90.0).endswith("expected 30 s; about 1 min 30 s left")
    write_json(run.stage_record("judge/b"), {"started": time.time() - 80, "state": "running"})
    lines.update(0)
    assert round(lines.left()) == 60  # of explore/b; judge/b has 10 s to go
    ended("explore/b", 60.0), ended("judge/b", 90.0)
    assert " left" not in ended("results", 15.0)


# ---- what is run, and run again ----


def test_a_run_and_what_is_run_again(go, run, fake_notebooks, fake_checkpoints):
    stages, shown = go()
    assert len(stages) == 16
    assert "16 stages to run\n" in shown and shown.count("done") == 16 and "[16/16] results" in shown
    assert run.table1.read_text() == "smoke 7"
    manifest = read_json(run.manifest)
    assert sorted(manifest["stages"]) == stages
    assert str(run.table1) in manifest["outputs"] and "coda_lib/paths.py" in manifest["inputs"]
    assert sorted(read_json(run.timings)) == stages

    assert go() == ([], f"run run: profile smoke, seed 7, 2 cores\n{0} stages to run\n")

    for path in [*fake_notebooks.iterdir(), REPO / "coda_lib" / "paths.py"]:
        os.utime(path)  # as git checkout would; the contents are the same
    assert go()[0] == []

    replace_code(fake_notebooks / "05_reward.ipynb", "2")
    stages, shown = go()
    assert stages == ["reward"] and " left" not in shown
    assert "1 stage to run, about " in shown and ", expected " in shown

    run.manifest.unlink()  # killed after the last stage, before the manifest
    assert go()[0] == [] and run.manifest.exists()

    later = ["evaluate/stage2/algebra", "generalize", "how_sure", "judges/algebra", "results"]
    assert go("generalize.steps=3")[0] == later
    assert (run.generalist / "weights").read_text() == "3"

    (run.folder / "evaluation/base/algebra.parquet").unlink()
    assert go("generalize.steps=3")[0] == [
        "baselines/algebra",
        "evaluate/base/algebra",
        "how_sure",
        "results",
    ]

    assert go("generalize.steps=3", until="explore", fresh=True)[0] == ["explore/base/algebra"]
    assert not run.table1.exists() and "results" in read_json(run.timings)


def test_ablations_come_after_the_results_and_each_stands_alone(go, run):
    go()
    changes = ("ablations={}", "ablations.truth={labels: truth}", "ablations.single={labels: single}")
    stages, _ = go(*changes, until="ablations")
    mine = [
        "ablations",
        "labels/algebra",
        "transfer/algebra",
        "transfer/spectra",
        "variant/single",
        "variant/truth",
    ]
    assert set(stages) >= set(mine) and set(stages) - set(mine) <= {"how_sure", "results"}
    stages, _ = go(*changes[:2], "ablations.single={labels: single, distance: false}", until="ablations")
    assert set(stages) - {"how_sure", "results"} == {"ablations", "variant/single"}
    assert "distance=False" in run.ablation("single").read_text()


def test_another_profile_does_not_take_over_a_run(go, run, fake_checkpoints, fake_notebooks):
    go(until="quickstart")
    laptop = load_profile("laptop", fake_checkpoints)
    with pytest.raises(
        UserError, match="was made with profile smoke, not laptop; choose another name with --run"
    ):
        reproduce(run, laptop, 1, notebooks=fake_notebooks)
    reproduce(run, laptop, 1, until="quickstart", fresh=True, notebooks=fake_notebooks)
    assert run.profile().name == "laptop"


def test_a_failure_names_notebook_and_cell_and_loses_nothing(go, run, fake_notebooks):
    notebook = fake_notebooks / "04_judge.ipynb"
    good = nbformat.read(notebook, as_version=4).cells[-1].source
    replace_code(notebook, "raise ValueError('the judge is asleep')")
    with pytest.raises(StageError) as caught:
        go(until="specialize")
    message = str(caught.value)
    assert "stage judge/base/algebra failed:" in message and "04_judge.ipynb, cell 2" in message
    assert "ValueError: the judge is asleep" in message
    copy = Path(message.rpartition(" ")[2])
    assert copy.is_absolute() and copy.name == "04_judge-base-algebra.failed.ipynb" and copy.is_file()
    replace_code(notebook, good)
    assert go(until="specialize")[0] == ["judge/base/algebra", "specialize/specialist/algebra"]
    assert not list(run.notebooks.glob("*.failed.ipynb"))


def test_a_stage_that_cannot_start_says_why(go, fake_notebooks):
    write_notebook(fake_notebooks / "00_quickstart.ipynb", 'profile: str = "smoke"', "1")
    with pytest.raises(StageError, match="unknown parameter 'run'; it declares profile"):
        go(until="quickstart")
    (fake_notebooks / "00_quickstart.ipynb").unlink()
    with pytest.raises(UserError, match="(?s)cannot be planned.*00_quickstart.ipynb"):
        go(until="quickstart")


# ---- kills ----


SLOW = """
import os, time
from pathlib import Path
from coda_lib.files import write_text
from coda_study.run import Run
folder = FOLDER
(folder / "checkpoints").mkdir(parents=True, exist_ok=True)
steps = len(list((folder / "checkpoints").iterdir()))
write_text(folder / "checkpoints" / str(steps), str(os.getpid()))
while steps == 0 and not Path(HOLD).exists():
    time.sleep(0.1)
write_text(folder / "weights", "trained")
"""


def wait_for(condition, seconds: float = 300) -> None:
    deadline = time.time() + seconds
    while not condition():
        assert time.time() < deadline, "waited too long"
        time.sleep(0.1)


def processes_of(run: Run) -> list[psutil.Process]:
    return [
        p for p in psutil.process_iter(["cmdline"]) if str(run.folder) in " ".join(p.info["cmdline"] or [])
    ]


class Slow:
    """`coda reproduce` of a training that waits midway until `hold` exists, but not when it resumes."""

    def __init__(self, run: Run, notebooks: Path, checkpoints: tuple[str, ...], hold: Path) -> None:
        self.run, self.notebooks, self.hold = run, notebooks, hold
        changes = [word for change in (*checkpoints, *SMALL) for word in ("--set", change)]
        self.words = [
            sys.executable,
            "-m",
            "coda_study.cli.main",
            "reproduce",
            "--profile",
            "smoke",
            "--run",
            run.name,
            *changes,
        ]
        self.words += ["--notebooks", str(notebooks)]
        self.wait_in("A1_base_models", "base_models", "Run(run).base_models", run.base_models)

    def wait_in(self, notebook: str, until: str, folder: str, path: Path) -> None:
        code = SLOW.replace("HOLD", repr(str(self.hold))).replace("FOLDER", folder)
        replace_code(self.notebooks / f"{notebook}.ipynb", code)
        self.until, self.path = until, path

    def start(self) -> subprocess.Popen:
        words = [*self.words, "--until", self.until]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kernel(self) -> psutil.Process:
        """Wait until the training waits; return the notebook's process."""
        begun = self.path / "checkpoints" / "0"
        wait_for(begun.exists)
        return psutil.Process(int(begun.read_text()))

    def check_it_goes_on(self) -> None:
        again = self.start()
        shown, errors = again.communicate(timeout=600)
        assert again.returncode == 0, errors
        assert "1 stage to run" in shown
        assert (self.path / "weights").read_text() == "trained"
        assert len(list((self.path / "checkpoints").iterdir())) == 2  # it resumed from its own checkpoint
        wait_for(lambda: not processes_of(self.run))


@pytest.fixture
def slow(run, fake_notebooks, fake_checkpoints, tmp_path):
    yield Slow(run, fake_notebooks, fake_checkpoints, tmp_path / "hold")
    for process in processes_of(run):
        process.kill()


def ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_killed_and_started_again(slow, run):
    slow.wait_in("06_specialize", "specialize", "Run(run).specialist(app)", run.specialist("algebra"))
    process = slow.start()
    kernel = slow.kernel()
    process.kill()  # the command alone: what it started has to notice
    process.communicate()
    wait_for(lambda: ended(kernel))
    begun = {path.name: path.stat().st_mtime_ns for path in (run.folder / "rollouts" / "base").iterdir()}
    slow.check_it_goes_on()
    assert {
        path.name: path.stat().st_mtime_ns for path in (run.folder / "rollouts" / "base").iterdir()
    } == begun


def test_everything_but_the_notebook_killed_at_once_and_started_again(slow):
    process = slow.start()
    kernel = slow.kernel()
    for each in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
        if each.pid != kernel.pid:
            each.kill()
    process.communicate()
    wait_for(lambda: ended(kernel))
    slow.check_it_goes_on()


@pytest.mark.parametrize(
    ("number", "forked"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGINT, True)]
)
def test_stopped_and_started_again(slow, run, number, forked):
    if forked:  # more stages than one
        slow.wait_in("06_specialize", "specialize", "Run(run).specialist(app)", run.specialist("algebra"))
    process = slow.start()
    kernel = slow.kernel()
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130 and errors == "stopped; the same command goes on from here\n"
    assert ended(kernel)
    slow.check_it_goes_on()


def part_of(process: subprocess.Popen, module: str) -> psutil.Process:
    """The process among the descendants of a command that runs a module of the pipeline."""
    found = [
        p for p in psutil.Process(process.pid).children(recursive=True) if module in " ".join(p.cmdline())
    ]
    return found[-1]


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            "coda_study.pipeline.scheduler",
            "error: the scheduler of the run was killed by SIGKILL (by the system, where memory",
        ),
        (
            "coda_study.pipeline.runner",
            "error: stage base_models ended without a word, which is what happens when it is killed",
        ),
    ],
)
def test_a_killed_part_is_said_in_one_line_and_the_run_goes_on(slow, module, message):
    process = slow.start()
    kernel = slow.kernel()
    part_of(process, module).kill()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1 and errors.startswith(message) and errors.count("\n") == 1
    wait_for(lambda: ended(kernel), 10)
    slow.check_it_goes_on()


def test_a_full_disk_is_said_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "snakemake.log").write_text("OSError: [Errno 28]")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 0))
    said = _why_it_stopped(1, ["explore/base/gis"], tmp_path / "snakemake.log")
    assert said == f"the disk of {tmp_path} is full: free some space and run the same command again"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "serving.judge=http://127.0.0.1:9/v1",
            "serving.judge: http://127.0.0.1:9/v1 does not answer .*: start the server",
        ),
        (
            "models.planner=nobody/has-this",
            "models.planner: nobody/has-this is no folder here, and the hub does not give it",
        ),
        (
            "curve={app: gis, tasks: [2], episodes: 4, starts: {a: nobody/has-this}}",
            "curve.starts.a: nobody/has-this is no",
        ),
    ],
)
def test_a_missing_server_or_network_is_said_before_the_first_stage(
    run, fake_notebooks, fake_checkpoints, change, message
):
    profile = load_profile("smoke", (*fake_checkpoints, *SMALL, change))
    with pytest.raises(UserError, match=message):
        reproduce(run, profile, 1, until="explore", notebooks=fake_notebooks)
    assert not list(run.folder.glob("stages/*"))


def test_a_second_start_is_refused_while_the_first_is_alive(slow):
    first = slow.start()
    slow.kernel()
    second = slow.start()
    _, errors = second.communicate(timeout=300)
    assert second.returncode == 2 and f"is being made by process {first.pid}; wait for it or end it" in errors
    slow.hold.write_text("")
    _, errors = first.communicate(timeout=300)
    assert first.returncode == 0, errors


def test_snakemake_is_not_to_look_again_every_second(monkeypatch):
    seen = []
    monkeypatch.setattr(
        scheduler,
        "args_to_api",
        lambda arguments, parser: seen.append(arguments.max_jobs_per_timespan) or True,
    )
    with pytest.raises(SystemExit) as ended:
        scheduler.main(["--cores", "1"])
    assert (ended.value.code, seen) == (0, [None])
