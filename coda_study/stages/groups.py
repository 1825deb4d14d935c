"""GRPO groups of a training, kept to be looked at: plans for one state, the actions for them, the rewards.

A row is a group: step (from 1), instruction, history (plans), previous and picture (PNG), target (actions),
and plans, each with plan, reply, error, reward and actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coda_lib.action import Action
from coda_lib.config import SpecializeSettings
from coda_lib.executor import Executor
from coda_lib.files import atomic_path
from coda_lib.grammar import parse_actions
from coda_lib.trainer import ActionReward, together
from coda_lib.trajectory import screenshot_png

MOMENTS, EACH = 5, 2  # optimizer steps of a training that are looked at, and groups kept of each


class KeepingReward(ActionReward):
    """`ActionReward` that also writes the most varied groups of some optimizer steps to files in `folder`.

    Rewards and random numbers are those of `ActionReward`.  A file of before a kill stays.
    """

    def __init__(self, executor: Executor, seed: int, settings: SpecializeSettings, folder: Path):
        super().__init__(executor, seed, settings)
        self.folder, self.size = folder, settings.group_size
        self.moments = {int(step) for step in np.linspace(0, settings.steps - 1, MOMENTS)}

    def carry_out(self, *args: Any, trainer_state: Any, **kwargs: Any) -> Any:
        states, decisions, earned = carried = super().carry_out(*args, trainer_state=trainer_state, **kwargs)
        step = trainer_state.global_step
        path = self.folder / f"{step + 1:05d}.parquet"
        whole = len(states) % self.size == 0  # one of several processes may hold a part of a group
        if step not in self.moments or path.exists() or not whole or together().process_index:
            return carried
        groups = []
        varied = sorted(range(0, len(states), self.size), key=lambda i: -np.std(earned[i : i + self.size]))
        for start in varied[:EACH]:
            state, members = states[start], slice(start, start + self.size)
            plans = [
                vars(decision) | {"reward": float(reward), "actions": _records(decision.actions)}
                for decision, reward in zip(decisions[members], earned[members], strict=True)
            ]
            target = parse_actions(kwargs["target"][start], state.current.size)
            history = [turn.plan for turn in state.history]
            pictures = {"previous": screenshot_png(state.previous), "picture": screenshot_png(state.current)}
            group = {"step": step + 1, "instruction": state.instruction, "history": history, **pictures}
            groups.append(group | {"target": _records(target), "plans": plans})
        with atomic_path(path) as temporary:
            pq.write_table(pa.Table.from_pylist(groups, _SCHEMA), temporary, compression="zstd")
        return carried


def _records(actions: Sequence[Action]) -> list[dict[str, Any]]:
    return [asdict(action) | {"type": str(action.type)} for action in actions]


_TEXT, _NUMBER = pa.string(), pa.float64()
_PLACE = dict.fromkeys(("x", "y", "x2", "y2"), _NUMBER)
_ACTIONS = pa.list_(pa.struct({"type": _TEXT, **_PLACE, "text": _TEXT, "direction": _TEXT}))
_REPLY = {"plan": _TEXT, "reply": _TEXT, "error": _TEXT, "reward": _NUMBER, "actions": _ACTIONS}
_SCHEMA = pa.schema(
    {"step": pa.int64(), "instruction": _TEXT, "history": pa.list_(_TEXT), "previous": pa.binary(),
     "picture": pa.binary(), "target": _ACTIONS, "plans": pa.list_(pa.struct(_REPLY))}
)  # fmt: skip
