"""AgentNet's demonstrations, on samples written by hand to its published schema."""

from __future__ import annotations

import json
import re

import pytest
from tiny_models import screen

from coda_lib.action import Action, ActionError
from coda_lib.errors import UserError
from coda_lib.trajectory import StopReason, encode_image, load_trajectories
from coda_study.formats import convert
from coda_study.formats.code import read_code

CODES = {  # as the data set writes actions: fractions of the screen, and three functions of its own
    "pyautogui.click(x=0.25, y=0.5)": (Action.click(0.25, 0.5),),
    "pyautogui.moveTo(x=0.25, y=0.5)\npyautogui.dragTo(x=0.75, y=0.5, button='left')": (
        Action.drag(0.25, 0.5, 0.75, 0.5),
    ),
    "pyautogui.write(message='5 km')": (Action.type_text("5 km"),),
    "pyautogui.hotkey(['ctrl', 's'])": (Action.hotkey("ctrl s"),),
    "pyautogui.scroll(-5)": (Action.scroll(None, None, "down"),),
    "computer.tripleClick(x=0.5, y=0.5)": (Action.double_click(0.5, 0.5), Action.click(0.5, 0.5)),
    "computer.wait()": (Action.wait(),),
    "computer.terminate(status='success')": (Action.done(),),
    "computer.terminate(status='failure')": (Action.fail(),),
}


def demonstration(codes, **changes) -> dict:
    steps = [
        {"index": i, "image": f"{i}.png",
         "value": {"observation": "A window.", "thought": f"thought {i}", "action": f"action {i}",
         "code": code,
                   "last_step_correct": True, "last_step_redundant": False, "reflection": "It worked."}}
        for i, code in enumerate(codes)
    ]  # fmt: skip
    return {"task_id": "20240927_5855", "instruction": "sort the table", "task_completed": True,
    "alignment_score": 7,
            "efficiency_score": 6, "task_difficulty": 3, "natural_language_task": "Could you …",
            "actual_task": "Sort …",
            "traj": steps} | changes  # fmt: skip


def write(root, *lines):
    (root / "images").mkdir(parents=True)
    for i in range(len(CODES)):
        (root / "images" / f"{i}.png").write_bytes(encode_image(screen(i)))
    (root / "agentnet_ubuntu.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root


def test_a_demonstration_is_read_with_plans_actions_and_pictures(tmp_path):
    source = write(tmp_path / "net", demonstration(CODES), demonstration(list(CODES)[:1], task_id="other"))
    assert convert(source, tmp_path / "ours.parquet", "coda") == ("agentnet", 2)
    first, second = load_trajectories(tmp_path / "ours.parquet")
    assert (first.task_id, first.app, first.planner) == ("agentnet/20240927_5855", "agentnet", "human")
    assert (first.instruction, first.success, first.stop) == ("sort the table", None, StopReason.FAIL)
    assert [step.actions for step in first.steps] == list(CODES.values())
    assert first.steps[1].plan == "thought 1\naction 1" and first.steps[1].reply == list(CODES)[1]
    assert first.steps[2].screenshot == encode_image(screen(2))
    assert not any(step.error for step in first.steps)
    assert second.task_id == "agentnet/other" and second.stop is StopReason.STEP_LIMIT


def test_code_that_is_no_action_is_kept_and_reported(tmp_path):
    codes, reported = ["os.system('id')", "computer.reboot()"], []
    convert(write(tmp_path / "net", demonstration(codes)), tmp_path / "ours.parquet", "coda", reported.append)
    (read,) = load_trajectories(tmp_path / "ours.parquet")
    assert [step.reply for step in read.steps] == codes and len(reported) == 2
    with pytest.raises(ActionError, match="off the screen"):
        read_code("pyautogui.click(x=1.5, y=0.5)", (1, 1))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"traj": [{"image": "../../secret.png", "value": {"code": ""}}]}, "there is no picture"),
        ({"traj": [{"image": "0.png", "value": {}}]}, "line 2, step 0: no value with code"),
        ({"instruction": None}, "line 2: no traj, no task_id or no instruction"),
    ],
)
def test_what_is_not_as_it_should_be_is_named(tmp_path, changes, fault):
    source = write(tmp_path / "net", demonstration(CODES), demonstration(CODES, **changes))
    messages = []
    assert convert(source, tmp_path / "ours.parquet", "coda", messages.append)[1] == 1
    assert re.search(fault, next(message for message in messages if message.startswith("left out: ")))
    alone = write(tmp_path / "alone", demonstration(CODES, **changes))
    with pytest.raises(UserError, match=fault.replace("line 2", "line 1")):
        convert(alone, tmp_path / "none.parquet", "coda")
    assert not (tmp_path / "none.parquet").exists()


def test_it_is_not_a_format_to_write(tmp_path):
    source = write(tmp_path / "net", demonstration(CODES))
    with pytest.raises(UserError, match="only read format"):
        convert(source, tmp_path / "there", "agentnet")
