"""A page that shows an episode while it is played: open it in a browser, it loads itself again."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from coda_lib.agent import Agent, Decision
from coda_lib.files import write_text
from coda_lib.planner import Observation
from coda_lib.task import Task
from coda_lib.trajectory import Step, Trajectory, screenshot_png
from coda_study.show.film import film, frame

AGAIN_S = 1  # seconds after which the page loads itself again


@dataclass
class Watched:
    """An agent whose one episode at `task` is shown at `page` as it decides."""

    agent: Agent
    task: Task
    page: Path
    steps: list[Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.agent.name

    def decide(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        (state,) = observations
        if state.previous is state.current:  # the episode begins, perhaps again after a fault
            self.steps.clear()
        decisions = self.agent.decide(observations, seed)
        (decision,), screen = decisions, screenshot_png(state.current)
        plan = decision.plan or decision.reply
        self.steps.append(Step(screen, plan, decision.reply, decision.actions, decision.error))
        episode = Trajectory(
            self.task.id, self.task.app, state.instruction, self.name, 0, tuple(self.steps), screen, None
        )  # fmt: skip
        shown = frame({self.name: episode}, len(self.steps) - 1)
        self._write("png", screenshot_png(shown), f'<meta http-equiv="refresh" content="{AGAIN_S}">')
        return decisions

    def end(self, episode: Trajectory) -> None:
        """Show the whole episode as a recording; the page no longer loads itself again."""
        self._write("webp", film({self.name: episode}), "")

    def _write(self, kind: str, picture: bytes, head: str) -> None:
        plans = "".join(f"<li>{escape(step.plan)}</li>" for step in self.steps)
        data = base64.b64encode(picture).decode()
        write_text(self.page, f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">{head}<title>{escape(self.task.id)}</title></head>
<body><h1>{escape(self.task.id)}</h1><p>{escape(self.task.instruction)}</p>
<img alt="the newest step" src="data:image/{kind};base64,{data}"><ol>{plans}</ol></body></html>
""")  # fmt: skip
