"""Trajectories as files: nothing is lost, the bytes are always the same, and a broken file is one clear
message.
"""

from __future__ import annotations

import io

import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tiny_models import NO, YES, made_up, screen

from coda_lib import trajectory
from coda_lib.action import Action
from coda_lib.errors import UserError
from coda_lib.trajectory import (
    Step,
    StopReason,
    decode_image,
    digest,
    encode_image,
    load_trajectories,
    save_trajectories,
    screenshot_png,
)

EVERY_TYPE = (
    Action.click(0.25, 0.5), Action.double_click(0, 1), Action.right_click(1 / 3, 2 / 7), Action.hover(0.1,
    0.2),
    Action.drag(0.1, 0.2, 0.3, 0.4), Action.type_text("x^2 – 'ü'\n"), Action.hotkey("ctrl shift s"),
    Action.scroll(0.5, 0.5, "down"), Action.wait(), Action.done(), Action.fail(), Action.answer("12 cm"),
)  # fmt: skip


def several():
    unread = Step(encode_image(screen(1)), "raw plan", "raw \x00 reply", (), "no action")
    both = Step(encode_image(screen(2)), "both", "r", (Action.click(0.1, 0.1), Action.type_text("")))
    return [
        made_up(0),
        made_up(
            1, [(f"plan {i}", action) for i, action in enumerate(EVERY_TYPE)], verdicts=(YES, NO, "raw", "")
        ),
        made_up(2, stop=StopReason.ENVIRONMENT_ERROR, success=None, verdicts=(), steps=(unread, both)),
        made_up(3, stop=StopReason.ANS, answer="12 cm", success=False, run=7, planner="specialist"),
        made_up(4, stop=StopReason.STEP_LIMIT, steps=()),
    ]


def test_what_is_saved_is_loaded(tmp_path):
    save_trajectories(tmp_path / "deep" / "x.parquet", several())
    loaded = load_trajectories(tmp_path / "deep" / "x.parquet")
    assert loaded == several()
    assert [type(t.stop) for t in loaded] == [StopReason] * 5 and isinstance(
        loaded[1].steps[0].actions[0], Action
    )
    save_trajectories(tmp_path / "none.parquet", [])
    assert load_trajectories(tmp_path / "none.parquet") == []


def test_the_same_trajectories_give_the_same_bytes_and_others_other_ones(tmp_path):
    for name, what in (("a", several()), ("b", several()), ("c", several()[::-1])):
        save_trajectories(tmp_path / name, what)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    save_trajectories(path, [made_up(0)])
    write = pq.write_table

    def full(table, where, **kwargs):
        write(table, where, **kwargs)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="No space"):
        save_trajectories(path, several())
    assert load_trajectories(path) == [made_up(0)] and [file.name for file in tmp_path.iterdir()] == [
        "x.parquet"
    ]


@pytest.mark.parametrize("what", ["missing", "half", "empty", "text", "other table", "fewer columns"])
def test_a_file_that_holds_no_trajectories_is_one_clear_message(tmp_path, what):
    path = tmp_path / "x.parquet"
    save_trajectories(path, several())
    content = path.read_bytes()
    match what:
        case "missing":
            path.unlink()
        case "half":
            path.write_bytes(content[: len(content) // 2])
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("task_id,app\n")
        case "other table":
            pd.DataFrame({"task_id": ["algebra/A-01"], "steps": [3]}).to_parquet(path)
        case "fewer columns":
            pq.write_table(pq.read_table(path).drop_columns(["steps", "verdicts"]), path)
    with pytest.raises(
        UserError, match="x.parquet(: it is not there| is no Parquet file| holds no trajectories, but)"
    ):
        load_trajectories(path)


def test_what_pandas_has_written_again_is_loaded(tmp_path):
    """Strings become large_string there, and fields without a value lose their types."""
    save_trajectories(tmp_path / "a.parquet", several())
    pd.read_parquet(tmp_path / "a.parquet").to_parquet(tmp_path / "b.parquet", index=False)
    assert load_trajectories(tmp_path / "b.parquet") == several()


def test_a_column_of_another_type_is_named(tmp_path):
    save_trajectories(tmp_path / "a.parquet", several())
    pd.read_parquet(tmp_path / "a.parquet").assign(run="first").to_parquet(
        tmp_path / "b.parquet", index=False
    )
    with pytest.raises(UserError, match=r"b\.parquet: column run is .*, not int64"):
        load_trajectories(tmp_path / "b.parquet")


def test_images_survive_to_the_last_pixel():
    assert decode_image(encode_image(screen(3))).tobytes() == screen(3).tobytes()
    step = Step(encode_image(screen(4)), "p", "r", ())
    assert step.image.tobytes() == screen(4).tobytes() and step.image.mode == "RGB"
    transparent = io.BytesIO()
    Image.new("RGBA", (4, 4), (1, 2, 3, 0)).save(transparent, format="PNG")
    assert decode_image(transparent.getvalue()).mode == "RGB"


@pytest.mark.parametrize(
    ("stop", "added"),
    [
        (StopReason.DONE, 0), (StopReason.FAIL, 0), (StopReason.ANS, 0), (StopReason.STEP_LIMIT, 1),
        (StopReason.ENVIRONMENT_ERROR, 1),
    ],
)  # fmt: skip
def test_the_screen_after_the_last_action_counts_if_that_action_did_something(stop, added):
    trajectory = made_up(stop=stop)
    assert (
        trajectory.screenshots
        == [step.screenshot for step in trajectory.steps] + [trajectory.final_screenshot] * added
    )


def test_equal_pictures_are_encoded_once_and_differ_from_others():
    first, second, other = screen(1), screen(1), screen(2)
    assert screenshot_png(first) is screenshot_png(second) and screenshot_png(other) != screenshot_png(first)
    assert digest(first) == digest(second) != digest(other)
    assert digest(first.resize((42, 168))) != digest(first.resize((168, 42)))
    assert decode_image(screenshot_png(first)) is decode_image(screenshot_png(second))
    assert decode_image(screenshot_png(first)).tobytes() == first.tobytes()


def test_pictures_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(trajectory, "_PICTURES", 2)
    kept = [screenshot_png(screen(number)) for number in range(4)]
    assert screenshot_png(screen(3)) is kept[3] and screenshot_png(screen(0)) is not kept[0]
    assert screenshot_png(screen(0)) == kept[0]
