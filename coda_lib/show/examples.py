"""What the notebooks show beyond the results: an episode played by its script, a GRPO group, small tables.

Nothing here is a stage, and no stage reads what is made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from PIL import Image

from coda_lib.action import Action
from coda_lib.agent import Decision, DualAgent, action_text, carry_out
from coda_lib.dataset import observation, positives
from coda_lib.envs.sciencedesk.env import ScienceDesk
from coda_lib.errors import UserError
from coda_lib.evaluation import statistics
from coda_lib.judge import Rule, positive_steps, read_verdict, score
from coda_lib.models.chat import Message
from coda_lib.planner import Observation, PlanError, parse_plan
from coda_lib.reward import advantages, reward
from coda_lib.task import Task
from coda_lib.trajectory import Step, StopReason, Trajectory, encode_image

if TYPE_CHECKING:
    pass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coda_lib.files import read_json
from coda_lib.generator import Generator, Outcome, Round
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.paths import DATA

# ---------------------------------------------------------------------------------------------------------- episodes


def scripted(task: Task) -> Trajectory:
    """The task's scripted solution as an episode, ended with DONE, or with ANS where the task is a question."""
    env = ScienceDesk(task.app)
    from coda_lib.envs.sciencedesk.script import to_action, to_plan  # needs Qt, whose absence the line above explains

    first, _ = env.reset(task)
    screen, steps, answer = encode_image(Image.fromarray(first)), [], None
    for step in [*task.solution, *([] if task.ans else [{"done": True}])]:
        action = to_action(env.desk, step)
        steps.append(Step(screen, to_plan(step), "", (action,)))
        screen = encode_image(Image.fromarray(env.step(action)[0]))
        answer = step.get("answer", answer)
    stop = StopReason.ANS if task.ans else StopReason.DONE
    success = env.check(stop, answer)
    return Trajectory(task.id, task.app, task.instruction, "script", 0, tuple(steps), screen, stop, answer, success)


def as_step(state: Observation, decision: Decision) -> Step:
    """A decision as a step of an episode, for `pictures.draw_step`."""
    return Step(encode_image(state.current), decision.plan, decision.reply, decision.actions, decision.error)


def conversation(messages: Sequence[Message]) -> str:
    """What a model is asked, as text; a picture is shown by its size."""
    lines = []
    for message in messages:
        parts = (_part(part) for part in message["content"])
        lines.append(f"[{message['role']}]\n" + "".join(parts))
    return "\n".join(lines)


def _part(part: Mapping) -> str:
    return part["text"] if part["type"] == "text" else "<picture {}x{}>\n".format(*part["image"].size)


# ------------------------------------------------------------------------------------------------------- GRPO groups


@dataclass(frozen=True)
class Group:
    """G plans for one state, what the frozen executor made of each, and what that earned (eq. 1 and 2)."""

    state: Observation
    target: tuple[Action, ...]  # a_T, the labelled positive action
    decisions: tuple[Decision, ...]  # one for each plan
    rewards: np.ndarray  # (G,), in [0, 2]

    @property
    def advantages(self) -> np.ndarray:
        return advantages(self.rewards[None])[0]

    @property
    def actions(self) -> list[Action | None]:
        """The first action of each decision; None where the executor's reply could not be read."""
        return [decision.actions[0] if decision.actions else None for decision in self.decisions]

    @property
    def label(self) -> str:
        """The labelled action a_T as the executor would write it."""
        return action_text(self.target, self.state.current.size)

    @property
    def favourite(self) -> str:
        """The plan sampled most often."""
        plans = [decision.plan for decision in self.decisions]
        return max(plans, key=plans.count)

    @property
    def table(self) -> pd.DataFrame:
        """A row for each plan: plan, action, reward, advantage."""
        size = self.state.current.size
        acted = [action_text(decision.actions, size) or "(no action)" for decision in self.decisions]
        columns = {"plan": [d.plan for d in self.decisions], "action": acted, "reward": self.rewards}
        return pd.DataFrame(columns | {"advantage": self.advantages}, index=range(1, len(self.rewards) + 1)).round(2)


def draw_groups(agent: DualAgent, steps: Iterable[tuple[Trajectory, int]], size: int, seed: int) -> list[Group]:
    """Sample `size` plans for each step (trajectory, index from 0), let the executor act, and reward what it did.

    UserError if there is no step.
    """
    steps = list(steps)
    if not steps:
        raise UserError(
            "no positive step to sample plans for: the judge called no trajectory clean; explore more tasks"
        )
    states = [observation(trajectory, index) for trajectory, index in steps]
    asked = [state for state in states for _ in range(size)]
    plans = [plan_of(reply) for reply in agent.planner.plan(asked, seed)]
    decisions = carry_out(agent.executor, asked, plans, seed + 1)
    groups = []
    for place, (state, (trajectory, index)) in enumerate(zip(states, steps, strict=True)):
        target, of = trajectory.steps[index].actions, tuple(decisions[place * size : (place + 1) * size])
        groups.append(Group(state, target, of, np.array([reward(decision.actions, target) for decision in of])))
    return groups


def different_steps(judged: Sequence[Trajectory], rule: Rule) -> list[tuple[Trajectory, int]]:
    """The labelled positive steps (trajectory, index from 0), one for each instruction and action that occurs."""
    steps = positives(judged, partial(positive_steps, rule=rule))
    return list({(t.instruction, t.steps[i].actions): (t, i) for t, i in steps}.values())


def learnable(groups: Sequence[Group]) -> pd.Series:
    """How many groups have rewards that differ; all other groups have no advantage and teach nothing."""
    alike = {True: "all alike, and right", False: "all alike, and not right"}
    kinds = ["rewards differ" if np.ptp(g.rewards) > 1e-9 else alike[g.rewards.min() > 1.99] for g in groups]
    return pd.Series(kinds, dtype=str).value_counts().rename("groups")


def plan_counts(groups: Mapping[str, Group]) -> pd.DataFrame:
    """How often each plan was sampled: a row for each plan, a column for each group (of one planner each)."""
    counts = {name: pd.Series([d.plan for d in group.decisions]).value_counts() for name, group in groups.items()}
    return pd.DataFrame(counts).fillna(0).astype(int).sort_values(list(groups)[-1], ascending=False)


def reward_examples() -> pd.DataFrame:
    """The reward of one good and one imperfect action of several types, on fractions of the screen."""
    rows = [
        ("a click 5 % of the screen to the right", Action.click(0.35, 0.5), Action.click(0.30, 0.5)),
        ("a click for a double click", Action.click(0.3, 0.5), Action.double_click(0.3, 0.5)),
        ("a drag half as far", Action.drag(0.2, 0.5, 0.4, 0.5), Action.drag(0.2, 0.5, 0.6, 0.5)),
        ("a drag the other way", Action.drag(0.6, 0.5, 0.2, 0.5), Action.drag(0.2, 0.5, 0.6, 0.5)),
        ("one letter of six wrong", Action.type_text("sin(y)"), Action.type_text("sin(x)")),
        ("one key of two wrong", Action.hotkey("ctrl x"), Action.hotkey("ctrl c")),
        ("a scroll the other way", Action.scroll(0.5, 0.5, "up"), Action.scroll(0.5, 0.5, "down")),
        ("done too early", Action.done(), Action.click(0.3, 0.5)),
    ]
    shown = [(what, a_T.type.value, reward([did], [a_T]), reward([a_T], [a_T])) for what, did, a_T in rows]
    return pd.DataFrame(shown, columns=["what was done", "a_T", "reward", "reward of a_T itself"]).round(2)


def plan_of(reply: str) -> str:
    """The plan in a planner's reply; empty where there is none, as in training."""
    try:
        return parse_plan(reply)
    except PlanError:
        return ""


# ------------------------------------------------------------------------------------------------------------ tables


def outcomes(trajectories: Sequence[Trajectory], tasks: Sequence[Task]) -> pd.DataFrame:
    """A row for each episode: task_id, grade, run, stop, steps, unread (steps whose reply was no action), success."""
    grades = {task.id: task.grade for task in tasks}
    return pd.DataFrame(
        {
            "task_id": [t.task_id for t in trajectories],
            "grade": [grades[t.task_id] for t in trajectories],
            "run": [t.run for t in trajectories],
            "stop": [str(t.stop) for t in trajectories],
            "steps": [len(t.steps) for t in trajectories],
            "unread": [sum(step.error is not None for step in t.steps) for t in trajectories],
            "success": [t.success for t in trajectories],
        }
    )


def by_stop(table: pd.DataFrame) -> pd.DataFrame:
    """`outcomes` by the reason of ending: episodes, mean steps, unread steps, successes."""
    columns = {"episodes": ("run", "size"), "mean_steps": ("steps", "mean"), "unread_steps": ("unread", "sum")}
    return table.groupby("stop").agg(**columns, successes=("success", "sum")).round(1)


def by_grade(table: pd.DataFrame) -> pd.DataFrame:
    """`outcomes` by grade: tasks, mean success and share of tasks ever solved (both in percent)."""
    tasks = table.groupby(["grade", "task_id"])["success"].mean()
    return pd.DataFrame(
        {
            "tasks": tasks.groupby("grade").size(),
            "average success": 100 * tasks.groupby("grade").mean(),
            "ever solved": 100 * (tasks > 0).groupby("grade").mean(),
        }
    ).round(1)


def by_app(judged: Mapping[str, Sequence[Trajectory]], rule: Rule) -> pd.DataFrame:
    """What there is to learn from, a row per application: clean attempts, different tasks in them, positive steps."""
    rows = {}
    for app, attempts in judged.items():
        clean = [t for t in attempts if positive_steps(t, rule)]
        rows[app] = (len(attempts), len(clean), len({t.task_id for t in clean}), sum(len(t.steps) for t in clean))
    return pd.DataFrame(rows, index=["attempts", "clean", "different tasks", "positive steps"]).T


def votes(judged: Sequence[Trajectory], rule: Rule) -> pd.DataFrame:
    """A row for each judged episode: votes that say correct and clean, invalid ones, what they amount to, the truth.

    `positive` counts the actions that may be learned from; `success` is the environment's own check.
    """
    rows = []
    for trajectory in judged:
        verdicts, opinion = [read_verdict(reply) for reply in trajectory.verdicts], rule.outcome(trajectory.verdicts)
        rows.append(
            {
                "task_id": trajectory.task_id,
                "correct": sum(bool(verdict and verdict.correct) for verdict in verdicts),
                "clean": sum(bool(verdict and verdict.clean) for verdict in verdicts),
                "invalid": opinion.invalid,
                "judged": opinion.success,
                "positive": len(positive_steps(trajectory, rule)),
                "success": trajectory.success,
            }
        )
    return pd.DataFrame(rows)


def judge_by_grade(judged: Sequence[Trajectory], tasks: Sequence[Task], rule: Rule) -> pd.DataFrame:
    """The outcome of the votes against the application's own check, a row for each grade and one for all; shares in percent."""
    grades = {task.id: task.grade for task in tasks}
    parts = {grade: [t for t in judged if grades[t.task_id] == grade] for grade in sorted(set(grades.values()))}
    scores = {grade: score(part, rule) for grade, part in (parts | {"all": list(judged)}).items()}
    table = pd.DataFrame([asdict(found) for found in scores.values()], index=pd.Index(scores, name="grade"))
    for measure in ("precision", "recall"):
        table[measure] = [_percent(getattr(found, measure)) for found in scores.values()]
    return table


def success_by_grade(episodes: pd.DataFrame, resamples: int, seed: int = 0) -> pd.DataFrame:
    """Average@k and Pass@k of one system by grade: percent with 95 % interval (bootstrap over tasks; Wilson's)."""
    rows = []
    for grade, part in [*episodes.groupby("grade"), ("all", episodes)]:
        matrix = statistics.success_matrix(part)
        mean = statistics.bootstrap_mean([statistics.task_average(matrix)], np.random.default_rng(seed), resamples)
        ever = statistics.wilson(matrix.any(axis=1).sum(), len(matrix))
        k = matrix.shape[1]
        rows.append(
            {"grade": grade, "tasks": len(matrix), f"Average@{k}": _interval(mean), f"Pass@{k}": _interval(ever)}
        )
    return pd.DataFrame(rows).set_index("grade")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _interval(estimate: statistics.Estimate) -> str:
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


BY_HAND = DATA / "generator" / "by_hand.json"


def rounds_by_hand() -> tuple[list[Round], list[dict[str, Any]]]:
    """Two rounds with replies that a person wrote in a model's place, and all that was said in them."""
    raw = read_json(BY_HAND)
    replies = [reply for one in raw["rounds"] for reply in one["replies"]]
    made = Generator.of(ReplayModel(replies, "a person"), Sampling(), raw["app"], raw["count"])
    with TemporaryDirectory() as folder:
        rounds = [made.go_on(Path(folder), [Outcome(**said) for said in one["outcomes"]], 0) for one in raw["rounds"]]
        said = [turn for path in sorted(Path(folder).glob("*/exchange.json")) for turn in read_json(path)]
    return rounds, said


def rounds_table(rounds: Sequence[Round]) -> pd.DataFrame:
    """A row for each proposed task: its round, the instruction, and 'kept' or why it was dropped."""
    rows = []
    for one in rounds:
        rows += [(one.number, task.instruction, "kept", "") for task in one.tasks]
        rows += [(one.number, item.instruction, item.reason, item.detail) for item in one.dropped]
    return pd.DataFrame(rows, columns=["round", "instruction", "became", "because of"])
