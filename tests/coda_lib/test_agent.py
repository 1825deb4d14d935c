"""The dual brain: planner, executor, three tries, and what is kept of replies that cannot be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tiny_models import SIZE, pictures_of, screen, words_of

from coda_lib.action import Action
from coda_lib.agent import TRIES, Decision, DualAgent, SoloAgent, carry_out
from coda_lib.executor import Executor
from coda_lib.grammar import action_text
from coda_lib.models.chat import Message, ReplayModel, Sampling
from coda_lib.planner import Observation, Planner, Turn

CLICK = "click(start_box='(21,42)')"
CLICKED = (Action.click(0.25, 0.5),)


class Recorder(ReplayModel):
    """A scripted model that remembers how it was asked."""

    def __init__(self, reply: Callable[[list[Message]], str]):
        super().__init__(reply)
        self.batches: list[list[str]] = []
        self.seeds: list[int] = []

    def generate(self, conversations: list[list[Message]], sampling: Sampling, seed: int) -> list[str]:
        self.batches.append([words_of(conversation) for conversation in conversations])
        self.seeds.append(seed)
        return super().generate(conversations, sampling, seed)


def in_turn(replies: dict[str, list[str]]) -> Callable[[list[Message]], str]:
    """For each text, one reply after the other."""
    left = {asked: iter(texts) for asked, texts in replies.items()}
    return lambda conversation: next(left[words_of(conversation)])


def state(instruction: str) -> Observation:
    return Observation(instruction, (), screen(1), screen(2))


def agent(plans: Callable[[list[Message]], str], actions: Callable[[list[Message]], str]) -> DualAgent:
    return DualAgent(Planner(Recorder(plans), Sampling()), Executor(Recorder(actions), Sampling()), "base")


def test_the_thought_goes_to_the_executor_and_its_actions_come_back():
    dual = agent(lambda c: f"Thought: plan of {words_of(c)}\nAction: click()", lambda c: CLICK)
    decisions = dual.decide([state("a"), state("b")], 5)
    assert decisions == [Decision("plan of a", CLICK, CLICKED), Decision("plan of b", CLICK, CLICKED)]
    assert dual.planner.model.batches == [["a", "b"]] and dual.executor.model.batches == [
        ["plan of a", "plan of b"]
    ]
    assert dual.planner.model.seeds == [5] and dual.executor.model.seeds[0] != 5
    assert dual.name == "base"


def test_control_plans_are_carried_out_without_the_executor():
    plans = ["DONE", "Click it.", "ANS 4 cm", "FAIL", "WAIT", "Click that."]
    executor = Executor(Recorder(lambda c: CLICK), Sampling())
    decisions = carry_out(executor, [state(plan) for plan in plans], plans, 0)
    assert executor.model.batches == [["Click it.", "Click that."]]
    controls = (Action.done(), Action.answer("4 cm"), Action.fail(), Action.wait())
    assert [d.actions for d in decisions] == [(controls[0],), CLICKED, *((c,) for c in controls[1:]), CLICKED]
    assert [d.reply for d in decisions] == ["", CLICK, "", "", "", CLICK] and not any(
        d.error for d in decisions
    )


def test_the_executor_is_not_asked_when_there_is_nothing_to_ask():
    executor = Executor(Recorder(lambda c: CLICK), Sampling())
    carry_out(executor, [state("x")], ["DONE"], 0)
    assert executor.model.batches == []


def test_each_plan_meets_its_own_screen():
    seen = {}
    executor = Executor(
        ReplayModel(lambda c: seen.setdefault(words_of(c), pictures_of(c)[0]) and CLICK), Sampling()
    )
    states = [Observation("x", (), screen(i), screen(i)) for i in range(4)]
    carry_out(executor, states, ["one", "DONE", "three", "four"], 0)
    assert {plan: id(picture) for plan, picture in seen.items()} == {
        "one": id(states[0].current), "three": id(states[2].current), "four": id(states[3].current)
    }  # fmt: skip


def test_three_tries_for_those_alone_that_failed():
    planned = {
        "a": ["plan a"],
        "b": ["plan b", "", "plan b3"],
        "c": ["plan c", "plan c2", "plan c3"],
        "d": ["plan d", "DONE"],
    }
    acted = {
        "plan a": [CLICK], "plan b": ["what?"], "plan b3": [CLICK], "plan c": ["x"], "plan c2": ["y"],
        "plan c3": ["z(1)"], "plan d": ["..."],
    }  # fmt: skip
    dual = agent(in_turn(planned), in_turn(acted))
    a, b, c, d = dual.decide([state(name) for name in "abcd"], 0)
    assert TRIES == 3 and dual.planner.model.batches == [["a", "b", "c", "d"], ["b", "c", "d"], ["b", "c"]]
    assert len(set(dual.planner.model.seeds + dual.executor.model.seeds)) == 6  # other seeds at every try
    assert a == Decision("plan a", CLICK, CLICKED) and b == Decision("plan b3", CLICK, CLICKED)
    assert d == Decision("DONE", "", (Action.done(),))
    assert (c.plan, c.reply, c.actions) == ("plan c3", "z(1)", ()) and "z(1)" in c.error


@pytest.mark.parametrize(
    "reply", ["Thought:\nAction: click()", "Action: click(start_box='(1,2)')", "", " \n "]
)
def test_a_planners_reply_without_a_plan_is_kept_and_not_sent_on(reply):
    dual = agent(lambda c: reply, lambda c: CLICK)
    (decision,) = dual.decide([state("a")], 0)
    assert decision == Decision("", reply, (), "the planner's reply holds no plan")
    assert len(dual.planner.model.batches) == 3 and dual.executor.model.batches == []


def test_the_executor_alone_reads_the_instruction_and_has_three_tries_too():
    solo = SoloAgent(
        Executor(
            Recorder(in_turn({"a": ["?", CLICK], "b": ["1", "2", "Thought: x"], "c": ["finished()"]})),
            Sampling(),
        )
    )
    a, b, c = solo.decide([state(name) for name in "abc"], 3)
    assert a == Decision("", CLICK, CLICKED) and c == Decision("", "finished()", (Action.done(),))
    assert (b.reply, b.actions) == ("Thought: x", ()) and b.error
    assert (
        solo.executor.model.batches == [["a", "b", "c"], ["a", "b"], ["b"]]
        and len(set(solo.executor.model.seeds)) == 3
    )
    assert solo.name == "executor"


def test_several_actions_of_one_reply_are_kept_in_order():
    reply = f"Thought: both\nAction: {CLICK}\n\ntype(content='x')"
    (decision,) = agent(lambda c: "Fill it.", lambda c: reply).decide([state("a")], 0)
    assert decision.actions == (*CLICKED, Action.type_text("x"))
    assert action_text(decision.actions, SIZE) == f"{CLICK}\n\ntype(content='x')"


def test_the_history_shows_actions_in_pixels():
    assert action_text(CLICKED, (336, 252)) == "click(start_box='(84,126)')" and action_text((), SIZE) == ""
    past = Observation("a", (Turn("p", action_text(CLICKED, SIZE)),), screen(1), screen(2))
    solo = SoloAgent(Executor(Recorder(lambda c: CLICK), Sampling()))
    solo.decide([past], 0)
    assert solo.executor.model.batches == [[f"a\n{CLICK} "]]
