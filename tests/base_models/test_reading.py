"""Pages of names at random places, and what the vision tower learns to read."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from tiny_models import save_tiny

from base_models.architecture import PATCH
from base_models.reading import ReadingHeads, _symbol
from base_models.rows import LabelledScreen, labelled, value_of
from base_models.sources import page_sampler, screens_sampler, shown_names
from base_models.synthetic_screens import draw_page
from base_models.training import train_language, train_vision
from base_models.walks import unambiguous
from coda_lib.grammar import parse_actions
from coda_lib.models.local import load_network, load_processor
from coda_lib.paths import CHECKPOINTS
from coda_lib.trajectory import decode_image
from sciencedesk.desk.desk import HEIGHT, WIDTH
from sciencedesk.desk.elements import Element

NAMES = [
    "Ash",
    "Elm",
    "Oak",
    "Pine",
    "Larch",
    "Yew",
    "C1",
    "H12",
    "Elevation",
    "Contours",
    "Vega",
    "Sirius",
    "x^2+1",
    "butane",
]


def page_of(seed: int, invented: float = 0.0) -> LabelledScreen:
    return draw_page(NAMES, random.Random(seed), invented)


@pytest.fixture(scope="module")
def drawn() -> list[LabelledScreen]:
    return [page_of(seed) for seed in range(40)]


@pytest.fixture
def executor(tmp_path):
    """Give a processor and an untrained network."""
    folder = save_tiny(tmp_path / "executor")
    return load_processor(folder), load_network(folder, trainable=True, device="cpu")


def test_a_page_shows_its_names_apart_from_each_other(drawn):
    for page in drawn:
        pixels = np.asarray(decode_image(page.screen)).astype(int)
        assert pixels.shape == (HEIGHT, WIDTH, 3)
        pointed = [element for element in page.elements if element.role != "value"]
        assert len(page.elements) > 5 and len(unambiguous(page.elements)) == len(pointed)
        covered = np.zeros((HEIGHT, WIDTH), int)
        for element in page.elements:
            x, y, w, h = element.box
            assert element.name in NAMES and x >= 0 and y >= 0 and x + w <= WIDTH and y + h <= HEIGHT
            covered[y : y + h, x : x + w] += 1
            around = pixels[max(0, y - 16) : y + h + 16, max(0, x - 100) : x + w + 100]
            assert np.ptp(around.reshape(-1, 3), axis=0).max() > 60, f"nothing is drawn for {element}"
        assert covered.max() == 1


def test_a_name_has_no_usual_place_and_may_mean_nothing(drawn):
    places = {element.box[:2] for page in drawn for element in page.elements if element.name == "Ash"}
    assert len(places) > 15
    roles = {element.role for page in drawn for element in page.elements}
    assert roles == {"row", "target", "button", "value"}
    invented = {e.name for seed in range(20) for e in page_of(seed, 1.0).elements}
    assert len(invented) > 100 and not invented & {*NAMES}
    assert page_of(3, 0.5) == page_of(3, 0.5)


def test_letters_lie_where_they_are_drawn():
    page = page_of(5)
    pixels = np.asarray(decode_image(page.screen).convert("L")).astype(int)
    told = sorted(letter for _, _, letter in page.letters)
    assert told == sorted("".join(e.text if value_of(e) else e.name for e in page.elements))
    inked = [
        np.ptp(pixels[int(y) - 5 : int(y) + 6, max(0, int(x) - 3) : int(x) + 4]) > 60
        for x, y, _ in page.letters
    ]
    assert np.mean(inked) > 0.9


def test_plans_about_a_page_point_at_what_they_name(walks):
    rows = page_sampler(walks[:1])(random.Random(0))
    assert len({row.pictures[0].tobytes() for row in rows}) == 1
    for row in rows:
        named = [e for e in row.screen.elements if f"'{e.name}'" in str(row.messages)]
        (action,) = parse_actions(row.reply, (WIDTH, HEIGHT))
        x, y = action.x * WIDTH, action.y * HEIGHT
        assert any(
            e.box[0] - 2 <= x <= e.box[0] + e.box[2] + 2 and e.box[1] - 2 <= y <= e.box[1] + e.box[3] + 2
            for e in named
        )


def test_the_towers_screens_are_of_walks_and_pages(walks):
    known = {t.screen for walk in walks for t in walk}

    def share(pages: float) -> float:
        draw, rng = screens_sampler(walks, pages), random.Random(0)
        return float(np.mean([draw(rng).screen not in known for _ in range(60)]))

    assert share(0.0) == 0 and share(1.0) == 1 and 0.2 < share(0.5) < 0.8
    assert all(0 < len(name) <= 16 for walk in walks for name in shown_names(walk))


def test_patches_are_told_what_is_in_them(executor):
    reading = ReadingHeads(executor[1], 0)
    place = 7 * 14 + 5, 4 * 14 + 9  # px: the patch in row 4, column 7
    whole = Element("all", "row", (0, 0, WIDTH, HEIGHT))
    small = Element("Betelgeuse Major", "target", (7 * 14, 4 * 14, 14, 14))
    screen = LabelledScreen(b"", (small, whole), ((*place, "B"), (place[0] + 6, place[1], "e")))
    columns = WIDTH // PATCH
    token, within = (
        (4 // 2) * (columns // 2) + 7 // 2,
        (4 % 2) * 2 + 7 % 2,
    )  # patches come by image tokens of two by two
    here = 4 * token + within
    letters, known = reading._letters(screen)
    assert (
        known.all()
        and letters[here].tolist() == [_symbol("B"), _symbol("e"), 0]
        and letters.any(-1).sum() == 1
    )
    names, weight = reading._names(screen)
    assert names[here].tolist() == [_symbol(letter) for letter in "Betelgeuajor"]
    everywhere = [_symbol(letter) for letter in "all"]
    assert names[here - 1].tolist() == [*everywhere, 0, 0, 0, 0, 0, 0, *everywhere]
    assert weight[here] == 1 and weight[here - 1] == pytest.approx(len(weight) ** -0.5)


def test_a_head_reads_the_patch_it_belongs_to(executor):
    """The tower works on patches in the order of its windows; merged in the order of their labels they are
    the image tokens.
    """
    processor, network = executor
    inputs = processor.image_processor([decode_image(page_of(5).screen)] * 2, return_tensors="pt")
    grid = inputs["image_grid_thw"]
    seen = network.model.visual(inputs["pixel_values"], grid)
    ordered = ReadingHeads(network, 0)._in_order(seen.last_hidden_state, grid)
    assert not torch.equal(ordered, seen.last_hidden_state)
    assert torch.allclose(network.model.visual.merger(ordered), seen.pooler_output, atol=1e-6)


def test_reading_is_learned_and_letters_of_walks_are_not_told(executor, walks):
    _, network = executor
    page, grid = page_of(5), torch.tensor([[1, HEIGHT // PATCH, WIDTH // PATCH]])
    reading = ReadingHeads(network, 0)
    reading.heads = torch.nn.ModuleList([torch.nn.Linear(432, head.out_features) for head in reading.heads])
    patches = torch.empty(432, 432)
    patches = patches.copy_(torch.eye(432))  # each patch says which one it is
    optimizer = torch.optim.Adam(reading.heads.parameters(), lr=0.1)
    first, before = reading.loss(patches, grid, [page])
    for _ in range(60):
        loss, after = reading.loss(patches, grid, [page])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < first / 10
    assert before["letters"] < 0.2 < 0.95 < after["letters"] and before["names"] < 0.2 < 0.95 < after["names"]
    reading.heads.zero_grad(set_to_none=False)
    loss, of_walk = reading.loss(patches, grid, [labelled(walks[0][0])])
    loss.backward()
    assert (
        np.isnan(of_walk["letters"])
        and not reading.heads[0].weight.grad.any()
        and reading.heads[1].weight.grad.any()
    )


def test_the_tower_goes_on_reading_while_the_executor_learns_to_point(executor, walks):
    processor, network = executor
    reading, log = ReadingHeads(network, 0), []
    before = reading.heads[0].weight.detach().clone()
    figures = train_vision(
        processor, network, log.append, reading, screens_sampler(walks[:1], 0.5), 2, 0, names=1.0
    )
    seen = reading.heads[0].weight.detach().clone()
    train_language(processor, network, log.append, "executor", page_sampler(walks[:1]), 2, 0, 2, reading)
    assert not torch.equal(before, seen) and not torch.equal(seen, reading.heads[0].weight)
    assert [entry["stage"] for entry in log] == ["vision", "vision", "executor", "executor"]
    assert all({"letters", "names"} <= entry.keys() and np.isfinite(entry["loss"]) for entry in log)
    assert figures.keys() == {"letters", "names"} and all("pointing" in entry for entry in log[2:])


def test_a_tower_of_other_patches_reads_as_well(executor, walks):
    """The towers of the published planner and judges have patches of 42 px."""
    published = CHECKPOINTS / "planner"
    processor, network = load_processor(published), load_network(published, trainable=True, device="cpu")
    assert network.config.vision_config.patch_size != executor[1].config.vision_config.patch_size
    figures = train_vision(
        processor,
        network,
        [].append,
        ReadingHeads(network, 0),
        screens_sampler(walks[:1], 0.0),
        2,
        0,
        names=1.0,
    )
    assert 0 <= figures["names"] <= 1
