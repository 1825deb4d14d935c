"""Figures that cannot flatter: by application, by kind, by what training held back, beside a control.

The control is the same question about the screen of another state: a network that knows usual places by
heart is as good there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from PIL import Image

from base_models.pointing import what_is
from base_models.rows import SIZE, value_of
from base_models.synthetic_screens import draw_crop
from base_models.walks import Transition, Walk, Walks, unambiguous
from coda_lib.action import ActionError
from coda_lib.executor import executor_messages
from coda_lib.grammar import parse_actions
from coda_lib.models.chat import ChatModel, Message, Sampling
from coda_lib.planner import Observation, planner_messages
from coda_lib.trajectory import decode_image
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
    kind: str  # fixed, row, drawn, moving, name, value
    held: bool  # whether the window has what no training showed
    element: Element
    screen: Image.Image
    other: Image.Image

    def messages(self, screen: Image.Image) -> list[Message]:
        if self.kind == "value":
            return planner_messages(Observation(what_is(self.element), (), screen, screen), PROMPTS)
        plan = to_plan({"click": self.element.name})
        return executor_messages(Observation("", (), screen, screen), plan, PROMPTS)

    def right(self, reply: str) -> bool:
        """Whether a click is inside, or the value exact."""
        if self.kind == "value":
            return reply == f"ANS {value_of(self.element)}"
        try:
            (action,) = parse_actions(reply, SIZE)
        except (ActionError, ValueError):
            return False
        if action.x is None:
            return False
        left, top, width, height = self.element.box
        return left <= action.x * SIZE[0] <= left + width and top <= action.y * SIZE[1] <= top + height


@dataclass(frozen=True)
class Figure:
    """Right replies of so many, and of the same with another state's screen."""

    app: str
    kind: str
    held: bool
    asked: int
    right: int
    right_otherwise: int


def questions(walks: Walks, known: set[bytes], most: int, rng: Random) -> list[Asked]:
    """Up to `most` things of each kind, seen and held back apart, on screens that are not `known`."""
    asked = []
    for walk in walks:
        groups: dict[tuple[str, bool], list[tuple[Transition, Element]]] = defaultdict(list)
        unseen = [step for step in walk if step.screen not in known]
        places = _places(walk)
        for step in unseen:
            held = any(held_back(step.view, step.app).values()) if step.view else False
            for element in unambiguous(step.elements):
                groups[_kind(element, places), held].append((step, element))
            for element in filter(value_of, step.elements):
                groups["value", held].append((step, element))
        for (kind, held), things in sorted(groups.items()):
            for step, element in rng.sample(things, min(most, len(things))):
                other = rng.choice([t for t in unseen if t.screen != step.screen] or unseen)
                screens = decode_image(step.screen), decode_image(other.screen)
                asked.append(Asked(step.app, kind, held, element, *screens))
    return asked


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
    if element.role in ("row", "target"):
        return {"row": "row", "target": "drawn"}[element.role]
    return "moving" if len(places[element.name]) > 1 or element.role == "slider" else "fixed"


def measure(model: ChatModel, asked: Sequence[Asked]) -> list[Figure]:
    """The figures of a model that plans, if it is asked for values, or executes."""
    own = model.generate([one.messages(one.screen) for one in asked], GREEDY, 0)
    other = model.generate([one.messages(one.other) for one in asked], GREEDY, 0)
    counts: dict[tuple[str, str, bool], list[int]] = defaultdict(lambda: [0, 0, 0])
    for one, *replies in zip(asked, own, other, strict=True):
        count = counts[one.app, one.kind, one.held]
        count[0] += 1
        for i, reply in enumerate(replies, 1):
            count[i] += one.right(reply)
    return [Figure(*key, *count) for key, count in sorted(counts.items())]


def table(figures: Iterable[Figure]) -> str:
    """The figures as a Markdown table, percent with 95 % intervals."""
    head = "| application | kind | window | asked | right | with another screen |\n" + "| --- " * 6 + "|"
    rows = [
        (f.app, f.kind, "held back" if f.held else "seen", str(f.asked),
         *(_share(right, f.asked) for right in (f.right, f.right_otherwise)))
        for f in figures
    ]  # fmt: skip
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in rows)])


def _share(right: int, asked: int) -> str:
    found = wilson(right, asked)
    return format_interval(*(100 * part for part in (found.value, found.low, found.high)))
