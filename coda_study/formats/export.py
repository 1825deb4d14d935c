"""A run as a data set and model folders with cards, ready for a hub: `coda export RUN FOLDER`.

`FOLDER/dataset` has two configurations: `trajectories`, the judged rollouts with their screenshots, a split
for each planner, and `tasks`, with the splits `train` and `test`.  `FOLDER/models` has a folder for each
trained planner, `FOLDER/run` the run's tables; metadata describe them all.  Nothing is sent anywhere.
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
from coda_lib.config import EXPLORERS
from coda_lib.errors import UserError
from coda_lib.files import read_json, write_text
from coda_lib.grammar import action_text
from coda_lib.judge import Rule, positive_steps
from coda_lib.paths import display
from coda_lib.task import Task, task_record, test_tasks
from coda_lib.trajectory import Trajectory, load_trajectories
from coda_study.draws import train_tasks
from coda_study.evaluation.provenance import build_manifest, code_state
from coda_study.formats.metadata import require_libraries, write_crate, write_croissant
from coda_study.owned import new_folder
from coda_study.run import Run

# of a checkpoint's folder: the pipeline's and the trainer's
LEFT_OUT = ("done.json", "fingerprint.json", "training_args.bin")
SPLITS = ("train", "test")  # of the tasks
TAGS = ["computer-use", "gui-agent"]
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
    """Write a run's data set and models to a new folder, whole or not at all; returns counts by name.

    UserError if the folder is there with something in it, and if the run has no judged trajectories.
    """
    require_libraries()
    profile = run.profile()
    planners = [name for name in EXPLORERS if all(run.judged(name, app).is_file() for app in profile.apps)]
    if not planners:
        first = f"{display(run.judged('base', profile.apps[0]))} is missing"
        fault = f"run {run.folder.name} has no judged trajectories ({first})"
        raise UserError(f"{fault}: coda reproduce --until judge")
    rule, counts = Rule.of(profile.judge), {}
    with new_folder(folder) as temporary:
        data = temporary / "dataset" / "data"
        for planner in planners:
            judged = [t for app in profile.apps for t in load_trajectories(run.judged(planner, app))]
            rows = [trajectory_row(trajectory, rule) for trajectory in judged]
            counts[f"trajectories of {planner}"] = _write(rows, TRAJECTORIES, data / f"{planner}.parquet")
        drawn = [t for app in profile.apps for planner in planners for t in train_tasks(run, app, planner)]
        fixed = [task for app in profile.apps for task in test_tasks(app)]
        for split, tasks in {"train": {task.id: task for task in drawn}.values(), "test": fixed}.items():
            counts[f"{split} tasks"] = _write(list(map(task_row, tasks)), TASKS, data / f"{split}.parquet")
        write_text(temporary / "dataset" / "README.md", dataset_card(run, planners, counts))
        for name, checkpoint in trained_planners(run):
            copy_planner(run, name, checkpoint, temporary / "models" / name)
            counts[f"model {name}"] = 1
        manifest = read_json(run.manifest) if run.manifest.is_file() else build_manifest(run, profile)
        about, tables = _about(run), {"trajectories": (TRAJECTORIES, planners), "tasks": (TASKS, SPLITS)}
        write_croissant(temporary / "dataset", f"coda-{run.folder.name}", about, manifest["written"], tables)
        write_crate(run, temporary, manifest)
    return counts


def trajectory_row(trajectory: Trajectory, rule: Rule) -> dict[str, Any]:
    """A row of `trajectories`; screenshots are PNGs."""
    steps = [
        {name: getattr(step, name) for name in ("plan", "reply", "error")}
        | {"screenshot": {"bytes": step.screenshot, "path": None}}
        | {"action": action_text(step.actions, step.image.size)}
        for step in trajectory.steps
    ]
    return {name: getattr(trajectory, name) for name in _TEXTS} | {
        "stop": str(trajectory.stop),
        "verdicts": list(trajectory.verdicts),
        "positive_steps": list(positive_steps(trajectory, rule)),
        "run": trajectory.run,
        "success": trajectory.success,
        "steps": steps,
        "final_screenshot": {"bytes": trajectory.final_screenshot, "path": None},
    }


def task_row(task: Task) -> dict[str, Any]:
    """A row of `tasks`; the conditions differ in shape, and are in the task file's JSON."""
    record = task_record(task)
    columns = {name: record[name] for name in ("grade", "instruction", "ans", "steps")}
    return {"task_id": task.id, "app": task.app, **columns, "file": json.dumps(record, ensure_ascii=False)}


def _write(rows: list[dict[str, Any]], features: Features, path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    Dataset.from_list(rows, features=features).to_parquet(path)
    return len(rows)


def trained_planners(run: Run) -> Iterator[tuple[str, Path]]:
    """The run's trained planners that are there, by the names of their folders."""
    folders = {f"specialist-{app}": run.specialist(app) for app in run.profile().apps}
    folders["generalist"] = run.generalist
    return ((name, path) for name, path in folders.items() if (path / "done.json").is_file())


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
    configs = []
    for name, splits in {"trajectories": planners, "tasks": SPLITS}.items():
        files = [{"split": split, "path": f"data/{split}.parquet"} for split in splits]
        configs.append({"config_name": name, "data_files": files})
    head = {"license": "apache-2.0", "language": ["en"], "tags": TAGS, "configs": configs}
    numbers = "\n".join(f"* {count} {name}" for name, count in counts.items() if not name.startswith("model"))
    call = f'load_dataset("FOLDER", "trajectories", split="{planners[0]}")'
    use = f"```python\nfrom datasets import load_dataset\n\n{call}\n```"
    return _card(
        head, f"Trajectories of run {run.folder.name}", _about(run), numbers, use, COLUMNS, origin(run)
    )


def _about(run: Run) -> str:
    return (
        f"Trajectories of a planner and a frozen executor in {software(run.profile().apps)}, with the votes "
        "of a judge, and the tasks behind them. Made by the CODA kit, which reproduces arXiv 2508.20096 with "
        "tiny models; these are not data of the paper."
    )


def model_card(run: Run, name: str) -> str:
    """The card of a trained planner."""
    profile, base = run.profile(), run.profile().models.planner
    head = {"license": "apache-2.0", "library_name": "transformers", "tags": TAGS}
    if not Path(base).is_absolute() and not base.startswith("data/"):
        head["base_model"] = base  # a name on the hub
    if name == "generalist":
        trained = "a fresh base planner, by supervised fine-tuning on the specialists' accepted trajectories"
        stage, where = f"Stage 2: {trained}.", ""
    else:
        app = name.removeprefix("specialist-")
        trained = f"the specialist for {app}, by decoupled GRPO on the base planner's judged rollouts"
        stage, where = f"Stage 1: {trained}.", f" --app {app}"
    executor = f"the executor that it was trained with `{profile.models.executor}` (frozen)"
    about = f"{stage} The base planner is `{base}`, {executor}."
    size = "" if profile.name == "laptop" else f" --profile {profile.name}"
    use = f"```bash\ncoda evaluate --planner FOLDER{where}{size}\n```"
    title = f"Planner {name} of run {run.folder.name}"
    return _card(head, title, about, _success(run, name), use, origin(run))


def _success(run: Run, name: str) -> str:
    """The rows of the run's Table 1 about a planner, as a list."""
    import pandas as pd

    path = run.tables / "table1.csv"
    if not path.is_file():
        return "Its success at the test tasks was not measured."
    table, lines = pd.read_csv(path), ["At the test tasks, with 95 % intervals over tasks:", ""]
    system, app = "stage1", name.removeprefix("specialist-")
    if name == "generalist":
        system, app = "stage2", "overall"
    for row in table[(table["system"] == system) & (table["application"] == app)].itertuples():
        value = f"{row.value:.1f} % [{row.low:.1f}, {row.high:.1f}]"
        lines.append(f"* {row.metric}, {app}: {value}, {row.tasks} tasks ({row.provenance})")
    return "\n".join(lines)


def origin(run: Run) -> str:
    """Where a part of a run comes from."""
    profile, commit = run.profile(), code_state()["commit"] or "unknown"
    return f"Profile `{profile.name}`, seed {profile.seed}; written by commit {commit} of the kit."


def _card(head: dict[str, Any], title: str, *parts: str) -> str:
    text = "\n\n".join(part.strip() for part in (f"# {title}", *parts))
    return f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n{text}\n"
