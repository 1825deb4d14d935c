"""The reward of eq. 1 and the advantage of eq. 2."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from actions import POINTED, actions, example, fractions
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from coda_lib.action import Action, ActionType
from coda_lib.grpo import advantages
from coda_lib.reward import reward as reward_within
from coda_lib.reward import similarity as similarity_within

reward, similarity = partial(reward_within, reach=2), partial(similarity_within, reach=2)
ONE_OF_EACH = [
    *map(example, ActionType),
    Action.drag(0.2, 0.7, 0.9, 0.7),  # spans no area
    Action.drag(0.2, 0.7, 0.2, 0.7),  # goes nowhere
    Action.type_text(""),
    Action.hotkey("esc"),  # short: 4-gram overlap would give 0
]
any_action = st.sampled_from(ONE_OF_EACH) | actions
some_actions = st.lists(any_action, min_size=1, max_size=4)


# ---- golden values ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("action", ONE_OF_EACH, ids=str)
def test_a_perfect_action_of_every_type_earns_two(action):
    assert reward([action], [action]) == 2.0
    assert reward([action], [action], distance=False) == 1.0


@pytest.mark.parametrize(
    ("action", "target", "expected"),
    [
        # 1 - (0.3 + 0.1) / 2
        (Action.click(0.5, 0.5), Action.click(0.2, 0.6), 0.8),
        # opposite corners: 1 - (1 + 1) / 2
        (Action.hover(0.0, 0.0), Action.hover(1.0, 1.0), 0.0),
        # same direction (cosine 1); with the margin of 0.03 the boxes are 0.46 x 0.06 and 0.26 x 0.06, one
        # within the other: IoU = 0.26 / 0.46
        (Action.drag(0.1, 0.5, 0.5, 0.5), Action.drag(0.1, 0.5, 0.3, 0.5), 0.26 / 0.46),
        # two level drags 0.02 apart: common height 0.06 - 0.02 = 0.04, joint height 0.06 + 0.02 = 0.08, equal
        # widths
        (Action.drag(0.1, 0.5, 0.5, 0.5), Action.drag(0.1, 0.52, 0.5, 0.52), 0.5),
        # the two diagonals of a square: the same box (IoU 1), at right angles (cosine 0)
        (Action.drag(0.1, 0.1, 0.5, 0.5), Action.drag(0.1, 0.5, 0.5, 0.1), 0.0),
        # boxes 0.56 x 0.06 and 0.06 x 0.56 cross, but at right angles
        (Action.drag(0.2, 0.2, 0.7, 0.2), Action.drag(0.2, 0.2, 0.2, 0.7), 0.0),
        # a side and the diagonal of a square of 0.44: 0.50 x 0.06 in 0.50 x 0.50, IoU 0.12, cosine sqrt(1/2)
        (Action.drag(0.2, 0.2, 0.64, 0.2), Action.drag(0.2, 0.2, 0.64, 0.64), 0.12 * 0.5**0.5),
        # the reverse drag spans the same box: cosine -1, counted as 0
        (Action.drag(0.1, 0.5, 0.5, 0.5), Action.drag(0.5, 0.5, 0.1, 0.5), 0.0),
        # one that goes nowhere against one that goes somewhere
        (Action.drag(0.1, 0.5, 0.1, 0.5), Action.drag(0.1, 0.5, 0.11, 0.5), 0.0),
        # 1 substitution in 6 characters
        (Action.type_text("sin(x)"), Action.type_text("sin(y)"), 5 / 6),
        # 1 insertion, longer one 2 characters: whether it is submitted matters
        (Action.type_text("7"), Action.type_text("7\n"), 0.5),
        (Action.type_text(""), Action.type_text("abc"), 0.0),
        (Action.answer("12"), Action.answer("13"), 0.5),
        # by keys: 1 substitution in 2, 1 in 1 (by characters they would be nearer)
        (Action.hotkey("ctrl c"), Action.hotkey("ctrl v"), 0.5),
        (Action.hotkey("pageup"), Action.hotkey("pagedown"), 0.0),
        # 1 deletion in 3
        (Action.hotkey("ctrl s"), Action.hotkey("ctrl shift s"), 2 / 3),
        (Action.hotkey("Ctrl+C"), Action.hotkey("control c"), 1.0),
        (Action.hotkey("shift ctrl s"), Action.hotkey("ctrl shift s"), 1.0),
        # 1 - (0 + 0.2) / 2 in the same direction, 0 in another one
        (Action.scroll(0.5, 0.5, "down"), Action.scroll(0.5, 0.7, "down"), 0.9),
        (Action.scroll(0.5, 0.5, "down"), Action.scroll(0.5, 0.5, "up"), 0.0),
    ],
)
def test_similarity(action, target, expected):
    assert similarity(action, target) == pytest.approx(expected, abs=1e-12)
    assert reward([action], [target]) == pytest.approx(1 + expected, abs=1e-12)
    assert reward([action], [target], distance=False) == 1.0


def test_different_types_earn_nothing():
    assert reward([Action.click(0.5, 0.5)], [Action.double_click(0.5, 0.5)]) == 0.0
    assert reward([Action.type_text("a")], [Action.answer("a")]) == 0.0
    assert similarity(Action.wait(), Action.done()) == 0.0


def test_several_actions_are_averaged_over_the_longer_sequence():
    click, text, enter = Action.click(0.5, 0.5), Action.type_text("a"), Action.hotkey("enter")
    assert reward([], [click]) == 0.0  # the reply could not be parsed
    assert reward([click, text], [click, text]) == 2.0
    assert reward([click, text], [click]) == 1.0  # 2 / 2: one too many
    assert reward([click], [click, text]) == 1.0  # 2 / 2: one is missing
    assert reward([click, text, enter], [click, text]) == pytest.approx(4 / 3)
    assert reward([enter, click, text], [click, text]) == 0.0  # out of step
    assert reward([text, click], [click, text]) == 0.0
    assert reward([click, enter], [click, text], distance=False) == 0.5
    with pytest.raises(ValueError, match="at least one target"):
        reward([click], [])


# ---- properties ------------------------------------------------------------------------------------------
@given(some_actions, some_actions)
def test_the_reward_is_in_range_and_symmetric(ours, theirs):
    assert 0 <= reward(ours, theirs) <= 2
    assert 0 <= reward(ours, theirs, distance=False) <= 1
    assert reward(ours, theirs) == pytest.approx(reward(theirs, ours))


@given(some_actions)
def test_perfect_actions_earn_exactly_two(ours):
    assert reward(ours, ours) == 2.0


@given(some_actions, any_action)
def test_an_extra_action_strictly_lowers_the_reward(targets, extra):
    assert reward([*targets, extra], targets) < 2
    for ours in (targets, [targets[0]] * len(targets)):  # the first is right in both
        assert reward([*ours, extra], targets) < reward(ours, targets)


@given(some_actions, any_action)
def test_a_missing_action_strictly_lowers_the_reward(ours, missing):
    assert reward(ours, [*ours, missing]) < 2


@given(st.sampled_from(POINTED), st.tuples(*[fractions] * 4), fractions, fractions)
def test_the_nearer_click_earns_no_less(kind, points, near, far):
    x, y, target_x, target_y = points
    near, far = sorted((near, far))
    target = Action(kind, target_x, target_y)
    moved = [Action(kind, target_x + t * (x - target_x), target_y + t * (y - target_y)) for t in (near, far)]
    assert similarity(moved[0], target) >= similarity(moved[1], target) - 1e-12


@given(st.floats(0.01, 0.5), st.floats(0, 0.49), st.floats(0, 0.49))
def test_the_drag_that_is_less_off_earns_no_less(length, near, far):
    target = Action.drag(0, 0.5, length, 0.5)
    near, far = sorted((near, far))
    for shifted in (
        [Action.drag(t, 0.5, length + t, 0.5) for t in (near, far)],  # along
        [Action.drag(0, 0.5 + t, length, 0.5 + t) for t in (near, far)],  # across
        [Action.drag(0, 0.5, length + t, 0.5) for t in (near, far)],  # too far
        [Action.drag(0, 0.5, length, 0.5 + t) for t in (near, far)],  # at an angle
    ):
        assert similarity(shifted[0], target) >= similarity(shifted[1], target) - 1e-12


@given(st.text(min_size=1, max_size=8), st.characters())
def test_one_wrong_character_costs_one_share_of_the_longer_text(text, char):
    assert similarity(Action.type_text(text + char), Action.type_text(text)) == pytest.approx(
        1 - 1 / (len(text) + 1)
    )


# ---- advantages ------------------------------------------------------------------------------------------
def test_advantages_of_two_groups():
    # (0, 1, 2): mean 1, sample std 1.  (2, 0, 0): mean 2/3, std sqrt((16/9 + 4/9 + 4/9) / 2) = 2/sqrt(3)
    expected = [[-1, 0, 1], [2 / 3**0.5, -(3**-0.5), -(3**-0.5)]]
    np.testing.assert_allclose(advantages(np.array([[0, 1, 2], [2, 0, 0]])), expected, atol=1e-12)


def test_a_group_without_differences_gets_zeros():
    # the computed std of three times 0.1 is not 0
    np.testing.assert_array_equal(advantages(np.array([[0.1, 0.1, 0.1], [2.0, 2.0, 2.0]])), np.zeros((2, 3)))


@pytest.mark.parametrize("shape", [(3,), (2, 1), (1, 2, 3)])
def test_rewards_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="problems x group"):
        advantages(np.zeros(shape))


@given(
    arrays(
        float, st.tuples(st.integers(1, 4), st.integers(2, 8)), elements=st.sampled_from([0, 1, 1.25, 1.5, 2])
    )
)
def test_advantages_are_normalised_in_each_group_and_keep_its_order(rewards_P_G):
    result = advantages(rewards_P_G)
    assert result.shape == rewards_P_G.shape
    for ours, theirs in zip(result, rewards_P_G, strict=True):
        assert ours.mean() == pytest.approx(0, abs=1e-9)
        assert ours.std(ddof=1) == pytest.approx(1 if np.ptp(theirs) else 0)
        assert (np.sign(np.subtract.outer(ours, ours)) == np.sign(np.subtract.outer(theirs, theirs))).all()
