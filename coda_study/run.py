"""The layout of one run: a folder under results/, and where each stage keeps its files in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from coda_lib.config import Profile, load_profile, profile_text, read_profile
from coda_lib.errors import UserError
from coda_lib.files import read_text, write_text
from coda_lib.paths import REFERENCE, RESULTS, checkpoint_path, display
from coda_study.owned import MARK, claim, is_free, kind_of


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

    def profile(self, default: str = "laptop") -> Profile:
        """The profile stored with the run, overrides included; before that, profiles/<default>.yaml."""
        return (
            read_profile(self.profile_file) if os.path.lexists(self.profile_file) else load_profile(default)
        )

    def store(self, profile: Profile) -> None:
        """Write the profile to the run's profile.yaml unless the very same is there; a new folder is marked
        as a run.

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

    @property
    def marked(self) -> bool:
        """Whether the kit made the folder as that of a run."""
        return kind_of(self.folder) == "run"

    def require_marked(self) -> None:
        """UserError unless the kit made the folder."""
        if not self.marked:
            mark = self.folder / MARK
            raise UserError(
                f"{display(self.folder)} is not the folder of a run: it has no mark {MARK}; choose "
                "another name with --run"
                + (
                    f" (is it a run of an earlier version? Then: echo run > {mark})"
                    if self.profile_file.exists()
                    else ""
                )
            )

    @property
    def profile_file(self) -> Path:
        return self.folder / "profile.yaml"

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

    @property
    def votes(self) -> Path:
        """Every vote of the run's judge as one small table, where it is kept without the trajectories."""
        return self.folder / "judged" / "votes.parquet"

    def judges(self, app: str) -> Path:
        """The votes behind Table 2: of several judges, on a mix of the run's trajectories."""
        return self.folder / "judges" / f"{app}.parquet"

    def specialist(self, app: str, planner: str = "specialist") -> Path:
        """Checkpoint folder of an application's specialist, or of the 'round1' before it."""
        return self.folder / planner / app

    def groups(self, app: str, planner: str = "specialist") -> Path:
        """Some GRPO groups of that training, a file for each optimizer step that is looked at."""
        return self.specialist(app, planner) / "groups"

    @property
    def generalist(self) -> Path:
        return self.folder / "generalist"

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

    @property
    def base_models(self) -> Path:
        """Working folder of the appendix that trains the base models."""
        return self.folder / "base_models"

    def evaluation(self, system: str, app: str) -> Path:
        return self.folder / "evaluation" / system / f"{app}.parquet"

    def greedy(self, system: str, app: str) -> Path:
        """The episodes of `evaluation` once more without chance: one of each task at temperature 0."""
        return self.evaluation(system, app).with_suffix(".greedy.parquet")

    def sealed(self, system: str, app: str) -> Path:
        """The episodes of a system at the profile's sealed tasks."""
        return self.evaluation(system, app).with_suffix(".sealed.parquet")

    def trajectories(self, system: str, app: str) -> Path:
        """The trajectories behind `evaluation`."""
        return self.evaluation(system, app).with_suffix(".trajectories.parquet")

    def actions(self, system: str, app: str) -> Path:
        """The same without screenshots, where a run is kept small (`envs.sciencedesk.replay`)."""
        return self.evaluation(system, app).with_suffix(".actions.parquet")

    def fleet(self, purpose: str, system: str, app: str) -> Path:
        """Where the episodes of a stage are kept one by one while a fleet plays them."""
        return self.folder / "fleet" / purpose / system / app

    @property
    def usage(self) -> Path:
        """What served models were asked, a file for each stage."""
        return self.folder / "usage"

    @property
    def tables(self) -> Path:
        return self.folder / "tables"

    @property
    def table1(self) -> Path:
        return self.tables / "table1.md"

    @property
    def seeds(self) -> Path:
        """The tables over several seeds of the run's study."""
        return self.folder / "seeds"

    @property
    def figures(self) -> Path:
        return self.folder / "figures"

    @property
    def claims(self) -> Path:
        return self.folder / "claims.json"

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def view(self) -> Path:
        """The page of the run's episodes, which the report's tables lead to."""
        return self.folder / "view.html"

    @property
    def manifest(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def timings(self) -> Path:
        """Seconds that each stage took when it last ended well; kept by --fresh."""
        return self.folder / "timings.json"

    @property
    def notebooks(self) -> Path:
        """Executed copies of the notebooks."""
        return self.folder / "notebooks"

    def stage_record(self, stage: str) -> Path:
        """What is known of a stage ('explore/base/gis'): state, times, memory, hashes of files."""
        return self.folder / "stages" / f"{stage.replace('/', '-')}.json"

    def planner_checkpoint(self, planner: str, app: str) -> str | None:
        """Return the checkpoint behind a planner ('base', 'round1', 'specialist', 'generalist') or a system
        of Table 1.

        Systems: 'base', 'executor' (no planner: None), 'stage1' (the specialist of `app`), 'stage2' (the
        generalist).
        """
        if planner in ("specialist", "stage1"):
            return str(self.specialist(app))
        if planner == "round1":
            return str(self.specialist(app, planner))
        if planner in ("generalist", "stage2"):
            return str(self.generalist)
        if planner == "executor":
            return None
        if planner == "base":
            return checkpoint_path(self.profile().models.planner)
        known = "base, executor, round1, specialist, generalist, stage1 or stage2"
        raise UserError(f"unknown planner or system {planner!r}: choose {known}")
