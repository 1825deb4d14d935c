"""The recipe of the base models: walks, tower, reader, executor, planner, rollouts, base judge and judge.

Each gets its card.  Those of real applications begin with ScienceDesk's executor, which has learned to read
letters and to find what is named.  Each part is a folder that is complete once it holds figures.json: an
interrupted training goes on in the stage where it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from inspect import getdoc
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from base_models import checks, sources
from base_models.architecture import PIXELS
from base_models.checkpointing import Checkpointer, Journal
from base_models.data import SEED, Data, Recipe, are_real
from base_models.reading import ReadingHeads
from base_models.training import Network, build_processor, new_network, train_language, train_vision
from coda_lib.applications import APPS
from coda_lib.files import read_json, write_json, write_text
from coda_lib.models.local import ImageTextProcessor, LocalModel, load_network, load_processor
from coda_lib.paths import CHECKPOINTS
from coda_study.evaluation.paper import load_deviations
from coda_study.owned import replaced_folder
from sciencedesk.sets import write_split

ROLES = ("executor", "planner", "base_judge", "judge")
PARTS = ("tower", "reader", *ROLES)  # each begins with the network of the one before it
ONWARD = CHECKPOINTS / "executor"  # what the first part of real applications begins with


def train_all(
    folder: Path, apps: Sequence[str], scale: float = 1.0, publish: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Train all parts in `folder`, one from the other; returns the figures of each role.

    With `publish` the finished checkpoints replace those under data/checkpoints, or for real applications
    those under its folder desktop.  `progress(done, total)` counts the parts.
    """
    data, figures = Data(folder, apps, Recipe.of(apps).scaled(scale)), {}
    if are_real(apps):
        chain = [ONWARD, *(folder / role for role in ROLES)]
    else:
        chain = [folder / name for name in PARTS]
        train_tower(data)
    for done, (before, after) in enumerate(pairwise(chain), start=1):
        progress(done, len(chain))
        part(after, partial(load_checkpoint, before), partial(train_stages, data, after.name))
        if after.name in ROLES:
            figures[after.name] = measured(data, after.name)
    progress(len(chain), len(chain))
    if publish:
        checkpoints = CHECKPOINTS / "desktop" if are_real(apps) else CHECKPOINTS
        for role in ROLES:
            with replaced_folder(checkpoints / role) as temporary:
                shutil.copytree(folder / role, temporary)
                write_split(temporary, apps)
    return figures


def train_tower(data: Data) -> None:
    """The common start: copying of texts, then the vision tower on letters, and on what covers each patch."""

    def load() -> tuple[ImageTextProcessor, Network]:
        return (processor := build_processor(data.walks)), new_network(processor, SEED)

    def train(processor: ImageTextProcessor, network: Network, log: Journal) -> dict[str, Any]:
        recipe, walks = data.recipe, data.walks
        copying = sources.copying_sampler(walks)
        train_language(processor, network, log, "copying", copying, recipe.copying, SEED, 64)
        learn = partial(train_vision, processor, network, log, ReadingHeads(network, SEED))
        letters, names = sources.screens_sampler(walks, 1.0, 0.5), sources.screens_sampler(walks, 0.6)
        learn(letters, recipe.letters, SEED, names=0.0, rate=1.5e-3)
        return learn(names, recipe.vision, SEED, names=2.0)

    part(data.folder / "tower", load, train)


class Stage(NamedTuple):
    """A stage of a part: a sampler, its arguments out of `Data`, and the steps with batches of `batch`."""

    name: str
    sampler: Callable[..., Any]
    arguments: Callable[[Data], tuple]
    steps: int
    batch: int
    seed: int = SEED


def stages(recipe: Recipe, apps: Sequence[str]) -> dict[str, list[Stage]]:
    """The stages of each part after the tower."""
    point = "executor", sources.executor_sampler, lambda data: (data.walks,)
    vote = "judge", sources.judge_sampler
    look = "vision", sources.screens_sampler, lambda data: (data.walks, 0.3)
    return {
        "reader": [
            Stage(*point, recipe.pointing, sources.SCREENS, SEED + 1),
            Stage("reader", sources.reader_sampler, lambda data: (data.walks,), recipe.reader, 24),
        ],
        "executor": [
            *([Stage(*look, recipe.vision, sources.SCREENS)] if are_real(apps) else []),
            Stage(*point, recipe.executor, sources.SCREENS),
        ],
        "planner": [
            Stage("copying", sources.how_to_sampler, lambda data: (data.apps,), recipe.how_tos, 64),
            Stage("copying", sources.value_sampler, lambda data: (data.apps,), recipe.values, 48),
            Stage("planner", sources.planner_sampler, lambda data: (data.walks, data.demonstrations),
                  recipe.planner, sources.BATCH),
        ],
        "base_judge": [
            Stage("copying", sources.ruling_sampler, lambda data: (data.apps, data.in_words),
                  recipe.rulings, sources.RULINGS),
            Stage("screens", sources.screen_sampler, lambda data: (data.judged_walks,), recipe.screens, 16),
            Stage(*vote, lambda data: (data.judged_walks, data.scripts, data.in_words), recipe.base_judge, 8),
        ],
        "judge": [
            Stage(*vote, lambda data: (data.judged_walks, data.attempts, data.in_words), recipe.judge, 8)
        ],
    }  # fmt: skip


def train_stages(
    data: Data, name: str, processor: ImageTextProcessor, network: Network, log: Journal
) -> dict[str, Any]:
    """Train a network on the stages of a part, one after the other; goes on where it was interrupted."""
    reading = None  # the executor's rows go on with what the vision tower's screens have trained
    checkpointer = Checkpointer(data.folder / "kept.pt", name, log=log)
    first = checkpointer.stage
    for number, stage in enumerate(stages(data.recipe, data.apps)[name]):
        if stage.name in ("vision", "executor"):
            reading = reading or ReadingHeads(network, stage.seed)
        if number < first:
            continue
        draw, arguments = stage.sampler(*stage.arguments(data)), (processor, network, log)
        if stage.name == "vision":
            train_vision(*arguments, reading, draw, stage.steps, stage.seed, 1.0, checkpointer=checkpointer)
        else:
            train_language(
                *arguments, stage.name, draw, stage.steps, stage.seed, stage.batch,
                reading if stage.name == "executor" else None, checkpointer,
            )  # fmt: skip
        checkpointer.next_stage()
    return {}


def load_checkpoint(folder: Path) -> tuple[ImageTextProcessor, Network]:
    """Processor and network of a checkpoint to train on; one of before `PIXELS` gets its limits."""
    processor = load_processor(folder)
    processor.image_processor.size = PIXELS
    return processor, load_network(folder, trainable=True, device="cpu")


def part(folder: Path, load: Callable, train: Callable[..., dict[str, Any]]) -> None:
    """Write a part of a recipe: `train` makes its figures with what `load` gives, unless it is complete."""
    if not (done := folder / "figures.json").exists():
        processor, network = load()
        figures = train(processor, network, Journal(folder.with_name(f"{folder.name}.jsonl")))
        # as a hub would hold it, processor and tokenizer beside weights
        with replaced_folder(folder) as temporary:
            network.save_pretrained(temporary)
            processor.save_pretrained(temporary)
        write_json(done, figures)


# -- figures and cards -------------------------------------------------------------------------------------


def measured(data: Data, role: str) -> dict[str, Any]:
    """The figures of a role on walks and attempts that training did not see; writes its card with them."""
    folder, samples = data.folder / role, data.recipe.samples
    figures = read_json(folder / "figures.json").get("figures")
    if figures is None:
        model = LocalModel(folder, device="cpu")
        if role == "executor":
            known = {transition.screen for walk in data.walks for transition in walk}
            figures = checks.grounding(model, data.test_walks, known, samples, SEED)
        elif role == "planner":
            figures = checks.planning(model, data.test_walks, samples, SEED)
        else:
            figures = checks.judging(model, data.unseen_attempts(), SEED + 1)
        write_json(folder / "figures.json", {"figures": figures})
        write_text(folder / "README.md", card(role, figures, data.recipe, data.apps))
    return figures


def card(role: str, figures: dict[str, Any], recipe: Recipe, apps: Sequence[str] = APPS) -> str:
    """The card of a checkpoint; it describes the rows of a stage by the docstring of their sampler."""
    (row,) = (deviation for deviation in load_deviations() if deviation.id == f"{role}-model")
    name, earlier = role.replace("_", " "), ROLES[: ROLES.index(role)]
    learned = "\n".join(
        f"* {stage.steps} steps with batches of {stage.batch}. {' '.join(getdoc(stage.sampler).split())}"
        for stage in stages(recipe, apps)[role]
    )
    if are_real(apps):
        profile, where = "desktop", ", ".join(apps)
        origin = "from ScienceDesk's executor (`data/checkpoints/executor`)"
        begun = ["begun with ScienceDesk's executor"]
    else:
        profile, where, origin = "laptop", "ScienceDesk", "from scratch"
        begun = [
            f"texts to copy ({recipe.copying} steps)",
            f"the vision tower on the letters of pages ({recipe.letters} steps) "
            f"and on what covers each patch ({recipe.vision} steps)",
            f"pointing ({recipe.pointing} steps)",
            f"reading screens out ({recipe.reader} steps)",
        ]
    is_shorter = recipe.judged_walk < recipe.walk and "judge" in role
    seen = f" (the judges: {recipe.judged_walk})" if is_shorter else ""
    begun += [f"then as the {before.replace('_', ' ')}" for before in earlier]
    table = "\n".join(f"| {figure} | {value} |" for figure, value in figures.items())
    return f"""# Tiny {name}

A Qwen2.5-VL network of about two million parameters, trained {origin} on two CPU cores (appendix notebook \
A1). In the {profile} profile it stands for the {name} of the paper. It works in {where} only.

From `data/deviations.yaml`, the list of all differences from the paper:

| the paper's {name} | why this one |
| --- | --- |
| {row.paper} | {row.why} |

Architecture: `base_models/architecture.py` (336 x 252 screens in patches of 14 px, merged to 108 tokens).

Training by the recipe of A1, on random walks of {recipe.walk} steps through each application{seen}: \
{", ".join(begun)}. Then:

{learned}

| measured on screens not seen in training ({recipe.samples} rows; greedy) | |
| --- | --- |
{table}

Figures called "swapped" are the same with the screenshot of another state: they must be lower for a \
model that looks.
{"The plans stay as they were: the accuracy that remains rests on words." if "judge" in role else ""}"""
