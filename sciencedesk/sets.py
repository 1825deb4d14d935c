"""Drawn tasks as files, and the note in a checkpoint's folder of the splits that it was trained on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from coda_lib.errors import UserError
from coda_lib.files import read_object, reading, write_json
from coda_lib.task import Task, parse_task, task_record
from sciencedesk.knowledge import kinds_of
from sciencedesk.space import has_space, space

SPLIT = "split.json"  # in a checkpoint's folder
KNOWLEDGE = "knowledge"  # in it: the split of goals


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


def write_split(checkpoint: Path, apps: Sequence[str], knowledge: int | None = None) -> None:
    """Note in a checkpoint's folder on which splits of the task spaces it was trained, and by which split of
    goals (`sciencedesk.knowledge`), if by one.
    """
    note = {app: space(app).fingerprint for app in apps if has_space(app)}
    write_json(checkpoint / SPLIT, note | ({KNOWLEDGE: named(apps, knowledge)} if knowledge else {}))


def check_knowledge(checkpoint: Path, apps: Sequence[str], knowledge: int | None) -> None:
    """UserError if a planner was taught by another split of goals than a profile explores by."""
    path = checkpoint / SPLIT
    taught = read_object(path).get(KNOWLEDGE) if path.is_file() else None
    explored = named(apps, knowledge) if knowledge else {}
    for app in apps if taught or (explored and path.is_file()) else ():
        if (mine := (taught or {}).get(app)) != (wanted := explored.get(app)):
            said = ["every goal" if one is None else f"those of split {one}" for one in (mine, wanted)]
            fault = (
                f"the planner {checkpoint} was taught {said[0]} of {app}, and the profile explores {said[1]}"
            )
            raise UserError(f"{fault}: set knowledge, or models.planner, so that they agree")


def named(apps: Sequence[str], knowledge: int) -> dict[str, str]:
    """A split of goals as notes have it, by application: its number and fingerprint."""
    kinds = {app: sorted(kinds_of(app, knowledge).items()) for app in apps}
    return {
        app: f"{knowledge} ({hashlib.sha256(repr(of).encode()).hexdigest()[:16]})"
        for app, of in kinds.items()
    }


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
