"""The finished episodes of a fleet: one file each, in a folder that one master at a time writes to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from coda_lib.errors import UserError
from coda_lib.files import locked, read_json, safe_name, write_json
from coda_lib.trajectory import StopReason, Trajectory, load_trajectories, save_trajectories
from coda_study.fleet.workers import Job
from coda_study.owned import belongs, claim, remove


class Collection:
    def __init__(self, folder: Path):
        self.folder, self.status_file = folder, folder / "status.json"

    def file(self, job: Job, broken: bool = False) -> Path:
        name = f"{safe_name(job.task.id)}.{job.run}{'.fault' if broken else ''}.parquet"
        return self.folder / "episodes" / name

    def has(self, job: Job) -> bool:
        """Whether the episode is there with an outcome; one that broke is played again by the next call."""
        return self.file(job).exists()

    def save(self, job: Job, trajectory: Trajectory) -> None:
        broken = trajectory.stop is StopReason.ENVIRONMENT_ERROR
        save_trajectories(self.file(job, broken), [trajectory])
        if not broken:
            remove(self.file(job, broken=True))

    def load(self, job: Job) -> Trajectory:
        return load_trajectories(self.file(job, broken=not self.has(job)))[0]

    def clear(self) -> None:
        """Delete the episodes, so that the next call starts anew; the status stays.

        UserError if another process fills the folder, or if it is not the kit's own.
        """
        if kept := [path for path in (self.folder / "episodes", self.folder / "about.json") if path.exists()]:
            with self._locked():
                for path in kept:
                    remove(path)

    def _locked(self) -> AbstractContextManager:
        refusal = f"{self.folder} is being filled by another process: see `coda fleet status`"
        return locked(self.folder / ".lock", refusal)

    @contextmanager
    def held(self, about: dict[str, Any]) -> Iterator[None]:
        """Lock the folder, which is made and marked if it is not there.

        UserError if another master holds it, if its episodes were played otherwise than `about`, or if it
        holds something else.
        """
        # in a run, where the folder belongs to it, it may hold the record of a stage already
        if not belongs(self.folder / "episodes"):
            claim(self.folder, "fleet")
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            settings = self.folder / "about.json"
            if settings.exists() and (known := read_json(settings)) != about:
                held = f"{self.folder} holds episodes of {known}"
                raise UserError(f"{held}, not of {about}: give another folder")
            write_json(settings, about)
            yield
