"""Task spaces: the goals of an application with typed values, alone and combined, split once by content.

data/tasks/spaces/APP.yaml has the goals; the file of Algebra explains its form.  The values of a goal come
from ranges, vocabularies and their combinations.  A hash of what a goal with a value asks says whether it is
to be trained on, decided on or tested with; tasks that combine several follow (`region`).  Nothing crosses,
whatever is drawn by whichever seed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from coda_lib.applications import SPACE_APPS
from coda_lib.errors import UserError
from coda_lib.files import reading
from coda_lib.paths import DATA, display
from coda_lib.task import GRADES, Task, test_tasks
from sciencedesk.content import contents_of, goal_state, joined, plain, script_text
from sciencedesk.goals import Aim, Goal, are_apart, compose, goals_of
from sciencedesk.goals import aims as seed_aims

REGIONS = ("train", "development", "test")
_LIMITS = {"test": 0.2, "development": 0.3, "train": 1.0}  # of the hash, as a fraction
FEW = 6  # a goal of fewer values is not split: its values alone are all to be trained on
Mix = Mapping[str, float]  # shares of the grades
Weights = Mapping[str, float]  # of goals, by name
_MIX = {"A": 0.25, "B": 0.34, "C": 0.25, "D": 0.16}  # grades of a drawn set, as in the 127 test tasks
_SIZES = (1, 1, 2, 3)  # aims of a task, by chance
_TRIES = 20_000  # draws in a row without a new task, after which there are none


@dataclass(frozen=True)
class Space:
    """The goals of an application, and settings to start with, on which no goal depends."""

    app: str
    goals: tuple[Goal, ...]
    starts: Mapping[str, Sequence[Any]]
    vocabularies: Mapping[str, Sequence[str]]
    runs: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # starts of perturbed runs alone
    panels: Sequence[str] = ()  # menus and dialogs that may be open at the start
    asked: tuple[Goal, ...] = ()  # questions of committed test tasks alone: none is drawn
    earlier: Sequence[str] = ()  # fingerprints of earlier splits, which held out the committed test tasks

    @cached_property
    def aims(self) -> dict[str, list[Aim]]:
        """Every goal with each of its values, by the goal's name."""
        return {goal.name: [Aim(goal, word) for word in goal.values] for goal in self.goals}

    @cached_property
    def contents(self) -> dict[tuple[str, str], str]:
        """What each aim asks, by goal and word."""
        return {(aim.goal.name, aim.word): _asked(aim) for aims in self.aims.values() for aim in aims}

    @cached_property
    def scripts(self) -> dict[tuple[str, str], str]:
        """How each aim is reached, by goal and word."""
        aims = itertools.chain.from_iterable(self.aims.values())
        return {(aim.goal.name, aim.word): script_text(aim.solution) for aim in aims}

    @cached_property
    def regions(self) -> dict[tuple[str, str], str]:
        """Where each aim alone belongs, by goal and word.

        Aims of one goal state or of one script belong together, directly or through others.
        """
        first: dict[str, str] = {}  # of each goal state and script, another one that belongs to it

        def leader(text: str) -> str:
            while (other := first.setdefault(text, text)) != text:
                text = other
            return text

        for key, script in self.scripts.items():
            first[leader(script)] = leader(self.contents[key])
        groups: dict[str, list[tuple[str, str]]] = {}
        for key, script in self.scripts.items():
            groups.setdefault(leader(script), []).append(key)
        return {key: name for group in groups.values() for name in [self._region(group)] for key in group}

    def _region(self, group: Sequence[tuple[str, str]]) -> str:
        contents = {self.contents[key] for key in group}
        if not self.committed.isdisjoint(contents | {self.scripts[key] for key in group}):
            return "test"
        is_small = any(len(self.aims[goal]) < FEW for goal, _ in group)
        return "train" if is_small else _hashed(min(contents))

    @cached_property
    def committed(self) -> frozenset[str]:
        """What the committed test tasks ask, their scripts, and goal states of those without a question."""
        meanings: dict[str, str] = {}
        for aim in itertools.chain.from_iterable(self.aims.values()):
            wordings = (replace(aim, wording=number).text for number in range(len(aim.goal.wordings)))
            meanings |= dict.fromkeys(wordings, self.contents[aim.goal.name, aim.word])
        return frozenset(text for task in test_tasks(self.app) for text in contents_of(task, meanings))

    def is_committed(self, parts: Sequence[Aim]) -> bool:
        """Whether a committed test task asks this, or has the script of these aims in any order."""
        asked = {content(self, parts)}
        if len(parts) > 1:
            scripts = [self.scripts[aim.goal.name, aim.word] for aim in parts]
            asked |= {"\n".join(order) for order in itertools.permutations(scripts)}
        if not parts[-1].goal.ask:
            asked.add(goal_state(self.app, _items(parts)))
        return not asked.isdisjoint(self.committed)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all goals and of where each value belongs; tasks and checkpoints of a split share it."""
        parts = sorted(zip(self.contents.values(), self.regions.values(), strict=True))
        return hashlib.sha256(json.dumps([self.app, parts]).encode()).hexdigest()[:16]


@cache
def space(app: str) -> Space:
    """The task space of an application.  UserError for an unknown one, and for one that has none."""
    if app not in SPACE_APPS:
        raise UserError(f"unknown application {app!r}; there are {', '.join(SPACE_APPS)}")
    if not has_space(app):
        form = "its form is explained in algebra.yaml there"
        raise UserError(f"{app} has no task space: write {display(_file(app))}; {form}")
    return read_space(app, _file(app))


def has_space(app: str) -> bool:
    return _file(app).is_file()


def _file(app: str) -> Path:
    return DATA / "tasks" / "spaces" / f"{app}.yaml"


def read_space(app: str, path: Path) -> Space:
    with reading(path, "YAML"):
        # the kit's own large file, which every stage reads
        raw = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    vocabularies = raw.get("vocabularies", {})
    return Space(
        app,
        goals_of(app, raw["goals"], vocabularies),
        raw.get("starts", {}),
        vocabularies,
        raw.get("runs", {}),
        raw.get("panels", ()),
        goals_of(app, raw.get("asked", ()), vocabularies),
        raw.get("earlier", ()),
    )


# ---- the split -------------------------------------------------------------------------------------------


def content(task_space: Space, parts: Sequence[Aim]) -> str:
    """What a task of these aims asks, in any order: the goal state, or of a question its goal and value."""
    return joined(task_space.contents[aim.goal.name, aim.word] for aim in parts)


def region(task_space: Space, parts: Sequence[Aim]) -> str | None:
    """Where a task of these aims belongs: 'train', 'development' or 'test'; None for nowhere.

    To the train region belong tasks of train aims alone; to another one tasks with an aim of it, and else at
    most train aims.  A combination that a committed test task asks, or the script of which one has, belongs
    nowhere.
    """
    held_out = {task_space.regions[aim.goal.name, aim.word] for aim in parts} - {"train"}
    if len(held_out) > 1 or (len(parts) > 1 and task_space.is_committed(parts)):
        return None
    return held_out.pop() if held_out else "train"


def _asked(aim: Aim) -> str:
    if aim.goal.ask:
        return f"{aim.goal.app} asks {aim.goal.name} {plain(aim.word)}"
    return goal_state(aim.goal.app, aim.checks)


def _hashed(text: str) -> str:
    fraction = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
    return next(name for name, limit in _LIMITS.items() if fraction < limit)


def _items(parts: Sequence[Aim]) -> list[Mapping[str, Any]]:
    return [item for aim in parts for item in aim.checks]


@cache
def aims_of(app: str, name: str) -> tuple[Aim, ...]:
    """The aims that belong to a region by themselves, ready to be composed: their set-ups are drawn.

    An application without a space, on which no model is trained, has the aims of data/tasks/seeds.
    """
    if not has_space(app):
        return tuple(seed_aims(app)) if name == "train" else ()
    task_space = space(app)
    aims = itertools.chain.from_iterable(task_space.aims.values())
    of_region = (aim for aim in aims if task_space.regions[aim.goal.name, aim.word] == name)
    return tuple(prepared(task_space, aim) for aim in of_region)


def prepared(task_space: Space, aim: Aim) -> Aim:
    """The aim with its set-up drawn (`setup`)."""
    return replace(aim, goal=replace(aim.goal, setup=setup(task_space, aim)))


# ---- drawing ---------------------------------------------------------------------------------------------


def draw(
    task_space: Space, name: str, count: int, seed: int, defaults: Mapping[str, Any], mix: Mix = _MIX,
    weights: Weights = MappingProxyType({}),
) -> list[Task]:  # fmt: skip
    """`count` tasks of a region, by grade in proportion to `mix`; the same seed gives the same tasks.

    Goals are drawn first and then their values, so that a goal of many values does not crowd out the others;
    `weights` are those of goals by name, 1 where they say nothing, and goals of weight 0 are not drawn.
    `defaults` are the application's (`Desk.defaults`).  UserError for an unknown region, and if the region
    has too few tasks.  None is one of the committed test tasks.
    """
    return [task for _, task in draw_with_aims(task_space, name, count, seed, defaults, mix, weights)]


def draw_with_aims(
    task_space: Space, name: str, count: int, seed: int, defaults: Mapping[str, Any], mix: Mix = _MIX,
    weights: Weights = MappingProxyType({}),
) -> list[tuple[tuple[Aim, ...], Task]]:  # fmt: skip
    """`draw`, each task with the aims that make it."""
    if name not in REGIONS:
        raise UserError(f"unknown region {name!r}: choose one of {', '.join(REGIONS)}")
    rng = random.Random(f"{task_space.app} {name} {seed}")
    wanted = {grade: int(count * share / sum(mix.values())) for grade, share in mix.items()}
    wanted[max(mix, key=mix.get)] += count - sum(wanted.values())
    drawn: dict[str, list[tuple[tuple[Aim, ...], Task]]] = {grade: [] for grade in mix}
    taken: set[str] = set()
    fruitless = 0
    for parts in _combinations(task_space, rng, weights):
        fruitless += 1
        if fruitless > _TRIES or all(len(drawn[grade]) == wanted[grade] for grade in mix):
            break
        if region(task_space, parts) != name:
            continue
        asked = content(task_space, parts)
        if asked in taken or task_space.is_committed(parts):
            continue
        task = _task(task_space, parts, defaults, rng)
        if task and len(drawn.get(task.grade, ())) < wanted.get(task.grade, 0):
            fruitless = 0
            taken.add(asked)
            identity = f"{task_space.app}/{task.grade}-{name}-{seed}-{len(taken):04d}"
            drawn[task.grade].append((parts, replace(task, id=identity)))
    short = [grade for grade in mix if len(drawn[grade]) < wanted[grade]]
    if short:
        few = ", ".join(f"{len(drawn[grade])} of {wanted[grade]} of grade {grade}" for grade in short)
        raise UserError(f"the {name} region of {task_space.app} has too few tasks: {few}; ask for fewer")
    return list(itertools.chain.from_iterable(drawn.get(grade, ()) for grade in GRADES))


def _combinations(task_space: Space, rng: random.Random, weights: Weights) -> Iterator[tuple[Aim, ...]]:
    """One to three aims without end: of different areas, a question last, each in one of its wordings."""
    drawn = [goal for goal in task_space.goals if weights.get(goal.name, 1)]
    while True:
        if weights:  # without replacement (Efraimidis and Spirakis 2006)
            keys = {goal.name: rng.random() ** (1 / weights.get(goal.name, 1)) for goal in drawn}
            goals = sorted(drawn, key=lambda goal: -keys[goal.name])[: rng.choice(_SIZES)]
        else:
            goals = rng.sample(drawn, rng.choice(_SIZES))
        goals.sort(key=lambda goal: goal.ask)
        if are_apart(goals) and sum(goal.ask for goal in goals) < 2:
            aims = (rng.choice(task_space.aims[goal.name]) for goal in goals)
            yield tuple(replace(aim, wording=rng.randrange(len(aim.goal.wordings))) for aim in aims)


def _task(
    task_space: Space, parts: Sequence[Aim], defaults: Mapping[str, Any], rng: random.Random
) -> Task | None:
    """The task of these aims in a start state; None if they need different set-ups or too many steps."""
    settings: dict[str, Any] = {}
    for aim in parts:
        for key, value in setup(task_space, aim).items():
            if settings.setdefault(key, value) != value:
                return None
    task = compose(task_space.app, [prepared(task_space, aim) for aim in parts], defaults, "")
    if len(task.solution) >= task.steps:
        return None
    checked = {str(item.get("key", "")).partition(".")[0] for item in _items(parts)}
    bound = {*task.settings, *checked, *(aim.goal.key for aim in parts)}
    starts = draw_starts(task_space, bound, rng).items()
    added = ({"func": "set", "key": key, "value": value} for key, value in starts)
    return replace(task, initialize=(*task.initialize, *added))


def draw_starts(task_space: Space, bound: Collection[str], rng: random.Random) -> dict[str, Any]:
    """Up to three settings to start with, none of those that are `bound`."""
    free = [key for key in task_space.starts if key not in bound]
    chosen = rng.sample(free, rng.randint(0, min(3, len(free))))
    return {key: rng.choice(task_space.starts[key]) for key in chosen}


def setup(task_space: Space, aim: Aim) -> dict[str, Any]:
    """An aim's first settings; {names: peaks, count: 6} stands for so many words, its own among them."""
    settings = {}
    for key, value in aim.goal.setup.items():
        drawn = isinstance(value, dict) and "names" in value
        settings[key] = _among(task_space, aim, value) if drawn else aim.fill(value)
    return settings


def _among(task_space: Space, aim: Aim, spec: Mapping[str, Any]) -> list[str]:
    rng = random.Random(f"{aim.goal.name} {aim.word}")
    values = aim.value if isinstance(aim.value, list) else [aim.value]
    vocabulary = task_space.vocabularies[spec["names"]]
    asked = [word for word in vocabulary if word in [aim.word, *values]]  # the word is what a question names
    others = [word for word in vocabulary if word not in asked]
    names = asked + rng.sample(others, spec["count"] - len(asked))
    rng.shuffle(names)
    return names
