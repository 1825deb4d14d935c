"""A judge that looks: what changed and what the end shows is read out before the task is known."""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

import pytest
from PIL import Image, ImageDraw
from tiny_models import YES, made_up, pictures_of, words_of

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.judge import Judge, Rule
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.models.reading import CELL, NOTHING, Account, accounts, changed, character_reader
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
    told = accounts(reader, [first, second, first])
    assert told[0] == told[2] == Account(("84x84", NOTHING), "336x252")
    assert told[1].changes == ("84x84", "168x84")
    assert calls == [4]  # the first change, the second one's, and two ends


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_who_reads_out_does_not_know_the_task_and_who_rules_sees_no_picture(prompts):
    profile = load_profile("laptop")
    asked = []

    def reply(conversation):
        asked.append(conversation)
        return YES if not pictures_of(conversation) else "Grid on. <|image_pad|>"

    model = ReplayModel(reply)
    from coda_lib.judge import model_reader

    reader = model_reader(model, Sampling.of(profile.judge), prompts)
    judge = Judge(model, prompts=prompts, votes=2, reader=reader)
    tried = replace(attempt(screen(), screen((3, 3)), instruction="turn the axes off"), answer="12 cm")
    (judged,) = judge.vote([tried], 1)
    assert judged.verdicts == (YES, YES)
    reading, ruling = asked[:2], asked[2:]
    assert all(len(pictures_of(c)) == 1 and "axes" not in words_of(c) for c in reading) and len(ruling) == 2
    for conversation in ruling:
        text = words_of(conversation)
        assert text.count("Grid on.") == 2 and "turn the axes off" in text and "12 cm" in text
        assert text.rindex("Grid on.") < text.rindex("turn the axes off")
        assert not pictures_of(conversation)


def test_each_way_of_reading_is_chosen_by_the_profile(monkeypatch):
    profile = load_profile("laptop")
    monkeypatch.setattr("coda_lib.judge.load_model", lambda *_: ReplayModel(lambda _: YES))
    assert profile.judge.reader == "none" and Judge.load(profile).reader is None
    own = profile.model_copy(update={"judge": profile.judge.model_copy(update={"reader": "own"})})
    judge = Judge.load(own)
    assert judge.reader([screen()]) == [YES] and judge.rule == Rule.of(profile.judge)
    monkeypatch.setitem(sys.modules, "rapidocr_onnxruntime", None)
    ocr = profile.model_copy(update={"judge": profile.judge.model_copy(update={"reader": "ocr"})})
    with pytest.raises(UserError, match=r"pip install .\.\[ocr\]"):
        Judge.load(ocr)


def test_characters_are_read_by_rapidocr():
    pytest.importorskip("rapidocr_onnxruntime")
    picture = Image.new("RGB", (336, 84), "white")
    ImageDraw.Draw(picture).text((20, 30), "Elevation 1240 m", fill="black", font_size=14)
    (text,) = character_reader()([picture])
    assert text.replace(" ", "") == "Elevation1240m"
    assert character_reader()([Image.new("RGB", (84, 84), "white")]) == [""]
