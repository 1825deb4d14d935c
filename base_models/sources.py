"""Sources: functions that draw the next training row, or the next list of rows about the same pictures,
without end.

The docstrings of the sources of a role are part of its card.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

from base_models import hindsight
from base_models.attempts import Attempt, AttemptMaker
from base_models.copying import draw_value_row
from base_models.hindsight import Hindsight
from base_models.rows import (
    Row,
    Shown,
    copying_row,
    description_row,
    element_row,
    grounding_row,
    moving,
    shown,
)
from base_models.synthetic_screens import draw_page
from base_models.text_attempts import names, renamed
from base_models.training_tasks import how_to_row, lessons
from base_models.walks import Transition, by_goal, typed_words, unambiguous
from sciencedesk.goals import Aim

BATCH = 32  # rows a step
SCREENS = 16  # screens a step of the executor's training
# at most so many plans about one screen, which share its encoding: many times the plans in the same time
GROUP = 32
JUDGE_BATCH = 8  # attempts a step of a judge's training
RULINGS = 64  # attempts in words a step
UNSURE = 0.6  # share of random steps, in hindsight and in demonstrations
_CROWDED = 0.6  # share of the vision tower's screens, beside pages, that have lists or drawn objects
_LONGEST = 16  # letters of a name on a page
_OTHERS = 6  # plans among them about anything on the screen
_IN_WORDS = 4  # attempts in words in the place of one with pictures
_RENAMED = 0.5  # share of the attempts in words with other names

Source = Callable[[random.Random], Row | list[Row]]
_Drawn = TypeVar("_Drawn")
Walks = Sequence[Sequence[Transition]]  # one walk an application
Attempts = Sequence[Sequence[Attempt]]  # a list an application
_PORTION = 12  # batches that are drawn at once, to be sorted


def copying_source(texts: Sequence[str]) -> Source:
    """Rows without pictures that teach to copy a text: cheap, and otherwise learned late."""
    return lambda rng: copying_row(rng, texts)


def vocabulary(walks: Walks) -> list[str]:
    """The texts that are typed in the applications of these walks."""
    return sorted({text for walk in walks for text in typed_words(walk[0].app)})


def reader_source(walks: Walks) -> Source:
    """Screens to read out."""
    return lambda rng: description_row(rng.choice(rng.choice(walks)))


def mixed(*sources: Source, size: int = BATCH) -> Source:
    """Batches of `size` rows or lists, each of one source, in turn."""
    number = count()
    return lambda rng: sources[next(number) // size % len(sources)](rng)


# -- executor ----------------------------------------------------------------------------------------------


def screens_source(walks: Walks, pages: float, invented: float = 0.3) -> Callable[[random.Random], Shown]:
    """Screens for the vision tower, a share `pages` of them pages of names; most others have lists or drawn
    objects.
    """
    screens = [list({transition.screen: shown(transition) for transition in walk}.values()) for walk in walks]
    crowded = [
        [s for s in of_walk if sum(e.role in ("row", "target") for e in s.elements) > 3]
        for of_walk in screens
    ]
    names = [shown_names(walk) for walk in walks]

    def draw(rng: random.Random) -> Shown:
        i = rng.randrange(len(walks))
        if rng.random() < pages:
            return draw_page(names[i], rng, invented)
        return rng.choice(crowded[i] if crowded[i] and rng.random() < _CROWDED else screens[i])

    return draw


def shown_names(walk: Sequence[Transition]) -> list[str]:
    """The names that a walk shows, if a list has room for them."""
    return sorted({e.name for t in walk for e in t.elements if 0 < len(e.name) <= _LONGEST})


def executor_source(walks: Walks) -> Source:
    """Three of eight batches are plans that name something visible, or a text to type, with their actions, up
    to 32 about each screen, most of them about what is not always at one place.  Three are plans about pages
    of names at random places.  One is instructions with the next action, in hindsight of one or two steps of
    a walk; one is texts to copy.
    """
    decisions = [of_walk for walk in walks if (of_walk := hindsight.hindsights(walk[0].app, walk))]
    point, page = pointing_source(walks, typed_words), page_source(walks)
    alone = (lambda rng: hindsight.solo_row(rng.choice(rng.choice(decisions)))) if decisions else point
    return mixed(
        point, page, point, alone, page, point, page, copying_source(vocabulary(walks)), size=SCREENS
    )


def page_source(walks: Walks) -> Source:
    """Plans about what is on a page of names, with their actions; three of ten names mean nothing."""
    names = [shown_names(walk) for walk in walks]

    def draw(rng: random.Random) -> list[Row]:
        page = draw_page(rng.choice(names), rng, 0.3)
        clear = unambiguous(page.elements)
        return [
            element_row(page, element, rng) for element in rng.sample(clear, min(len(clear), GROUP - _OTHERS))
        ]

    return draw


def pointing_source(walks: Walks, texts: Callable[[str], Sequence[str]]) -> Source:
    """Plans about what is on a screen with their actions: about each thing that is not always at one place,
    and six others.

    Four of five screens have more than three such things; `texts` gives the texts to type in an application.
    """
    screens = [moving(walk) for walk in walks]
    crowded = [[drawn for drawn in of_walk if len(drawn[1]) > 3] or of_walk for of_walk in screens]

    def draw(rng: random.Random) -> list[Row]:
        i = rng.randrange(len(walks))
        transition, elements = rng.choice(crowded[i] if rng.random() < 0.8 else screens[i])
        asked = rng.sample(elements, min(len(elements), GROUP - _OTHERS))
        rows = [element_row(transition, element, rng) for element in asked]
        return rows + [grounding_row(transition, rng, texts(transition.app)) for _ in range(_OTHERS)]

    return draw


# -- planner -----------------------------------------------------------------------------------------------


def how_to_source(apps: Sequence[str]) -> Source:
    """How-tos: a step of a task's script, given the steps before it and no picture.  They are as cheap as
    copying, and a tiny model that has read them looks for what they name.
    """
    return lambda rng: how_to_row(rng.choice(lessons(rng.choice(apps)))[1], rng)


def value_source(apps: Sequence[str], walks: Walks = ()) -> Source:
    """Values to copy: steps of scripts that name what the instruction names, given the steps before them; one
    half without a picture, one with those of a random screen.  In half of them the names are others, in half
    the numbers, so that the planner copies what it has never seen.
    """

    def draw(rng: random.Random) -> Row:
        return draw_value_row(apps, rng)

    return mixed(draw, lambda rng: draw_value_row(apps, rng, walks)) if walks else draw


def planner_source(walks: Walks, demonstrations: Sequence[Sequence[Sequence[Hindsight]]]) -> Source:
    """One batch in six has how-tos, two have values to copy, one of them with pictures.  Of the other rows 55
    % are decisions of a demonstrator with 60 % random steps, in attempts that solve the task all the same (in
    real applications 40 %, and unsolved attempts count).  Some 30 % are hindsight: what one or two steps of a
    walk achieved is the instruction, and the steps are the plans, after none to three aimless steps; a third
    of these instructions ask for something more, and 60 % of the steps are replaced by random ones.  The rest
    are questions that the screen answers, and the next steps of walks under any instruction. So the planner
    knows interfaces and is unsure of what leads to a goal.
    """
    of_goals = []
    for walk in walks:
        groups: dict[str, tuple[list[Hindsight], list[Hindsight]]] = {}
        for decision in hindsight.hindsights(walk[0].app, walk):
            groups.setdefault(decision.goal, ([], []))[decision.step is None].append(decision)
        of_goals.append([groups[key] for key in sorted(groups)])

    def draw(rng: random.Random) -> Row:
        if rng.random() < 0.55:
            return hindsight.planner_row(rng.choice(rng.choice(rng.choice(demonstrations))))
        i, dice = rng.randrange(len(walks)), rng.random()
        walk = walks[i]
        if dice < 0.15:
            _, task = rng.choice(lessons(walk[0].app))
            return hindsight.planner_row(
                hindsight.undirected_step(walk, rng.randrange(len(walk)), task.instruction, rng)
            )
        if dice < 0.2 and (question := hindsight.reading(rng.choice(walk), rng)):
            return hindsight.planner_row(question)
        steps, done = rng.choice(of_goals[i])
        decision = hindsight.with_past(rng.choice(done if rng.random() < 0.12 else steps), rng)
        if rng.random() < 0.35:
            decision = hindsight.with_more(decision, _draw_wish(walk[0].app, decision, rng), rng)
        if decision.step is not None and rng.random() < UNSURE:
            decision = hindsight.distracted(decision, rng, typed_words(walk[0].app))
        return hindsight.planner_row(decision)

    apps = [walk[0].app for walk in walks]
    return mixed(
        draw, draw, draw, how_to_source(apps),
        lambda rng: draw_value_row(apps, rng), lambda rng: draw_value_row(apps, rng, walks),
    )  # fmt: skip


def _draw_wish(app: str, decision: Hindsight, rng: random.Random) -> Aim:
    """A second aim to ask for; where the first is reached, one that holds as well."""
    free = [aims for name, aims in by_goal(app).items() if name != decision.goal and not aims[0].goal.ask]
    if decision.after is not None:
        free = [
            held for aims in free if (held := [aim for aim in aims if hindsight.reached(aim, decision.after)])
        ] or free
    return hindsight.reworded(rng.choice(rng.choice(free)), rng)


# -- judge -------------------------------------------------------------------------------------------------


def screen_source(walks: Walks) -> Source:
    """Single screens, each to read out and with up to 8 questions about what holds there, answered with yes
    and no about equally often.  A screen costs a fraction of an attempt.
    """
    makers = [AttemptMaker(walk) for walk in walks]
    return lambda rng: rng.choice(makers).screen(rng).rows


def ruling_source(apps: Sequence[str], attempts: Attempts) -> Source:
    """Rulings on attempts in words, half of them with other names: what each step did is given, and what
    holds at the end and the verdict are learned.
    """

    def draw(rng: random.Random) -> Row:
        i = rng.randrange(len(apps))
        attempt = rng.choice(attempts[i])
        return rng.choice(
            (renamed(attempt, names(apps[i]), rng) if rng.random() < _RENAMED else attempt).rulings
        )

    return _in_batches(draw, RULINGS, lambda row: len(str(row.messages)) + len(row.given + row.reply))


def _in_batches(
    draw: Callable[[random.Random], _Drawn], size: int, length: Callable[[_Drawn], int]
) -> Callable[..., _Drawn]:
    """The same source in batches of things of like length, so that little of a batch is padding."""
    waiting: list[list[_Drawn]] = []

    def sorted_draw(rng: random.Random) -> _Drawn:
        if not waiting:
            drawn = sorted((draw(rng) for _ in range(_PORTION * size)), key=length)
            waiting.extend(drawn[k : k + size] for k in range(0, len(drawn), size))
            rng.shuffle(waiting)
        batch = waiting[-1]
        one = batch.pop()
        if not batch:
            waiting.pop()
        return one

    return sorted_draw


def judge_source(walks: Walks, attempts: Attempts, in_words: Attempts) -> Source:
    """Of five attempts two are stretches of random walks, two are scripts, whole or with a fault (of the
    judge also rollouts of the base planner), and one is a single screen; the application's state labels them.
    A reply says what each step did, what holds at the end, and then the verdict; the plans stand beside the
    screenshots.  Each attempt has up to 4 more questions about its end.  One batch in three is without
    pictures: rulings on attempts in words.
    """
    makers = [AttemptMaker(walk) for walk in walks]
    rule = ruling_source(
        [maker.app for maker in makers], [[*w, *a, *a] for w, a in zip(in_words, attempts, strict=True)]
    )

    def draw_attempt(rng: random.Random) -> Attempt:
        i, dice = rng.randrange(len(makers)), rng.random()
        if dice < 0.4 and attempts[i]:
            return rng.choice(attempts[i])
        return makers[i].stretch(rng) if dice < 0.8 else makers[i].screen(rng)

    seen = _in_batches(draw_attempt, JUDGE_BATCH, lambda attempt: len(attempt.pictures))
    number = count()

    def draw(rng: random.Random) -> list[Row]:
        in_words = next(number) // JUDGE_BATCH % 3 == 2
        return [rule(rng) for _ in range(_IN_WORDS)] if in_words else seen(rng).rows

    return draw
