"""Keys: their names, and which chords no model may press.

pyautogui drops a key that it does not know in silence; here such a chord is refused.  So are those with which a desktop leaves
the application: another console, the end of the session, the kernel's own.
"""

from __future__ import annotations

import re

_ALIASES = {
    "control": "ctrl", "return": "enter", "escape": "esc", "del": "delete", "pgup": "pageup", "pgdn": "pagedown",
    "arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right", "spacebar": "space",
    "super": "win", "meta": "win",
}  # fmt: skip
_FUNCTION = frozenset(f"f{number}" for number in range(1, 13))
_MODIFIERS = frozenset(("ctrl", "alt", "shift", "win", "ctrlleft", "ctrlright", "altleft", "altright", "shiftleft", "shiftright"))
_NAMED = frozenset(
    ("enter", "esc", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown", "up", "down", "left",
     "right", "capslock", "numlock", "scrolllock", "pause", "printscreen", "apps")
)  # fmt: skip
KEYS = frozenset(map(chr, range(33, 127))) - frozenset(map(chr, range(65, 91))) | _FUNCTION | _MODIFIERS | _NAMED
MOST = 4  # keys of a chord


class KeyRefused(ValueError):
    """A key that there is not, or a chord that no model may press; the message quotes it."""


def hotkey_keys(text: str) -> tuple[str, ...]:
    """The keys of a chord in lower case and under one name each: 'Ctrl+C', 'control c' -> ('ctrl', 'c')."""
    keys = re.findall(r"[^\s+]+|(?:^|(?<=[\s+]))\+$", text.lower().strip())  # a last '+' after a gap is the plus key
    return tuple(_ALIASES.get(key, key) for key in keys)


def pressed(text: str) -> tuple[str, ...]:
    """The keys of a chord that may be pressed.  KeyRefused says what is wrong with any other."""
    keys = hotkey_keys(text)
    said = " ".join(keys)[:60]
    if unknown := [key for key in keys if key not in KEYS]:
        raise KeyRefused(f"there is no key {unknown[0][:30]!r}")
    if not 0 < len(keys) <= MOST:
        raise KeyRefused(f"a chord has one to {MOST} keys, not {len(keys)}: {said!r}")
    held = {key.removesuffix("left").removesuffix("right") or key for key in keys if key in _MODIFIERS}
    others = set(keys) - _MODIFIERS
    leaves = {"ctrl", "alt"} <= held and others & (_FUNCTION | {"delete", "backspace", "esc", "t"})
    if leaves or (held and "printscreen" in others) or "win" in held:
        raise KeyRefused(f"leaves the application: {said!r}")
    return keys
