"""The stages of a run, each a few calls: what a notebook runs, headless or by hand.

Every function reads the files of earlier stages and writes its own (layout: `coda_lib.run.Run`); nothing else passes between
stages.  Each derives its random numbers from the run's seed and its own name.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from coda_lib.agent import Agent, DualAgent, SoloAgent, models_of
from coda_lib.config import Profile, SamplingSettings
from coda_lib.dataset import grpo_rows, sft_rows
from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class
from coda_lib.errors import StageError
from coda_lib.executor import Executor
from coda_lib.explore import train_pool
from coda_lib.files import remove, write_table
from coda_lib.fleet.collect import Collection
from coda_lib.fleet.tasksets import Place, played
from coda_lib.generator import Generator, load_rounds, outcomes_of
from coda_lib.judge import Judge, JudgeScore, score
from coda_lib.models.chat import Sampling
from coda_lib.models.load import load_model, note_usage
from coda_lib.paths import checkpoint_path, display
from coda_lib.planner import Planner
from coda_lib.rollout import episodes, jobs
from coda_lib.run import Run
from coda_lib.stages.processes import launch
from coda_lib.task import Task, test_tasks
from coda_lib.trajectory import Trajectory, load_trajectories, save_trajectories

Progress = Callable[[int, int], None]


def use_threads(threads: int) -> None:
    """Torch threads of this process: part of the result to the last bit, and two stages side by side must not fight."""
    torch.set_num_threads(threads)


def stage_seed(profile: Profile, *names: str) -> int:
    """A seed below 2^31 for one stage of a run: the same for the same run seed and names, and unlike any other's."""
    digest = hashlib.sha256("/".join([str(profile.seed), *names]).encode()).digest()
    return int.from_bytes(digest[:4], "big") % 2**31


def sampling(settings: SamplingSettings) -> Sampling:
    return Sampling(settings.temperature, settings.top_p, settings.max_new_tokens)


def load_executor(profile: Profile, checkpoint: str | None = None) -> Executor:
    """The frozen executor of a profile, or another checkpoint in its place."""
    model = load_model(profile, "executor", checkpoint or profile.models.executor)
    return Executor(model, sampling(profile.executor), profile.prompts)


def load_agent(run: Run, system: str, app: str) -> Agent:
    """The agent of a system of Table 1, or of the planner 'base', 'specialist' or 'generalist', for one application."""
    profile = run.profile()
    executor = load_executor(profile)
    checkpoint = run.planner_checkpoint(system, app)
    if checkpoint is None:
        return SoloAgent(executor)
    model = load_model(profile, "planner", checkpoint)
    return DualAgent(Planner(model, sampling(profile.planner), profile.prompts), executor, system)


def train_tasks(run: Run, app: str) -> list[Task]:
    """The train tasks that a run explores, the same for every planner: from templates, or what its generator has made so far."""
    profile = run.profile()
    if profile.models.generator:
        return [task for one in load_rounds(run.generated(app), app) for task in one.tasks]
    return template_tasks(profile, app)


def template_tasks(profile: Profile, app: str) -> list[Task]:
    """A seeded draw from the train pool's tasks of the profile's grades."""
    pool = [task for task in train_pool(app, desk_class(app).defaults) if task.grade in profile.train_grades]
    if profile.train_tasks is None or profile.train_tasks >= len(pool):
        return pool
    return random.Random(stage_seed(profile, "train tasks", app)).sample(pool, profile.train_tasks)


def held_out_tasks(profile: Profile, app: str) -> list[Task]:
    """The test tasks that a run evaluates on: all, or a seeded draw in a smaller profile."""
    tasks = test_tasks(app)
    if profile.test_tasks is None or profile.test_tasks >= len(tasks):
        return tasks
    return random.Random(stage_seed(profile, "test tasks", app)).sample(tasks, profile.test_tasks)


def _roll(
    profile: Profile, agent: Agent, app: str, tasks: list[Task], runs: int, seed: int, fleet: Path, progress: Progress
) -> list[Trajectory]:
    """Each task so many times; a fleet, if the profile has one, keeps its episodes in the folder `fleet` meanwhile."""
    place = Place(app, tasks, partial(ScienceDesk, app), threads=ScienceDesk.threads)
    return played(
        place, agent, jobs(tasks, runs), seed, profile.concurrency, profile.step_limit, profile.fleet, fleet, progress=progress
    )


def explore(run: Run, planner: str, app: str, progress: Progress = lambda done, total: None) -> list[Trajectory]:
    """Roll out a planner ('base' or 'specialist') on the train tasks; writes rollouts/{planner}/{app}.parquet.

    Where a profile's generator makes the tasks, it makes them while the base planner explores: see `explore_in_rounds`.
    """
    if run.profile().models.generator and planner == "base":
        found = explore_in_rounds(run, app, progress)
    else:
        found = _explore(run, planner, app, progress)
    save_trajectories(run.rollouts(planner, app), found)
    Collection(run.fleet("explore", planner, app)).clear()
    for attempts in run.generated(app).glob("*/attempts.parquet"):
        remove(attempts)
    return found


def _explore(run: Run, planner: str, app: str, progress: Progress) -> list[Trajectory]:
    profile, agent = run.profile(), load_agent(run, planner, app)
    seed, fleet = stage_seed(profile, "explore", planner, app), run.fleet("explore", planner, app)
    found = _roll(profile, agent, app, train_tasks(run, app), profile.rollouts_per_task, seed, fleet, progress)
    note_usage(run, f"explore/{planner}/{app}", **models_of(agent))
    return found


def explore_in_rounds(run: Run, app: str, progress: Progress = lambda done, total: None) -> list[Trajectory]:
    """Have tasks made, try them, have one vote on each attempt, and so on; keeps the rounds in generated/{app}.

    What an interrupted stage has done is not done again.  StageError as of `Generator.go_on`, and if no task
    is left of all rounds.
    """
    profile, folder = run.profile(), run.generated(app)
    generator, agent, asked = load_generator(profile, app), load_agent(run, "base", app), load_judge(profile, votes=1)
    found, last = [], []
    for number in range(1, profile.generator.rounds + 1):
        name, attempts = f"explore-{number:02d}", folder / f"{number:02d}" / "attempts.parquet"
        if not attempts.exists():
            rounds = load_rounds(folder, app)
            if len(rounds) < number:
                rounds.append(generator.go_on(folder, outcomes_of(last), stage_seed(profile, "generate", app, name)))
            tasks, fleet = list(rounds[number - 1].tasks), attempts.with_name("fleet")
            seed = stage_seed(profile, name, "base", app)
            rolled = _roll(profile, agent, app, tasks, profile.rollouts_per_task, seed, fleet, progress)
            save_trajectories(attempts, asked.vote(rolled, stage_seed(profile, "judge", app, name)))
            remove(fleet)
        last = load_trajectories(attempts)
        found += [replace(one, verdicts=()) for one in last]  # the judge's own stage asks for all votes
    if not found:
        raise StageError(f"no task of {generator.model.name} for {app} was kept: {display(folder)} says why")
    note_usage(run, f"explore/base/{app}", **models_of(agent), generator=generator.model, judge=asked.model)
    return found


def load_generator(profile: Profile, app: str) -> Generator:
    """What makes a profile's train tasks."""
    model = load_model(profile, "generator", profile.models.generator)
    return Generator.of(model, sampling(profile.generator), app, profile.generator.tasks)


def load_judge(profile: Profile, checkpoint: str | None = None, **how: Any) -> Judge:
    """The judge of a profile, or its way of judging with another checkpoint; `how` are fields of `Judge` to be other ones."""
    model = load_model(profile, "judge", checkpoint or profile.models.judge)
    return Judge(model, sampling(profile.judge), profile.prompts, **({"votes": profile.judge.votes, "stop_at_no": True} | how))


def judge(run: Run, planner: str, app: str) -> tuple[list[Trajectory], JudgeScore]:
    """Let the judge vote on a planner's rollouts; writes judged/{planner}/{app}.parquet and the judge's own score beside it."""
    profile = run.profile()
    asked = load_judge(profile)
    judged = asked.vote(load_trajectories(run.rollouts(planner, app)), stage_seed(profile, "judge", planner, app))
    note_usage(run, f"judge/{planner}/{app}", judge=asked.model)
    save_trajectories(run.judged(planner, app), judged)
    return judged, score(judged)


def specialize_app(run: Run, app: str) -> Path:
    """Stage 1 for one application: GRPO on the positive steps of the base planner's judged rollouts; writes specialist/{app}/."""
    if configuration := run.profile().specialize.accelerate:
        launch(run, configuration, "specialize", app)
        return run.specialist(app)
    return specialize_here(run, app)


def specialize_here(run: Run, app: str) -> Path:
    """`specialize_app` by this process, alone or as one of several that `train.launch` has started."""
    from coda_lib.trainer import specialize, together  # TRL takes seconds to load, and other stages need none of it

    profile = run.profile()
    rows, executor = grpo_rows(load_trajectories(run.judged("base", app)), profile.prompts), load_executor(profile)
    folder = specialize(
        rows,
        checkpoint_path(profile.models.planner),
        executor,
        profile.specialize,
        profile.planner,
        run.specialist(app),
        stage_seed(profile, "specialize", app),
    )
    place = together().process_index  # each of several processes asks for itself
    note_usage(run, f"specialize/{app}-{place}" if place else f"specialize/{app}", executor=executor.model)
    return folder


def generalize_all(run: Run) -> Path:
    """Stage 2: SFT of a fresh base planner on the positive steps of all specialists' judged rollouts; writes generalist/."""
    if configuration := run.profile().generalize.accelerate:
        launch(run, configuration, "generalize")
        return run.generalist
    return generalize_here(run)


def generalize_here(run: Run) -> Path:
    """`generalize_all` by this process, alone or as one of several that `train.launch` has started."""
    from coda_lib.trainer import generalize

    profile = run.profile()
    judged = [t for app in profile.apps for t in load_trajectories(run.judged("specialist", app))]
    rows = sft_rows(judged, profile.prompts)
    seed = stage_seed(profile, "generalize")
    return generalize(rows, checkpoint_path(profile.models.planner), profile.generalize, run.generalist, seed)


def evaluate(run: Run, system: str, app: str, progress: Progress = lambda done, total: None) -> pd.DataFrame:
    """Run a system of Table 1 on the held-out tasks; writes evaluation/{system}/{app}.parquet, one row an episode.

    The trajectories behind the rows are kept in evaluation/{system}/{app}.trajectories.parquet.
    """
    profile, agent = run.profile(), load_agent(run, system, app)
    tasks, seed = held_out_tasks(profile, app), stage_seed(profile, "evaluate", system, app)
    found = _roll(profile, agent, app, tasks, profile.evaluation_runs, seed, run.fleet("evaluate", system, app), progress)
    note_usage(run, f"evaluate/{system}/{app}", **models_of(agent))
    table = episodes(found, tasks, system, profile.seed)
    save_trajectories(run.evaluation(system, app).with_suffix(".trajectories.parquet"), found)
    write_table(run.evaluation(system, app), table)
    Collection(run.fleet("evaluate", system, app)).clear()
    return table
