"""The recipe of the base models: a network that sees, then executor, planner, base judge and judge.

Each gets its card.  Those of real applications begin with the network that has learned to see on
ScienceDesk.  What was interrupted goes on in the stage where it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from random import Random

from base_models import cards
from base_models.curriculum import train_executor, train_judge, train_planner, train_to_see
from base_models.data import SEED, Data, Recipe, are_real
from base_models.feeding import ON_GPU
from base_models.hindsight import planner_row
from base_models.network import Pointer
from base_models.rows import executor_row
from base_models.side_by_side import number, side_by_side, wait
from base_models.walks import typed_words
from coda_lib.files import read_json, write_json, write_text
from coda_lib.judge import SAMPLING, Judge, Rule
from coda_lib.models.local import LocalModel
from coda_lib.models.reading import pictured
from coda_lib.paths import CHECKPOINTS
from coda_study.evaluation.paper import load_deviations
from coda_study.owned import replaced_folder
from sciencedesk.sets import write_split

ROLES = ("executor", "planner", "base_judge", "judge")
SEEING = CHECKPOINTS / "seeing"  # what training on real applications begins with
WEIGHTS = "pointer.safetensors"
BEFORE = {  # what a role goes on from, unless from the network that sees; a planner can copy what it has read
    "base_judge": "planner.safetensors", "judge": "base_judge.safetensors",
}  # fmt: skip
SEEN = """# Seeing

The network that executor, planner and judge begin with, with the helps that only training has. Recipe and \
learning curves: `base_models/curriculum.py` and the journals beside this. Its figures are on the executor's \
card.
"""
GREEDY_VOTE = replace(SAMPLING, temperature=0.0)
ONE_VOTE = Rule("single", (("judge", 1),), needed=1)


def train_all(
    folder: Path, apps: Sequence[str], scale: float = 1.0, publish: bool = False, processes: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, list[cards.Figure]]:  # fmt: skip
    """Train all parts in `folder`, one from the other; returns the figures of each role.

    With `publish` the finished checkpoints replace those under data/checkpoints, or for real applications
    those under its folder desktop.  Several `processes` learn side by side, each from batches of its own; a
    GPU has one, for which other processes draw.
    `progress(done, total)` counts the parts.
    """
    data = Data(folder, apps, Recipe.of(apps).scaled(scale))
    with side_by_side(1 if ON_GPU else processes, _all_parts, data):
        figures = _all_parts(data, progress)
    if publish:
        checkpoints = CHECKPOINTS / "desktop" if are_real(apps) else CHECKPOINTS
        for role in ("seeing", *ROLES):
            with replaced_folder(checkpoints / role) as temporary:
                keep = None if role != "seeing" else shutil.ignore_patterns("*.pt")
                shutil.copytree(folder / role, temporary, ignore=keep)
                if role != "seeing":
                    write_split(temporary, apps, data.recipe.split if role == "planner" else None)
    return figures


def _all_parts(
    data: Data, progress: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, list[cards.Figure]]:
    figures, begun = {}, SEEING / WEIGHTS if data.is_real else None
    for done, role in enumerate(("seeing", *ROLES)):
        progress(done, len(ROLES) + 1)
        if role == "seeing":
            if not (data.folder / role / WEIGHTS).exists():
                train_to_see(data.folder / role, data.walks, data.test_walks, data.recipe.seeing, begun)
            write_text(data.folder / role / "README.md", SEEN)
        else:
            figures[role] = trained(data, role)
    progress(len(ROLES) + 1, len(ROLES) + 1)
    return figures


def trained(data: Data, role: str) -> list[cards.Figure]:
    """The figures of a role, which is trained first unless it is complete; writes its checkpoint and card."""
    folder, recipe = data.folder / role, data.recipe
    if not (done := folder / "figures.json").exists():
        weights = data.folder / f"{role}.safetensors"
        if not weights.exists():
            pointer = Pointer.load(data.folder / BEFORE.get(role, f"seeing/{WEIGHTS}"))
            if role == "executor":
                fresh = () if data.is_real else data.apps  # a real application takes too long to start
                train_executor(data.folder, pointer, data.walks, data.test_walks, recipe.roles, fresh)
            elif role == "planner":
                train_planner(data.folder, pointer, data.walks, data.test_walks, data.demonstrations,
                              data.answers, data.shown, data.taught, recipe.roles)  # fmt: skip
            else:
                learn_to_judge(data, pointer, role)
        if number() == 0:
            Pointer.load(weights).publish(folder)
            write_json(done, [asdict(figure) for figure in measured(data, role)])
    wait()
    figures = [cards.Figure(**figure) for figure in read_json(done)]
    write_text(folder / "README.md", card(role, figures, data))
    return figures


def learn_to_judge(data: Data, pointer: Pointer, role: str) -> None:
    """Attempts by script and single screens; of the judge that is tuned, the base planner's attempts too."""
    played = data.told_rollouts() if role == "judge" else []
    pools = [list(chain.from_iterable(of_kind)) for of_kind in (data.told, data.told_screens, played)]
    held, steps = data.recipe.roles.held, vars(data.recipe.roles)[role]
    Random(SEED).shuffle(pools[0])
    pools[0], unseen = pools[0][held:], pools[0][:held]
    train_judge(data.folder, pointer, pools, unseen, held, steps, role)


def measured(data: Data, role: str) -> list[cards.Figure]:
    """The figures of a role on screens, steps and rollouts that no training saw; judges give one vote."""
    model, most, rng = LocalModel(data.folder / role, device="cpu"), data.recipe.samples, Random(SEED)
    if "judge" in role:
        judge = Judge(model, GREEDY_VOTE, votes=1, rule=ONE_VOTE, accounts=pictured)
        return cards.ruled(judge, [rollout for of_app in data.rollouts(unseen=True) for rollout in of_app])
    known = {transition.screen for walk in data.walks for transition in walk}
    asked = cards.questions(data.test_walks, known, most, rng)
    if role == "planner":
        shown = {app: [planner_row(decision) for one in of_app for decision in one][:most]
                 for app, of_app in zip(data.apps, data.shown, strict=True)}  # fmt: skip
        read = cards.measure(model, [one for one in asked if one.kind == "value"])
        return read + cards.replied(model, "step of a script", shown)
    texts = {
        walk[0].app: [
            executor_row(rng.choice(walk), {"type": text}) for text in held_texts(walk[0].app, most)
        ]
        for walk in data.test_walks
    }
    clicks = [one for one in asked if one.kind != "value"] + cards.page_questions(most, rng)
    return cards.measure(model, clicks) + cards.replied(model, "text", texts)


def held_texts(app: str, most: int) -> list[str]:
    """Texts that only tasks of the development region type."""
    return sorted({*typed_words(app, "development")} - {*typed_words(app)})[:most]


def card(role: str, figures: Sequence[cards.Figure], data: Data) -> str:
    """The card of a checkpoint."""
    (row,) = (deviation for deviation in load_deviations() if deviation.id == f"{role}-model")
    name, real = role.replace("_", " "), are_real(data.apps)
    where = ", ".join(data.apps) if real else "ScienceDesk"
    stages = {"executor": (*vars(data.recipe.seeing), "executor"), "planner": ("how_tos", "planner"),
              "base_judge": ("base_judge",), "judge": ("judge",)}[role]  # fmt: skip
    counts = vars(data.recipe.seeing) | vars(data.recipe.roles)
    steps = ", ".join(f"{stage.replace('_', ' ')} {counts[stage]:,}" for stage in stages if stage != "held")
    gap = f" It is taught the goals of split {data.recipe.split} (`data/tasks/knowledge.yaml`)." * (
        role == "planner"
    )
    return f"""# Tiny {name}

A Qwen2.5-VL network of 1.9 million parameters, trained \
{"from the one that sees ScienceDesk" if real else "from scratch"} on two CPU cores (appendix notebook A1). \
In the {"desktop" if real else "laptop"} profile it stands for the {name} of the paper. \
It works in {where} only.

From `data/deviations.yaml`, the list of all differences from the paper:

| the paper's {name} | why this one |
| --- | --- |
| {row.paper} | {row.why} |

Architecture: `base_models/plain.py` (screens of 336 x 252 px in patches of 7 px, merged to 192 tokens). \
Recipe: `base_models/curriculum.py`; steps of its stages: {steps}.{gap}

Measured on what training did not see, greedy, percent with 95 % intervals over things asked; "held back" \
are windows with a look that no training had. With another screen the figure must be lower for a model that \
looks.

{cards.table(figures)}
"""
