"""Recordings: episodes side by side, step by step, as an animated WebP that browsers and notebooks play."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import matplotlib
from PIL import Image, ImageDraw, ImageFont

from coda_lib.trajectory import Trajectory, decode_image
from coda_study.show.figures import GREEN, INK, VERMILION
from coda_study.show.pictures import action_label

STEP_S = 1.6  # seconds a step is shown
END_S = 4.0  # seconds the last picture is shown
_MARGIN, _LINE, _SIZE = 8, 19, 14  # pixels: around panels, from line to line, of letters
_HEAD = 2  # lines above the panels, and of a plan
_MARK = 9  # pixels from the middle of a mark to its ends


@dataclass(frozen=True)
class Film:
    """A recording, a WebP, that a notebook shows and plays."""

    data: bytes

    def _repr_html_(self) -> str:
        """HTML with the bytes inside: pages made of notebooks show no WebP that is an output of its own."""
        return f'<img alt="a recording" src="data:image/webp;base64,{base64.b64encode(self.data).decode()}">'


def film(episodes: Mapping[str, Trajectory]) -> bytes:
    """Episodes at one task, by name, as a WebP: a picture for each step, with its plan and action's place.

    An episode that has ended waits for the longest one.  The same episodes give the same bytes.
    """
    length = max(len(episode.steps) for episode in episodes.values())
    frames = [frame(episodes, number) for number in range(length + 1)]
    durations = [round(1000 * STEP_S)] * length + [round(1000 * END_S)]  # ms
    encoding = {"format": "WEBP", "loop": 0, "quality": 70, "method": 6}
    frames[0].save(
        buffer := io.BytesIO(), save_all=True, append_images=frames[1:], duration=durations, **encoding
    )
    return buffer.getvalue()


def frame(episodes: Mapping[str, Trajectory], number: int) -> Image.Image:
    """The picture of a step, counted from 0; after the last step, of the end."""
    first = next(iter(episodes.values()))
    width, height = decode_image(first.final_screenshot).size
    across = width + _MARGIN
    head = _MARGIN + _HEAD * _LINE
    size = (across * len(episodes) + _MARGIN, head + _LINE + height + _HEAD * _LINE + 2 * _MARGIN)
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    _write(draw, (_MARGIN, _MARGIN), first.instruction, across * len(episodes) - _MARGIN, INK)
    for i, (name, episode) in enumerate(episodes.items()):
        left, top, count = _MARGIN + i * across, head + _LINE, len(episode.steps)
        _write(draw, (left, head), f"{name}, step {min(number + 1, count)} of {count}", width, INK)
        if number < count:
            step = episode.steps[number]
            picture, actions, color = step.image, step.actions, INK
            text = step.plan or step.error or "; ".join(action_label(a, picture.size) for a in actions)
        else:
            outcome = {True: "solved", False: "not solved", None: "not checked"}[episode.success]
            picture, actions = decode_image(episode.final_screenshot), ()
            text, color = f"ended with {episode.stop}: {outcome}", GREEN if episode.success else VERMILION
        sheet.paste(picture, (left, top))
        for action in actions:
            if action.x is not None:
                _mark(draw, left + action.x * width, top + action.y * height)
        draw.rectangle((left - 1, top - 1, left + width, top + height), outline="#BBBBBB")
        _write(draw, (left, top + height + _MARGIN // 2), text, width, color)
    return sheet


def _mark(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
    """A cross, on white so that it is seen on any picture."""
    for color, thick in (("white", 5), (VERMILION, 3)):
        for sign in (1, -1):
            draw.line((x - _MARK, y - sign * _MARK, x + _MARK, y + sign * _MARK), fill=color, width=thick)


def _write(draw: ImageDraw.ImageDraw, place: tuple[int, int], text: str, width: int, color: str) -> None:
    """Text in lines of at most `width` pixels, two at most."""
    letters = int(width / (_font().getlength("n" * 20) / 20))
    lines = textwrap.wrap(text, letters, max_lines=_HEAD, placeholder=" …")
    for i, line in enumerate(lines):
        draw.text((place[0], place[1] + i * _LINE), line, fill=color, font=_font())


@cache
def _font() -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which matplotlib brings along: the same letters on every machine."""
    return ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", _SIZE)
