"""`coda grounding`: does a served executor hit what it is told to, and in which coordinates?

Buttons, tabs and fields of ScienceDesk, whose places are known, are shown on a screen of the usual size.
Replies are read in each of the ways in which a server and a client can misunderstand each other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from PIL import Image

from coda_lib.applications import APPS
from coda_lib.environment import Fit
from coda_lib.executor import Executor
from coda_lib.planner import Observation
from coda_lib.task import test_tasks
from sciencedesk.desk.elements import Element
from sciencedesk.desk.widgets import HEIGHT, WIDTH
from sciencedesk.env import ScienceDesk

Point, Size = tuple[float, float], tuple[int, int]
SCREEN = (1600, 1200)  # of the machine, (width, height) in pixels
RIGHT, ABSOLUTE, THOUSANDTH, FRACTION = (
    "pixels of the picture (right)", "pixels of the screen", "thousandths", "fractions",
)  # fmt: skip
TWICE = "pixels of a picture resized twice"
ADVICE = {
    RIGHT: "nothing to do",
    ABSOLUTE: "the server undoes the client's resizing: the model sees the screen as it is",
    THOUSANDTH: "an older model, or its prompt: use one that writes pixels (UI-TARS 1.5)",
    FRACTION: "the model was trained on other coordinates: use another one",
    TWICE: "the server resizes again: raise its limit of pixels (--mm-processor-kwargs of vLLM) to that of "
    "the checkpoint",
}
ENOUGH = 0.5  # share of hits from which a reading counts as that of the model
ROLES = ("button", "tab", "field", "menu")
_POINT = re.compile(r"(?:start_box|start_point|point)\s*=\s*(.*)", re.DOTALL)
_NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Grounding:
    """What was hit, by the reading of the coordinates."""

    asked: int
    read: int  # replies with a point
    hits: dict[str, int]
    factor: tuple[float, float]  # median of what was written by what is right, x and y

    @property
    def verdict(self) -> str | None:
        """The reading with the most hits, the right one before others; None if none has enough."""
        best = max(self.hits, key=self.hits.get)  # the first of equals
        return best if self.hits[best] >= ENOUGH * self.asked else None


def check_grounding(
    executor: Executor, fit: Fit, screen: Size = SCREEN, apps: Sequence[str] = APPS
) -> Grounding:
    """Ask for a click on every named button of the first screens, resized by `fit` as the model sees them."""
    size, elements, observations = fit(screen), [], []
    for app in apps:
        desk = ScienceDesk(app)
        picture = Image.fromarray(desk.reset(test_tasks(app)[0])[0]).resize(screen, Image.Resampling.LANCZOS)
        picture = picture if size == screen else picture.resize(size, Image.Resampling.BICUBIC)
        names = [element.name for element in desk.elements()]
        for element in desk.elements():
            if element.role in ROLES and names.count(element.name) == 1:
                elements.append(element)
                observations.append(Observation(f"Click '{element.name}'.", (), picture, picture))
    plans = [observation.instruction for observation in observations]
    replies = executor.greedy().execute(observations, plans, seed=0)
    points = zip(map(point_of, replies), elements, strict=True)
    written = [(point, element) for point, element in points if point]
    return judge_points(written, len(elements), size, screen)


def point_of(reply: str) -> Point | None:
    """The point that a reply names, in whatever coordinates; the middle of a box."""
    call = _POINT.search(reply)
    numbers = [float(number) for number in _NUMBERS.findall(call[1])] if call else []
    match numbers:
        case [x, y]:
            return x, y
        case [x1, y1, x2, y2]:
            return (x1 + x2) / 2, (y1 + y2) / 2
    return None


def judge_points(written: Sequence[tuple[Point, Element]], asked: int, size: Size, screen: Size) -> Grounding:
    """The hits of points in each reading, on a picture of `size` of a screen of `screen` (width, height)."""
    factor = tuple(
        median([point[axis] / (element.center[axis] * size[axis]) for point, element in written] or [0.0])
        for axis in (0, 1)
    )
    readings = {RIGHT: size, ABSOLUTE: screen, THOUSANDTH: (1000, 1000), FRACTION: (1, 1)}
    if min(factor) > 0:
        readings[TWICE] = (size[0] * factor[0], size[1] * factor[1])
    hits = {
        name: sum(_holds(element, point[0] / scale[0], point[1] / scale[1]) for point, element in written)
        for name, scale in readings.items()
    }
    return Grounding(asked, len(written), hits, factor)


def _holds(element: Element, x: float, y: float) -> bool:
    left, top, width, height = element.box
    return left <= x * WIDTH <= left + width and top <= y * HEIGHT <= top + height
