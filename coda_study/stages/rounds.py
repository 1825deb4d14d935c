"""Exploration with a task generator: rounds, each told how the last tasks went (paper, section 4)."""

from __future__ import annotations

from dataclasses import replace

from coda_lib.agent import models_of
from coda_lib.errors import StageError
from coda_lib.judge import Judge
from coda_lib.models.chat import Sampling
from coda_lib.models.load import load_model
from coda_lib.paths import display
from coda_lib.trajectory import Trajectory, load_trajectories, save_trajectories
from coda_study.draws import stage_seed
from coda_study.generator import Generator, feedback_of, load_rounds
from coda_study.owned import remove
from coda_study.run import Run
from coda_study.stages.common import Progress, play, system_agent, unreported
from coda_study.usage import note_usage


def explore_in_rounds(run: Run, app: str, progress: Progress = unreported) -> list[Trajectory]:
    """Make tasks, try them, ask the judge once about each attempt, and so on; writes generated/{app}/.

    What an interrupted stage has done is not done again.  StageError as of `Generator.next_round`, and if no
    task is left of all rounds.
    """
    profile, folder = run.profile(), run.generated(app)
    model = load_model(profile, "generator", profile.models.generator)
    generator = Generator.of(model, Sampling.of(profile.generator), app, profile.generator.tasks)
    agent, judge = system_agent(run, "base", app), Judge.load(profile, votes=1)
    trajectories, last = [], []
    for number in range(1, profile.generator.rounds + 1):
        name, attempts = f"explore-{number:02d}", folder / f"{number:02d}" / "attempts.parquet"
        if not attempts.exists():
            rounds = load_rounds(folder, app)
            if len(rounds) < number:
                seed = stage_seed(profile, "generate", app, name)
                rounds.append(generator.next_round(folder, feedback_of(last), seed))
            tasks, fleet = list(rounds[number - 1].tasks), attempts.with_name("fleet")
            seed = stage_seed(profile, name, "base", app)
            played = play(run, agent, app, tasks, profile.explore["base"].runs, seed, fleet, progress)
            save_trajectories(attempts, judge.vote(played, stage_seed(profile, "judge", app, name)))
            remove(fleet)
        last = load_trajectories(attempts)
        # the judge's own stage asks for all votes
        trajectories += [replace(attempt, verdicts=()) for attempt in last]
    if not trajectories:
        raise StageError(f"no task of {generator.model.name} for {app} is left: {display(folder)} says why")
    note_usage(run, f"explore/base/{app}", **models_of(agent), generator=generator.model, judge=judge.model)
    return trajectories
