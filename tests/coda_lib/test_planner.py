"""The planner: what it is asked, and what is read from its replies."""

from __future__ import annotations

import time

import pytest
from tiny_models import pictures_of, screen, words_of

from coda_lib.action import Action
from coda_lib.grammar import LONGEST_REPLY
from coda_lib.models.chat import Message, ReplayModel, Sampling
from coda_lib.planner import (
    HISTORY,
    Observation,
    Planner,
    Turn,
    control_action,
    format_plan,
    is_cut,
    read_plan,
)


@pytest.mark.parametrize(
    ("reply", "plan"),
    [
        ("Click 'Grid'.", "Click 'Grid'."),
        ("Thought: Click 'Grid'.\nAction: click(start_box='(1,2)')", "Click 'Grid'."),
        ("Thought: Click 'Grid'.", "Click 'Grid'."),
        ("  Thought:  Click 'Grid'. \n Action : click()", "Click 'Grid'."),
        ("Click 'Grid'.\nAction: click()\nAction: wait()", "Click 'Grid'."),
        ("Thought: two\nlines\n\nAction: x", "two\nlines"),
        ("Click 'Grid'. Action: click()", "Click 'Grid'."),
        ("Thought: DONE\nAction: finished()", "DONE"),
        ("Thought: ANS 12\nAction: answer(content='12')", "ANS 12"),
        ("A thought: click it", "A thought: click it"),
        ("Press 'Action'.", "Press 'Action'."),
    ],
)
def test_the_thought_alone_is_the_plan(reply, plan):
    assert read_plan(reply) == plan


@pytest.mark.parametrize(
    "reply", ["", "  \n", "Thought:", "Thought: \nAction: click()", "Action: click(start_box='(1,2)')"]
)
def test_a_reply_without_a_thought_is_no_plan(reply):
    assert read_plan(reply) == ""


@pytest.mark.parametrize(
    "part", [" ", "\n", "Action", "Action ", "Thought", "Thought:", "\n Action\n", "x", "Action\t"]
)
def test_a_reply_of_any_length_is_read_at_once_and_cut_at_a_known_length(part):
    start = time.process_time()
    plan = read_plan(part * (5_000_000 // len(part)))
    assert time.process_time() - start < 0.2 and len(plan) <= LONGEST_REPLY + 10
    assert is_cut(plan) == bool(plan) and not is_cut(read_plan("a" * LONGEST_REPLY))
    assert not is_cut(
        read_plan("Thought: Click it.\nAction: " + part * 50_000)
    )  # the plan itself was read whole


@pytest.mark.parametrize(
    ("plan", "action"),
    [
        ("DONE", Action.done()), ("DONE.", Action.done()), ("FAIL", Action.fail()), ("WAIT", Action.wait()),
        ("WAIT.", Action.wait()), ("ANS 12", Action.answer("12")), ("ANS  two words ",
         Action.answer("two words")),
        ("ANS 1.50.", Action.answer("1.50.")), ("ANS", None), ("ANS ", None), ("ANSWER 12", None), ("done",
         None),
        ("DONE with it", None), ("Click 'DONE'.", None), ("WAIT a moment", None), ("Click 'Grid'.", None),
         ("", None),
    ],
)  # fmt: skip
def test_control_plans_need_no_executor(plan, action):
    assert control_action(plan) == action


def observed(turns: int = 0) -> Observation:
    history = tuple(Turn(f"plan<{i}>", f"action<{i}>") for i in range(turns))
    return Observation("turn the grid on", history, screen(1), screen(2))


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_the_planner_sees_the_instruction_the_history_and_the_last_two_screenshots(prompts):
    state = observed(3)
    asked = Planner(ReplayModel([]), Sampling(), prompts).messages(state)
    assert [id(picture) for picture in pictures_of(asked)] == [id(state.previous), id(state.current)]
    assert "turn the grid on" in words_of(asked) and all(f"plan<{i}>" in words_of(asked) for i in range(3))


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_the_planner_sees_the_last_fifteen_turns(prompts):
    said = words_of(Planner(ReplayModel([]), Sampling(), prompts).messages(observed(20)))
    assert [f"plan<{i}>" in said for i in range(20)] == [False] * 5 + [True] * HISTORY and HISTORY == 15


def test_the_planner_asks_all_in_one_batch_with_its_sampling_and_the_given_seed():
    calls = []

    class Recorder(ReplayModel):
        def generate(self, conversations: list[list[Message]], sampling: Sampling, seed: int) -> list[str]:
            calls.append((len(conversations), sampling, seed))
            return super().generate(conversations, sampling, seed)

    sampling = Sampling(1.0, 0.9, 48)
    raw = ["Thought: a\nAction: b", "c"]
    assert Planner(Recorder(raw), sampling).plan([observed(), observed(1)], 11) == raw
    assert calls == [(2, sampling, 11)]


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_a_plan_as_its_prompt_set_writes_it_reads_back(prompts):
    written = format_plan("Click 'Grid'.", prompts)
    assert read_plan(written) == "Click 'Grid'."
    assert written.startswith("Thought: ") == (prompts == "full")
