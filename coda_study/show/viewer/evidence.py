"""What the viewer shows: episodes, votes and GRPO groups, collected from the files of runs and from logs of
others.

Everything is plain data for JSON, but for the pictures, which are kept once each and named by their number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from coda_lib.action import Action
from coda_lib.applications import APPS
from coda_lib.config import EXPLORERS, Profile
from coda_lib.files import read_json, sha256
from coda_lib.grpo import advantages
from coda_lib.judge import Rule, read_verdict
from coda_lib.paths import TASKS, display
from coda_lib.task import Task, load_task
from coda_lib.trajectory import DIGEST, Trajectory, load_trajectories
from coda_study.evaluation.claims import JOINT
from coda_study.evaluation.endings import ending_of
from coda_study.evaluation.paper import Provenance
from coda_study.evaluation.replay import Replay, replayed
from coda_study.evaluation.report import SYSTEM_LABELS
from coda_study.evaluation.votes import TRAJECTORY, apply, cast, find_votes, table2_rules, voting_rules
from coda_study.formats import read
from coda_study.run import Run
from coda_study.show.viewer.pictures import Pictures

# of a planner in an application whose episodes a run's page shows step by step: all would take hundreds of MB
TRAIN_TASKS = 50
PREDICATES = {"equals": "is", "excludes": "does not contain", "at_least": "is at least",
"before": "has in this order",
              "has_row": "has a row"}  # fmt: skip


@dataclass
class Evidence:
    """The content of a page."""

    title: str
    pictures: Pictures = field(default_factory=Pictures)
    about: list[tuple[str, str]] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)  # what the sources do not hold
    labels: dict[str, str] = field(default_factory=dict)  # of systems
    rules: dict[str, list[str]] = field(
        default_factory=dict
    )  # of judges, by the set of votes: "train" or "mix"
    standard: dict[str, str] = field(default_factory=dict)  # the rule of the profile in each set
    tasks: dict[str, dict] = field(default_factory=dict)  # test tasks by id: checks, steps, answer
    episodes: list[dict] = field(default_factory=list)
    groups: list[dict] = field(default_factory=list)
    _index: dict[tuple, dict] = field(default_factory=dict, repr=False)

    def add(self, of: str, system: str, row: dict, trajectory: Trajectory | None = None) -> dict:
        """The episode of this set (test, greedy, train, logs), system, task and run, with what is known of
        it; new if need be.
        """
        key = (of, system, row["app"], row["task_id"], int(row["run"]))
        if key not in self._index:
            self._index[key] = {
                "set": of,
                "system": system,
                "app": row["app"],
                "task": row["task_id"],
                "run": int(row["run"]),
            }
            self.episodes.append(self._index[key])
        episode = self._index[key]
        facts = {"grade": row.get("grade"), "success": _outcome(row.get("success")), "stop": row.get("stop"),
                 "count": row.get("steps"), "answer": row.get("answer"),
                 "ending": row.get("ending")}  # fmt: skip
        episode |= {name: value for name, value in facts.items() if value is not None and value == value}
        if trajectory:
            episode |= self._played(trajectory)
        return episode

    def add_trajectory(self, of: str, system: str, trajectory: Trajectory, stepwise: bool = True) -> dict:
        """As `add`; with its screens, plans and actions, or without."""
        row = {
            "app": trajectory.app,
            "task_id": trajectory.task_id,
            "run": trajectory.run,
            "success": trajectory.success,
        }
        if not stepwise:
            row |= {"stop": str(trajectory.stop), "steps": len(trajectory.steps), "answer": trajectory.answer}
        episode = self.add(of, system, row, trajectory if stepwise else None)
        episode["instruction"] = trajectory.instruction
        return episode

    def _played(self, t: Trajectory) -> dict[str, Any]:
        steps = [
            {"picture": self._screen(step.screenshot, t.app), "plan": step.plan, "reply": step.reply,
             "actions": [plain(action) for action in step.actions]} | ({"error": step.error} if step.error else {})
            for step in t.steps
        ]  # fmt: skip
        known = {"answer": t.answer, "score": t.score}
        return {
            "instruction": t.instruction, "stop": str(t.stop), "count": len(steps), "steps": steps,
            "final": self._screen(t.final_screenshot, t.app),
        } | {name: value for name, value in known.items() if value is not None}  # fmt: skip

    def _screen(self, file: bytes, app: str) -> int | None:
        """The number of a screenshot; None where only its digest is kept."""
        return None if len(file) == DIGEST else self.pictures.add(file, app)

    def add_votes(
        self, votes: pd.DataFrame, of: str, system_of: dict[str, str], rules: Sequence[Rule]
    ) -> None:
        """Votes on episodes, columns as of `find_votes`, and the outcome of each rule; of = "train" or "mix"."""
        self.rules[of] = [rule.name for rule in rules]
        ballots = cast(votes)
        outcomes = [
            apply(rule, ballots)[["accepted", "clean", "calls", "small", "valid"]].astype(int)
            for rule in rules
        ]
        judged = dict(
            zip(ballots.index, zip(*(part.values.tolist() for part in outcomes), strict=True), strict=True)
        )
        for key, cast_votes in votes.groupby(TRAJECTORY, sort=False):
            row, planner = cast_votes.iloc[0].to_dict(), key[2]
            test = ("test", system_of[planner], row["app"], row["task_id"], int(row["run"]))
            episode = self.add("test" if test in self._index else "train", system_of[planner], row)
            episode.setdefault("judged", {})[of] = list(judged[key])
            episode.setdefault("votes", []).extend(
                {"of": of, "judge": judge, "reply": reply} | said(reply)
                for judge, reply in cast_votes[["judge", "reply"]].itertuples(index=False, name=None)
            )


def plain(action: Action) -> dict[str, Any]:
    fields = {name: getattr(action, name) for name in ("x", "y", "x2", "y2", "text", "direction")}
    return {"type": str(action.type), "label": action.type.label} | {
        k: v for k, v in fields.items() if v is not None
    }


def said(reply: str) -> dict[str, str]:
    """A vote in a word: clean, correct, wrong, or invalid for a reply that is no verdict."""
    verdict = read_verdict(reply)
    if verdict is None:
        return {"says": "invalid"}
    return {"says": "clean" if verdict.clean else "correct" if verdict.correct else "wrong"}


def condition(item: dict[str, Any]) -> str:
    """An item of a task's check in words.

    >>> condition({"type": "state", "key": "grid", "value": True}), condition({"type": "stop", "value": "ANS", "args": ["3"]})
    ('grid is true', 'ends with ANS: 3')
    """
    if item["type"] == "stop":
        return f"ends with {item['value']}" + (f": {' or '.join(item['args'])}" if item.get("args") else "")
    word = item.get("pred", "equals")
    value = "" if word == "absent" else f" {json.dumps(item['value'], ensure_ascii=False)}"
    return f"{item['key']} {'is absent' if word == 'absent' else PREDICATES.get(word, word)}{value}"


def _outcome(success: Any) -> bool | None:
    return None if success is None or success != success else bool(success)


# ---- sources ---------------------------------------------------------------------------------------------


def read_logs(source: Path, evidence: Evidence, prefix: str = "") -> None:
    """Add the trajectories of a file of ours or of another project's logs.  UserError as of `formats.read`."""
    known, trajectories = read(source)
    for trajectory in trajectories:
        episode = evidence.add_trajectory("logs", prefix + trajectory.planner, trajectory)
        votes = [
            {"of": "logs", "judge": "judge", "reply": reply} | said(reply) for reply in trajectory.verdicts
        ]
        episode |= {"votes": votes} if votes else {}
    evidence.about.append((f"{prefix}{source.name}", f"{len(trajectories)} trajectories, format {known}"))


def read_run(
    run: Run,
    evidence: Evidence,
    apps: Sequence[str] = (),
    prefix: str = "",
    train_tasks: int | None = TRAIN_TASKS,
) -> None:
    """Add what a run keeps of its episodes, of all its applications or of these, and note what it does not
    keep.

    Of train tasks only the first `train_tasks` of each planner and application are added step by step; None:
    all of them.
    """
    profile = run.profile()
    apps = [app for app in profile.apps if app in apps or not apps]
    name = run.folder.name
    manifest = read_json(run.manifest) if run.manifest.exists() else {}
    tasks = _test_tasks(apps, manifest.get("inputs", {}))
    evidence.labels |= {
        prefix + system: prefix + SYSTEM_LABELS[system].rstrip("*") for system in profile.systems
    }
    evidence.labels |= {prefix + name: f"{prefix}{name.capitalize()}s, exploring" for name in EXPLORERS[1:]}
    evidence.labels |= {prefix + JOINT: f"{prefix}One planner for all applications"}
    _read_outcomes(run, evidence, apps, prefix, tasks)
    left_out = 0
    for planner, app in product(EXPLORERS, apps):
        paths = [path for path in (run.judged(planner, app), run.rollouts(planner, app)) if path.is_file()]
        kept = load_trajectories(paths[0]) if paths else []
        shown = set(list(dict.fromkeys(trajectory.task_id for trajectory in kept))[:train_tasks])
        for trajectory in kept:
            evidence.add_trajectory(
                "train", prefix + planner, trajectory, stepwise=trajectory.task_id in shown
            )
            left_out += trajectory.task_id not in shown
    _read_votes(run, profile, evidence, apps, prefix)
    for episode in evidence.episodes:
        task = tasks.get(episode["task"]) if episode["set"] in ("test", "greedy") else None
        if task and episode.setdefault("instruction", task.instruction) == task.instruction:
            checks = [condition(item) for item in task.evaluate]
            evidence.tasks[task.id] = {"checks": checks, "script": len(task.solution), "answer": task.ans}
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
    run: Run, evidence: Evidence, apps: Sequence[str], prefix: str, tasks: dict[str, Task]
) -> None:
    """The episodes at the test tasks: sampled ones with their trajectories where these are kept, greedy ones,
    ablations.
    """
    again = Replay()
    for system, app in product(run.profile().systems, apps):
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


def _played_by(run: Run, system: str, app: str, tasks: dict[str, Task], again: Replay) -> list[Trajectory]:
    """The trajectories of a system at the test tasks.

    Where these are kept without screenshots, ScienceDesk's are played again; a real application's stay as
    they are.
    """
    whole, bare = run.trajectories(system, app), run.actions(system, app)
    shown = load_trajectories(whole) if whole.is_file() else []
    if not bare.is_file():
        return shown
    kept = load_trajectories(bare, screens=False)
    if app in APPS:
        return replayed(kept, app, tasks, again)
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


def _read_votes(run: Run, profile: Profile, evidence: Evidence, apps: Sequence[str], prefix: str) -> None:
    own = find_votes(run)
    mixed = [pd.read_parquet(path) for path in map(run.judges, apps) if path.is_file()]
    sets = {"train": (own[own["app"].isin(apps)], voting_rules(profile.judge))}
    sets |= {"mix": (pd.concat(mixed, ignore_index=True), table2_rules(profile.judge))} if mixed else {}
    for of, (votes, rules) in sets.items():
        if len(votes):
            evidence.add_votes(
                votes, of, {planner: prefix + planner for planner in votes["planner"].unique()}, rules
            )
            evidence.standard[of] = Rule.of(profile.judge).name


def read_groups(run: Run, planner: str, app: str, evidence: Evidence, prefix: str = "") -> None:
    """Add the GRPO groups that the training of a round-1 planner or a specialist has kept."""
    for path in sorted(run.groups(app, planner).glob("*.parquet")):
        evidence.groups += [
            _group(group, prefix + planner, app, evidence) for group in pq.read_table(path).to_pylist()
        ]


def _group(group: dict, planner: str, app: str, evidence: Evidence) -> dict:
    """A GRPO group as `stages.groups` keeps it, with its advantages."""
    earned = [plan["reward"] for plan in group["plans"]]
    plans = [
        plan
        | {"actions": [plain(Action(**action)) for action in plan["actions"]], "advantage": float(advantage)}
        for plan, advantage in zip(group["plans"], advantages([earned])[0], strict=True)
    ]
    target = [plain(Action(**action)) for action in group["target"]]
    pictures = {name: evidence.pictures.add(group[name], app) for name in ("previous", "picture")}
    return group | pictures | {"planner": planner, "app": app, "target": target, "plans": plans}


def _lacking(evidence: Evidence, prefix: str, tasks: bool, left_out: int) -> list[str]:
    """What a student may look for and the run does not keep; `left_out` train episodes it does keep, and the
    page does not.
    """
    own = [episode for episode in evidence.episodes if episode["system"].startswith(prefix)]
    lacks = []
    for of, words in {"test": "test episodes", "train": "train episodes"}.items():
        without = sum(episode["set"] == of and "steps" not in episode for episode in own) - (
            left_out if of == "train" else 0
        )
        if not any(episode["set"] == of for episode in own):
            lacks.append(f"no {words}")
        elif without:
            lacks.append(
                f"of {without:,} {words} only the outcome is here, without screens, plans and actions"
            )
        if bare := sum(episode["set"] == of and episode.get("final", 0) is None for episode in own):
            lacks.append(
                f"of {bare:,} {words} plans and actions are here, without screens: those of a few are kept"
            )
    if not any("votes" in episode for episode in own):
        lacks.append("no votes of a judge")
    if not tasks and any(episode["set"] == "test" for episode in own):
        lacks.append(
            "the test tasks have changed since: their texts and checks are not shown where the run has "
            "not kept them"
        )
    if not any(group["planner"].startswith(prefix) for group in evidence.groups):
        lacks.append("no GRPO groups of stage 1")
    return lacks
