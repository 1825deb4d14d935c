"""What notebooks 11 and 12 show of real applications and virtual machines."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from PIL import Image

from coda_lib.action import format_action
from coda_lib.agent import Decision
from coda_lib.base_models.kalgebra import recipe as adapter
from coda_lib.bench.desktop import Check, check_app
from coda_lib.envs.desktop import KINDS, app_class
from coda_lib.envs.scienceboard.files import BoardTask
from coda_lib.envs.scienceboard.guest import Patience
from coda_lib.envs.scienceboard.machine import Machine, Machines
from coda_lib.envs.scienceboard.tasks import AppTask, app_tasks, solution
from coda_lib.paths import REFERENCE, REPO
from coda_lib.planner import Observation
from coda_lib.rollout import jobs, rollout
from coda_lib.show.pictures import Sheet, screens, strip
from coda_lib.trajectory import Trajectory

EPISODES = REFERENCE / "apps"
_REVERT = "import sys, urllib.request as web; web.urlopen(web.Request(sys.argv[1], method='POST'))"
HASTE = Patience(connect=0.5, answer=0.4, action=0.4, boot=2.0, pause=0.01, still=0.0, settle=0.2, look=0.01)


class ScriptAgent:
    """Plays the scripts of tasks: what a perfect agent would do."""

    name = "script"

    def __init__(self, tasks: Sequence[AppTask], size: tuple[int, int] = (640, 480)):
        self.size, self.scripts = size, {task.instruction: solution(task, size) for task in tasks}

    def decide(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        actions = [self.scripts[seen.instruction][len(seen.history)] for seen in observations]
        return [Decision(said := format_action(action, self.size), said, (action,)) for action in actions]


# ---- notebook 11: real applications --------------------------------------------------------------------------------------


def checked() -> list[Check]:
    """What became of starting each application on this machine."""
    return [check_app(kind) for kind in KINDS]


def overview(checks: Sequence[Check]) -> pd.DataFrame:
    """A row for each application; where it does not work, what to do."""
    rows = [
        {"starts in (s)": check.start_s, "reset in (s)": check.reset_s, "says of itself": ", ".join(check.state),
         "outcome": check.fault or "works"}
        for check in checks
    ]  # fmt: skip
    return pd.DataFrame(rows, index=[check.kind for check in checks]).round(2)


def first_screens(checks: Sequence[Check]) -> Sheet | str:
    """The first screen of each application that works."""
    pictures = {check.kind: Image.fromarray(check.picture) for check in checks if check.picture is not None}
    return screens(pictures) if pictures else "none of them is installed: coda apps install"


def task_table() -> pd.DataFrame:
    """How many tasks there are, by application and grade."""
    grades = {kind: Counter(task.grade for task in app_tasks(kind)) for kind in KINDS}
    return pd.DataFrame(grades).T.fillna(0).astype(int).sort_index(axis=1).assign(total=lambda counts: counts.sum(axis=1))


def works(checks: Sequence[Check], kind: str) -> bool:
    return any(check.kind == kind and not check.fault for check in checks)


def script_played(task: AppTask) -> Trajectory:
    """A task's script, played in its application."""
    (played,) = rollout(ScriptAgent([task]), [(task, 0)], app_class(task.board.type), seed=0)
    return played


def script_strip(checks: Sequence[Check], task: AppTask) -> Sheet | str:
    """A task's script, played in its application, picture by picture."""
    return strip(script_played(task)) if works(checks, task.board.type) else f"{task.board.type} does not work here"


def reference_episodes() -> pd.DataFrame:
    """Tasks of the real applications that the laptop checkpoints solved, as measured once: counts by system and application."""
    episodes = pd.concat(pd.read_parquet(path) for path in sorted(EPISODES.glob("*.parquet")))
    kinds = episodes["task_id"].str.partition("/")[0].rename("application")
    return episodes.groupby(["system", kinds])["success"].agg(episodes="size", solved="sum")


def goals_pursued() -> pd.DataFrame:
    """What the adapter for KAlgebra made of goals drawn anew, as measured once."""
    played = pd.read_parquet(adapter.KEPT / adapter.GOALS).set_index("task_id")
    played["goals"] = 1 + played["asked"].str.count(" and ")
    return played[["asked", "goals", "in_training", "success", "steps", "stop"]]


def adapted_strip(checks: Sequence[Check], number: int) -> Sheet | str:
    """The adapter at one of these goals, played in KAlgebra, picture by picture."""
    if not works(checks, "KAlgebra"):
        return "KAlgebra does not work here"
    (played,) = adapter.pursued(adapter.KEPT, adapter.goals_to_reach(number + 1)[number:])
    return strip(played)


# ---- notebook 12: virtual machines ---------------------------------------------------------------------------------------


@dataclass
class Pretended:
    """A server that stands for a virtual machine: all that a real one would be asked, and what goes wrong with it."""

    server: Any
    machine: Machine

    def close(self) -> None:
        self.server.close()


def pretended(rates: dict[str, float] | None = None, seed: int = 0) -> Pretended:
    """A pretended machine of the tests'; `rates` are the chances of its faults, a request each."""
    module = _guest_server()
    server = module.GuestServer(rates, seed, hang_s=0.6)
    revert = (sys.executable, "-c", _REVERT, f"http://{server.address}{module.REVERT}")
    return Pretended(server, Machine(address=server.address, state_port=server.port, revert=revert))


def _guest_server() -> ModuleType:
    path = REPO / "tests" / "guest_server.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def typing_task(words: int = 2) -> AppTask:
    """A task for a pretended machine: to type some words, one a step; its state is how much was done."""
    script = [f"type(content='word {number}')" for number in range(words)]
    board = BoardTask.model_validate(
        {"type": "KAlgebra", "sort": "VM", "steps": words + 1, "instruction": f"Type {words} words.", "version": "0",
         "snapshot": "clean", "initialize": [{"func": "launch", "command": "app «PORTLIKE»", "shell": True}],
         "evaluate": [{"type": "val", "key": "n", "value": words}], "solution": [*script, "finished()"]}
    )  # fmt: skip
    return AppTask(f"KAlgebra/A-{words:02d}", "algebra", "A", board.instruction, board.steps, (), (), None, (), board)


def played_on(machines: Sequence[Machine], tasks: Sequence[AppTask], runs: int, faults: list[str]) -> list[Trajectory]:
    """The tasks' scripts, each some times over, on machines; what breaks is appended to `faults`."""
    agent = ScriptAgent(tasks)
    return rollout(agent, jobs(tasks, runs), Machines(machines, HASTE), 0, len(machines), report=faults.append)


def outcomes(trajectories: Sequence[Trajectory]) -> pd.DataFrame:
    """Episodes by how they ended and whether the task was solved."""
    rows = [{"ended with": str(t.stop), "solved": {True: "yes", False: "no", None: "not known"}[t.success]} for t in trajectories]
    return pd.DataFrame(rows).value_counts().rename("episodes").to_frame()


def asked(one: Pretended) -> pd.DataFrame:
    """What a pretended machine was asked, in order."""
    rows = [{"request": path, "body": (body or b"").decode()[:100]} for path, body in one.server.requests]
    return pd.DataFrame(rows)


def repeated(one: Pretended) -> int:
    """Actions that a pretended machine carried out a second time in one episode."""
    return sum(len(done) - len(set(done)) for done in one.server.episodes)


def without_screenshots(requests: pd.DataFrame) -> pd.DataFrame:
    return requests[requests["request"] != "/screenshot"].reset_index(drop=True)


def board_files(folder: str) -> list[Path]:
    """ScienceBoard's task files below a folder; none where none is given."""
    return sorted(Path(folder).rglob("*.json")) if folder else []
