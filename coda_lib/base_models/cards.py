"""The cards of the base models' checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coda_lib.base_models.judge_rows import JUDGE_BATCH
from coda_lib.base_models.training import BATCH
from coda_lib.evaluation.deviations import load_deviations

if TYPE_CHECKING:
    from coda_lib.base_models.recipe import Recipe

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
    "how it ended. The plans are told beside the screenshots. One batch in four is without pictures: there what each step did is "
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
