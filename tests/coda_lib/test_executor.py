"""The executor: what it is asked with and without a planner, and how its replies are read."""

from __future__ import annotations

import pytest
from tiny_models import SIZE, pictures_of, screen, words_of

from coda_lib.action import Action, ActionError
from coda_lib.executor import Executor, executor_messages, read_actions, solo_messages
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.planner import Observation, Turn

STATE = Observation("turn the grid on", (Turn("plan<0>", "action<0>"),), screen(1), screen(2))


def test_the_executor_is_not_trainable():
    assert Executor.trainable is False and Executor(ReplayModel([]), Sampling()).trainable is False


def test_replies_are_read_in_pixels_of_the_present_screenshot():
    assert read_actions("click(start_box='(21,63)')", STATE) == (Action.click(21 / SIZE[0], 63 / SIZE[1]),)
    wide = Observation("x", (), screen(1), screen(2).resize((336, 252)))
    assert read_actions("click(start_box='(21,63)')", wide) == (Action.click(21 / 336, 0.25),)


@pytest.mark.parametrize("reply", ["", "click", "click(start_box='(99,10)')", "Click 'Grid'."])
def test_what_is_no_action_on_this_screen_is_an_error(reply):
    with pytest.raises(ActionError):
        read_actions(reply, STATE)


def test_the_compact_executor_sees_the_present_screen_and_the_plan():
    asked = executor_messages(STATE, "Click 'Grid'.", "compact")
    assert [id(picture) for picture in pictures_of(asked)] == [id(STATE.current)]
    assert words_of(asked) == "Click 'Grid'."


def test_the_full_executor_sees_what_the_planner_sees_and_the_plan():
    asked = executor_messages(STATE, "Click 'Grid'.", "full")
    assert [id(picture) for picture in pictures_of(asked)] == [id(STATE.previous), id(STATE.current)]
    assert all(
        words in words_of(asked) for words in ("turn the grid on", "plan<0>", "action<0>", "Click 'Grid'.")
    )


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_alone_it_sees_the_instruction_and_its_own_actions_but_no_plan(prompts):
    asked = solo_messages(STATE, prompts)
    assert [id(picture) for picture in pictures_of(asked)] == [id(STATE.previous), id(STATE.current)]
    assert (
        "turn the grid on" in words_of(asked)
        and "action<0>" in words_of(asked)
        and "plan<0>" not in words_of(asked)
    )


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_the_history_is_the_last_fifteen_turns(prompts):
    long = Observation(
        "x", tuple(Turn(f"plan<{i}>", f"action<{i}>") for i in range(20)), screen(1), screen(2)
    )
    said = words_of(solo_messages(long, prompts))
    assert [f"action<{i}>" in said for i in range(20)] == [False] * 5 + [True] * 15
    if prompts == "full":
        said = words_of(executor_messages(long, "x", prompts))
        assert [f"plan<{i}>" in said for i in range(20)] == [False] * 5 + [True] * 15


def test_plans_and_screens_are_asked_pairwise_in_one_batch():
    executor = Executor(ReplayModel(lambda c: f"{words_of(c)} on {id(pictures_of(c)[0])}"), Sampling())
    other = Observation("y", (), screen(3), screen(4))
    expected = [f"a on {id(STATE.current)}", f"b on {id(other.current)}"]
    assert executor.execute([STATE, other], ["a", "b"], 0) == expected
    with pytest.raises(ValueError, match="shorter|longer"):
        executor.execute([STATE, other], ["a"], 0)
    alone = executor.act_alone([other, STATE], 0)
    assert [reply.split(" on ")[0].split("\n")[0] for reply in alone] == ["y", "turn the grid on"]
