"""From judged trajectories to training data: rows of states with a labelled positive action a_T."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from datasets import Dataset, Features, Image, List, Value

from coda_lib.action import ActionType
from coda_lib.grammar import action_text
from coda_lib.planner import Observation, Turn, format_plan, planner_messages
from coda_lib.trajectory import Trajectory, decode_image

ENDINGS = {ActionType.DONE, ActionType.FAIL}  # end an episode and say nothing else, as an answer does
# indices (from 0) of the positive steps, as `judge.positive_steps`
Labeller = Callable[[Trajectory], Sequence[int]]

_TURN = {"plan": Value("string"), "action": Value("string")}
_PART = {"type": Value("string"), "text": Value("string")}
_MESSAGES = List({"role": Value("string"), "content": List(_PART)})


def observation(trajectory: Trajectory, index: int) -> Observation:
    """The agent's input at step `index` (from 0) of a trajectory."""
    current = decode_image(trajectory.steps[index].screenshot)
    previous = decode_image(trajectory.steps[index - 1].screenshot) if index else current
    turns = tuple(Turn(s.plan, action_text(s.actions, current.size)) for s in trajectory.steps[:index])
    return Observation(trajectory.instruction, turns, previous, current)


def positives(trajectories: Sequence[Trajectory], label: Labeller) -> Iterator[tuple[Trajectory, int]]:
    """Every labelled positive step as (trajectory, index)."""
    return ((t, index) for t in trajectories for index in label(t))


def grpo_rows(trajectories: Sequence[Trajectory], prompts: str, label: Labeller) -> Dataset:
    """Stage-1 rows (state, instruction, history, screenshots, a_T) in TRL's conversational form with images.

    Columns: prompt (messages with image places), images (o_{t-1}, o_t), target (a_T in the UI-TARS grammar,
    in pixels of o_t), instruction, turns (m_{t-1}), task_id, spread (see `spreads`).
    """
    rows, spread = [], spreads(trajectories, label)
    for trajectory, index in positives(trajectories, label):
        state = observation(trajectory, index)
        rows.append(_prompt(state, prompts) | {
            "target": action_text(trajectory.steps[index].actions, state.current.size),
            "instruction": state.instruction, "turns": [vars(turn) for turn in state.history],
            "task_id": trajectory.task_id, "spread": spread[trajectory.task_id],
        })  # fmt: skip
    names, text = ("target", "instruction", "turns", "task_id", "spread"), Value("string")
    kinds = (text, text, List(_TURN), text, Value("float64"))
    return _dataset(rows, dict(zip(names, kinds, strict=True)))


def spreads(trajectories: Sequence[Trajectory], label: Labeller) -> dict[str, float]:
    """For each task the standard deviation over runs of having a labelled step; none is quite 0.

    A task that exploration always solves, or hardly ever, teaches GRPO little: its plans earn the same.

    >>> from dataclasses import replace
    >>> from coda_lib.trajectory import StopReason
    >>> run = Trajectory("A-01", "algebra", "turn the grid on", "base", 0, (), b"", StopReason.DONE)
    >>> runs = [replace(run, run=number) for number in range(4)]
    >>> spreads(runs, lambda trajectory: [0] * (trajectory.run < 2))
    {'A-01': 0.5}
    """
    solved: dict[str, list[bool]] = {}
    for trajectory in trajectories:
        solved.setdefault(trajectory.task_id, []).append(bool(label(trajectory)))
    shares = {task: (sum(runs) + 0.5) / (len(runs) + 1) for task, runs in solved.items()}
    return {task: (share * (1 - share)) ** 0.5 for task, share in shares.items()}


def draw_states(rows: Dataset, count: int, how: str, seed: int, endings: float = 1.0) -> Dataset:
    """`count` rows: in shuffled `passes` over all of them, or each by chance in proportion to its `spread`.

    At most a share `endings` are of states whose right plan ends the episode, as far as there are others;
    then all rows are drawn by chance.  TRL's own sampler drops the rows of an incomplete batch (all of them,
    if they are few) and restarts in a resumed run.
    """
    draw = random.Random(seed)
    weights = np.array(rows["spread"] if how == "spread" else [1.0] * len(rows))
    written = tuple(f"{kind}(" for kind in ENDINGS)
    ends = np.array(
        [target.startswith(written) for target in (rows["target"] if endings < 1 else [""] * len(rows))]
    )
    too_many = 0 < ends.sum() < len(rows) and weights[ends].sum() > endings * weights.sum()
    if too_many:
        weights[ends] *= endings / (1 - endings) * weights[~ends].sum() / weights[ends].sum()
    if how == "spread" or too_many:
        return rows.select(draw.choices(range(len(rows)), weights.tolist(), k=count))
    passes = (draw.sample(range(len(rows)), len(rows)) for _ in range(count // len(rows) + 1))
    return rows.select([row for order in passes for row in order][:count])


def sft_rows(
    trajectories: Sequence[Trajectory], prompts: str, label: Labeller, endings: float = 1.0, seed: int = 0
) -> Dataset:  # fmt: skip
    """Stage-2 rows: prompt, images and completion, the plan of a positive step.

    At most a share `endings` are of states whose right plan ends the episode: which of them is drawn by
    chance, as far as there are others.
    """
    chosen, rows = list(positives(trajectories, label)), []
    ends = [not ENDINGS.isdisjoint(action.type for action in t.steps[index].actions) for t, index in chosen]
    others = ends.count(False)
    if others and sum(ends) > endings * len(ends):
        most = int(endings / (1 - endings) * others)
        kept = {*random.Random(seed).sample([i for i, end in enumerate(ends) if end], most)}
        chosen = [one for i, one in enumerate(chosen) if not ends[i] or i in kept]
    for trajectory, index in chosen:
        plan = format_plan(trajectory.steps[index].plan, prompts)
        completion = [{"role": "assistant", "content": [{"type": "text", "text": plan}]}]
        rows.append(_prompt(observation(trajectory, index), prompts) | {"completion": completion})
    return _dataset(rows, {"completion": _MESSAGES})


def _prompt(state: Observation, prompts: str) -> dict[str, Any]:
    """Messages with places for the images, and the images beside them: the form that TRL expects."""
    messages, pictures = [], []
    for message in planner_messages(state, prompts):
        pictures += [part["image"] for part in message["content"] if part["type"] == "image"]
        content = [{"type": part["type"], "text": part.get("text")} for part in message["content"]]
        messages.append({"role": message["role"], "content": content})
    return {"prompt": messages, "images": pictures}


def _dataset(rows: list[dict[str, Any]], extra: dict[str, Any]) -> Dataset:
    features = Features({"prompt": _MESSAGES, "images": List(Image())} | extra)
    columns = {name: [row[name] for row in rows] for name in features}
    return Dataset.from_dict(columns, features=features)
