"""What a planner learns from: ways of the goals that it is taught, and values and reading of all.

Rows about the same two screens stand together, so that these are looked at once.  They differ in what is
asked and in what has been done, and so in the plan: neither words nor pictures alone tell it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from base_models.asking import what_is
from base_models.hindsight import (
    Hindsight,
    hindsights,
    planner_row,
    reached,
    reworded,
    with_more,
)
from base_models.manners import manners
from base_models.rows import Row, Rows, closer, value_of
from base_models.training_tasks import (
    SampledTask,
    development_tasks,
    foreign_names,
    how_to_row,
    newly_named,
    planner_tasks,
    value_row,
)
from base_models.walks import Transition, Walk, Walks, by_goal, shown_names
from coda_lib.action import Action
from sciencedesk.goals import Aim

MORE = 0.35  # of instructions in hindsight: they ask for a second thing
FIRST = 0.3  # of demonstrations' decisions: it has to see what is open and in the way
FRESH = 0.35  # of walks' screens: as if the episode began there
ASKED, READ = 5, 2  # decisions and values about a screen, at most
# of pairs of screens: demonstrations, answers, questions alone, what needs no knowledge; others are of walks
SHOWN, ANSWERED, VALUES, MANNERS = 0.5, 0.15, 0.05, 0.05
RENAMED = 0.4  # of decisions: under an instruction with made-up names
WORDS, CLOSE = 0.15, 0.35  # of batches: texts without pictures, answers on small parts of screens
OF_WALKS, BARE = 0.3, 0.7  # of these: values of walks; of the others, as if the episode began there
Taught = Mapping[str, Collection[str]]  # names of goals by application
Demonstrations = Sequence[Sequence[Sequence[Hindsight]]]  # by application: decisions of each
Answers = Sequence[Sequence[Hindsight]]  # by application


def lessons(app: str, taught: Taught, unseen: bool = False) -> list[SampledTask]:
    """The tasks of the planner, or those of the development region, that ask for taught goals alone."""
    tasks = (development_tasks if unseen else planner_tasks)(app)
    return [task for task in tasks if all(aim.goal.name in taught[app] for aim in task[0])]


def text_sampler(taught: Taught) -> Callable[[Random], Rows]:
    """Rows without pictures, which are cheap: steps of how-tos, and values to copy, half and half."""
    tasks = {app: lessons(app, taught) for app in taught}

    def draw(rng: Random) -> Rows:
        app = rng.choice([*tasks])
        if rng.random() < 0.5:
            return [how_to_row(rng.choice(tasks[app])[1], rng)]
        while True:
            if row := value_row(rng.choice(tasks[app]), foreign_names(app), rng):
                return [row]

    return draw


class Scenes:
    """The screens of a walk, each with the decisions that are right there."""

    def __init__(self, walk: Walk, taught: Taught):
        self.app, self.walk = walk[0].app, walk
        self.names = sorted(shown_names(walk))
        self.wishes = {name: aims for name, aims in by_goal(self.app).items()
                       if name in taught[self.app] and not aims[0].goal.ask}  # fmt: skip
        self.at: dict[tuple[int, bytes], list[Hindsight]] = defaultdict(list)
        self.of_goals: dict[str, tuple[list, list]] = defaultdict(lambda: ([], []))
        for decision in hindsights(self.app, walk):
            if decision.goal in taught[self.app]:
                self.at[self._scene(decision)].append(decision)
                self.of_goals[decision.goal][decision.step is None].append(decision)
        self.goals = sorted(self.of_goals)
        self.valued = [i for i, step in enumerate(walk) if any(map(value_of, step.elements))]
        self.index = {}
        for i, (before, step) in enumerate(zip([None, *walk], walk, strict=False)):
            self.index[id(before if before and before.walk == step.walk else None), step.screen] = i

    @staticmethod
    def _scene(decision: Hindsight) -> tuple[int, bytes]:
        past = decision.aimless + decision.history
        return id(past[-1] if past else None), decision.screen

    def draw(self, rng: Random) -> Rows:
        """Rows about a screen where a goal, each drawn as often, is reached or may be."""
        steps, done = self.of_goals[rng.choice(self.goals)]
        chosen = rng.choice(done if rng.random() < 0.15 or not steps else steps)
        scene, fresh = self._scene(chosen), not chosen.history and rng.random() < FRESH
        others = [d for d in self.at[scene] if d is not chosen and not (fresh and d.history)]
        decided = [chosen, *rng.sample(others, min(len(others), ASKED - 1))]
        rows = [planner_row(self._varied(decision, fresh, rng)) for decision in decided]
        if (i := self.index.get(scene)) is None:
            return rows
        past = () if fresh else chosen.aimless + chosen.history
        return rows + self._read(self.walk[i], past, READ, rng)

    def manners(self, rng: Random) -> Rows:
        """Rows about a screen of the walk that need no knowledge of goals."""
        return manners(self.walk, rng.randrange(len(self.walk)), self.names, ASKED, rng)

    def read(self, rng: Random) -> Rows:
        """Rows about values of a screen."""
        i = rng.choice(self.valued)
        past = tuple(t for t in self.walk[max(0, i - 3) : i] if t.walk == self.walk[i].walk)
        return self._read(self.walk[i], past if rng.random() > FRESH else (), ASKED, rng)

    def close(self, rng: Random) -> Rows:
        """A row about a value on a part of a screen."""
        (asked,) = self._asked(self.walk[rng.choice(self.valued)], (), 1, rng)
        return [closer(planner_row(asked), asked.box or (), rng)]

    def _read(self, seen: Transition, past: Walk, most: int, rng: Random) -> list[Row]:
        return [planner_row(asked) for asked in self._asked(seen, past, most, rng)]

    @staticmethod
    def _asked(seen: Transition, past: Walk, most: int, rng: Random) -> Iterator[Hindsight]:
        values = [element for element in seen.elements if value_of(element)]
        for element in rng.sample(values, min(len(values), most)):
            answer, before = value_of(element), tuple(past[-rng.randint(1, 3) :])
            step, action = {"answer": answer}, Action.answer(answer)
            yield Hindsight(what_is(element), before, seen.screen, step, action, box=element.box)

    def _varied(self, decision: Hindsight, fresh: bool, rng: Random) -> Hindsight:
        """The decision after what came before it, or for a second thing too."""
        longest = 0 if fresh else len(decision.aimless)
        length = rng.randint(0 if decision.history else min(1, longest), longest)
        past = decision.aimless[len(decision.aimless) - length :]
        decision = replace(decision, history=past + decision.history)
        return with_more(decision, self._wish(decision, rng), rng) if rng.random() < MORE else decision

    def _wish(self, decision: Hindsight, rng: Random) -> Aim:
        """A second thing to ask for; where the first is reached, one that holds as well."""
        free = [aims for name, aims in self.wishes.items() if name != decision.goal]
        if decision.after is not None:
            held = [[aim for aim in aims if reached(aim, decision.after)] for aims in free]
            free = [aims for aims in held if aims] or free
        return reworded(rng.choice(rng.choice(free)), rng)


def planner_sampler(
    walks: Walks, demonstrations: Demonstrations, answers: Answers, taught: Taught, texts: int, pictured: int
) -> Callable[[Random], list[Rows]]:  # fmt: skip
    """Batches: `texts` rows of `text_sampler` or of answers, or `pictured` pairs of screens.

    Answers are read on a part of the screen: each is a row as cheap as a text, and reading wants many.
    Of the pairs some are decisions of a demonstrator with a share of random steps who solves the task all the
    same, with what would be right there under other instructions; some are `answers` alone
    (`demonstrators.questions`); some of both are under new names (`newly_named`).
    The others are of walks: what one or two steps achieved is the instruction, and these are the plans; some
    instructions ask for something more.  Beside them are questions that the screen answers, of all things,
    and what needs no knowledge (`manners`).  No head is shown where to look: fewer decisions are right if
    some are (measured: of 400 held-out ones 287, with heads that are shown names and letters 177).
    """
    scenes, cheap, apps = [Scenes(walk, taught) for walk in walks], text_sampler(taught), [*taught]
    scenes = [of_app for of_app in scenes if of_app.goals]  # a short walk reaches none

    def pair(rng: Random) -> Rows:
        dice, app = rng.random(), rng.randrange(len(demonstrations))
        if dice < ANSWERED and answers[app]:
            return _rows(rng.choice(answers[app]), apps[app], rng)
        if dice < ANSWERED + SHOWN or not scenes:
            decisions = rng.choice(demonstrations[app])
            return _rows(decisions[0] if rng.random() < FIRST else rng.choice(decisions), apps[app], rng)
        of_app = rng.choice(scenes)
        dice -= ANSWERED + SHOWN
        if dice < MANNERS:
            return of_app.manners(rng) or pair(rng)
        return of_app.read(rng) if dice < MANNERS + VALUES and of_app.valued else of_app.draw(rng)

    shown = [[one for decision in of_app for one in (decision, *decision.instead) if one.box]
             for of_app in answers]  # fmt: skip
    shown = [of_app for of_app in shown if of_app]
    valued = [of_app for of_app in scenes if of_app.valued]

    def close(rng: Random) -> Rows:
        if valued and rng.random() < OF_WALKS:
            return rng.choice(valued).close(rng)
        one = rng.choice(rng.choice(shown))
        one = replace(one, history=()) if rng.random() < BARE else one
        return [closer(planner_row(one), one.box, rng)]

    def draw(rng: Random) -> list[Rows]:
        dice = rng.random()
        if dice < WORDS:
            return [cheap(rng) for _ in range(texts)]
        if dice < WORDS + CLOSE and shown:  # real applications have none
            return [close(rng) for _ in range(texts)]
        return [pair(rng) for _ in range(pictured)]

    return draw


def _rows(decision: Hindsight, app: str, rng: Random) -> Rows:
    rows = [planner_row(one) for one in (decision, *decision.instead)]
    return [newly_named(row, app, rng) if rng.random() < RENAMED else row for row in rows]
