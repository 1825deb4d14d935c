"""Drawn tasks as files, and the note in a checkpoint's folder of the splits that it was trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from coda_lib.errors import UserError
from coda_lib.files import read_object, reading, write_json
from coda_lib.task import Task, parse_task, task_record
from sciencedesk.space import has_space, space

SPLIT = "split.json"  # in a checkpoint's folder


def write_set(path: Path, name: str, seed: int, tasks: Sequence[Task]) -> None:
    """Write drawn tasks of one or several applications, with the fingerprints of their spaces, as JSON."""
    spaces = {app: space(app).fingerprint for app in sorted({task.app for task in tasks})}
    records = [{"id": task.id} | task_record(task) for task in tasks]
    write_json(path, {"region": name, "seed": seed, "spaces": spaces, "tasks": records})


def read_set(path: Path) -> list[Task]:
    """The tasks of such a file.  UserError for another file, or another version of a space or its split."""
    raw = read_object(path, "spaces", "tasks")
    with reading(path, "set of tasks"):
        spaces, records = raw["spaces"], raw["tasks"]
        numbered = enumerate(records, 1)
        tasks = [parse_task(row, str(row["id"]), f"{path}, task {number}") for number, row in numbered]
        if repeated := [name for name, count in Counter(task.id for task in tasks).items() if count > 1]:
            raise UserError(f"{path} has two tasks of the name {repeated[0]}: each is played under its own")
        spaces = dict(spaces)
    for app in sorted({task.app for task in tasks}):
        if spaces.get(app) != (present := space(app).fingerprint):
            versions = f"another version of the task space of {app} ({spaces.get(app)}, here {present})"
            again = "draw it again, since its tasks may be among those to be trained on"
            raise UserError(f"{path} was drawn from {versions}: {again}")
    return tasks


def write_split(checkpoint: Path, apps: Sequence[str]) -> None:
    """Note in a checkpoint's folder on which splits of the task spaces it was trained."""
    write_json(checkpoint / SPLIT, {app: space(app).fingerprint for app in apps if has_space(app)})


def check_split(checkpoint: Path, app: str) -> str | None:
    """A warning about a checkpoint of an earlier split; UserError about one of another split.

    One without a note is foreign.
    """
    known = read_object(path).get(app) if (path := checkpoint / SPLIT).is_file() else None
    if not known or known == (present := space(app).fingerprint):
        return None
    split = f"split of the task space of {app} ({known}, here {present})"
    if known in space(app).earlier:
        return f"{checkpoint} was trained on an earlier {split}: it may have learned some drawn tasks"
    again = "train it again, or evaluate it with the version of the kit that trained it"
    raise UserError(f"{checkpoint} was trained on another {split}: it may have learned these tasks; {again}")
