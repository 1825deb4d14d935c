"""What the formats share; what they have no place for is kept beside them, so that ours come back whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from math import isfinite, nan
from pathlib import Path
from typing import Any

from PIL import Image

from coda_lib.action import Action, ActionError
from coda_lib.environment import STOPS
from coda_lib.errors import UserError
from coda_lib.files import read_text, reading, whole_text
from coda_lib.trajectory import Step, StopReason, Trajectory, decode_image, encode_image
from coda_study.formats.code import Size, read_code

_ANY_SIZE = (2**31, 2**31)  # px: no point is off a screen of that size
Report = Callable[[str], object]  # is told what is left out or in doubt
UNREAD = "not converted: "  # begins the error of a step whose code is no action of ours


def record_of(trajectory: Trajectory) -> dict[str, Any]:
    """All of a trajectory but pictures and actions."""
    names = ("task_id", "app", "instruction", "planner", "run", "answer", "success", "score")
    record = {name: getattr(trajectory, name) for name in names}
    steps = [{"plan": step.plan, "reply": step.reply, "error": step.error} for step in trajectory.steps]
    return record | {"stop": str(trajectory.stop), "verdicts": list(trajectory.verdicts), "steps": steps}


def readable(sources: Iterable[Any], read: Callable[[Any], Trajectory], report: Report) -> list[Trajectory]:
    """What `read` makes of each source; what it cannot read is reported and left out.

    UserError, the first one, if nothing can be read.
    """
    found, faults = [], []
    for source in sources:
        try:
            found.append(read(source))
        except UserError as fault:
            faults.append(fault)
    if faults and not found:
        raise faults[0]
    for fault in faults:
        report(f"left out: {fault}")
    return found


def twice(trajectory: Trajectory) -> UserError:
    """The error of two trajectories that would be written to the same place."""
    episode = f"run {trajectory.run} of {trajectory.task_id} by {trajectory.planner}"
    reason = f"is there twice, or another task has its name in {trajectory.app}"
    return UserError(f"{episode} {reason}: convert them apart")


def trajectory_of(
    task_id: str,
    app: str,
    instruction: str,
    planner: str,
    steps: Sequence[Step],
    final: bytes,
    result: float | None,
    record: dict[str, Any] | None,
) -> Trajectory:
    """A trajectory that was read; its last action says how it ended.  `record` is that of `record_of`."""
    success, score = None if result is None else result >= 1, None if result in (None, 0, 1) else result
    last = steps[-1].actions[-1] if steps and steps[-1].actions else None
    stop = STOPS.get(last.type) if last else None
    answer, stop = last.text if stop else None, stop or StopReason.STEP_LIMIT
    trajectory = Trajectory(
        task_id, app, instruction, planner, 0, tuple(steps), final, stop, answer, success, (), score
    )
    if record is None:
        return trajectory
    steps = tuple(replace(step, **texts) for step, texts in zip(steps, record["steps"], strict=True))
    stop, verdicts = StopReason(record["stop"]), tuple(record["verdicts"])
    return replace(trajectory, **record | {"steps": steps, "stop": stop, "verdicts": verdicts})


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file.  UserError names file and line."""
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            rows.append(whole_text(json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, line {number}: no JSON ({error})") from error
        if not isinstance(rows[-1], dict):
            raise UserError(f"{path}, line {number}: no JSON object")
    return rows


def read_picture(folder: Path, name: Any, where: str) -> bytes:
    """A picture inside `folder`.  UserError names it if it is elsewhere, not there, or no picture."""
    path = Path(os.path.realpath(folder / str(name)))
    if not path.is_relative_to(os.path.realpath(folder)) or not path.is_file():
        raise UserError(f"{where}: there is no picture {str(name)!r} in {folder}")
    with reading(path, "picture"):
        decode_image(content := path.read_bytes())
    return content


def read_result(path: Path) -> float | None:
    """The score in a file, such as 0, 1 or 0.5; None if there is none.  UserError if it holds no number."""
    if not os.path.lexists(path):
        return None
    text = read_text(path).strip()
    try:
        result = float(text)
    except ValueError:
        result = nan
    if not isfinite(result):
        raise UserError(f"{path}: {text[:40]!r} is no result")
    return result


def unseen() -> bytes:
    """The black picture that stands for one that was not recorded."""
    return encode_image(Image.new("RGB", (1, 1)))


def actions_of(codes: list[str], size: Size) -> tuple[tuple[Action, ...], str | None]:
    """The actions of pieces of code, and what is wrong with the first that is none."""
    actions: list[Action] = []
    for code in codes:
        try:
            actions += read_code(code, size)
        except ActionError as error:
            return tuple(actions), f"{UNREAD}{error}"
    return tuple(actions), None


def points_of(codes: Iterable[str]) -> list[float]:
    """The coordinates in pieces of code as they are written there."""
    actions = [action for code in codes for action in actions_of([code], _ANY_SIZE)[0]]
    numbers = (getattr(action, name) for action in actions for name in ("x", "y", "x2", "y2"))
    return [number * _ANY_SIZE[0] for number in numbers if number is not None]


def are_fractions(numbers: Sequence[float]) -> bool:
    """Whether the coordinates of a whole log are fractions of the screen, as some grounders write them."""
    return any(0 < number < 1 for number in numbers) and max(numbers) <= 1


def without_points(codes: list[str]) -> tuple[tuple[Action, ...], str | None]:
    """`actions_of` where no screen was recorded: what has a point is not converted."""
    actions, error = actions_of(codes, _ANY_SIZE)
    pointless = tuple(takewhile(lambda action: action.x is None, actions))
    if len(pointless) < len(actions):
        error = f"{UNREAD}a point on a screen that was not recorded"
    return pointless, error
