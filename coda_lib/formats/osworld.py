"""OSWorld's result folders: an episode a folder, a line an action with the picture after it, and result.txt at the end."""

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
from coda_lib.formats.scienceboard import OURS, folder_of, stamp
from coda_lib.trajectory import Step, Trajectory, decode_image

RESULT = "result.txt"
FIRST = "step_0.png"  # what was seen before the first action; OSWorld itself does not keep it


def write(trajectories: Sequence[Trajectory], root: Path) -> None:
    for trajectory in trajectories:
        folder = folder_of(root, trajectory)
        folder.mkdir(parents=True)
        lines: list[dict] = []
        shown = [*(step.screenshot for step in trajectory.steps), trajectory.final_screenshot]
        (folder / FIRST).write_bytes(shown[0])
        for index, step in enumerate(trajectory.steps):
            size = decode_image(step.screenshot).size
            for place, code in enumerate([action_code(action, size) for action in step.actions] or [""]):
                last = place >= len(step.actions) - 1  # of a step's actions only the last one's effect was seen
                number = len(lines) + 1
                name = f"step_{number}_{stamp(number)}.png"
                (folder / name).write_bytes(shown[index + last])
                ended = code.partition(" ")[0] in ("DONE", "FAIL", "ANS")
                lines.append(
                    {"step_num": number, "action_timestamp": stamp(number), "action": code, "reward": 0, "done": ended,
                     "info": {"coda_step": index}, "screenshot_file": name}
                )  # fmt: skip
        write_text(folder / "traj.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        write_json(folder / OURS, record_of(trajectory))
        if trajectory.success is not None:
            write_text(folder / RESULT, f"{float(trajectory.success)}\n")


def read(root: Path) -> list[Trajectory]:
    """The finished episodes below a folder, and ours that broke.  UserError names what is not as it should be."""
    found = {path.parent for name in (RESULT, OURS) for path in root.rglob(name)}
    return [_read(folder) for folder in sorted(found)]


def _read(folder: Path) -> Trajectory:
    before = (folder / FIRST).read_bytes() if (folder / FIRST).exists() else unseen()
    steps: list[Step] = []
    groups: list[list[dict]] = []
    for number, line in enumerate(read_lines(folder / "traj.jsonl"), 1):
        if "action" not in line or not isinstance(line.get("screenshot_file"), str):
            raise UserError(f"{folder / 'traj.jsonl'}, line {number}: no action or no screenshot_file")
        index = line["info"].get("coda_step", number) if isinstance(line.get("info"), dict) else number
        if groups and groups[-1][0]["index"] == index:
            groups[-1].append(line | {"index": index})
        else:
            groups.append([line | {"index": index}])
    for group in groups:
        after = read_picture(folder, group[-1]["screenshot_file"], str(folder / "traj.jsonl"))
        codes = [str(line["action"]) for line in group if line["action"]]
        actions, error = actions_of(codes, decode_image(after).size)
        steps.append(Step(before, "", "\n".join(codes), actions, error))
        before = after
    stop, answer = stop_of(steps)
    success = read_result(folder / RESULT)
    task, app = folder.parent.name, folder.parent.parent.name
    read = Trajectory(f"{app}/{task}", app, "", folder.name, 0, tuple(steps), before, stop, answer, success)
    return with_record(read, read_json(folder / OURS) if (folder / OURS).exists() else None)
