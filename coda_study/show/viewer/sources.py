"""Collects the evidence of a page from the files of runs and from logs of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from coda_lib.action import Action
from coda_lib.applications import APPS
from coda_lib.config import EXPLORERS, Profile
from coda_lib.files import read_json, sha256
from coda_lib.grpo import advantages
from coda_lib.judge import Rule
from coda_lib.paths import TASKS, display
from coda_lib.task import Task, load_task
from coda_lib.trajectory import Trajectory, load_trajectories
from coda_study.draws import start_of
from coda_study.evaluation.claims import JOINT
from coda_study.evaluation.endings import ending_of
from coda_study.evaluation.paper import Provenance
from coda_study.evaluation.replay import Replay, replayed
from coda_study.evaluation.report import SYSTEM_LABELS
from coda_study.evaluation.votes import find_votes, table2_rules, voting_rules
from coda_study.formats import read
from coda_study.run import Run
from coda_study.show.viewer.evidence import Evidence, condition, plain, vote

# of a planner in an application whose episodes a run's page shows step by step: all would take hundreds of MB
TRAIN_TASKS = 50


def read_logs(source: Path, evidence: Evidence, prefix: str = "") -> None:
    """Add the trajectories of a file of ours or another project's logs.  UserError as of `formats.read`."""
    known, trajectories = read(source, evidence.lacks.append)
    for trajectory in trajectories:
        episode = evidence.add_trajectory("logs", prefix + trajectory.planner, trajectory)
        if trajectory.verdicts:
            episode["votes"] = [vote("logs", "judge", reply) for reply in trajectory.verdicts]
    evidence.about.append((f"{prefix}{source.name}", f"{len(trajectories)} trajectories, format {known}"))


def read_run(
    run: Run,
    evidence: Evidence,
    apps: Sequence[str] = (),
    prefix: str = "",
    train_tasks: int | None = TRAIN_TASKS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Add what a run keeps of its episodes, of all applications or of `apps`, and note what it does not keep.

    Progress counts the files of test episodes, which may be drawn again.
    Of train tasks the first `train_tasks` (None: all) of each planner and application are shown step by step.
    """
    profile, name = run.profile(), run.folder.name
    apps = [app for app in profile.apps if app in apps or not apps]
    evidence.reach = profile.specialize.reach
    manifest = read_json(run.manifest) if run.manifest.exists() else {}
    tasks = _test_tasks(apps, manifest.get("inputs", {}))
    labels = {system: SYSTEM_LABELS[system].rstrip("*") for system in profile.systems}
    labels |= {planner: f"Specialists{after.replace('round', ', round ')}, exploring"
               for planner in EXPLORERS[1:] for after in [planner.removeprefix("specialist")]}  # fmt: skip
    labels |= {JOINT: "One planner for all applications"}
    evidence.labels |= {prefix + system: prefix + label for system, label in labels.items()}
    _read_outcomes(run, evidence, apps, prefix, tasks, progress)
    left_out = _read_rollouts(run, evidence, apps, prefix, train_tasks)
    _read_votes(run, profile, evidence, apps, prefix)
    _read_checks(profile, evidence, tasks)
    for planner, app in product(EXPLORERS[1:], apps):
        read_groups(run, planner, app, evidence, prefix)
    code = manifest.get("code", {}).get("commit") or "not recorded"
    evidence.about += [
        (f"run {name}", f"profile {profile.name}, seed {profile.seed}, {Provenance.of(profile)}"),
        (f"code of {name}", f"commit {code}, written {manifest.get('written', 'not yet')}"),
    ]
    if left_out:
        evidence.lacks.append(
            f"run {name}: {left_out:,} train episodes are listed without screens, plans and actions; "
            f"`coda view {name} --train-tasks -1` shows all of them"
        )
    evidence.lacks += [f"run {name}: {text}" for text in _lacking(evidence, prefix, bool(tasks), left_out)]


def _read_outcomes(
    run: Run, evidence: Evidence, apps: Sequence[str], prefix: str, tasks: dict[str, Task],
    progress: Callable[[int, int], None],
) -> None:  # fmt: skip
    """The episodes at the test tasks: sampled (with trajectories where these are kept), greedy, ablations."""
    again, pairs = Replay(), [*product(run.profile().systems, apps)]
    for number, (system, app) in enumerate(pairs):
        progress(number, len(pairs))
        played = {(t.task_id, t.run): t for t in _played_by(run, system, app, tasks, again)}
        for row in _rows(run.evaluation(system, app), tasks):
            evidence.add("test", prefix + system, row, played.get((row["task_id"], row["run"])))
        for row in _rows(run.greedy(system, app), tasks):
            evidence.add("greedy", prefix + system, row)
    if again.episodes or again.left_out:
        evidence.about.append((f"screens of {run.folder.name}", str(again)))
        evidence.lacks += [] if again.exact else [f"run {run.folder.name}: screens are {again}"]
    for path in sorted(run.ablation(JOINT).parent.glob("*.parquet")):
        for row in _rows(path, tasks):
            if row["app"] in apps:
                evidence.labels.setdefault(prefix + row["system"], f"{prefix}Ablation: {row['system']}")
                evidence.add("test", prefix + row["system"], row)


def _read_rollouts(
    run: Run, evidence: Evidence, apps: Sequence[str], prefix: str, train_tasks: int | None
) -> int:
    """The episodes at the train tasks; returns how many are added without their steps."""
    left_out = 0
    for planner, app in product(EXPLORERS, apps):
        paths = [path for path in (run.judged(planner, app), run.rollouts(planner, app)) if path.is_file()]
        kept = load_trajectories(paths[0]) if paths else []
        shown = set(list(dict.fromkeys(trajectory.task_id for trajectory in kept))[:train_tasks])
        for trajectory in kept:
            stepwise = trajectory.task_id in shown
            evidence.add_trajectory("train", prefix + planner, trajectory, stepwise)
            left_out += not stepwise
    return left_out


def _played_by(run: Run, system: str, app: str, tasks: dict[str, Task], again: Replay) -> list[Trajectory]:
    """The trajectories of a system at the test tasks.

    Where screenshots are not kept, ScienceDesk's are played again; a real application's stay as they are.
    """
    whole, bare = run.trajectories(system, app), run.actions(system, app)
    shown = load_trajectories(whole) if whole.is_file() else []
    if not bare.is_file():
        return shown
    kept = load_trajectories(bare, screens=False)
    if app in APPS:
        profile = run.profile()
        return replayed(kept, app, tasks, again, lambda task, number: start_of(profile, task, number, "test"))
    known = {(trajectory.task_id, trajectory.run) for trajectory in shown}
    return shown + [trajectory for trajectory in kept if (trajectory.task_id, trajectory.run) not in known]


def _rows(path: Path, tasks: dict[str, Task]) -> list[dict]:
    """The rows of a table of episodes, with their endings if the test tasks are those that were played."""
    table = pd.read_parquet(path) if path.is_file() else pd.DataFrame()
    if len(table) and set(table["task_id"]) <= set(tasks):
        table = table.assign(ending=ending_of(table))
    return table.to_dict("records")


def _test_tasks(apps: Iterable[str], inputs: dict[str, str]) -> dict[str, Task]:
    """The test tasks whose files are still those that the run has read, by the hashes of its manifest."""
    paths = [path for app in apps for path in sorted((TASKS / "test" / app).glob("*.json"))]
    same = [path for path in paths if inputs.get(display(path)) == sha256(path)]
    return {task.id: task for task in map(load_task, same)}


def _read_checks(profile: Profile, evidence: Evidence, tasks: dict[str, Task]) -> None:
    """What each episode at a test task was asked: where runs are perturbed, each run another thing."""
    starts: dict[str, Task] = {}
    for episode in evidence.episodes:
        task = tasks.get(episode["task"]) if episode["set"] in ("test", "greedy") else None
        if task and "asked" not in episode:
            name = f"{task.id} {episode['run']}" if profile.perturb else task.id
            start = starts[name] = starts.get(name) or start_of(profile, task, episode["run"], "test")
            if episode.setdefault("instruction", start.instruction) == start.instruction:
                episode["asked"] = name
                checks = [condition(item) for item in start.evaluate]
                length, answer = len(start.solution), start.ans
                evidence.tasks[name] = {"checks": checks, "script": length, "answer": answer}


def _read_votes(run: Run, profile: Profile, evidence: Evidence, apps: Sequence[str], prefix: str) -> None:
    votes = find_votes(run)
    mixed = [pd.read_parquet(path) for path in map(run.judges, apps) if path.is_file()]
    sets = {"train": (votes[votes["app"].isin(apps)], voting_rules(profile.judge))}
    sets |= {"mix": (pd.concat(mixed, ignore_index=True), table2_rules(profile.judge))} if mixed else {}
    for of, (votes, rules) in sets.items():
        if len(votes):
            evidence.add_votes(votes, of, prefix, rules)
            evidence.standard[of] = Rule.of(profile.judge).name


def read_groups(run: Run, planner: str, app: str, evidence: Evidence, prefix: str = "") -> None:
    """Add the GRPO groups that the training of a round-1 planner or a specialist has kept."""
    for path in sorted(run.groups(app, planner).glob("*.parquet")):
        groups = pq.read_table(path).to_pylist()
        evidence.groups += [_group(group, prefix + planner, app, evidence) for group in groups]


def _group(group: dict, planner: str, app: str, evidence: Evidence) -> dict:
    """A GRPO group as `stages.groups` keeps it, with its advantages."""
    rewards, plans = [plan["reward"] for plan in group["plans"]], []
    for plan, advantage in zip(group["plans"], advantages([rewards])[0], strict=True):
        actions = [plain(Action(**action)) for action in plan["actions"]]
        plans.append(plan | {"actions": actions, "advantage": float(advantage)})
    target = [plain(Action(**action)) for action in group["target"]]
    pictures = {name: evidence.pictures.add(group[name], app) for name in ("previous", "picture")}
    return group | pictures | {"planner": planner, "app": app, "target": target, "plans": plans}


def _lacking(evidence: Evidence, prefix: str, tasks: bool, left_out: int) -> list[str]:
    """What is not kept of a run's episodes; `left_out` train episodes are kept, and not shown."""
    episodes = [episode for episode in evidence.episodes if episode["system"].startswith(prefix)]
    lacks = []
    for of, expected in {"test": 0, "train": left_out}.items():
        part = [episode for episode in episodes if episode["set"] == of]
        without = sum("steps" not in episode for episode in part) - expected
        bare = sum(episode.get("final", 0) is None for episode in part)
        if not part:
            lacks.append(f"no {of} episodes")
        elif without:
            kept = "only the outcome is here, without screens, plans and actions"
            lacks.append(f"of {without:,} {of} episodes {kept}")
        if bare:
            kept = "plans and actions are here, without screens: those of a few are kept"
            lacks.append(f"of {bare:,} {of} episodes {kept}")
    if not any("votes" in episode for episode in episodes):
        lacks.append("no votes of a judge")
    if not tasks and any(episode["set"] == "test" for episode in episodes):
        kept = "their texts and checks are not shown where the run has not kept them"
        lacks.append(f"the test tasks have changed since: {kept}")
    if not any(group["planner"].startswith(prefix) for group in evidence.groups):
        lacks.append("no GRPO groups of stage 1")
    return lacks
