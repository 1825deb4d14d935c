"""What the notebooks on real applications and virtual machines show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from PIL import Image

from coda_lib.applications import DESKTOP_APPS
from coda_lib.errors import UserError
from coda_lib.paths import REFERENCE, display
from coda_lib.rollout import jobs, rollout
from coda_lib.trajectory import Trajectory, load_trajectories
from coda_study.evaluation import grid
from coda_study.run import Run
from coda_study.show.film import Film, film
from coda_study.show.pictures import Sheet, screens
from sciencedesk.board.fake import FakeMachine, typing_task
from sciencedesk.board.machine import Machine, Machines
from sciencedesk.board.tasks import AppTask, app_task, app_tasks
from sciencedesk.real.checks import Check, check_app, script_agent

EPISODES = REFERENCE / "apps"
TRAINED = REFERENCE / "desktop"  # a run of the profile desktop


# ---- real applications -----------------------------------------------------------------------------------


def checked() -> list[Check]:
    """The check of each application on this machine."""
    return [check_app(kind) for kind in DESKTOP_APPS]


def overview(checks: Sequence[Check]) -> pd.DataFrame:
    """A row for each application: times, facts of its state, and 'works' or what to do."""
    columns = {
        "starts in (s)": [check.start_s for check in checks],
        "reset in (s)": [check.reset_s for check in checks],
        "state": [", ".join(check.state) for check in checks],
        "outcome": [check.fault or "works" for check in checks],
    }
    return pd.DataFrame(columns, index=[check.kind for check in checks]).round(2)


def first_screens(checks: Sequence[Check]) -> Sheet | str:
    """The first screen of each application that works."""
    pictures = {check.kind: Image.fromarray(check.picture) for check in checks if check.picture is not None}
    return screens(pictures) if pictures else "no application is installed: coda apps install"


def task_table() -> pd.DataFrame:
    """Number of tasks by application and grade."""
    grades = {kind: Counter(task.grade for task in app_tasks(kind)) for kind in DESKTOP_APPS}
    counts = pd.DataFrame(grades).T.fillna(0).astype(int).sort_index(axis=1)
    return counts.assign(total=counts.sum(axis=1))


def works(checks: Sequence[Check], kind: str) -> bool:
    return any(check.kind == kind and not check.fault for check in checks)


def reference_episodes() -> pd.DataFrame:
    """The laptop checkpoints on real applications, as measured once: by system and application."""
    episodes = pd.concat(pd.read_parquet(path) for path in sorted(EPISODES.glob("*.parquet")))
    kinds = episodes["task_id"].str.partition("/")[0].rename("application")
    return episodes.groupby(["system", kinds])["success"].agg(episodes="size", solved="sum")


def study_table(folder: Path = TRAINED) -> pd.DataFrame:
    """Table 1 of a run, Average@k and Pass@k in percent with 95 % intervals.  UserError if there is none."""
    path = Run(str(folder)).tables / "table1.csv"
    if not path.is_file():
        raise UserError(f"no Table 1 in {display(folder)}: coda reproduce --profile desktop makes one")
    return grid(pd.read_csv(path)).set_index(["Metric", "System"])


def before_and_after(folder: Path = TRAINED, trained: str = "stage2") -> tuple[pd.DataFrame, Film]:
    """How many tasks of a run base and trained planner solve, and a film of both at one task.

    Of the episodes with screenshots; the film is of the first task that the trained planner alone solves, or
    else the first.  UserError if there are none.
    """
    run = Run(str(folder))
    pairs = {app: _pairs(run, app, trained) for app in run.profile("desktop").apps}
    if not any(pairs.values()):
        fault = f"no episodes with screenshots in {display(folder)}"
        raise UserError(f"{fault}: coda reproduce --profile desktop makes some")
    counts = pd.DataFrame({"tasks": {app: len(played) for app, played in pairs.items()}})
    for i, name in enumerate(("base", trained)):
        counts[name] = [sum(bool(pair[i].success) for pair in played) for played in pairs.values()]
    both = [pair for played in pairs.values() for pair in played]
    before, after = next((pair for pair in both if pair[1].success and not pair[0].success), both[0])
    return counts, Film(film({"before training": before, "after training": after}))


def _pairs(run: Run, app: str, trained: str) -> list[tuple[Trajectory, Trajectory]]:
    """The episodes of base and trained planner at the same tasks, if both were kept."""
    paths = [run.trajectories(system, app) for system in ("base", trained)]
    if not all(path.is_file() for path in paths):
        return []
    before, after = ({episode.task_id: episode for episode in load_trajectories(path)} for path in paths)
    return [(before[task], after[task]) for task in before if task in after]


# ---- virtual machines ------------------------------------------------------------------------------------


def played_on(
    machines: Sequence[Machine], tasks: Sequence[AppTask], runs: int, faults: list[str]
) -> list[Trajectory]:
    """The tasks' scripts, each played `runs` times on machines, real or fake; faults get their messages."""
    agent, pool = script_agent(tasks), Machines(machines)
    return rollout(agent, jobs(tasks, runs), pool, 0, len(machines), report=faults.append)


def outcomes(trajectories: Sequence[Trajectory]) -> pd.DataFrame:
    """Number of episodes by stop reason and success."""
    solved = {True: "yes", False: "no", None: "not known"}
    rows = [{"ended with": str(t.stop), "solved": solved[t.success]} for t in trajectories]
    return pd.DataFrame(rows).value_counts().rename("episodes").to_frame()


def requests(fake: FakeMachine) -> pd.DataFrame:
    """The requests to a fake machine in order, those for screenshots left out."""
    shown = [(path, body.decode()[:100]) for path, body in fake.requests if path != "/screenshot"]
    return pd.DataFrame(shown, columns=["request", "body"])


def repeated(fake: FakeMachine) -> int:
    """Number of actions that a fake machine carried out a second time in one episode."""
    return sum(len(actions) - len(set(actions)) for actions in fake.episodes)


def board_tasks(folder: str) -> list[AppTask]:
    """ScienceBoard's tasks below a folder; for an empty name a task for a fake machine."""
    return [app_task(path) for path in sorted(Path(folder).rglob("*.json"))] if folder else [typing_task()]
