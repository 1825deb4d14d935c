"""The recipe of the base models: walks, vision tower, reader, executor, planner, rollouts, base judge and judge, with their
cards.

Each part is a folder that is complete once it holds figures.json: an interrupted training goes on with the next part.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import getdoc
from itertools import pairwise
from pathlib import Path
from typing import Any

from coda_lib.action import Action, ActionType
from coda_lib.agent import Agent, load_agent
from coda_lib.applications import APPS
from coda_lib.base_models import checks, sources
from coda_lib.base_models.attempts import Attempt, Question, labelled_attempts
from coda_lib.base_models.hindsight import Hindsight
from coda_lib.base_models.lessons import demonstrations, judge_tasks, unseen_lessons
from coda_lib.base_models.reading import Reading
from coda_lib.base_models.sources import BATCH, UNSURE
from coda_lib.base_models.store import cached
from coda_lib.base_models.text_attempts import text_attempts
from coda_lib.base_models.training import Log, Network, build_processor, new_network, train_language, train_vision
from coda_lib.base_models.walks import Transition, collect
from coda_lib.base_models.windows import opened
from coda_lib.config import load_profile
from coda_lib.envs.sciencedesk.elements import Element
from coda_lib.evaluation.deviations import load_deviations
from coda_lib.files import read_json, write_json, write_text
from coda_lib.models.local import ImageTextProcessor, LocalModel, load_network, load_processor
from coda_lib.owned import replaced_folder
from coda_lib.paths import CHECKPOINTS
from coda_lib.rollout import jobs, rollout
from coda_lib.space import write_split
from coda_lib.trajectory import Trajectory, load_trajectories, save_trajectories

ROLES = ("executor", "planner", "base_judge", "judge")
PARTS = ("tower", "reader", *ROLES)  # each begins with the network of the one before it
SEED = 0
KINDS = (Action, ActionType, Attempt, Element, Hindsight, Question, Transition)  # of what is stored


@dataclass(frozen=True)
class Recipe:
    """Sizes of the recipe."""

    walk: int = 20_000  # steps of random walk an application
    test_walk: int = 1_500  # steps of other walks, for the figures
    copying: int = 300  # steps of 64 texts without pictures
    letters: int = 1_600  # steps of 16 pages
    vision: int = 1_200  # steps of 16 screens and pages
    pointing: int = 2_000  # steps of the executor's rows, for the reader
    reader: int = 1_000  # steps of 24 screens
    executor: int = 2_000  # steps of 16 screens with up to 32 plans each, 16 instructions or 16 texts
    demonstrations: int = 800  # an application
    how_tos: int = 400  # steps of 64 how-tos
    values: int = 1_000  # steps of 48 values to copy
    planner: int = 1_000  # steps of 32 rows
    rollouts: int = 1_500  # tasks of the judge an application that the base planner tries
    tries: int = 3  # episodes at each
    attempts: int = 2_500  # an application, by script or of the rollouts, for the judge
    in_words: int = 9_000  # attempts in words an application
    rulings: int = 1_000  # steps of 64 attempts in words
    screens: int = 1_200  # steps of 16 single screens
    scripts: int = 150  # attempts by script an application, for the base judge
    base_judge: int = 300  # steps of 8 attempts
    judge: int = 2_400  # steps of 8 attempts
    samples: int = 1_000  # rows behind each figure of a card

    def scaled(self, scale: float) -> Recipe:
        """The recipe with a share of its samples and steps, for a trial."""
        return replace(self, **{name: max(2, round(value * scale)) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Data:
    """What the parts of a recipe learn from, one list an application; what takes long to make is stored in `folder`."""

    folder: Path
    apps: Sequence[str]
    recipe: Recipe

    def _stored(self, name: str, make: Callable[[str], Any]) -> list[Any]:
        return cached(self.folder / f"{name}.parquet", lambda: [make(app) for app in self.apps], KINDS)

    @cached_property
    def walks(self) -> list[list[Transition]]:
        return self._stored("walks", lambda app: collect(app, self.recipe.walk, SEED))

    @cached_property
    def test_walks(self) -> list[list[Transition]]:
        return self._stored("test_walks", lambda app: collect(app, self.recipe.test_walk, SEED + 1))

    @property
    def demonstrations(self) -> list[list[list[Hindsight]]]:
        return self._stored("demonstrations", lambda app: demonstrations(app, self.recipe.demonstrations, UNSURE, SEED))

    @property
    def in_words(self) -> list[list[Attempt]]:
        return self._stored("in_words", lambda app: text_attempts(app, self.recipe.in_words, SEED))

    @property
    def scripts(self) -> list[list[Attempt]]:
        return [labelled_attempts(walk, [], self.recipe.scripts, SEED + 1) for walk in self.walks]

    @property
    def attempts(self) -> list[list[Attempt]]:
        walks, count = dict(zip(self.apps, self.walks, strict=True)), self.recipe.attempts
        return self._stored("attempts", lambda app: labelled_attempts(walks[app], self.rollouts(app), count, SEED))

    def rollouts(self, app: str, unseen: bool = False) -> list[Trajectory]:
        """The base planner's rollouts at the judge's tasks, or at `unseen` ones of the development region, for the figures.

        It tries each task several times: only both outcomes of a task show what tells them apart.
        """
        path = self.folder / "rollouts" / f"{app}{'-unseen' if unseen else ''}.parquet"
        if not path.exists():
            tasks = [task for _, task in unseen_lessons(app)] if unseen else judge_tasks(app)
            drawn = random.Random(f"rollouts of {app}").sample(tasks, min(self.recipe.rollouts, len(tasks)))
            agent, play = trained_agent(self.folder, "base"), jobs(drawn, self.recipe.tries)
            save_trajectories(path, rollout(agent, play, partial(opened, app), SEED))
        return load_trajectories(path)


# -- parts ---------------------------------------------------------------------------------------------------------------


def train_all(
    folder: Path, apps: Sequence[str], scale: float = 1.0, publish: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Train tower, reader, executor, planner and judges in `folder`, one from the other; returns the figures of each role.

    With `publish` the finished checkpoints replace those under data/checkpoints.  `progress(done, total)` counts the parts.
    """
    data, figures = Data(folder, apps, Recipe().scaled(scale)), {}
    train_tower(data)
    progress(1, len(PARTS))
    for done, (before, name) in enumerate(pairwise(PARTS), start=2):
        part(folder / name, partial(load_checkpoint, folder / before), partial(train_stages, data, name))
        if name in ROLES:
            figures[name] = measured(data, name)
        progress(done, len(PARTS))
    if publish:
        for role in ROLES:
            publish_role(folder, role, CHECKPOINTS)
    return figures


def train_tower(data: Data) -> None:
    """The common start: copying of texts, then the vision tower on letters, and on what covers each patch of a screen."""

    def load() -> tuple[ImageTextProcessor, Network]:
        return (words := build_processor(data.walks)), new_network(words, SEED)

    def train(words: ImageTextProcessor, network: Network, log: Log) -> dict[str, Any]:
        copying = sources.copying_source(sources.vocabulary(data.walks))
        train_language(words, network, log, "copying", copying, data.recipe.copying, SEED, 64)
        reading, learn = Reading(network, SEED), partial(train_vision, words, network, log)
        learn(reading, sources.screens_source(data.walks, 1.0, 0.5), data.recipe.letters, SEED, names=0.0, rate=1.5e-3)
        return learn(reading, sources.screens_source(data.walks, 0.6), data.recipe.vision, SEED, names=2.0)

    part(data.folder / "tower", load, train)


def stages(recipe: Recipe) -> dict[str, list[tuple]]:
    """The stages of each part after the tower: name, source, its arguments out of `Data`, steps, seed and batch."""
    point = "executor", sources.executor_source, lambda data: (data.walks,)
    return {
        "reader": [
            (*point, recipe.pointing, SEED + 1, sources.SCREENS),
            ("reader", sources.reader_source, lambda data: (data.walks,), recipe.reader, SEED, 24),
        ],
        "executor": [(*point, recipe.executor, SEED, sources.SCREENS)],
        "planner": [
            ("copying", sources.how_to_source, lambda data: (data.apps,), recipe.how_tos, SEED, 64),
            ("copying", sources.value_source, lambda data: (data.apps,), recipe.values, SEED, 48),
            ("planner", sources.planner_source, lambda data: (data.walks, data.demonstrations), recipe.planner, SEED, BATCH),
        ],
        "base_judge": [
            ("copying", sources.ruling_source, lambda data: (data.apps, data.in_words), recipe.rulings, SEED, sources.RULINGS),
            ("screens", sources.screen_source, lambda data: (data.walks,), recipe.screens, SEED, 16),
            ("judge", sources.judge_source, lambda data: (data.walks, data.scripts, data.in_words), recipe.base_judge, SEED, 8),
        ],
        "judge": [
            ("judge", sources.judge_source, lambda data: (data.walks, data.attempts, data.in_words), recipe.judge, SEED, 8),
        ],
    }


def train_stages(data: Data, name: str, words: ImageTextProcessor, network: Network, log: Log) -> dict[str, Any]:
    """Train a network on the stages of a part, one after the other."""
    for stage, source, arguments, steps, seed, batch in stages(data.recipe)[name]:
        reading = Reading(network, seed) if stage == "executor" else None
        train_language(words, network, log, stage, source(*arguments(data)), steps, seed, batch, reading)
    return {}


def load_checkpoint(folder: Path) -> tuple[ImageTextProcessor, Network]:
    """Processor and network of a checkpoint, to be trained on."""
    return load_processor(folder), load_network(folder, trainable=True, device="cpu")


def part(folder: Path, load: Callable, train: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The figures of a part of a recipe: `train` makes them with what `load` gives, unless the part is complete already."""
    if not (done := folder / "figures.json").exists():
        log = folder.with_name(f"{folder.name}.jsonl")
        write_text(log, "")
        words, network = load()
        figures = train(words, network, partial(_append, log))
        with replaced_folder(folder) as temporary:  # as a hub would hold it, processor and tokenizer beside weights
            network.save_pretrained(temporary)
            words.save_pretrained(temporary)
        write_json(done, figures)
    return read_json(done)


def _append(path: Path, entry: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def trained_agent(folder: Path, name: str) -> Agent:
    """Planner and executor of a recipe's folder, sampled as in the laptop profile."""
    return load_agent(load_profile("laptop"), name, *(str(folder.resolve() / role) for role in ("planner", "executor")))


def publish_role(folder: Path, role: str, checkpoints: Path) -> None:
    """Replace the checkpoint of a role under `checkpoints` by the one in `folder`."""
    with replaced_folder(checkpoints / role) as temporary:
        shutil.copytree(folder / role, temporary)
        write_split(temporary, APPS)


# -- figures and cards ---------------------------------------------------------------------------------------------------


def measured(data: Data, role: str) -> dict[str, Any]:
    """The figures of a role, measured on walks and attempts that training did not see; writes its card with them."""
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
            unseen = [data.rollouts(app, unseen=True) for app in data.apps]
            figures = checks.judging(model, data.test_walks, unseen, samples, SEED + 1)
        write_json(folder / "figures.json", {"figures": figures})
        write_text(folder / "README.md", card(role, figures, data.recipe))
    return figures


def card(role: str, figures: dict[str, Any], recipe: Recipe) -> str:
    """The card of a checkpoint; it describes the rows of a stage by the docstring of their source."""
    (row,) = (deviation for deviation in load_deviations() if deviation.id == f"{role}-model")
    name, earlier = role.replace("_", " "), ROLES[: ROLES.index(role)]
    learned = "\n".join(
        f"* {steps} steps with batches of {batch}. {' '.join(getdoc(source).split())}"
        for _, source, _, steps, _, batch in stages(recipe)[role]
    )
    table = "\n".join(f"| {figure} | {value} |" for figure, value in figures.items())
    return f"""# Tiny {name}

A Qwen2.5-VL network of about two million parameters, trained from scratch on two CPU cores (appendix notebook A1). In the laptop
profile it stands for the {name} of the paper. It works in ScienceDesk only.

From `data/deviations.yaml`, the list of all differences from the paper:

| the paper's {name} | why this one |
| --- | --- |
| {row.paper} | {row.why} |

Architecture: `coda_lib/base_models/architecture.py` (336 x 252 screens in patches of 14 px, merged to 108 tokens).

Training by the recipe of A1, on random walks of {recipe.walk} steps through each application: texts to copy ({recipe.copying} \
steps), the vision tower on the letters of pages ({recipe.letters} steps) and on what covers each patch ({recipe.vision} steps), \
pointing ({recipe.pointing} steps), reading screens out ({recipe.reader} \
steps){"".join(f", then as the {before.replace('_', ' ')}" for before in earlier)}. Then:

{learned}

| measured on screens not seen in training ({recipe.samples} rows; greedy) | |
| --- | --- |
{table}

Figures called "swapped" are the same with the screenshot of another state: they must be lower for a model that looks.
{"The plans stay as they were: the accuracy that remains rests on words." if "judge" in role else ""}"""
