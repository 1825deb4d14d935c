"""Elements of real applications in the form of ScienceDesk's: for walks and tests, never for the agent."""

from __future__ import annotations

from collections.abc import Sequence

from sciencedesk.desk.elements import Element
from sciencedesk.desk.widgets import HEIGHT, WIDTH


def element(name: str, role: str, box: Sequence[float], text: str, size: tuple[int, int]) -> Element:
    """An element at a box (x, y, width, height) of a screen of `size` px, as in ScienceDesk's window."""
    across, down = WIDTH / size[0], HEIGHT / size[1]
    left, top = box[0] * across, box[1] * down
    right, bottom = (box[0] + box[2]) * across, (box[1] + box[3]) * down
    return Element(name, role, (round(left), round(top), round(right - left), round(bottom - top)), text)
