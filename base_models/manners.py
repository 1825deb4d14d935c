"""What any user of desktop software does without knowing it: click what is named, type what is asked.

These rows come from all screens, under made-up instructions.  They teach no way to a goal: where the name
that is asked for is not in sight, another tab or menu is opened, any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from base_models.hindsight import Hindsight, planner_row
from base_models.rows import Row
from base_models.walks import Transition, Walk, unambiguous
from coda_lib.action import Action

OPENERS = ("tab", "menu")  # roles of what shows more
CHOICES = ("toggle", "row", "target", "button")  # of what fulfils a wish when it is clicked
HIDDEN = 0.4  # share of the instructions that name nothing in sight
_VERBS = ("choose", "use", "show", "turn on", "turn off", "take", "make it", "open", "go to", "click", "set",
          "change", "mark", "switch to", "find", "give me")  # fmt: skip
_FILLERS = ("the", "a", "all", "in", "with", "for", "to", "of", "on", "this", "its", "now", "as", "by")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def wish(names: Sequence[str], words: Sequence[str], rng: Random) -> str:
    """A made-up instruction that names these things in order, in capitals or not, between other `words`."""

    def more(most: int) -> list[str]:
        return [
            rng.choice(words if words and rng.random() < 0.4 else _FILLERS)
            for _ in range(rng.randint(0, most))
        ]

    said = [rng.choice(_VERBS), *more(2)]
    for name in names:
        said += [name if rng.random() < 0.5 else name.lower(), *more(1)]
    text = " ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def invented(rng: Random) -> str:
    return "".join(rng.choices(_LETTERS, k=rng.randint(3, 8)))


def manners(walk: Walk, i: int, names: Sequence[str], most: int, rng: Random) -> list[Row]:
    """Up to `most` rows about the screen before step `i` of a walk; `names` are those of all its screens."""
    step, seen = walk[i], {element.name.lower() for element in walk[i].elements}
    past = tuple(t for t in walk[max(0, i - rng.randint(0, 3)) : i] if t.walk == step.walk)
    words = [name for name in names if name.lower() not in seen]
    rows = [_clicking(step, past, words, rng) for _ in range(most - 1)]
    return [row for row in (*rows, _typing_or_done(step, past, words, rng)) if row]


def _clicking(step: Transition, past: Walk, words: Sequence[str], rng: Random) -> Row | None:
    """A click on what is named; where nothing in sight is, on a tab or menu that was not just opened."""
    found = unambiguous(step.elements, step.before)
    if hidden := rng.random() < HIDDEN:
        opened = {t.step.get("click") for t in past}
        found = [e for e in found if e.role in OPENERS and e.name not in opened]
    if not found:
        return None
    element, other = rng.choice(found), rng.choice(words) if words and rng.random() < 0.6 else invented(rng)
    asked = [other] if hidden else [element.name, invented(rng)][: 1 + (rng.random() < 0.3)]
    return _row(wish(asked, words, rng), past, step, {"click": element.name})


def _typing_or_done(step: Transition, past: Walk, words: Sequence[str], rng: Random) -> Row | None:
    """The text that is typed next, under an instruction that asks for it; or DONE after what it asks for."""
    if text := step.step.get("type", "").rstrip():
        return _row(wish([text], words, rng), past, step, step.step)
    if not past or past[-1].screen == past[-1].next_screen:
        return None
    (kind, target), roles = next(iter(past[-1].step.items())), {e.name: e.role for e in past[-1].elements}
    if not (kind == "type" and target.endswith("\n") or kind == "click" and roles.get(target) in CHOICES):
        return None
    return _row(wish([target.rstrip()], words, rng), past, step, None)


def _row(asked: str, past: Walk, step: Transition, following: dict[str, Any] | None) -> Row:
    return planner_row(Hindsight(asked, tuple(past), step.screen, following, Action.done()))
