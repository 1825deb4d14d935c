"""A run as a data set and model folders with cards, ready for a hub: `coda export RUN FOLDER`.

`FOLDER/dataset` has two configurations: `trajectories`, the judged rollouts with their screenshots, a split
for each planner, and `tasks`, with the splits `train` and `test`.  `FOLDER/models` has a folder for each
trained planner.  Nothing is sent anywhere.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from datasets import Dataset, Features, Image, List, Value

from coda_lib.applications import software
from coda_lib.errors import UserError
from coda_lib.files import new_folder, write_text
from coda_lib.grammar import action_text
from coda_lib.judge import Rule, positive_steps
from coda_lib.paths import display
from coda_lib.task import Task, task_record, test_tasks
from coda_lib.trajectory import Trajectory, decode_image, load_trajectories
from coda_study.draws import train_tasks
from coda_study.evaluation.provenance import code_state
from coda_study.run import Run

PLANNERS = ("base", "round1", "specialist")  # whose rollouts a run judges
LEFT_OUT = (
    "done.json",
    "fingerprint.json",
    "training_args.bin",
)  # of a checkpoint's folder: the pipeline's and the trainer's
_TEXTS = ("task_id", "app", "instruction", "planner", "stop", "answer")
_STEP = {"screenshot": Image(), "plan": Value("string"), "reply": Value("string"), "action": Value("string"),
         "error": Value("string")}  # fmt: skip
TRAJECTORIES = Features(
    {**{name: Value("string") for name in _TEXTS}, "run": Value("int64"), "success": Value("bool"),
     "verdicts": List(Value("string")), "positive_steps": List(Value("int64")), "steps": List(_STEP),
     "final_screenshot": Image()}
)  # fmt: skip
_TASK = ("task_id", "app", "grade", "instruction", "ans", "file")
TASKS = Features({**{name: Value("string") for name in _TASK}, "steps": Value("int64")})
COLUMNS = """\
| column of `trajectories` | meaning |
| --- | --- |
| `task_id`, `app`, `instruction`, `planner`, `run` | the episode |
| `steps` | a list: screenshot before the action, plan, the executor's reply, \
the action in pixels of the screenshot, error |
| `final_screenshot`, `stop`, `answer` | how it ended |
| `success` | the application's own check; for evaluation only, never a label of training |
| `verdicts` | the judge's raw replies, one a vote |
| `positive_steps` | the steps, from 0, whose actions the judge's rule makes labels |

| column of `tasks` | meaning |
| --- | --- |
| `task_id`, `app`, `grade`, `instruction`, `steps`, `ans` | the task, its limit of steps, \
and the answer of a question |
| `file` | the task file as JSON: also first settings, conditions, and a script that solves it |
"""


def export(run: Run, folder: Path) -> dict[str, int]:
    """Write the data set and the model folders of a run to a new folder, whole or not at all; returns what is
    there, by name.

    UserError if the folder is there with something in it, and if the run has no judged trajectories.
    """
    profile = run.profile()
    planners = [name for name in PLANNERS if all(run.judged(name, app).is_file() for app in profile.apps)]
    if not planners:
        first = display(run.judged("base", profile.apps[0]))
        raise UserError(
            f"run {run.folder.name} has no judged trajectories ({first} is missing): coda "
            "reproduce --until judge"
        )
    rule, counts = Rule.of(profile.judge), {}
    with new_folder(folder) as temporary:
        data = temporary / "dataset" / "data"
        for planner in planners:
            rows = [
                trajectory_row(t, rule)
                for app in profile.apps
                for t in load_trajectories(run.judged(planner, app))
            ]
            counts[f"trajectories of {planner}"] = _write(rows, TRAJECTORIES, data / f"{planner}.parquet")
        for split, tasks in (
            ("train", _drawn(run, planners)),
            ("test", [t for app in profile.apps for t in test_tasks(app)]),
        ):
            counts[f"{split} tasks"] = _write(
                [task_row(task) for task in tasks], TASKS, data / f"{split}.parquet"
            )
        write_text(temporary / "dataset" / "README.md", dataset_card(run, planners, counts))
        for name, checkpoint in trained_planners(run):
            copy_planner(run, name, checkpoint, temporary / "models" / name)
            counts[f"model {name}"] = 1
    return counts


def trajectory_row(trajectory: Trajectory, rule: Rule) -> dict[str, Any]:
    """A row of `trajectories`; screenshots are PNGs."""
    steps = [
        {
            "screenshot": {"bytes": step.screenshot, "path": None},
            "plan": step.plan,
            "reply": step.reply,
            "action": action_text(step.actions, decode_image(step.screenshot).size),
            "error": step.error,
        }
        for step in trajectory.steps
    ]
    texts = {name: getattr(trajectory, name) for name in _TEXTS} | {"stop": str(trajectory.stop)}
    labels = {"verdicts": list(trajectory.verdicts), "positive_steps": list(positive_steps(trajectory, rule))}
    final = {"bytes": trajectory.final_screenshot, "path": None}
    return (
        texts
        | labels
        | {"run": trajectory.run, "success": trajectory.success, "steps": steps, "final_screenshot": final}
    )


def task_row(task: Task) -> dict[str, Any]:
    """A row of `tasks`; the conditions differ in shape, and are in the task file's JSON."""
    record = task_record(task)
    columns = {name: record[name] for name in ("grade", "instruction", "ans", "steps")}
    return {"task_id": task.id, "app": task.app, **columns, "file": json.dumps(record, ensure_ascii=False)}


def _drawn(run: Run, planners: Sequence[str]) -> list[Task]:
    tasks = {
        task.id: task
        for app in run.profile().apps
        for planner in planners
        for task in train_tasks(run, app, planner)
    }
    return list(tasks.values())


def _write(rows: list[dict[str, Any]], features: Features, path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    Dataset.from_list(rows, features=features).to_parquet(path)
    return len(rows)


def trained_planners(run: Run) -> Iterator[tuple[str, Path]]:
    """The run's trained planners that are there, by the names of their folders."""
    found = {f"specialist-{app}": run.specialist(app) for app in run.profile().apps} | {
        "generalist": run.generalist
    }
    return ((name, path) for name, path in found.items() if (path / "done.json").is_file())


def copy_planner(run: Run, name: str, checkpoint: Path, target: Path) -> None:
    """Copy a trained planner, with its card, to a new folder."""
    target.mkdir(parents=True)
    for path in sorted(checkpoint.iterdir()):
        if path.is_file() and path.name not in LEFT_OUT and not path.name.startswith("."):
            shutil.copyfile(path, target / path.name)
    write_text(target / "README.md", model_card(run, name))


# ---- cards -------------------------------------------------------------------------------------------------


def dataset_card(run: Run, planners: Sequence[str], counts: dict[str, int]) -> str:
    """The card of the data set, with the head that `datasets.load_dataset` reads."""
    splits = {"trajectories": planners, "tasks": ("train", "test")}
    configs = [
        {
            "config_name": name,
            "data_files": [{"split": split, "path": f"data/{split}.parquet"} for split in parts],
        }
        for name, parts in splits.items()
    ]
    head = {
        "license": "apache-2.0",
        "language": ["en"],
        "tags": ["computer-use", "gui-agent"],
        "configs": configs,
    }
    numbers = "\n".join(f"* {count} {name}" for name, count in counts.items() if not name.startswith("model"))
    about = (
        f"Trajectories of a planner and a frozen executor in {software(run.profile().apps)}, with "
        "the votes of a judge, "
        "and the tasks behind them. Made by the CODA kit, which reproduces arXiv 2508.20096 with "
        "tiny models; these are not "
        "data of the paper."
    )
    call = f'load_dataset("FOLDER", "trajectories", split="{planners[0]}")'
    use = f"```python\nfrom datasets import load_dataset\n\n{call}\n```"
    return _card(head, f"Trajectories of run {run.folder.name}", about, numbers, use, COLUMNS, origin(run))


def model_card(run: Run, name: str) -> str:
    """The card of a trained planner."""
    profile, base = run.profile(), run.profile().models.planner
    head: dict[str, Any] = {
        "license": "apache-2.0",
        "library_name": "transformers",
        "tags": ["computer-use", "gui-agent"],
    }
    if not Path(base).is_absolute() and not base.startswith("data/"):
        head["base_model"] = base  # a name on the hub
    app = name.removeprefix("specialist-")
    if name == "generalist":
        trained = "a fresh base planner, by supervised fine-tuning on the specialists' accepted trajectories"
        stage = f"Stage 2: {trained}."
    else:
        stage = f"Stage 1: the specialist for {app}, by decoupled GRPO on the base planner's judged rollouts."
    executor = f"the executor that it was trained with `{profile.models.executor}` (frozen)"
    about = f"{stage} The base planner is `{base}`, {executor}."
    where = "" if name == "generalist" else f" --app {app}"
    size = "" if profile.name == "laptop" else f" --profile {profile.name}"
    use = f"```bash\ncoda evaluate --planner FOLDER{where}{size}\n```"
    return _card(
        head, f"Planner {name} of run {run.folder.name}", about, _success(run, name), use, origin(run)
    )


def _success(run: Run, name: str) -> str:
    """The rows of the run's Table 1 about a planner, as a list."""
    import pandas as pd

    path = run.tables / "table1.csv"
    if not path.is_file():
        return "Its success at the test tasks was not measured."
    table = pd.read_csv(path)
    system, app = (
        ("stage2", "overall") if name == "generalist" else ("stage1", name.removeprefix("specialist-"))
    )
    rows = table[(table["system"] == system) & (table["application"] == app)]
    lines = [
        f"* {row.metric}, {app}: {row.value:.1f} % [{row.low:.1f}, {row.high:.1f}], {row.tasks} "
        f"tasks ({row.provenance})"
        for row in rows.itertuples()
    ]
    return "\n".join(["At the test tasks, with 95 % intervals over tasks:", "", *lines])


def origin(run: Run) -> str:
    """Where a part of a run comes from."""
    profile, commit = run.profile(), code_state()["commit"]
    return (
        f"Profile `{profile.name}`, seed {profile.seed}; written by commit {commit or 'unknown'} of the kit."
    )


def _card(head: dict[str, Any], title: str, *parts: str) -> str:
    text = "\n\n".join(part.strip() for part in (f"# {title}", *parts))
    return f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n{text}\n"
