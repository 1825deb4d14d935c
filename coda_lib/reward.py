"""The composite reward of decoupled GRPO (paper, eq. 1).

r = 1[type(a) = type(a_T)] + r_dist(a, a_T), in [0, 2], where a is the frozen executor's action for a sampled
plan and a_T the labelled positive action.  The paper names "L1 distance" and "IoU" for r_dist and leaves the
rest open; here:

* click, double click, right click, hover: 1 - (|dx| + |dy|) / reach, at least 0, on fractions of the screen.
  With a reach of 2, the largest distance there is, a click on any wrong element earns almost as much as the
  right one;
* drag: IoU of the boxes spanned by start and end, times the cosine between the two drags (0 if it is
  negative). The boxes are widened by `DRAG_MARGIN`, because a horizontal drag spans no area; the cosine tells
  a drag from its reverse, which spans the same box;
* scroll: the similarity of the points if the directions are equal, else 0;
* typed text, answer: 1 - edit distance / length of the longer text, by characters; hotkey: the same by keys;
* wait, finished, call_user: 1.

Actions of different types have r_dist = 0, equal actions of any type 1.  Every similarity is symmetric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np
from rapidfuzz.distance import Levenshtein

from coda_lib.action import Action, ActionType

# fraction of the screen added on each side of a dragged box: half the height of a usual control
DRAG_MARGIN = 0.03
RIGHT = 1.75  # what a right plan earns at least: the type, and the point, text or keys nearly exact
MODIFIERS = frozenset({"ctrl", "shift", "alt", "win"})  # their order in a chord has no meaning


def reward(
    actions: Sequence[Action], targets: Sequence[Action], reach: float, distance: bool = True
) -> float:
    """The reward of a reply's `actions` against the labelled `targets`, in [0, 2] (eq. 1).

    A reply may hold several actions.  The i-th action is compared with the i-th target and the rewards are
    averaged over the longer sequence, so a missing or extra action counts as 0.  No action (a reply that
    cannot be parsed) has reward 0. `distance=False` leaves r_dist out (ablation): the range is then [0, 1].
    `reach` is the L1 distance, in (0, 2], at which a point earns nothing.  ValueError if there is no target.

    >>> reward([Action.click(0.5, 0.5)], [Action.click(0.2, 0.6)], reach=2)  # 1 (type) + 1 - (0.3 + 0.1) / 2
    1.8
    >>> reward([Action.click(0.5, 0.5)], [Action.click(0.2, 0.6)], reach=0.1)
    1.0
    >>> reward([Action.wait()], [Action.click(0.2, 0.6)], reach=2)
    0.0
    """
    if not targets:
        raise ValueError("a reward needs at least one target action")
    pairs = zip(actions, targets, strict=False)
    total = sum(1 + (similarity(a, b, reach) if distance else 0) for a, b in pairs if a.type is b.type)
    return total / max(len(actions), len(targets))


def similarity(action: Action, target: Action, reach: float) -> float:
    """r_dist of two actions, in [0, 1]: 1 for equal actions, 0 for actions of different types.

    >>> similarity(Action.type_text("sin(y)"), Action.type_text("sin(x)"), 0.1)  # 1 of 6 characters differs
    0.8333333333333334
    """
    if action.type is not target.type:
        return 0.0
    if action == target:
        return 1.0  # exactly, whatever the rounding below
    action, target = _placed(action), _placed(target)
    match action.type:
        case ActionType.CLICK | ActionType.DOUBLE_CLICK | ActionType.RIGHT_CLICK | ActionType.HOVER:
            return _point(action, target, reach)
        case ActionType.MOUSE_DOWN | ActionType.MOUSE_UP:
            return _point(action, target, reach)
        case ActionType.DRAG:
            return _drag(action, target)
        case ActionType.SCROLL:
            return _point(action, target, reach) if action.direction == target.direction else 0.0
        case ActionType.TYPE | ActionType.ANS:
            return Levenshtein.normalized_similarity(action.text, target.text)
        case ActionType.HOTKEY | ActionType.KEY_DOWN | ActionType.KEY_UP:
            return Levenshtein.normalized_similarity(_chord(action.text), _chord(target.text))
        case ActionType.WAIT | ActionType.DONE | ActionType.FAIL:
            return 1.0
        case _:
            assert_never(action.type)


def _point(action: Action, target: Action, reach: float) -> float:
    return max(0.0, 1 - (abs(action.x - target.x) + abs(action.y - target.y)) / reach)


def _placed(action: Action) -> Action:
    """The same action with a point: one at the pointer counts as in the middle of the screen."""
    return replace(action, x=0.5, y=0.5) if action.x is None and action.type.optional else action


def _chord(text: str) -> list[str]:
    keys = text.split(" ")
    return sorted(key for key in keys if key in MODIFIERS) + [key for key in keys if key not in MODIFIERS]


def _drag(action: Action, target: Action) -> float:
    boxes = np.array(
        [[[a.x, a.y], [a.x2, a.y2]] for a in (action, target)]
    )  # 2 (action, target) x 2 (start, end) x 2 (x, y)
    low, high = boxes.min(axis=1) - DRAG_MARGIN, boxes.max(axis=1) + DRAG_MARGIN
    common = np.clip(high.min(axis=0) - low.max(axis=0), 0, None).prod()
    iou = float(common / ((high - low).prod(axis=1).sum() - common))
    return min(iou, 1.0) * _cosine(*(boxes[:, 1] - boxes[:, 0]))


def _cosine(drag: np.ndarray, target: np.ndarray) -> float:
    lengths = np.linalg.norm(drag) * np.linalg.norm(target)
    if lengths == 0:  # a drag of no length is similar only to another such drag
        return float((drag == target).all())
    return float(np.clip(drag @ target / lengths, 0, 1))
