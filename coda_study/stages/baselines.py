"""Stage `baselines`: what stands beside Table 1 to be beaten (notebook 19).

Blind agents, which look at no screen: a recording of each test task, one of the train task that is nearest in
words, and random clicks.  And the base planner at its best temperature, which is chosen on development tasks.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pandas as pd
from rapidfuzz import fuzz, process

from coda_lib.action import Action
from coda_lib.agent import Decision, DualAgent, ScriptAgent, models_of
from coda_lib.applications import DESKTOP_APPS
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.files import write_table
from coda_lib.paths import display
from coda_lib.planner import Observation, Planner
from coda_lib.rollout import episodes
from coda_lib.task import Task
from coda_lib.trajectory import Step, Trajectory, load_trajectories
from coda_study.draws import held_out_tasks, runs_of, stage_seed
from coda_study.fleet.collection import Collection
from coda_study.run import Run
from coda_study.stages.common import Progress, begin, part_of, play, play_jobs, system_agent, unreported
from coda_study.usage import note_usage
from sciencedesk.make import defaults
from sciencedesk.space import draw, space

__all__ = ["begin", "blind", "run"]

Jobs = list[tuple[Task, int]]
Asked = TypeVar("Asked", Task, Trajectory)


class Recording(ScriptAgent):
    """Plays the steps that are recorded for an instruction, and then DONE, whatever the screen shows."""

    def __init__(self, name: str, recordings: Mapping[str, Sequence[Step]]):
        super().__init__(recordings, _recorded)
        self.name = name


def _recorded(step: Step, observation: Observation) -> tuple[str, tuple[Action, ...]]:
    return step.plan, step.actions


class RandomClicks:
    """Clicks anywhere at every step, and never ends an episode."""

    name = "random"

    def decide(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        rng = random.Random(seed)
        return [Decision("", "", (Action.click(rng.random(), rng.random()),)) for _ in observations]


def first_solved(played: Sequence[Trajectory]) -> dict[str, Trajectory]:
    """The first solved run of each task that has one, by the task's id."""
    solved = sorted((t for t in played if t.success), key=lambda trajectory: trajectory.run)
    return {trajectory.task_id: trajectory for trajectory in reversed(solved)}


def nearest(instruction: str, played: Sequence[Asked]) -> Asked | None:
    """Of attempts, or tasks, the one with most nearly the same words, in any order; None of none."""
    found = process.extractOne(instruction, [t.instruction for t in played], scorer=fuzz.token_sort_ratio)
    return played[found[2]] if found else None


def recordings(
    run: Run, app: str, test: Path, train: Path | None
) -> dict[str, tuple[Jobs, list[Sequence[Step]]]]:
    """What blind agents that repeat something play: by name the jobs, and the steps recorded for each.

    `test` and `train` are files of the base planner's attempts at test and train tasks; without the second
    there is no `nearest`.  Where runs differ a recording of a test task is played in the others alone (in all
    but run 0 if no run solved it: then there is nothing to repeat).  UserError for attempts at other tasks,
    or at runs that were perturbed otherwise.
    """
    profile = run.profile()
    jobs = runs_of(profile, held_out_tasks(run, app), profile.evaluation_runs, "test")
    own = first_solved(load_trajectories(test, screens=False))
    asked = {(task.id, number): task.instruction for task, number in jobs}
    for attempt in own.values():
        if (now := asked.get((attempt.task_id, attempt.run))) != attempt.instruction:
            fault = (
                f"{display(test)}: {attempt.task_id}, run {attempt.run}, was asked {attempt.instruction!r}"
            )
            raise UserError(f"{fault}, and now is {now!r}: evaluate the base planner again on these runs")
    its_own = {task.id: own[task.id].run if task.id in own else 0 for task, _ in jobs}
    others = [(task, number) for task, number in jobs if number != its_own[task.id] or not profile.perturb]
    chosen = {"replay": (others, [own.get(task.id) for task, _ in others])}
    if train:
        solved = list(first_solved(load_trajectories(train, screens=False)).values())
        chosen["nearest"] = jobs, [nearest(task.instruction, solved) for task, _ in jobs]
    return {name: (todo, [t.steps if t else () for t in found]) for name, (todo, found) in chosen.items()}


def blind(
    run: Run, app: str, test: Path, train: Path | None = None, progress: Progress = unreported
) -> pd.DataFrame:
    """Let blind agents play the held-out tasks: a row for each episode; files as in `recordings`.

    Nobody clicks at random in real applications: they are no sandbox.
    """
    profile, tasks, players = run.profile(), held_out_tasks(run, app), []
    for name, (jobs, steps) in recordings(run, app, test, train).items():
        # two tasks may be worded alike in some runs: each episode finds its recording by a name of its own
        named = [(replace(task, instruction=f"{task.id} {number}"), number) for task, number in jobs]
        keys = [task.instruction for task, _ in named]
        players.append((Recording(name, dict(zip(keys, steps, strict=True))), named))
    if app not in DESKTOP_APPS:
        players.append((RandomClicks(), runs_of(profile, tasks, profile.evaluation_runs, "test")))
    done, total, tables = 0, sum(len(jobs) for _, jobs in players), []
    for agent, jobs in filter(lambda player: player[1], players):
        fleet, seed = run.fleet("baselines", app, agent.name), stage_seed(profile, "baselines", app)
        played = play_jobs(run, agent, app, jobs, seed, fleet, part_of(progress, done, total))
        tables.append(episodes(played, tasks, agent.name, profile.seed))
        done += len(jobs)
    return pd.concat(tables, ignore_index=True)


def at(agent: DualAgent, temperature: float, name: str) -> DualAgent:
    """An agent whose planner and executor are sampled at a temperature."""
    (planner, seen), (executor, told) = (
        (part, replace(part.sampling, temperature=temperature)) for part in (agent.planner, agent.executor)
    )
    planner = Planner(planner.model, seen, planner.prompts)
    return DualAgent(planner, Executor(executor.model, told, executor.prompts), name)


def tried(run: Run, agent: DualAgent, app: str, progress: Progress = unreported) -> pd.DataFrame:
    """Play development tasks at each temperature of the profile: a row an episode, with `temperature`."""
    profile = run.profile()
    wanted, seed = profile.baselines, stage_seed(profile, "baselines", app)
    tasks = draw(space(app), "development", wanted.tasks, seed, defaults(app))
    count, tables = len(tasks) * wanted.runs, []
    for number, temperature in enumerate(wanted.temperatures):
        player, fleet = at(agent, temperature, "base"), run.fleet("baselines", app, f"tried-{temperature:g}")
        on_progress = part_of(progress, number * count, len(wanted.temperatures) * count)
        played = play(run, player, app, tasks, wanted.runs, seed, fleet, on_progress, "development")
        tables.append(episodes(played, tasks, "base", profile.seed).assign(temperature=temperature))
    return pd.concat(tables, ignore_index=True)


def best_temperature(table: pd.DataFrame) -> float:
    """The temperature at which most episodes of `tried` succeed; of several the one tried first."""
    solved = table["success"].astype("boolean").groupby(table["temperature"], sort=False).mean()
    return float(solved.idxmax())


def run(run: Run, app: str, progress: Progress = unreported) -> pd.DataFrame:
    """Play the baselines on the held-out tasks; returns a row for each episode.

    Writes baselines/{app}.parquet (the rows) and, if the profile tries temperatures, .tried.parquet.
    """
    profile, tasks, wanted = run.profile(), held_out_tasks(run, app), run.profile().baselines
    count, tries = len(tasks) * profile.evaluation_runs, len(wanted.temperatures) * wanted.tasks * wanted.runs
    total = 3 * count + (tries + count if tries else 0)
    files = run.trajectories("base", app), run.rollouts("base", app)
    tables = [blind(run, app, *files, part_of(progress, 0, total))]
    if tries:
        agent, seed = system_agent(run, "base", app), stage_seed(profile, "baselines", app)
        attempts = tried(run, agent, app, part_of(progress, total - count - tries, total))
        temperature, fleet = best_temperature(attempts), run.fleet("baselines", app, "best")
        best = at(agent, temperature, "best")
        on_progress = part_of(progress, total - count, total)
        played = play(run, best, app, tasks, profile.evaluation_runs, seed, fleet, on_progress, "test")
        tables.append(episodes(played, tasks, best.name, profile.seed).assign(temperature=temperature))
        note_usage(run, f"baselines/{app}", **models_of(agent))
        write_table(run.tried(app), attempts)
    table = pd.concat(tables, ignore_index=True)
    write_table(run.baselines(app), table)
    for folder in sorted(run.fleet("baselines", app, "").glob("*")):
        Collection(folder).clear()
    return table
