"""Other projects' formats: our trajectories come back whole, theirs can be read, what is broken is named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import SIZE, made_up, screen

from coda_lib.action import Action, ActionError
from coda_lib.errors import UserError
from coda_lib.trajectory import StopReason, encode_image, load_trajectories, save_trajectories
from coda_study.formats import FORMATS, WRITTEN, convert
from coda_study.formats.code import action_code, read_code

ACTS = [
    Action.click(0.25, 0.5), Action.double_click(0, 0), Action.right_click(0.5, 0.25), Action.hover(0.75,
    0.5),
    Action.drag(0, 0.25, 0.5, 0.5), Action.scroll(0.5, 0.5, "left"), Action.scroll(0.25, 0.5, "up"),
    Action.hotkey("ctrl c"),
    Action.type_text("it's \"x\"\n\ty\\"), Action.type_text("\n"), Action.hotkey("enter"), Action.wait(),
]  # fmt: skip
ENDS = dict(zip(StopReason, (Action.done(), Action.fail(), Action.answer("5.5 km")), strict=False))
FOREIGN = [name for name in WRITTEN if name != "coda" and FORMATS[name].read]  # Inspect's logs: test_evals.py


def everything():
    """Trajectories with every action, every end, several actions a step, none a step, no step at all, and no
    outcome.
    """
    acts = [(f"plan {i}", act) for i, act in enumerate(ACTS)]
    long = made_up(1, acts, success=False, stop=StopReason.STEP_LIMIT)
    steps = long.steps
    broken = replace(steps[1], actions=(), error="not parsable", reply="?")
    many = replace(steps[2], actions=tuple(ACTS[:3]))
    ends = [
        made_up(i, [("end", act)], stop=stop, answer=act.text)
        for i, (stop, act) in enumerate(ENDS.items(), 2)
    ]
    return [
        long, replace(long, task_id="gis/B-01", app="gis", steps=(steps[0], broken, many)), *ends,
        made_up(7, [], stop=StopReason.ENVIRONMENT_ERROR, success=None), made_up(8, run=3, planner="base",
        verdicts=()),
    ]  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_our_trajectories_come_back_whole(name, tmp_path):
    ours = everything()
    save_trajectories(tmp_path / "ours.parquet", ours)
    assert convert(tmp_path / "ours.parquet", tmp_path / name, name) == ("coda", len(ours))
    assert convert(tmp_path / name, tmp_path / "back.parquet", "coda") == (name, len(ours))
    back = {(t.task_id, t.planner, t.run): t for t in load_trajectories(tmp_path / "back.parquet")}
    for trajectory in ours:
        found = back[trajectory.task_id, trajectory.planner, trajectory.run]
        assert replace(found, steps=()) == replace(trajectory, steps=())
        for step, other in zip(trajectory.steps, found.steps, strict=True):
            assert other == step


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("other", FOREIGN)
def test_from_one_to_another_and_back(name, other, tmp_path):
    FORMATS[name].write(everything(), tmp_path / "one")
    convert(tmp_path / "one", tmp_path / "two", other)
    key = lambda t: (t.task_id, t.planner, t.run)  # noqa: E731
    assert sorted(FORMATS[other].read(tmp_path / "two"), key=key) == sorted(
        FORMATS[name].read(tmp_path / "one"), key=key
    )


# ---- what names and texts may hold -----------------------------------------------------------------------

HOSTILE = ("/abs/olute", "../../up", "..", ".", "", "a/../../../b", "nul\0", "x" * 400)


@pytest.mark.parametrize("name", FOREIGN)
def test_no_name_in_a_trajectory_leads_out_of_the_target(name, tmp_path):
    ours = [
        made_up(3 * i + j, **{field: f"{tmp_path}{text}" if text == "/abs/olute" else text})
        for i, text in enumerate(HOSTILE) for j, field in enumerate(("task_id", "app", "planner"))
    ]  # fmt: skip
    save_trajectories(tmp_path / "in" / "a.parquet", ours)
    convert(tmp_path / "in" / "a.parquet", tmp_path / "in" / "there", name)
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
    assert {path.name for path in (tmp_path / "in").iterdir()} == {"a.parquet", "there"}
    key = lambda t: (t.task_id, t.app, t.planner)  # noqa: E731
    assert sorted(FORMATS[name].read(tmp_path / "in" / "there"), key=key) == sorted(ours, key=key)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_conversion_that_fails_leaves_nothing(name, tmp_path):
    other = replace(made_up(1), instruction="another")
    for ours, fault in (
        ([made_up(1), made_up(2), made_up(1)], "there twice"),
        ([made_up(1), other], "run 0 of algebra/T-01 by script is there twice"),
    ):
        save_trajectories(tmp_path / "a.parquet", ours)
        with pytest.raises(UserError, match=fault):
            convert(tmp_path / "a.parquet", tmp_path / "there", name)
        assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_a_target_that_is_a_link_to_nothing_is_there(tmp_path):
    save_trajectories(tmp_path / "a.parquet", [made_up()])
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for to in WRITTEN:
        with pytest.raises(UserError, match="is there already"):
            convert(tmp_path / "a.parquet", tmp_path / "link", to)
    assert not (tmp_path / "elsewhere").exists()


UNTYPABLE = ("Å", "50 µm at 37 °C", "a\nβ\t<", "\x07", "漢字 🧬", "x" * 3000)


@pytest.mark.parametrize("name", FOREIGN)
def test_what_cannot_be_typed_is_converted_all_the_same(name, tmp_path):
    """Of the laptop's biochem rollouts 395 in 608 hold such text: the model wrote it, nothing was typed."""
    acts = [*map(Action.type_text, UNTYPABLE), *map(Action.hotkey, ("win d", "ctrl alt delete", "nokey"))]
    ours = [made_up(1, [("plan", act) for act in acts], success=False, stop=StopReason.STEP_LIMIT)]
    save_trajectories(tmp_path / "a.parquet", ours)
    convert(tmp_path / "a.parquet", tmp_path / name, name)
    assert FORMATS[name].read(tmp_path / name) == ours


def test_halves_of_characters_in_logs_of_others_can_be_written(tmp_path):
    lines = [{"actions": ["ANS \ud83d"], "screenshot": "0.png"}]
    episode(tmp_path / "logs", lines, "1")
    for to in ("coda", *FOREIGN):
        convert(tmp_path / "logs", tmp_path / to, to)
    assert load_trajectories(tmp_path / "coda")[0].answer == "\ufffd"


@given(st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_any_text_is_read_as_it_was_written(text):
    act = Action.type_text(text)
    assert read_code(action_code(act, (80, 60)), (80, 60)) == (act,)


# ---- what others have written ----------------------------------------------------------------------------


def episode(root, lines, result, name="result.out"):
    folder = root / "agent" / "KAlgebra" / "A-01"
    folder.mkdir(parents=True)
    for i in range(3):
        (folder / f"{i}.png").write_bytes(encode_image(screen(i)))
    (folder / "traj.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / name).write_text(result)
    return folder


def test_an_episode_of_scienceboard_is_read(tmp_path):
    lines = [
        {"step_index": 0, "timestamp": "250101120000", "screenshot": "0.png",
         "actions": ["import pyautogui\nimport time\npyautogui.click(21, 42)\ntime.sleep(1)"]},
        {"step_index": 1, "timestamp": "250101120005", "screenshot": "1.png", "actions": ["os.system('id')"]},
        {"step_index": 2, "timestamp": "250101120009", "screenshot": "2.png", "actions": ["ANS 5"]},
    ]  # fmt: skip
    episode(tmp_path, lines, "1")
    (found,) = FORMATS["scienceboard"].read(tmp_path)
    assert (found.task_id, found.planner, found.success, found.stop, found.answer) == (
        "KAlgebra/A-01", "agent", True, StopReason.ANS, "5",
    )  # fmt: skip
    x, y = 21 / SIZE[0], 42 / SIZE[1]
    assert found.steps[0].actions == (Action.click(x, y), Action.wait()) and found.steps[0].error is None
    assert found.steps[1].actions == () and "os.system" in found.steps[1].error
    assert found.steps[2].image.tobytes() == screen(2).tobytes()


def test_an_episode_of_scienceboard_as_its_tool_leaves_it_is_read(tmp_path):
    """With its log and requests beside it, by an agent that was given the accessibility tree alone."""
    click, written = "pyautogui.click(960, 540)", "pyautogui.write('5')"
    codes = (["pyautogui.press('enter')"], [click], [written, click], ["DONE"])
    time = "250601120000"
    lines = [
        {"step_index": i, "timestamp": time, "actions": code, "a11y_tree": f"step_{i}@{time}.txt"}
        for i, code in enumerate(codes)
    ]
    folder = episode(tmp_path, lines, "1")
    for name in ("250601120000.log", "request.json", "request.simp.json", "record.mp4"):
        (folder / name).write_text("{}")
    (found,) = FORMATS["scienceboard"].read(tmp_path)
    assert [step.actions for step in found.steps] == [
        (Action.type_text("\n"),), (), (Action.type_text("5"),), (Action.done(),)
    ]  # fmt: skip
    assert [bool(step.error) for step in found.steps] == [False, True, True, False]
    assert "not recorded" in found.steps[1].error and found.steps[1].reply == "pyautogui.click(960, 540)"
    assert found.success and found.stop is StopReason.DONE and found.steps[0].image.size == (1, 1)


def test_an_episode_of_osworld_is_read(tmp_path):
    lines = [
        {"step_num": 1, "action_timestamp": "t", "action": "pyautogui.click(21, 42)", "reward": 0,
         "done": False, "info": {},
         "screenshot_file": "1.png"},
        {"step_num": 2, "action_timestamp": "t", "action": "FAIL", "reward": 0, "done": True,
         "info": {"fail": True},
         "screenshot_file": "2.png"},
    ]  # fmt: skip
    episode(tmp_path, lines, "0.0\n", "result.txt")
    (found,) = FORMATS["osworld"].read(tmp_path)
    assert (found.success, found.stop, len(found.steps)) == (False, StopReason.FAIL, 2)
    assert found.steps[0].image.size == (1, 1)  # not recorded
    assert found.steps[1].image.tobytes() == screen(1).tobytes()


def test_a_partial_score_stays(tmp_path):
    lines = [{"step_num": 1, "action": "DONE", "screenshot_file": "1.png"}]
    episode(tmp_path / "in", lines, "0.5\n", "result.txt")
    (found,) = FORMATS["osworld"].read(tmp_path / "in")
    assert (found.success, found.score) == (False, 0.5)
    for to in ("coda", "osworld", "scienceboard", "agentrewardbench"):
        convert(tmp_path / "in", tmp_path / to, to)
        convert(tmp_path / to, tmp_path / "back" / to, "osworld")
        (result,) = (tmp_path / "back" / to).rglob("result.txt")
        assert float(result.read_text()) == 0.5


def test_the_picture_before_an_action_is_read_in_seagents_logs(tmp_path):
    line = {"action": "WAIT", "screenshot_file_before_exec": "0.png"}
    lines = [line | {"step_num": i + 1, "screenshot_file_before_exec": f"{i}.png"} for i in range(3)]
    episode(tmp_path, lines, "1", "result.txt")
    (found,) = FORMATS["osworld"].read(tmp_path)
    assert [step.image.tobytes() for step in found.steps] == [screen(i).tobytes() for i in range(3)]
    assert found.success


def test_what_cannot_be_converted_is_named(coda, tmp_path):
    episode(tmp_path / "logs", [{"actions": ["pyautogui.alert('x')"], "screenshot": "0.png"}], "0")
    code, _, said = coda("convert", str(tmp_path / "logs"), str(tmp_path / "a.parquet"), "--to", "coda")
    assert code == 0 and "KAlgebra/A-01 by agent, step 1: not converted: no action: pyautogui.alert" in said
    (found,) = load_trajectories(tmp_path / "a.parquet")
    assert found.steps[0].reply == "pyautogui.alert('x')" and found.planner == "agent"


def shown_by_osworld(root, action_space, observation, model):
    """What OSWorld's show_result.py adds up: the results below RESULTS/ACTION_SPACE/OBSERVATION/MODEL by
    domain.
    """
    found = {}
    for domain in (root / action_space / observation / model).iterdir():
        for example in domain.iterdir():
            if "result.txt" in [path.name for path in example.iterdir()]:
                found.setdefault(domain.name, []).append(float((example / "result.txt").read_text()))
    return found


def test_osworlds_own_table_reads_what_is_written(tmp_path):
    ours = [replace(made_up(i, success=i == 1), task_id=f"gis/B-0{i}", app="gis") for i in range(1, 4)]
    ours = [replace(trajectory, planner="base", run=0) for trajectory in ours]
    FORMATS["osworld"].write([*ours, replace(ours[0], run=1)], tmp_path)
    assert sorted(shown_by_osworld(tmp_path, "pyautogui", "screenshot", "base-0")["gis"]) == [0, 0, 1]
    assert shown_by_osworld(tmp_path, "pyautogui", "screenshot", "base-1") == {"gis": [1]}


def test_a_trajectory_of_agentrewardbench_is_read(tmp_path):
    folder = tmp_path / "webarena" / "GenericAgent"
    (folder / "run").mkdir(parents=True)
    (folder / "0.png").write_bytes(encode_image(screen(0)))
    step = {"url": "x", "action": "click('a12')", "reasoning": "because", "screenshot_path": "0.png"}
    raw = {"benchmark": "webarena", "goal": "Buy it.", "valid": True, "summary_info": {"cum_reward": 1.0}}
    raw["steps"] = [step | {"axtree": ""}]
    (folder / "run" / "webarena.1.json").write_text(json.dumps(raw))
    (found,) = FORMATS["agentrewardbench"].read(tmp_path)
    assert (found.instruction, found.success, found.steps[0].reply) == ("Buy it.", True, "click('a12')")
    assert found.steps[0].actions == () and found.steps[0].error


@pytest.mark.parametrize(
    ("lines", "result", "message"),
    [
        ([{"actions": ["DONE"], "screenshot": "../../../etc/passwd"}], "1", "there is no picture"),
        ([{"actions": ["DONE"], "screenshot": "9.png"}], "1", "line 1: there is no picture '9.png'"),
        ([{"actions": "DONE", "screenshot": "0.png"}], "1", "line 1: no actions"),
        ([{"screenshot": "0.png"}], "1", "line 1: no actions"),
        ([["DONE"]], "1", "line 1: no JSON object"),
        ([], "yes", "'yes' is no result"),
    ],
)
def test_a_broken_episode_is_named(lines, result, message, tmp_path):
    episode(tmp_path, lines, result)
    with pytest.raises(UserError, match=message):
        FORMATS["scienceboard"].read(tmp_path)


def test_what_cannot_be_converted_is_said(coda, tmp_path):
    save_trajectories(tmp_path / "a.parquet", everything())
    for words, message in [
        (("a.parquet", "b", "--to", "weird"), "unknown format 'weird': choose one of coda, scienceboard"),
        (("none", "b", "--to", "coda"), "there is no"),
        (("a.parquet", "a.parquet", "--to", "osworld"), "is there already"),
        ((".", "b", "--to", "osworld"), "holds no trajectories"),
    ]:
        source, target, *rest = words
        code, _, said = coda("convert", str(tmp_path / source), str(tmp_path / target), *rest)
        assert code == 2 and message in said.replace("\n", " "), said
    source, target = str(tmp_path / "a.parquet"), str(tmp_path / "logs")
    code, shown, _ = coda("convert", source, target, "--to", "scienceboard")
    assert code == 0 and "7 trajectories from coda to scienceboard" in shown


# ---- code ------------------------------------------------------------------------------------------------


@given(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=40),
    st.sampled_from(["", "\n", "\t"]),
)
def test_typed_text_is_read_as_it_was_written(text, end):
    act = Action.type_text(text + end)
    assert read_code(action_code(act, (80, 60)), (80, 60)) == (act,)


@pytest.mark.parametrize(
    ("code", "acts"),
    [
        ("pyautogui.moveTo(8, 6); pyautogui.click()", [Action.click(0.1, 0.1)]),
        ("pyautogui.click(x=8, y=6, clicks=2)", [Action.double_click(0.1, 0.1)]),
        ("pyautogui.click(8, 6, button='right')", [Action.right_click(0.1, 0.1)]),
        ("pyautogui.typewrite('a', interval=0.1)\npyautogui.press('enter')", [Action.type_text("a\n")]),
        ("pyautogui.press('esc')", [Action.hotkey("esc")]),
        ("pyautogui.scroll(-3, 8, 6)", [Action.scroll(0.1, 0.1, "down")]),
        ("pyautogui.scroll(-3)", [Action("scroll", direction="down")]),
        ("pyautogui.press('left', presses=3)", [Action.hotkey("left")] * 3),
        ("pyautogui.press(['left', 'up'], presses=2)", [Action.hotkey("left"), Action.hotkey("up")] * 2),
        ("pyautogui.press('enter', presses=2)", [Action.type_text("\n\n")]),
        ("pyautogui.hotkey(['ctrl', 'c'])", [Action.hotkey("ctrl c")]),
        ("pyautogui.typewrite(['a', 'left'])", [Action.hotkey("a"), Action.hotkey("left")]),
        ("pyautogui.click(8, 6, clicks=3)", [Action.double_click(0.1, 0.1), Action.click(0.1, 0.1)]),
        ("pyautogui.tripleClick(8, 6)", [Action.double_click(0.1, 0.1), Action.click(0.1, 0.1)]),
        ("pyautogui.click(8, 6, 1, 0.0, 'right')", [Action.right_click(0.1, 0.1)]),
        ("pyautogui.leftClick(8, 6)", [Action.click(0.1, 0.1)]),
        (
            "pyautogui.keyDown('shift'); pyautogui.click(8, 6); pyautogui.keyUp('shift')",
            [Action("press", text="shift"), Action.click(0.1, 0.1), Action("release", text="shift")],
        ),
        ("pyautogui.keyDown(key='ctrl')", [Action("press", text="ctrl")]),
        (
            "pyautogui.mouseDown(8, 6); pyautogui.moveTo(40, 30); pyautogui.mouseUp()",
            [Action("mouse_down", 0.1, 0.1), Action.hover(0.5, 0.5), Action("mouse_up")],
        ),
        (
            "pyautogui.moveTo(8, 6); pyautogui.moveTo(40, 30)",
            [Action.hover(0.1, 0.1), Action.hover(0.5, 0.5)],
        ),
        ("", []),
    ],
)
def test_code_of_others_is_read(code, acts):
    assert read_code(code, (80, 60)) == tuple(acts)


@pytest.mark.parametrize(
    "code",
    [
        "os.system('id')", "__import__('os').system('id')", "pyautogui.click(x)", "pyautogui.click(1000, 2)",
        "pyautogui.click()",
        "pyautogui.dragTo(1, 2)", "pyautogui.moveTo(1, 1); pyautogui.dragTo()", "pyautogui.alert('x')",
        "pyautogui.write([1])",
        "pyautogui.press('a', presses=-1)", "pyautogui.press('a', presses=10**9)", "pyautogui.press([])",
        "pyautogui.hotkey()",
        "pyautogui.click(8, 6, button='middle')", "pyautogui.click(8, 6, clicks='9')", "pyautogui.scroll(0)",
        "pyautogui.keyDown()",
        "pyautogui.mouseDown(button='right')", "pyautogui.mouseDown()",
        "for i in range(9): pyautogui.click(1, 1)", "pyautogui.write(open('/etc/passwd').read())",
        "def f(): pass", "(", "\x00",
        "x" * 10**6 + "(", "(" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_action_is_refused(code):
    with pytest.raises(ActionError):
        read_code(code, (80, 60))
