"""Training rows: the labelled positive steps of clean trajectories, as the planner would have seen them."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import ImageChops
from tiny_models import LABEL, NO, SIZE, YES, made_up, screen

from coda_lib.action import Action
from coda_lib.dataset import draw_states, grpo_rows, observation, positives, sft_rows
from coda_lib.grammar import parse_actions
from coda_lib.judge import Verdict, format_verdict
from coda_lib.planner import Turn, planner_messages
from coda_lib.trajectory import Step, encode_image

ACTS = (
    ("Click 'Grid'.", Action.click(0.25, 0.5)), ("Type 'x'.", Action.type_text("it's\n")),
    ("ANS 4", Action.answer("4")),
)  # fmt: skip
CLICKED = "click(start_box='(21,42)')"


def shown(row: dict[str, Any]) -> list[int]:
    """Which made-up screens the pictures of a row are."""
    return [
        next(n for n in range(40) if not ImageChops.difference(p.convert("RGB"), screen(n)).getbbox())
        for p in row["images"]
    ]


def test_an_observation_is_what_the_agent_saw_at_that_step():
    seen = observation(made_up(2, ACTS), 2)
    assert (seen.instruction, seen.history) == (
        "turn the grid on (2)",
        (Turn("Click 'Grid'.", CLICKED), Turn("Type 'x'.", "type(content='it\\'s\\n')")),
    )
    assert [picture.tobytes() for picture in (seen.previous, seen.current)] == [
        screen(n).tobytes() for n in (21, 22)
    ]
    first = observation(made_up(2, ACTS), 0)
    assert first.history == () and first.previous.tobytes() == first.current.tobytes() == screen(20).tobytes()


def test_only_clean_trajectories_give_rows():
    unclean = format_verdict(Verdict(True, (1,)))
    judged = [
        made_up(0, ACTS), made_up(1, ACTS, (YES, YES, YES, NO)), made_up(2, ACTS, (YES, YES, YES, unclean)),
        made_up(3, ACTS, (YES, YES, YES, "?")), made_up(4, success=False),
    ]  # fmt: skip
    assert [(t.task_id, i) for t, i in positives(judged, LABEL)] == [
        *(("algebra/T-00", i) for i in range(3)), *(("algebra/T-04", i) for i in range(2)),
    ]  # fmt: skip
    assert grpo_rows(judged, "compact", LABEL)["task_id"] == ["algebra/T-00"] * 3 + ["algebra/T-04"] * 2
    assert len(sft_rows(judged, "compact", LABEL)) == 5


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_a_stage_1_row_is_the_state_and_its_labelled_action(prompts):
    rows = grpo_rows([made_up(1, ACTS)], prompts, LABEL)
    assert rows.column_names == ["prompt", "images", "target", "instruction", "turns", "task_id", "spread"]
    assert [shown(row) for row in rows] == [[10, 10], [10, 11], [11, 12]]
    assert rows["target"] == [CLICKED, "type(content='it\\'s\\n')", "answer(content='4')"]
    assert [parse_actions(target, SIZE) for target in rows["target"]] == [(action,) for _, action in ACTS]
    assert set(rows["instruction"]) == {"turn the grid on (1)"}
    assert rows["turns"][2] == [
        {"plan": "Click 'Grid'.", "action": CLICKED}, {"plan": "Type 'x'.",
         "action": "type(content='it\\'s\\n')"},
    ]  # fmt: skip
    assert rows["turns"][0] == []


@pytest.mark.parametrize("prompts", ["compact", "full"])
@pytest.mark.parametrize("make", [grpo_rows, sft_rows])
def test_the_prompt_is_what_the_planner_is_asked_with_the_pictures_beside_it(make, prompts):
    trajectory = made_up(1, ACTS)
    for index, row in enumerate(make([trajectory], prompts, LABEL)):
        asked = planner_messages(observation(trajectory, index), prompts)
        assert [message["role"] for message in row["prompt"]] == [message["role"] for message in asked]
        for message, original in zip(row["prompt"], asked, strict=True):
            assert [(p["type"], p["text"]) for p in message["content"]] == [
                (p["type"], p.get("text")) for p in original["content"]
            ]


def test_a_stage_2_row_is_the_prompt_and_the_plan():
    rows = sft_rows([made_up(1, ACTS)], "compact", LABEL)
    assert rows.column_names == ["prompt", "images", "completion"]
    assert [shown(row) for row in rows] == [[10, 10], [10, 11], [11, 12]]
    assert [row["completion"][0]["content"][0]["text"] for row in rows] == [plan for plan, _ in ACTS]
    assert {row["completion"][0]["role"] for row in rows} == {"assistant"}


def test_several_actions_of_a_step_are_one_label():
    step = Step(encode_image(screen(1)), "both", "r", (Action.click(0.25, 0.5), Action.type_text("x")))
    (target,) = grpo_rows([made_up(steps=(step,))], "compact", LABEL)["target"]
    assert parse_actions(target, SIZE) == step.actions


def test_a_label_is_in_pixels_of_its_own_screen():
    step = Step(encode_image(screen(1).resize((336, 252))), "p", "r", (Action.click(0.25, 0.5),))
    assert grpo_rows([made_up(steps=(step,))], "compact", LABEL)["target"] == ["click(start_box='(84,126)')"]


@pytest.mark.parametrize("make", [grpo_rows, sft_rows])
def test_no_clean_trajectory_is_a_table_without_rows(make):
    assert len(make([], "compact", LABEL)) == len(make([made_up(verdicts=(NO,))], "compact", LABEL)) == 0
    assert make([], "compact", LABEL).features == make([made_up()], "compact", LABEL).features


def test_the_prompt_has_the_last_fifteen_turns():
    acts = [(f"plan<{i}>", Action.click(0.25, 0.5)) for i in range(18)]
    last = grpo_rows([made_up(0, acts)], "compact", LABEL)[17]
    said = "".join(part["text"] or "" for part in last["prompt"][0]["content"])
    assert [f"plan<{i}>" in said for i in range(17)] == [False] * 2 + [True] * 15


# ---- which states a training sees ------------------------------------------------------------------------


def test_states_come_in_shuffled_passes_over_all_of_them():
    rows = grpo_rows([made_up(0, ACTS), made_up(1, ACTS)], "compact", LABEL)

    def drawn(seed: int) -> list[str]:
        return [row["target"] + row["task_id"] for row in draw_states(rows, 15, "passes", seed)]

    order, everything = drawn(0), sorted(row["target"] + row["task_id"] for row in rows)
    assert sorted(order[:6]) == sorted(order[6:12]) == everything and len(order) == 15
    assert order[:6] != order[6:12]
    assert order == drawn(0) != drawn(1)


def test_states_are_drawn_by_how_much_the_runs_of_their_task_differ():
    """Of task 0 half of 40 runs are labelled, of task 1 all."""
    runs = [made_up(0, ACTS[:1], (YES if run % 2 else NO,) * 4, run=run) for run in range(40)]
    rows = grpo_rows(runs + [made_up(1, ACTS[:1], run=run) for run in range(40)], "compact", LABEL)
    half, whole = 0.5, (40.5 / 41 * 0.5 / 41) ** 0.5
    assert sorted(set(rows["spread"])) == pytest.approx([whole, half])
    assert rows["task_id"].count("algebra/T-00") == 20 and len(rows) == 60
    drawn = draw_states(rows, 3000, "spread", 3)["task_id"]
    expected = 20 * half / (20 * half + 40 * whole)
    assert drawn.count("algebra/T-00") / 3000 == pytest.approx(expected, abs=0.03)


DONE = ("DONE", Action.done())


@pytest.mark.parametrize(("endings", "expected"), [(1.0, 0.5), (0.25, 0.25), (0.0, 0.0)])
def test_states_that_end_an_episode_are_at_most_a_share(endings, expected):
    judged = [made_up(i, (*ACTS[:1], DONE)) for i in range(30)]
    drawn = draw_states(grpo_rows(judged, "compact", LABEL), 2000, "passes", 3, endings)["target"]
    assert drawn.count("finished()") / 2000 == pytest.approx(expected, abs=0.04)
    rows = sft_rows(judged, "compact", LABEL, endings, seed=3)
    plans = [row["completion"][0]["content"][0]["text"] for row in rows]
    assert plans.count("Click 'Grid'.") == 30 and plans.count("DONE") / len(plans) == pytest.approx(
        expected, abs=0.02
    )


def test_where_all_states_end_an_episode_they_are_all_there_is():
    judged = [made_up(i, (DONE,)) for i in range(3)]
    assert len(sft_rows(judged, "compact", LABEL, endings=0.0)) == 3
    assert set(draw_states(grpo_rows(judged, "compact", LABEL), 5, "passes", 0, 0.0)["target"]) == {
        "finished()"
    }


def test_an_answer_says_something_and_is_kept():
    rows = sft_rows([made_up(1, ACTS)], "compact", LABEL, endings=0.0)
    assert rows[-1]["completion"][0]["content"][0]["text"] == "ANS 4"
