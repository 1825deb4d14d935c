"""A training that is killed goes on to the same weights."""

from __future__ import annotations

import json
import random
from functools import partial

import pytest
import torch
from tiny_models import save_tiny

from base_models import checkpointing, recipe
from base_models.checkpointing import Checkpointer, Journal
from base_models.data import Data, Recipe
from base_models.recipe import load_checkpoint


class Killed(Exception):
    pass


def trained(folder, start, walks, monkeypatch, killed_at: int | None = None) -> tuple[dict, list[dict]]:
    """The weights and log of the executor's two stages, six steps each, of which one may be interrupted."""
    made = Data(folder, ["PyMOL"], Recipe(vision=6, executor=6))
    made.__dict__["walks"] = walks
    processor, network = load_checkpoint(start)
    taken = 0

    step = torch.optim.AdamW.step

    def counted(self, *arguments, **options):
        nonlocal taken
        taken += 1
        if taken == killed_at:
            raise Killed
        return step(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", counted)
        patch.setattr(recipe.sources, "SCREENS", 2)
        patch.setattr(checkpointing, "EVERY", 2)
        recipe.train_stages(made, "executor", processor, network, Journal(folder / "executor.jsonl"))
    entries = [json.loads(line) for line in (folder / "executor.jsonl").read_text().splitlines()]
    return network.state_dict(), [
        {name: entry[name] for name in entry if name != "seconds"} for entry in entries
    ]


@pytest.mark.parametrize("killed_at", [1, 4, 6, 9, 12])
def test_a_killed_training_ends_with_the_same_weights_and_log(tmp_path, walks, monkeypatch, killed_at):
    start = save_tiny(tmp_path / "start")
    whole, log = trained(tmp_path / "whole", start, walks[:1], monkeypatch)
    with pytest.raises(Killed):
        trained(tmp_path / "killed", start, walks[:1], monkeypatch, killed_at)
    weights, again = trained(tmp_path / "killed", start, walks[:1], monkeypatch)
    assert again == log and len(log) == 4
    assert weights.keys() == whole.keys() and all(torch.equal(weights[name], whole[name]) for name in whole)
    begun = load_checkpoint(start)[1].state_dict()
    assert not all(torch.equal(whole[name], begun[name]) for name in whole)


def test_what_is_kept_of_another_part_is_not_taken(tmp_path):
    layer = torch.nn.Linear(2, 2)
    checkpointer = Checkpointer(tmp_path / "checkpointing.pt", "executor")
    assert checkpointer.restore(layer=layer) == (0, {})
    checkpointer.next_stage()
    checkpointer.save(5, 5, {"average": 0.5})
    assert (
        Checkpointer(tmp_path / "checkpointing.pt", "executor").stage,
        Checkpointer(tmp_path / "checkpointing.pt", "planner").stage,
    ) == (1, 0)
    other = torch.nn.Linear(2, 2)
    assert Checkpointer(tmp_path / "checkpointing.pt", "planner").restore(layer=other) == (0, {})
    assert Checkpointer(tmp_path / "checkpointing.pt", "executor").restore(layer=other) == (
        5,
        {"average": 0.5},
    )
    assert torch.equal(other.weight, layer.weight)
    Checkpointer().save(1, 1, {})  # nowhere


def test_a_journal_goes_back(tmp_path):
    journal = Journal(tmp_path / "log.jsonl")
    journal({"step": 0})
    state = journal.state_dict()
    journal({"step": 25})
    journal.load_state_dict(state)
    assert (tmp_path / "log.jsonl").read_text() == '{"step": 0}\n'


def test_skipping_draws_what_was_drawn():
    rng, other = random.Random(0), random.Random(0)
    drawn = [rng.random() for _ in range(7)]
    checkpointing.skip(partial(random.Random.random), 6, other)
    assert other.random() == drawn[6]
