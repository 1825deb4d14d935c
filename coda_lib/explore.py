"""Exploration: tasks to try, made from templates that a few human-written goals give.

The paper's generator (section 4) is a large language model shown a few human tasks per application; here the human tasks are
the goals in data/tasks/seeds/APP.yaml, and combining them with other values and with each other gives the train pool.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import yaml

from coda_lib.applications import ALL_APPS
from coda_lib.errors import UserError
from coda_lib.paths import DATA
from coda_lib.task import Task, test_tasks

POOL_SIZE = 90  # train tasks an application
_SLACK = 4  # steps allowed beyond the scripted solution and its DONE


@dataclass(frozen=True)
class Goal:
    """One human-written goal with all its values; the fields are explained in data/tasks/seeds/algebra.yaml."""

    app: str
    name: str
    say: str
    values: Mapping[str, Any]
    solve: Sequence[Mapping[str, Any]]
    key: str | None = None
    check: Sequence[Mapping[str, Any]] = ()
    setup: Mapping[str, Any] = field(default_factory=dict)
    area: str | None = None
    ask: bool = False
    fact: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Aim:
    """A goal with one of its values."""

    goal: Goal
    word: str

    @property
    def value(self) -> Any:
        return self.goal.values[self.word]

    @property
    def text(self) -> str:
        return self.goal.say.replace("{v}", self.word)

    def fill(self, template: Any) -> Any:
        """Replace {v}, {V}, {w}, {value}, {0}, {1} in a template; a template that is one placeholder keeps the type."""
        if isinstance(template, Mapping):
            return {key: self.fill(value) for key, value in template.items()}
        if isinstance(template, list):
            return [self.fill(item) for item in template]
        if not isinstance(template, str):
            return template
        parts = self.value if isinstance(self.value, list) else [self.value]
        names = {"{v}": self.word, "{V}": self.word[:1].upper() + self.word[1:], "{value}": self.value,
                 "{w}": self.goal.words.get(self.word, self.word)}  # fmt: skip
        names |= {f"{{{i}}}": part for i, part in enumerate(parts)}
        if template in names:
            return names[template]
        for name, value in names.items():
            template = template.replace(name, str(value))
        return template

    @property
    def solution(self) -> list[dict[str, Any]]:
        steps = [{kind: self._texts(what) for kind, what in self.fill(step).items()} for step in self.goal.solve]
        return steps + ([{"answer": str(self.value)}] if self.goal.ask else [])

    @staticmethod
    def _texts(what: Any) -> Any:
        return [str(item) for item in what] if isinstance(what, list) else str(what)

    @cached_property
    def checks(self) -> list[dict[str, Any]]:
        if self.goal.ask:
            return [{"type": "stop", "value": "ANS", "args": [str(self.value)]}]
        items = self.goal.check or [{"key": self.goal.key, "pred": "equals", "value": "{value}"}]
        return [{"type": "state"} | self.fill(dict(item)) for item in items]


@cache
def goals(app: str) -> tuple[Goal, ...]:
    """The human-written goals of an application.  UserError for one that is not known."""
    if app not in ALL_APPS:
        raise UserError(f"unknown application {app!r}; there are {', '.join(ALL_APPS)}")
    raw = yaml.safe_load((DATA / "tasks" / "seeds" / f"{app}.yaml").read_text())["goals"]
    return tuple(_goal(app, item) for item in raw)


def _goal(app: str, raw: dict[str, Any]) -> Goal:
    values = raw["values"] if isinstance(raw["values"], dict) else {str(v): v for v in raw["values"]}
    return Goal(app=app, **(raw | {"values": values}))


@cache
def aims(app: str) -> list[Aim]:
    """Every goal of an application with every one of its values, in the order of the file."""
    return [Aim(goal, word) for goal in goals(app) for word in goal.values]


def sentence(parts: Sequence[Aim]) -> str:
    """The instruction that asks for these aims."""
    text = " and ".join(aim.text for aim in parts)
    return text[0].upper() + text[1:] + ("?" if parts[-1].goal.ask else ".")


def compose(app: str, parts: Sequence[Aim], defaults: Mapping[str, Any], identity: str) -> Task:
    """One task out of one to three aims; it starts in a state in which none of them holds.

    `defaults` are the application's own (`Desk.defaults`).  ValueError if the aims contradict each other.
    """
    areas = [aim.goal.area or aim.goal.name for aim in parts]
    settings: dict[str, Any] = {}
    for aim in parts:
        settings |= aim.goal.setup
        if aim.goal.key and (settings | {k: v for k, v in defaults.items() if k not in settings})[aim.goal.key] == aim.value:
            settings[aim.goal.key] = next(v for v in aim.goal.values.values() if v != aim.value)
    if len(set(areas)) < len(areas):
        raise ValueError(f"aims of one area: {', '.join(areas)}")
    solution = [step for aim in parts for step in aim.solution]
    grade = _grade(parts, solution)
    return Task(
        id=identity.replace("{grade}", grade),
        app=app,
        grade=grade,
        instruction=sentence(parts),
        steps=min(15, len(solution) + 1 + _SLACK),
        initialize=tuple({"func": "set", "key": key, "value": value} for key, value in settings.items()),
        evaluate=tuple(item for aim in parts for item in aim.checks),
        ans=str(parts[-1].value) if parts[-1].goal.ask else None,
        solution=tuple(solution),
    )


def _grade(parts: Sequence[Aim], solution: Sequence[Mapping[str, Any]]) -> str:
    if len(parts) == 1:
        return "A" if len(solution) <= 2 else "B"
    return "C" if len(parts) == 2 and not parts[-1].goal.ask else "D"


def combinations(app: str, size: int, rng: random.Random) -> list[tuple[Aim, ...]]:
    """All ordered combinations of aims of different areas, shuffled; a question comes last."""
    found = []
    for parts in itertools.permutations(aims(app), size) if size < 3 else _sample_triples(app, rng):
        areas = {aim.goal.area or aim.goal.name for aim in parts}
        if len(areas) == size and not any(aim.goal.ask for aim in parts[:-1]):
            found.append(parts)
    rng.shuffle(found)
    return found


def _sample_triples(app: str, rng: random.Random) -> list[tuple[Aim, ...]]:
    return [tuple(rng.sample(aims(app), 3)) for _ in range(4000)]


def draw_test_tasks(app: str, defaults: Mapping[str, Any], count: int) -> list[Task]:
    """How the committed test tasks were drawn: about 1/4 grade A, 1/3 B, 1/4 C, 1/6 D, at most a third of a goal's values.

    The drawing is seeded; data/tasks/test holds what it gave, and runs read only those files.
    """
    rng = random.Random(f"test tasks of {app}")
    quota = {"A": round(count * 0.25), "C": round(count * 0.25), "D": round(count * 0.16)}
    quota["B"] = count - sum(quota.values())
    left = {goal.name: max(1, len(goal.values) // 3) for goal in goals(app)}
    singles = [(aim,) for aim in aims(app)]
    rng.shuffle(singles)
    drawn: dict[str, list[Task]] = {grade: [] for grade in "ABCD"}
    goals_seen: set[str] = set()
    for parts in [*singles, *combinations(app, 2, rng), *combinations(app, 3, rng)]:
        task = compose(app, parts, defaults, f"{app}/{{grade}}-00")
        tasks, name = drawn[task.grade], parts[0].goal.name
        if len(tasks) == quota[task.grade] or task.goal in goals_seen or (len(parts) == 1 and not left[name]):
            continue
        if len(parts) == 1:
            left[name] -= 1
        goals_seen.add(task.goal)
        tasks.append(replace(task, id=f"{app}/{task.grade}-{len(tasks) + 1:02d}"))
    return [task for grade in "ABCD" for task in drawn[grade]]


def train_pool(app: str, defaults: Mapping[str, Any]) -> list[Task]:
    """The train tasks of an application: single aims first, then pairs and triples, none of them a test task.

    A test task is kept out by its instruction and by its goal state.  The same pool every time.
    """
    held_out = test_tasks(app)
    taken = {task.instruction for task in held_out} | {task.goal for task in held_out}
    rng = random.Random(f"train pool of {app}")
    singles = [(aim,) for aim in aims(app)]
    rng.shuffle(singles)
    pool: list[Task] = []
    for parts in [*singles[: POOL_SIZE // 2], *combinations(app, 2, rng)[:200], *combinations(app, 3, rng)[:200]]:
        quota = {1: POOL_SIZE // 2, 2: POOL_SIZE * 5 // 6, 3: POOL_SIZE}[len(parts)]
        task = compose(app, parts, defaults, f"{app}/train-{len(pool):03d}")
        if len(pool) < quota and not {task.instruction, task.goal} & taken:
            taken |= {task.instruction, task.goal}
            pool.append(task)
    return pool
