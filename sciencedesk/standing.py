"""Waiting for a picture that stands still."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

Picture = TypeVar("Picture")


def standing_still(
    look: Callable[[], Picture], still_s: float, settle_s: float, pause_s: float,
    busy: Callable[[], bool] = lambda: False, same: Callable[[Picture, Picture], bool] = np.array_equal,
) -> Picture:  # fmt: skip
    """The picture of `look` when it has not changed for `still_s` seconds, or as it is after `settle_s`.

    `look` is called every `pause_s` seconds.  While `busy` is true, no picture counts as unchanged.
    """
    end, since, picture = time.monotonic() + settle_s, time.monotonic(), look()
    while time.monotonic() < end and time.monotonic() - since < still_s:
        time.sleep(pause_s)
        following = look()
        if busy() or not same(following, picture):
            since, picture = time.monotonic(), following
    return picture
