"""Executor and planner for a real application: the laptop's, trained on through walks in KAlgebra.

Parts are folders as those of `coda_lib.base_models.recipe`, so that a killed run goes on with the next one.
No task under data/tasks has a part in it: goals are drawn (`coda_lib.base_models.kalgebra.goals`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from coda_lib.base_models import checks as base_checks
from coda_lib.base_models.hindsight import planner_row
from coda_lib.base_models.kalgebra.goals import START, draw_task, draw_text, draw_wish
from coda_lib.base_models.kalgebra.walks import Walk, walk
from coda_lib.base_models.recipe import kept, part, publish_role, trained_agent
from coda_lib.base_models.rows import PROMPTS, SIZE, Row, without_pictures
from coda_lib.base_models.sources import copying_source, pointing_source
from coda_lib.base_models.training import BATCH, train_language, train_vision
from coda_lib.envs.desktop.kalgebra import KAlgebra
from coda_lib.envs.scienceboard.tasks import AppTask
from coda_lib.envs.sciencedesk.script import to_plan
from coda_lib.errors import UserError
from coda_lib.evaluation.statistics import wilson
from coda_lib.files import write_json, write_table, write_text
from coda_lib.models.local import LocalModel, load_network, load_processor
from coda_lib.paths import CHECKPOINTS
from coda_lib.planner import Observation, planner_messages
from coda_lib.rollout import episodes, jobs, rollout
from coda_lib.trajectory import Trajectory

SEED = 0
WORDS = 400  # texts to type
KEPT = CHECKPOINTS / "kalgebra"
GOALS = "goals.parquet"  # one row an episode: what was asked, and what came of it


@dataclass(frozen=True)
class Recipe:
    """Sizes; `scale` shortens all of it for a trial."""

    walks: int = 3  # two at a time
    moments: int = 700  # steps of each
    unseen: int = 300  # steps of another, for the figures
    vision: int = 300  # steps of 32 screens
    executor: int = 400  # steps of 32 screens with 8 plans each, or of 32 texts
    planner: int = 700  # steps of 32 decisions, or of 32 goals with what is typed for them
    samples: int = 400  # rows behind each figure
    goals: int = 60  # that the agent is then asked to reach

    def scaled(self, scale: float) -> Recipe:
        return Recipe(**{name: max(2, round(value * scale)) for name, value in vars(self).items()})


def fitted(size: tuple[int, int]) -> tuple[int, int]:
    """The size at which the laptop's models see any screen."""
    return SIZE


@cache
def words(app: str) -> tuple[str, ...]:
    """Texts that may be typed."""
    rng = random.Random("words")
    return tuple(sorted({draw_text(rng) for _ in range(WORDS)}))


def adapt(folder: Path, recipe: Recipe) -> dict[str, dict[str, Any]]:
    """Walk, train executor and planner in `folder`, and measure them; returns the figures of each, and of both together.

    UserError where KAlgebra is not installed.
    """
    KAlgebra(fit=fitted)  # says what is missing before anything is begun
    seen, unseen = load_walks(folder, recipe)
    return {
        "executor": train_executor(folder, seen, unseen, recipe),
        "planner": train_planner(folder, seen, recipe),
        "agent": reach_goals(folder, seen, recipe),
    }


def load_walks(folder: Path, recipe: Recipe) -> tuple[list[Walk], Walk]:
    """The walks to learn from and one for the figures; each kept in `folder` once made."""
    sizes = {i: recipe.moments for i in range(recipe.walks)} | {recipe.walks: recipe.unseen}
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(partial(_walked, folder), sizes, sizes.values()))
    *seen, unseen = (_walked(folder, i, moments) for i, moments in sizes.items())
    return seen, unseen


def _walked(folder: Path, number: int, moments: int) -> Walk:
    def made() -> Walk:
        env = KAlgebra(fit=fitted)
        try:
            return walk(env, random.Random(f"KAlgebra {SEED} {number}"), moments)
        finally:
            env.close()

    return kept(folder / f"walk_{number}.pickle", made)


def train_executor(folder: Path, seen: list[Walk], unseen: Walk, recipe: Recipe) -> dict[str, Any]:
    """The laptop's executor, its tower first, on what is on the walks' screens."""

    def train(log: Callable[[dict], None]) -> tuple[Any, Any, dict[str, Any]]:
        start = CHECKPOINTS / "executor"
        processor, network = load_processor(start), load_network(start, trainable=True, device="cpu")
        moments = [moment for one in seen for moment in one.moments]
        cells = train_vision(network, processor, moments, recipe.vision, SEED, log)
        point, copies = pointing_source([moments], words), copying_source(words("KAlgebra"))
        drawn = count()

        def draw(rng: random.Random) -> Row | list[Row]:
            return copies(rng) if next(drawn) // BATCH % 4 == 3 else point(rng)

        train_language(network, processor, draw, recipe.executor, SEED, log, "executor")
        return network, processor, {"cell_accuracy": round(cells, 4)}

    made = part(folder / "executor", train)
    if "click_inside" not in made:
        known = {moment.screen for one in seen for moment in one.moments}
        model = LocalModel(folder / "executor", device="cpu")
        made |= base_checks.grounding(model, [unseen.moments], known, recipe.samples, SEED, words)
        write_json(folder / "executor" / "figures.json", made)
    return made


def train_planner(folder: Path, seen: list[Walk], recipe: Recipe) -> dict[str, Any]:
    """From the executor on, by what would have been right at each point of the walks."""

    def train(log: Callable[[dict], None]) -> tuple[Any, Any, dict[str, Any]]:
        start = folder / "executor"
        processor, network = load_processor(start), load_network(start, trainable=True, device="cpu")
        decisions, drawn = [decision for one in seen for decision in one.decisions], count()

        def draw(rng: random.Random) -> Row:
            return typed_row(rng) if next(drawn) // BATCH % 4 == 3 else planner_row(rng.choice(decisions))

        train_language(network, processor, draw, recipe.planner, SEED, log, "planner")
        return network, processor, {"decisions": len(decisions)}

    return part(folder / "planner", train)


def typed_row(rng: random.Random) -> Row:
    """A goal and what is typed for it, without pictures: cheap, and a text is else seen once only."""
    goals, asked = draw_wish(START, rng)
    typed = [goal.typed for goal in goals if goal.typed]
    if not typed:
        return typed_row(rng)
    nothing = Image.new("RGB", SIZE)
    messages = planner_messages(Observation(asked, (), nothing, nothing), PROMPTS)
    return without_pictures(Row(messages, to_plan({"type": typed[0] + "\n"})))


def publish(folder: Path, figures: dict[str, dict[str, Any]], recipe: Recipe) -> None:
    """Replace the committed checkpoints by those in `folder`, each with its card, and the episodes behind the figures."""
    for role in ("executor", "planner"):
        write_text(folder / role / "README.md", _card(role, figures, recipe))
        publish_role(folder, role, KEPT)
    write_table(KEPT / GOALS, pd.read_parquet(folder / GOALS))


def _card(role: str, figures: dict[str, Any], recipe: Recipe) -> str:
    learned = {
        "executor": f"the vision tower on what covers each cell ({recipe.vision} steps of 32 screens), then plans that name "
        f"something on a screen with their actions ({recipe.executor} steps of {BATCH} screens, or texts to copy)",
        "planner": f"as the executor, then what would have been right at each point of the walks ({recipe.planner} steps of "
        f"{BATCH} decisions)",
    }[role]
    measured = figures[role] | figures["agent"]
    rows = "\n".join(f"| {name} | {value} |" for name, value in measured.items())
    return f"""# Tiny {role} for KAlgebra

The laptop's executor (`data/checkpoints/executor`), trained on by `coda apps adapt` on {recipe.walks} walks of
{recipe.moments} steps through KAlgebra 22.12 at 640 x 480, which it sees at 336 x 252: {learned}.
In the walks somebody who knows the way pursues goals that are drawn (`coda_lib/base_models/kalgebra/goals.py`), and does
anything else in one step of four. No task under data/tasks has a part in it.

| measured on a walk that training did not see, and by goals drawn anew | |
| --- | --- |
{rows}
"""


def goals_to_reach(number: int) -> list[AppTask]:
    """Goals drawn anew, as tasks; always the same ones."""
    rng = random.Random("goals to reach")
    return [draw_task(f"KAlgebra/own-{i}", rng) for i in range(number)]


def pursued(folder: Path, tasks: Sequence[AppTask]) -> list[Trajectory]:
    """What the agent of a folder does at tasks in KAlgebra, one run of each, two side by side."""
    return rollout(trained_agent(folder, "adapted"), jobs(tasks, 1), partial(KAlgebra, fit=fitted), SEED, 2)


def reach_goals(folder: Path, seen: list[Walk], recipe: Recipe) -> dict[str, Any]:
    """How many goals, drawn anew, the agent reaches in KAlgebra itself, with Wilson's interval; and of those never asked before.

    What KAlgebra broke twice says nothing about the agent: it is counted apart.  UserError where that is everything.
    """
    path = folder / GOALS
    if not path.exists():
        tasks = goals_to_reach(recipe.goals)
        played = pursued(folder, tasks)
        if all(t.success is None for t in played):
            raise UserError("KAlgebra broke in every episode; `coda apps check KAlgebra` says why")
        asked = pd.Series([task.instruction for task in tasks])
        known = {decision.instruction for one in seen for decision in one.decisions}
        write_table(path, episodes(played, tasks, "adapted", SEED).assign(asked=asked, in_training=asked.isin(known)))
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
