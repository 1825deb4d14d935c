"""What notebooks show of episodes and verdicts: episodes by script, prompts as text, source, small tables."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import fill

import numpy as np
import pandas as pd
from IPython.display import HTML
from PIL import Image
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from coda_lib.agent import Decision, ScriptAgent
from coda_lib.config import Profile, Section
from coda_lib.dataset import positives
from coda_lib.judge import Rule, positive_steps, read_verdict
from coda_lib.models.chat import Message
from coda_lib.paths import PROFILES
from coda_lib.planner import Observation, is_cut
from coda_lib.rollout import rollout
from coda_lib.task import Task
from coda_lib.trajectory import Step, Trajectory, encode_image
from coda_study.evaluation import statistics
from sciencedesk.env import ScienceDesk

WIDTH = 100  # characters: longer lines are broken in the middle of words on a page

# ---- code and settings ------------------------------------------------------------------------------------


def source(*functions: Callable, docstrings: bool = True) -> HTML:
    """The source of functions, with or without their docstrings, as highlighted code."""
    read = inspect.getsource if docstrings else _without_docstring
    code = "\n\n".join(map(read, functions))
    colors = "color: #1a1a1a; background: #ffffff; "
    box = colors + "border: 1px solid #dddddd; padding: 0.5em"
    text = colors + "font: 11px/1.4 monospace; white-space: pre-wrap; word-break: normal"
    return HTML(highlight(code, PythonLexer(), HtmlFormatter(noclasses=True, cssstyles=box, prestyles=text)))


def _without_docstring(function: Callable) -> str:
    code = inspect.getsource(function)
    (definition,) = ast.parse(code).body
    if ast.get_docstring(definition) is None:
        return code
    lines, docstring = code.splitlines(keepends=True), definition.body[0]
    return "".join(lines[: docstring.lineno - 1] + lines[docstring.end_lineno :])


def settings_table(profile: Profile, part: str) -> pd.DataFrame:
    """A part of a profile ("specialize"), a row for each value that is explained or that is no default.

    A meaning (with its unit) is the first clause of the comment in profiles/laptop.yaml, to which the other
    profiles refer; what the profile's own file says (the source) follows.
    """
    meanings, own = (_comments(name, part) for name in ("laptop", profile.name))
    section: Section = getattr(profile, part)
    set_here = section.model_dump(exclude_none=True, exclude_defaults=True)
    values = {name: value for name, value in section if name in meanings | set_here and value is not None}
    rows = []
    for name in values:
        meaning, said = meanings.get(name, "").partition(";")[0], own.get(name, "")
        rows.append(said if said.startswith(meaning) else "; ".join(filter(None, (meaning, said))))
    columns = {"value": map(str, values.values()), "meaning; source": rows}
    return pd.DataFrame(columns, index=pd.Index(values, name="setting"))


def _comments(profile: str, part: str) -> dict[str, str]:
    """Name -> comment of the values in a part of profiles/`profile`.yaml; {} without such a file."""
    file = PROFILES / f"{profile}.yaml"
    text = f"\n{file.read_text()}\n\n" if file.is_file() else ""
    return dict(
        re.findall(r"(?m)^  (\w+): [^#\n]*# (.*)$", text.partition(f"\n{part}:")[2].partition("\n\n")[0])
    )


# ---- episodes --------------------------------------------------------------------------------------------


def first_state(task: Task) -> Observation:
    """A task's first observation, with the application's `elements` for executors that read widget trees."""
    env = ScienceDesk(task.app)
    screen = Image.fromarray(env.reset(task)[0])
    return Observation(task.instruction, (), screen, screen, env.desk.elements)


def scripted(task: Task) -> Trajectory:
    """The task's script as an episode, ended with DONE, or with ANS where the task is a question."""
    env = ScienceDesk(task.app)
    from sciencedesk.script import read_step  # needs Qt, whose absence the line above explains

    agent = ScriptAgent({task.instruction: task.solution}, read_step)
    (trajectory,) = rollout(agent, [(task, 0)], lambda: env, seed=0)
    return trajectory


def as_step(state: Observation, decision: Decision) -> Step:
    """A decision as a step of an episode, for `pictures.draw_step`."""
    return Step(encode_image(state.current), decision.plan, decision.reply, decision.actions, decision.error)


def conversation(messages: Sequence[Message]) -> str:
    """A prompt as text in lines of at most `WIDTH` characters; a picture is shown by its size."""
    parts = (f"[{message['role']}]\n" + "".join(map(_as_text, message["content"])) for message in messages)
    return "\n".join(parts)


def _as_text(part: Mapping) -> str:
    if part["type"] == "image":
        return "<picture {}x{}>\n".format(*part["image"].size)
    return "\n".join(line if len(line) <= WIDTH else fill(line, WIDTH) for line in part["text"].split("\n"))


def episode_table(trajectories: Sequence[Trajectory], tasks: Sequence[Task]) -> pd.DataFrame:
    """A row for each episode: task_id, grade, run, stop, steps, unparsed, cut, success.

    `unparsed` counts the steps without a readable reply, `cut` those whose plan was too long to be read
    whole.
    """
    grades = {task.id: task.grade for task in tasks}
    columns = ["task_id", "grade", "run", "stop", "steps", "unparsed", "cut", "success"]
    rows = []
    for t in trajectories:
        unparsed = sum(bool(step.error) for step in t.steps)
        cut = sum(is_cut(step.plan) for step in t.steps)
        about = (t.task_id, grades[t.task_id], t.run, str(t.stop), len(t.steps))
        rows.append((*about, unparsed, cut, t.success))
    return pd.DataFrame(rows, columns=columns)


def by_stop(table: pd.DataFrame) -> pd.DataFrame:
    """`episode_table` by stop reason: episodes, mean steps, unparsed steps, cut plans, successes."""
    return table.groupby("stop").agg(
        episodes=("run", "size"), mean_steps=("steps", "mean"), unparsed_steps=("unparsed", "sum"),
        cut_plans=("cut", "sum"), successes=("success", "sum"),
    ).round(1)  # fmt: skip


def success_by_grade(episodes: pd.DataFrame) -> pd.DataFrame:
    """Average@k and Pass@k of one system by grade: percent with 95 % interval as in Table 1.

    Empty where no task has a check, such as those of a task generator.
    """
    checked, k, rows = episodes.dropna(subset="success"), episodes["run"].nunique(), {}
    for grade, part in _grades(checked):
        success = part["success"].astype(float).groupby(part["task_id"])
        scores = (success.mean().to_numpy(), success.max().to_numpy())
        rows[grade] = (success.ngroups, *(_interval(statistics.mean_over_tasks([of])) for of in scores))
    columns = ["tasks", f"Average@{k}", f"Pass@{k}"]
    return pd.DataFrame.from_dict(rows, "index", columns=columns).rename_axis("grade")


def _grades(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each grade, and all of them unless there are none."""
    return [*table.groupby("grade"), *([("all", table)] if len(table) else [])]


def _interval(estimate: statistics.Estimate) -> str:
    """Percent with the interval; a dash where there is no estimate."""
    percent = [100 * share for share in (estimate.value, estimate.low, estimate.high)]
    return "–" if np.isnan(estimate.value) else statistics.format_interval(*percent)


# ---- verdicts and labels ---------------------------------------------------------------------------------


def vote_table(judged: Sequence[Trajectory], rule: Rule) -> pd.DataFrame:
    """A row for each judged episode: numbers of votes by content, and the outcome of the rule.

    `labels` counts the actions that may be learned from; `success` is the environment's check.
    """
    rows = []
    for t in judged:
        verdicts, outcome = list(filter(None, map(read_verdict, t.verdicts))), rule.outcome(t.verdicts)
        correct, clean = sum(v.correct for v in verdicts), sum(v.clean for v in verdicts)
        labels = len(positive_steps(t, rule))
        rows.append((t.task_id, correct, clean, outcome.invalid, outcome.success, labels, t.success))
    columns = ["task_id", "correct", "clean", "invalid", "accepted", "labels", "success"]
    return pd.DataFrame(rows, columns=columns)


def judge_by_grade(votes: pd.DataFrame, tasks: Sequence[Task]) -> pd.DataFrame:
    """Precision and recall of `vote_table` by grade: percent with 95 % interval over tasks.

    Empty where no task has a check, such as those of a task generator.
    """
    grades, rows = {task.id: task.grade for task in tasks}, {}
    checked = votes.dropna(subset="success").assign(grade=lambda table: table["task_id"].map(grades))
    for grade, part in _grades(checked):
        accepted, success = part["accepted"].astype(bool), part["success"].astype(bool)
        estimates = statistics.precision_and_recall(part["task_id"], accepted, success)
        rows[grade] = (len(part), success.sum(), accepted.sum(), *map(_interval, estimates))
    columns = ["trajectories", "successes", "accepted", "precision", "recall"]
    return pd.DataFrame.from_dict(rows, "index", columns=columns).rename_axis("grade")


def label_table(judged: Mapping[str, Sequence[Trajectory]], rule: Rule) -> pd.DataFrame:
    """What there is to learn from, a row for each application."""
    rows = {}
    for app, trajectories in judged.items():
        labelled = [(t.task_id, len(steps)) for t in trajectories if (steps := positive_steps(t, rule))]
        labels, distinct = sum(count for _, count in labelled), len(distinct_steps(trajectories, rule))
        rows[app] = (len(trajectories), len(labelled), len({task for task, _ in labelled}), labels, distinct)
    columns = ["trajectories", "labelled", "tasks", "labelled steps", "distinct steps"]
    return pd.DataFrame.from_dict(rows, "index", columns=columns)


def distinct_steps(judged: Sequence[Trajectory], rule: Rule) -> list[tuple[Trajectory, int]]:
    """The labelled steps (trajectory, index from 0), one for each instruction and action that occurs."""
    steps = positives(judged, partial(positive_steps, rule=rule))
    return list({(t.instruction, t.steps[i].actions): (t, i) for t, i in steps}.values())
