"""What a person sees of a run: a line for each stage that ended and, on a terminal, bars for the others."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from coda_lib.files import read_json, write_json
from coda_study.run import Run


class Lines:
    """One line for each stage that ended and, on a terminal, a bar for each that runs."""

    def __init__(
        self, run: Run, stages: list[str], expected: dict[str, float], console: Console, cores: int
    ) -> None:
        self.run, self.stages, self.expected, self.console = run, stages, expected, console
        self.cores = cores
        self.ended: dict[str, float] = {}  # seconds of each stage that is done or failed
        self.began: dict[str, float] = {}
        self.errors: list[str] = []
        self.bars: dict[str, Any] = {}
        columns = TextColumn("        {task.description}"), BarColumn(20), TextColumn("{task.fields[clock]}")
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)

    def usual(self, stage: str) -> float | None:
        """Seconds of a stage: as expected, at the pace of those that have ended, or as others of its kind."""
        known = [name for name in self.ended if self.expected.get(name)]
        if stage in self.expected:
            took = (
                sum(self.ended[name] for name in known) / sum(map(self.expected.get, known)) if known else 1
            )
            return self.expected[stage] * took
        kind = stage.split("/")[0]
        alike = [seconds for name, seconds in self.ended.items() if name.split("/")[0] == kind]
        return sum(alike) / len(alike) if alike else None

    def left(self) -> float | None:
        """Seconds until all have ended, if each can be told, as if they could be spread over the cores."""
        now, rest = time.time(), []
        for stage in self.stages:
            if stage not in self.ended:
                if (usual := self.usual(stage)) is None:
                    return None
                rest.append(max(0.0, usual - (now - self.began.get(stage, now))))
        return max(sum(rest) / self.cores, max(rest)) if rest else None

    def update(self, since: float) -> None:
        """Look at the records of stages that were started after `since`."""
        for stage in self.stages:
            path = self.run.stage_record(stage)
            if stage in self.ended or not path.exists():
                continue
            record = read_json(path)
            if record["started"] < since:
                continue
            if record["state"] == "running":
                self.began[stage] = record["started"]
                self._running(stage, time.time() - record["started"])
            else:
                self._ended(stage, record)

    def _running(self, stage: str, elapsed: float) -> None:
        usual = self.usual(stage)
        shown = clock(elapsed) + (f" of about {clock(usual)}" if usual else "")
        if stage not in self.bars:
            self.bars[stage] = self.progress.add_task(stage, total=usual, clock=shown)
        self.progress.update(self.bars[stage], completed=elapsed, clock=shown)

    def _ended(self, stage: str, record: dict[str, Any]) -> None:
        self.ended[stage] = record["wall_s"]
        if stage in self.bars:
            self.progress.remove_task(self.bars.pop(stage))
        usual = self.expected.get(stage)
        note = f", expected {clock(usual)}" if usual else ""
        note += f"; about {clock(left)} left" if (left := self.left()) else ""
        count = f"[{len(self.ended):{len(str(len(self.stages)))}}/{len(self.stages)}]"
        line = f"{count} {stage:34} {record['state']:6} {clock(record['wall_s']):>7}{note}"
        # soft_wrap: a line a stage in a log, too
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
        if record["state"] == "done":
            known = read_json(self.run.timings) if self.run.timings.exists() else {}
            write_json(self.run.timings, known | {stage: record["wall_s"]})
        else:
            self.errors.append(f"stage {stage} failed: {record['error']}")


def clock(seconds: float) -> str:
    """Return seconds as a person reads them."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
