"""What is asked about pictures: things by their names, to be clicked or dragged, and values to be read out.

Crops take the positions and coordinates of a random place of the whole screen, or what was learned on them
would be lost on whole screens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from base_models.learning import begins, packed
from base_models.lettering import letter_scores, tokens_of_letters
from base_models.letters import COORDINATES, across, down, letter_tokenizer
from base_models.packing import COLUMNS, ROWS, TOKEN, Item, Packed, Question, Shown
from base_models.rows import (
    BESIDE,
    MOVING,
    WHOLE,
    clicked,
    covered,
    dragged,
    line_of,
    middle,
    moved,
    on_grid,
    part_around,
    random_text,
    typed,
    value_of,
    within,
)
from base_models.seeing import Reader
from base_models.synthetic_screens import draw_crop
from base_models.walks import Transition, Walks, typed_words, unambiguous
from coda_lib.trajectory import decode_image
from sciencedesk.desk.elements import Element
from sciencedesk.script import action_of, to_plan

KNOWN = 2  # letters of a name that may be of others as well
ASKED, MORE = 8, 1  # about a picture, at most, and beside the thing that a part of a screen is drawn for
TYPED = 0.1  # of questions: a text to type, for which nothing has to be looked for


About = tuple[Question, Element | str | None]
Names = Mapping[str, tuple[Sequence[int], int]]


@dataclass(frozen=True)
class Page:
    """A picture with its questions, and of each the element that it is about (or its kind, or None)."""

    item: Item
    about: Sequence[Element | str | None]

    def seen_as(self, pixels: np.ndarray) -> Page:
        """The same questions about another picture."""
        shared = [replace(p, pixels=pixels) if isinstance(p, Shown) else p for p in self.item.shared]
        return replace(self, item=replace(self.item, shared=shared))


class Asking:
    """Pages with questions; `names` are those that real screens have, a share `invented` is made up.

    On real screens a `reader` finds where the letters of values stand.
    """

    def __init__(self, names: Sequence[str], invented: float, reader: Reader | None = None):
        self.tokenizer, self.names, self.invented = letter_tokenizer(), names, invented
        self.reader = reader
        ids = self.tokenizer.convert_tokens_to_ids
        self.columns = {ids(across(n)): n for n in COORDINATES}
        self.rows = {ids(down(n)): n for n in COORDINATES}
        self.around = self.encode("<|im_start|>user\n<|vision_start|>"), self.encode("<|vision_end|>")

    def encode(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def pack(self, pages: Sequence[Page]) -> Packed:
        return packed([page.item for page in pages])

    def draw(self, rng: Random, size: tuple[int, int]) -> Page:
        """A crop with at least one question."""
        while True:
            pixels, elements, letters = draw_crop(self.names, rng, self.invented, size)
            place = rng.randint(0, COLUMNS - size[0] // TOKEN), rng.randint(0, ROWS - size[1] // TOKEN)
            names, begin, across = [element.name for element in elements], 0, size[0] // TOKEN
            part = place[0] * TOKEN, place[1] * TOKEN, place[0] * TOKEN + size[0], place[1] * TOKEN + size[1]
            texts = [element.text if value_of(element) else element.name for element in elements]
            asked: list[About] = []
            continued: list[About] = []
            where = []
            for element, text in zip(elements, texts, strict=True):
                tokens = [int(y // TOKEN) * across + int(x // TOKEN) if 0 <= x < size[0] and 0 <= y < size[1]
                          else None for x, y, _ in letters[begin : begin + len(text)]]  # fmt: skip
                line = line_of(letters[begin][1])
                begin += len(text)
                element = moved(element, part)
                where += [(token, line, *middle(element)) for token in {*tokens} - {None}]
                if names.count(element.name) == 1:
                    asked.append(self._about(rng, element, tokens, line, part))
                known = rng.randint(2, 4)
                if len(text) > known and [t[:known] for t in texts].count(text[:known]) == 1:
                    question = self.reading(
                        f"Read on: {text[:known]}", text[known:], tokens[known:], line=line
                    )
                    continued.append((question, "on"))
            if asked:
                asked = rng.sample(asked, min(len(asked), ASKED))
                asked += rng.sample(continued, min(len(continued), ASKED))
                if rng.random() < TYPED * len(asked):
                    asked.append((self.question({"type": random_text(rng)}, ()), None))
                return self.page(Shown(pixels, place, letters, where), asked)

    def draw_part(self, rng: Random, step: Transition, element: Element, least: tuple[int, int]) -> Page:
        """The part of a screen around one thing, at its place there, with clicks on what lies in it.

        It has at least so many columns and rows of tokens.
        """
        left, top, right, down = part_around(element, least, rng)
        box = left * TOKEN, top * TOKEN, right * TOKEN, down * TOKEN
        others = [e for e in unambiguous(step.elements, step.before) if e != element and within(e, box)]
        asked = [element, *rng.sample(others, min(len(others), MORE))]
        picture = decode_image(step.screen).crop(box)
        named = self._named(asked, picture, box)
        questions = [(self.question(clicked(e, rng), [e], box, named), e) for e in asked]
        return self.page(Shown(np.asarray(picture), (left, top)), questions)

    def draw_screen(self, rng: Random, step: Transition, named: Sequence[Element] = ()) -> Page:
        """The screen before a step of a walk, with questions mostly about what is not always at one place.

        The `named` are asked for in any case.
        """
        clear, picture = unambiguous(step.elements, step.before), decode_image(step.screen)
        moving = [e for e in clear if e.role in MOVING]
        values = [e for e in step.elements if value_of(e)]
        asked: list[About] = []
        drawn = rng.sample(moving, min(len(moving), ASKED)) + rng.sample(clear, min(len(clear), 4))
        drawn = [*named, *drawn]
        read = self._named(clear if any(e.role in BESIDE for e in drawn) else (), picture)
        for element in drawn:
            drag = element.role == "slider" or (element.role in MOVING and rng.random() < 0.1)
            steps = dragged(element, clear, rng) if drag else clicked(element, rng)
            asked.append((self.question(steps, step.elements, named=read), element))
        scores = letter_scores(self.reader, picture) if self.reader and values else None
        for element in rng.sample(values, min(len(values), 3)):
            value, seen = value_of(element), covered(element)
            line, letters = (
                (None, ()) if scores is None else tokens_of_letters(scores, value, seen) or (None, ())
            )
            asked.append((self.reading(what_is(element), value, letters, seen, line), element))
        asked.append((self.question(typed(rng, typed_words(step.app)), ()), None))
        if not step.step.keys() & {"click", "type"}:
            asked.append((self.question(step.step, step.elements), None))
        return self.page(Shown(np.asarray(picture)), asked)

    def page(self, shown: Shown, asked: Sequence[About]) -> Page:
        questions, about = zip(*asked, strict=True)
        return Page(Item((self.around[0], shown, self.around[1]), questions), about)

    def _about(
        self, rng: Random, element: Element, tokens: Sequence[int | None], line: int, part: Sequence[int]
    ) -> About:
        """A question about an element of a crop, each letter of whose text stands on one of `tokens`."""
        if value := value_of(element):
            seen = sorted({token for token in tokens if token is not None})
            return self.reading(what_is(element), value, tokens[-len(value) :], seen, line), element
        return self.question(clicked(element, rng), [element], part, {element.name: (tokens, line)}), element

    def reading(
        self, text: str, answer: str, tokens: Sequence[int | None], seen: Sequence[int] = (),
        line: int | None = None,
    ) -> Question:  # fmt: skip
        """A question that is answered by what stands on the tokens `seen`, or else on `tokens`.

        If these are as many as letters, each has its own; in this `line` of their patches, if it is known.
        """
        begin, seen = "ANS ", seen or sorted({token for token in tokens if token is not None})
        at = {
            number - 1: start - len(begin) for start, number in begins(f"{begin}{answer}<|im_end|>").items()
        }
        letters = tokens if len(tokens) == len(answer) else ()
        spell = {number: [letters[letter]] for number, letter in at.items()
                 if 0 <= letter < len(letters) and letters[letter] is not None}  # fmt: skip
        find = dict.fromkeys(spell or [0], seen) if seen else {}
        lines = () if line is None else (dict.fromkeys(find, line), dict.fromkeys(spell, line))
        reply = self.encode(f"{begin}{answer}<|im_end|>")
        return Question(self._prompt(f"{text}\n"), reply, (), find, spell, *lines)

    def _prompt(self, text: str) -> list[int]:
        return self.encode(f"{text}<|im_end|>\n<|im_start|>assistant\n")

    def _named(self, elements: Sequence[Element], picture: Image.Image, part: Sequence[int] = WHOLE) -> Names:
        """Where the names stand that are beside their things, as the reader sees it."""
        beside = [element for element in elements if element.role in BESIDE]
        if not self.reader or not beside:
            return {}
        scores = letter_scores(self.reader, picture)
        found = {e.name: tokens_of_letters(scores, e.name, covered(e, part)) for e in beside}
        return {name: shown[::-1] for name, shown in found.items() if shown}

    def question(
        self, step: Mapping[str, Any], elements: Sequence[Element], part: Sequence[int] = WHOLE,
        named: Names | None = None,
    ) -> Question:  # fmt: skip
        """The question of a script step about a part of the screen: its plan is asked, its action replied.

        `named` has of some names the tokens that show their letters, and the line of their patches; other
        things are looked for where they are.  So they are from the name's first letters on.
        """
        ((_, what),) = step.items()
        things = {element.name: element for element in elements}
        reply = self.encode(on_grid(action_of(step, lambda name: things[name].center)) + "<|im_end|>")
        points = [at - 1 for at, token in enumerate(reply) if token in self.columns]
        targets = (what if isinstance(what, list | tuple) else [what])[: len(points)]
        spell, spelled_in, plan = {}, {}, to_plan(step)
        prompt, letters = self._prompt(plan), begins(plan)
        find, found_in = {}, {}
        for at, name in zip(points, targets, strict=True):
            element = things[name]
            line = None if element.role in BESIDE else line_of(element.box[1] + element.box[3] / 2 - part[1])
            known = (named or {}).get(name)
            tokens, line = known or (covered(element, part), line)
            seen = sorted({token for token in tokens if token is not None})
            if not seen:
                continue
            spell[at] = find[at] = seen
            begin = plan.index(f"'{name}'") + 1
            for number in range(KNOWN, len(name)):
                if begin + number in letters:
                    own = tokens[number] if known else None
                    find[letters[begin + number] - len(prompt)] = seen if own is None else [own]
            if line is not None:
                spelled_in[at] = line
                found_in |= dict.fromkeys(find.keys() - found_in.keys(), line)
        return Question(prompt, reply, points, find, spell, found_in, spelled_in)


class Named:
    """The things of walks by name: each name is asked for as often as any other.

    By screens a name that is rarely there is hardly ever asked for (measured: fields that 3 % of the screens
    have were not found once, with 98 % of all fields).
    """

    def __init__(self, walks: Walks):
        self._of: list[list[list[tuple[Transition, Element]]]] = []
        self._seen: dict[tuple[str, str, str], int] = {}  # screens that have it
        for walk in walks:
            found: dict[tuple[str, str], list[tuple[Transition, Element]]] = defaultdict(list)
            for step in walk:
                for element in unambiguous(step.elements, step.before):
                    found[element.role, element.name].append((step, element))
            self._of.append([*found.values()])
            self._seen |= {(walk[0].app, *name): len(screens) for name, screens in found.items()}

    def rare(self, step: Transition, count: int, rng: Random) -> list[Element]:
        """Some things of any screen, the more likely the fewer screens of the walks have them."""
        clear = unambiguous(step.elements, step.before)
        weights = [1 / self._seen.get((step.app, e.role, e.name), 1) for e in clear]
        return [*dict.fromkeys(rng.choices(clear, weights, k=count))] if clear else []

    def draw(self, rng: Random) -> tuple[Transition, Element]:
        return rng.choice(rng.choice(rng.choice(self._of)))


def what_is(element: Element) -> str:
    return f"What is the {element.name.lower()}?"
