"""The layout of one run: a folder under results/, and where each stage keeps its files in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from coda_lib.config import EXPLORERS, Profile, load_profile, profile_text, read_profile
from coda_lib.errors import UserError
from coda_lib.files import read_text, write_text
from coda_lib.paths import REFERENCE, RESULTS, checkpoint_path, display
from coda_study.owned import MARK, claim, is_free, kind_of


def _at(path: str) -> property:
    """A path in the run's folder."""
    return property(lambda run: run.folder / path)


def explorers(profile: Profile, planner: str | None = None) -> list[str]:
    """The planners of a profile that explore, in order: all, or those that a `planner` learns from."""
    return [name for name in EXPLORERS[: planner and EXPLORERS.index(planner)] if name in profile.explore]


@dataclass(frozen=True)
class Run:
    """The files of one run. `name` is a folder under results/, or an absolute path of a folder elsewhere."""

    name: str

    def __post_init__(self) -> None:
        is_name = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.name) and self.name != REFERENCE.name
        if not is_name and not Path(self.name).is_absolute():
            raise UserError(
                f"{self.name!r} names no run: use letters, digits, '.', '_' and '-', not 'reference'"
            )

    @property
    def folder(self) -> Path:
        return RESULTS / self.name

    profile_file = _at("profile.yaml")
    votes = _at("judged/votes.parquet")  # every vote of the judge, where it is kept without the trajectories
    generalist = _at("generalist")  # checkpoint folder
    base_models = _at("base_models")  # working folder of the appendix that trains the base models
    usage = _at("usage")  # what served models were asked, a file for each stage
    tables = _at("tables")
    table1 = _at("tables/table1.md")
    seeds = _at("seeds")  # the tables over several seeds of the run's study
    figures = _at("figures")
    claims = _at("claims.json")
    report = _at("report.html")
    view = _at("view.html")  # the page of the run's episodes, which the report's tables lead to
    manifest = _at("manifest.json")
    timings = _at("timings.json")  # seconds that each stage took when it last ended well; kept by --fresh
    notebooks = _at("notebooks")  # executed copies

    def profile(self, wanted: str | None = None) -> Profile:
        """The profile stored with the run, overrides included; before that, profiles/<wanted or laptop>.yaml.

        UserError if the stored one has another name than the wanted one.
        """
        if not os.path.lexists(self.profile_file):
            return load_profile(wanted or "laptop")
        stored = read_profile(self.profile_file)
        if wanted and wanted != stored.name:
            fault = f"run {self.folder.name} has profile {stored.name}, not {wanted}"
            raise UserError(f"{fault}: give profile {stored.name}, or another name of a run")
        return stored

    def store(self, profile: Profile) -> None:
        """Write the profile to profile.yaml unless the very same is there; mark a new folder as a run.

        UserError if the folder holds another profile.yaml and is not marked: it is somebody else's.
        """
        text = profile_text(profile)
        if is_free(self.folder):
            claim(self.folder, "run")
        if os.path.lexists(self.profile_file):
            if read_text(self.profile_file) == text:
                return
            self.require_marked()
        write_text(self.profile_file, text)

    def require_marked(self) -> None:
        """UserError unless the kit made the folder as that of a run."""
        if kind_of(self.folder) == "run":
            return
        fault = f"{display(self.folder)} is not the folder of a run: it has no mark {MARK}"
        earlier = f" (is it a run of an earlier version? Then: echo run > {self.folder / MARK})"
        hint = earlier if self.profile_file.exists() else ""
        raise UserError(f"{fault}; choose another name with --run{hint}")

    def explorer(self, profile: Profile | None = None) -> Run:
        """The run whose draw of tasks, base rollouts and judgments this one uses: itself, or `explored`."""
        explored = (profile or self.profile()).explored
        return Run(str(self.folder.parent / explored)).explorer() if explored else self

    def _explored(self, planner: str) -> Path:
        return (self.explorer() if planner == "base" else self).folder

    def rollouts(self, planner: str, app: str) -> Path:
        return self._explored(planner) / "rollouts" / planner / f"{app}.parquet"

    def generated(self, app: str) -> Path:
        """The rounds of tasks that a chat model made, where the profile has one make them."""
        return self._explored("base") / "generated" / app

    def judged(self, planner: str, app: str) -> Path:
        return self._explored(planner) / "judged" / planner / f"{app}.parquet"

    def judge_scores(self, planner: str, app: str) -> Path:
        """Precision and recall of the judge against the environment's own check, as JSON."""
        return self._explored(planner) / "judged" / planner / f"{app}.json"

    def judges(self, app: str) -> Path:
        """The votes behind Table 2: of several judges, on a mix of the run's trajectories."""
        return self.folder / "judges" / f"{app}.parquet"

    def specialist(self, app: str, planner: str = "specialist") -> Path:
        """Checkpoint folder of an application's specialist, or of a round before it."""
        return self.folder / planner / app

    def groups(self, app: str, planner: str = "specialist") -> Path:
        """Some GRPO groups of that training, a file for each optimizer step that is looked at."""
        return self.specialist(app, planner) / "groups"

    def label_votes(self, app: str) -> Path:
        """The votes of Table 2's judges on the base planner's rollouts, for ablations of the labels."""
        return self.folder / "ablations" / "votes" / f"{app}.parquet"

    def variant(self, name: str, part: str) -> Path:
        """Checkpoint folder of an ablation's planner for an application, or for 'all' of them."""
        return self.folder / "ablations" / name / part

    def ablation(self, name: str) -> Path:
        """The episodes of an ablation at the held-out tasks of all applications."""
        return self.folder / "ablations" / f"{name}.parquet"

    def curve(self, tasks: int, name: str) -> Path:
        """Of so many train tasks: the `judged` attempts, or the episodes of the planner trained on them."""
        return self.folder / "curve" / f"{tasks}-{name}.parquet"

    def transfer(self, app: str) -> Path:
        """The episodes with new executors, or in an application that nothing was trained on."""
        return self.folder / "ablations" / "transfer" / f"{app}.parquet"

    def evaluation(self, system: str, app: str) -> Path:
        return self.folder / "evaluation" / system / f"{app}.parquet"

    def greedy(self, system: str, app: str) -> Path:
        """The episodes of `evaluation` once more at temperature 0, one of each task."""
        return self.evaluation(system, app).with_suffix(".greedy.parquet")

    def sealed(self, system: str, app: str) -> Path:
        """The episodes of a system at the profile's sealed tasks."""
        return self.evaluation(system, app).with_suffix(".sealed.parquet")

    def baselines(self, app: str) -> Path:
        """The episodes of what stands beside Table 1 (`stages.baselines`) at the held-out tasks."""
        return self.folder / "baselines" / f"{app}.parquet"

    def tried(self, app: str) -> Path:
        """The base planner's episodes at development tasks, at each temperature that a profile tries."""
        return self.baselines(app).with_suffix(".tried.parquet")

    def trajectories(self, system: str, app: str) -> Path:
        """The trajectories behind `evaluation`."""
        return self.evaluation(system, app).with_suffix(".trajectories.parquet")

    def actions(self, system: str, app: str) -> Path:
        """The same without screenshots, where a run is kept small (`envs.sciencedesk.replay`)."""
        return self.evaluation(system, app).with_suffix(".actions.parquet")

    def fleet(self, purpose: str, system: str, app: str) -> Path:
        """Where the episodes of a stage are kept one by one while a fleet plays them."""
        return self.folder / "fleet" / purpose / system / app

    def stage_record(self, stage: str) -> Path:
        """What is known of a stage ('explore/base/gis'): state, times, memory, hashes of files."""
        return self.folder / "stages" / f"{stage.replace('/', '-')}.json"

    def planner_checkpoint(self, planner: str, app: str) -> str | None:
        """The checkpoint behind a planner ('base', 'round1', 'specialist', 'generalist', …) or a system of
        Table 1: 'base', 'executor' (no planner: None), 'stage1' (the specialist of `app`), 'stage2' (the
        generalist).
        """
        match planner:
            case "executor":
                return None
            case "base":
                return checkpoint_path(self.profile().models.planner)
            case "stage1":
                return str(self.specialist(app))
            case "generalist" | "stage2":
                return str(self.generalist)
            case _ if planner in EXPLORERS:
                return str(self.specialist(app, planner))
        known = "base, executor, a round, specialist, generalist, stage1 or stage2"
        raise UserError(f"unknown planner or system {planner!r}: choose {known}")
