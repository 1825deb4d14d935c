"""Where the base models' rows come from: for each kind of training a function that draws the next row, or rows, without end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count

from coda_lib.base_models.hindsight import (
    Hindsight,
    curiosity,
    distracted,
    hindsights,
    instructions,
    planner_row,
    reached,
    reading,
    solo_row,
    with_more,
    with_past,
)
from coda_lib.base_models.lessons import draw_lesson, how_to_row
from coda_lib.base_models.rows import Row, copying_row, description_row, grounding_row, moved, moved_row
from coda_lib.base_models.training import BATCH
from coda_lib.base_models.walks import Moment, typed_words
from coda_lib.envs.sciencedesk.elements import Element
from coda_lib.explore import Aim, aims

GROUP = 8  # plans about one screen, which share its encoding: many times the plans in the same time
UNSURE = 0.3  # share of decisions that are anything else, in hindsight and while something is demonstrated


def executor_source(walks: Sequence[Sequence[Moment]]) -> Callable[[random.Random], Row | list[Row]]:
    """What the executor learns from, a batch of one kind after the other: two ground plans, one answers instructions itself,
    one copies texts.
    """
    seen = [found for moments in walks if (found := hindsights(moments[0].app, moments))]
    point, copies, drawn = pointing_source(walks, typed_words), copying_source(vocabulary(walks)), count()

    def draw(rng: random.Random) -> Row | list[Row]:
        kind = next(drawn) // BATCH % 4
        if kind == 3:
            return copies(rng)
        if kind == 2 and seen:
            return solo_row(rng.choice(rng.choice(seen)))
        return point(rng)

    return draw


def pointing_source(
    walks: Sequence[Sequence[Moment]], words: Callable[[str], Sequence[str]]
) -> Callable[[random.Random], list[Row]]:
    """Plans that name something on a screen with their actions, `GROUP` about one screen; `words` gives an application's texts.

    Half of the screens are drawn because something is not where it usually is, and half of the plans there are about that.
    """
    elsewhere = [_by_role(moved(moments)) for moments in walks]

    def draw(rng: random.Random) -> list[Row]:
        i = rng.randrange(len(walks))
        moment, strays = _stray(elsewhere[i], rng) if rng.random() < 0.5 and elsewhere[i] else (rng.choice(walks[i]), [])
        rows = [moved_row(moment, rng.choice(strays), rng) for _ in range(GROUP // 2 if strays else 0)]
        return rows + [grounding_row(moment, rng, words(moment.app)) for _ in range(GROUP - len(rows))]

    return draw


_Strays = tuple[Moment, list[Element]]  # a screen, and what is not where it usually is


def _by_role(found: Sequence[_Strays]) -> dict[str, list[list[_Strays]]]:
    """For each role one list an element, so that each is drawn as often as any other."""
    groups: dict[str, dict[str, list[_Strays]]] = {}
    for moment, elements in found:
        for element in elements:
            groups.setdefault(element.role, {}).setdefault(element.name, []).append((moment, elements))
    return {role: list(named.values()) for role, named in groups.items()}


def _stray(elsewhere: dict[str, list[list[_Strays]]], rng: random.Random) -> _Strays:
    """Half the time something that the application draws itself (planets, atoms, peaks, ticks), which is learned last."""
    role = "target" if "target" in elsewhere and rng.random() < 0.5 else rng.choice(list(elsewhere))
    return rng.choice(rng.choice(elsewhere[role]))


def how_to_source(apps: Sequence[str]) -> Callable[[random.Random], Row]:
    """How-tos, without pictures: as cheap as copying, and a tiny model that has read them looks for what they name."""
    return lambda rng: how_to_row(draw_lesson(rng.choice(apps), rng)[1], rng)


def planner_source(
    walks: Sequence[Sequence[Moment]], shown: Sequence[Sequence[Sequence[Hindsight]]]
) -> Callable[[random.Random], Row]:
    """Rows for the base planner, which should know interfaces but be unsure of what leads to a goal.

    One batch in four are how-tos.  Of the rest 55 % are decisions of demonstrations (`shown`, a list an application), 30 %
    hindsight of one or two steps, every instruction equally often, after none to three aimless steps; of this, a third under
    an instruction that asks for something more ('A and B', which is done where both hold), and `UNSURE` of its decisions
    replaced by anything else that the screen offers.  Demonstrations hold slips, too: the planner's uncertainty, and stage 1's
    work.  What is left are questions about what the screen shows, and curiosity: what a walk did next, whatever the
    instruction says.
    """
    by_instruction, wishes = [], []
    for moments in walks:
        groups: dict[str, tuple[list, list]] = {}
        for hindsight in hindsights(moments[0].app, moments):
            groups.setdefault(hindsight.instruction, ([], []))[hindsight.step is None].append(hindsight)
        by_instruction.append([groups[key] for key in sorted(groups)])
        wishes.append(instructions(moments[0].app))
    how_to, drawn = how_to_source([moments[0].app for moments in walks]), count()

    def draw(rng: random.Random) -> Row:
        if next(drawn) // BATCH % 4 == 3:
            return how_to(rng)
        if rng.random() < 0.55:
            return planner_row(rng.choice(rng.choice(rng.choice(shown))))
        i, dice = rng.randrange(len(walks)), rng.random()
        app = walks[i][0].app
        if dice < 0.15:
            return planner_row(curiosity(walks[i], rng.randrange(len(walks[i])), rng.choice(wishes[i]), rng))
        if dice < 0.2 and (question := reading(rng.choice(walks[i]), rng)):
            return planner_row(question)
        steps, done = rng.choice(by_instruction[i])
        chosen = with_past(rng.choice(done if rng.random() < 0.12 else steps), rng)
        if rng.random() < 0.35:
            chosen = with_more(chosen, _wish(app, chosen, rng), rng)
        if chosen.step is not None and rng.random() < UNSURE:
            chosen = distracted(chosen, rng, typed_words(app))
        return planner_row(chosen)

    return draw


def _wish(app: str, chosen: Hindsight, rng: random.Random) -> Aim:
    """Something more to ask for; where the first thing is done, something that holds as well."""
    wishes = [aim for aim in rng.sample(aims(app), len(aims(app))) if not aim.goal.ask]
    if chosen.after is not None:
        wishes = [aim for aim in wishes if reached(aim, chosen.after)] or wishes
    return wishes[0]


def copying_source(words: Sequence[str]) -> Callable[[random.Random], Row]:
    """Rows without pictures that teach to copy a text, one of these words or any letters: cheap, and learned late otherwise."""
    return lambda rng: copying_row(rng, words)


def vocabulary(walks: Sequence[Sequence[Moment]]) -> list[str]:
    """The texts that are typed in the applications of these walks."""
    return sorted({word for moments in walks for word in typed_words(moments[0].app)})


def reader_source(walks: Sequence[Sequence[Moment]]) -> Callable[[random.Random], Row]:
    """Screens to read out."""
    return lambda rng: description_row(rng.choice(rng.choice(walks)))
