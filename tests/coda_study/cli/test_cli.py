"""The command: what it prints, its exit codes, and that it says clearly what it does not know."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest
import typer
from PIL import Image

from coda_lib.agent import DualAgent
from coda_lib.applications import ALL_APPS, APPS
from coda_lib.config import FleetSettings, load_profile
from coda_lib.errors import StageError, UserError
from coda_lib.executor import Executor
from coda_lib.files import write_text
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.paths import DATA, NOTEBOOKS, REFERENCE, REPO
from coda_lib.planner import Planner
from coda_lib.task import Task, test_tasks
from coda_study.cli import evaluate as cli_evaluate
from coda_study.cli import main as cli
from coda_study.cli import play as cli_play
from coda_study.cli.evaluate import chosen_agent
from coda_study.fleet.collect import Collection
from coda_study.pipeline import drive as pipeline
from coda_study.run import Run
from sciencedesk import script


def test_help_is_quick_and_names_the_commands(coda):
    heavy = {*"torch transformers pandas numpy snakemake papermill PySide6 yaml coda_lib.config".split()}
    code = f"import sys, coda_study.cli.main; print(*sorted({heavy!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "\n"
    code, shown, _ = coda("--help")
    assert code == 0
    for command in ("reproduce", "tasks", "episode", "desk", "evaluate"):
        assert command in shown


@pytest.mark.parametrize("command", ["reproduce", "tasks list", "tasks check", "episode", "desk", "evaluate"])
def test_every_command_explains_itself(coda, command):
    code, shown, _ = coda(*command.split(), "--help")
    assert code == 0 and len(shown.splitlines()) > 5


def documented_commands() -> list[str]:
    """Every `coda` command that the README, a page of docs/ or a notebook gives a reader to type."""
    pages = [path.read_text() for path in (REPO / "README.md", *(REPO / "docs").glob("*.md"))]
    cells = [cell.source for path in NOTEBOOKS.rglob("*.ipynb") for cell in nbformat.read(path, 4).cells]
    blocks = [
        command for page in pages for command in re.findall(r"^(coda .*?)(?: {2,}#.*)?$", page, re.MULTILINE)
    ]
    inline = [command for text in (*pages, *cells) for command in re.findall(r"`(coda [^`]+)`", text)]
    return sorted(
        {command.strip() for command in [*blocks, *inline] if not re.search(r"[A-Z]{3}|\.\.\.|…", command)}
    )


def test_every_documented_command_can_be_typed():
    commands = documented_commands()
    assert len(commands) > 30
    for line in commands:
        words, command = shlex.split(line)[1:], typer.main.get_command(cli.app)
        while hasattr(command, "commands") and words != ["--help"]:
            command = command.commands[words.pop(0)]
        if words != ["--help"]:
            command.make_context(line, words)  # a usage error names what cannot be


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "reproduce --profile lap",
            "unknown profile 'lap': choose one of ablations, desktop, gpu, laptop, paper, smoke",
        ),
        ("reproduce --until train", "unknown stage 'train': choose one of quickstart,"),
        ("reproduce --set specialize.stepz=1", "specialize.stepz: unknown field"),
        ("reproduce --run ../x", "'../x' names no run"),
        ("reproduce --run=", "'' names no run"),
        ("reproduce --set seed=true", "seed: Input should be a valid integer (got True)"),
        (f"reproduce --set seed={2**70}", "seed: Input should be less than or equal to 4294967295"),
        ("reproduce --set threads=1000000", "threads: Input should be less than or equal to 1024"),
        ("reproduce --set specialize.learning_rate=.inf", "learning_rate: Input should be a finite number"),
        ("reproduce --set specialize.learning_rate=.nan", "learning_rate: Input should be a finite number"),
        ("reproduce --set specialize.beta=true", "beta: Input should be a valid number"),
        ("reproduce --set seed=2026-13-45", "'2026-13-45' is not a YAML value"),
        ("episode gis/A-01 --planner=", "the name of the planner checkpoint is empty"),
        ("reproduce --seeds 7 8 x", "--seeds 7 8 x: give whole numbers, as in --seeds 7 8 9"),
        ("reproduce --seeds --dry-run", "--seeds --dry-run: give whole numbers"),
        ("reproduce --seeds 7 8 7 --dry-run", "--seeds 7 8 7: a seed is there twice"),
        ("reproduce --seeds 7 8 --set seed=9", "--seeds and --set seed= exclude each other"),
        ("reproduce --set models.planner=data/none", "the planner checkpoint data/none is missing"),
        (
            "tasks list --app mars",
            "unknown application 'mars': choose one of algebra, biochem, gis, astron, spectra, KAlgebra",
        ),
        ("episode A-01", "'A-01' is not a task: write APP/TASK"),
        ("episode gis/Z-99", "unknown task 'gis/Z-99'; `coda tasks list --app gis` lists the tasks"),
        ("evaluate --set models.executor=data/none", "the executor checkpoint data/none is missing"),
        ("evaluate --app mars", "unknown application 'mars'"),
        ("evaluate --machines m.yaml", "--machines needs --on"),
        ("evaluate --on no-such-folder", "no task files in no-such-folder"),
        ("desk mars", "unknown application 'mars'"),
        ("desk PyMOL", "unknown application 'PyMOL': choose one of algebra, biochem, gis, astron, spectra"),
        ("desk gis --task algebra/A-01", "task algebra/A-01 is for algebra, not gis"),
        ("desk gis", "there is no display to open a window on"),
    ],
)
def test_what_is_unknown_is_one_message_and_exit_code_2(coda, words, message):
    code, shown, errors = coda(*words.split())
    assert code == 2 and shown == ""
    assert errors.startswith("error: ") and errors.count("\n") == 1 and message in errors


def test_unknown_options_are_exit_code_2(coda):
    code, _, errors = coda("reproduce", "--speed", "9")
    assert code == 2 and "--speed" in errors


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (StageError("stage judge failed: cell 3"), 1, "error: stage judge failed: cell 3\n"),
        (UserError("no such thing"), 2, "error: no such thing\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "results/x"),
            1,
            "error: results/x: the disk is full: free",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "results/x"),
            1,
            "error: results/x: it is on a read-only disk: name",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "results/x"),
            1,
            "error: results/x: permission is denied: run",
        ),
        (
            RuntimeError("write failed: No space left on device (os error 28)"),
            1,
            "error: the disk is full: free",
        ),
        (MemoryError(), 1, "error: memory is used up: end other programs"),
        (KeyboardInterrupt(), 130, "stopped; the same command goes on from here\n"),
    ],
)
def test_failures_of_a_run(coda, monkeypatch, raised, code, message):
    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(pipeline, "reproduce", fail)
    ended, _, errors = coda("reproduce", "--profile", "smoke")
    assert ended == code and errors.startswith(message) and errors.count("\n") == 1


def test_a_bug_leaves_its_traceback_in_a_file(coda, monkeypatch):
    def fail(*_: object) -> None:
        raise KeyError("seed")

    monkeypatch.setattr(pipeline, "reproduce", fail)
    code, _, errors = coda("reproduce", "--profile", "smoke")
    assert code == 70 and errors.startswith("error: this is a bug of the kit: 'seed'; its traceback is in ")
    path = Path(errors.split()[-1])
    text = path.read_text()
    path.unlink()
    assert text.startswith("coda reproduce --profile smoke\n\nTraceback") and text.endswith(
        "KeyError: 'seed'\n"
    )


def test_a_run_ends_by_naming_what_it_wrote(coda, monkeypatch, tmp_path):
    run = Run(str(tmp_path / "mine"))
    write_text(run.table1, "| system | Overall |\n")
    seen = {}

    def reproduce(target, profile, cores, until, fresh, console, notebooks, cluster) -> pipeline.Outcome:
        seen.update(run=target, steps=profile.specialize.steps, cores=cores, until=until, fresh=fresh)
        return pipeline.Outcome(42, 3723.4, (run.table1, run.report))

    monkeypatch.setattr(pipeline, "reproduce", reproduce)
    options = "--profile smoke --cores 3 --set specialize.steps=9 --fresh --run".split()
    code, shown, _ = coda("reproduce", *options, run.name)
    assert code == 0
    assert seen == {"run": run, "steps": 9, "cores": 3, "until": "results", "fresh": True}
    assert shown.splitlines()[1:] == [
        "| system | Overall |", "", str(run.table1), str(run.report), f"{run.folder}: done in 62 min 03 s"
    ]  # fmt: skip


def test_dry_run(coda, fake_notebooks, fake_checkpoints, tmp_path):
    words = [word for change in fake_checkpoints for word in ("--set", change)]
    words += ["--profile", "smoke", "--run", str(tmp_path / "run"), "--notebooks", str(fake_notebooks)]
    code, shown, _ = coda("reproduce", *words, "--set", "apps=[gis]", "--until", "judge", "--dry-run")
    assert code == 0
    assert [line.split()[0] for line in shown.splitlines()] == ["explore/base/gis", "judge/base/gis"]


def test_dry_run_of_several_seeds(coda, fake_notebooks, fake_checkpoints, tmp_path):
    words = [word for change in fake_checkpoints for word in ("--set", change)]
    words += ["--profile", "smoke", "--run", str(tmp_path / "run"), "--notebooks", str(fake_notebooks)]
    more = "--dry-run --set apps=[gis] --seeds 7 8 --until specialize".split()
    code, shown, _ = coda("reproduce", *words, *more)
    stages = ["explore/base/gis", "judge/base/gis", "specialize/specialist/gis"]
    assert code == 0 and not (tmp_path / "run" / "profile.yaml").exists()
    second = [f"{tmp_path}/run-seed8:", "specialize/specialist/gis"]
    assert shown.split() == [f"{tmp_path}/run:", *stages, *second]


def test_tasks_list(coda):
    code, shown, _ = coda("tasks", "list", "--app", "gis")
    assert code == 0 and "gis/A-01" in shown and shown.endswith(f"{len(test_tasks('gis'))} test tasks\n")
    code, shown, _ = coda("tasks", "list", "--json")
    listed = json.loads(shown)
    assert [task["id"] for task in listed] == [task.id for app in APPS for task in test_tasks(app)]
    assert {"id", "app", "grade", "instruction", "steps"} <= set(listed[0])


def test_tasks_check(coda, monkeypatch):
    code, shown, _ = coda("tasks", "check", "--app", "biochem", "--json")
    checked, count = json.loads(shown), len(test_tasks("biochem"))
    assert code == 0 and checked["problems"] == []
    row = {"app": "biochem", "split": "test", "tasks": count, "starts": count, "solved": count, "idle": 0}
    assert checked["splits"][0] == row
    code, shown, _ = coda("tasks", "check", "--app", "spectra", "--perturbed", "2", "--json")
    (row,), tasks = json.loads(shown)["splits"], len(test_tasks("spectra"))
    assert code == 0 and (row["tasks"], row["starts"], row["solved"]) == (tasks, 3 * tasks, 3 * tasks)
    solve = script.solve
    monkeypatch.setattr(script, "solve", lambda env, task: task.id != "biochem/A-01" and solve(env, task))
    code, shown, _ = coda("tasks", "check", "--app", "biochem")
    assert code == 1 and f"{count} test tasks" in shown
    assert shown.endswith("problems:\nbiochem/A-01: not solved by its script\n")


def test_tasks_check_says_what_is_wrong_with_a_task_written_by_hand(coda, monkeypatch):
    goal = {"type": "state", "key": "grid", "value": True}
    solution = ({"click": "View"}, {"click": "Grid"})
    task = Task("gis/A-90", "gis", "A", "Turn the grid on.", 5, (), (goal,), solution=solution)
    wrong = {
        "gis/A-91: its script has 2 steps, and then an end; the limit is 2": {"steps": 2},
        "gis/A-91: not solved by its script": {"solution": ({"click": "View"},)},
        "gis/A-91: 0 elements are called 'Gird'; visible: ": {"solution": ({"click": "Gird"},)},
        "gis/A-91: solved by doing nothing": {
            "initialize": ({"func": "set", "key": "grid", "value": True},),
            "solution": (),
        },
    }
    for problem, change in wrong.items():
        tasks = [task, replace(task, id="gis/A-91", **change)]
        monkeypatch.setattr("coda_lib.task.test_tasks", lambda name, tasks=tasks: tasks)
        monkeypatch.setattr("sciencedesk.space.has_space", lambda name: False)
        code, shown, _ = coda("tasks", "check", "--app", "gis", "--json")
        (found,) = json.loads(shown)["problems"]
        assert code == 1 and found.startswith(problem)


def test_without_a_name_only_the_check_of_tasks_takes_in_software_that_no_model_is_trained_on(
    coda, monkeypatch
):
    monkeypatch.setattr(script, "solve", lambda env, task: True)
    monkeypatch.setattr(script, "idle", lambda env, task: False)
    code, shown, _ = coda("tasks", "check", "--json")
    tasks = {row["app"]: row["tasks"] for row in json.loads(shown)["splits"] if row["split"] == "test"}
    counts = {app: len(test_tasks(app)) for app in ALL_APPS}
    assert code == 0 and tasks == counts
    spectra = counts.pop("spectra")
    assert coda("tasks", "list")[1].endswith(f"{sum(counts.values())} test tasks\n")
    assert coda("tasks", "list", "--app", "spectra")[1].endswith(f"{spectra} test tasks\n")
    assert coda("tasks", "list", "--app", "PyMOL")[1].endswith("30 test tasks\n")


@pytest.fixture
def scripted(monkeypatch):
    """Put an agent that says DONE at once in the place of any other."""

    def agent(settings, planner) -> DualAgent:
        sampling = Sampling(**settings.planner.model_dump())
        thinking = Planner(ReplayModel(lambda conversation: "Thought: DONE"), sampling)
        return DualAgent(thinking, Executor(ReplayModel([]), sampling), planner or "base")

    for module in (cli_evaluate, cli_play):
        monkeypatch.setattr(module, "chosen_agent", agent)


def test_episode(coda, scripted, tmp_path):
    code, shown, errors = coda("episode", "algebra/A-01", "--save", str(tmp_path / "steps.png"))
    assert code == 0 and errors == f"wrote {tmp_path / 'steps.png'}\n"
    assert shown.startswith("algebra/A-01: ")
    assert "  1 DONE\n" in shown and "ended with DONE: not solved" in shown
    assert Image.open(tmp_path / "steps.png").width > 300
    code, shown, _ = coda("episode", "algebra/A-01", "--seed", "3", "--json")
    played = json.loads(shown)
    assert (played["stop"], played["success"], played["seed"], len(played["steps"])) == ("DONE", False, 3, 1)


def test_an_episode_of_two_planners_is_recorded_side_by_side(coda, scripted, tmp_path):
    words = ["episode", "algebra/A-01", "--beside", "other", "--save"]
    code, shown, _ = coda(*words, str(tmp_path / "film.webp"))
    assert code == 0 and shown.count("ended with DONE: not solved") == 2 and "planner other\n" in shown
    recording = Image.open(tmp_path / "film.webp")
    assert (recording.format, recording.n_frames) == ("WEBP", 2) and recording.width > 2 * 336
    assert "stop" in json.loads(coda(*words[:4], "--json")[1])["beside"]
    assert "ends with .webp" in coda(*words, str(tmp_path / "film.png"))[2]
    assert "name two planners" in coda(*words[:4], "--planner", "other")[2]
    assert "leave out --beside" in coda(*words[:4], "--watch", str(tmp_path / "watch.html"))[2]
    assert coda(*words[:2], "--watch", str(tmp_path / "watch.html"))[0] == 0
    assert "DONE" in (tmp_path / "watch.html").read_text()


def test_evaluate(coda, scripted, tmp_path):
    words = "evaluate --app astron --runs 2 --first 3 --profile smoke --save".split()
    words.append(str(tmp_path / "e.parquet"))
    code, shown, _ = coda(*words, "--json")
    measured = json.loads(shown)
    assert code == 0 and measured["runs"] == 2 and measured["planner"] == "base"
    assert [row["metric"] for row in measured["results"]] == ["Average@2", "Pass@2"]
    for row in measured["results"]:
        assert row["value"] == 0 and abs(row["low"]) < 1e-9 and 0 < row["high"] < 1
    assert len(pd.read_parquet(tmp_path / "e.parquet")) == 6
    code, shown, _ = coda(*words)
    assert "astron" in shown and "Pass@2" in shown and "0.0 [0.0, " in shown


def test_a_fault_takes_its_task_out_of_the_table_and_nothing_else(coda, scripted, monkeypatch):
    from coda_lib.environment import EnvironmentFault
    from sciencedesk.env import ScienceDesk

    alone = ScienceDesk.reset

    def reset(self, task, **options):
        if task.id == "astron/A-02":
            raise EnvironmentFault("the machine is gone")
        return alone(self, task, **options)

    monkeypatch.setattr(ScienceDesk, "reset", reset)
    words = "evaluate --app astron --runs 2 --first 3 --profile smoke".split()
    code, shown, errors = coda(*words)
    assert code == 1 and "2 of 3" in shown and "Pass@2" in shown
    assert (
        "1 tasks are not in the table, because an environment broke: astron/A-02; play them again" in errors
    )
    measured = json.loads(coda(*words, "--json")[1])
    assert measured["broken"] == ["astron/A-02"] and [row["tasks"] for row in measured["results"]] == [2, 2]


def test_task_files_that_cannot_be_read_are_left_out_and_their_edition_is_said(tmp_path, monkeypatch, capsys):
    from coda_lib.config import load_profile
    from coda_study.fleet import sources
    from sciencedesk.board.editions import files

    monkeypatch.setattr(sources, "_local", lambda kind: (object, 1))
    shutil.copytree(DATA / "tasks" / "apps" / "KAlgebra", tmp_path / "KAlgebra")
    (tmp_path / "KAlgebra" / "A-01.json").write_text("{")
    with pytest.raises(
        UserError, match="A-01.json is no JSON file, or is damaged.*--leave-out plays the others"
    ):
        sources.board_sets(tmp_path)
    messages = []
    (found,) = sources.board_sets(tmp_path, leave_out=messages.append)
    assert found.unreadable == 1 and len(found.tasks) == 16
    assert "left out: " in messages[0] and "A-01.json" in messages[0]
    row = cli_evaluate._measures(found, _solved(found.tasks), 1)[0]
    assert (row["tasks"], row["of"], row["unreadable"]) == (16, 17, 1)
    digest = files((tmp_path / "KAlgebra").glob("*.json")).digest  # of all 17
    once = load_profile("smoke").model_copy(update={"evaluation_runs": 1})
    assert row["edition"] == found.edition == f"no edition of ScienceBoard, {digest[:12]}"
    cli_evaluate._report([found], [_solved(found.tasks)], "base", once, False)
    assert f"KAlgebra: task files of {found.edition}" in capsys.readouterr().out


def test_saved_episodes_carry_the_edition_of_their_tasks(monkeypatch):
    from rich.progress import Progress

    from coda_lib import rollout
    from coda_lib.config import load_profile
    from coda_study.fleet import tasksets

    monkeypatch.setattr(tasksets, "play_tasks", lambda *how, **listeners: [])
    monkeypatch.setattr(rollout, "episodes", lambda *what: pd.DataFrame({"task_id": ["KAlgebra/A-01"]}))
    for edition, columns in (("release, c27d2e437b69", {"task_id", "edition"}), ("", {"task_id"})):
        task_set = tasksets.TaskSet("KAlgebra", [], object, edition=edition)
        played = cli_evaluate._play(
            task_set, SimpleNamespace(name="base"), load_profile("smoke"), None, None, Progress()
        )
        assert set(played) == columns and set(played.get("edition", [])) <= {edition}


def test_two_tasks_of_one_name_are_refused_before_they_are_played(tmp_path, monkeypatch):
    from coda_study.fleet import sources

    monkeypatch.setattr(sources, "_local", lambda kind: (object, 1))
    for name in ("KAlgebra", "copy"):
        shutil.copytree(DATA / "tasks" / "apps" / "KAlgebra", tmp_path / name)
    with pytest.raises(
        UserError, match="two task files below .* are KAlgebra/A-01: each is played under its own name"
    ):
        sources.board_sets(tmp_path)


def _solved(tasks):
    rows = [{"task_id": task.id, "run": 0, "success": True, "stop": "DONE"} for task in tasks]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    "command", ["episode algebra/A-01", "evaluate", "tasks draw --region test --count 1 --seed 1"]
)
def test_what_is_no_plain_file_is_not_saved_over(coda, scripted, command, tmp_path):
    """Before anything is played: `--save results` replaced all runs by a picture."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "run").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "results" / "run")
    os.mkfifo(tmp_path / "pipe")
    for name, kind in (("results", "a folder"), ("link", "a link"), ("pipe", "a pipe")):
        code, shown, errors = coda(*command.split(), "--save", str(tmp_path / name))
        assert code == 2 and shown == ""
        assert f"{name} is {kind} and is not replaced by a file: name a new file" in errors
    assert coda(*command.split(), "--save", str(tmp_path / "link" / "x"))[0] == 2
    assert (tmp_path / "results" / "run").read_text() == "precious" and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    "command",
    [
        f"seeds {REFERENCE / 'laptop'}",
        "judge run --trajectories . --endpoint http://localhost:9/v1 --model m",
    ],
)
def test_what_is_no_folder_is_not_saved_into(coda, command, tmp_path):
    (tmp_path / "file").write_text("precious")
    code, shown, errors = coda(*command.split(), "--save", str(tmp_path / "file"))
    assert code == 2 and shown == "" and "is a file and no folder: name a folder" in errors
    assert (tmp_path / "file").read_text() == "precious"


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """Give the folder where `coda evaluate` keeps a fleet's episodes of astron, with one of an interrupted
    fleet in it.
    """
    from coda_lib import paths
    from coda_study.fleet import tasksets

    monkeypatch.setattr(paths, "RESULTS", tmp_path)
    folder, alone = tmp_path / "fleet" / "astron", tasksets.play_tasks

    def play_tasks(task_set, agent, todo, seed, concurrency, limit, fleet, folder, **listeners):
        if fleet.workers:
            with Collection(folder).held({}), pytest.raises(UserError, match="keeps its episodes in"):
                cli_evaluate.evaluate("none", "astron", profile="smoke", workers=2)
            if (folder / "fault").exists():
                raise UserError("interrupted")
        return alone(task_set, agent, todo, seed, concurrency, limit, FleetSettings(), folder, **listeners)

    monkeypatch.setattr(tasksets, "play_tasks", play_tasks)
    with Collection(folder).held({}):
        (folder / "episodes").mkdir()
        (folder / "episodes" / "A-01.0.parquet").write_text("an hour's work")
    return folder


def test_evaluate_deletes_no_episodes_but_its_own_fleets(coda, scripted, kept, tmp_path):
    words = "evaluate --app astron --runs 1 --first 1 --profile smoke".split()
    code, shown, _ = coda(*words)
    assert code == 0 and "astron" in shown and (kept / "episodes" / "A-01.0.parquet").exists()
    (kept / "fault").touch()
    # the next call goes on
    assert coda(*words, "--workers", "2")[0] == 2 and (kept / "episodes" / "A-01.0.parquet").exists()
    (kept / "fault").unlink()
    with Collection(kept).held({}):
        code, shown, errors = coda(*words, "--workers", "2")
        assert code == 2 and "is being filled by another process" in errors and (kept / "episodes").exists()
    code, shown, _ = coda(*words, "--workers", "2")
    assert code == 0 and "astron" in shown and not (kept / "episodes").exists()
    code, _, errors = coda(*words, "--keep", str(tmp_path / "mine"))
    assert code == 2 and "--keep needs --workers" in errors


def test_the_profiles_agent_is_built_as_asked(monkeypatch, fake_checkpoints):
    from coda_lib.models import local as network

    monkeypatch.setattr(network, "LocalModel", lambda path, batch_size: ReplayModel([], name=path))
    settings = load_profile("smoke", fake_checkpoints)
    agent = chosen_agent(settings, None)
    assert agent.name == "base" and agent.planner.model.name == settings.models.planner
    assert agent.executor.sampling.max_new_tokens == settings.executor.max_new_tokens
    qwen = "Qwen/Qwen2.5-VL-7B-Instruct"
    assert chosen_agent(settings, qwen).planner.model.name == qwen
    assert chosen_agent(settings, "none").name == "executor"


@pytest.mark.parametrize("command", ["seeds", "claims"])
def test_no_figure_depends_on_the_order_of_the_runs(coda, command):
    names = [str(REFERENCE / f"laptop-seed{seed}") for seed in (8, 9)]
    (code, one, _), (_, other, _) = (coda(command, *order, "--json") for order in (names, names[::-1]))
    assert code == 0 and one == other


@pytest.mark.slow
def test_with_a_studys_seeds_the_planner_plays_committed_episodes_again(coda, tmp_path):
    """The first 64 share a batch, and none of them ends before its second step: so far all is the same."""
    committed = pd.read_parquet(Run(str(REFERENCE / "laptop")).evaluation("base", "gis")).head(64)
    words = ("--as", "base", "--seed", "7", "--first", "8", "--set", "step_limit=2")
    code, _, said = coda("evaluate", "--app", "gis", *words, "--save", str(tmp_path / "again.parquet"))
    assert code == 0, said
    kept = ["task_id", "run", "success", "stop"]
    early, again = (
        table[(table["steps"] <= 2) & (table["stop"] != "STEP_LIMIT")][kept].to_numpy().tolist()
        for table in (committed, pd.read_parquet(tmp_path / "again.parquet"))
    )
    assert len(early) == 5 and early == again


@pytest.mark.parametrize("system", ["stage3", "BASE"])
def test_only_systems_have_seeds_of_a_study(coda, system):
    code, _, said = coda("evaluate", "--as", system)
    assert code == 2 and f"--as {system}: choose one of base, executor, stage1, stage2" in said
