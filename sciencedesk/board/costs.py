"""What an expression or a pattern of a task file may cost: counted, the same on every machine.

Each value that an expression reads or makes is charged before or as it is made; nothing that Python itself
would take long for (powers of 10, doubled lists, keys that collide) is begun.  A pattern is searched for in a
process of its own, with a clock: nobody can count a search from outside.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from coda_lib.errors import UserError

STEPS = 200_000  # nodes of the expression, and reads of its values, that one call may cost: about 0.3 s
MEMORY = 40_000_000  # bytes of all that one call makes
SIZE = 10_000  # items of a range, characters of a joined or repeated text, or repetitions of a sequence
BITS = 4_096  # of an integer that it makes
DIGITS = 400  # to round to, on either side of the point
ITEM = 40  # bytes of an item of a new list, about
ITEMS, SCAN = 4, 1_000  # items of a list, and characters of a text, that are read in the time of one step
NEEDLE = 100  # characters of a text looked for that can make a search in another text slower
PATTERN_S = 0.3  # seconds of a processor that a search takes
PATTERN_SIZE = 100_000_000  # bytes of its process
PATTERN_LENGTH, SEARCHED = 1_000, 1_000_000  # characters of a pattern, and of the text that is searched
ENCODINGS = ("utf-8", "utf8", "ascii", "latin-1")  # others can be slow
# a field of a text that `%` fills: name, width, precision, kind
_FIELD = re.compile(r"%(?:\(([^()]*)\))?[-+ #0]*(\*|\d*)(?:\.(\*|\d*))?[hlL]?(.?)", re.DOTALL)
VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
SIZED = (list, tuple, set, dict, range, *VIEWS)


class LambdaError(UserError, ValueError):
    """An expression that is not allowed, or that costs too much; the message quotes it."""


def quote(source: str) -> str:
    return repr(source if len(source) <= 200 else source[:197] + "...")


class Budget:
    """What is left for one call of an expression.  Methods raise LambdaError once it is used up."""

    def __init__(self, source: str) -> None:
        self.source, self.steps, self.memory, self.large = source, STEPS, MEMORY, 0

    def too_much(self) -> LambdaError:
        return LambdaError(f"costs too much: {quote(self.source)}")

    def limit(self, size: int, most: int) -> None:
        if size > most:
            raise self.too_much()

    def pay(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise self.too_much()

    def afford(self, size: int) -> None:
        """Take so many bytes for something new."""
        self.memory -= size
        if self.memory < 0:
            raise self.too_much()

    def kept(self, value: Any) -> Any:
        """The same new value, of which its own size counts, without that of its items."""
        if isinstance(value, int):
            self.limit(value.bit_length(), BITS)
        self.afford(sys.getsizeof(value) + (ITEM * len(value) if isinstance(value, SIZED) else 0))
        return value

    def weighed(self, value: Any) -> Any:
        """The same value; its cost is the number of items in it, as for comparing or hashing it.

        Integers beyond 60 bits are charged more, the more there are: they can be chosen so that all have one
        hash, and the time of a set grows with the square of their number.
        """
        waiting = [value]
        self.pay(1)
        while waiting:
            inner = waiting.pop()
            if isinstance(inner, SIZED):
                self.pay(1 + len(inner) // ITEMS)
                if isinstance(inner, dict):
                    self.pay(len(inner) // ITEMS)
                    waiting += inner.keys()
                    inner = inner.values()
                waiting += () if isinstance(inner, range) else inner
            elif isinstance(inner, str | bytes):
                self.pay(len(inner) // (SCAN if isinstance(inner, str) else ITEMS))
            elif isinstance(inner, int) and inner.bit_length() > 60:
                self.large += 1
                self.pay(self.large // 4)
        return value

    def counted(self, value: Any) -> Any:
        """The same value; its cost is the number of its own items."""
        items = isinstance(value, (bytes, *SIZED))
        self.pay(1 + (len(value) // ITEMS if items else len(value) // SCAN if isinstance(value, str) else 0))
        return value

    def listed(self, value: Any) -> Any:
        """An iterator as a weighed list, other values as they are: keys are counted before hashing."""
        return self.weighed(list(value)) if isinstance(value, Iterator) else value

    def product(self, left: Any, right: Any) -> None:
        """Before `left * right`: that of two integers, or a repeated sequence."""
        if isinstance(left, int) and isinstance(right, int):
            self.limit(left.bit_length() + right.bit_length(), BITS)
            return
        items, times = (right, left) if isinstance(left, int) else (left, right)
        if isinstance(items, str | bytes | list | tuple) and isinstance(times, int):
            self.limit(len(items) * times, SIZE)

    def power(self, left: Any, right: Any) -> None:
        """Before `left ** right`."""
        if isinstance(left, int) and isinstance(right, int):
            self.limit(left.bit_length() * abs(right), BITS)

    def sum(self, left: Any, right: Any) -> None:
        """Before `left + right` of two sequences."""
        if isinstance(left, str | bytes | list | tuple) and isinstance(right, type(left)):
            width = 4 if isinstance(left, str | bytes) else ITEM
            self.limit(width * (len(left) + len(right)), self.memory)

    def rounded(self, value: Any, digits: Any = None) -> None:
        """Before `round(value, digits)`, which computes a power of 10."""
        if isinstance(digits, int):
            self.limit(abs(digits), DIGITS)

    def formatted(self, form: str | bytes, values: Any) -> None:
        """Before `form % values`."""
        fields = _FIELD.findall(form if isinstance(form, str) else form.decode("latin-1"))
        given = values if isinstance(values, tuple) else (values,)
        if isinstance(values, dict):
            names = [name for name, *_ in fields if name]
            given = [values.get(name if isinstance(form, str) else name.encode("latin-1")) for name in names]
            given += [values for name, *_, kind in fields if not name and kind != "%"]
        for value in given:
            if not isinstance(value, str | bytes | int | float | None):
                kind = type(value).__name__
                raise LambdaError(f"not allowed: a {kind} in a text with '%' in {quote(self.source)}")
        starred = any("*" in field for field in fields)
        widths = [int(number[:9]) for _, *numbers, _ in fields for number in numbers if number.isdecimal()]
        widths += [abs(value) for value in given if starred and isinstance(value, int)]
        self.limit(max(widths, default=0), DIGITS)
        longest = max((len(value) for value in given if isinstance(value, str | bytes)), default=0)
        # an escaped character has at most 10
        size = len(form) + len(fields) * (2 * DIGITS + BITS // 3 + 10 * longest)
        self.pay(len(fields) + size // SCAN)
        self.afford(4 * size)

    def encoded(self, encodings: Sequence[Any]) -> None:
        """Before a text is encoded, or bytes are decoded, with such encodings."""
        for name in encodings[:1]:
            if isinstance(name, str) and name.lower() not in ENCODINGS:
                raise LambdaError(f"not allowed: the encoding {quote(name)} in {quote(self.source)}")

    def ranged(self, bounds: Sequence[Any]) -> None:
        """Before `range(*bounds)`."""
        try:
            self.limit(len(range(*bounds)), SIZE)
        except OverflowError as error:  # of `len`
            raise self.too_much() from error

    def joined(self, between: str, parts: Sequence[Any]) -> None:
        """Before `between.join(*parts)`."""
        if len(parts) == 1:
            self.limit(sum(len(part) + len(between) for part in parts[0]), SIZE)

    def scanned(self, text: str | bytes, words: Sequence[Any], stripped: bool) -> None:
        """Before a text is searched for others, or freed of their characters."""
        most = sys.maxsize if stripped else NEEDLE
        for word in words:
            for part in word if isinstance(word, tuple) else (word,):
                self.pay(1 + len(text) * min(len(part) if isinstance(part, str | bytes) else 1, most) // SCAN)


def check_pattern(pattern: str) -> str:
    """The same regular expression.  ValueError says what is wrong with it."""
    if len(pattern) > PATTERN_LENGTH:
        raise ValueError(f"a regular expression has at most {PATTERN_LENGTH} characters, not {len(pattern)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what may mean another thing in a later Python
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


_SEARCH = """
import json, re, resource, signal, sys, warnings
warnings.simplefilter("ignore")
pattern, text, seconds, size = json.load(sys.stdin)
resource.setrlimit(resource.RLIMIT_AS, (size, size))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends the process, whatever it computes
sys.exit(0 if re.search(pattern, text) else 3)
"""


def found(pattern: str, text: str) -> bool:
    """Whether a pattern is somewhere in a text, searched for in another process.

    LambdaError if it takes more than `PATTERN_S` of a processor or `PATTERN_SIZE`.
    """
    if len(text) <= SEARCHED:
        command = [sys.executable, "-I", "-S", "-c", _SEARCH]
        asked = json.dumps([pattern, text, PATTERN_S, PATTERN_SIZE]).encode()
        code = subprocess.run(command, input=asked, stderr=subprocess.DEVNULL, check=False).returncode
        if code in (0, 3):
            return code == 0
    raise LambdaError(f"costs too much: the pattern {quote(pattern)} in a text of {len(text)} characters")
