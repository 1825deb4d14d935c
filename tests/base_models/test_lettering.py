"""Letters of real screens are found where they stand, by the committed network."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from PIL import Image

from base_models.accounts import told_screens
from base_models.lettering import letter_scores, tokens_of_letters
from base_models.network import Pointer
from base_models.packing import TOKEN
from base_models.rows import line_of, value_of
from base_models.synthetic_screens import draw_crop
from base_models.walks import collect
from coda_lib.paths import CHECKPOINTS


@pytest.fixture(scope="module")
def reader():
    return Pointer.load(CHECKPOINTS / "seeing" / "pointer.safetensors").reader


def test_letters_of_pages_are_found_on_their_tokens_and_other_texts_nowhere(reader):
    rng, right, lines, other = Random(5), [], [], []
    for _ in range(15):
        pixels, elements, letters = draw_crop(["x"] * 60, rng, 1.0, (252, 168))
        scores, begin, across = letter_scores(reader, Image.fromarray(pixels)), 0, 252 // TOKEN
        for element in elements:
            text = element.text if value_of(element) else element.name
            known = [int(y // TOKEN) * across + int(x // TOKEN) for x, y, _ in letters[begin:][: len(text)]]
            line = line_of(letters[begin][1])
            begin += len(text)
            if len(text) > 3 and 0 <= min(known) and max(known) < scores.shape[0] * scores.shape[1] // 9:
                line_found, found = tokens_of_letters(scores, text, known) or (-1, [-1] * len(text))
                right += np.equal(found, known).tolist()
                lines.append(line_found == line)
                other.append(tokens_of_letters(scores, text[::-1] + "q", known))
    assert len(right) > 500 and np.mean(right) > 0.85 and np.mean(lines) > 0.75
    assert np.mean([found is not None for found in other]) < 0.1


def test_letters_of_real_windows_are_found_where_a_reply_says_what_is_found(reader):
    walk = collect("gis", 150, 77)
    assert {step.view["theme"] for step in walk} >= {"light", "dark"}
    told = [one.lettered(reader) for one in told_screens(walk, 40, 1)]
    questions = [question for one in told for question in one.questions]
    read, found = sum(len(q.read) for q in questions), 0
    for one in told:
        for question, row in zip(one.questions, one.rows, strict=True):
            assert row.letters == question.letters
            begun = {at: number for at, _, number in question.letters}
            found += sum(begun.get(at) == number for at, _, _, number in question.read)
            for at, token, _ in question.letters:
                assert any(begin <= at < begin + length and token // 16 in {t // 16 for t in tokens}
                           for begin, length, tokens, _ in question.read)  # fmt: skip
    assert read > 30 and found > 0.8 * read
