"""The whole recipe of the base models: walks, tower, reader, executor, planner, rollouts, judge; figures and cards.

Each part is a folder that is complete once it holds figures.json, so that a killed run goes on with the next part.
"""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformers import Qwen2_5_VLForConditionalGeneration

from coda_lib import base_checks
from coda_lib.agent import DualAgent
from coda_lib.base_models import (
    BATCH,
    build_processor,
    collect,
    copying_source,
    executor_source,
    new_network,
    planner_source,
    reader_source,
    train_language,
    train_vision,
)
from coda_lib.base_rows import PROMPTS
from coda_lib.envs.sciencedesk.env import ScienceDesk
from coda_lib.envs.sciencedesk.walk import Moment
from coda_lib.executor import Executor
from coda_lib.files import atomic_path, read_json, remove, write_json, write_text
from coda_lib.judge_rows import JUDGE_BATCH, LOOKS, SHORT, judge_source, judge_tasks, looking_source
from coda_lib.ledger import load_deviations
from coda_lib.model import LocalModel, Sampling, load_network, load_processor
from coda_lib.paths import CHECKPOINTS
from coda_lib.planner import Planner
from coda_lib.rollout import jobs, rollout
from coda_lib.trajectory import Trajectory, load_trajectories, save_trajectories

ROLES = ("executor", "planner", "judge")
_START = {"executor": "reader", "planner": "tower", "judge": "reader"}
SEED = 0
SAMPLING = Sampling(temperature=1.0, top_p=0.9, max_new_tokens=32)  # of the laptop profile


@dataclass(frozen=True)
class Recipe:
    """Sizes of the recipe; `scale` shortens all of it for a trial."""

    moments: int = 20_000  # steps of random walk an application
    unseen: int = 1_500  # further steps, of other walks, for the figures
    copying: int = 300  # steps of 64 texts without pictures
    vision: int = 800  # steps of 32 screens
    pointing: int = 2_000  # steps of the executor's, for the reader
    reader: int = 1_000  # steps of 24 screens
    executor: int = 2_000  # steps of 32 screens with 8 plans each, 32 instructions or 32 texts
    planner: int = 1_500  # steps of 32 rows
    rollouts: int = 300  # tasks an application, of the judge's own, that the base planner tries once
    retries: int = 16  # further episodes at each short one of these
    looks: int = 900  # steps of 20 single screens
    judge: int = 3_000  # steps of 8 attempts
    samples: int = 1_000  # rows behind each figure of a card

    def scaled(self, scale: float) -> Recipe:
        return Recipe(**{name: max(2, round(value * scale)) for name, value in vars(self).items()})


def train_all(folder: Path, apps: Sequence[str], scale: float = 1.0, publish: bool = False) -> dict[str, dict[str, Any]]:
    """Train tower, reader, executor, planner and judge in `folder`; returns the figures of each role.

    With `publish` the finished checkpoints replace those under data/checkpoints.
    """
    recipe = Recipe().scaled(scale)
    walks = load_walks(folder, apps, recipe)
    train_tower(folder, walks[0], recipe)
    train_reader(folder, walks[0], recipe)
    figures = {role: train_role(folder, role, walks, recipe) for role in ("executor", "planner")}
    roll_out(folder, apps, recipe)
    figures |= {"judge": train_role(folder, "judge", walks, recipe)}
    if publish:
        for role in ROLES:
            publish_role(folder, role)
    return figures


def load_walks(folder: Path, apps: Sequence[str], recipe: Recipe) -> tuple[list[list[Moment]], list[list[Moment]]]:
    """The walks to learn from and those for the figures, one list an application; kept in `folder` once made."""
    kept = folder / "walks.pickle"
    if not kept.exists():
        made = tuple([collect(app, n, SEED + i) for app in apps] for i, n in enumerate((recipe.moments, recipe.unseen)))
        with atomic_path(kept) as temporary:
            temporary.write_bytes(pickle.dumps(made))
    return pickle.loads(kept.read_bytes())  # our own file of this run, never one from elsewhere


def train_tower(folder: Path, walks: Sequence[Sequence[Moment]], recipe: Recipe) -> dict[str, Any]:
    """The common start of all: copying of texts, then the vision tower on what covers each cell of a screen."""

    def train(log: Callable[[dict], None]) -> tuple[Any, Any, dict[str, Any]]:
        words = build_processor(walks)
        network = new_network(words, SEED)
        train_language(network, words, copying_source(walks), recipe.copying, SEED, log, "copying", batch=64)
        everything = [moment for moments in walks for moment in moments]
        return network, words, {"cell_accuracy": round(train_vision(network, words, everything, recipe.vision, SEED, log), 4)}

    return _part(folder / "tower", train)


def train_reader(folder: Path, walks: Sequence[Sequence[Moment]], recipe: Recipe) -> None:
    """Where executor and judge start: a network that points at what is named, then reads out what a screen says.

    A verdict is one bit an attempt: from that alone a tiny judge learns which instructions are hard, and never to look.
    """

    def train(log: Callable[[dict], None]) -> tuple[Any, Any, dict[str, Any]]:
        words = load_processor(folder / "tower")
        network = load_network(folder / "tower", trainable=True, device="cpu")
        train_language(network, words, executor_source(walks), recipe.pointing, SEED + 1, log, "executor")
        train_language(network, words, reader_source(walks), recipe.reader, SEED, log, "reader", batch=24)
        return network, words, {}

    _part(folder / "reader", train)


def roll_out(folder: Path, apps: Sequence[str], recipe: Recipe) -> None:
    """Let the base planner try tasks of the judge's own; kept in `folder`/rollouts, an application a file.

    The short ones, which it solves now and then, many times each: it takes both outcomes of one task to see what tells them
    apart.
    """
    for app in apps:
        if not (kept := folder / "rollouts" / f"{app}.parquet").exists():
            agent = DualAgent(
                Planner(LocalModel(folder / "planner", device="cpu"), SAMPLING, PROMPTS),
                Executor(LocalModel(folder / "executor", device="cpu"), SAMPLING, PROMPTS),
                "base",
            )
            tasks = judge_tasks(app)
            drawn = random.Random(f"rollouts of {app}").sample(tasks, min(recipe.rollouts, len(tasks)))
            short = [task for task in drawn if task.grade in SHORT]
            play = jobs(drawn, 1) + [(task, run + 1) for task, run in jobs(short, recipe.retries)]
            save_trajectories(kept, rollout(agent, play, partial(ScienceDesk, app), SEED))


def _rollouts(folder: Path, apps: Sequence[str]) -> tuple[list[list[Trajectory]], list[list[Trajectory]]]:
    """The rollouts to learn from and, of one task in six, those for the figures, one list an application."""
    learnt, kept = [], []
    for app in apps:
        played = load_trajectories(folder / "rollouts" / f"{app}.parquet")
        names = list(dict.fromkeys(t.task_id for t in played))
        held_out = set(names[: len(names) // 6])
        learnt.append([t for t in played if t.task_id not in held_out])
        kept.append([t for t in played if t.task_id in held_out])
    return learnt, kept


def train_role(folder: Path, role: str, walks: Sequence[Sequence[Sequence[Moment]]], recipe: Recipe) -> dict[str, Any]:
    """Train executor, planner or judge from where it starts, and measure it on screens that it did not see."""
    seen, unseen = walks
    apps = [moments[0].app for moments in seen]

    def train(log: Callable[[dict], None]) -> tuple[Any, Any, dict[str, Any]]:
        start = folder / _START[role]
        words = load_processor(start)
        network = load_network(start, trainable=True, device="cpu")
        if role == "judge":
            looks, attempts = looking_source(seen), judge_source(seen, _rollouts(folder, apps)[0])
            train_language(network, words, lambda rng: looks(rng).rows, recipe.looks, SEED, log, "judge", LOOKS)
            train_language(network, words, lambda rng: attempts(rng).rows, recipe.judge, SEED, log, "judge", JUDGE_BATCH)
        else:
            source = {"executor": executor_source, "planner": planner_source}[role](seen)
            train_language(network, words, source, getattr(recipe, role), SEED, log, role)
        return network, words, {}

    made = _part(folder / role, train)
    if "figures" not in made:
        made |= {"figures": measure(folder, role, walks, recipe)}
        write_json(folder / role / "figures.json", made)
        write_text(folder / role / "README.md", card(role, made["figures"], recipe))
    return made["figures"]


def measure(folder: Path, role: str, walks: Sequence[Sequence[Sequence[Moment]]], recipe: Recipe) -> dict[str, Any]:
    """The figures of a role's card."""
    seen, unseen = walks
    model = LocalModel(folder / role, device="cpu")
    if role == "executor":
        known = {moment.screen for moments in seen for moment in moments}
        return base_checks.grounding(model, unseen, known, recipe.samples, SEED)
    if role == "planner":
        return base_checks.planning(model, unseen, recipe.samples, SEED)
    played = _rollouts(folder, [moments[0].app for moments in unseen])[1]
    return base_checks.judging(model, unseen, played, recipe.samples, SEED + 1)


def _part(folder: Path, train: Callable) -> dict[str, Any]:
    done = folder / "figures.json"
    if done.exists():
        return read_json(done)
    log = folder.with_name(f"{folder.name}.jsonl")
    remove(log)
    network, words, figures = train(_appender(log))
    _save(network, words, folder)
    write_json(done, figures)
    return figures


def _appender(path: Path) -> Callable[[dict], None]:
    path.parent.mkdir(parents=True, exist_ok=True)

    def log(entry: dict) -> None:
        with path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    return log


def _save(network: Qwen2_5_VLForConditionalGeneration, words: Any, folder: Path) -> None:
    """Write a checkpoint as a hub would hold it, processor and tokenizer beside the weights."""
    with atomic_path(folder) as temporary:
        network.save_pretrained(temporary)
        words.save_pretrained(temporary)


def publish_role(folder: Path, role: str) -> None:
    """Replace the committed checkpoint of a role by the one in `folder`."""
    with atomic_path(CHECKPOINTS / role) as temporary:
        temporary.mkdir()
        for path in sorted((folder / role).iterdir()):
            (temporary / path.name).write_bytes(path.read_bytes())


_LEARNED = {
    "executor": "two steps in four, plans that name anything visible (or a text to type) with their actions, eight about each "
    "screen, half of the screens drawn because something is not where it usually is; one step in four, an instruction with its "
    "next action, in hindsight of one or two steps of a random walk; one in four, texts to copy",
    "planner": "hindsight of one or two steps of random walks (what a walk happened to achieve, as the instruction, and what "
    "it did, as the plans), alone or under an instruction that asks for something more, three in ten decisions replaced by "
    "anything else that the screen offers; some curiosity (what a walk did next, whatever the instruction says) and questions "
    "that the screen answers. No script, no longer workflow, and no instruction of a test task",
    "judge": "stretches of random walks, attempts by script, whole or marred, and rollouts of the base planner, at "
    "instructions of neither test nor train tasks, each with up to 16 questions about how it ended, drawn so that no question "
    "has one usual answer; all labelled by the application's own check; before that, such questions about single screens",
}


def card(role: str, figures: dict[str, Any], recipe: Recipe) -> str:
    """The checkpoint's card."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in figures.items())
    sizes = {"executor": f"{BATCH} screens or texts", "planner": f"{BATCH} rows", "judge": f"{JUDGE_BATCH} attempts"}
    reader = f"; then pointing ({recipe.pointing} steps) and reading out screens ({recipe.reader} steps)"
    (row,) = (deviation for deviation in load_deviations() if deviation.id == f"{role}-model")
    return f"""# Tiny {role}

A Qwen2.5-VL network of about two million parameters, trained from scratch on two CPU cores (appendix notebook A1). In the
laptop profile it stands for the {role} of the paper; it is of no use outside ScienceDesk.

From `data/deviations.yaml`, where all is listed in which this kit differs from the paper:

| the paper's {role} | why this one |
| --- | --- |
| {row.paper} | {row.why} |

* Architecture: `coda_lib/tiny.py` (patches of 42 px without merging, 336 x 252 screens, 48 tokens a screenshot).
* Start: texts to copy ({recipe.copying} steps), then the vision tower on what covers each 14 px cell ({recipe.vision} steps), on
  random walks of {recipe.moments} steps through each application{reader if _START[role] == "reader" else ""}.
* Learned from ({getattr(recipe, role)} steps of {sizes[role]}): {_LEARNED[role]}.

| measured on screens not seen in training ({recipe.samples} rows; greedy) | |
| --- | --- |
{rows}

Figures called "swapped" are the same with the screenshot of another state: a model that looks must fall there.
"""
