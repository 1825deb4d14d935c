"""What the base models can do, and whether they look: the figures on their cards."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from coda_lib.action import ActionError, ActionType, parse_actions
from coda_lib.base_models.attempts import Case
from coda_lib.base_models.hindsight import hindsights, planner_row
from coda_lib.base_models.judge_rows import Examiner, by_task
from coda_lib.base_models.lessons import alike, judge_lessons
from coda_lib.base_models.rows import SIZE, Row, grounding_row, swap_pictures
from coda_lib.base_models.walks import Moment, typed_words
from coda_lib.judge import SAMPLING, parse_verdict, read_verdict
from coda_lib.models.chat import ChatModel, Sampling
from coda_lib.trajectory import Trajectory, decode_image

GREEDY = Sampling(temperature=0.0, max_new_tokens=40)


def grounding(
    model: ChatModel, walks: Sequence[Sequence[Moment]], known: set[bytes], samples: int, seed: int,
    words: Callable[[str], Sequence[str]] = typed_words,
) -> dict[str, Any]:  # fmt: skip
    """Share of clicks inside the named element and of typed texts exact, on screens that training did not see.

    `known` are the training screens.  `click_swapped` is the first share with the screenshot of another state: a model that
    looks must fall there.
    """
    rng = random.Random(seed)
    unseen = [[m for m in moments if m.screen not in known] for moments in walks]
    drawn = []
    while len(drawn) < samples:
        moments = rng.choice([m for m in unseen if m])
        moment = rng.choice(moments)
        drawn.append((moment, grounding_row(moment, rng, words(moment.app), even=True)))
    rows = [row for _, row in drawn]
    everything = [m for moments in walks for m in moments]
    swapped = [swap_pictures(row, lambda: decode_image(rng.choice(everything).screen)) for row in rows]
    hits = _hits(model, drawn, rows)
    blind = _hits(model, drawn, swapped)
    return {
        "unseen_screens": sum(len({m.screen for m in moments}) for moments in unseen),
        "clicks": len(hits["point"]),
        "click_inside": _share(hits["point"]),
        "click_swapped": _share(blind["point"]),
        "texts": len(hits["type"]),
        "text_exact": _share(hits["type"]),
    }


def _hits(model: ChatModel, drawn: Sequence[tuple[Moment, Row]], rows: Sequence[Row]) -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = {"point": [], "type": []}
    for (moment, row), reply in zip(drawn, model.generate([r.messages for r in rows], GREEDY, 0), strict=True):
        (wanted,) = parse_actions(row.reply, SIZE)
        try:
            got = parse_actions(reply, SIZE)
        except ActionError:
            got = ()
        if wanted.type == ActionType.TYPE:
            found["type"].append(got == (wanted,))
        elif wanted.x is not None:
            found["point"].append(len(got) == 1 and got[0].type == wanted.type and _inside(moment, wanted, got[0]))
    return found


def _inside(moment: Moment, wanted: Any, got: Any) -> bool:
    """Whether the points of an action fall into the elements that the wanted action points at."""
    ends = [((wanted.x, wanted.y), (got.x, got.y))]
    if wanted.x2 is not None:
        ends.append(((wanted.x2, wanted.y2), (got.x2, got.y2)))
    return all(any(_within(e.box, a) and _within(e.box, b) and _middle(e, a) for e in moment.elements) for a, b in ends)


def _within(box: tuple[int, int, int, int], point: tuple[float, float]) -> bool:
    x, y = point[0] * SIZE[0], point[1] * SIZE[1]
    return box[0] <= x <= box[0] + box[2] and box[1] <= y <= box[1] + box[3]


def _middle(element: Any, point: tuple[float, float]) -> bool:
    """Whether the wanted point (on the coordinate grid) is this element's middle."""
    cx, cy = element.center
    return abs(cx - point[0]) * SIZE[0] <= 4.5 and abs(cy - point[1]) * SIZE[1] <= 4.5


def planning(model: ChatModel, walks: Sequence[Sequence[Moment]], samples: int, seed: int) -> dict[str, Any]:
    """Share of hindsight decisions on new walks that the base planner plans exactly so (greedy), and with swapped pictures."""
    rng = random.Random(seed)
    pools = [hindsights(moments[0].app, moments) for moments in walks]
    rows = [planner_row(rng.choice(rng.choice([p for p in pools if p]))) for _ in range(samples)]
    everything = [m for moments in walks for m in moments]
    swapped = [swap_pictures(row, lambda: decode_image(rng.choice(everything).screen)) for row in rows]
    return {"decisions": samples, "plan_exact": _exact(model, rows), "plan_swapped": _exact(model, swapped)}


def _exact(model: ChatModel, rows: Sequence[Row]) -> float:
    return _share([r == row.reply for r, row in zip(model.generate([r.messages for r in rows], GREEDY, 0), rows, strict=True)])


def judging(
    model: ChatModel, walks: Sequence[Sequence[Moment]], rollouts: Sequence[Sequence[Trajectory]], samples: int, seed: int
) -> dict[str, Any]:
    """Accuracy, precision and recall of single judgments on new attempts of each kind, and what is left of them with swapped
    pictures.

    The words of a task alone tell how often it is solved, so that a judge need not look at rollouts; of `paired` ones they
    tell nothing.
    """
    rng = random.Random(seed)
    rows: dict[str, list[Row]] = {"walk": [], "script": [], "rollout": [], "pair": []}
    for moments, played in zip(walks, rollouts, strict=True):
        examiner = Examiner(moments)
        lessons = judge_lessons(examiner.app)
        named = {lesson[1].id: lesson for lesson in lessons}
        drawn = [rng.choice(lessons) for _ in range(samples // 3 // len(walks))]
        cases: dict[str, list[Case]] = {
            "walk": [examiner.stretch(rng) for _ in drawn],
            "script": [examiner.script(lesson, alike(lesson, lessons), rng) for lesson in drawn],
            "rollout": [examiner.rollout(trajectory, named[trajectory.task_id], rng) for trajectory in played],
            "pair": [examiner.rollout(trajectory, named[trajectory.task_id], rng) for trajectory in paired(played)],
        }
        for kind, some in cases.items():
            rows[kind] += [case.rows[0] for case in some]
    figures: dict[str, Any] = {}
    for kind, some in rows.items():
        truth = [parse_verdict(row.reply).correct for row in some]
        said = _verdicts(model, some)
        pool = [part["image"] for row in some for m in row.messages for part in m["content"] if part["type"] == "image"]
        swapped = [swap_pictures(row, lambda pool=pool: rng.choice(pool)) for row in some]
        blind = _verdicts(model, swapped)
        figures |= {
            f"{kind}s": len(some),
            f"{kind}_successes": _share(truth),
            f"{kind}_invalid": said.count(None),
            f"{kind}_accuracy": _share([s == t for s, t in zip(said, truth, strict=True)]),
            f"{kind}_precision": _share([t for s, t in zip(said, truth, strict=True) if s]),
            f"{kind}_recall": _share([bool(s) for s, t in zip(said, truth, strict=True) if t]),
            f"{kind}_accuracy_swapped": _share([s == t for s, t in zip(blind, truth, strict=True)]),
            f"{kind}_recall_swapped": _share([bool(s) for s, t in zip(blind, truth, strict=True) if t]),
        }
    return figures


def paired(rollouts: Sequence[Trajectory]) -> list[Trajectory]:
    """As many solved as failed rollouts of each task that has both."""
    both = [outcomes for _, outcomes in by_task(rollouts) if len(outcomes) > 1]
    return [trajectory for outcomes in both for some in outcomes for trajectory in some[: min(map(len, outcomes))]]


def _verdicts(model: ChatModel, rows: Sequence[Row]) -> list[bool | None]:
    sampling = Sampling(0.0, 1.0, SAMPLING.max_new_tokens)
    verdicts = [read_verdict(reply) for reply in model.generate([row.messages for row in rows], sampling, 0)]
    return [verdict and verdict.correct for verdict in verdicts]


def _share(values: Sequence[bool]) -> float:
    return round(sum(values) / len(values), 4) if values else float("nan")
