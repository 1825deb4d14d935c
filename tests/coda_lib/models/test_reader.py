"""A judge that looks: it is shown what changed and the end before it is told the task."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from PIL import Image, ImageDraw
from tiny_models import YES, made_up, pictures_of, words_of

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.judge import Judge, Rule
from coda_lib.models.chat import ReplayModel
from coda_lib.models.reading import CELL, NOTHING, Account, changed, character_reader, pictured, read_out
from coda_lib.trajectory import Step, StopReason, encode_image


def screen(*points: tuple[int, int], size: tuple[int, int] = (336, 252)) -> Image.Image:
    picture = Image.new("RGB", size, "white")
    for point in points:
        picture.putpixel(point, (9, 0, 0))
    return picture


def attempt(*screens: Image.Image, instruction: str = "turn the grid on"):
    steps = tuple(Step(encode_image(s), f"plan {i}", "", ()) for i, s in enumerate(screens[:-1]))
    return replace(made_up(0, stop=StopReason.STEP_LIMIT), steps=steps, instruction=instruction,
                   final_screenshot=encode_image(screens[-1]), answer=None)  # fmt: skip


def test_what_changed_is_cut_out_on_the_grid_of_tokens():
    rng = Random(3)
    for _ in range(50):
        points = [(rng.randrange(340), rng.randrange(250)) for _ in range(rng.randint(1, 3))]
        after = screen(*points, size=(340, 250))
        left, top, *ends = changed(screen(size=(340, 250)), after)
        part = after.crop((left, top, *ends))
        assert (left, top) == tuple(min(p[axis] for p in points) // CELL * CELL for axis in (0, 1))
        right, bottom = (max(p[axis] for p in points) for axis in (0, 1))
        assert left + part.width > right and top + part.height > bottom
        assert part.width - CELL <= right - left and part.height - CELL <= bottom - top
        assert all(part.getpixel((x - left, y - top)) == (9, 0, 0) for x, y in points)
    assert changed(screen((1, 1)), screen((1, 1))) is None
    assert changed(screen(), screen(size=(200, 100))) == (0, 0, 200, 100)


def test_equal_pictures_are_read_out_once_and_steps_without_effect_are_not():
    calls = []

    def reader(pictures):
        calls.append(len(pictures))
        return [f"{p.width}x{p.height}" for p in pictures]

    first = attempt(screen(), screen((3, 3)), screen((3, 3)))
    second = attempt(screen(), screen((3, 3)), screen((100, 3)))
    told = read_out(reader, [first, second, first])
    assert told[0] == told[2] == Account(("84x84", NOTHING), "336x252")
    assert told[1].changes == ("84x84", "168x84")
    assert calls == [4]  # the first change, the second one's, and two ends


@pytest.mark.parametrize("prompts", ["compact", "full"])
@pytest.mark.parametrize("resolution", [1.0, 0.5])
def test_the_judge_is_shown_changes_and_the_end_and_then_told_the_task(prompts, resolution):
    asked = []
    model = ReplayModel(lambda conversation: asked.append(conversation) or YES)
    judge = Judge(model, prompts=prompts, votes=2, accounts=pictured, resolution=resolution)
    screens = screen(), screen((3, 3)), screen((3, 3))
    (judged,) = judge.vote([replace(attempt(*screens, instruction="turn the axes off"), answer="12 cm")], 1)
    assert judged.verdicts == (YES, YES) and asked[0] == asked[1]
    shown = [picture.size for picture in pictures_of(asked[0])]
    assert shown == [tuple(round(side * resolution) for side in size) for size in ((84, 84), (336, 252))]
    *before, last = asked[0][-1]["content"]
    assert "turn the axes off" in last["text"] and "12 cm" in last["text"]
    text = words_of(asked[0])
    assert text.count("axes") == 1 and (prompts == "full" or text.index("plan 1 > -") < text.index("axes"))


def test_a_judge_of_words_sees_no_picture_and_a_text_is_no_picture_s_mark():
    asked = []
    model = ReplayModel(lambda conversation: asked.append(conversation) or YES)
    judge = Judge(
        model,
        votes=1,
        accounts=partial(read_out, lambda pictures: ["Grid <|image_pad|> on."] * len(pictures)),
    )
    judge.vote([attempt(screen(), screen((3, 3)))], 1)
    text = words_of(asked[0])
    assert text.count("Grid < |image_pad|> on.") == 2 and not pictures_of(asked[0])
    assert text.rindex("Grid < ") < text.rindex("turn the grid on")


def test_what_is_shown_is_chosen_by_the_profile(monkeypatch):
    profile = load_profile("laptop")
    monkeypatch.setattr("coda_lib.judge.load_model", lambda *_: ReplayModel(lambda _: YES))
    assert profile.judge.shows == "screens" and Judge.load(profile).accounts is None

    def showing(what):
        return profile.model_copy(update={"judge": profile.judge.model_copy(update={"shows": what})})

    judge = Judge.load(showing("changes"))
    assert judge.accounts is pictured and judge.rule == Rule.of(profile.judge)
    monkeypatch.setitem(sys.modules, "rapidocr_onnxruntime", None)
    with pytest.raises(UserError, match=r"pip install .\.\[ocr\]"):
        Judge.load(showing("words"))


def test_characters_are_read_by_rapidocr():
    pytest.importorskip("rapidocr_onnxruntime")
    picture = Image.new("RGB", (336, 84), "white")
    ImageDraw.Draw(picture).text((20, 30), "Elevation 1240 m", fill="black", font_size=14)
    (text,) = character_reader()([picture])
    assert text.replace(" ", "") == "Elevation1240m"
    assert character_reader()([Image.new("RGB", (84, 84), "white")]) == [""]
