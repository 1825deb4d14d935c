"""Executor and planner for a real application: the laptop's executor, trained on with walks through KAlgebra.

Each part is a folder, complete once it holds figures.json, as in `coda_lib.base_models.recipe`.  No task under data/tasks has a
part in it: goals are drawn (`coda_lib.base_models.kalgebra.goals`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd

from coda_lib.base_models import checks
from coda_lib.base_models.data import KINDS, trained_agent
from coda_lib.base_models.hindsight import planner_row
from coda_lib.base_models.kalgebra.goals import START, draw_goals, draw_task, draw_text
from coda_lib.base_models.kalgebra.walks import Walk, walk
from coda_lib.base_models.lessons import text_row
from coda_lib.base_models.reading import Reading
from coda_lib.base_models.recipe import load_checkpoint, part, publish_role
from coda_lib.base_models.rows import SIZE, Row
from coda_lib.base_models.sources import BATCH, copying_source, mixed, pointing_source, screens_source
from coda_lib.base_models.store import cached
from coda_lib.base_models.training import Log, Network, train_language, train_vision
from coda_lib.envs.desktop.kalgebra import KAlgebra
from coda_lib.envs.scienceboard.tasks import AppTask
from coda_lib.envs.sciencedesk.script import to_plan
from coda_lib.errors import UserError
from coda_lib.evaluation.statistics import wilson
from coda_lib.files import write_json, write_table, write_text
from coda_lib.models.local import ImageTextProcessor, LocalModel
from coda_lib.owned import claim
from coda_lib.paths import CHECKPOINTS
from coda_lib.rollout import episodes, jobs, rollout
from coda_lib.trajectory import Trajectory

SEED = 0
COMMITTED = CHECKPOINTS / "kalgebra"
GOALS = "goals.parquet"  # one row an episode: the instruction and the outcome


@dataclass(frozen=True)
class AdapterRecipe:
    """Sizes of the recipe."""

    walks: int = 3  # two at a time
    walk: int = 700  # steps of each
    test_walk: int = 300  # steps of another, for the figures
    vision: int = 600  # steps of 16 screens
    executor: int = 400  # steps of 32 screens with 8 plans each, or of 32 texts
    planner: int = 700  # steps of 32 decisions, or of 32 goals with what is typed for them
    samples: int = 400  # rows behind each figure
    goals: int = 60  # that the agent is then asked to reach

    def scaled(self, scale: float) -> AdapterRecipe:
        """The recipe with a share of its samples and steps, for a trial."""
        return replace(self, **{name: max(2, round(value * scale)) for name, value in vars(self).items()})


def fitted(size: tuple[int, int]) -> tuple[int, int]:
    """The size at which the laptop's models see any screen."""
    return SIZE


@cache
def texts(app: str) -> tuple[str, ...]:
    """Texts to type."""
    rng = random.Random("words")
    return tuple(sorted({draw_text(rng) for _ in range(400)}))


def adapt(folder: Path, recipe: AdapterRecipe) -> dict[str, dict[str, Any]]:
    """Walk, train executor and planner in `folder`, and measure them; returns the figures of each, and of both together.

    UserError where KAlgebra is not installed, and for a folder that holds something else.
    """
    KAlgebra(fit=fitted)  # UserError before anything is begun
    claim(folder, "models")
    walks, test_walk = load_walks(folder, recipe)
    return {
        "executor": train_executor(folder, walks, test_walk, recipe),
        "planner": train_planner(folder, walks, recipe),
        "agent": reach_goals(folder, walks, recipe),
    }


def load_walks(folder: Path, recipe: AdapterRecipe) -> tuple[list[Walk], Walk]:
    """The walks to learn from and one for the figures; each is stored in `folder`."""
    lengths = {i: recipe.walk for i in range(recipe.walks)} | {recipe.walks: recipe.test_walk}
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(partial(_load_walk, folder), lengths, lengths.values()))
    *walks, test_walk = (_load_walk(folder, i, length) for i, length in lengths.items())
    return walks, test_walk


def _load_walk(folder: Path, number: int, length: int) -> Walk:
    def make() -> Walk:
        with KAlgebra(fit=fitted) as env:
            return walk(env, random.Random(f"KAlgebra {SEED} {number}"), length)

    return cached(folder / f"walk_{number}.parquet", make, (*KINDS, Walk))


def train_executor(folder: Path, walks: Sequence[Walk], test_walk: Walk, recipe: AdapterRecipe) -> dict[str, Any]:
    """Train the laptop's executor, its tower first, on the walks' screens."""
    screens = [transition for one in walks for transition in one.transitions]

    def train(words: ImageTextProcessor, network: Network, log: Log) -> dict[str, Any]:
        read = screens_source([screens], pages=0.0)
        figures = train_vision(words, network, log, Reading(network, SEED), read, recipe.vision, SEED, names=1.0)
        point, copies = pointing_source([screens], texts), copying_source(texts("KAlgebra"))
        train_language(words, network, log, "executor", mixed(point, point, point, copies), recipe.executor, SEED)
        return {"patches_named": figures["names"]}

    figures = part(folder / "executor", partial(load_checkpoint, CHECKPOINTS / "executor"), train)
    if "click_inside" not in figures:
        known = {transition.screen for transition in screens}
        model = LocalModel(folder / "executor", device="cpu")
        figures |= checks.grounding(model, [test_walk.transitions], known, recipe.samples, SEED, texts)
        write_json(folder / "executor" / "figures.json", figures)
    return figures


def train_planner(folder: Path, walks: Sequence[Walk], recipe: AdapterRecipe) -> dict[str, Any]:
    """Train the planner, from the executor, on the right decisions at each point of the walks."""
    decisions = [decision for one in walks for decision in one.decisions]

    def decide(rng: random.Random) -> Row:
        return planner_row(rng.choice(decisions))

    def train(words: ImageTextProcessor, network: Network, log: Log) -> dict[str, Any]:
        source = mixed(decide, decide, decide, typed_row)
        train_language(words, network, log, "planner", source, recipe.planner, SEED)
        return {"decisions": len(decisions)}

    return part(folder / "planner", partial(load_checkpoint, folder / "executor"), train)


def typed_row(rng: random.Random) -> Row:
    """A goal and the text to type for it, without pictures: in walks a text occurs only once."""
    goals, instruction = draw_goals(START, rng)
    typed = [goal.typed for goal in goals if goal.typed]
    if not typed:
        return typed_row(rng)
    return text_row(instruction, (), to_plan({"type": typed[0] + "\n"}))


def publish(folder: Path, figures: dict[str, dict[str, Any]], recipe: AdapterRecipe) -> None:
    """Replace the committed checkpoints by those in `folder`, each with its card, and the episodes behind the figures."""
    for role in ("executor", "planner"):
        write_text(folder / role / "README.md", _card(role, figures, recipe))
        publish_role(folder, role, COMMITTED)
    write_table(COMMITTED / GOALS, pd.read_parquet(folder / GOALS))


def _card(role: str, figures: dict[str, Any], recipe: AdapterRecipe) -> str:
    learned = {
        "executor": f"the vision tower on what covers each cell ({recipe.vision} steps of 16 screens), then plans that name "
        f"something on a screen with their actions ({recipe.executor} steps of {BATCH} screens, or texts to copy)",
        "planner": f"as the executor, then the right decision at each point of the walks ({recipe.planner} steps of {BATCH} "
        "decisions)",
    }[role]
    table = "\n".join(f"| {name} | {value} |" for name, value in (figures[role] | figures["agent"]).items())
    return f"""# Tiny {role} for KAlgebra

The laptop's executor (`data/checkpoints/executor`), trained on by `coda apps adapt` with {recipe.walks} walks of {recipe.walk} \
steps through KAlgebra 22.12 at 640 x 480, which it sees at 336 x 252: {learned}. In the walks a demonstrator with 25 % random \
steps pursues drawn goals (`coda_lib/base_models/kalgebra/goals.py`). No task under data/tasks has a part in it.

| measured on a walk that training did not see, and by newly drawn goals | |
| --- | --- |
{table}
"""


def goals_to_reach(number: int) -> list[AppTask]:
    """Newly drawn goals as tasks, always the same ones."""
    rng = random.Random("goals to reach")
    return [draw_task(f"KAlgebra/own-{i}", rng) for i in range(number)]


def play(folder: Path, tasks: Sequence[AppTask]) -> list[Trajectory]:
    """Episodes of a folder's agent in KAlgebra, one run of each task, two side by side."""
    return rollout(trained_agent(folder, "adapted"), jobs(tasks, 1), partial(KAlgebra, fit=fitted), SEED, 2)


def reach_goals(folder: Path, walks: Sequence[Walk], recipe: AdapterRecipe) -> dict[str, Any]:
    """How many newly drawn goals the agent reaches in KAlgebra, with Wilson's interval; and how many not asked in training.

    Episodes that KAlgebra broke say nothing about the agent and are counted apart.  UserError if it broke all of them.
    """
    path = folder / GOALS
    if not path.exists():
        tasks = goals_to_reach(recipe.goals)
        played = play(folder, tasks)
        if all(t.success is None for t in played):
            raise UserError("KAlgebra broke in every episode; `coda apps check KAlgebra` says why")
        instructions = pd.Series([task.instruction for task in tasks])
        known = {decision.instruction for one in walks for decision in one.decisions}
        table = episodes(played, tasks, "adapted", SEED)
        write_table(path, table.assign(asked=instructions, in_training=instructions.isin(known)))
    table = pd.read_parquet(path)
    outcomes = table["success"]
    ended = outcomes.dropna().astype(bool)
    new = ended[~table["in_training"]]
    share = wilson(ended.sum(), len(ended))
    return {
        "goals": len(ended), "reached": int(ended.sum()), "broken": int(outcomes.isna().sum()),
        "share_reached": round(share.value, 4), "low": round(share.low, 4), "high": round(share.high, 4),
        "never_asked_in_training": len(new), "of_these_reached": int(new.sum()),
    }  # fmt: skip
