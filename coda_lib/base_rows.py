"""What the base models learn from: rows of (messages, reply) made from random walks and, for the judge, from marred scripts.

* executor: a plan that names something visible, or a text to type -> the action (grounding); and, for the executor alone,
  an instruction -> the next action, with the same hindsight as below;
* planner: hindsight of one or two steps: what a walk happened to achieve is the instruction, what it did is the plan;
* judge: scripts of tasks that are neither test nor train tasks, whole or marred, labelled by the application's own check.

Instructions of test tasks never occur in any of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from PIL import Image

from coda_lib.action import Action, ActionType, format_action
from coda_lib.envs.sciencedesk.desk import HEIGHT, WIDTH
from coda_lib.envs.sciencedesk.env import ScienceDesk
from coda_lib.envs.sciencedesk.script import ScriptError, to_action, to_plan
from coda_lib.envs.sciencedesk.walk import Moment, random_step, screenshot
from coda_lib.executor import executor_messages, solo_messages
from coda_lib.explore import Aim, aims, combinations, compose, sentence, train_pool
from coda_lib.judge import Verdict, format_verdict, judge_messages
from coda_lib.model import Message
from coda_lib.planner import Observation, Turn, planner_messages
from coda_lib.predicate import holds
from coda_lib.task import Task, test_tasks
from coda_lib.tiny import GRID
from coda_lib.trajectory import StopReason, Trajectory, decode_image

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
        start = sliders[0] if sliders else rng.choice(rows)
        ticks = [e for e in drawn if e.name.lstrip("-").isdigit()] or drawn
        end = rng.choice(ticks if sliders else rows)
        step, action = {"drag": [start.name, end.name]}, Action.drag(*start.center, *end.center)
    else:
        element = rng.choice(drawn if drawn and dice < 0.62 and not even else clear)
        kind = rng.choices(["click", "double", "right"], [0.84, 0.08, 0.08])[0]
        make = {"click": Action.click, "double": Action.double_click, "right": Action.right_click}[kind]
        step, action = {kind: element.name}, make(*element.center)
    picture = decode_image(moment.screen)
    observation = Observation("", (), picture, picture)
    return Row(executor_messages(observation, to_plan(step), PROMPTS), on_grid(action))


def _word(rng: random.Random, words: Sequence[str]) -> str:
    """A text to type: one of the applications' own, or any letters, so that copying is learned and not a list."""
    return rng.choice(words) if rng.random() < 0.6 else "".join(rng.choices(_LETTERS, k=rng.randint(1, 8))).strip() or "x"


def copying_row(rng: random.Random, words: Sequence[str]) -> Row:
    """A plan to type a text, without a picture."""
    step = {"type": _word(rng, words) + rng.choice(["\n", ""])}
    messages = [{"role": "user", "content": [{"type": "text", "text": to_plan(step)}]}]
    return Row(messages, on_grid(Action.type_text(step["type"])))


def _clear(moment: Moment) -> list:
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
        if i + 1 < len(moments) and moments[i + 1].walk == moment.walk and _leads_to(moment, moments[i + 1]):
            found += _segment(app, (moment, moments[i + 1]), aimless)
    return found


def _leads_to(first: Moment, second: Moment) -> bool:
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
    return all(holds(item, after) for item in aim.checks) and not all(holds(item, before) for item in aim.checks)


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


# -- judge ---------------------------------------------------------------------------------------------------------------


def judge_tasks(app: str, defaults: dict) -> list[Task]:
    """Tasks for the judge to learn from: of the same goals, but neither test nor train tasks."""
    others = [*test_tasks(app), *train_pool(app, defaults)]
    taken = {task.instruction for task in others} | {task.goal for task in others}
    rng = random.Random(f"judge tasks of {app}")
    parts = [*((aim,) for aim in aims(app)), *combinations(app, 2, rng)[:400], *combinations(app, 3, rng)[:120]]
    tasks = [compose(app, part, defaults, f"{app}/judge-{i:03d}") for i, part in enumerate(parts)]
    return [task for task in tasks if not {task.instruction, task.goal} & taken]


def judged_attempt(env: ScienceDesk, task: Task, others: Sequence[Task], rng: random.Random) -> Row:
    """One attempt at a task by its script, half of the time marred, with the verdict that the application's check gives.

    Marring: a step left out, the script of another value of the task, an early end, a step that nobody needed, a wrong answer;
    and wandering, with or without the beginning of the script, since that is what most rollouts of a base planner look like.
    """
    script: list[dict | None] = [dict(step) for step in task.solution]  # None: whatever a curious person might do
    first_error: int | None = None
    redundant: list[int] = []
    dice = rng.random()
    if dice < 0.1:
        first_error = rng.randrange(len(script))
        script = script[:first_error] + script[first_error + 1 :]
    elif dice < 0.2:
        cut = rng.randrange(len(script))
        script, first_error = script[:cut], cut
    elif dice < 0.4:
        other = rng.choice(others)
        same = next((i for i, (a, b) in enumerate(zip(script, other.solution, strict=False)) if a != b), len(script))
        script, first_error = [dict(step) for step in other.solution], same
    elif dice < 0.78:
        cut = rng.choice([0, 0, rng.randrange(len(script) + 1)])
        script, first_error = script[:cut] + [None] * rng.randint(1, 7), cut
    extra = rng.randrange(len(script) + 1) if rng.random() < 0.3 else None
    env.reset(task)
    pictures = [screenshot(env.desk)]
    answer = None
    for i, step in enumerate(script):
        if i == extra:
            redundant.append(len(pictures))
            env.step(to_action(env.desk, random_step(env.desk, tuple(env.desk.elements()), rng)))
            pictures.append(screenshot(env.desk))
        if step is None:
            step = random_step(env.desk, tuple(env.desk.elements()), rng)
            redundant.append(len(pictures))
        try:
            action = to_action(env.desk, step)
        except ScriptError:  # the marring has taken away what this step needs: the attempt ends here
            first_error = min(i, len(script) if first_error is None else first_error)
            break
        env.step(action)
        answer = step.get("answer", answer)
        if action.type != ActionType.ANS:
            pictures.append(screenshot(env.desk))
    success = env.check(StopReason.ANS if answer is not None else StopReason.DONE, answer)
    verdict = Verdict(success, tuple(redundant), None if success else (first_error or 0) + 1)
    images = [decode_image(png) for png in pictures]
    return Row(judge_messages(task.instruction, images, answer, PROMPTS), format_verdict(verdict, details=False))


def judged_walk(moments: Sequence[Moment], rng: random.Random) -> Row:
    """A stretch of a random walk judged as an attempt at something: what it achieved, or something near that it did not.

    Without a plan behind it a walk looks like most rollouts of a base planner, and its states say for sure what it achieved.
    """
    start = rng.randrange(len(moments))
    if rng.random() < 0.5:  # from where the walk began, as an episode does
        start = next(i for i in range(start, -1, -1) if not i or moments[i - 1].walk != moments[i].walk)
    length = rng.choice([1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5, 7])
    stretch = [m for m in moments[start : start + length] if m.walk == moments[start].walk]
    before, after = stretch[0].before, stretch[-1].after
    wishes = [aim for aim in aims(stretch[0].app) if not aim.goal.ask]
    open_ = [aim for aim in wishes if not _holds(aim, before)]
    achieved = [aim for aim in open_ if _holds(aim, after)]
    missed = [aim for aim in open_ if aim not in achieved]
    touched = {aim.goal.name for aim in achieved}
    near = [aim for aim in missed if aim.goal.name in touched] or missed
    dice = rng.random()
    if achieved and dice < 0.45:
        parts = rng.sample(achieved, min(len(achieved), rng.choice([1, 1, 2, 3])))
    elif achieved and dice < 0.6:
        parts = [rng.choice(achieved), rng.choice(missed)]
        rng.shuffle(parts)
    else:
        parts = rng.sample(near if dice < 0.85 else missed, rng.choice([1, 1, 2]) if len(near) > 1 else 1)
    success = all(aim in achieved for aim in parts)
    needed = _needed(stretch, parts) if success else set(range(len(stretch)))
    redundant = tuple(i + 1 for i in range(len(stretch)) if i not in needed)
    verdict = Verdict(success, redundant, None if success else 1)
    images = [decode_image(m.screen) for m in stretch] + [decode_image(stretch[-1].next_screen)]
    return Row(judge_messages(sentence(parts), images, None, PROMPTS), format_verdict(verdict, details=False))


def _holds(aim: Aim, state: dict) -> bool:
    return all(holds(item, state) for item in aim.checks)


def _needed(stretch: Sequence[Moment], parts: Sequence[Aim]) -> set[int]:
    """The steps that achieved the aims, for each the last one to do so, and those that led to them."""
    needed = set()
    for aim in parts:
        i = max(i for i, m in enumerate(stretch) if _holds(aim, m.after) and not _holds(aim, m.before))
        needed.add(i)
        while i and _leads_to(stretch[i - 1], stretch[i]):
            i -= 1
            needed.add(i)
    return needed


def judged_rollout(trajectory: Trajectory, task: Task) -> Row:
    """A rollout of a base planner at one of the judge's own tasks, labelled by the application's check.

    Steps that the task's script does not take count as redundant, unless the rollout succeeded in no more steps than the
    script: then it found a way of its own.  The first of them is the error of a failed rollout.
    """
    script = [to_plan(step) for step in task.solution]
    steps = [step.plan for step in trajectory.steps if step.plan != "DONE"]
    other = [i + 1 for i, plan in enumerate(steps) if plan not in script]
    redundant = () if trajectory.success and len(steps) <= len(script) else tuple(other)
    error = None if trajectory.success else (other or [len(trajectory.steps)])[0]
    verdict = Verdict(bool(trajectory.success), redundant, error)
    images = [decode_image(png) for png in trajectory.screenshots]
    messages = judge_messages(trajectory.instruction, images, trajectory.answer, PROMPTS)
    return Row(messages, format_verdict(verdict, details=False))


def alike(task: Task, tasks: Sequence[Task]) -> list[Task]:
    """Tasks that differ from this one in a value or in one goal: the attempts that are hardest to tell apart."""
    words = task.instruction.split()
    near = [t for t in tasks if t.id != task.id and len(t.instruction.split()) == len(words)]
    near = [t for t in near if sum(a != b for a, b in zip(words, t.instruction.split(), strict=True)) <= 2]
    return near or [t for t in tasks if t.id != task.id]


def swap_pictures(row: Row, pictures: Callable[[], Image.Image]) -> Row:
    """The same question about other pictures: what a model that looks must get wrong."""

    def swapped(part: dict) -> dict:
        return {"type": "image", "image": pictures()} if part["type"] == "image" else part

    messages = [message | {"content": [swapped(part) for part in message["content"]]} for message in row.messages]
    return Row(messages, row.reply)
