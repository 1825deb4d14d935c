"""Trajectories in other projects' formats: ScienceBoard, OSWorld, AgentRewardBench and others.

AgentNet's demonstrations are read and not written; logs of Inspect and messages for trainers are written and
not read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from warnings import warn

from coda_lib.errors import UserError
from coda_lib.files import atomic_path
from coda_lib.trajectory import Trajectory, load_trajectories, save_trajectories
from coda_study.formats import agentnet, agentrewardbench, evals, logs, messages
from coda_study.formats.parts import UNREAD, Report
from coda_study.owned import new_folder


class Format(NamedTuple):
    read: Callable[..., list[Trajectory]] | None  # None: a format that is only written
    write: Callable[..., None] | None  # None: a format that is only read
    fits: Callable[[Path], bool]  # whether a source is of this format
    file: bool = False  # written as one file, not as a folder


def _read_ours(path: Path, report: Report) -> list[Trajectory]:
    return load_trajectories(path)


FORMATS = {
    "coda": Format(_read_ours, lambda rows, path: save_trajectories(path, rows), Path.is_file, True),
    "scienceboard": Format(
        logs.read_scienceboard, logs.write_scienceboard, lambda path: any(path.rglob("result.out"))
    ),
    "osworld": Format(logs.read_osworld, logs.write_osworld, lambda path: any(path.rglob("result.txt"))),
    "agentrewardbench": Format(
        agentrewardbench.read, agentrewardbench.write, lambda path: any(path.glob("*/*/*/*.json"))
    ),
    "agentnet": Format(agentnet.read, None, agentnet.fits),
    "inspect": Format(None, evals.write, lambda path: False, True),
    "messages": Format(None, messages.write, lambda path: False),
}
WRITTEN = tuple(name for name, form in FORMATS.items() if form.write)


def read(source: Path, report: Report = warn) -> tuple[str, list[Trajectory]]:
    """The name of a source's format, and its trajectories; a broken one is reported and left out.

    UserError if nothing can be read.
    """
    if not source.exists():
        raise UserError(f"there is no {source}")
    known = next((name for name, form in FORMATS.items() if form.fits(source)), None)
    if known is None:
        raise UserError(
            f"{source} holds no trajectories: expected a Parquet file of ours, result.out or result.txt of "
            "episodes, {benchmark}/{agent}/{experiment}/{task}.json, or AgentNet's JSON Lines"
        )
    return known, FORMATS[known].read(source, report)


def convert(source: Path, target: Path, to: str, report: Report = lambda line: None) -> tuple[str, int]:
    """Write the trajectories of `source` to `target`; returns the source's format and their number.

    `report` is told of each episode that cannot be read, and of each step whose code is no action of ours:
    its code is kept as the step's reply.  UserError, and nothing is written, if nothing can be read, for an
    existing target, and for an episode that is there twice.
    """
    if to not in WRITTEN:
        fault = "only read" if to in FORMATS else "unknown"
        raise UserError(f"{fault} format {to!r}: choose one of {', '.join(WRITTEN)}")
    if os.path.lexists(target):
        raise UserError(f"{target} is there already: name another target")
    known, trajectories = read(source, report)
    labels = [messages.label_of(source, report)] if to == "messages" else []
    with (atomic_path if FORMATS[to].file else new_folder)(target) as temporary:  # whole or not at all
        FORMATS[to].write(trajectories, temporary, *labels)
    for trajectory in trajectories:
        for number, step in enumerate(trajectory.steps, 1):
            if step.error and step.error.startswith(UNREAD):
                report(f"{trajectory.task_id} by {trajectory.planner}, step {number}: {step.error}")
    return known, len(trajectories)
