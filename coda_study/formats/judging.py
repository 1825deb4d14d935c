"""Judgments of AgentRewardBench's trajectories by a served model, in that benchmark's layout.

Reads `TRAJECTORIES/{benchmark}/{agent}/{experiment}/{task_id}.json` (goal, steps with url, action, reasoning,
screenshot_path), writes `JUDGMENTS/{benchmark}/{agent}/{judge}/{task_id}.json` for `judgments.score`
and the benchmark's own scorer. Existing judgments stay, so that an interrupted run goes on.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from PIL import Image

from coda_lib.errors import UserError
from coda_lib.files import read_json, reading, whole_text, write_json
from coda_lib.models.chat import Message, Sampling
from coda_lib.models.endpoint import EndpointModel, Refused
from coda_lib.prompts import render

SAMPLING = Sampling(temperature=0.0, top_p=1.0, max_new_tokens=1024)  # its own judges answer greedily
SEED = 0
INFO = ("valid", "model", "seed", "summary_info")  # of a trajectory, that a judgment repeats


class TrajectoryError(ValueError):
    """A trajectory file that cannot be judged: it is counted and reported, and the others are judged."""


def judge_folder(
    trajectories: Path,
    judgments: Path,
    model: EndpointModel,
    judge: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Counter[str], list[str]]:
    """Judge every trajectory of a folder; returns counts by outcome, and the problems.

    Outcomes: judged, kept, not valid, refused, unreadable.  A request that the server refuses leaves
    `{task_id}_error.json`, as in the benchmark, and is repeated in the next run.  UserError if there is no
    trajectory, or if the server does not answer; finished judgments stay.
    """
    paths = sorted(trajectories.glob("*/*/**/*.json"))
    if not paths:
        layout = "{benchmark}/{agent}/{experiment}/{task_id}.json"
        raise UserError(f"no trajectories under {trajectories}: expected {layout}")
    counts: Counter[str] = Counter()
    problems: list[str] = []

    def judge_file(path: Path) -> tuple[str, str | None]:
        benchmark, agent = path.relative_to(trajectories).parts[:2]
        target = judgments / benchmark / agent / judge / path.name
        if target.exists():
            return "kept", None
        try:
            trajectory = read_trajectory(path)
            if not trajectory["valid"]:
                return "not valid", None
            messages = question(trajectory, trajectories / benchmark / agent)
        except TrajectoryError as error:
            return "unreadable", f"{path}: {error}"
        decoding = {"temperature": SAMPLING.temperature, "max_tokens": SAMPLING.max_new_tokens, "seed": SEED}
        about = {
            "benchmark": benchmark,
            "goal": trajectory["goal"],
            "agent": agent,
            "judge": judge,
            "judge_model_name": model.name,
            "judge_args": {"use_screenshot": True, "use_axtree": False},
            "completion_args": decoding,
            "trajectory_info": {key: trajectory.get(key) for key in INFO},
        }
        try:
            answer = model.complete(messages, SAMPLING, SEED)
        except Refused as error:
            write_json(target.with_name(f"{path.stem}_error.json"), about | {"error": str(error)})
            return "refused", f"{path}: {error}"
        write_json(target, about | {"cost": answer.get("usage"), "response": answer})
        target.with_name(f"{path.stem}_error.json").unlink(missing_ok=True)
        return "judged", None

    with ThreadPoolExecutor(model.concurrency) as pool:
        try:
            for done, future in enumerate(as_completed([pool.submit(judge_file, path) for path in paths]), 1):
                outcome, problem = future.result()
                counts[outcome] += 1
                problems += [problem] if problem else []
                progress(done, len(paths))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return counts, sorted(problems)


def read_trajectory(path: Path) -> dict[str, Any]:
    """A trajectory file with the fields that a judge needs.  TrajectoryError names missing fields."""
    try:
        trajectory = whole_text(read_json(path))
    except UserError as error:
        raise TrajectoryError(str(error)) from error
    if not isinstance(trajectory, dict):
        raise TrajectoryError("no JSON object")
    if missing := [key for key in ("goal", "valid", "steps") if key not in trajectory]:
        raise TrajectoryError(f"no {', '.join(missing)}")
    steps = trajectory["steps"]
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise TrajectoryError("steps is no list of objects")
    if trajectory["valid"] and not steps:
        raise TrajectoryError("no step")
    return trajectory


def question(trajectory: dict[str, Any], folder: Path) -> list[Message]:
    """The judge's prompt.  TrajectoryError if the last screenshot cannot be read, or is not in `folder`."""
    goal, steps = str(trajectory["goal"]), trajectory["steps"]
    steps = [{key: str(step.get(key) or "") for key in ("url", "action", "reasoning")} for step in steps]
    picture = _screenshot(trajectory["steps"][-1], folder)
    return render("agentrewardbench", "judge", goal=goal, steps=steps, screenshots=[picture])


def _screenshot(step: dict[str, Any], folder: Path) -> Image.Image:
    name = step.get("screenshot_path")
    if not isinstance(name, str) or not name:
        raise TrajectoryError("its last step names no screenshot")
    path = Path(os.path.realpath(folder / name))
    if not path.is_relative_to(os.path.realpath(folder)):
        raise TrajectoryError(f"its screenshot {name!r} is outside {folder}")
    try:
        with reading(path, "picture"), Image.open(path) as picture:
            return picture.convert("RGB")
    except UserError as error:
        raise TrajectoryError(f"its screenshot {name!r} cannot be read ({error})") from error
