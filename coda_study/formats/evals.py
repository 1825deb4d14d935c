"""Trajectories as a log of Inspect (UK AI Security Institute): one `.eval` file, which `inspect view` opens.

Inspect's own library writes it.  The file is only written: it has no place for an action's type and point.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coda_lib.errors import UserError
from coda_lib.grammar import action_text
from coda_lib.judge import read_verdict
from coda_lib.trajectory import Trajectory
from coda_study.formats.parts import twice

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample

PACKAGE = "inspect_ai==0.3.285"
OUTCOMES = {True: "C", False: "I", None: "N"}  # Inspect's words for correct, incorrect, no answer


def write(trajectories: Sequence[Trajectory], path: Path) -> None:
    """Write the episodes of one planner, each a sample with its run as epoch; screenshots are in the file.

    Scorers: `check` is the environment's own, `judge` the first vote of the judge, where there is one.
    UserError without Inspect's library, for several planners, and for an episode that is there twice.
    """
    try:
        from inspect_ai.log import write_eval_log
    except ImportError as error:
        fault = "--to inspect needs Inspect's library, which writes its logs"
        raise UserError(f"{fault}: pip install {PACKAGE}") from error
    if len(planners := sorted({trajectory.planner for trajectory in trajectories})) != 1:
        found = f"here are {len(planners)} ({', '.join(planners)})"
        raise UserError(f"an Inspect log is of one planner, {found}: convert them apart")
    episodes: dict[tuple[str, int], Trajectory] = {}
    for trajectory in trajectories:
        if episodes.setdefault((trajectory.task_id, trajectory.run), trajectory) is not trajectory:
            raise twice(trajectory)
    write_eval_log(_log(planners[0], trajectories), str(path), format="eval")


def _log(planner: str, trajectories: Sequence[Trajectory]) -> EvalLog:
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalMetric, EvalResults, EvalScore, EvalSpec

    apps = sorted({trajectory.app for trajectory in trajectories})
    tasks = sorted({trajectory.task_id for trajectory in trajectories})
    runs = 1 + max(trajectory.run for trajectory in trajectories)
    checked = [trajectory.success for trajectory in trajectories if trajectory.success is not None]
    spec = EvalSpec(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        task="+".join(apps),
        model=f"coda/{planner}",
        dataset=EvalDataset(name="+".join(apps), samples=len(tasks), sample_ids=tasks),
        config=EvalConfig(epochs=runs),
    )
    metrics = {"accuracy": EvalMetric(name="accuracy", value=sum(checked) / len(checked))} if checked else {}
    scores = [EvalScore(name="check", scorer="check", metrics=metrics)]
    results = EvalResults(total_samples=len(trajectories), completed_samples=len(trajectories), scores=scores)
    samples = [_sample(planner, trajectory) for trajectory in trajectories]
    return EvalLog(status="success", eval=spec, results=results, samples=samples)


def _sample(planner: str, trajectory: Trajectory) -> EvalSample:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ContentImage, ContentText
    from inspect_ai.scorer import Score

    def screen(png: bytes, text: str) -> ChatMessageUser:
        picture = ContentImage(image=f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}")
        return ChatMessageUser(content=[picture, ContentText(text=text)])

    messages: list[Any] = []
    for number, step in enumerate(trajectory.steps, 1):
        messages.append(screen(step.screenshot, f"Step {number}" if number > 1 else trajectory.instruction))
        action = action_text(step.actions, step.image.size) if step.actions else f"no action: {step.error}"
        messages.append(ChatMessageAssistant(content=f"{step.plan}\n\n{action}", model=f"coda/{planner}"))
    messages.append(screen(trajectory.final_screenshot, f"The end: {trajectory.stop}"))
    scores = {"check": Score(value=OUTCOMES[trajectory.success], answer=trajectory.answer)}
    for vote in trajectory.verdicts[:1]:
        verdict = read_verdict(vote)
        scores["judge"] = Score(value=OUTCOMES[verdict and verdict.correct], explanation=vote)
    return EvalSample(
        id=trajectory.task_id,
        epoch=trajectory.run + 1,
        input=trajectory.instruction,
        target="solved",
        messages=messages,
        scores=scores,
        metadata={"app": trajectory.app, "stop": str(trajectory.stop), "verdicts": list(trajectory.verdicts)},
    )
