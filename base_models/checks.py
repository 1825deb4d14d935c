"""The figures on the cards: what the base models can do, and whether they look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from random import Random
from typing import Any, NamedTuple

from base_models.attempts import Attempt, AttemptMaker, by_task
from base_models.hindsight import hindsights, planner_row
from base_models.rows import MOVING, SIZE, Row, grounding_row, swap_pictures
from base_models.training_tasks import demonstrate, development_tasks, similar_tasks
from base_models.walks import Transition, Walk, Walks, opened, through_faults, typed_words
from coda_lib.action import Action, ActionError, ActionType
from coda_lib.grammar import parse_actions
from coda_lib.judge import SAMPLING, parse_verdict, read_verdict
from coda_lib.models.chat import ChatModel, Sampling
from coda_lib.trajectory import Trajectory, decode_image

GREEDY = Sampling(temperature=0.0, max_new_tokens=40)
_AT_ONCE = 100  # attempts judged in one batch


def grounding(model: ChatModel, walks: Walks, known: set[bytes], samples: int, seed: int) -> dict[str, Any]:
    """Shares of clicks inside the named element, on screens that are not `known`, and of exact unseen texts.

    `click_inside_APP` is the share in one application, where there are several.  `click_moving` is that among
    rows of lists, drawn objects and handles, which are not always at one place; `click_swapped` is that of
    clicks with the screenshot of another state: it must be lower for a model that looks.
    """
    rng = Random(seed)
    unseen = [[t for t in walk if t.screen not in known] for walk in walks]
    drawn = []
    while len(drawn) < samples:
        transition = rng.choice(rng.choice([walk for walk in unseen if walk]))
        texts = {*typed_words(transition.app, "development")} - {*typed_words(transition.app)}
        drawn.append((transition, grounding_row(transition, rng, sorted(texts), even=True)))
    rows = [row for _, row in drawn]
    clicks, typed = _hits(model, drawn, rows)
    blind, _ = _hits(model, drawn, _swapped(rows, _screens(walks), rng))
    apps, moving = [walk[0].app for walk in walks], [click.inside for click in clicks if click.moving]
    inside = {app: [click.inside for click in clicks if click.app == app] for app in apps}
    by_app = {f"click_inside_{app}": _share(inside[app]) for app in apps}
    return {
        "unseen_screens": sum(len({t.screen for t in walk}) for walk in unseen), "clicks": len(clicks),
        "click_inside": _share([click.inside for click in clicks]),
        **(by_app if len(apps) > 1 else {}),
        **({"click_moving": _share(moving)} if moving else {}),
        "click_swapped": _share([click.inside for click in blind]), "texts": len(typed),
        "text_exact": _share(typed),
    }  # fmt: skip


class _Click(NamedTuple):
    """Whether an action points at what is not always at one place, and lies inside what is named."""

    app: str
    moving: bool
    inside: bool


def _hits(
    model: ChatModel, drawn: Sequence[tuple[Transition, Row]], rows: Sequence[Row]
) -> tuple[list[_Click], list[bool]]:
    """The actions with a point, and whether each typed text is right."""
    clicks, typed = [], []
    replies = model.generate([row.messages for row in rows], GREEDY, 0)
    for (transition, row), reply in zip(drawn, replies, strict=True):
        (right,) = parse_actions(row.reply, SIZE)
        try:
            actions = parse_actions(reply, SIZE)
        except ActionError:
            actions = ()
        if right.type == ActionType.TYPE:
            typed.append(actions == (right,))
        elif right.x is not None:
            moving = any(e.role in MOVING and _is_middle(e, (right.x, right.y)) for e in transition.elements)
            is_same_type = [action.type for action in actions] == [right.type]
            is_inside = is_same_type and _inside(transition, right, actions[0])
            clicks.append(_Click(transition.app, moving, is_inside))
    return clicks, typed


def _inside(transition: Transition, right: Action, action: Action) -> bool:
    """Whether the points of an action lie in the elements that the right action points at."""
    if action.x is None:  # a scroll at the pointer
        return False
    ends = [((right.x, right.y), (action.x, action.y))]
    if right.x2 is not None:
        ends.append(((right.x2, right.y2), (action.x2, action.y2)))
    return all(
        any(_is_middle(e, a) and _holds(e, a) and _holds(e, b) for e in transition.elements) for a, b in ends
    )


def _holds(element: Any, point: tuple[float, float]) -> bool:
    left, top, width, height = element.box
    return left <= point[0] * SIZE[0] <= left + width and top <= point[1] * SIZE[1] <= top + height


def _is_middle(element: Any, point: tuple[float, float]) -> bool:
    """Whether a point on the coordinate grid is this element's middle."""
    return all(abs(c - p) * side <= 4.5 for c, p, side in zip(element.center, point, SIZE, strict=True))


def planning(model: ChatModel, walks: Walks, samples: int, seed: int) -> dict[str, Any]:
    """Share of decisions in hindsight on new walks that the base planner plans exactly so (greedy).

    `plan_swapped` is that with swapped pictures, `script_exact` that of the scripts' steps at tasks of the
    development region, whose values are unseen.
    """
    rng = Random(seed)
    pools = [pool for walk in walks if (pool := hindsights(walk[0].app, walk))]
    rows = [planner_row(rng.choice(rng.choice(pools))) for _ in range(samples)]
    swapped = _swapped(rows, _screens(walks), rng)
    scripts = [row for walk in walks for row in _script_rows(walk[0].app, samples // len(walks), rng)]
    return {
        "decisions": samples, "plan_exact": _exact(model, rows), "plan_swapped": _exact(model, swapped),
        "script_steps": len(scripts), "script_exact": _exact(model, scripts),
    }  # fmt: skip


def _script_rows(app: str, count: int, rng: Random) -> list[Row]:
    env, rows = opened(app), []
    while len(rows) < count:
        rows += map(planner_row, demonstrate(env, *rng.choice(development_tasks(app)), rng, slips=0.0))
    env.close()
    return rows[:count]


def _exact(model: ChatModel, rows: Sequence[Row]) -> float:
    replies = model.generate([row.messages for row in rows], GREEDY, 0)
    return _share([reply == row.reply for reply, row in zip(replies, rows, strict=True)])


def unseen_attempts(
    walk: Walk, played: Sequence[Trajectory], count: int, seed: str
) -> dict[str, list[Attempt]]:
    """What judges are measured on in the application of a walk, by kind.  Faults as in `through_faults`.

    Scripts and the rollouts `played` are at tasks of the development region.
    """
    maker, rng = AttemptMaker(walk), Random(f"unseen attempts {walk[0].app} {seed}")
    unseen = development_tasks(maker.app)
    by_id = {sampled[1].id: sampled for sampled in unseen}

    def by_script() -> Attempt:
        sampled = rng.choice(unseen)
        return maker.script(sampled, similar_tasks(sampled, unseen), rng)

    def replayed(trajectory: Trajectory) -> Attempt:
        return next(through_faults(lambda: maker.rollout(trajectory, by_id[trajectory.task_id], rng)))

    with closing(maker.env):
        rollouts = {(trajectory.task_id, trajectory.run): replayed(trajectory) for trajectory in played}
        return {
            "walk": [maker.stretch(rng) for _ in range(count)],
            "script": list(islice(through_faults(by_script), count)),
            "rollout": list(rollouts.values()),
            "pair": [rollouts[trajectory.task_id, trajectory.run] for trajectory in paired(played)],
        }


def judging(model: ChatModel, attempts: Mapping[str, Sequence[Attempt]], seed: int) -> dict[str, Any]:
    """Accuracy, precision, recall of single votes on `unseen_attempts` by kind, and with swapped pictures.

    The words of a task tell how often it is solved, so a judge can be right about rollouts without looking;
    about `paired` ones they tell nothing.
    """
    rng, figures = Random(seed), {}
    for kind, of_kind in attempts.items():
        truth, verdicts, blind = [], [], []
        pictures = [picture for attempt in of_kind for picture in attempt.pictures]
        for start in range(0, len(of_kind), _AT_ONCE):  # thousands of decoded screens take gigabytes
            rows = [attempt.rows[0] for attempt in of_kind[start : start + _AT_ONCE]]
            truth += [parse_verdict(row.reply).correct for row in rows]
            verdicts += _verdicts(model, rows)
            blind += _verdicts(model, _swapped(rows, pictures, rng))
        figures |= {
            f"{kind}s": len(of_kind),
            f"{kind}_successes": _share(truth),
            f"{kind}_invalid": verdicts.count(None),
            f"{kind}_accuracy": _accuracy(verdicts, truth),
            f"{kind}_precision": _share([t for v, t in zip(verdicts, truth, strict=True) if v]),
            f"{kind}_recall": _recall(verdicts, truth),
            f"{kind}_accuracy_swapped": _accuracy(blind, truth),
            f"{kind}_recall_swapped": _recall(blind, truth),
        }
    return figures


def paired(rollouts: Sequence[Trajectory]) -> list[Trajectory]:
    """As many solved as failed rollouts of each task that has both."""
    both = [outcomes for outcomes in by_task(rollouts).values() if len(outcomes) > 1]
    return [
        trajectory for outcomes in both for part in outcomes for trajectory in part[: min(map(len, outcomes))]
    ]


def _screens(walks: Walks) -> list[bytes]:
    return [transition.screen for walk in walks for transition in walk]


def _swapped(rows: Sequence[Row], pictures: Sequence[bytes], rng: Random) -> list[Row]:
    return [swap_pictures(row, lambda: decode_image(rng.choice(pictures))) for row in rows]


def _verdicts(model: ChatModel, rows: Sequence[Row]) -> list[bool | None]:
    sampling = Sampling(0.0, 1.0, SAMPLING.max_new_tokens)
    verdicts = [read_verdict(reply) for reply in model.generate([row.messages for row in rows], sampling, 0)]
    return [verdict and verdict.correct for verdict in verdicts]


def _accuracy(verdicts: Sequence[bool | None], truth: Sequence[bool]) -> float:
    return _share([v == t for v, t in zip(verdicts, truth, strict=True)])


def _recall(verdicts: Sequence[bool | None], truth: Sequence[bool]) -> float:
    return _share([bool(v) for v, t in zip(verdicts, truth, strict=True) if t])


def _share(values: Sequence[bool]) -> float:
    return round(sum(values) / len(values), 4) if values else float("nan")
