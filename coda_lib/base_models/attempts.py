"""What the judge is taught to say of an attempt: what each step did, what holds at the end, and then its ruling.

A verdict alone is one bit an attempt, and a tiny model that has seen nothing else learns which instructions are hard, and never
to look.  (The paper's judge learned from captions of every frame, too.)
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from coda_lib.action import ActionType
from coda_lib.base_models.hindsight import reached
from coda_lib.base_models.lessons import Lesson, alike, is_taken
from coda_lib.base_models.rows import PROMPTS, Row, without_pictures
from coda_lib.base_models.walks import random_step
from coda_lib.envs.sciencedesk.env import ScienceDesk, desk_class
from coda_lib.envs.sciencedesk.script import ScriptError, to_action, to_plan
from coda_lib.explore import Aim, aims, combinations, compose
from coda_lib.judge import Verdict, format_verdict, judge_messages
from coda_lib.models.chat import Message
from coda_lib.trajectory import StopReason, decode_image

NOTHING = "-"
State = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """What an attempt is asked to have done, the answer that it gave, and what the judge says of it.

    `reply` is a `whole` one, or only its beginning, up to what the states tell for sure: `Correctness`; of a single screen it may
    also be what the screen says.
    """

    instruction: str
    answer: str | None
    reply: str
    whole: bool = True


@dataclass(frozen=True)
class Case:
    """An attempt as PNG screenshots in order, and questions about it; of more than a look the first has a whole reply.

    `plans` are those behind the steps, the one that ended the attempt included; a look has none.
    """

    pictures: tuple[bytes, ...]
    questions: tuple[Question, ...]
    plans: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """The questions one by one, as a judge is asked them."""
        images = [decode_image(png) for png in self.pictures]
        return [Row(self._asked(q, images), q.reply, q.whole) for q in self.questions]

    @property
    def rulings(self) -> list[Row]:
        """The whole replies without the pictures: what each step did is given; what then holds, and to rule, is learned."""
        found = []
        for question in (q for q in self.questions if q.whole and self.plans):
            start = question.reply.index("\n") + 1
            asked = Row(self._asked(question, self.pictures), question.reply[start:], given=question.reply[:start])
            found.append(without_pictures(asked))
        return found

    def _asked(self, question: Question, pictures: Sequence[Any]) -> list[Message]:
        return judge_messages(question.instruction, pictures, question.answer, PROMPTS, self.plans)


def seen(parts: Sequence[Aim], state: State) -> str:
    """What a state holds of the values that these aims are about: 'off; dark'."""
    return "; ".join(_held(aim, state) for aim in parts)


def _held(aim: Aim, state: State) -> str:
    if aim.goal.ask:  # the right answer, where it is shown
        return str(aim.value) if str(state.get(aim.goal.fact)) == str(aim.value) else NOTHING
    return ", ".join(word for word in aim.goal.values if reached(Aim(aim.goal, word), state)) or NOTHING


def did(plan: str, before: bytes, after: bytes) -> str:
    """What one can see that a step did."""
    return plan if before != after else NOTHING


def whole_reply(parts: Sequence[Aim], state: State, steps: Sequence[str], verdict: Verdict) -> str:
    return f"{' '.join(steps)}\n{seen(parts, state)}\n{format_verdict(verdict, details=False)}"


def needless(plans: Sequence[str], script: Sequence[str]) -> tuple[int, ...]:
    """The steps, counted from 1, without which a solved attempt would have done: those that its task's script does not take.

    Of a step taken more than once the last one counts.  Who needed no more steps than the script found a way of its own.
    """
    if len(plans) <= len(script):
        return ()
    left, found = list(script), []
    for i in range(len(plans), 0, -1):
        if left and plans[i - 1] == left[-1]:
            left.pop()
        else:
            found.append(i)
    return tuple(reversed(found)) if not left else tuple(i for i, plan in enumerate(plans, 1) if plan not in script)


SLIPS = (0.0, 0.15, 0.3, 0.5)  # share of steps that are anything else, drawn anew for each attempt
RENAMED = 0.5  # share of the attempts told with other names
FAILED = 0.65  # share of the failed attempts that are kept, so that about as many succeed as fail


def told_lessons(app: str) -> dict[int, list[Lesson]]:
    """Tasks by their number of aims, none of which a test or train task asks for in these words or others."""
    rng, defaults = random.Random(f"told lessons of {app}"), desk_class(app).defaults
    drawn = [*((aim,) for aim in aims(app)), *combinations(app, 2, rng)[:3000], *combinations(app, 3, rng)[:400]]
    found: dict[int, list[Lesson]] = {1: [], 2: [], 3: []}
    for i, parts in enumerate(drawn):
        if not is_taken(app, parts):
            found[len(parts)].append((parts, compose(app, parts, defaults, f"{app}/told-{i:04d}")))
    return found


def told_attempts(app: str, count: int, seed: int) -> list[Case]:
    """So many attempts without pictures: a third at single aims, half at two, the rest at three."""
    env, rng, lessons = ScienceDesk(app), random.Random(f"told attempts {app} {seed}"), told_lessons(app)
    found: list[Case] = []
    while len(found) < count:
        (size,) = rng.choices([1, 2, 3], [0.35, 0.55, 0.1])
        some = lessons[size] or lessons[2]
        case, success = attempt(env, rng.choice(some), some, rng)
        if success or rng.random() < FAILED:
            found.append(case)
    env.close()
    return found


def attempt(env: ScienceDesk, lesson: Lesson, lessons: Sequence[Lesson], rng: random.Random) -> tuple[Case, bool]:
    """One attempt and whether it solved the task; one in four does the script of a task that looks like it."""
    parts, task = lesson
    script: list[dict[str, Any]] = [dict(step) for step in task.solution]
    doing = script if rng.random() < 0.75 else [dict(step) for step in rng.choice(alike(lesson, lessons))[1].solution]
    if rng.random() < 0.1:  # once more, which undoes what a toggle did
        doing = [*doing, *doing]
    slips, gives_up, left = rng.choice(SLIPS), rng.random() < 0.25, list(doing)
    env.reset(task)
    desk, plans, steps, answer = env.desk, [], [], None
    screen = desk.screenshot().tobytes()
    while left and len(plans) < task.steps and not (gives_up and rng.random() < 0.3):
        slipped = rng.random() < slips
        try:
            step = random_step(desk, tuple(desk.elements()), rng) if slipped else left[0]
            action = to_action(desk, step)
        except ScriptError:  # a slip has taken away what this step needs: start again, or stop
            if rng.random() < 0.5:
                break
            slips, left = slips + 0.2, list(doing)
            continue
        if action.type is ActionType.ANS:
            answer = action.text
            break
        desk.perform(action)
        before, screen = screen, desk.screenshot().tobytes()
        plans.append(to_plan(step))
        steps.append(plans[-1] if screen != before else NOTHING)
        if not slipped or rng.random() < 0.3:
            left = left[1:]
    success = env.check(StopReason.DONE if answer is None else StopReason.ANS, answer)
    reply = whole_reply(parts, desk.state(), steps, _ruling(plans, [to_plan(step) for step in script], success))
    plans.append("DONE" if answer is None else f"ANS {answer}")
    return Case((b"",) * len(plans), (Question(task.instruction, answer, reply),), tuple(plans)), success


def _ruling(plans: Sequence[str], script: Sequence[str], success: bool) -> Verdict:
    other = [i for i, plan in enumerate(plans, 1) if plan not in script]
    if success:
        return Verdict(True, needless(plans, script))
    return Verdict(False, tuple(other), (other or [len(plans) + 1])[0])


def ruling_source(apps: Sequence[str], tried: Sequence[Sequence[Case]]) -> Callable[[random.Random], Row]:
    """Rulings on attempts (a list an application) of which is told in words what they did and how they ended."""

    def draw(rng: random.Random) -> Row:
        i = rng.randrange(len(apps))
        case = rng.choice(tried[i])
        return rng.choice((renamed(case, names(apps[i]), rng) if rng.random() < RENAMED else case).rulings)

    return draw


@cache
def names(app: str) -> tuple[str, ...]:
    """The words of an application's values that stand for nothing but themselves."""
    return tuple(sorted({aim.word for aim in aims(app)} - {"on", "off"}))


def renamed(case: Case, others: Sequence[str], rng: random.Random) -> Case:
    """The case's first question with some of the names `others` in the place of its own, in what is asked, done and held alike.

    A question task is left as it is: its answer hangs on the name.
    """
    question = case.questions[0]
    if question.instruction.endswith("?"):
        return case
    did, held, ruling = question.reply.split("\n", 2)
    told = " ".join([question.instruction, held, *case.plans])
    own = sorted(set(_any_of(others).findall(told)))
    new = dict(zip(own, rng.sample(others, len(own)), strict=True))
    new |= {name: old for old, name in new.items() if name not in new}  # so that no two things get one name

    def say(text: str) -> str:
        return _any_of(tuple(new)).sub(lambda found: new[found.group()], text) if new else text

    asked = replace(question, instruction=say(question.instruction), reply="\n".join([say(did), say(held), ruling]))
    return replace(case, plans=tuple(say(plan) for plan in case.plans), questions=(asked,))


def _any_of(words: Sequence[str]) -> re.Pattern[str]:
    longest_first = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{longest_first})(?!\w)")
