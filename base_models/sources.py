"""Samplers: functions that draw the next training row, or the next list of rows about the same pictures.

They go on without end.  The docstrings of the samplers of a role are part of its card.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, count
from random import Random
from typing import TypeVar

from base_models import hindsight
from base_models.attempts import Attempt, AttemptMaker
from base_models.hindsight import Hindsight
from base_models.rows import (
    LabelledScreen,
    Row,
    copying_row,
    description_row,
    element_row,
    grounding_row,
    labelled,
    moving,
)  # fmt: skip
from base_models.synthetic_screens import draw_page
from base_models.text_attempts import renamed
from base_models.training_tasks import draw_value_row, how_to_row, planner_tasks
from base_models.walks import Walk, Walks, by_goal, names, typed_words, unambiguous
from sciencedesk.goals import Aim

BATCH = 32  # rows a step
SCREENS = 16  # screens a step of the executor's training
GROUP = 32  # plans about a screen, at most, share its encoding: many times the plans in the same time
JUDGE_BATCH = 8  # attempts a step of a judge's training
RULINGS = 64  # attempts in words a step
UNSURE = 0.6  # share of random steps, in hindsight and in demonstrations
_CROWDED = 0.6  # share of the vision tower's screens, beside pages, that have lists or drawn objects
_LONGEST = 16  # letters of a name on a page
_OTHERS = 6  # plans among them about anything on the screen
_IN_WORDS = 4  # attempts in words in the place of one with pictures
_RENAMED = 0.5  # share of the attempts in words with other names
_PORTION = 12  # batches that are drawn at once, to be sorted

Sampler = Callable[[Random], Row | list[Row]]
_Drawn = TypeVar("_Drawn")
Attempts = Sequence[Sequence[Attempt]]  # a list an application


def copying_sampler(walks: Walks) -> Sampler:
    """Rows without pictures that teach to copy a typed text: cheap, and otherwise learned late."""
    texts = sorted({text for walk in walks for text in typed_words(walk[0].app)})
    return lambda rng: copying_row(rng, texts)


def reader_sampler(walks: Walks) -> Sampler:
    """Screens to read out."""
    return lambda rng: description_row(rng.choice(rng.choice(walks)))


def mixed(*samplers: Sampler, size: int = BATCH) -> Sampler:
    """Batches of `size` rows or lists, each of one sampler, in turn."""
    number = count()
    return lambda rng: samplers[next(number) // size % len(samplers)](rng)


# -- executor ----------------------------------------------------------------------------------------------


def screens_sampler(walks: Walks, pages: float, invented: float = 0.3) -> Callable[[Random], LabelledScreen]:
    """Screens for the vision tower, a share `pages` of them pages of names; most others have lists or drawn
    objects.
    """
    screens = [list({step.screen: labelled(step) for step in walk}.values()) for walk in walks]
    crowded = [
        [screen for screen in of_walk if sum(e.role in ("row", "target") for e in screen.elements) > 3]
        for of_walk in screens
    ]
    names = [shown_names(walk) for walk in walks]

    def draw(rng: Random) -> LabelledScreen:
        i = rng.randrange(len(walks))
        if rng.random() < pages:
            return draw_page(names[i], rng, invented)
        return rng.choice(crowded[i] if crowded[i] and rng.random() < _CROWDED else screens[i])

    return draw


def shown_names(walk: Walk) -> list[str]:
    """The names that a walk shows, if a list has room for them."""
    return sorted({e.name for t in walk for e in t.elements if 0 < len(e.name) <= _LONGEST})


def executor_sampler(walks: Walks) -> Sampler:
    """Three of eight batches are plans that name something visible, or a text to type, with their actions, up
    to 32 about each screen, most of them about what is not always at one place.  Three are plans about pages
    of names at random places.  One is instructions with the next action, in hindsight of one or two steps of
    a walk; one is texts to copy.
    """
    decisions = [of_walk for walk in walks if (of_walk := hindsight.hindsights(walk[0].app, walk))]
    point, page, copy = pointing_sampler(walks), page_sampler(walks), copying_sampler(walks)
    alone = (lambda rng: hindsight.solo_row(rng.choice(rng.choice(decisions)))) if decisions else point
    return mixed(point, page, point, alone, page, point, page, copy, size=SCREENS)


def page_sampler(walks: Walks) -> Sampler:
    """Plans about what is on a page of names, with their actions; three of ten names mean nothing."""
    names = [shown_names(walk) for walk in walks]

    def draw(rng: Random) -> list[Row]:
        page = draw_page(rng.choice(names), rng, 0.3)
        clear = unambiguous(page.elements)
        asked = rng.sample(clear, min(len(clear), GROUP - _OTHERS))
        return [element_row(page, element, rng) for element in asked]

    return draw


def pointing_sampler(walks: Walks) -> Sampler:
    """Plans about each thing on a screen that is not always at one place, and six others, with their
    actions.
    """
    screens = [moving(walk) for walk in walks]
    crowded = [[drawn for drawn in of_walk if len(drawn[1]) > 3] or of_walk for of_walk in screens]

    def draw(rng: Random) -> list[Row]:
        i = rng.randrange(len(walks))
        transition, elements = rng.choice(crowded[i] if rng.random() < 0.8 else screens[i])
        asked = rng.sample(elements, min(len(elements), GROUP - _OTHERS))
        rows = [element_row(transition, element, rng) for element in asked]
        texts = typed_words(transition.app)
        return rows + [grounding_row(transition, rng, texts) for _ in range(_OTHERS)]

    return draw


# -- planner -----------------------------------------------------------------------------------------------


def how_to_sampler(apps: Sequence[str]) -> Sampler:
    """How-tos: a step of a task's script, given the steps before it and no picture.  They are as cheap as
    copying, and a tiny model that has read them looks for what they name.
    """
    return lambda rng: how_to_row(rng.choice(planner_tasks(rng.choice(apps)))[1], rng)


def value_sampler(apps: Sequence[str], walks: Walks = ()) -> Sampler:
    """Values to copy: steps of scripts that name what the instruction names, given the steps before them; one
    half without a picture, one with those of a random screen.  In half of them the names are others, in half
    the numbers, so that the planner copies what it has never seen.
    """

    def draw(rng: Random) -> Row:
        return draw_value_row(apps, rng)

    return mixed(draw, lambda rng: draw_value_row(apps, rng, walks)) if walks else draw


def planner_sampler(walks: Walks, demonstrations: Sequence[Sequence[Sequence[Hindsight]]]) -> Sampler:
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

    def draw(rng: Random) -> Row:
        if rng.random() < 0.55:
            return hindsight.planner_row(rng.choice(rng.choice(rng.choice(demonstrations))))
        i, dice = rng.randrange(len(walks)), rng.random()
        walk = walks[i]
        if dice < 0.15:
            _, task = rng.choice(planner_tasks(walk[0].app))
            index = rng.randrange(len(walk))
            return hindsight.planner_row(hindsight.undirected_step(walk, index, task.instruction, rng))
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
    values, pictured = (lambda rng: draw_value_row(apps, rng)), (lambda rng: draw_value_row(apps, rng, walks))
    return mixed(draw, draw, draw, how_to_sampler(apps), values, pictured)


def _draw_wish(app: str, decision: Hindsight, rng: Random) -> Aim:
    """A second aim to ask for; where the first is reached, one that holds as well."""
    free = [aims for name, aims in by_goal(app).items() if name != decision.goal and not aims[0].goal.ask]
    if decision.after is not None:
        held = [[aim for aim in aims if hindsight.reached(aim, decision.after)] for aims in free]
        free = [aims for aims in held if aims] or free
    return hindsight.reworded(rng.choice(rng.choice(free)), rng)


# -- judge -------------------------------------------------------------------------------------------------


def screen_sampler(walks: Walks) -> Sampler:
    """Single screens, each to read out and with up to 8 questions about what holds there, answered with yes
    and no about equally often.  A screen costs a fraction of an attempt.
    """
    makers = [AttemptMaker(walk) for walk in walks]
    return lambda rng: rng.choice(makers).screen(rng).rows


def ruling_sampler(apps: Sequence[str], attempts: Attempts) -> Sampler:
    """Rulings on attempts in words, half of them with other names: what each step did is given, and what
    holds at the end and the verdict are learned.
    """

    def draw(rng: Random) -> Row:
        i = rng.randrange(len(apps))
        attempt = rng.choice(attempts[i])
        if rng.random() < _RENAMED:
            attempt = renamed(attempt, names(apps[i]), rng)
        return rng.choice(attempt.rulings)

    return _in_batches(draw, RULINGS, lambda row: len(str(row.messages)) + len(row.given + row.reply))


def _in_batches(
    draw: Callable[[Random], _Drawn], size: int, length: Callable[[_Drawn], int]
) -> Callable[..., _Drawn]:
    """The same sampler in batches of things of like length, so that little of a batch is padding."""
    waiting: list[_Drawn] = []

    def sorted_draw(rng: Random) -> _Drawn:
        if not waiting:
            drawn = sorted((draw(rng) for _ in range(_PORTION * size)), key=length)
            batches = [drawn[k : k + size] for k in range(0, len(drawn), size)]
            rng.shuffle(batches)
            waiting.extend(chain.from_iterable(batches))
        return waiting.pop()

    return sorted_draw


def judge_sampler(walks: Walks, attempts: Attempts, in_words: Attempts) -> Sampler:
    """Of five attempts two are stretches of random walks, two are scripts, whole or with a fault (of the
    judge also rollouts of the base planner), and one is a single screen; the application's state labels them.
    A reply says what each step did, what holds at the end, and then the verdict; the plans stand beside the
    screenshots.  Each attempt has up to 4 more questions about its end.  One batch in three is without
    pictures: rulings on attempts in words.
    """
    makers = [AttemptMaker(walk) for walk in walks]
    pools = [[*texts, *seen, *seen] for texts, seen in zip(in_words, attempts, strict=True)]
    rule = ruling_sampler([maker.app for maker in makers], pools)

    def draw_attempt(rng: Random) -> Attempt:
        i, dice = rng.randrange(len(makers)), rng.random()
        if dice < 0.4 and attempts[i]:
            return rng.choice(attempts[i])
        return makers[i].stretch(rng) if dice < 0.8 else makers[i].screen(rng)

    sorted_attempt = _in_batches(draw_attempt, JUDGE_BATCH, lambda attempt: len(attempt.pictures))

    def seen(rng: Random) -> list[Row]:
        return sorted_attempt(rng).rows

    return mixed(seen, seen, lambda rng: [rule(rng) for _ in range(_IN_WORDS)], size=JUDGE_BATCH)
