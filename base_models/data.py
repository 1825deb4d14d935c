"""What the base models learn from, and how much of it: walks, demonstrations, attempts and rollouts.

They are kept in files: an interrupted recipe goes on with the next file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, product
from pathlib import Path
from random import Random
from typing import Any

from base_models.accounts import Told, told_attempts, told_rollouts, told_screens
from base_models.curriculum import Roles, Steps
from base_models.demonstrators import demonstrations, questions
from base_models.hindsight import Hindsight
from base_models.planning import lessons
from base_models.rulings import Asked
from base_models.store import cached, made_once
from base_models.training_tasks import development_tasks, judge_tasks
from base_models.walks import Made, Transition, Walks, collect, opened
from coda_lib.action import Action, ActionType
from coda_lib.agent import Agent, load_agent
from coda_lib.applications import DESKTOP_APPS
from coda_lib.config import load_profile
from coda_lib.rollout import jobs, rollout
from coda_lib.task import Task
from coda_lib.trajectory import StopReason, Trajectory, load_trajectories, save_trajectories
from sciencedesk.desk.elements import Element
from sciencedesk.knowledge import kinds_of
from sciencedesk.perturb import perturbed

SEED = 0
KINDS = (Action, ActionType, Asked, Element, Hindsight, Told, Transition)  # of what is stored


@dataclass(frozen=True)
class Recipe:
    """Sizes of the recipe."""

    split: int = 1  # of goals into those that the planner is taught and others (data/tasks/knowledge.yaml)
    walk: int = 8_000  # steps of random walk an application
    test_walk: int = 600  # steps of other walks, for the figures
    demonstrations: int = 1_500  # an application
    questions: int = 600  # an application, each with up to four other values on its last screen
    shown: int = 40  # demonstrations at tasks of the development region, for the figures
    told: int = 2_500  # attempts an application for the judge
    screens: int = 2_500  # single screens of an application for the judge
    rollouts: int = 400  # tasks of the judge an application that the base planner tries
    unseen: int = 200  # tasks of the development region an application, for the judges' figures
    tries: int = 2  # episodes at each
    samples: int = 200  # things of a kind behind each figure of a card
    seeing: Steps = Steps()
    roles: Roles = Roles()

    @classmethod
    def of(cls, apps: Sequence[str]) -> Recipe:
        """The sizes for these applications: a step of a real one takes a hundred times as long."""
        return DESKTOP if are_real(apps) else cls()

    def scaled(self, scale: float) -> Recipe:
        """The recipe with a share of its samples and steps, for a trial."""

        def smaller(sizes: Any, kept: Collection[str] = ()) -> Any:
            counts = {name: count for name, count in vars(sizes).items()
                      if isinstance(count, int) and name not in kept}  # fmt: skip
            return replace(sizes, **{name: max(2, round(scale * count)) for name, count in counts.items()})

        return replace(
            smaller(self, ("split", "tries")), seeing=smaller(self.seeing), roles=smaller(self.roles)
        )


DESKTOP = Recipe(  # begins with ScienceDesk's network that sees
    walk=6_000, test_walk=800, demonstrations=300, shown=15, told=300, screens=2_500,
    rollouts=50, unseen=30, samples=100,
    seeing=Steps(letters=0, tokens=0, pointing=0, screens=10_000),
    roles=Roles(executor=10_000, how_tos=2_000, planner=6_000, base_judge=6_000, judge=3_000),
)  # fmt: skip
# of a real application in one file, so that what is interrupted loses a few minutes
_PIECES = {"walks": 500, "test_walks": 500, "demonstrations": 50, "shown": 15, "told": 100}
_PIECE = 50  # tasks of rollouts
SLIPS = 0.2  # share of random steps in demonstrations
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
    def test_walks(self) -> Walks:
        return self._made("test_walks", self.recipe.test_walk, SEED + 1, partial(collect, region="test"))

    @cached_property
    def taught(self) -> dict[str, set[str]]:
        """The goals of each application that the planner is taught."""
        kinds = {app: kinds_of(app, self.recipe.split) for app in self.apps}
        return {app: {goal for goal, kind in of_app.items() if kind == "taught"}
                for app, of_app in kinds.items()}  # fmt: skip

    @property
    def demonstrations(self) -> list[list[list[Hindsight]]]:
        return self._made("demonstrations", self.recipe.demonstrations, SEED, self._demonstrate)

    @property
    def answers(self) -> list[list[Hindsight]]:
        """Last decisions at questions; a real application shows no other value than its own."""
        if self.is_real:
            ends = [[decisions[-1] for decisions in of_app] for of_app in self.demonstrations]
            return [[end for end in of_app if "answer" in (end.step or {})] for of_app in ends]

        def make(app: str, count: int, seed: int | str) -> list[Hindsight]:
            return questions(app, lessons(app, self.taught), count, seed)

        return self._made("answers", self.recipe.questions, SEED, make)

    @property
    def shown(self) -> list[list[list[Hindsight]]]:
        """Demonstrations at tasks of the development region, without random steps."""
        make = partial(self._demonstrate, unseen=True)
        return self._made("shown", self.recipe.shown, SEED + 1, make)

    def _demonstrate(
        self, app: str, count: int, seed: int | str, unseen: bool = False
    ) -> list[list[Hindsight]]:
        tasks, slips = lessons(app, self.taught, unseen), 0.0 if unseen else SLIPS
        return demonstrations(app, tasks, count, slips, seed, self.is_real and not unseen)

    @property
    def told(self) -> list[list[Told]]:
        """Attempts by script, with random steps."""
        known = dict(zip(self.apps, self.walks, strict=True))

        def make(app: str, count: int, seed: int | str) -> list[Told]:
            return told_attempts(known[app], count, seed)

        return self._made("told", self.recipe.told, SEED, make)

    @property
    def told_screens(self) -> list[list[Told]]:
        """Single screens to rule on, which cost less."""
        return [told_screens(walk, self.recipe.screens, SEED) for walk in self.walks]

    def told_rollouts(self) -> list[list[Told]]:
        """The base planner's rollouts at the judge's tasks."""
        made = []
        for app, walk, played in zip(self.apps, self.walks, self.rollouts(), strict=True):
            make = partial(told_rollouts, walk, played, judge_tasks(app))
            made.append(self._stored(f"told_rollouts/{app}", make))
        return made

    def rollouts(self, unseen: bool = False) -> list[list[Trajectory]]:
        """The base planner's rollouts at the judge's tasks, or at `unseen` ones of the development region.

        It tries each task several times, in other windows: only both outcomes show what tells them apart.
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
        with made_once(path):
            if not path.exists():
                agent = trained_agent(self.folder, "base", "desktop" if self.is_real else "laptop")
                play = [(perturbed(task, run, "train"), run) for task, run in jobs(tasks, self.recipe.tries)]
                make = partial(opened, app)
                save_trajectories(path, rollout(agent, play, make, SEED, concurrency, report=print))
        return load_trajectories(path)


def trained_agent(folder: Path, name: str, profile: str) -> Agent:
    """Planner and executor of a recipe's folder, sampled as in a profile."""
    checkpoints = (str(folder.resolve() / role) for role in ("planner", "executor"))
    return load_agent(load_profile(profile), name, *checkpoints)
