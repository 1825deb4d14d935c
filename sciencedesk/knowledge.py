"""Which goals a base planner is taught, which it has to find, and which nothing ever shows it.

A base planner that is taught every goal lacks certainty and no knowledge, and training can only sharpen it.
So a part of the goals is kept from it.  The splits are drawn once, before anything is trained, and stand in
data/tasks/knowledge.yaml: never after what an exploration has found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random

from coda_lib.errors import UserError
from coda_lib.files import read_yaml
from coda_lib.paths import DATA, display
from coda_lib.task import Task
from sciencedesk.goals import Goal
from sciencedesk.perturb import asked_goals
from sciencedesk.space import space

KINDS = ("taught", "novel", "unexplored")
FILE = DATA / "tasks" / "knowledge.yaml"
TAUGHT, UNEXPLORED = 0.5, 0.1  # shares of the ways


@cache
def kinds_of(app: str, split: int) -> Mapping[str, str]:
    """The kind of each goal of an application, by its name.

    UserError for a split that is not in the file, or that another task space was drawn for.
    """
    splits = read_yaml(FILE)
    if split not in splits or app not in splits[split]:
        raise UserError(
            f"{display(FILE)} has no split {split} of {app}; there are {', '.join(map(str, splits))}"
        )
    found = {goal: kind for kind, goals in splits[split][app].items() for goal in goals}
    if found.keys() != {goal.name for goal in space(app).goals}:
        raise UserError(f"{display(FILE)}, split {split} of {app}: its goals are not those of the task space")
    return found


def kind_of_task(task: Task, split: int) -> str:
    """The kind of a task's goals; if they differ, of the one that the least is known of.

    What only test tasks ask for is never explored.  UserError as of `kinds_of`.
    """
    kinds = kinds_of(task.app, split)
    found = {kinds.get(goal.name, KINDS[-1]) for goal, _ in asked_goals(task.app, task.instruction)}
    return max(found, key=KINDS.index, default=KINDS[-1])


def draw_kinds(
    goals: Sequence[Goal], seed: str, taught: float = TAUGHT, unexplored: float = UNEXPLORED
) -> dict[str, list[str]]:
    """Goals by kind: a share of the ways is taught, a share never explored, the others are novel.

    Goals that are reached in one way, but for their values, are of one kind.  Of the ways that begin in one
    menu, tab or dialog at least one is taught, so that a novel goal is a step or two from what is known.
    UserError for shares that leave a kind without a goal.
    """
    ways: dict[tuple, list[str]] = defaultdict(list)
    for goal in goals:
        ways[way(goal)].append(goal.name)
    places: dict[str, list[tuple]] = defaultdict(list)
    for steps in sorted(ways):
        places[steps[0][1]].append(steps)
    rng, found, pool = Random(f"knowledge {seed}"), {kind: [] for kind in KINDS}, []
    for place in sorted(places):
        first, *others = rng.sample(places[place], len(places[place]))
        found["taught"].append(first) if others else pool.append(first)
        pool += others
    rng.shuffle(pool)
    more = max(0, round(taught * len(ways)) - len(found["taught"]))
    never = round(unexplored * len(ways))
    found["taught"] += pool[:more]
    found["unexplored"], found["novel"] = pool[more : more + never], pool[more + never :]
    if lacking := [kind for kind, chosen in found.items() if not chosen]:
        shares = f"{taught:g} taught and {unexplored:g} never explored"
        raise UserError(f"{shares}: no goal of {goals[0].app} is {lacking[0]}; choose other shares")
    return {kind: sorted(name for steps in chosen for name in ways[steps]) for kind, chosen in found.items()}


def way(goal: Goal) -> tuple[tuple[str, str], ...]:
    """The steps that reach a goal, without its values.

    >>> from sciencedesk.space import space
    >>> way(next(goal for goal in space("algebra").goals if goal.name == "plot"))
    (('click', 'Plot 2D'), ('click', 'Formula'), ('type', '{}\\n'))
    """
    steps = (item for step in goal.solve for item in step.items())
    return tuple((kind, re.sub(r"\{[^}]*\}", "{}", str(what))) for kind, what in steps)
