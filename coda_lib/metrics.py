"""What both trainers log, step by step, in a file that outlives a kill."""

from __future__ import annotations

import json
from pathlib import Path

from transformers import TrainerCallback

from coda_lib.files import write_text


class MetricsLog(TrainerCallback):
    """Appends what the trainer logs to metrics.jsonl, one JSON object a step; a resumed run goes on where it was."""

    def __init__(self, path: Path):
        self.path = path

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        if not state.is_world_process_zero:
            return
        whole = [line for line in self._lines() if line.endswith("\n")]  # a kill can cut the last line
        write_text(self.path, "".join(line for line in whole if 0 < json.loads(line)["step"] <= state.global_step))

    def on_log(self, args, state, control, logs=None, **kwargs) -> None:
        if "train_runtime" in logs or not state.is_world_process_zero:  # the trainer's summary at the end is no step
            return
        with self.path.open("a") as file:
            file.write(json.dumps({"step": state.global_step} | {k: v for k, v in logs.items() if k != "step"}) + "\n")

    def _lines(self) -> list[str]:
        return self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
