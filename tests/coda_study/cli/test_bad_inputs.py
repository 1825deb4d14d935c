"""Commands and what is no file for them: one line that says what is wrong, and never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from bad_files import CONTENTS, OBJECTS, spoil
from tiny_models import made_up, save_tiny

from coda_lib.config import load_profile
from coda_lib.files import write_json
from coda_lib.paths import DATA, REFERENCE, REPO
from coda_lib.trajectory import save_trajectories
from coda_study.formats import FORMATS
from coda_study.run import Run
from sciencedesk.env import desk_class
from sciencedesk.sets import write_set
from sciencedesk.space import draw, space


@pytest.fixture(scope="session")
def whole(tmp_path_factory) -> Path:
    """Give a folder of everything that a command reads, as it should be."""
    root = tmp_path_factory.mktemp("whole")
    run, reference = Run(str(root / "run")), REFERENCE / "laptop"
    run.store(load_profile("laptop", ("apps=[gis]", "ablations={}", "bootstrap_resamples=50")))
    for name in ("evaluation/*/gis.parquet", "judges/gis.parquet", "tables/*", "figures/*.svg"):
        for path in reference.glob(name):
            target = run.folder / path.relative_to(reference)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    votes = pd.read_parquet(reference / "judged" / "votes.parquet")
    run.votes.parent.mkdir()
    votes[votes["app"] == "gis"].to_parquet(run.votes, index=False)
    (run.usage / "explore").mkdir(parents=True)
    usage = {"planner": {"requests": 1, "prompt_tokens": 2, "completion_tokens": 3}}
    (run.usage / "explore" / "gis.json").write_text(json.dumps(usage))
    run.timings.write_text("{}")
    other = Run(str(root / "other"))
    other.store(run.profile().model_copy(update={"seed": 8}))
    shutil.copytree(run.folder / "evaluation", other.folder / "evaluation")
    trajectories = [made_up(number, app="gis", task_id=f"gis/A-0{number}") for number in (1, 2)]
    save_trajectories(root / "ours.parquet", trajectories)
    save_trajectories(other.judged("base", "gis"), trajectories)
    for name in ("scienceboard", "osworld", "agentrewardbench"):
        FORMATS[name].write(trajectories, root / name)
    reply = {"choices": [{"message": {"content": "<success>Successful</success>"}}]}
    write_json(root / "judged/judgments/gis/script-0/judge/gis.A-01.json", {"response": reply})
    labels = "benchmark,task_id,model_name,trajectory_success\ngis,gis.A-01,script-0,Successful\n"
    (root / "judged" / "annotations.csv").write_text(labels)
    (root / "splits.csv").write_text("task_id,split\ngis.A-01,test\n")
    shutil.copytree(DATA / "tasks" / "apps" / "KAlgebra", root / "board" / "KAlgebra")
    shutil.copy(DATA / "machines.example.yaml", root / "machines.yaml")
    (root / "fleet").mkdir()
    status = {
        "master": 1, "began": 0.0, "updated": 1.0, "total": 2, "before": 0, "done": 1, "faults": 0,
        "workers": [],
    }  # fmt: skip
    (root / "fleet" / "status.json").write_text(json.dumps(status))
    (root / "key").write_text("secret")
    write_set(root / "drawn.json", "test", 1, draw(space("gis"), "test", 2, 1, desk_class("gis").defaults))
    save_tiny(root / "checkpoint")
    (root / "cluster").mkdir()
    (root / "cluster" / "config.yaml").write_text("executor: slurm\n")
    return root


SCORE = "judge score --judgments {judged/judgments} --annotations {judged/annotations.csv}"
JUDGE = "judge run --trajectories {agentrewardbench} --endpoint http://127.0.0.1:9/v1 --model m --save {new}"
READ: dict[str, tuple[str, str]] = {  # the file that is spoilt, and the command that reads it
    "profile of a run": ("run/profile.yaml", "claims {run}"),
    "timings of a run": ("run/timings.json", "reproduce --run {run} --dry-run"),
    "profile of a run, to go on": ("run/profile.yaml", "reproduce --run {run} --dry-run"),
    "mark of a run": ("run/.coda", "reproduce --run {run} --dry-run"),
    "episodes": ("run/evaluation/base/gis.parquet", "seeds {run} {other}"),
    "episodes, claims": ("run/evaluation/stage1/gis.parquet", "claims {run}"),
    "episodes, power": ("run/evaluation/stage1/gis.parquet", "power 4 --run {run}"),
    "votes": ("run/judged/votes.parquet", "judge votes {run}"),
    "votes of Table 2": ("run/judges/gis.parquet", "judge votes {run} --table2"),
    "judged trajectories": ("other/judged/base/gis.parquet", "judge votes {other}"),
    "usage": ("run/usage/explore/gis.json", "usage {run}"),
    "trajectories": ("ours.parquet", "convert {ours.parquet} {new} --to osworld"),
    "lines of ScienceBoard": ("scienceboard/script-0/gis/A-01/traj.jsonl",
    "convert {scienceboard} {new} --to coda"),
    "result of ScienceBoard": ("scienceboard/script-0/gis/A-01/result.out",
    "convert {scienceboard} {new} --to coda"),
    "our record": ("scienceboard/script-0/gis/A-01/coda.json", "convert {scienceboard} {new} --to coda"),
    "last picture": ("scienceboard/script-0/gis/A-01/final.png",
    "convert {scienceboard} {new} --to agentrewardbench"),
    "picture": ("scienceboard/script-0/gis/A-01/step_0@000101000000.png",
    "convert {scienceboard} {new} --to osworld"),
    "lines of OSWorld": ("osworld/pyautogui/screenshot/script-0/gis/A-01/traj.jsonl",
    "convert {osworld} {new} --to coda"),
    "result of OSWorld": ("osworld/pyautogui/screenshot/script-0/gis/A-01/result.txt",
    "convert {osworld} {new} --to coda"),
    "AgentRewardBench": ("agentrewardbench/gis/script-0/coda/gis.A-01.json",
    "convert {agentrewardbench} {new} --to coda"),
    "annotations": ("judged/annotations.csv", SCORE),
    "splits": ("splits.csv", f"{SCORE} --split test --splits {{splits.csv}}"),
    "key": ("key", f"{JUDGE} --api-key-file {{key}}"),
    "trajectory to judge": ("agentrewardbench/gis/script-0/coda/gis.A-01.json", JUDGE),
    "drawn tasks": ("drawn.json", "evaluate --tasks {drawn.json} --app gis"),
    "profile of a run, its prices": ("run/profile.yaml", "usage {run}"),
    "ScienceBoard's task": ("board/KAlgebra/A-01.json", "tasks check {board}"),
    "ScienceBoard's task, to play": ("board/KAlgebra/A-01.json",
    "evaluate --on {board} --machines {machines.yaml}"),
    "machines": ("machines.yaml", "evaluate --on {board} --machines {machines.yaml}"),
    "status of a fleet": ("fleet/status.json", "fleet status {fleet}"),
    "profile of a cluster": ("cluster/config.yaml",
    "reproduce --profile smoke --run {new} --dry-run --cluster {cluster}"),
    **{
        f"checkpoint: {name}": (f"checkpoint/{name}", "episode gis/A-01 --planner {checkpoint}")
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "processor_config.json",
        "chat_template.jinja",
                     "generation_config.json", "model.safetensors")
    },
}  # fmt: skip


WRITTEN = (
    "tasks draw --app gis --region test --count 1 --seed 1 --save {target}",
    "convert {ours.parquet} {target} --to coda",
    "convert {ours.parquet} {target} --to osworld",
    "seeds {run} {other} --save {target}",
    "reproduce --profile smoke --until quickstart --run {target}",
)
TARGETS: dict[str, Callable[[Path], Path]] = {
    "below a file": lambda folder: folder / "key" / "x",
    "below a pipe": lambda folder: folder / "pipe" / "x",
    "a pipe": lambda folder: folder / "pipe",
    "a loop of links": lambda folder: folder / "loop",
    "below a loop of links": lambda folder: folder / "loop" / "x",
    "a link to nothing": lambda folder: folder / "lost",
    "a name of 300 letters": lambda folder: folder / ("x" * 300),
    "a path of 5,000 letters": lambda folder: folder.joinpath(*["x" * 200] * 25),
    "the kernel's own disk": lambda folder: Path("/proc/x"),
    "a disk that nobody may write to": lambda folder: Path("/sys/x"),
    "below a device": lambda folder: Path("/dev/null/x"),
}


@pytest.fixture
def folder(whole, tmp_path) -> Path:
    """Give a copy of that folder; its files are links to the same data until one is spoilt."""
    folder = tmp_path / "folder"
    shutil.copytree(whole, folder, copy_function=os.link)
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "lost").symlink_to("nowhere")
    return folder


@pytest.fixture
def type_command(coda, folder, monkeypatch) -> Iterator[Callable[[str], tuple[int, str, str]]]:
    """Give a function that runs a command, in which {x} is the path of x in that folder; it has to end within
    a minute.
    """

    def late(*_: object) -> None:
        raise AssertionError("the command does not end")

    def run_command(command: str) -> tuple[int, str, str]:
        code, shown, errors = coda(
            *(str(folder / word[1:-1]) if word.startswith("{") else word for word in command.split())
        )
        return code, shown, errors.lstrip("\n")  # of a bar that has gone

    # before a dead server is asked again
    monkeypatch.setattr("openai.OpenAI._calculate_retry_timeout", lambda *_, **__: 0.0)
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield run_command
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pairs() -> list[tuple[str, str]]:
    """Each file with everything that is no file, and with a third of the contents, which go round."""
    contents = list(CONTENTS)
    return [(name, kind) for turn, name in enumerate(READ) for kind in (*OBJECTS, *contents[turn % 3 :: 3])]


@pytest.mark.parametrize(("name", "kind"), pairs())
def test_a_bad_file_is_said_in_a_line(type_command, folder, name, kind):
    path, command = READ[name]
    spoil(folder / path, kind)
    code, shown, errors = type_command(command)
    # 0: of several files some are left out, and of some all contents are read
    assert code in (0, 1, 2), errors
    if code == 2:
        assert errors.startswith("error: ") and errors.count("\n") == 1, errors
    if code == 1 and kind != "nothing":  # the other files of a folder are read where one is not there
        assert Path(path).name in shown + errors


@pytest.mark.parametrize("command", WRITTEN)
@pytest.mark.parametrize("name", TARGETS)
def test_a_bad_target_is_said_in_a_line(type_command, folder, command, name):
    before = sorted(folder.rglob("*"))
    code, _, errors = type_command(command.replace("{target}", str(TARGETS[name](folder))))
    assert code in (1, 2) and errors.startswith("error: ") and errors.count("\n") == 1, errors
    assert sorted(folder.rglob("*")) == before


def test_the_documentation_has_the_counts():
    page = (REPO / "docs" / "reliability.md").read_text()
    assert f"{len(READ)} files that commands read, each replaced by {len(OBJECTS)} things" in page
    assert f"a third of {len(CONTENTS)} contents" in page
    assert f"| {len(pairs())} |" in page and len(pairs()) >= 500
    assert f"{len(WRITTEN)} commands that write, each with {len(TARGETS)} targets" in page
    assert f"| {len(WRITTEN) * len(TARGETS)} |" in page
