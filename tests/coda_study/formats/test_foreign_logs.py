"""Logs as other projects' agents and runners write them, after public reports and the projects' own code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from coda_lib.action import Action, ActionError
from coda_lib.errors import UserError
from coda_lib.trajectory import decode_image
from coda_study.formats import convert, read
from coda_study.formats.code import read_code

SIZE = (1920, 1080)
PICTURES = {"screenshot_file": 90, "screenshot_file_before_exec": 30, "screenshot": 60}  # by their red


def episode(
    folder: Path, *lines: dict[str, Any] | str, result: str = "1.0", name: str = "result.txt"
) -> Path:
    """Write a finished episode; the pictures that its lines name are there."""
    folder.mkdir(parents=True)
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / "traj.jsonl").write_text("\n".join(text) + "\n")
    (folder / name).write_text(result)
    for line in lines:
        for key in PICTURES.keys() & line if isinstance(line, dict) else ():
            Image.new("RGB", SIZE, (PICTURES[key], 0, 0)).save(folder / line[key])
    return folder


def osworld(action: Any, number: int = 1, **more: Any) -> dict[str, Any]:
    return {"step_num": number, "action": action, "screenshot_file": f"{number}.png"} | more


def scienceboard(*codes: str) -> dict[str, Any]:
    return {"step_index": 0, "timestamp": "250101000000", "actions": codes, "screenshot": "s.png"}


def actions(source: Path) -> list[Action]:
    (trajectory,) = read(source)[1]
    return [action for step in trajectory.steps for action in step.actions]


THOUGHT = "import pyautogui\nimport time\n'''\nObservation:\n\n\nThought:\nopen it\n'''\n\n"
CENTRE = Action.click(0.5, 0.5)
PASTED = (
    f"{THOUGHT}import pyperclip\npyperclip.copy('abc')\npyautogui.hotkey('ctrl', 'v')\n"
    "time.sleep(0.5)\n\npyautogui.press('enter')"
)


def computer_13(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"action_type": kind, "parameters": parameters}


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        # UI-TARS' parsing_response_to_pyautogui_code: the thought as a string, text by the clipboard
        (f"{THOUGHT}pyautogui.click(960.0, 540.0, button='left')", [CENTRE]),
        (PASTED, [Action.type_text("abc"), Action.wait(), Action.type_text("\n")]),
        # OSWorld's Claude agent: a call of a tool
        ({"action_type": "tool_use", "command": "pyautogui.click(960, 540)\n", "input": {}}, [CENTRE]),
        # OSWorld's action space computer_13
        (computer_13("CLICK", x=960, y=540), [CENTRE]),
        (computer_13("CLICK", x=960, y=540, num_clicks=2), [Action.double_click(0.5, 0.5)]),
        (computer_13("TYPING", text="a b"), [Action.type_text("a b")]),
        (computer_13("HOTKEY", keys=["ctrl", "s"]), [Action.hotkey("ctrl s")]),
        (computer_13("SCROLL", dx=0, dy=-3), [Action("scroll", direction="down")]),
        (computer_13("SCROLL", dx=2, dy=0), [Action("scroll", direction="right")]),
        ({"action_type": "DONE"}, [Action.done()]),
        (computer_13("DANCE"), []),
        ({"a": [1]}, []),
    ],
)
def test_what_agents_of_osworld_log(tmp_path, logged, expected):
    episode(tmp_path / "pyautogui" / "screenshot" / "m" / "os" / "a", osworld(logged))
    assert actions(tmp_path) == expected


def test_seagents_folders_end_with_the_number_of_the_run_and_have_a_final_picture(tmp_path):
    line = {"step_num": 1, "action": "DONE", "screenshot_file_before_exec": "step_0_a.png"}
    folder = episode(tmp_path / "pyautogui" / "screenshot" / "seagent" / "vscode" / "4e60-cfg" / "2", line)
    for number in (1, 10):
        Image.new("RGB", SIZE, (0, 0, 20 * number)).save(folder / f"step_{number}_final.png")
    Image.new("RGB", SIZE).save(folder / "step__final.png")  # no number
    (trajectory,) = read(tmp_path)[1]
    assert (trajectory.planner, trajectory.app, trajectory.task_id) == (
        "seagent",
        "vscode",
        "vscode/4e60-cfg",
    )
    assert trajectory.run == 2
    assert decode_image(trajectory.final_screenshot).getpixel((0, 0)) == (0, 0, 200)


@pytest.mark.parametrize(
    ("last", "fault"),
    [
        ('{"step_num": 2, "action": "DONE", "screenshot_file": "none.png"}', "no picture"),
        ("Traceback (most recent call last):", "no JSON"),
        ('{"step_num": 2}', "no action"),
    ],
)
def test_a_broken_episode_is_named_and_the_others_are_converted(tmp_path, last, fault):
    logs = tmp_path / "logs" / "pyautogui" / "screenshot" / "m" / "os"
    episode(logs / "a", osworld("pyautogui.click(960, 540)"))
    folder = episode(logs / "b", osworld("pyautogui.click(960, 540)"))
    with (folder / "traj.jsonl").open("a") as file:
        file.write(f"{last}\n")
    messages: list[str] = []
    assert convert(tmp_path / "logs", tmp_path / "out.parquet", "coda", messages.append) == ("osworld", 1)
    (message,) = messages
    assert message.startswith("left out: ") and str(folder) in message and fault in message
    with pytest.warns(UserWarning, match=fault):
        read(tmp_path / "logs")
    (logs / "a" / "traj.jsonl").write_text("x")
    with pytest.raises(UserError, match="no JSON"):
        read(tmp_path / "logs")


def test_a_runners_note_about_an_exception_is_no_step(tmp_path):
    folder = tmp_path / "pyautogui" / "screenshot" / "m" / "os" / "a"
    episode(folder, osworld("pyautogui.click(960, 540)"), {"Error": "Time limit exceeded in os/a"})
    assert actions(tmp_path) == [CENTRE]


def test_fractions_and_pixels_are_told_apart_by_the_whole_log_of_a_model(tmp_path):
    """ScienceBoard's grounders log code without the prefix that scales its points (sci/base/prompt.py)."""
    logged = {
        ("atlas", "A-00"): "pyautogui.click(0.5, 0.5)",
        ("atlas", "A-01"): "pyautogui.click(1, 0)",
        ("pixels", "A-00"): "pyautogui.click(960, 540)",
    }
    for (model, task), code in logged.items():
        episode(tmp_path / model / "KAlgebra" / task, scienceboard(code), name="result.out", result="1")
    found = {(t.planner, t.task_id[-4:]): t.steps[0].actions for t in read(tmp_path)[1]}
    assert found["atlas", "A-00"] == found["pixels", "A-00"] == (CENTRE,)
    assert found["atlas", "A-01"] == (Action.click(1, 0),)


def test_doubt_about_fractions_is_reported(tmp_path):
    codes = ("pyautogui.click(0.5, 0.5)", "pyautogui.click(960, 540)")
    episode(tmp_path / "m" / "KAlgebra" / "A-01", scienceboard(*codes), name="result.out", result="1")
    with pytest.warns(UserWarning, match="2 of 4 coordinates look like fractions"):
        assert actions(tmp_path)[1] == CENTRE


def test_textual_observations_are_steps_without_a_picture(tmp_path):
    line = {"step_index": 0, "timestamp": "1", "actions": ["DONE"], "textual": "s.txt"}
    episode(tmp_path / "m" / "Lean" / "A-01", line, name="result.out", result="0")
    assert actions(tmp_path) == [Action.done()]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (r"pyautogui.press('\n')", Action.type_text("\n")),
        (r"pyautogui.hotkey('ctrl', '\t')", Action.hotkey("ctrl tab")),
        ("pyautogui.hotkey(keys=['ctrl', 'c'])", Action.hotkey("ctrl c")),
        ("pyautogui.hotkey(['ctrl', 'c'])", Action.hotkey("ctrl c")),
        ("pyautogui.keyDown(' ')", Action("press", text="space")),
    ],
)
def test_keys_that_pyautogui_takes(code, expected):
    assert read_code(code, SIZE) == (expected,)


FUNCTIONS = st.sampled_from(
    "click moveTo dragTo write press hotkey keyDown scroll mouseUp tripleClick".split()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
)
CODES = (
    st.text()
    | st.tuples(FUNCTIONS, st.lists(VALUES, max_size=4)).map(
        lambda call: f"pyautogui.{call[0]}({', '.join(map(repr, call[1]))})"
    )
    | VALUES.map(lambda value: f"pyperclip.copy({value!r}); pyautogui.hotkey('ctrl', 'v')")
)


@given(CODES)
def test_code_is_read_or_refused_and_nothing_else(code):
    try:
        for action in read_code(code, SIZE):
            assert isinstance(action, Action) and isinstance(action.text, str | None)
    except ActionError:
        pass
