"""Some GRPO groups of a training, kept to be looked at: the plans for one state, what the executor made of
them, the rewards.

A row is a group: step (from 1), instruction, history (plans), previous and picture (PNG), target (actions),
and plans, each with plan, reply, error, reward and actions.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coda_lib.config import SpecializeSettings
from coda_lib.executor import Executor
from coda_lib.files import atomic_path
from coda_lib.grammar import parse_actions
from coda_lib.trainer import ActionReward, together
from coda_lib.trajectory import screenshot_png

MOMENTS, EACH = 5, 2  # optimizer steps of a training that are looked at, and groups kept of each


class KeepingReward(ActionReward):
    """`ActionReward` that also writes the most varied groups of some optimizer steps to `folder`, a file a
    step.

    Rewards and random numbers are those of `ActionReward`.  A file that is there already, of before a kill,
    stays.
    """

    def __init__(self, executor: Executor, seed: int, settings: SpecializeSettings, folder: Path):
        super().__init__(executor, seed, reach=settings.reach)
        self.folder, self.size = folder, settings.group_size
        self.moments = {int(step) for step in np.linspace(0, settings.steps - 1, MOMENTS)}

    def carry_out(self, *args: Any, trainer_state: Any, **kwargs: Any) -> Any:
        states, decisions, earned = carried = super().carry_out(*args, trainer_state=trainer_state, **kwargs)
        step = trainer_state.global_step
        path = self.folder / f"{step + 1:05d}.parquet"
        whole = len(states) % self.size == 0  # one of several processes may hold a part of a group
        if step not in self.moments or path.exists() or not whole or together().process_index:
            return carried
        starts = sorted(range(0, len(states), self.size), key=lambda i: -np.std(earned[i : i + self.size]))[
            :EACH
        ]
        groups = []
        for start in starts:
            state, own = states[start], slice(start, start + self.size)
            plans = [
                {
                    "plan": decision.plan,
                    "reply": decision.reply,
                    "error": decision.error,
                    "reward": float(reward),
                    "actions": [_record(action) for action in decision.actions],
                }
                for decision, reward in zip(decisions[own], earned[own], strict=True)
            ]
            target = parse_actions(kwargs["target"][start], state.current.size)
            groups.append(
                {
                    "step": step + 1,
                    "instruction": state.instruction,
                    "history": [turn.plan for turn in state.history],
                    "previous": screenshot_png(state.previous),
                    "picture": screenshot_png(state.current),
                    "target": [_record(action) for action in target],
                    "plans": plans,
                }
            )
        with atomic_path(path) as temporary:
            pq.write_table(pa.Table.from_pylist(groups, _SCHEMA), temporary, compression="zstd")
        return carried


def _record(action: Any) -> dict[str, Any]:
    return asdict(action) | {"type": str(action.type)}


_ACTION = pa.struct(
    [("type", pa.string()), ("x", pa.float64()), ("y", pa.float64()), ("x2", pa.float64()),
     ("y2", pa.float64()), ("text", pa.string()), ("direction", pa.string())]
)  # fmt: skip
_PLAN = pa.struct(
    [("plan", pa.string()), ("reply", pa.string()), ("error", pa.string()), ("reward", pa.float64()),
     ("actions", pa.list_(_ACTION))]
)  # fmt: skip
_SCHEMA = pa.schema(
    [("step", pa.int64()), ("instruction", pa.string()), ("history", pa.list_(pa.string())),
     ("previous", pa.binary()), ("picture", pa.binary()), ("target", pa.list_(_ACTION)),
     ("plans", pa.list_(_PLAN))]
)  # fmt: skip
