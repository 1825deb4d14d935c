"""The recipe of the base models: walks, vision tower, reader, executor, planner, rollouts, base judge and
judge, with their cards.  Those of real applications begin with ScienceDesk's executor, which has learned to
read letters and to find what is named.

Each part is a folder that is complete once it holds figures.json: an interrupted training goes on in the
stage where it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from inspect import getdoc
from itertools import pairwise
from pathlib import Path
from typing import Any

from base_models import checks, sources
from base_models.architecture import PIXELS
from base_models.checkpointing import Journal, Kept
from base_models.data import SEED, Data, Recipe, are_real
from base_models.reading import Reading
from base_models.sources import BATCH
from base_models.training import Network, build_processor, new_network, train_language, train_vision
from coda_lib.applications import APPS
from coda_lib.files import read_json, write_json, write_text
from coda_lib.models.local import ImageTextProcessor, LocalModel, load_network, load_processor
from coda_lib.paths import CHECKPOINTS
from coda_study.evaluation.paper import load_deviations
from coda_study.owned import replaced_folder
from sciencedesk.space import write_split

ROLES = ("executor", "planner", "base_judge", "judge")
PARTS = ("tower", "reader", *ROLES)  # each begins with the network of the one before it
ONWARD = CHECKPOINTS / "executor"  # what the first part of real applications begins with

# -- parts --------------------------------------------------------------------------------------------------


def train_all(
    folder: Path, apps: Sequence[str], scale: float = 1.0, publish: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Train tower, reader, executor, planner and judges in `folder`, one from the other; returns the figures
    of each role.

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
        for role in ROLES:
            publish_role(folder, role, CHECKPOINTS / "desktop" if are_real(apps) else CHECKPOINTS, apps)
    return figures


def train_tower(data: Data) -> None:
    """The common start: copying of texts, then the tower on letters and on what covers each patch."""

    def load() -> tuple[ImageTextProcessor, Network]:
        return (words := build_processor(data.walks)), new_network(words, SEED)

    def train(words: ImageTextProcessor, network: Network, log: Journal) -> dict[str, Any]:
        copying = sources.copying_source(sources.vocabulary(data.walks))
        train_language(words, network, log, "copying", copying, data.recipe.copying, SEED, 64)
        reading, learn = Reading(network, SEED), partial(train_vision, words, network, log)
        learn(
            reading,
            sources.screens_source(data.walks, 1.0, 0.5),
            data.recipe.letters,
            SEED,
            names=0.0,
            rate=1.5e-3,
        )
        return learn(reading, sources.screens_source(data.walks, 0.6), data.recipe.vision, SEED, names=2.0)

    part(data.folder / "tower", load, train)


def stages(recipe: Recipe, apps: Sequence[str]) -> dict[str, list[tuple]]:
    """The stages of each part after the tower: name, source, arguments, steps, seed and batch."""
    point = "executor", sources.executor_source, lambda data: (data.walks,)
    judge = "judge", sources.judge_source
    look = (
        "vision",
        sources.screens_source,
        lambda data: (data.walks, 0.3),
        recipe.vision,
        SEED,
        sources.SCREENS,
    )
    return {
        "reader": [
            (*point, recipe.pointing, SEED + 1, sources.SCREENS),
            ("reader", sources.reader_source, lambda data: (data.walks,), recipe.reader, SEED, 24),
        ],
        "executor": [*([look] if are_real(apps) else []), (*point, recipe.executor, SEED, sources.SCREENS)],
        "planner": [
            ("copying", sources.how_to_source, lambda data: (data.apps,), recipe.how_tos, SEED, 64),
            ("copying", sources.value_source, lambda data: (data.apps,), recipe.values, SEED, 48),
            (
                "planner",
                sources.planner_source,
                lambda data: (data.walks, data.demonstrations),
                recipe.planner,
                SEED,
                BATCH,
            ),
        ],
        "base_judge": [
            (
                "copying",
                sources.ruling_source,
                lambda data: (data.apps, data.in_words),
                recipe.rulings,
                SEED,
                sources.RULINGS,
            ),
            ("screens", sources.screen_source, lambda data: (data.judged_walks,), recipe.screens, SEED, 16),
            (
                *judge,
                lambda data: (data.judged_walks, data.scripts, data.in_words),
                recipe.base_judge,
                SEED,
                8,
            ),
        ],
        "judge": [
            (*judge, lambda data: (data.judged_walks, data.attempts, data.in_words), recipe.judge, SEED, 8)
        ],
    }


def train_stages(
    data: Data, name: str, words: ImageTextProcessor, network: Network, log: Journal
) -> dict[str, Any]:
    """Train a network on the stages of a part, one after the other; goes on where it was interrupted."""
    reading = None  # the executor's rows go on with what the vision tower's screens have trained
    kept = Kept(data.folder / "kept.pt", name, log=log)
    going_on = kept.stage
    for number, (stage, source, arguments, steps, seed, batch) in enumerate(
        stages(data.recipe, data.apps)[name]
    ):
        if stage in ("vision", "executor"):
            reading = reading or Reading(network, seed)
        if number < going_on:
            continue
        draw = source(*arguments(data))
        if stage == "vision":
            train_vision(words, network, log, reading, draw, steps, seed, names=1.0, kept=kept)
        else:
            of_stage = reading if stage == "executor" else None
            train_language(words, network, log, stage, draw, steps, seed, batch, of_stage, kept=kept)
        kept.finish()
    return {}


def load_checkpoint(folder: Path) -> tuple[ImageTextProcessor, Network]:
    """Processor and network of a checkpoint, to be trained on, with the limits of `PIXELS`."""
    words = load_processor(folder)
    words.image_processor.size = PIXELS
    return words, load_network(folder, trainable=True, device="cpu")


def part(folder: Path, load: Callable, train: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The figures of a part of a recipe, made by `train` unless the part is complete already."""
    if not (done := folder / "figures.json").exists():
        words, network = load()
        figures = train(words, network, Journal(folder.with_name(f"{folder.name}.jsonl")))
        with replaced_folder(
            folder
        ) as temporary:  # as a hub would hold it, processor and tokenizer beside weights
            network.save_pretrained(temporary)
            words.save_pretrained(temporary)
        write_json(done, figures)
    return read_json(done)


def publish_role(folder: Path, role: str, checkpoints: Path, apps: Sequence[str] = APPS) -> None:
    """Replace the checkpoint of a role under `checkpoints` by the one in `folder`."""
    with replaced_folder(checkpoints / role) as temporary:
        shutil.copytree(folder / role, temporary)
        write_split(temporary, apps)


# -- figures and cards -------------------------------------------------------------------------------------


def measured(data: Data, role: str) -> dict[str, Any]:
    """The figures of a role on unseen walks and attempts; writes its card with them."""
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
    """The card of a checkpoint; it describes the rows of a stage by the docstring of their source."""
    (row,) = (deviation for deviation in load_deviations() if deviation.id == f"{role}-model")
    name, earlier = role.replace("_", " "), ROLES[: ROLES.index(role)]
    learned = "\n".join(
        f"* {steps} steps with batches of {batch}. {' '.join(getdoc(source).split())}"
        for _, source, _, steps, _, batch in stages(recipe, apps)[role]
    )
    if are_real(apps):
        profile, where, origin = (
            "desktop",
            ", ".join(apps),
            "from ScienceDesk's executor (`data/checkpoints/executor`)",
        )
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
    seen = (
        f" (the judges: {recipe.judged_walk})" if recipe.judged_walk < recipe.walk and "judge" in role else ""
    )
    begun += [f"then as the {before.replace('_', ' ')}" for before in earlier]
    table = "\n".join(f"| {figure} | {value} |" for figure, value in figures.items())
    return f"""# Tiny {name}

A Qwen2.5-VL network of about two million parameters, trained {origin} on two CPU cores (appendix notebook A1). In the \
{profile} profile it stands for the {name} of the paper. It works in {where} only.

From `data/deviations.yaml`, the list of all differences from the paper:

| the paper's {name} | why this one |
| --- | --- |
| {row.paper} | {row.why} |

Architecture: `base_models/architecture.py` (336 x 252 screens in patches of 14 px, merged to 108 tokens).

Training by the recipe of A1, on random walks of {recipe.walk} steps through each application{seen}: {", ".join(begun)}. Then:

{learned}

| measured on screens not seen in training ({recipe.samples} rows; greedy) | |
| --- | --- |
{table}

Figures called "swapped" are the same with the screenshot of another state: they must be lower for a model that looks.
{"The plans stay as they were: the accuracy that remains rests on words." if "judge" in role else ""}"""
