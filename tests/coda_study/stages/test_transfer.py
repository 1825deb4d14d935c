"""Executors that no planner was trained with: by name in the widget tree, and with a coder for typed text."""

from __future__ import annotations

import pytest
from PIL import Image
from tiny_models import SIZE, screen, words_of

from coda_lib.action import ActionError, ActionType
from coda_lib.agent import DualAgent, SoloAgent, carry_out, resize_rule_of
from coda_lib.applications import APPS
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.grammar import parse_actions
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.planner import Observation, Planner, Turn
from coda_lib.prompts import render
from coda_lib.task import test_tasks
from coda_lib.trajectory import StopReason
from coda_study.stages.transfer import CALL, CoderExecutor, WidgetTreeExecutor, coder_messages
from sciencedesk.desk.desk import Element
from sciencedesk.env import ScienceDesk
from sciencedesk.script import ScriptError, to_plan, to_step

GREEDY = Sampling(temperature=0)


def state(*elements: Element) -> Observation:
    before = Turn("Click 'Console'.", "click(start_box='(8,8)')")
    return Observation("plot x^2", (before,), screen(1), screen(2), lambda: elements)


def test_every_plan_of_a_script_is_read_back():
    for app in APPS:
        for task in test_tasks(app):
            for step in task.solution:
                if "answer" not in step:
                    assert to_plan(to_step(to_plan(step))) == to_plan(step), step
    assert to_step("Type 'it's' and press Enter.") == {"type": "it's\n"}
    for plan in ("", "DONE", "Click Grid", "Click 'Grid'. Click 'Axes'."[:-1] + "?", "Look at 'Grid'."):
        with pytest.raises(ScriptError):
            to_step(plan)


@pytest.mark.parametrize("app", APPS)
def test_the_tree_carries_out_every_script(app):
    desk, executor = ScienceDesk(app), WidgetTreeExecutor()
    for task in test_tasks(app):
        desk.reset(task)
        answer = None
        for step in task.solution:
            seen = Image.fromarray(desk.render())
            (decision,) = carry_out(
                executor, [Observation("", (), seen, seen, desk.elements)], [to_plan(step)], 0
            )
            assert decision.error is None, (task.id, step, decision)
            for action in decision.actions:
                desk.step(action)
            answer = step.get("answer", answer)
        assert desk.check(StopReason.ANS if answer is not None else StopReason.DONE, answer), task.id


def test_the_tree_finds_what_is_nearly_called_so_and_prefers_what_can_be_used():
    boxes = (
        ("Grid", "value", (0, 0, 10, 10)),
        ("Grid", "button", (100, 100, 20, 20)),
        ("x", "row", (0, 50, 4, 4)),
    )
    shown = [Element(*box) for box in boxes]
    plans = ["Click 'Grid'.", "Click 'Grit'.", "Click 'Log'.", "?"]
    executor = WidgetTreeExecutor()
    exact, nearly, absent, nothing = executor.execute([state(*shown)] * 4, plans, 0)
    (action,) = parse_actions(exact, SIZE)
    assert (action.type, nearly) == (ActionType.CLICK, exact)
    assert abs(action.x - shown[1].center[0]) < 0.01 and abs(action.y - shown[1].center[1]) < 0.01
    for reply, why in ((absent, "nothing on the screen is called 'Log'"), (nothing, "no step")):
        with pytest.raises(ActionError):
            parse_actions(reply, SIZE)
        assert why in reply
    with pytest.raises(UserError, match="names its elements"):
        executor.execute([state()], ["Click 'Grid'."], 0)


@pytest.mark.parametrize(
    ("plan", "coded", "typed"),
    [
        ("Type 'x^3' and press Enter.", "type(content='x^2')", "x^2\n"),
        ("Type 'x^3'.", "type(content='x^2\\n')", "x^2"),
        ("Type 'it's' and press Enter.", "type(content='x^2\\n')", "x^2\n"),
        ("Type 'x^3'.", "click(start_box='(8,8)')", None),
        ("Type 'x^3'.", "I do not know", None),
    ],
)
def test_a_coder_supplies_the_text_and_the_plan_the_enter(plan, coded, typed):
    asked: list[str] = []
    executor = Executor(
        ReplayModel(lambda chat: asked.append(words_of(chat)) or "click(start_box='(42,42)')"), GREEDY
    )
    coder = CoderExecutor(executor, ReplayModel(lambda chat: coded), GREEDY)
    other, text = coder.execute([state(), state()], ["Click 'Grid'.", plan], 0)
    assert other == "click(start_box='(42,42)')" and asked == ["Click 'Grid'."]
    if typed is None:
        with pytest.raises(ActionError):
            parse_actions(text, SIZE)
    else:
        (action,) = parse_actions(text, SIZE)
        assert (action.type, action.text) == (ActionType.TYPE, typed)


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_the_coder_never_sees_the_planners_text(prompts):
    chats: list = []
    coder = ReplayModel(lambda chat: chats.append(chat) or "type(content='x^2')")
    CoderExecutor(Executor(ReplayModel([]), GREEDY, prompts), coder, GREEDY).execute(
        [state()], ["Type 'secret'."], 0
    )
    (chat,) = chats
    assert "secret" not in words_of(chat) and "plot x^2" in words_of(chat)
    assert (CALL in words_of(chat)) == (prompts == "full")
    assert chat == coder_messages(state(), f"Type '{CALL}'.", prompts)


def test_the_tiny_coder_is_asked_as_the_executor_alone_is():
    seen = state()
    told = {"instruction": seen.instruction, "history": [vars(turn) for turn in seen.history]}
    solo = render("compact", "solo", **told, previous=seen.previous, current=seen.current)
    assert coder_messages(seen, "Type 'CODER_CALL'.", "compact") == solo


def test_a_planner_before_the_widget_tree_sees_pictures_of_its_own_size():
    class Seeing(ReplayModel):
        def __init__(self, width: int):
            super().__init__([])
            self.resize_rule = lambda size: (width, width * size[1] // size[0])

    planner, executor = Planner(Seeing(400), GREEDY), Executor(Seeing(200), GREEDY)
    assert resize_rule_of(DualAgent(planner, WidgetTreeExecutor(), "base, tree"))((640, 480)) == (400, 300)
    assert (
        resize_rule_of(DualAgent(planner, executor, "base"))((640, 480))
        == resize_rule_of(SoloAgent(executor))((640, 480))
        == (200, 150)
    )
