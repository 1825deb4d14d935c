"""Log folders of ScienceBoard (MODEL/APP/TASK) and OSWorld (ACTIONS/OBSERVATION/MODEL/DOMAIN/TASK).

A line of ScienceBoard's traj.jsonl is a step, with the picture before it; the result is in result.out.  A
line of OSWorld's is an action, with the picture after it; the result is in result.txt.  SEAgent's is
OSWorld's with the picture before it as well.  The model is the planner with the number of its run, so that
OSWorld's show_result.py tells runs apart.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any
from warnings import warn

from coda_lib.errors import UserError
from coda_lib.files import read_json, reading, safe_name, whole_text, write_json, write_text
from coda_lib.trajectory import Step, Trajectory, decode_image
from coda_study.formats.code import action_code
from coda_study.formats.parts import (
    Report,
    actions_of,
    are_fractions,
    points_of,
    read_lines,
    read_picture,
    read_result,
    readable,
    record_of,
    trajectory_of,
    twice,
    unseen,
    without_points,
)
from sciencedesk.pyautogui import code_of

SCIENCEBOARD, OSWORLD = "result.out", "result.txt"
OURS = "coda.json"  # what the formats have no place for
AFTER, BEFORE = "screenshot_file", "screenshot_file_before_exec"  # of a line: OSWorld's, and SEAgent's
SCREEN, SEEN = "screenshot", ("screenshot", "a11y_tree", "textual")  # of a line of ScienceBoard's
FINAL = "final.png"  # the last picture, which ScienceBoard itself does not keep
SEAGENTS = "step_*_final.png"  # SEAgent's last picture
SPACES = ("pyautogui", "screenshot")  # OSWorld's action space and observation
FIRST = "step_0.png"  # what was seen before the first action, which OSWorld itself does not keep
# OSWorld's action space computer_13: functions of pyautogui, and names of parameters that differ
COMPUTER_13 = {
    "MOVE_TO": "moveTo", "CLICK": "click", "RIGHT_CLICK": "rightClick", "DOUBLE_CLICK": "doubleClick",
    "MOUSE_DOWN": "mouseDown", "MOUSE_UP": "mouseUp", "DRAG_TO": "dragTo", "TYPING": "write",
    "PRESS": "press", "KEY_DOWN": "keyDown", "KEY_UP": "keyUp", "HOTKEY": "hotkey", "SCROLL": "scroll",
}  # fmt: skip
PARAMETERS = {"num_clicks": "clicks", "text": "message", "dy": "clicks"}


def _stamp(index: int) -> str:
    """A time in the formats' form, yymmddHHMMSS; ours are not recorded, so that it only counts lines."""
    return f"000101{index // 3600:02d}{index // 60 % 60:02d}{index % 60:02d}"


def _new_folder(root: Path, trajectory: Trajectory) -> Path:
    names = (f"{trajectory.planner}-{trajectory.run}", trajectory.app, trajectory.task_id.rpartition("/")[2])
    folder = root.joinpath(*map(safe_name, names))
    if folder.exists():
        raise twice(trajectory)
    folder.mkdir(parents=True)
    return folder


def _write(folder: Path, trajectory: Trajectory, lines: Sequence[dict], result: str, form: str) -> None:
    write_text(folder / "traj.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    write_json(folder / OURS, record_of(trajectory))
    if trajectory.success is not None:  # there is no result of an episode that broke
        score = trajectory.score
        write_text(folder / result, form.format(trajectory.success) if score is None else str(score))


def _folders(root: Path, result: str) -> list[Path]:
    """The finished episodes below a folder, and ours that broke."""
    return sorted({path.parent for name in (result, OURS) for path in root.rglob(name)})


def _lines(folder: Path) -> list[tuple[int, dict]]:
    """The numbered lines of steps; a runner adds {"Error": ...} after an exception, also of its recording."""
    lines = enumerate(read_lines(folder / "traj.jsonl"), 1)
    return [(number, line) for number, line in lines if set(line) != {"Error"}]


def _logs_of_fractions(folders: Sequence[Path], codes: Callable[[dict], Any], report: Report) -> set[Path]:
    """The episodes of models whose points are all fractions of the screen; pixels are told by the whole log.

    Some grounders log code without the prefix that scales its points (ScienceBoard, sci/base/prompt.py).
    """
    found: dict[Path, list[float]] = {}
    for folder in folders:
        with suppress(UserError):  # said when the episode is read
            texts = [
                code for _, line in _lines(folder) for code in codes(line) or () if isinstance(code, str)
            ]
            found.setdefault(folder.parent.parent, []).extend(points_of(texts))
    for model, numbers in found.items():
        small = sum(0 < number < 1 for number in numbers)
        if small and not are_fractions(numbers):
            report(
                f"{model}: {small} of {len(numbers)} coordinates look like fractions; all are read as pixels"
            )
    return {folder for folder in folders if are_fractions(found.get(folder.parent.parent, []))}


def _picture_or(default: bytes, folder: Path, name: str) -> bytes:
    return read_picture(folder, name, str(folder)) if os.path.lexists(folder / name) else default


def _read(folder: Path, steps: Sequence[Step], final: bytes, result: str) -> Trajectory:
    names, number = folder.resolve().parts, 0
    if any(folder.glob(SEAGENTS)):  # .../MODEL/DOMAIN/INIT/RUN
        names, number = names[:-1], int(names[-1]) if names[-1].isdecimal() else 0
    model, app, task = ("", "", *names)[-3:]
    known = (f"{app}/{task}", app, "", model, steps, final, read_result(folder / result))
    ours = folder / OURS
    if not os.path.lexists(ours):
        return replace(trajectory_of(*known, None), run=number)
    with reading(ours, "trajectory"):
        return trajectory_of(*known, whole_text(read_json(ours)))


# ---- ScienceBoard ------------------------------------------------------------------------------------------


def write_scienceboard(trajectories: Sequence[Trajectory], root: Path) -> None:
    for trajectory in trajectories:
        folder, lines = _new_folder(root, trajectory), []
        for index, step in enumerate(trajectory.steps):
            stamp, size = _stamp(index), decode_image(step.screenshot).size
            name = f"step_{index}@{stamp}.png"
            (folder / name).write_bytes(step.screenshot)
            codes = [action_code(action, size) for action in step.actions]
            lines.append({"step_index": index, "timestamp": stamp, "actions": codes, "screenshot": name})
        (folder / FINAL).write_bytes(trajectory.final_screenshot)
        _write(folder, trajectory, lines, SCIENCEBOARD, "{:d}")


def read_scienceboard(root: Path, report: Report = warn) -> list[Trajectory]:
    """The finished episodes below a folder, and ours that broke; what cannot be read is reported."""
    folders = _folders(root, SCIENCEBOARD)
    fractions = _logs_of_fractions(folders, lambda line: line.get("actions"), report)
    return readable(folders, lambda folder: _read_scienceboard(folder, folder in fractions), report)


def _read_scienceboard(folder: Path, fractions: bool) -> Trajectory:
    steps = []
    for number, line in _lines(folder):
        where = f"{folder / 'traj.jsonl'}, line {number}"
        codes, screen = line.get("actions"), line.get(SCREEN)
        if not isinstance(codes, list) or not any(isinstance(line.get(name), str) for name in SEEN):
            raise UserError(f"{where}: no actions, or none of {', '.join(SEEN)}")
        if isinstance(screen, str):
            picture = read_picture(folder, screen, where)
            actions, error = actions_of(codes, (1, 1) if fractions else decode_image(picture).size)
        else:  # an agent with the accessibility tree alone: its points are on a screen of unknown size
            picture, (actions, error) = unseen(), without_points(codes)
        steps.append(Step(picture, "", "\n".join(codes), actions, error))
    final = _picture_or(steps[-1].screenshot if steps else unseen(), folder, FINAL)
    return _read(folder, steps, final, SCIENCEBOARD)


# ---- OSWorld -----------------------------------------------------------------------------------------------


def write_osworld(trajectories: Sequence[Trajectory], root: Path) -> None:
    for trajectory in trajectories:
        folder, lines = _new_folder(root.joinpath(*SPACES), trajectory), []
        screenshots = [*(step.screenshot for step in trajectory.steps), trajectory.final_screenshot]
        (folder / FIRST).write_bytes(screenshots[0])
        for index, step in enumerate(trajectory.steps):
            size = decode_image(step.screenshot).size
            codes = [action_code(action, size) for action in step.actions] or [""]
            for position, code in enumerate(codes, 1):
                number = len(lines) + 1
                stamp, ended = _stamp(number), code.partition(" ")[0] in ("DONE", "FAIL", "ANS")
                name = f"step_{number}_{stamp}.png"
                # of a step's actions only the last one's effect was seen
                (folder / name).write_bytes(screenshots[index + (position == len(codes))])
                line = {"step_num": number, "action_timestamp": stamp, "action": code, "reward": 0}
                lines.append(line | {"done": ended, "info": {"coda_step": index}, "screenshot_file": name})
        _write(folder, trajectory, lines, OSWORLD, "{:.1f}\n")


def read_osworld(root: Path, report: Report = warn) -> list[Trajectory]:
    """The finished episodes below a folder, and ours that broke; what cannot be read is reported."""
    folders = _folders(root, OSWORLD)
    fractions = _logs_of_fractions(folders, lambda line: [_code(line.get("action"))], report)
    return readable(folders, lambda folder: _read_osworld(folder, folder in fractions), report)


def _code(action: Any) -> str:
    """The code of an action: itself, the command of a call of a tool, or the call that computer_13 means."""
    if not isinstance(action, dict):
        return str(action or "")
    if isinstance(action.get("command"), str):
        return action["command"]
    kind, given = str(action.get("action_type")), action.get("parameters") or {}
    if kind not in COMPUTER_13 or not isinstance(given, dict):
        return kind  # WAIT, DONE, FAIL, or what is no action
    name = COMPUTER_13[kind]
    if kind == "SCROLL" and not given.get("dy"):
        name, given = "hscroll", {"clicks": given.get("dx")}
    return code_of([(name, (), {PARAMETERS.get(key, key): value for key, value in given.items()})])


def _read_osworld(folder: Path, fractions: bool) -> Trajectory:
    path, steps = folder / "traj.jsonl", []
    before = _picture_or(unseen(), folder, FIRST)
    numbered = _lines(folder)
    for number, line in numbered:
        if "action" not in line or not any(isinstance(line.get(name), str) for name in (AFTER, BEFORE)):
            raise UserError(f"{path}, line {number}: no action or no screenshot_file")
    for _, group in groupby(numbered, key=_step_number):
        lines = [line for _, line in group]
        before = read_picture(folder, lines[0][BEFORE], str(path)) if lines[0].get(BEFORE) else before
        after = read_picture(folder, lines[-1][AFTER], str(path)) if lines[-1].get(AFTER) else before
        codes = [_code(line["action"]) for line in lines if line["action"]]
        actions, error = actions_of(codes, (1, 1) if fractions else decode_image(after).size)
        steps.append(Step(before, "", "\n".join(codes), actions, error))
        before = after
    last = sorted(folder.glob(SEAGENTS), key=lambda path: (len(path.name), path.name))
    return _read(folder, steps, read_picture(folder, last[-1].name, str(path)) if last else before, OSWORLD)


def _step_number(numbered: tuple[int, dict]) -> int:
    """The step of a line: in files of others each line is one."""
    number, line = numbered
    return line["info"].get("coda_step", number) if isinstance(line.get("info"), dict) else number
