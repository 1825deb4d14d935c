"""`coda check`: a tiny study of fixed seed, and the committed tables, compared with expected values.

Three kinds of values, because a model's sums may differ in their last bits between processors:
* `same`: what no model decides, such as the tasks that are drawn and the pixels of their first screens.
  Equal on every machine.
* `episodes`: how each episode ended.  A last bit can change one sampled word, and with it the rest of its
  episode; so a share of episodes has to be equal.  On the same processor and with the same packages all of
  them are.
* `numbers`: figures of the trainings.  They follow from the episodes, and may be off by a stated difference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from coda_lib.config import SYSTEMS, Profile
from coda_lib.errors import UserError
from coda_lib.files import read_json, write_json
from coda_lib.paths import REFERENCE, display
from coda_lib.trajectory import decode_image, load_trajectories
from coda_study.evaluation.provenance import code_state, hardware
from coda_study.evaluation.tables import load_episodes, table1, table_settings
from coda_study.run import Run

PROFILE, SETTINGS = "smoke", ("apps=[algebra,gis]",)  # every kind of stage, a generalist of two applications
EXPECTED = REFERENCE / "check.json"
EQUAL_SHARE = 0.85  # of the episodes of a line; docs/reproducibility.md says what was measured
NEAR = {"reward": 0.25, "loss": 0.15}  # largest difference of a number, by the last word of its name
CELL = 0.001  # percentage points between a committed table and that of its episodes: six digits are written


class Line(NamedTuple):
    name: str
    expected: str
    measured: str
    tolerance: str
    ok: bool


def measure(run: Run) -> dict[str, Any]:
    """The values of a finished run of the check: `same`, `episodes` and `numbers`, each by name.

    UserError if files are missing.
    """
    profile, found = run.profile(), {"same": {}, "episodes": {}, "numbers": {}}
    try:
        for app in profile.apps:
            _measure_app(run, profile, app, found)
        log = run.generalist / "metrics.jsonl"
        found["numbers"]["generalist, first step, loss"] = _first(log, "loss")
        cells = table1(load_episodes(run), profile.systems, **table_settings(profile))
    except FileNotFoundError as error:
        missing = display(Path(error.filename))
        raise UserError(f"run {run.name} is not finished: {missing} is missing") from error
    paths = (run.report, run.manifest, run.table1, *run.figures.glob("table1.*"))
    found["same"]["Table 1 and the report"] = f"{len(cells)} cells, {sum(map(Path.is_file, paths))} files"
    return found


def _measure_app(run: Run, profile: Profile, app: str, found: dict[str, Any]) -> None:
    episodes = found["episodes"]
    explored = load_trajectories(_existing(run.rollouts("base", app)))
    tasks = dict.fromkeys((t.task_id, t.instruction) for t in explored)
    digest = _digest(json.dumps(task).encode() for task in tasks)
    found["same"][f"{app}: train tasks drawn"] = f"{len(tasks)} tasks, {digest}"
    screens = (decode_image(t.screenshots[0]).tobytes() for t in explored if t.run == 0)
    found["same"][f"{app}: their first screens"] = _digest(screens)
    by_specialist = load_trajectories(_existing(run.rollouts("specialist", app)))
    for name, played in (("base planner explores", explored), ("specialists explore", by_specialist)):
        outcomes = {f"{t.task_id} {t.run}": _outcome(t.stop, len(t.steps), t.success) for t in played}
        episodes.setdefault(name, {}).update(outcomes)
    reward = _first(run.specialist(app) / "metrics.jsonl", "reward")
    found["numbers"][f"{app}: specialist, first step, reward"] = reward
    for system in profile.systems:
        rows = pd.read_parquet(_existing(run.evaluation(system, app)))
        rows = zip(rows["task_id"], rows["run"], rows["stop"], rows["steps"], rows["success"], strict=True)
        outcomes = {f"{task} {number}": _outcome(*rest) for task, number, *rest in rows}
        episodes.setdefault(f"{system} at test tasks", {}).update(outcomes)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(2, "missing", str(path))
    return path


def _digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:12]


def _outcome(stop: str, steps: int, success: bool | None) -> str:
    return f"{stop} after {steps}, {'solved' if success else 'not solved'}"


def _first(log: Path, name: str) -> float:
    """A number of the first optimizer step, to six digits."""
    return float(f"{json.loads(log.read_text(encoding='utf-8').splitlines()[0])[name]:.6g}")


def compare(expected: dict[str, Any], measured: dict[str, Any]) -> list[Line]:
    """A line for each expected value.  What is expected and not measured is off."""
    lines = []
    for name, value in expected["same"].items():
        now = measured["same"].get(name, "missing")
        lines.append(Line(name, str(value), str(now), "equal", now == value))
    for name, outcomes in expected["episodes"].items():
        now = measured["episodes"].get(name, {})
        equal = sum(now.get(key) == outcome for key, outcome in outcomes.items())
        count, tolerance = len(outcomes), f"at least {100 * EQUAL_SHARE:.0f} % equal"
        shown = (f"{number} of {count} episodes" for number in (count, equal))
        lines.append(Line(name, *shown, tolerance, equal >= EQUAL_SHARE * count))
    for name, value in expected["numbers"].items():
        now, near = measured["numbers"].get(name, float("nan")), NEAR[name.rpartition(" ")[2]]
        lines.append(Line(name, f"{value:.4f}", f"{now:.4f}", f"± {near}", abs(now - value) <= near))
    return lines


def compare_tables(folders: Iterable[Path] | None = None) -> list[Line]:
    """A line for each committed run with a Table 1: is its table what its episodes give?"""
    if folders is None:
        folders = [path.parents[1] for path in sorted(REFERENCE.glob("*/tables/table1.csv"))]
    lines, names = [], ["metric", "system", "application"]
    for folder in folders:
        run = Run(str(folder.resolve()))
        profile, committed = run.profile(), pd.read_csv(folder / "tables" / "table1.csv")
        again = table1(load_episodes(run), profile.systems or SYSTEMS, **table_settings(profile))
        off = float("nan")
        if committed[names].equals(again[names]):
            off = float(np.abs(committed["value"] - again["value"]).max())
        name, cells = f"Table 1 of {run.folder.name} from its episodes", f"{len(committed)} cells"
        measured = f"{cells}, largest difference {off:.4f}"
        lines.append(Line(name, cells, measured, f"± {CELL} points", off <= CELL))
    return lines


def load_expected(path: Path) -> dict[str, Any]:
    """UserError if there is no such file."""
    if not path.is_file():
        raise UserError(f"{display(path)} is missing: `python -m tools.expected` makes it")
    return read_json(path)


def write_expected(run: Run, path: Path) -> dict[str, Any]:
    """Make the values of a finished run the expected ones, with the commit and the processor they are of."""
    about = {"profile": PROFILE, "set": list(SETTINGS), "seed": run.profile().seed}
    machine = {"commit": code_state()["commit"], "processor": hardware()["processor"]}
    expected = about | machine | measure(run)
    write_json(path, expected)
    return expected
