"""AgentRewardBench's trajectories: {benchmark}/{agent}/{experiment}/{task}.json, with pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from warnings import warn

from coda_lib.action import ActionError
from coda_lib.errors import UserError
from coda_lib.files import safe_name, write_json
from coda_lib.grammar import action_text, parse_actions
from coda_lib.trajectory import Step, Trajectory, decode_image
from coda_study.formats.judging import TrajectoryError, read_trajectory
from coda_study.formats.parts import Report, read_picture, readable, record_of, trajectory_of, twice, unseen

EXPERIMENT = "coda"


def write(trajectories: Sequence[Trajectory], root: Path) -> None:
    """Application as benchmark, planner and run as agent; the actions are in the grammar of UI-TARS."""
    for trajectory in trajectories:
        task = safe_name(trajectory.task_id.replace("/", "."))
        agent = f"{trajectory.planner}-{trajectory.run}"
        folder = root / safe_name(trajectory.app) / safe_name(agent)
        path = folder / EXPERIMENT / f"{task}.json"
        if path.exists():
            raise twice(trajectory)
        (folder / "screenshots" / task).mkdir(parents=True, exist_ok=True)
        pictures = [*(step.screenshot for step in trajectory.steps), trajectory.final_screenshot]
        names = [f"screenshots/{task}/{index}.png" for index in range(len(pictures))]
        for name, picture in zip(names, pictures, strict=True):
            (folder / name).write_bytes(picture)
        steps = []
        for step, name in zip(trajectory.steps, names, strict=False):
            action = action_text(step.actions, decode_image(step.screenshot).size)
            fields = {"url": "", "action": action, "reasoning": step.plan, "screenshot_path": name}
            steps.append(fields | {"axtree": "", "axtree_pruned": ""})
        reward = float(trajectory.success or 0) if trajectory.score is None else trajectory.score
        content = {
            "benchmark": trajectory.app,
            "agent": agent,
            "model": trajectory.planner,
            "seed": trajectory.run,
            "valid": trajectory.success is not None,
            "goal": trajectory.instruction,
            "summary_info": {"cum_reward": reward},
            "steps": steps,
            "coda": record_of(trajectory) | {"final": names[-1]},
        }
        write_json(path, content)


def read(root: Path, report: Report = warn) -> list[Trajectory]:
    """The trajectories below a folder.  What is no action of ours becomes the reply of a step without one."""
    return readable(sorted(root.glob("*/*/*/*.json")), lambda path: _read(path, path.parent.parent), report)


def _read(path: Path, folder: Path) -> Trajectory:
    try:
        raw = read_trajectory(path)
    except TrajectoryError as error:
        raise UserError(f"{path}: {error}") from error
    steps = [_step(folder, f"{path}, step {number}", step) for number, step in enumerate(raw["steps"])]
    reward = (raw.get("summary_info") or {}).get("cum_reward")
    success = float(reward) > 0.5 if raw["valid"] and isinstance(reward, int | float) else None
    final, record = steps[-1].screenshot if steps else unseen(), raw.get("coda")
    if record:
        final = read_picture(folder, record["final"], str(path))
        record = {name: value for name, value in record.items() if name != "final"}
    benchmark = folder.parent.name
    task_id, goal = f"{benchmark}/{path.stem}", str(raw["goal"])
    return trajectory_of(task_id, benchmark, goal, folder.name, steps, final, success, record or None)


def _step(folder: Path, where: str, step: dict) -> Step:
    name, reply, error = step.get("screenshot_path"), str(step.get("action") or ""), None
    picture = read_picture(folder, name, where) if name else unseen()
    try:
        actions = parse_actions(reply, decode_image(picture).size) if reply else ()
    except ActionError as problem:
        actions, error = (), str(problem)
    return Step(picture, str(step.get("reasoning") or ""), reply, actions, error)
