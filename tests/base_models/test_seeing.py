"""Networks that see: the plain ones are transformers' ones, and positions and letters can be told."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
import torch
from safetensors.torch import save_file
from transformers import Qwen2_5_VLForConditionalGeneration

from base_models.asking import Asking, Page
from base_models.letters import across, down, letter_tokenizer, processor
from base_models.network import FINDING, Pointer, slow_of, weighted
from base_models.packing import COLUMNS, NOWHERE, TOKEN, Item, Looking, Shown
from base_models.places import places_told
from base_models.plain import MERGE, PATCH, WIDTH, LanguageModel, Tower, configuration, joined
from base_models.pointing import shares
from base_models.rows import value_of
from base_models.seeing import (
    SIZES,
    Crops,
    Reader,
    letters_of_patches,
    letters_right,
    normalised,
    stacked,
    symbol,
    train,
    train_letters,
    train_tokens,
)
from base_models.synthetic_screens import draw_crop, invent
from base_models.walks import collect
from coda_lib.errors import UserError
from coda_lib.paths import CHECKPOINTS
from coda_lib.trajectory import decode_image
from sciencedesk.desk.elements import Element

NAMES = ["Elevation", "Zoom in", *(f"name {i}" for i in range(60))]


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(1)
    return Qwen2_5_VLForConditionalGeneration(configuration(letter_tokenizer())).eval()


@pytest.mark.parametrize(("width", "height"), [(336, 252), (147, 84), (105, 126), (21, 21)])
def test_the_plain_tower_has_the_features_of_transformers(network, width, height):
    """Windows of 84 px at the right and lower edge may be partly empty."""
    tower = Tower()
    network.model.visual.load_state_dict(tower.state_dict())
    pages = [draw_crop(NAMES, Random(i), 0.5, (336, 252))[0] for i in range(2)]
    pixels = normalised(stacked([page[-height:, -width:] for page in pages]))
    rows, columns = height // TOKEN, width // TOKEN
    tiles = pixels.view(2, 3, rows, MERGE, PATCH, columns, MERGE, PATCH).permute(0, 2, 5, 3, 6, 1, 4, 7)
    grid = torch.tensor([[1, rows * MERGE, columns * MERGE]] * 2)
    with torch.no_grad():
        theirs = network.model.visual(tiles.reshape(-1, 3 * PATCH**2), grid).pooler_output
        ours = tower(pixels)[1]
    theirs = torch.cat(list(theirs)) if isinstance(theirs, tuple | list) else theirs
    assert torch.allclose(theirs, ours.reshape(theirs.shape), atol=1e-5)


def test_the_plain_language_model_has_the_states_of_transformers(network):
    language = LanguageModel(len(letter_tokenizer()))
    network.model.language_model.load_state_dict(language.state_dict(), strict=True)
    ids = torch.randint(10, 400, (2, 20))
    positions = torch.randint(0, 15, (3, 2, 20)).sort(-1).values
    mask = torch.zeros(2, 1, 20, 20).masked_fill(~torch.ones(20, 20, dtype=torch.bool).tril(), -30_000.0)
    with torch.no_grad():
        ours, *_ = language(language.embed_tokens(ids), positions, mask)
        given = {
            "inputs_embeds": language.embed_tokens(ids),
            "position_ids": positions,
            "attention_mask": mask,
        }
        theirs = network.model.language_model(**given, use_cache=False).last_hidden_state
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_neighbouring_columns_have_positions_apart():
    """With the usual base of 10,000 all columns lie within 0.06 rad: no head could tell them."""

    def apart(base: float) -> float:
        language = LanguageModel(100, layers=1, base=base)
        return (language.speeds[language.section == 2].max() * COLUMNS).item()  # rad over all columns

    assert apart(100.0) > 0.5 and apart(10_000.0) < 0.06


def test_a_small_model_tells_columns_with_a_small_base_alone():
    told = [*places_told(10_000.0, steps=250, every=50)]
    assert told[-1]["row"] > 0.3  # chance: 0.17
    assert max(figures["column"] for figures in told) < 0.15  # chance: 0.08
    # in how many steps differs by machine: some seeds take 200, some 350
    assert any(figures["column"] > 0.3 for figures in places_told(100.0, steps=1000, every=50))


def test_each_patch_tells_its_own_letters():
    _, elements, letters = draw_crop(NAMES, Random(3), 0.5, (168, 84))
    told, clear = letters_of_patches(letters, (168, 84))
    written = sum(len(e.text if value_of(e) else e.name) for e in elements)
    assert told.shape == (12, 24, 2) and len(letters) == written
    for x, y, letter in letters:
        place = int(y // PATCH), int(x // PATCH)
        if letter != " " and clear[place] and (told[place] > 0).sum() < 2:
            assert symbol(letter) in told[place]


def test_a_token_tells_the_letters_of_its_own_patches():
    reader, tokens = Reader(), torch.zeros(1, 3, 6, WIDTH)
    tokens[0, 1, 2] = torch.randn(WIDTH)
    rows, columns = (slice(at * MERGE, (at + 1) * MERGE) for at in (1, 2))
    with torch.no_grad():
        scores = reader.told_by(tokens) - reader.merged.bias.view(MERGE, MERGE, 2, -1).repeat(3, 6, 1, 1)
        own = (reader.merged(tokens[0, 1, 2]) - reader.merged.bias).view(MERGE, MERGE, 2, -1)
    assert torch.allclose(scores[0, rows, columns], own, atol=1e-5)
    scores[0, rows, columns] = 0
    assert scores.abs().max() < 1e-5


def test_tokens_learn_to_hand_letters_on(tmp_path, monkeypatch):
    monkeypatch.setattr("base_models.seeing.SIZES", (((168, 84), 4, 1.0),))
    reader = Reader.load(CHECKPOINTS / "letters" / "model.safetensors")
    before = letters_right(reader, (168, 84), 20, by_tokens=True)
    patches = letters_right(reader, (168, 84), 20)
    train_tokens(tmp_path, reader, NAMES, 100)
    assert letters_right(reader, (168, 84), 20, by_tokens=True) > before + 0.05
    assert letters_right(reader, (168, 84), 20) > patches - 0.1


def test_a_short_training_reads_letters_and_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setattr("base_models.seeing.EVERY", 4)
    monkeypatch.setattr("base_models.seeing.MEASURED", 8)
    monkeypatch.setattr("base_models.seeing.SIZES", (((168, 84), 2, 1.0),))
    whole = train_letters(tmp_path / "whole", NAMES, 8)

    class Stopped(Exception):
        pass

    drawn, times = Crops.draw, iter(range(100))

    def stop(self, rng, size, count):
        if count < 20 and next(times) == 6:
            raise Stopped
        return drawn(self, rng, size, count)

    with monkeypatch.context() as patched:
        patched.setattr(Crops, "draw", stop)
        with pytest.raises(Stopped):
            train_letters(tmp_path / "cut", NAMES, 8)
    again = train_letters(tmp_path / "cut", NAMES, 8)
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_letters_are_tokens_and_a_point_is_two():
    tokens = letter_tokenizer()
    drag = "drag(start_box='(8,12)', end_box='(332,248)')"
    for text in ("Click 'sin(36)'.", "type(content='x^128\\n')", drag):
        ids = tokens(text)["input_ids"]
        assert tokens.decode(ids) == text
    assert len(tokens("128")["input_ids"]) == 3
    point = tokens("click(start_box='(120,80)')")["input_ids"]
    assert tokens.convert_ids_to_tokens(point)[1:3] == [across(120), down(80)]


@pytest.fixture(scope="module")
def steps():
    """The first steps of a perturbed walk in each of two applications."""
    return [step for app in ("gis", "algebra") for step in collect(app, 30, 3)]


def test_a_packed_question_is_answered_as_if_it_stood_alone(steps):
    torch.manual_seed(2)
    asking, rng = Asking(NAMES, 0.5), Random(5)
    pointer = Pointer(Reader(), len(asking.tokenizer))
    for page in (asking.draw(rng, SIZES[0][0]), asking.draw_screen(rng, steps[3])):
        batch = asking.pack([page])
        with torch.no_grad():
            together, *_ = pointer.states(batch, batch.asked.ids)
            for states, question in zip(together, page.item.questions, strict=True):
                alone = asking.pack([replace(page, item=Item(page.item.shared, [question]))])
                (own,), *_ = pointer.states(alone, alone.asked.ids)
                assert torch.allclose(own, states[: len(own)], atol=1e-4)


def test_pictures_of_two_sizes_and_two_pictures_of_a_prompt_are_packed():
    torch.manual_seed(3)
    asking, rng = Asking(NAMES, 0.5), Random(4)
    pointer = Pointer(Reader(), len(asking.tokenizer))
    small, large = (asking.draw(rng, size) for size, *_ in SIZES[:2])
    pair = Page(Item((*small.item.shared, *large.item.shared), large.item.questions), large.about)
    alone, together = asking.pack([pair]), asking.pack([small, pair])
    with torch.no_grad():
        states, *_ = pointer.states(alone, alone.asked.ids)
        both, *_ = pointer.states(together, together.asked.ids)
    assert torch.allclose(both[-len(states) :, : states.shape[1]], states, atol=1e-4)
    assert torch.isfinite(torch.stack([*pointer.losses(together).values()])).all()


def test_transformers_gives_the_same_logits_for_one_and_two_screens(steps):
    torch.manual_seed(5)
    asking, reads = Asking(NAMES, 0.5), processor()
    pointer = Pointer(Reader(), len(asking.tokenizer))
    network = joined(pointer.reader.tower, pointer.language, asking.tokenizer).eval()
    page = asking.draw_screen(Random(1), steps[5])
    question = page.item.questions[0]
    for count in (1, 2):
        item = Item(page.item.shared * count, [question])
        text = asking.tokenizer.decode(
            [*asking.around[0], *asking.encode("<|image_pad|>"), *asking.around[1]]
        )
        text = text * count + asking.tokenizer.decode([*question.prompt, *question.reply])
        pictures = [decode_image(steps[5].screen)] * count
        inputs = reads(text=[text], images=pictures, return_tensors="pt")
        batch = asking.pack([replace(page, item=item)])
        assert inputs["input_ids"].tolist() == [[*batch.shared.ids[0].tolist(), *batch.asked.ids[0].tolist()]]
        with torch.no_grad():
            states, *_ = pointer.states(batch, batch.asked.ids)
            theirs = network(**inputs).logits[:, batch.shared.ids.shape[1] :]
            assert torch.allclose(theirs, pointer.language.logits(states), atol=2e-4)


def test_the_reply_is_learned_and_the_point_lies_in_its_element(steps):
    asking, rng = Asking(NAMES, 1.0), Random(9)
    pages = [asking.draw(rng, (168, 84)) for _ in range(20)] + [asking.draw_screen(rng, s) for s in steps]
    kinds = set()
    for page in pages:
        batch = asking.pack([page])
        assert (batch.labels != NOWHERE).sum() == sum(len(q.reply) for q in page.item.questions)
        for question, element in zip(page.item.questions, page.about, strict=True):
            text = asking.tokenizer.decode(question.reply)
            assert "".join(text.split()) and text.endswith("<|im_end|>")
            if element == "on":
                prompt = asking.tokenizer.decode(question.prompt)
                read = prompt.removeprefix("Read on: ").split("\n")[0] + text[4:].removesuffix("<|im_end|>")
                about = [e for e in page.about if not isinstance(e, str | None)]
                assert len(about) == 8 or read in {e.text if value_of(e) else e.name for e in about}
                kinds.add("on")
            elif element and value_of(element):
                assert text == f"ANS {value_of(element)}<|im_end|>"
                kinds.add("read")
            elif element:
                x, y, width, height = element.box
                at = [int(n) for n in text.split("box='(")[1].split(")")[0].split(",")]
                assert x - 4 <= at[0] <= x + width + 4 and y - 4 <= at[1] <= y + height + 4
                kinds.add(element.role)
    assert {"on", "read", "row", "target", "button", "menu", "tab"} <= kinds


def test_what_a_value_is_read_from_shows_its_letters():
    """Heads that spell are shown, for each letter of the reply, a token whose patches of a line have it."""
    asking, rng, spelled, named = Asking(NAMES, 1.0), Random(2), 0, 0
    for page in (asking.draw(rng, (168, 84)) for _ in range(30)):
        (shown,) = (piece for piece in page.item.shared if isinstance(piece, Shown))
        columns = shown.grid[1]
        here = {(int(y // TOKEN) * columns + int(x // TOKEN), int(y // PATCH) % MERGE, letter)
                for x, y, letter in shown.letters}  # fmt: skip
        for question in page.item.questions:
            if not asking.tokenizer.decode(question.reply).startswith("ANS "):
                assert question.spell.items() <= question.find.items()  # a name
                for at, (token, *more) in question.find.items():
                    letter = asking.tokenizer.decode(question.prompt[at]) if at < 0 else "\ufffd"
                    assert letter == "\ufffd" or more or (token, question.found_in[at], letter) in here
                    named += at < 0
                continue
            assert question.spell
            for at, (token,) in question.spell.items():
                letter = asking.tokenizer.decode(question.reply[at + 1])
                assert letter == "\ufffd" or (token, question.spelled_in[at], letter) in here
                spelled += 1
    assert spelled > 100 and named > 100


def test_a_page_says_where_things_are_by_the_tokens_that_show_their_names():
    """The probe learns it of them, in a line of their patches."""
    asking, rng = Asking(NAMES, 1.0), Random(3)
    for _ in range(20):
        page = asking.draw(rng, (168, 84))
        (shown,) = (piece for piece in page.item.shared if isinstance(piece, Shown))
        lines = {(int(y // TOKEN) * shown.grid[1] + int(x // TOKEN), int(y // PATCH) % MERGE)
                 for x, y, _ in shown.letters}  # fmt: skip
        assert {where[:2] for where in shown.named} <= lines
        named = {where[2:] for where in shown.named}
        for question, about in zip(page.item.questions, page.about, strict=True):
            if isinstance(about, Element) and question.points:
                ids = question.reply[question.points[0] + 1 :][:2]
                assert (asking.columns[ids[0]] // 4, asking.rows[ids[1]] // 4) in named
    pointer = Pointer(Reader(), len(asking.tokenizer))
    optimizer = torch.optim.AdamW(pointer.parameters(), lr=3e-3)
    batch, losses = asking.pack([asking.draw(rng, (168, 84))]), []
    for _ in range(30):
        losses.append(pointer.losses(batch)["named"])
        losses[-1].backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < 0.5 * losses[0]


def test_each_line_of_a_tokens_patches_has_its_head():
    """The loss is 0 if the line's head looks at the token, and the others at the first one."""
    pointer = Pointer(Reader(), 60)
    keys = torch.eye(8, 32).expand(1, 4, 8, 32)  # of 8 tokens, as that of head h may be told from all others
    query = torch.zeros(1, 4, 1, 32)
    query[0, 0, 0, 0] = query[0, 1, 0, 5] = query[0, 2, 0, 0] = 500.0  # heads 0 and 2 at token 0, 1 at 5
    pointer.language.layers[FINDING].self_attn.seen = query, keys
    where, mask = torch.arange(8)[None] == 5, torch.zeros(1, 1, 1, 8)

    def loss(line: int) -> float:
        looking = Looking(torch.tensor([[0, 0]]), where, torch.tensor([line]))
        return pointer._attention_loss(FINDING, looking, mask).item()

    assert loss(1) == pytest.approx(0) and loss(0) > 50 and loss(2) > 50
    assert loss(NOWHERE) == pytest.approx(math.log(3))  # of any line: a third of the heads look there


def test_what_reading_has_trained_changes_at_a_share_of_the_rate(tmp_path, monkeypatch):
    monkeypatch.setattr("base_models.plain.PRECISION", torch.float32)  # in which small steps are not rounded
    torch.manual_seed(4)
    asking, rng = Asking(NAMES, 1.0), Random(3)
    pointer = Pointer(Reader(), len(asking.tokenizer))
    pages, slow = [asking.draw(rng, (168, 84)) for _ in range(2)], slow_of(pointer)
    before = {weight: weight.detach().clone() for weight in pointer.parameters()}

    def loss_of(batch):
        return weighted(pointer.losses(batch))

    train(tmp_path, "pointing", pointer, lambda _: asking.pack(pages), loss_of, dict, 1, 1e-2, 0, slow, 0.2)
    moved = {weight: (weight - old).abs().max().item() for weight, old in before.items()}
    most = [max(moved[weight] for weight in part) for part in (slow, before.keys() - slow)]
    assert 0 < most[0] == pytest.approx(0.2 * most[1], rel=0.1)
    assert {*pointer.language.parameters()} <= before.keys() - slow


@pytest.mark.parametrize("looks", [True, False])
def test_the_figures_tell_one_that_looks_from_one_that_does_not(looks, steps):
    """Both give the right reply to the picture that a question belongs to; one of them to any picture."""
    asking, rng = Asking(NAMES, 1.0), Random(6)
    pages = [asking.draw(rng, (336, 252)) for _ in range(4)] + [asking.draw_screen(rng, s) for s in steps[:4]]
    own = [asking.pack([page]) for page in pages]

    class Told:
        def replies(self, batch):
            right, points = (
                batch.labels == batch.labels,
                batch.asked.ids[batch.points[:, 0], batch.points[:, 1] + 1],
            )
            second = batch.asked.ids[batch.points[:, 0], batch.points[:, 1] + 2]
            (shown,) = batch.pictures
            for i, pixels in enumerate(shown.pixels):
                is_own = torch.equal(pixels, own[i].pictures[0].pixels[0])
                if looks and not is_own:  # what it sees has not the asked name
                    points = points.where(batch.owner[batch.points[:, 0]] != i, -1)
                    right[batch.owner == i] = False
            return right, torch.stack((points, second), -1)

    figures = shares(Told(), asking, pages)
    kinds = {kind: share for kind, share in figures.items() if kind != "other"}
    assert set(kinds.values()) == {1.0} and {"row", "read", "clicks"} <= kinds.keys()
    assert figures["other"] == (0.0 if looks else 1.0)


def test_what_is_invented_has_every_letter_often():
    letters = "".join(invent(Random(i)) for i in range(20_000))
    counts = [letters.count(letter) for letter in "qQzZjJxX0123456789()^_"]
    assert min(counts) > 0.0017 * len(letters), counts


def test_the_committed_reader_reads_words_that_nobody_drew_before(tmp_path):
    reader = Reader.load(CHECKPOINTS / "letters" / "model.safetensors")
    assert letters_right(reader, SIZES[0][0], 40, seed=5) > 0.92
    assert letters_right(Reader(), SIZES[0][0], 20, seed=5) < 0.2  # untrained
    reader.write(tmp_path / "again.safetensors")
    again = Reader.load(tmp_path / "again.safetensors")
    assert torch.equal(reader.head.weight, again.head.weight)


def test_a_file_that_is_no_reader_is_named(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"other": torch.zeros(3)}, path)
    with pytest.raises(UserError, match=str(path)):
        Reader.load(path)
    with pytest.raises(UserError, match="none"):
        Reader.load(tmp_path / "none.safetensors")
