"""What executor and base planner learn from: rows of (messages, reply) made from random walks.

* executor: a plan that names something visible, or a text to type -> the action (grounding); and, for the executor alone,
  an instruction -> the next action, with the same hindsight as below;
* planner: hindsight of one or two steps: what a walk happened to achieve is the instruction, what it did is the plan;

Instructions of test tasks never occur in any of them.  What the judge learns from is in `judge_rows`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from PIL import Image

from coda_lib.action import Action, format_action
from coda_lib.envs.sciencedesk.desk import HEIGHT, WIDTH
from coda_lib.envs.sciencedesk.elements import Element
from coda_lib.envs.sciencedesk.script import to_plan
from coda_lib.envs.sciencedesk.walk import Moment
from coda_lib.executor import executor_messages, solo_messages
from coda_lib.explore import Aim, aims, combinations, sentence
from coda_lib.judge import judge_messages
from coda_lib.model import Message
from coda_lib.planner import Observation, Turn, planner_messages
from coda_lib.predicate import holds
from coda_lib.task import test_tasks
from coda_lib.tiny import GRID
from coda_lib.trajectory import decode_image

SIZE = (WIDTH, HEIGHT)
PROMPTS = "compact"
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789+-*/^()=. "


@dataclass(frozen=True)
class Row:
    """One example: what the model is asked and what it should reply."""

    messages: list[Message]
    reply: str


def on_grid(action: Action) -> str:
    """The action's text with its coordinates on the grid on which each is one token."""

    def snap(fraction: float | None, side: int) -> float | None:
        return None if fraction is None else min(round(fraction * side / GRID) * GRID, side - GRID) / side

    snapped = Action(
        action.type, snap(action.x, WIDTH), snap(action.y, HEIGHT), snap(action.x2, WIDTH), snap(action.y2, HEIGHT),
        action.text, action.direction,
    )  # fmt: skip
    return format_action(snapped, SIZE)


# -- executor ----------------------------------------------------------------------------------------------------------


def grounding_row(moment: Moment, rng: random.Random, words: Sequence[str], even: bool = False) -> Row:
    """A plan about anything visible on a screen, or a text to type, and its action.

    What an application draws itself (planets, atoms, peaks, ticks) moves and is learned last, so it is drawn more often than
    the rest; with `even` everything visible is equally likely.
    """
    clear = _clear(moment)
    dice = rng.random()
    rows = [e for e in clear if e.role == "row"]
    sliders = [e for e in clear if e.role == "slider"]
    drawn = [e for e in clear if e.role == "target"]
    if dice < 0.22:
        step = {"type": _word(rng, words) + rng.choice(["\n", ""])}
        action = Action.type_text(step["type"])
    elif dice < 0.26 and not moment.step.keys() & {"click", "type"}:
        step, action = moment.step, moment.action
    elif dice < 0.36 and (sliders or len(rows) > 1):
        step, action = _dragged(sliders[0] if sliders else rng.choice(rows), clear, rng)
    else:
        step, action = _clicked(rng.choice(drawn if drawn and dice < 0.62 and not even else clear), rng)
    return _executor_row(moment, step, action)


def moved_row(moment: Moment, element: Element, rng: random.Random) -> Row:
    """A plan about one element of a screen, and its action."""
    pulled = element.role in ("slider", "row") and rng.random() < 0.3
    step, action = _dragged(element, _clear(moment), rng) if pulled else _clicked(element, rng)
    return _executor_row(moment, step, action)


def _dragged(start: Element, clear: Sequence[Element], rng: random.Random) -> tuple[dict, Action]:
    """A slider's handle pulled to a tick, or a row of a list to another."""
    drawn = [e for e in clear if e.role == "target"]
    ticks = [e for e in drawn if e.name.lstrip("-").isdigit()] or drawn
    end = rng.choice(ticks if start.role == "slider" else [e for e in clear if e.role == "row"])
    return {"drag": [start.name, end.name]}, Action.drag(*start.center, *end.center)


def _clicked(element: Element, rng: random.Random) -> tuple[dict, Action]:
    kind = rng.choices(["click", "double", "right"], [0.84, 0.08, 0.08])[0]
    make = {"click": Action.click, "double": Action.double_click, "right": Action.right_click}[kind]
    return {kind: element.name}, make(*element.center)


def _executor_row(moment: Moment, step: dict, action: Action) -> Row:
    picture = decode_image(moment.screen)
    observation = Observation("", (), picture, picture)
    return Row(executor_messages(observation, to_plan(step), PROMPTS), on_grid(action))


def moved(moments: Sequence[Moment]) -> list[tuple[Moment, Element]]:
    """What is not where it usually is: a planet at another hour, a slider's handle, a layer pulled up its list.

    An executor that knows the usual places by heart is nearly always right, and wrong here.
    """
    places: dict[str, Counter] = {}
    for moment in moments:
        for element in _clear(moment):
            places.setdefault(element.name, Counter())[element.box[:2]] += 1
    usual = {name: counts.most_common(1)[0][0] for name, counts in places.items()}
    return [(m, e) for m in moments for e in _clear(m) if _far(e.box[:2], usual[e.name])]


def _far(place: tuple[int, int], usual: tuple[int, int]) -> bool:
    return abs(place[0] - usual[0]) > GRID or abs(place[1] - usual[1]) > GRID


def _word(rng: random.Random, words: Sequence[str]) -> str:
    """A text to type: one of the applications' own, or any letters, so that copying is learned and not a list."""
    return rng.choice(words) if rng.random() < 0.6 else "".join(rng.choices(_LETTERS, k=rng.randint(1, 8))).strip() or "x"


def copying_row(rng: random.Random, words: Sequence[str]) -> Row:
    """A plan to type a text, without a picture."""
    step = {"type": _word(rng, words) + rng.choice(["\n", ""])}
    messages = [{"role": "user", "content": [{"type": "text", "text": to_plan(step)}]}]
    return Row(messages, on_grid(Action.type_text(step["type"])))


def _clear(moment: Moment) -> list[Element]:
    names = [e.name for e in moment.elements]
    return [e for e in moment.elements if names.count(e.name) == 1 and e.role != "value"]


@cache
def _held_out(app: str) -> frozenset[str]:
    return frozenset(task.instruction for task in test_tasks(app))


# -- hindsight: planner, and executor alone ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Hindsight:
    """One decision seen in hindsight: at this point of a walk, this instruction asks for this step (None: it is done)."""

    instruction: str
    history: tuple[Moment, ...]  # the steps of the segment already taken, and perhaps some aimless ones before
    previous: bytes
    current: bytes
    step: dict | None
    action: Action
    instead: tuple[str, ...] = ()  # what else is on the screen
    aimless: tuple[Moment, ...] = ()  # up to three steps of the walk before the segment
    after: dict | None = None  # the state, where it is done


def hindsights(app: str, moments: Sequence[Moment]) -> list[Hindsight]:
    """All hindsight decisions of a walk's one- and two-step segments."""
    found: list[Hindsight] = []
    for i, moment in enumerate(moments):
        aimless = tuple(m for m in moments[max(0, i - 3) : i] if m.walk == moment.walk)
        found += _segment(app, (moment,), aimless)
        if i + 1 < len(moments) and moments[i + 1].walk == moment.walk and leads_to(moment, moments[i + 1]):
            found += _segment(app, (moment, moments[i + 1]), aimless)
    return found


def leads_to(first: Moment, second: Moment) -> bool:
    """Whether the second step needed the first: what it acts on was not there before, or it types into a new focus."""
    (kind, what), visible = next(iter(second.step.items())), {e.name for e in first.elements}
    if kind == "type":
        return first.screen != first.next_screen and "click" in first.step
    return kind != "press" and not ({what} if isinstance(what, str) else {what[0]}) <= visible


def _segment(app: str, segment: tuple[Moment, ...], aimless: tuple[Moment, ...]) -> Iterator[Hindsight]:
    achieved = [aim for aim in aims(app) if not aim.goal.ask and _achieved(aim, segment[0].before, segment[-1].after)]
    if len(segment) == 2 and any(_achieved(aim, segment[0].before, segment[0].after) for aim in achieved):
        return
    for instruction in (sentence([aim]) for aim in achieved):
        if instruction in _held_out(app):
            continue
        for k, moment in enumerate(segment):
            previous = segment[k - 1].screen if k else moment.screen
            instead = tuple(e.name for e in _clear(moment))
            yield Hindsight(
                instruction, segment[:k], previous, moment.screen, moment.step, moment.action, instead, aimless
            )  # fmt: skip
        last = segment[-1]
        yield Hindsight(
            instruction, segment, last.screen, last.next_screen, None, Action.done(), aimless=aimless, after=last.after
        )  # fmt: skip


def _achieved(aim: Aim, before: dict, after: dict) -> bool:
    return reached(aim, after) and not reached(aim, before)


def reached(aim: Aim, state: dict) -> bool:
    """Whether an aim holds in an application's state."""
    return all(holds(item, state) for item in aim.checks)


def _observation(hindsight: Hindsight) -> Observation:
    history = tuple(Turn(moment.plan, on_grid(moment.action)) for moment in hindsight.history)
    return Observation(hindsight.instruction, history, decode_image(hindsight.previous), decode_image(hindsight.current))


def planner_row(hindsight: Hindsight) -> Row:
    plan = "DONE" if hindsight.step is None else to_plan(hindsight.step)
    return Row(planner_messages(_observation(hindsight), PROMPTS), plan)


def solo_row(hindsight: Hindsight) -> Row:
    return Row(solo_messages(_observation(hindsight), PROMPTS), on_grid(hindsight.action))


def reading(moment: Moment, rng: random.Random) -> Hindsight | None:
    """A question that the present screen answers: one labelled value is asked for, and answering is the one step."""
    shown = [e for e in moment.elements if e.role == "value" and e.text.startswith(f"{e.name}: ") and e.text[-1] != "-"]
    if not shown:
        return None
    element = rng.choice(shown)
    answer = element.text.partition(": ")[2]
    name = element.name.lower()
    step = {"answer": answer}
    return Hindsight(f"What is the {name}?", (), moment.screen, moment.screen, step, Action.answer(answer))


READING = "What is on the screen?"


def description(moment: Moment) -> str:
    """What a screen says, read out: the tab in front, every value and message, every row of a list."""
    said = []
    for element in moment.elements:
        if element.text == "selected":
            said.append(element.name)
        elif element.text:
            said.append(element.text if element.role == "value" else f"{element.name} {element.text}")
    said += [element.name for element in moment.elements if element.role == "row"]
    return ". ".join(said) + "."


def description_row(moment: Moment) -> Row:
    """A screen to read out, asked as a judge is."""
    return Row(judge_messages(READING, [decode_image(moment.screen)], None, PROMPTS), description(moment))


def instructions(app: str) -> list[str]:
    """What one may ask of an application: each aim, and pairs of them, without the instructions of test tasks."""
    rng = random.Random(f"instructions of {app}")
    single = [sentence([aim]) for aim in aims(app)]
    pairs = [sentence(parts) for parts in combinations(app, 2, rng)[:300]]
    return [text for text in single + pairs if text not in _held_out(app)]


def curiosity(moments: Sequence[Moment], index: int, instruction: str, rng: random.Random) -> Hindsight:
    """What a walk did next, after up to three steps of it, under an instruction that has nothing to do with it."""
    moment = moments[index]
    past = tuple(m for m in moments[max(0, index - rng.randint(0, 3)) : index] if m.walk == moment.walk)
    previous = past[-1].screen if past else moment.screen
    return Hindsight(instruction, past, previous, moment.screen, moment.step, moment.action)


def with_past(hindsight: Hindsight, rng: random.Random) -> Hindsight:
    """The same decision after up to three aimless steps, as in an episode that has gone astray."""
    n = rng.randint(0, len(hindsight.aimless))
    if not n:
        return hindsight
    past = hindsight.aimless[len(hindsight.aimless) - n :]
    return replace(
        hindsight, history=past + hindsight.history, previous=hindsight.previous if hindsight.history else past[-1].screen
    )


def with_more(hindsight: Hindsight, wish: Aim, rng: random.Random) -> Hindsight:
    """The same decision where the instruction asks for something more, before or after; never a test task's instruction."""
    text = hindsight.instruction[:-1]
    more = wish.text[0].upper() + wish.text[1:]
    first, second = (text, more) if rng.random() < 0.5 else (more, text)
    asked = f"{first} and {second[0].lower()}{second[1:]}."
    return hindsight if asked in _held_out(wish.goal.app) else replace(hindsight, instruction=asked)


def distracted(hindsight: Hindsight, rng: random.Random, words: Sequence[str]) -> Hindsight:
    """The same decision by somebody whose attention slips: anything else that one could do on this screen."""
    if "type" in hindsight.step:
        step = {"type": rng.choice(words) + rng.choice(["\n", ""])}
    else:
        step = {"click": rng.choice(hindsight.instead)}
    return replace(hindsight, step=step)


def swap_pictures(row: Row, pictures: Callable[[], Image.Image]) -> Row:
    """The same question about other pictures: what a model that looks must get wrong."""

    def swapped(part: dict) -> dict:
        return {"type": "image", "image": pictures()} if part["type"] == "image" else part

    messages = [message | {"content": [swapped(part) for part in message["content"]]} for message in row.messages]
    return Row(messages, row.reply)
