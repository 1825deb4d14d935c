"""AgentRewardBench's trajectories: {benchmark}/{agent}/{experiment}/{task}.json, with pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coda_lib.action import ActionError
from coda_lib.errors import UserError
from coda_lib.files import safe_name, write_json
from coda_lib.grammar import action_text, parse_actions
from coda_lib.trajectory import Step, Trajectory, decode_image
from coda_study.formats.judging import TrajectoryError, read_trajectory
from coda_study.formats.parts import read_picture, record_of, trajectory_of, twice, unseen

EXPERIMENT = "coda"


def write(trajectories: Sequence[Trajectory], root: Path) -> None:
    """Application as benchmark, planner and run as agent; the actions are in the grammar of UI-TARS."""
    for trajectory in trajectories:
        task, agent = (
            safe_name(trajectory.task_id.replace("/", ".")),
            f"{trajectory.planner}-{trajectory.run}",
        )
        score = trajectory.score
        folder = root / safe_name(trajectory.app) / safe_name(agent)
        if (folder / EXPERIMENT / f"{task}.json").exists():
            raise twice(trajectory)
        pictures = [*(step.screenshot for step in trajectory.steps), trajectory.final_screenshot]
        names = [f"screenshots/{task}/{index}.png" for index in range(len(pictures))]
        for name, picture in zip(names, pictures, strict=True):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(picture)
        steps = [
            {
                "url": "",
                "action": action_text(step.actions, decode_image(step.screenshot).size),
                "reasoning": step.plan,
                "screenshot_path": name,
                "axtree": "",
                "axtree_pruned": "",
            }
            for step, name in zip(trajectory.steps, names, strict=False)
        ]
        write_json(
            folder / EXPERIMENT / f"{task}.json",
            {
                "benchmark": trajectory.app,
                "agent": agent,
                "model": trajectory.planner,
                "seed": trajectory.run,
                "valid": trajectory.success is not None,
                "goal": trajectory.instruction,
                "summary_info": {"cum_reward": float(trajectory.success or 0) if score is None else score},
                "steps": steps,
                "coda": record_of(trajectory) | {"final": names[-1]},
            },
        )


def read(root: Path) -> list[Trajectory]:
    """The trajectories below a folder.  What is no action of ours becomes the reply of a step without one."""
    return [_read(path, path.parent.parent) for path in sorted(root.glob("*/*/*/*.json"))]


def _read(path: Path, folder: Path) -> Trajectory:
    try:
        raw = read_trajectory(path)
    except TrajectoryError as error:
        raise UserError(f"{path}: {error}") from error
    steps = []
    for number, step in enumerate(raw["steps"]):
        where = f"{path}, step {number}"
        picture = (
            read_picture(folder, step["screenshot_path"], where) if step.get("screenshot_path") else unseen()
        )
        said, error = str(step.get("action") or ""), None
        try:
            actions = parse_actions(said, decode_image(picture).size) if said else ()
        except ActionError as problem:
            actions, error = (), str(problem)
        steps.append(Step(picture, str(step.get("reasoning") or ""), said, actions, error))
    reward = (raw.get("summary_info") or {}).get("cum_reward")
    success = float(reward) > 0.5 if raw["valid"] and isinstance(reward, int | float) else None
    ours = raw.get("coda")
    final = (
        read_picture(folder, ours["final"], str(path))
        if ours
        else steps[-1].screenshot
        if steps
        else unseen()
    )
    benchmark = folder.parent.name
    record = {name: value for name, value in ours.items() if name != "final"} if ours else None
    return trajectory_of(
        f"{benchmark}/{path.stem}", benchmark, str(raw["goal"]), folder.name, steps, final, success, record
    )
