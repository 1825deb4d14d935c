"""ScienceBoard's log folders: an episode a folder, a line and the picture before it a step, and result.out at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from coda_lib.errors import UserError
from coda_lib.files import write_json, write_text
from coda_lib.formats.code import action_code
from coda_lib.formats.parts import (
    actions_of,
    read_json,
    read_lines,
    read_picture,
    read_result,
    record_of,
    stop_of,
    unseen,
    with_record,
)
from coda_lib.trajectory import Step, Trajectory, decode_image

RESULT = "result.out"
OURS, FINAL = "coda.json", "final.png"  # what the format has no place for


def stamp(index: int) -> str:
    """A time in the format's form, yymmddHHMMSS; ours are not recorded, so that it only counts steps."""
    return f"000101{index // 3600:02d}{index // 60 % 60:02d}{index % 60:02d}"


def folder_of(root: Path, trajectory: Trajectory) -> Path:
    """Where an episode goes: APP/TASK/PLANNER-RUN."""
    return root / trajectory.app / trajectory.task_id.rpartition("/")[2] / f"{trajectory.planner}-{trajectory.run}"


def write(trajectories: Sequence[Trajectory], root: Path) -> None:
    for trajectory in trajectories:
        folder = folder_of(root, trajectory)
        folder.mkdir(parents=True)
        lines = []
        for index, step in enumerate(trajectory.steps):
            name, size = f"step_{index}@{stamp(index)}.png", decode_image(step.screenshot).size
            (folder / name).write_bytes(step.screenshot)
            codes = [action_code(action, size) for action in step.actions]
            lines.append({"step_index": index, "timestamp": stamp(index), "actions": codes, "screenshot": name})
        (folder / FINAL).write_bytes(trajectory.final_screenshot)
        write_text(folder / "traj.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        write_json(folder / OURS, record_of(trajectory))
        if trajectory.success is not None:  # there is no result of an episode that broke
            write_text(folder / RESULT, str(int(trajectory.success)))


def read(root: Path) -> list[Trajectory]:
    """The finished episodes below a folder, and ours that broke.  UserError names what is not as it should be."""
    found = {path.parent for name in (RESULT, OURS) for path in root.rglob(name)}
    return [_read(folder) for folder in sorted(found)]


def _read(folder: Path) -> Trajectory:
    steps = []
    for number, line in enumerate(read_lines(folder / "traj.jsonl"), 1):
        where = f"{folder / 'traj.jsonl'}, line {number}"
        if not isinstance(line.get("actions"), list) or not isinstance(line.get("screenshot"), str):
            raise UserError(f"{where}: no actions or no screenshot")
        picture = read_picture(folder, line["screenshot"], where)
        actions, error = actions_of(line["actions"], decode_image(picture).size)
        steps.append(Step(picture, "", "\n".join(line["actions"]), actions, error))
    stop, answer = stop_of(steps)
    final = (folder / FINAL).read_bytes() if (folder / FINAL).exists() else steps[-1].screenshot if steps else unseen()
    success = read_result(folder / RESULT)
    task, app = folder.parent.name, folder.parent.parent.name
    read = Trajectory(f"{app}/{task}", app, "", folder.name, 0, tuple(steps), final, stop, answer, success)
    return with_record(read, read_json(folder / OURS) if (folder / OURS).exists() else None)
