"""The whole recipe of the base models: walks, tower, reader, executor, demonstrations, planner, rollouts, judge; cards.

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

from coda_lib.agent import DualAgent
from coda_lib.base_models import checks as base_checks
from coda_lib.base_models.attempts import Case, ruling_source, told_attempts
from coda_lib.base_models.hindsight import Hindsight
from coda_lib.base_models.judge_rows import JUDGE_BATCH, LOOKS, SHORT, attempts, judge_source, looking_source
from coda_lib.base_models.lessons import demonstrations, judge_tasks
from coda_lib.base_models.rows import PROMPTS
from coda_lib.base_models.sources import (
    UNSURE,
    copying_source,
    executor_source,
    how_to_source,
    planner_source,
    reader_source,
    vocabulary,
)
from coda_lib.base_models.training import BATCH, build_processor, collect, new_network, train_language, train_vision
from coda_lib.base_models.walks import Moment
from coda_lib.envs.sciencedesk.env import ScienceDesk
from coda_lib.evaluation.deviations import load_deviations
from coda_lib.executor import Executor
from coda_lib.files import atomic_path, read_json, remove, write_json, write_text
from coda_lib.models.chat import Sampling
from coda_lib.models.local import LocalModel, load_network, load_processor
from coda_lib.paths import CHECKPOINTS
from coda_lib.planner import Planner
from coda_lib.rollout import jobs, rollout
from coda_lib.trajectory import Trajectory, load_trajectories, save_trajectories

_LEARNED = {
    "executor": "two steps in four, plans that name anything visible (or a text to type) with their actions, eight about each "
    "screen, half of the screens drawn because something is not where it usually is; one step in four, an instruction with its "
    "next action, in hindsight of one or two steps of a random walk; one in four, texts to copy",
    "planner": "one batch in four, how-tos (the steps of a task in words, without a picture); of the rest, 55 % "
    "demonstrations by somebody who does anything else in three steps of ten (attempts that arrive all the same: there it is "
    "about one in seven), 30 % hindsight of one or two steps of random walks (what a walk happened to achieve, as the "
    "instruction, and what it did, as the plans), alone or under an instruction that asks for something more, three in ten "
    "decisions replaced by anything else that the screen offers; some curiosity (what a walk did next, whatever the "
    "instruction says) and questions that the screen answers. How-tos and demonstrations are of tasks none of whose aims a "
    "test or a train task asks for alone; no instruction of a test task is learned",
    "base_judge": "stretches of random walks and attempts by script, and of no planner; a reply says what each step did, what "
    "holds at the end of that which was asked, and then rules. Before that, rulings on attempts told in words, without a "
    "picture, and single screens, each to be read out and with up to 8 questions about what holds there, drawn so that no "
    "question has one usual answer",
    "judge": "stretches of random walks, attempts by script, whole or marred, and rollouts of the base planner, at "
    "instructions of neither test nor train tasks, labelled by the application's own check; a reply says what each step did, "
    "what holds at the end of that which was asked, and then rules. Each attempt is also asked up to 4 further questions about "
    "how it ended. The plans are told beside the screenshots. One batch in three is without pictures: there what each step did is "
    "given, and what then holds is learned",
}
_BEGAN = {
    "executor": "",
    "planner": "; then as the executor",
    "base_judge": "; then as the executor, then as the planner",
    "judge": "; then as the executor, as the planner, then as the base judge",
}


def card(role: str, figures: dict[str, Any], recipe: Recipe) -> str:
    """The checkpoint's card."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in figures.items())
    sizes = {"executor": f"{BATCH} screens or texts", "planner": f"{BATCH} rows"}
    sizes |= dict.fromkeys(("base_judge", "judge"), f"{JUDGE_BATCH} attempts")
    reader = f"; then pointing ({recipe.pointing} steps) and reading out screens ({recipe.reader} steps)"
    (row,) = (deviation for deviation in load_deviations() if deviation.id == f"{role}-model")
    name = role.replace("_", " ")
    return f"""# Tiny {name}

A Qwen2.5-VL network of about two million parameters, trained from scratch on two CPU cores (appendix notebook A1). In the
laptop profile it stands for the {name} of the paper; it is of no use outside ScienceDesk.

From `data/deviations.yaml`, where all is listed in which this kit differs from the paper:

| the paper's {name} | why this one |
| --- | --- |
| {row.paper} | {row.why} |

* Architecture: `coda_lib/base_models/architecture.py` (patches of 42 px without merging, 336 x 252 screens, 48 tokens each).
* Start: texts to copy ({recipe.copying} steps), then the vision tower on what covers each 14 px cell ({recipe.vision} steps), on
  random walks of {recipe.moments} steps through each application{reader}{_BEGAN[role]}.
* Learned from ({getattr(recipe, role)} steps of {sizes[role]}): {_LEARNED[role]}.

| measured on screens not seen in training ({recipe.samples} rows; greedy) | |
| --- | --- |
{rows}

Figures called "swapped" are the same with the screenshot of another state: a model that looks must fall there.
{"The plans stay as they were: what is left there rests on words." if "judge" in role else ""}"""


ROLES = ("executor", "planner", "base_judge", "judge")
ORDER = ("tower", "reader", "executor", "planner", "rollouts", "base_judge", "judge")  # of the parts
_START = {"executor": "reader", "planner": "executor", "base_judge": "planner", "judge": "base_judge"}
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
    demonstrations: int = 400  # an application
    how_tos: int = 400  # steps of 64 how-tos
    planner: int = 1_000  # steps of 32 rows
    rollouts: int = 300  # tasks an application, of the judge's own, that the base planner tries once
    retries: int = 16  # further episodes at each short one of these
    attempts: int = 900  # an application, by script or of the rollouts, that the judge learns from
    told: int = 9_000  # attempts told in words, an application
    rulings: int = 1_000  # steps of 64 attempts told in words
    looks: int = 1_200  # steps of 16 single screens
    scripts: int = 150  # attempts by script an application, that the base judge learns from
    base_judge: int = 300  # steps of 8 attempts
    judge: int = 2_400  # steps of 8 attempts
    samples: int = 1_000  # rows behind each figure of a card

    def scaled(self, scale: float) -> Recipe:
        return Recipe(**{name: max(2, round(value * scale)) for name, value in vars(self).items()})


def train_all(
    folder: Path, apps: Sequence[str], scale: float = 1.0, publish: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Train tower, reader, executor, planner and judge in `folder`, one from the other; returns the figures of each role.

    With `publish` the finished checkpoints replace those under data/checkpoints.  `progress` is told the parts that are done.
    """
    recipe = Recipe().scaled(scale)
    walks = load_walks(folder, apps, recipe)
    parts: dict[str, Callable[[], Any]] = {role: partial(train_role, folder, role, walks, recipe) for role in ROLES}
    parts["tower"] = partial(train_tower, folder, walks[0], recipe)
    parts["reader"] = partial(train_reader, folder, walks[0], recipe)
    parts["rollouts"] = partial(roll_out, folder, apps, recipe)
    made = {}
    for number, name in enumerate(ORDER, start=1):
        made[name] = parts[name]()
        progress(number, len(ORDER))
    if publish:
        for role in ROLES:
            publish_role(folder, role, CHECKPOINTS)
    return {role: made[role] for role in ROLES}


def load_walks(folder: Path, apps: Sequence[str], recipe: Recipe) -> tuple[list[list[Moment]], list[list[Moment]]]:
    """The walks to learn from and those for the figures, one list an application; kept in `folder` once made."""

    def collected() -> tuple[list[list[Moment]], ...]:
        return tuple([collect(app, n, SEED + i) for app in apps] for i, n in enumerate((recipe.moments, recipe.unseen)))

    return kept(folder / "walks.pickle", collected)


def load_demonstrations(folder: Path, apps: Sequence[str], recipe: Recipe) -> list[list[list[Hindsight]]]:
    """What the base planner is shown, one list an application; kept in `folder` once made."""
    made = lambda: [demonstrations(app, recipe.demonstrations, UNSURE, SEED) for app in apps]  # noqa: E731
    return kept(folder / "demonstrations.pickle", made)


def load_attempts(folder: Path, walks: Sequence[Sequence[Moment]], recipe: Recipe) -> list[list[Case]]:
    """The attempts that the judge learns from, one list an application; kept in `folder` once made."""
    played = _rollouts(folder, [moments[0].app for moments in walks])[0]
    made = lambda: [attempts(*pair, recipe.attempts, SEED) for pair in zip(walks, played, strict=True)]  # noqa: E731
    return kept(folder / "attempts.pickle", made)


def load_told(folder: Path, apps: Sequence[str], recipe: Recipe) -> list[list[Case]]:
    """The attempts told in words, one list an application; kept in `folder` once made."""
    return kept(folder / "told.pickle", lambda: [told_attempts(app, recipe.told, SEED) for app in apps])


def kept(path: Path, make: Callable[[], Any]) -> Any:
    """What a file holds; made first where there is none."""
    if not path.exists():
        made = make()
        with atomic_path(path) as temporary:
            temporary.write_bytes(pickle.dumps(made))
    return pickle.loads(path.read_bytes())  # our own file of this run, never one from elsewhere


def train_tower(folder: Path, walks: Sequence[Sequence[Moment]], recipe: Recipe) -> dict[str, Any]:
    """The common start of all: copying of texts, then the vision tower on what covers each cell of a screen."""

    def train(log: Callable[[dict], None]) -> tuple[Any, Any, dict[str, Any]]:
        words = build_processor(walks)
        network = new_network(words, SEED)
        train_language(network, words, copying_source(vocabulary(walks)), recipe.copying, SEED, log, "copying", batch=64)
        everything = [moment for moments in walks for moment in moments]
        return network, words, {"cell_accuracy": round(train_vision(network, words, everything, recipe.vision, SEED, log), 4)}

    return part(folder / "tower", train)


def train_reader(folder: Path, walks: Sequence[Sequence[Moment]], recipe: Recipe) -> None:
    """Where the executor starts: a network that points at what is named, then reads out what a screen says."""

    def train(log: Callable[[dict], None]) -> tuple[Any, Any, dict[str, Any]]:
        words = load_processor(folder / "tower")
        network = load_network(folder / "tower", trainable=True, device="cpu")
        train_language(network, words, executor_source(walks), recipe.pointing, SEED + 1, log, "executor")
        train_language(network, words, reader_source(walks), recipe.reader, SEED, log, "reader", batch=24)
        return network, words, {}

    part(folder / "reader", train)


def roll_out(folder: Path, apps: Sequence[str], recipe: Recipe) -> None:
    """Let the base planner try tasks of the judge's own; kept in `folder`/rollouts, an application a file.

    The short ones, which it solves now and then, many times each: it takes both outcomes of one task to see what tells them
    apart.
    """
    for app in apps:
        if not (kept := folder / "rollouts" / f"{app}.parquet").exists():
            tasks = judge_tasks(app)
            drawn = random.Random(f"rollouts of {app}").sample(tasks, min(recipe.rollouts, len(tasks)))
            short = [task for task in drawn if task.grade in SHORT]
            play = jobs(drawn, 1) + [(task, run + 1) for task, run in jobs(short, recipe.retries)]
            save_trajectories(kept, rollout(trained_agent(folder, "base"), play, partial(ScienceDesk, app), SEED))


def trained_agent(folder: Path, name: str) -> DualAgent:
    """Planner and executor of a recipe's folder, as the laptop profile samples them."""
    planner, executor = (LocalModel(folder / role, device="cpu") for role in ("planner", "executor"))
    return DualAgent(Planner(planner, SAMPLING, PROMPTS), Executor(executor, SAMPLING, PROMPTS), name)


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
    """Train a role from where it starts, and measure it on screens that it did not see."""
    seen, unseen = walks
    apps = [moments[0].app for moments in seen]

    def train(log: Callable[[dict], None]) -> tuple[Any, Any, dict[str, Any]]:
        start = folder / _START[role]
        words = load_processor(start)
        network = load_network(start, trainable=True, device="cpu")
        teach = partial(train_language, network, words)
        if role == "executor":
            teach(executor_source(seen), recipe.executor, SEED, log, role)
        if role == "planner":
            teach(how_to_source(apps), recipe.how_tos, SEED, log, "copying", batch=64)
            teach(planner_source(seen, load_demonstrations(folder, apps, recipe)), recipe.planner, SEED, log, role)
        if role == "base_judge":
            looks, told = looking_source(seen), load_told(folder, apps, recipe)
            teach(ruling_source(apps, told), recipe.rulings, SEED, log, "copying", batch=64)
            teach(lambda rng: looks(rng).rows, recipe.looks, SEED, log, "looks", LOOKS)
            scripts = [attempts(walk, [], recipe.scripts, SEED + 1) for walk in seen]
            teach(judge_source(seen, scripts, told), recipe.base_judge, SEED, log, "judge", JUDGE_BATCH)
        if role == "judge":
            told = load_told(folder, apps, recipe)
            teach(judge_source(seen, load_attempts(folder, seen, recipe), told), recipe.judge, SEED, log, role, JUDGE_BATCH)
        return network, words, {}

    made = part(folder / role, train)
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


def part(folder: Path, train: Callable) -> dict[str, Any]:
    """The figures of a part of a recipe, which `train` makes (network, processor, figures) unless it is done already."""
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


def publish_role(folder: Path, role: str, checkpoints: Path) -> None:
    """Replace the checkpoint of a role under `checkpoints` by the one in `folder`."""
    with atomic_path(checkpoints / role) as temporary:
        temporary.mkdir()
        for path in sorted((folder / role).iterdir()):
            (temporary / path.name).write_bytes(path.read_bytes())
