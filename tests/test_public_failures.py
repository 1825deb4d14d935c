"""Failures that users of this kind of software report: what they fed in, and what is right here.

Logs, replies, keys and surroundings, each after a public report (repository and number) or after the code of
the project that writes such a thing.  Inputs are written anew.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from coda_lib.action import Action, ActionError
from coda_lib.config import load_profile
from coda_lib.environment import ActionSpace
from coda_lib.errors import UserError
from coda_lib.files import read_json, write_json
from coda_lib.grammar import parse_actions
from coda_lib.models.endpoint import read_answer
from coda_lib.models.local import load_processor
from coda_lib.paths import CHECKPOINTS, REPO
from coda_lib.trajectory import decode_image, load_trajectories, save_trajectories
from coda_study.formats import convert, read
from coda_study.formats.code import read_code
from coda_study.pipeline.dependencies import code_files
from coda_study.pipeline.drive import reproduce
from coda_study.run import Run
from sciencedesk.pyautogui import pyautogui_calls

SIZE = (1920, 1080)
PICTURES = {"screenshot_file": 90, "screenshot_file_before_exec": 30, "screenshot": 60}  # by their red


# ---- logs and code of others -----------------------------------------------------------------------------
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
        ("pyautogui.click(960, 540)", [CENTRE]),  # as most agents of OSWorld log
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
    """SEAgent's lib_run_single: DOMAIN/INIT_ID/RES_ID and step_N_final.png."""
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
    """OSWorld's run.py appends it, also where only the end of a recording failed after the result."""
    folder = tmp_path / "pyautogui" / "screenshot" / "m" / "os" / "a"
    episode(folder, osworld("pyautogui.click(960, 540)"), {"Error": "Time limit exceeded in os/a"})
    assert actions(tmp_path) == [CENTRE]


def test_fractions_and_pixels_are_told_apart_by_the_whole_log_of_a_model(tmp_path):
    """ScienceBoard's grounders log code without the prefix that scales its points (sci/base/prompt.py)."""
    logged = {
        ("atlas", "A-00"): "pyautogui.click(0.345, 0.678)",
        ("atlas", "A-01"): "pyautogui.click(1, 0)",
        ("pixels", "A-00"): "pyautogui.click(960, 540)",
    }
    for (model, task), code in logged.items():
        episode(tmp_path / model / "KAlgebra" / task, scienceboard(code), name="result.out", result="1")
    found = {(t.planner, t.task_id[-4:]): t.steps[0].actions for t in read(tmp_path)[1]}
    assert found["atlas", "A-00"] == (Action.click(0.345, 0.678),)
    assert found["pixels", "A-00"] == (CENTRE,)
    assert found["atlas", "A-01"] == (Action.click(1, 0),)


def test_doubt_about_fractions_is_reported(tmp_path):
    codes = ("pyautogui.click(0.5, 0.5)", "pyautogui.click(960, 540)")
    episode(tmp_path / "m" / "KAlgebra" / "A-01", scienceboard(*codes), name="result.out", result="1")
    with pytest.warns(UserWarning, match="2 of 4 coordinates look like fractions"):
        assert actions(tmp_path)[1] == CENTRE


def test_textual_observations_are_steps_without_a_picture(tmp_path):
    """ScienceBoard's log.py for Lean."""
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
    """pyautogui's KEYBOARD_KEYS; keys as a list are OpenCUA's (agentnetbench)."""
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


def test_what_pandas_has_written_again_is_loaded(tmp_path):
    """Strings become large_string there (polars 26435, dask 10942, evo-python-sdk 234)."""
    episode(tmp_path / "in" / "m" / "os" / "a", osworld("pyautogui.click(960, 540)"))
    (trajectory,) = read(tmp_path / "in")[1]
    save_trajectories(tmp_path / "a.parquet", [trajectory])
    pd.read_parquet(tmp_path / "a.parquet").to_parquet(tmp_path / "b.parquet", index=False)
    assert load_trajectories(tmp_path / "b.parquet") == [trajectory]


# ---- replies and keys ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("reply", "x", "y"),
    [
        ("Thought: x\nAction: click(start_box='(100,200)')", 100, 200),  # as it should be
        (
            "Thought: x\nAction：click(start_box='(100,200)')",
            100,
            200,
        ),  # UI-TARS-desktop's parser reads it
        ("1. go on\n\nAction：click(start_box='<bbox>191 21 191 21</bbox>')", 191, 21),  # midscene 843
        ("Action: click(start_box='<bbox>10 20 50 60</bbox>')", 30, 40),
        ("Action: click(start_box='[10, 850, 50, 890]')", 30, 870),  # UI-TARS-desktop 28 and 42
        ("Action: click(point='<point>450 565</point>\"", 450, 565),  # UI-TARS-desktop 942
        ("Action: click(start_box=\"(100,200)')", 100, 200),
        (
            "Action: click(start_box='(100,200)') then wait()",
            100,
            200,
        ),  # UI-TARS-desktop's parser, too
        ("click(start_box='(100,200)'). It opens the menu.", 100, 200),
        ("Action: click(start_box='(100,200)')[EOS]", 100, 200),  # ByteDance's parser strips it
        ("Action: click(start_box='(100,200)')\n```\n[EOS]", 100, 200),
        ("Thought: x\nAction: ```python\nclick(start_box='(100,200)')\n```", 100, 200),
        ("```\nclick(start_box='(100,200)')\n```", 100, 200),
    ],
)
def test_forms_that_the_models_own_parsers_read(reply, x, y):
    assert parse_actions(reply, SIZE) == (Action.click(x / 1920, y / 1080),)


@pytest.mark.parametrize(
    ("written", "pressed"),
    [
        ("pagedown", ("pagedown",)),
        ("page down", ("pagedown",)),  # oagi-python 3
        ("page_down", ("pagedown",)),
        ("Page_Down", ("pagedown",)),  # windows_claude_computer_use 2
        ("arrow left", ("left",)),  # midscene 370
        ("ctrl-s", ("ctrl", "s")),  # UI-TARS-desktop 617
        ("back space", ("backspace",)),
        ("Caps_Lock", ("capslock",)),
        ("num1", ("num1",)),
    ],
)
def test_names_of_keys(written, pressed):
    (action,) = parse_actions(f"Action: hotkey(key='{written}')", SIZE)
    assert action == Action.hotkey(" ".join(pressed))
    ((function, keys, _),) = pyautogui_calls(action, SIZE)
    assert (function, keys) == ("hotkey", pressed)


# ---- surroundings ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "value"),
    [
        # orbstack 2456, kimi-cli 1959, httpx 3221
        ("NO_PROXY", "localhost,127.0.0.1,::1,fd07:b51a:cc66:f0::/64"),
        ("ALL_PROXY", "socks5://127.0.0.1:9"),  # OpenHands-CLI 632, Langchain-Chatchat 605
    ],
)
def test_no_proxy_stands_between_a_command_and_this_machine(coda, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    small = ("--profile", "smoke", "--app", "gis", "--first", "1", "--runs", "1", "--planner", "none")
    code, _, said = coda("evaluate", *small, "--set", "serving.executor=http://127.0.0.1:9/v1")
    assert code == 2 and "http://127.0.0.1:9/v1 does not answer" in said


def test_output_that_is_no_utf8_ends_no_command():
    """A container without a locale, or a pipe of another program (rich 212, cube 10378)."""
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "coda_study.cli.main", "audit"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0 and b"?" in done.stdout and done.stdout.isascii(), done.stderr


@pytest.mark.slow
def test_a_long_tmpdir_stops_no_run(tmp_path, monkeypatch, fake_notebooks, fake_checkpoints):
    """The address of a Unix socket has 107 characters at most (cpython 93852, mitogen 855, cromwell 3647)."""
    long = tmp_path / ("t" * 100)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", None)
    run = Run(str(tmp_path / "run"))
    profile = load_profile("smoke", (*fake_checkpoints, "apps=[algebra, gis]"))
    reproduce(run, profile, 2, "judge", False, Console(file=io.StringIO()), fake_notebooks)
    assert run.judged("base", "gis").is_file()


@pytest.mark.parametrize(
    "cell", ["files = !ls", "%%bash\nfor i in 1 2; do echo $i; done", "len?", "%time 1 + 1"]
)
def test_cells_in_ipythons_own_syntax_are_read(tmp_path, cell):
    """A run asks which modules a notebook imports (FawltyDeps 132, pigar 79)."""
    cells = [{"cell_type": "code", "source": [text]} for text in (cell, "from coda_lib.reward import reward")]
    write_json(tmp_path / "n.ipynb", {"cells": cells})
    assert REPO / "coda_lib/reward.py" in code_files(tmp_path / "n.ipynb")


def test_a_checkpoint_may_give_image_sizes_as_pixels(tmp_path):
    """UI-TARS 165, colpali 293."""
    folder = shutil.copytree(CHECKPOINTS / "executor", tmp_path / "copy")
    settings = read_json(folder / "processor_config.json")
    size = settings["image_processor"]["size"]
    pixels = {"max_pixels": size["longest_edge"], "min_pixels": size["shortest_edge"]}
    settings["image_processor"]["size"] = pixels
    write_json(folder / "processor_config.json", settings)
    assert load_processor(folder).image_processor.resize_rule((336, 252)) == (336, 252)


def test_usage_without_the_tokens_of_the_reply_is_counted_as_far_as_it_goes():
    """evalscope 1432, llama_index 22812, langchain 472."""
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    answer = {"choices": [{"message": {"content": "x"}}], "usage": usage}
    used = read_answer(json.dumps(answer).encode())[1]
    assert (used.requests, used.prompt_tokens, used.completion_tokens) == (1, 5, 0)


def test_several_environments_make_a_vector():
    """Spaces of equal environments must be equal (Minigrid 303, stable-baselines 33)."""
    assert ActionSpace() == ActionSpace()
    several = gymnasium.make_vec("sciencedesk/Algebra-v0", num_envs=2, vectorization_mode="sync")
    observations, _ = several.reset(seed=1)
    assert observations["screenshot"].shape[0] == 2
    assert several.step([Action.click(0.5, 0.5), Action.wait()])[1].tolist() == [0.0, 0.0]
    several.close()
