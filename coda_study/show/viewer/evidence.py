"""What the viewer shows: episodes, votes and GRPO groups.

Everything is plain data for JSON, but for the pictures, which are kept once each and named by their number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from coda_lib.action import Action
from coda_lib.config import SpecializeSettings
from coda_lib.judge import Rule, read_verdict
from coda_lib.trajectory import DIGEST, Trajectory
from coda_study.evaluation.votes import TRAJECTORY, apply, cast
from coda_study.show.viewer.pictures import Pictures

PREDICATES = {
    "equals": "is", "excludes": "does not contain", "at_least": "is at least",
    "before": "has in this order", "has_row": "has a row",
}  # fmt: skip


FACTS = ("grade", "success", "stop", "steps", "answer", "ending")  # columns of tables of episodes


@dataclass
class Evidence:
    """The content of a page."""

    title: str
    pictures: Pictures = field(default_factory=Pictures)
    about: list[tuple[str, str]] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)  # what the sources do not hold
    labels: dict[str, str] = field(default_factory=dict)  # of systems
    rules: dict[str, list[str]] = field(default_factory=dict)  # of judges, by set of votes: "train" or "mix"
    standard: dict[str, str] = field(default_factory=dict)  # the rule of the profile in each set
    reach: float = SpecializeSettings.model_fields["reach"].default  # of the run's rewards
    tasks: dict[str, dict] = field(default_factory=dict)  # by what episodes have as `asked`: checks, answer
    episodes: list[dict] = field(default_factory=list)
    groups: list[dict] = field(default_factory=list)
    _index: dict[tuple, dict] = field(default_factory=dict, repr=False)

    def add(self, of: str, system: str, row: dict, trajectory: Trajectory | None = None) -> dict:
        """The episode of this set (test, greedy, train, logs) and key, with known facts; new if need be."""
        key = (of, system, row["app"], row["task_id"], int(row["run"]))
        if key not in self._index:
            self._index[key] = dict(zip(("set", "system", "app", "task", "run"), key, strict=True))
            self.episodes.append(self._index[key])
        episode = self._index[key]
        for column in FACTS:
            value = row.get(column)
            if value is not None and value == value:  # NaN: not known
                name = "count" if column == "steps" else column  # `steps` are those that are shown
                episode[name] = bool(value) if column == "success" else value
        if trajectory:
            episode |= self._played(trajectory)
        return episode

    def add_trajectory(self, of: str, system: str, trajectory: Trajectory, stepwise: bool = True) -> dict:
        """As `add`; with its screens, plans and actions, or without."""
        row = {name: getattr(trajectory, name) for name in ("app", "task_id", "run", "success")}
        if not stepwise:
            row |= {"stop": str(trajectory.stop), "steps": len(trajectory.steps), "answer": trajectory.answer}
        episode = self.add(of, system, row, trajectory if stepwise else None)
        episode["instruction"] = trajectory.instruction
        return episode

    def _played(self, t: Trajectory) -> dict[str, Any]:
        steps = []
        for step in t.steps:
            shown = {"picture": self._screen(step.screenshot, t.app), "plan": step.plan, "reply": step.reply}
            error = {"error": step.error} if step.error else {}
            steps.append(shown | {"actions": list(map(plain, step.actions))} | error)
        played = {"instruction": t.instruction, "stop": str(t.stop), "count": len(steps), "steps": steps}
        ended = {"final": self._screen(t.final_screenshot, t.app), "answer": t.answer, "score": t.score}
        return played | {name: value for name, value in ended.items() if name == "final" or value is not None}

    def _screen(self, file: bytes, app: str) -> int | None:
        """The number of a screenshot; None where only its digest is kept."""
        return None if len(file) == DIGEST else self.pictures.add(file, app)

    def add_votes(self, votes: pd.DataFrame, of: str, prefix: str, rules: Sequence[Rule]) -> None:
        """Votes on episodes, columns as of `find_votes`, and each rule's outcome; of = "train" or "mix"."""
        self.rules[of] = [rule.name for rule in rules]
        ballots, columns = cast(votes), ["accepted", "clean", "calls", "small", "valid"]
        outcomes = [apply(rule, ballots)[columns].astype(int).values.tolist() for rule in rules]
        judged = dict(zip(ballots.index, zip(*outcomes, strict=True), strict=True))
        for key, cast_votes in votes.groupby(TRAJECTORY, sort=False):
            row, system = cast_votes.iloc[0].to_dict(), prefix + key[2]
            test = ("test", system, row["app"], row["task_id"], int(row["run"]))
            episode = self.add("test" if test in self._index else "train", system, row)
            episode.setdefault("judged", {})[of] = list(judged[key])
            replies = zip(cast_votes["judge"], cast_votes["reply"], strict=True)
            episode.setdefault("votes", []).extend(vote(of, judge, reply) for judge, reply in replies)


def plain(action: Action) -> dict[str, Any]:
    fields = {name: getattr(action, name) for name in ("x", "y", "x2", "y2", "text", "direction")}
    known = {name: value for name, value in fields.items() if value is not None}
    return {"type": str(action.type), "label": action.type.label} | known


def vote(of: str, judge: str, reply: str) -> dict[str, str]:
    """A vote; it says clean, correct, wrong, or invalid for a reply that is no verdict."""
    verdict, says = read_verdict(reply), "invalid"
    if verdict:
        says = "clean" if verdict.clean else "correct" if verdict.correct else "wrong"
    return {"of": of, "judge": judge, "reply": reply, "says": says}


def condition(item: dict[str, Any]) -> str:
    """An item of a task's check in words.

    >>> stop = {"type": "stop", "value": "ANS", "args": ["3"]}
    >>> condition({"type": "state", "key": "grid", "value": True}), condition(stop)
    ('grid is true', 'ends with ANS: 3')
    """
    if item["type"] == "stop":
        return f"ends with {item['value']}" + (f": {' or '.join(item['args'])}" if item.get("args") else "")
    word = item.get("pred", "equals")
    if word == "absent":
        return f"{item['key']} is absent"
    return f"{item['key']} {PREDICATES.get(word, word)} {json.dumps(item['value'], ensure_ascii=False)}"
