"""Recordings of episodes."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
from PIL import Image

from coda_lib.task import test_tasks
from coda_study.show.examples import scripted
from coda_study.show.film import END_S, STEP_S, film


def test_a_recording_shows_each_step_and_the_end_of_the_longest_episode():
    whole = scripted(test_tasks("biochem")[4])
    cut = replace(whole, steps=whole.steps[:1], success=False)
    recorded = film({"base <b>planner</b>": cut, "after training": whole})
    assert recorded == film({"base <b>planner</b>": cut, "after training": whole})
    pictures = Image.open(io.BytesIO(recorded))
    assert pictures.n_frames == len(whole.steps) + 1 and len(whole.steps) > 2
    frames, shown = [], []
    for number in range(pictures.n_frames):
        pictures.seek(number)
        frames.append(np.asarray(pictures.convert("RGB")).astype(int))
        shown.append(pictures.info["duration"])
    assert shown == [round(1000 * STEP_S)] * len(whole.steps) + [round(1000 * END_S)]
    half = frames[0].shape[1] // 2
    left, right = ([frame[:, part] for frame in frames] for part in (slice(half), slice(half, None)))
    assert np.abs(left[1] - left[2]).mean() < 1 < np.abs(right[1] - right[2]).mean()  # the shorter one waits
    assert np.abs(left[0] - left[1]).mean() > 1
