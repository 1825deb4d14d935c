"""AgentNet's demonstrations (OpenCUA): a task in each line, and a folder of its pictures.

Coordinates are fractions of the screen.  `task_completed` is a model's opinion and not a check, so `success`
stays unknown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from warnings import warn

from coda_lib.errors import UserError
from coda_lib.trajectory import Step, Trajectory
from coda_study.formats.parts import (
    Report,
    actions_of,
    read_lines,
    read_picture,
    readable,
    trajectory_of,
    unseen,
)

NAME = "agentnet"  # stands for application and, with 'human', for the planner
FRACTIONS = (1, 1)  # the size of a screen on which a point is a fraction
PICTURES = "images"  # folder beside the lines, where the pictures are not beside them


def fits(source: Path) -> bool:
    """Whether a folder holds such files: JSON Lines whose first object has a list `traj`."""
    return any(_begins_like_one(path) for path in source.glob("*.jsonl"))


def _begins_like_one(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        try:
            first = json.loads(file.readline())
        except (ValueError, RecursionError):
            return False
    return isinstance(first, dict) and isinstance(first.get("traj"), list)


def read(source: Path, report: Report = warn) -> list[Trajectory]:
    """The demonstrations of all files in a folder; file, line and step of a fault are reported."""
    paths = [path for path in sorted(source.glob("*.jsonl")) if _begins_like_one(path)]
    lines = [
        (path, f"{path}, line {number}", line)
        for path in paths for number, line in enumerate(read_lines(path), 1)
    ]  # fmt: skip
    return readable(lines, lambda known: _read(*known), report)


def _read(path: Path, where: str, line: dict[str, Any]) -> Trajectory:
    kinds = {"traj": list, "task_id": str, "instruction": str}
    if not all(isinstance(line.get(name), kind) for name, kind in kinds.items()):
        raise UserError(f"{where}: no traj, no task_id or no instruction")
    pictures = path.parent / PICTURES if (path.parent / PICTURES).is_dir() else path.parent
    steps = [_step(pictures, f"{where}, step {number}", step) for number, step in enumerate(line["traj"])]
    final = steps[-1].screenshot if steps else unseen()  # nothing was kept after the last action
    task_id, instruction = f"{NAME}/{line['task_id']}", line["instruction"]
    return trajectory_of(task_id, NAME, instruction, "human", steps, final, None, None)


def _step(pictures: Path, where: str, step: Any) -> Step:
    value = step.get("value") if isinstance(step, dict) else None
    if not isinstance(value, dict) or not isinstance(value.get("code"), str):
        raise UserError(f"{where}: no value with code")
    screenshot = read_picture(pictures, step.get("image"), where)
    actions, error = actions_of([value["code"]], FRACTIONS)
    plan = "\n".join(str(value[name]) for name in ("thought", "action") if value.get(name))
    return Step(screenshot, plan, value["code"], actions, error)
