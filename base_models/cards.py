"""Figures that cannot flatter: by application, by kind, by what training held back, beside a control.

The control is the same question about the screen of another state: a network that knows usual places by
heart is as good there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from random import Random

from PIL import Image

from base_models.asking import what_is
from base_models.rows import SIZE, Row, dragged, swap_pictures, value_of
from base_models.synthetic_screens import draw_crop
from base_models.walks import Transition, Walk, Walks, unambiguous
from coda_lib.action import ActionError
from coda_lib.executor import executor_messages
from coda_lib.grammar import parse_actions
from coda_lib.judge import Judge
from coda_lib.models.chat import ChatModel, Message, Sampling
from coda_lib.planner import Observation, planner_messages
from coda_lib.trajectory import Trajectory, decode_image
from coda_study.evaluation.statistics import format_interval, wilson
from sciencedesk.desk.elements import Element
from sciencedesk.perturb import held_back
from sciencedesk.script import to_plan

GREEDY = Sampling(temperature=0.0, max_new_tokens=40)
PAGES = "pages"  # of names that mean nothing
PROMPTS = "compact"


@dataclass(frozen=True)
class Asked:
    """A thing on a screen, what is asked of it, and another screen to ask the same about."""

    app: str
    kind: str  # fixed, row, drawn, moving, slider, name, value
    held: bool  # whether the window has what no training showed
    element: Element
    screen: Image.Image
    other: Image.Image
    to: Element | None = None  # what a slider is dragged to

    def messages(self, screen: Image.Image) -> list[Message]:
        if self.kind == "value":
            return planner_messages(Observation(what_is(self.element), (), screen, screen), PROMPTS)
        plan = to_plan(
            {"drag": [self.element.name, self.to.name]} if self.to else {"click": self.element.name}
        )
        return executor_messages(Observation("", (), screen, screen), plan, PROMPTS)

    def right(self, reply: str) -> bool:
        """Whether a click, or both ends of a drag, are inside, or the value exact."""
        if self.kind == "value":
            return reply == f"ANS {value_of(self.element)}"
        try:
            (action,) = parse_actions(reply, SIZE)
        except (ActionError, ValueError):
            return False
        ends = [(self.element, action.x, action.y), (self.to, action.x2, action.y2)]
        return all(x is not None and inside(element, x, y) for element, x, y in ends if element)


def inside(element: Element, x: float, y: float) -> bool:
    """Whether a point, in shares of the screen, is on an element."""
    left, top, width, height = element.box
    return left <= x * SIZE[0] <= left + width and top <= y * SIZE[1] <= top + height


@dataclass(frozen=True)
class Figure:
    """Right replies of so many, and of the same with another state's screen."""

    app: str
    kind: str
    held: bool
    asked: int
    right: int
    right_otherwise: int | None


def questions(walks: Walks, known: set[bytes], most: int, rng: Random) -> list[Asked]:
    """Up to `most` things of each kind, seen and held back apart, on screens that are not `known`.

    Each name is asked for as often as any other: what is seldom in sight may be what a task asks for.
    """
    asked = []
    for walk in walks:
        groups: dict[tuple[str, bool], list[tuple[Transition, Element]]] = defaultdict(list)
        unseen = [step for step in walk if step.screen not in known]
        places = _places(walk)
        for step in unseen:
            held = any(held_back(step.view, step.app).values()) if step.view else False
            for element in unambiguous(step.elements, step.before):
                groups[_kind(element, places), held].append((step, element))
            for element in filter(value_of, step.elements):
                groups["value", held].append((step, element))
        for (kind, held), things in sorted(groups.items()):
            for step, element in _by_name(things, most, rng):
                other = rng.choice([t for t in unseen if t.screen != step.screen] or unseen)
                screens = decode_image(step.screen), decode_image(other.screen)
                to = _end_of(element, step, rng) if kind == "slider" else None
                asked.append(Asked(step.app, kind, held, element, *screens, to))
    return asked


def _by_name(
    things: Sequence[tuple[Transition, Element]], most: int, rng: Random
) -> list[tuple[Transition, Element]]:
    named: dict[str, list[tuple[Transition, Element]]] = defaultdict(list)
    for thing in rng.sample(things, len(things)):
        named[thing[1].name].append(thing)
    rounds = zip_longest(*rng.sample([*named.values()], len(named)))
    return list(islice(filter(None, chain.from_iterable(rounds)), most))


def page_questions(count: int, rng: Random) -> list[Asked]:
    """Names that mean nothing, on whole pages."""
    asked = []
    while len(asked) < count:
        pages = [draw_crop(["x"] * 60, rng, 1.0, SIZE)[:2] for _ in range(2)]
        (screen, elements), (other, _) = ((Image.fromarray(pixels), found) for pixels, found in pages)
        clear = unambiguous(elements)
        for element in rng.sample(clear, min(6, len(clear), count - len(asked))):
            asked.append(Asked(PAGES, "name", True, element, screen, other))
    return asked


def _places(walk: Walk) -> dict[str, set[tuple[int, ...]]]:
    """The places of each name, by windows: what moves has several in one window."""
    found: dict[tuple[str, str], set] = defaultdict(set)
    for step in walk:
        for element in unambiguous(step.elements):
            found[str(step.view), element.name].add(tuple(element.box[:2]))
    places: dict[str, set] = defaultdict(set)
    for (_, name), boxes in found.items():
        if len(boxes) > len(places[name]):
            places[name] = boxes
    return places


def _kind(element: Element, places: dict[str, set[tuple[int, ...]]]) -> str:
    if element.role in ("row", "target", "slider"):
        return {"target": "drawn"}.get(element.role, element.role)
    return "moving" if len(places[element.name]) > 1 else "fixed"


def _end_of(slider: Element, step: Transition, rng: Random) -> Element:
    clear = unambiguous(step.elements)
    _, name = dragged(slider, clear, rng)["drag"]
    return next(element for element in clear if element.name == name)


def measure(model: ChatModel, asked: Sequence[Asked]) -> list[Figure]:
    """The figures of a model that plans, if it is asked for values, or executes."""
    right = []
    for screens in ([one.screen for one in asked], [one.other for one in asked]):
        messages = [one.messages(screen) for one, screen in zip(asked, screens, strict=True)]
        replies = model.generate(messages, GREEDY, 0)
        right.append([one.right(reply) for one, reply in zip(asked, replies, strict=True)])
    return _counted([(one.app, one.kind, one.held) for one in asked], *right)


def _counted(
    keys: Sequence[tuple[str, str, bool]], own: Sequence[bool], other: Sequence[bool] | None
) -> list[Figure]:
    groups: dict[tuple[str, str, bool], list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        groups[key].append(i)
    figures = []
    for key, of_key in sorted(groups.items()):
        right, *otherwise = (sum(hits[i] for i in of_key) for hits in (own, other) if hits is not None)
        figures.append(Figure(*key, len(of_key), right, *(otherwise or [None])))
    return figures


def replied(model: ChatModel, kind: str, rows: Mapping[str, Sequence[Row]]) -> list[Figure]:
    """The rows of each application that a model replies to exactly, and with the pictures of the next row."""
    asked = [(app, row) for app, of_app in rows.items() for row in of_app]
    turned = []
    for of_app in rows.values():
        for row, other in zip(of_app, [*of_app[1:], *of_app[:1]], strict=True):
            turned.append(swap_pictures(row, iter([*other.pictures, *row.pictures]).__next__))
    right = []
    for messages in ([row for _, row in asked], turned):
        replies = model.generate([row.messages for row in messages], GREEDY, 0)
        right.append([reply == row.reply for reply, row in zip(replies, messages, strict=True)])
    return _counted([(app, kind, False) for app, _ in asked], *right)


def ruled(judge: Judge, rollouts: Sequence[Trajectory]) -> list[Figure]:
    """What a judge's outcomes are worth on rollouts with known success, and with another task's screens.

    Kinds: `rollouts` and `pairs` (as many solved as failed ones of each task with both) ruled rightly;
    `accepted` ones that are solved; `solved` ones that are accepted.
    """
    count, others = len(rollouts), []
    for i, rollout in enumerate(rollouts):
        following = (rollouts[(i + k) % count] for k in range(1, count))
        of_app = (t for t in following if t.app == rollout.app and t.task_id != rollout.task_id)
        others.append(next(of_app, rollout))
    truth, paired = [bool(t.success) for t in rollouts], set(map(id, pairs(rollouts)))
    own = _accepted(judge, rollouts)
    other = _accepted(judge, [shown_as(*both) for both in zip(rollouts, others, strict=True)])
    kinds = {"rollouts": [True] * count, "pairs": [id(t) in paired for t in rollouts], "accepted": own,
             "solved": truth}  # fmt: skip
    figures = []
    for kind, is_of_kind in kinds.items():
        chosen = [i for i in range(count) if is_of_kind[i]]
        right = [[accepted[i] == truth[i] for i in chosen] for accepted in (own, other)]
        keys = [(rollouts[i].app, kind, False) for i in chosen]
        figures += _counted(keys, right[0], None if kind == "accepted" else right[1])
    return figures


def _accepted(judge: Judge, rollouts: Sequence[Trajectory]) -> list[bool]:
    return [judge.rule.outcome(voted.verdicts).success for voted in judge.vote(rollouts, 0)]


def shown_as(rollout: Trajectory, other: Trajectory) -> Trajectory:
    """A rollout with the last screens of another one."""
    screens = [step.screenshot for step in other.steps][-len(rollout.steps) :]
    screens = [*screens[:1] * (len(rollout.steps) - len(screens)), *screens]
    steps = (replace(step, screenshot=screen) for step, screen in zip(rollout.steps, screens, strict=True))
    return replace(rollout, steps=tuple(steps), final_screenshot=other.final_screenshot)


def pairs(rollouts: Sequence[Trajectory]) -> list[Trajectory]:
    """As many solved as failed rollouts of each task that has both: its words do not tell which."""
    outcomes: dict[str, tuple[list, list]] = defaultdict(lambda: ([], []))
    for rollout in rollouts:
        outcomes[rollout.task_id][bool(rollout.success)].append(rollout)
    return [one for parts in outcomes.values() for part in parts for one in part[: min(map(len, parts))]]


def table(figures: Iterable[Figure]) -> str:
    """The figures as a Markdown table, percent with 95 % intervals."""
    head = "| application | kind | window | asked | right | with another screen |\n" + "| --- " * 6 + "|"
    rows = [
        (f.app, f.kind, "held back" if f.held else "seen", str(f.asked),
         *("" if right is None else _share(right, f.asked) for right in (f.right, f.right_otherwise)))
        for f in figures
    ]  # fmt: skip
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in rows)])


def _share(right: int, asked: int) -> str:
    found = wilson(right, asked)
    return format_interval(*(100 * part for part in (found.value, found.low, found.high)))
