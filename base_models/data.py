"""What the base models learn from, and how much of it: walks, demonstrations, attempts and rollouts.

They are kept in files: an interrupted recipe goes on with the next file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, product, starmap
from pathlib import Path
from random import Random
from typing import Any

from base_models.attempts import Attempt, Question, labelled_attempts
from base_models.checks import unseen_attempts
from base_models.hindsight import Hindsight
from base_models.sources import UNSURE
from base_models.store import cached
from base_models.text_attempts import text_attempts
from base_models.training_tasks import demonstrations, development_tasks, judge_tasks
from base_models.walks import Made, Transition, Walk, Walks, collect, opened
from coda_lib.action import Action, ActionType
from coda_lib.agent import Agent, load_agent
from coda_lib.applications import DESKTOP_APPS
from coda_lib.config import load_profile
from coda_lib.rollout import jobs, rollout
from coda_lib.task import Task
from coda_lib.trajectory import StopReason, Trajectory, load_trajectories, save_trajectories
from sciencedesk.desk.elements import Element

SEED = 0
KINDS = (Action, ActionType, Attempt, Element, Hindsight, Question, Transition)  # of what is stored


@dataclass(frozen=True)
class Recipe:
    """Sizes of the recipe."""

    walk: int = 20_000  # steps of random walk an application
    test_walk: int = 1_500  # steps of other walks, for the figures
    copying: int = 300  # steps of 64 texts without pictures
    letters: int = 1_600  # steps of 16 pages
    vision: int = 1_200  # steps of 16 screens and pages
    pointing: int = 2_000  # steps of the executor's rows, for the reader
    reader: int = 1_000  # steps of 24 screens
    executor: int = 2_000  # steps of 16 screens with up to 32 plans each, 16 instructions or 16 texts
    demonstrations: int = 800  # an application
    how_tos: int = 400  # steps of 64 how-tos
    values: int = 1_000  # steps of 48 values to copy
    planner: int = 1_000  # steps of 32 rows
    rollouts: int = 1_500  # tasks of the judge an application that the base planner tries
    unseen: int = 1_500  # tasks of the development region an application, for the judges' figures
    tries: int = 3  # episodes at each
    attempts: int = 2_500  # an application, by script or of the rollouts, for the judge
    in_words: int = 9_000  # attempts in words an application
    rulings: int = 1_000  # steps of 64 attempts in words
    screens: int = 1_200  # steps of 16 single screens
    scripts: int = 150  # attempts by script an application, for the base judge
    base_judge: int = 300  # steps of 8 attempts
    judge: int = 2_400  # steps of 8 attempts
    judged_walk: int = 20_000  # steps of the walk that judges learn from
    samples: int = 1_000  # rows behind each figure of a card

    @classmethod
    def of(cls, apps: Sequence[str]) -> Recipe:
        """The sizes for these applications: a step of a real one takes a hundred times as long."""
        return DESKTOP if are_real(apps) else cls()

    def scaled(self, scale: float) -> Recipe:
        """The recipe with a share of its samples and steps, for a trial."""
        return replace(self, **{name: max(2, round(value * scale)) for name, value in vars(self).items()})


DESKTOP = Recipe(  # begins with ScienceDesk's executor: no copying, letters, pointing and reader
    walk=6_000, test_walk=800, copying=0, letters=0, vision=800, pointing=0, reader=0, executor=1_000,
    demonstrations=300, judged_walk=3_000, rollouts=50, unseen=30, tries=2, attempts=160, in_words=150,
    scripts=60, rulings=400, screens=400, base_judge=200, judge=600, samples=600,
)  # fmt: skip
# of a real application in one file, so that what is interrupted loses a few minutes
_PIECES = {
    "walks": 500, "test_walks": 500, "demonstrations": 50, "in_words": 100, "scripts": 50, "attempts": 100,
}  # fmt: skip
_PIECE = 50  # tasks of rollouts
# of random steps in demonstrations on real applications: with 60 % one in twelve on KAlgebra solved its task,
# at 5 s each
_SLIPS = 0.4
_AT_ONCE = 3  # windows of real applications; a fourth makes two cores no faster


def are_real(apps: Sequence[str]) -> bool:
    """Whether these are real applications; a recipe is for one kind."""
    return set(apps) <= set(DESKTOP_APPS)


def _side_by_side(make: Callable[..., Made], jobs: Sequence[tuple[Any, ...]]) -> list[Made]:
    """`make` of each job, as many at once as there may be windows."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda job: make(*job), jobs))


@dataclass(frozen=True)
class Data:
    """What the parts of a recipe learn from, one list an application, stored in `folder` if it takes long."""

    folder: Path
    apps: Sequence[str]
    recipe: Recipe

    @property
    def is_real(self) -> bool:
        return are_real(self.apps)

    def _stored(self, name: str, make: Callable[[], Any]) -> Any:
        return cached(self.folder / f"{name}.parquet", make, KINDS)

    def _made(
        self, name: str, count: int, seed: int, make: Callable[[str, int, int | str], list[Any]]
    ) -> list[list[Any]]:
        """`count` things of each application by `make(app, count, seed)`, in files of their own.

        Those of real applications, which are programs of their own, come in pieces, each with its own seed,
        made side by side.
        """
        if not self.is_real:
            return [self._stored(f"{name}/{app}", partial(make, app, count, seed)) for app in self.apps]
        size = _PIECES[name]

        def piece(start: int, app: str) -> list[Any]:
            part = partial(make, app, min(size, count - start), f"{seed}/{start}")
            return self._stored(f"{name}/{start:06}/{app}", part)

        pieces = _side_by_side(piece, list(product(range(0, count, size), self.apps)))
        width = len(self.apps)
        return [list(chain.from_iterable(pieces[i::width])) for i in range(width)]

    @cached_property
    def walks(self) -> Walks:
        return self._made("walks", self.recipe.walk, SEED, collect)

    @cached_property
    def judged_walks(self) -> Walks:
        """The beginnings of the walks; of real applications whole pieces are made, and no others."""
        length = self.recipe.judged_walk
        if self.is_real:
            pieces = -(-length // _PIECES["walks"]) * _PIECES["walks"]
            walks = self._made("walks", min(pieces, self.recipe.walk), SEED, collect)
        else:
            walks = self.walks
        return [walk[:length] for walk in walks]

    @cached_property
    def test_walks(self) -> Walks:
        return self._made("test_walks", self.recipe.test_walk, SEED + 1, partial(collect, region="test"))

    @property
    def demonstrations(self) -> list[list[list[Hindsight]]]:
        slips = _SLIPS if self.is_real else UNSURE

        def make(app: str, count: int, seed: int | str) -> list[list[Hindsight]]:
            return demonstrations(app, count, slips, seed, self.is_real)

        return self._made("demonstrations", self.recipe.demonstrations, SEED, make)

    @property
    def in_words(self) -> list[list[Attempt]]:
        return self._made("in_words", self.recipe.in_words, SEED, text_attempts)

    @property
    def scripts(self) -> list[list[Attempt]]:
        return self._labelled("scripts", self.recipe.scripts, SEED + 1, [[] for _ in self.apps])

    @property
    def attempts(self) -> list[list[Attempt]]:
        return self._labelled("attempts", self.recipe.attempts, SEED, self.rollouts())

    def _labelled(
        self, name: str, count: int, seed: int, rollouts: Sequence[list[Trajectory]]
    ) -> list[list[Attempt]]:
        known = dict(zip(self.apps, zip(self.judged_walks, rollouts, strict=True), strict=True))

        def make(app: str, count: int, seed: int | str) -> list[Attempt]:
            return labelled_attempts(*known[app], count, seed)

        return self._made(name, count, seed, make)

    def unseen_attempts(self) -> dict[str, list[Attempt]]:
        """The attempts that the figures of both judges rest on, by kind."""
        size, pieces = _PIECE if self.is_real else self.recipe.unseen, []
        for app, walk, played in zip(self.apps, self.test_walks, self.rollouts(unseen=True), strict=True):
            tasks = list(dict.fromkeys(trajectory.task_id for trajectory in played))
            for start in range(0, len(tasks), size):
                part = [rollout for rollout in played if rollout.task_id in tasks[start : start + size]]
                pieces.append((f"{start:06}/{app}", walk, part))
        count = max(1, self.recipe.samples // 3 // len(pieces))

        def piece(name: str, walk: Walk, played: Sequence[Trajectory]) -> dict[str, list[Attempt]]:
            made = partial(unseen_attempts, walk, played, count, f"{SEED + 1}/{name}")
            return self._stored(f"unseen_attempts/{name}", made)

        pieces.sort(key=lambda piece: piece[0])  # side by side are different applications
        parts = _side_by_side(piece, pieces) if self.is_real else list(starmap(piece, pieces))
        return {kind: [attempt for part in parts for attempt in part[kind]] for kind in parts[0]}

    def rollouts(self, unseen: bool = False) -> list[list[Trajectory]]:
        """The base planner's rollouts at the judge's tasks, or at `unseen` ones of the development region.

        It tries each task several times: only both outcomes of a task show what tells them apart.
        """
        suffix = "-unseen" if unseen else ""
        tasks = {app: self._drawn_tasks(app, unseen) for app in self.apps}
        if not self.is_real:
            return [self._played(app, f"{app}{suffix}", tasks[app]) for app in self.apps]
        starts = range(0, max(map(len, tasks.values())), _PIECE)
        pieces = [
            (app, f"{app}{suffix}/{start:06}", tasks[app][start : start + _PIECE], 1)
            for start, app in product(starts, self.apps)
            if tasks[app][start:]
        ]
        played: dict[str, list[Trajectory]] = {app: [] for app in self.apps}
        for (app, *_), piece in zip(pieces, _side_by_side(self._played, pieces), strict=True):
            played[app] += [rollout for rollout in piece if rollout.stop is not StopReason.ENVIRONMENT_ERROR]
        return list(played.values())

    def _drawn_tasks(self, app: str, unseen: bool) -> list[Task]:
        tasks = [task for _, task in (development_tasks if unseen else judge_tasks)(app)]
        count = self.recipe.unseen if unseen else self.recipe.rollouts
        return Random(f"rollouts of {app}").sample(tasks, min(count, len(tasks)))

    def _played(self, app: str, name: str, tasks: Sequence[Task], concurrency: int = 64) -> list[Trajectory]:
        path = self.folder / "rollouts" / f"{name}.parquet"
        if not path.exists():
            agent = trained_agent(self.folder, "base", "desktop" if self.is_real else "laptop")
            play, make = jobs(tasks, self.recipe.tries), partial(opened, app)
            save_trajectories(path, rollout(agent, play, make, SEED, concurrency, report=print))
        return load_trajectories(path)


def trained_agent(folder: Path, name: str, profile: str) -> Agent:
    """Planner and executor of a recipe's folder, sampled as in a profile."""
    checkpoints = (str(folder.resolve() / role) for role in ("planner", "executor"))
    return load_agent(load_profile(profile), name, *checkpoints)
