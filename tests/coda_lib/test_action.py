"""Actions, and the grammar both ways."""

from __future__ import annotations

import ast

import pytest
from actions import actions, fractions, texts
from hypothesis import given
from hypothesis import strategies as st

from coda_lib.action import Action, ActionError, ActionType, hotkey_keys, to_pixel
from coda_lib.grammar import format_action, parse_actions

SIZE = (336, 252)


def parse(text: str, **options) -> Action:
    (action,) = parse_actions(text, SIZE, **options)
    return action


# ---- the type --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"type": "click", "x": 0.5}, "y is missing"),
        ({"type": "click", "x": 0.5, "y": 1.01}, "1.01"),
        ({"type": "click", "x": float("nan"), "y": 0.5}, "nan"),
        ({"type": "click", "x": 0.5, "y": 0.5, "text": "a"}, "'a'"),
        ({"type": "drag", "x": 0.5, "y": 0.5}, "x2 is missing"),
        ({"type": "type"}, "text is missing"),
        ({"type": "wait", "x": 0.5}, "0.5"),
        ({"type": "scroll", "x": 0.5, "y": 0.5, "direction": "sideways"}, "'sideways'"),
        ({"type": "hotkey", "text": " "}, "no key"),
        ({"type": "punch"}, "'punch'"),
    ],
)
def test_a_bad_action_is_refused_with_the_bad_value(fields, fault):
    with pytest.raises(ValueError, match=fault):
        Action(**fields)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ctrl+C", ("ctrl", "c")),
        ("ctrl c", ("ctrl", "c")),
        ("ctrl + c", ("ctrl", "c")),
        ("Control  Shift+Escape", ("ctrl", "shift", "esc")),
        ("ctrl +", ("ctrl", "+")),
        ("ctrl++", ("ctrl", "+")),
        ("ctrl+", ("ctrl",)),
        ("+", ("+",)),
        ("ctrl -", ("ctrl", "-")),
        ("arrowleft", ("left",)),
        ("Page_Up", ("pageup",)),
        ("shift page-down", ("shift", "pagedown")),
        ("Ctrl-Shift-s", ("ctrl", "shift", "s")),
        ("ctrl--", ("ctrl", "-")),
        ("Print Screen", ("printscreen",)),
    ],
)
def test_the_keys_of_a_hotkey(text, expected):
    assert hotkey_keys(text) == expected
    assert hotkey_keys(" ".join(expected)) == expected
    assert Action.hotkey(text).text == " ".join(expected)


# ---- both ways -------------------------------------------------------------------------------------------
def in_pixels(action: Action) -> tuple:
    start = to_pixel(action.x, action.y, SIZE) if action.x is not None else None
    end = to_pixel(action.x2, action.y2, SIZE) if action.x2 is not None else None
    return action.type, start, end, action.text, action.direction


@given(actions)
def test_an_action_survives_its_text_up_to_the_pixel(action):
    text = format_action(action, SIZE)
    assert len(text.split("\n")) == 1
    again = parse(text)
    assert in_pixels(again) == in_pixels(action)
    assert format_action(again, SIZE) == text
    assert parse(format_action(again, SIZE)) == again


@given(st.lists(actions, min_size=1, max_size=4), st.sampled_from(["", "Thought: Click 'OK'.\nAction: "]))
def test_several_actions_survive_their_text(many, thought):
    reply = thought + "\n\n".join(format_action(action, SIZE) for action in many)
    assert [in_pixels(action) for action in parse_actions(reply, SIZE)] == [
        in_pixels(action) for action in many
    ]


@given(fractions, fractions, st.tuples(st.integers(1, 4000), st.integers(1, 4000)))
def test_a_fraction_names_a_pixel_of_the_image_within_one_pixel(x, y, size):
    for pixel, fraction, side in zip(to_pixel(x, y, size), (x, y), size, strict=True):
        assert 0 <= pixel < side
        assert abs(pixel - fraction * side) <= 1


@given(texts)
def test_any_reply_is_read_or_refused_with_an_action_error(reply):
    try:
        assert parse_actions(reply, SIZE)
    except ActionError:
        pass


# ---- text to actions -------------------------------------------------------------------------------------
POINT = Action.click(84 / 336, 63 / 252)


@pytest.mark.parametrize(
    "text",
    [
        "click(start_box='(84,63)')",
        'click(start_box="(84, 63)")',
        "click( start_box = '(84.0,63.0)' )",
        "click(start_box='<|box_start|>(84,63)<|box_end|>')",
        "click(start_box='(80,60,88,66)')",  # a box: its centre
        "click(start_box='<|box_start|>(80,60,88,66)<|box_end|>')",
        "click(point='<point>84 63</point>')",
        "click(start_point='<point>84 63</point>')",
        "left_single(start_box='(84,63)')",
        "Action: click(start_box='(84,63)')",
        "Thought: The grid is off.\nAction: click(start_box='(84,63)')",
        "Thought: The grid is off. Action: click(start_box='(84,63)')",
        "Thought: f(x) is plotted\nin red.\n\nAction:\nclick(start_box='(84,63)')\n",
        "Reflection: no\nAction_Summary: click it\nAction: click(start_box='(84,63)')",
        "Thought: 动作\r\nAction: click(start_box='(84,63)')\r\n",
    ],
)
def test_the_ways_to_write_one_click(text):
    assert parse(text) == POINT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("left_double(start_box='(84,63)')", Action.double_click(0.25, 0.25)),
        ("right_single(start_box='(84,63)')", Action.right_click(0.25, 0.25)),
        ("hover(start_box='(84,63)')", Action.hover(0.25, 0.25)),
        ("drag(start_box='(84,63)', end_box='(168,126)')", Action.drag(0.25, 0.25, 0.5, 0.5)),
        ("drag(end_box='(168,126)', start_box='(84,63)')", Action.drag(0.25, 0.25, 0.5, 0.5)),
        (
            "drag(start_point='<point>84 63</point>', end_point='<point>168 0</point>')",
            Action.drag(0.25, 0.25, 0.5, 0),
        ),
        ("select(start_box='(84,63)', end_box='(168,126)')", Action.drag(0.25, 0.25, 0.5, 0.5)),
        ("scroll(start_box='(84,63)', direction='down')", Action.scroll(0.25, 0.25, "down")),
        ("scroll(direction='Left', point='<point>84 63</point>')", Action.scroll(0.25, 0.25, "left")),
        ("hotkey(key='ctrl c')", Action.hotkey("ctrl c")),
        ("hotkey(key='Ctrl+C')", Action.hotkey("ctrl c")),
        ("press(key='shift')", Action("press", text="shift")),
        ("keydown(press='Control')", Action("press", text="ctrl")),
        ("release(key='shift')", Action("release", text="shift")),
        ("keyup(key='shift')", Action("release", text="shift")),
        ("mouse_down(point='<point>84 63</point>')", Action("mouse_down", 0.25, 0.25)),
        ("mouse_up(point='<point>84 63</point>')", Action("mouse_up", 0.25, 0.25)),
        ("mouse_up()", Action("mouse_up")),
        ("move_to(point='<point>84 63</point>')", Action.hover(0.25, 0.25)),
        ("scroll(direction='down')", Action("scroll", direction="down")),
        ("click(start_box='(84,63)'", Action.click(0.25, 0.25)),
        ("Action: type(content='a'", Action.type_text("a")),
        ("wait(", Action.wait()),
        ("wait()", Action.wait()),
        ("finished()", Action.done()),
        ("finished(content='it's done')", Action.done()),
        ("call_user()", Action.fail()),
        ("answer(content='4.2 km')", Action.answer("4.2 km")),
    ],
)
def test_the_actions_and_their_older_names(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("'plot'", "plot"),
        ("''", ""),
        ("'  a  '", "  a  "),
        (r"'sin(x)\n'", "sin(x)\n"),  # a last newline submits, and stays in the text
        ("'sin(x)\n'", "sin(x)\n"),  # the same, not escaped
        (r"'it\'s'", "it's"),
        ("'it's'", "it's"),  # models forget to escape
        (r'"it\'s"', "it's"),
        ('"say "hi" now"', 'say "hi" now'),
        ("'f('a')'", "f('a')"),
        ("'r.info map='dem''", "r.info map='dem'"),
        ("'print('a')\nprint('b')'", "print('a')\nprint('b')"),
        (r"'a\\nb'", r"a\nb"),  # an escaped backslash, then an n
        (r"'C:\\'", "C:\\"),
        (r"'\alpha'", r"\alpha"),  # no escape: the backslash is one
        (r"'a\tb'", "a\tb"),
        ("'a, b=(1), key=2'", "a, b=(1), key=2"),
        ("'Action: wait()'", "Action: wait()"),
        ("'α → β'", "α → β"),
    ],
)
def test_typed_text(written, typed):
    assert parse(f"type(content={written})") == Action.type_text(typed)
    assert parse(f"Thought: Type it.\nAction: type(content={written})") == Action.type_text(typed)


def test_typed_text_ends_before_the_next_action():
    reply = "Action: type(content='it's\n\n2')\n\nhotkey(key='enter')\n\nAction: wait()"
    assert parse_actions(reply, SIZE) == (
        Action.type_text("it's\n\n2"),
        Action.hotkey("enter"),
        Action.wait(),
    )


def test_the_older_models_write_thousandths():
    assert parse("click(start_box='(250,1000)')", convention="thousandth") == Action.click(0.25, 1.0)
    assert (
        format_action(Action.click(0.25, 0.5), SIZE, convention="thousandth")
        == "click(start_box='(250,500)')"
    )
    with pytest.raises(ValueError, match="'percent'"):
        parse("wait()", convention="percent")


def test_a_box_may_leave_the_screen_by_rounding_only():
    assert parse("click(start_box='(337,-1)')") == Action.click(1.0, 0.0)
    for box in ("(338,1)", "(1,254)", "(-2,1)", "(1,1,900,2)", "(1" + "0" * 400 + ",1)"):
        with pytest.raises(ActionError, match="off the screen of 336x252"):
            parse(f"click(start_box='{box}')")


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("", "no action"),
        ("Thought: I click on it.", "no action.*I click on it"),
        ("Thought: a\nAction: click it", "no action"),
        ("punch(start_box='(1,2)')", "not an action: .*punch"),
        ("click()", "click: no start"),
        ("drag(start_box='(1,2)')", "drag: no end"),
        ("scroll(start_box='(1,2)')", "scroll: no direction"),
        ("scroll(start_box='(1,2)', direction='sideways')", "'sideways'"),
        ("click(start_box='(1,2)', start_box='(1,2)')", "bad arguments"),
        ("click(start_box='(1,2)', point='<point>1 2</point>')", "bad arguments"),
        ("click(content='a')", "bad arguments"),
        ("click(start_box=(1,2))", "bad arguments"),
        ("wait(content='a')", "bad arguments"),
        ("hotkey(key='')", "no key"),
        ("click(start_box='1,2')", "not a point"),
        ("click(start_box='(1,2,3)')", "not a point"),
        ("click(start_box='(a,b)')", "not a point"),
        ("scroll(direction='up', start_box='')", "not a point"),
        ("wait()\nclick(start_box='(1,2)' wait()", "bad arguments"),
        ("type(content='a", "no closing quote"),
        ("wait() and then click(start_box='(1,2)')", "no line end"),
        ("wait()\nand then", "not an action: 'and then'"),
        ("__import__('os').system('ls')", "not an action"),
        ("click(start_box=__import__('os'))", "bad arguments"),
    ],
)
def test_a_reply_that_cannot_be_read_is_quoted(reply, fault):
    with pytest.raises(ActionError, match=fault):
        parse_actions(reply, SIZE)


def test_typed_text_keeps_what_ends_a_reply_elsewhere():
    for text in ("a[EOS]", "```", "```py\nprint(1)\n```", "Aktion：los", "[1, 2]"):
        assert parse(f"Action: type(content='{text}')") == Action.type_text(text)


NEXT = "Thought: It is open. Now the grid.\nAction: click(start_box='(84,63)')"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (f"type(content='q')\n\n{NEXT}", Action.type_text("q")),
        (f"Thought: a\nAction: type(content='q')\n{NEXT}", Action.type_text("q")),
        (f"Action: type(content='q') {NEXT}", Action.type_text("q")),
        (f"Action: type(content='q')\r\n\r\n{NEXT}", Action.type_text("q")),
        (f'Action: type(content="q")\n\n{NEXT}', Action.type_text("q")),
        (
            "Action: type(content='q')\n\nObservation: done\nAction: click(start_box='(84,63)')",
            Action.type_text("q"),
        ),
        (
            "Action: type(content='q')<|im_end|>\n<|im_start|>user\nclick(start_box='(84,63)')",
            Action.type_text("q"),
        ),
        ("Action: type(content='q')\nNow the grid: click(start_box='(84,63)')", None),
        ("Action: type(content='q') and then click(start_box='(84,63)')", None),
        ("Action: type(content='q').\n\nAction: click(start_box='(84,63)')", None),
        (f"Action: type(content='q' {NEXT}", None),
        (f"Action: punch(key='q')\n\n{NEXT}", None),
        (f"Action: hotkey(key='ctrl c')\n\n{NEXT}", Action.hotkey("ctrl c")),
        (
            "Thought: My last Action: wait() did nothing.\nAction: click(start_box='(84,63)')",
            Action.click(0.25, 0.25),
        ),
        ("Thought: After Action: wait()\nAction: click(start_box='(84,63)')", Action.click(0.25, 0.25)),
        (
            "Thought: My Action: wait() did nothing. Action: click(start_box='(84,63)')",
            Action.click(0.25, 0.25),
        ),
        (
            "Thought: I did\nAction: wait()\nwhich failed.\nAction: click(start_box='(84,63)')",
            Action.click(0.25, 0.25),
        ),
    ],
)
def test_the_next_turn_is_never_typed_and_an_action_in_a_thought_does_not_count(reply, expected):
    if expected is None:
        with pytest.raises(ActionError):
            parse_actions(reply, SIZE)
    else:
        assert parse_actions(reply, SIZE) == (expected,)


@given(texts.filter(lambda text: "'" not in text))
def test_no_typed_text_holds_the_next_turn(text):
    for between in ("\n\n", "\n", " ", "\r\n"):
        try:
            actions = parse_actions(f"Action: type(content='{text}'){between}{NEXT}", SIZE)
        except ActionError:
            continue
        assert all("It is open" not in (action.text or "") for action in actions)


# ---- against the vendor's parser -------------------------------------------------------------------------
# Left out, because version 0.5.1 of the vendor's parser fails on them or garbles them and ours does not:
# typed text with an unescaped line end, with `')` inside (it reads a')b as ab')), with `Action: ` inside, or
# in double quotes; `Action:` followed by anything but one blank; two blank lines between actions;
# `<|box_start|>` marks.
VENDOR_REPLIES = [
    "Thought: Open it.\nAction: click(start_box='(120,48)')",
    "Action: click(start_box='(100,40,140,56)')",
    "Action: click(point='<point>120 48</point>')",
    "Action: left_double(start_box='(0,0)')",
    "Action: right_single(start_box='(336,252)')",
    "Action: hover(start_box='(7,200)')",
    "Action: drag(start_box='(10,20)', end_box='(300,20)')",
    "Action: drag(start_point='<point>10 20</point>', end_point='<point>300 200</point>')",
    "Action: select(start_box='(10,20)', end_box='(300,20)')",
    "Action: scroll(start_box='(168,126)', direction='down')",
    "Action: scroll(point='<point>168 126</point>', direction='right')",
    "Action: hotkey(key='ctrl c')",
    "Action: press(key='shift')",
    "Action: release(key='shift')",
    "Action: scroll(direction='down')",
    "Action: click(start_box='(120,48)'",
    "Action: type(content='r.info map=dem')",
    r"Action: type(content='it\'s 2\n')",
    r"Action: type(content='C:\\new')",
    "Action: wait()",
    "Action: finished()",
    "Action: call_user()",
    "Thought: Two at once.\nAction: click(start_box='(120,48)')\n\ntype(content='x^2 + 1')",
    "Action: hotkey(key='ctrl a')\n\nhotkey(key='delete')\n\nwait()",
]


@pytest.mark.parametrize("reply", VENDOR_REPLIES)
def test_agrees_with_the_vendors_parser_on_well_formed_replies(reply):
    vendor = pytest.importorskip("ui_tars.action_parser")
    theirs = vendor.parse_action_to_structure_output(reply, 28, SIZE[1], SIZE[0])
    ours = parse_actions(reply, SIZE)
    assert len(ours) == len(theirs)
    older = {"select": ActionType.DRAG}
    for action, other in zip(ours, theirs, strict=True):
        name, inputs = other["action_type"], other["action_inputs"]
        assert action.type == older.get(name, name)
        assert action.text == inputs.get("content", inputs.get("key"))
        assert action.direction == inputs.get("direction")
        for point, box in (((action.x, action.y), "start_box"), ((action.x2, action.y2), "end_box")):
            if box in inputs:
                x1, y1, x2, y2 = ast.literal_eval(inputs[box])  # fractions, as the vendor prints them
                assert point == pytest.approx(((x1 + x2) / 2, (y1 + y2) / 2))
            else:
                assert point == (None, None)
