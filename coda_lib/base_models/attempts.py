"""What the judge is taught to say of an attempt: what each step did, what holds at the end, and then its ruling.

A verdict alone is one bit an attempt, and a tiny model that has seen nothing else learns which instructions are hard, and never
to look.  (The paper's judge learned from captions of every frame, too.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coda_lib.base_models.hindsight import reached
from coda_lib.base_models.rows import PROMPTS, Row, without_pictures
from coda_lib.explore import Aim
from coda_lib.judge import judge_messages
from coda_lib.models.chat import Message
from coda_lib.trajectory import decode_image
from coda_lib.verdict import Verdict, format_verdict

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
