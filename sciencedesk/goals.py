"""Goals, aims and the tasks composed of them.

In the paper a large language model makes the train tasks from a few human tasks of each application (section
4), as `coda_study.generator` does.  Without one they are drawn from task spaces of human-written goals
(`sciencedesk.space`).  The committed test tasks were drawn from the goals in data/tasks/seeds/APP.yaml
(tests/sciencedesk/test_explore.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from coda_lib.applications import ALL_APPS
from coda_lib.errors import UserError
from coda_lib.files import read_yaml
from coda_lib.paths import DATA, display
from coda_lib.task import Task

_SLACK = 4  # steps allowed beyond the scripted solution and its DONE


@dataclass(frozen=True)
class Goal:
    """A human-written goal with all its values; data/tasks/seeds/algebra.yaml explains the fields."""

    app: str
    name: str
    say: str | Sequence[str]  # the goal in words; several are the wordings that a task may have
    values: Mapping[str, Any]
    solve: Sequence[Mapping[str, Any]]
    key: str | None = None
    check: Sequence[Mapping[str, Any]] = ()
    setup: Mapping[str, Any] = field(default_factory=dict)
    area: str | None = None
    ask: bool = False
    fact: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def wordings(self) -> Sequence[str]:
        return [self.say] if isinstance(self.say, str) else self.say

    @property
    def areas(self) -> list[str]:
        """The words of its area: goals that share one are not combined."""
        return (self.area or self.name).split()


@dataclass(frozen=True)
class Aim:
    """A goal with one of its values, in one of its wordings."""

    goal: Goal
    word: str
    wording: int = 0

    @property
    def value(self) -> Any:
        return self.goal.values[self.word]

    @property
    def answer(self) -> str:
        """What a question wants to hear: its value, or the last part of it."""
        return str(self.value[-1] if isinstance(self.value, list) else self.value)

    @property
    def text(self) -> str:
        return self.goal.wordings[self.wording].replace("{v}", self.word)

    def fill(self, template: Any) -> Any:
        """Replace {v}, {V}, {w}, {value}, {0}, {1}; a placeholder alone keeps the type of its value."""
        if isinstance(template, Mapping):
            return {key: self.fill(value) for key, value in template.items()}
        if isinstance(template, list):
            return [self.fill(item) for item in template]
        if not isinstance(template, str):
            return template
        parts = self.value if isinstance(self.value, list) else [self.value]
        word, words = self.word, self.goal.words
        values = {"{v}": word, "{V}": word[:1].upper() + word[1:], "{value}": self.value}
        values |= {"{w}": words.get(word, word)} | {f"{{{i}}}": part for i, part in enumerate(parts)}
        if template in values:
            return values[template]
        for placeholder, value in values.items():
            template = template.replace(placeholder, str(value))
        return template

    @property
    def solution(self) -> list[dict[str, Any]]:
        """The script that reaches the goal, in names of widgets."""
        filled = [item for step in self.goal.solve for item in self.fill(step).items()]
        steps = [{kind: [*map(str, what)] if isinstance(what, list) else str(what)} for kind, what in filled]
        return steps + ([{"answer": self.answer}] if self.goal.ask else [])

    @cached_property
    def checks(self) -> list[dict[str, Any]]:
        """The conditions on the application's state, as in a task's `evaluate`."""
        if self.goal.ask:
            return [{"type": "stop", "value": "ANS", "args": [self.answer]}]
        items = self.goal.check or [{"key": self.goal.key, "pred": "equals", "value": "{value}"}]
        return [{"type": "state"} | self.fill(dict(item)) for item in items]


def expand(values: Any, vocabularies: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The values of a goal by their words.

    >>> expand({"numbers": [20, 60, 20]}, {})
    {'20': 20, '40': 40, '60': 60}
    >>> expand({"parts": [{"names": "peaks"}, [3, 4]], "word": "{0} into {1}"}, {"peaks": ["Ash", "Bay"]})
    {'Ash into 3': ['Ash', 3], 'Ash into 4': ['Ash', 4], 'Bay into 3': ['Bay', 3], 'Bay into 4': ['Bay', 4]}
    """
    match values:
        case list():
            return {str(value): value for value in values}
        case {"numbers": [first, last, step]}:
            count = round((last - first) / step) + 1
            return {f"{first + i * step:.10g}": round(first + i * step, 10) for i in range(count)}
        case {"names": name}:
            return {word: word for word in vocabularies[name]}
        case {"parts": parts, "word": template, **others}:
            expanded = {}
            for items in itertools.product(*(expand(part, vocabularies).items() for part in parts)):
                words = [word for word, _ in items]
                if len(set(words)) == len(words):
                    expanded[template.format(*words)] = [value for _, value in items]
            return {word: value for word, value in expanded.items() if word not in others.get("without", ())}
    return values


@cache
def goals(app: str) -> tuple[Goal, ...]:
    """The human-written goals of an application.  UserError for an unknown one, and for one without goals."""
    if app not in ALL_APPS:
        raise UserError(f"unknown application {app!r}; there are {', '.join(ALL_APPS)}")
    path = DATA / "tasks" / "seeds" / f"{app}.yaml"
    if not path.is_file():
        form = "its form is explained in algebra.yaml there"
        raise UserError(f"{app} has no goals for train tasks: write {display(path)}; {form}")
    return goals_of(app, read_yaml(path)["goals"], {})


def goals_of(app: str, raw: Sequence[Mapping], vocabularies: Mapping[str, Sequence[str]]) -> tuple[Goal, ...]:
    """The goals of a file, with all their values."""
    return tuple(Goal(app=app, **{**goal, "values": expand(goal["values"], vocabularies)}) for goal in raw)


@cache
def aims(app: str) -> list[Aim]:
    """All goals of an application with all their values, in the order of the file."""
    return [Aim(goal, word) for goal in goals(app) for word in goal.values]


def sentence(parts: Sequence[Aim]) -> str:
    """The instruction that asks for these aims."""
    return sentence_of([aim.text for aim in parts], parts[-1].goal.ask)


def sentence_of(said: Sequence[str], question: bool) -> str:
    text = " and ".join(said)
    return text[0].upper() + text[1:] + ("?" if question else ".")


def compose(app: str, parts: Sequence[Aim], defaults: Mapping[str, Any], identity: str) -> Task:
    """A task of one to three aims, which starts in a state where none of them holds.

    `defaults` are the application's (`Desk.defaults`); `identity` may hold '{grade}'.  ValueError if two aims
    are of one area and contradict each other.

    >>> task = compose("algebra", aims("algebra")[:1], {"grid": False}, "algebra/{grade}-01")
    >>> task.id, task.instruction, task.solution
    ('algebra/A-01', 'Turn the grid on.', ({'click': 'View'}, {'click': 'Grid'}))
    """
    if not are_apart([aim.goal for aim in parts]):
        raise ValueError(f"aims of one area: {', '.join(aim.goal.area or aim.goal.name for aim in parts)}")
    settings: dict[str, Any] = {}
    for aim in parts:
        settings |= aim.goal.setup
        if aim.goal.key and (dict(defaults) | settings)[aim.goal.key] == aim.value:
            settings[aim.goal.key] = next(v for v in aim.goal.values.values() if v != aim.value)
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
        ans=parts[-1].answer if parts[-1].goal.ask else None,
        solution=tuple(solution),
    )


def _grade(parts: Sequence[Aim], solution: Sequence[Mapping[str, Any]]) -> str:
    if len(parts) == 1:
        return "A" if len(solution) <= 2 else "B"
    return "C" if len(parts) == 2 and not parts[-1].goal.ask else "D"


def are_apart(goals: Sequence[Goal]) -> bool:
    """Whether no two of these goals are of one area."""
    areas = [area for goal in goals for area in goal.areas]
    return len(set(areas)) == len(areas)
