"""Tasks made by a chat model: what is asked, what is kept, what is dropped and why, and a stage that explores
with them.
"""

from __future__ import annotations

import io
import json
from threading import Thread

import pytest
from chat_server import Server, words_of
from rich.console import Console
from tiny_models import NO, YES, made_up

from coda_lib.applications import ALL_APPS
from coda_lib.config import load_profile
from coda_lib.errors import StageError, UserError
from coda_lib.files import read_json
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.task import test_tasks
from coda_lib.trajectory import load_trajectories
from coda_study import draws
from coda_study.draws import train_tasks
from coda_study.generator import (
    HOW,
    MOST_STEPS,
    OUTSIDE,
    SPARE_STEPS,
    TRIES,
    Feedback,
    Generator,
    Proposal,
    examples_of,
    feedback_of,
    load_rounds,
    sieve,
)  # fmt: skip
from coda_study.pipeline.drive import reproduce
from coda_study.run import Run
from coda_study.show.rounds import BY_HAND, rounds_by_hand, rounds_table
from coda_study.stages import explore, judge, rounds
from coda_study.usage import usage_table
from sciencedesk.goals import aims, sentence

pytest_plugins = ("tiny_checkpoints",)
EXAMPLES = ["Turn the grid on.", "Plot sin(x)."]
GOALS = ["Plot cos(x) over sin(x).", "Define a = 7 and plot a*x.", "Use the dark theme."]
FINE = json.dumps({"infeasible": []})


def reply(*instructions: str, manual: str = "F plots.", steps: int = 6) -> str:
    return json.dumps(
        {"manual": manual, "tasks": [{"instruction": one, "steps": steps} for one in instructions]}
    )


def generator(*replies: str, count: int = 3, held_out=("Show the legend.",)) -> tuple[Generator, list]:
    prompts, rest = [], iter(replies)

    def answer(messages):
        prompts.append(messages)
        return next(rest)

    return Generator(ReplayModel(answer, "setter"), Sampling(), "algebra", EXAMPLES, held_out, count), prompts


def words(messages) -> str:
    return "\n".join(part["text"] for message in messages for part in message["content"])


def test_a_round_is_asked_for_kept_and_told_of_in_the_next(tmp_path):
    made, asked = generator(
        reply(*GOALS), FINE, reply("Show x^2 from 0 to 5.", "Draw x*y.", "What is 2^9?", manual="F2"), FINE
    )
    first = made.next_round(tmp_path, [], 0)
    assert (
        [task.instruction for task in first.tasks] == GOALS
        and first.manual == "F plots."
        and not first.dropped
    )
    assert [task.id for task in first.tasks] == [f"algebra/generated-01-0{i}" for i in (1, 2, 3)]
    assert all(
        task.steps == 6 + SPARE_STEPS and task.grade == "C" and not task.evaluate for task in first.tasks
    )
    assert all(
        one in words(asked[0])
        for one in (*EXAMPLES, "Algebra", "nothing is known", "3 tasks", f"{MOST_STEPS} actions")
    )
    second = made.next_round(
        tmp_path, [Feedback(GOALS[0], 4, 1, "Click 'Plot'.", '{"Correctness": false}')], 1
    )
    told = words(asked[2])
    assert (
        "F plots." in told
        and "Done in 1 of 4 attempts" in told
        and "Click 'Plot'." in told
        and GOALS[1] in told
    )
    assert (second.number, second.manual) == (2, "F2") and load_rounds(tmp_path, "algebra") == [first, second]
    kept = sorted(path.name for path in (tmp_path / "02").iterdir())
    assert kept == ["exchange.json", "manual.md", "round.json"]
    said = read_json(tmp_path / "02" / "exchange.json")
    assert [one["role"] for one in said] == ["system", "user", "assistant"] * 2 and "F2" in said[2]["content"]


@pytest.mark.parametrize(
    "bad, reason",
    [
        ("I would rather not.", "Invalid JSON"),
        (reply(*GOALS)[:-20], "Invalid JSON"),
        ("[" * 100_000, "JSON"),
        (json.dumps({"tasks": []}), "manual: Field required"),
        (reply(*GOALS[:2]), "tasks: 3 are wanted, not 2"),
        (reply(*GOALS, manual=" "), "manual: "),
        (reply(*GOALS, steps=0), "tasks.0.steps: "),
        (reply("", *GOALS[1:]), "tasks.0.instruction: "),
        (reply("x" * 301, *GOALS[1:]), "tasks.0.instruction: "),
        (json.dumps({"manual": "m", "tasks": [], "run": "rm -rf /"}), "run: Extra inputs"),
    ],
)
def test_a_reply_that_cannot_be_used_goes_back_with_the_reason(tmp_path, bad, reason):
    made, asked = generator(bad, f"```json\n{reply(*GOALS)}\n```", FINE)
    assert len(made.next_round(tmp_path, [], 0).tasks) == 3 and len(asked) == 3
    assert [message["role"] for message in asked[1]] == ["system", "user", "assistant", "user"]
    assert reason in words(asked[1][3:])
    said = read_json(tmp_path / "01" / "exchange.json")
    assert [one["role"] for one in said[:5]] == ["system", "user", "assistant", "user", "assistant"]


def test_who_never_answers_well_is_given_up_and_every_word_is_kept(tmp_path):
    made, asked = generator(*["no"] * TRIES)
    with pytest.raises(
        StageError, match="setter set no tasks that can be used in 3 tries; .* the reply: Invalid JSON"
    ):
        made.next_round(tmp_path, [], 0)
    assert len(asked) == TRIES and load_rounds(tmp_path, "algebra") == []
    assert [
        one["content"] for one in read_json(tmp_path / "failed-01.json") if one["role"] == "assistant"
    ] == ["no"] * TRIES


def test_the_second_look_drops_what_cannot_be_done(tmp_path):
    doubt = json.dumps({"infeasible": [{"task": 2, "why": "there are no matrices"}]})
    made, asked = generator(reply(*GOALS), json.dumps({"infeasible": [{"task": 4, "why": "?"}]}), doubt)
    found = made.next_round(tmp_path, [], 0)
    assert "there is no task 4" in words(asked[2])
    assert [task.instruction for task in found.tasks] == [GOALS[0], GOALS[2]]
    ((dropped),) = found.dropped
    assert (dropped.instruction, dropped.reason, dropped.detail) == (
        GOALS[1],
        "infeasible",
        "there are no matrices",
    )
    assert load_rounds(tmp_path, "algebra") == [found]


@pytest.mark.parametrize(
    "instruction, steps, reason",
    [
        ("Click the Grid button.", 2, "low-level hint"),
        ("Open the View menu and turn the axes off.", 2, "low-level hint"),
        ("Turn the axes off by pressing Ctrl+A.", 2, "low-level hint"),
        ("Drag the slider to 60.", 2, "low-level hint"),
        ("Download the values of sin(x).", 5, "infeasible"),
        ("Send the plot by e-mail.", 5, "infeasible"),
        ("Plot every polynomial of degree four.", MOST_STEPS + 1, "infeasible"),
        ("Please show the legend!", 2, "close to a test task"),
        ("Show legend", 2, "close to a test task"),
        ("turn the grid ON", 2, "duplicate"),
        ("Plot sin(x)", 3, "duplicate"),
    ],
)
def test_what_cannot_be_set_is_dropped_with_its_reason(instruction, steps, reason):
    good = Proposal(instruction=GOALS[0], steps=5)
    kept, dropped = sieve(
        [good, Proposal(instruction=instruction, steps=steps), good], EXAMPLES, ["Show the legend."]
    )
    assert kept == [good] and [one.reason for one in dropped] == [reason, "duplicate"]
    assert dropped[0].instruction == instruction and dropped[0].detail


@pytest.mark.parametrize("app", ALL_APPS)
def test_no_goal_that_people_wrote_would_be_dropped_but_for_being_known(app):
    said = [sentence([aim]) for aim in aims(app)]
    assert [one for one in said if HOW.search(one) or OUTSIDE.search(one)] == []
    proposals = [Proposal(instruction=one, steps=3) for one in dict.fromkeys(said)]
    held_out = [task.instruction for task in test_tasks(app)]
    kept, dropped = sieve(proposals, [], held_out)
    assert {one.instruction for one in proposals} & set(held_out) <= {one.instruction for one in dropped}
    assert not {one.instruction for one in kept} & set(held_out) and len(kept) > len(proposals) / 3


def test_other_values_are_other_tasks():
    kept, dropped = sieve(
        [Proposal(instruction=f"Plot {f}.", steps=3) for f in ("cos(x)", "tan(x)", "x^2", "-x")], EXAMPLES, []
    )
    assert len(kept) == 4 and not dropped


def test_outcomes_tell_of_the_best_attempt():
    attempts = [made_up(1, verdicts=(said,), run=run) for run, said in enumerate((NO, YES, "what?"))]
    (feedback,) = feedback_of(attempts)
    assert (feedback.attempts, feedback.done, feedback.verdict) == (
        3,
        1,
        YES,
    ) and feedback.instruction == attempts[0].instruction
    assert feedback.plans == "Click 'Grid'. DONE" and feedback_of([made_up(2, verdicts=())])[0].done == 0


# ---- in a stage ------------------------------------------------------------------------------------------
@pytest.fixture
def tiny(tiny_planner, tiny_executor) -> tuple[str, ...]:
    """Untrained models that say little."""
    words = [f"{role}.max_new_tokens=3" for role in ("planner", "executor", "judge")]
    return (
        f"models.planner={tiny_planner}",
        f"models.judge={tiny_planner}",
        f"models.executor={tiny_executor}",
        *words,
    )


def run_with(tmp_path, *overrides: str) -> Run:
    here = Run(str(tmp_path / "run"))
    small = (
        "models.generator=setter",
        "generator.rounds=2",
        "generator.tasks=2",
        "explore.base.runs=2",
        "step_limit=2",
    )
    here.store(load_profile("smoke", (*small, *overrides)))
    return here


def answering(monkeypatch, answer) -> None:
    load = rounds.load_model

    def replay(profile, role, name):
        return ReplayModel(answer, name) if role == "generator" else load(profile, role, name)

    monkeypatch.setattr(rounds, "load_model", replay)


def test_a_stage_explores_round_by_round_and_goes_on_after_a_fall(tmp_path, monkeypatch, tiny):
    here, asked = run_with(tmp_path, *tiny), []

    def answer(messages):
        asked.append(words(messages))
        if "You check exercises" in asked[-1]:
            return FINE
        assert len(asked) < 3 or "Done in" in asked[-1]
        number = 1 + sum("You set exercises" in one for one in asked[:-1])
        if number == 2 and not fallen:
            fallen.append(True)
            raise UserError("the server is gone")
        return reply(f"Show layer number {number}{number}.", f"What is the value at {number}7?")

    fallen: list[bool] = []
    answering(monkeypatch, answer)
    with pytest.raises(UserError, match="gone"):
        explore.run(here, "base", "gis")
    before = len(asked)
    found = explore.run(here, "base", "gis")
    assert len(asked) == before + 2  # the first round's tasks were there, and its attempts
    tasks = train_tasks(here, "gis")
    assert [task.id for task in tasks] == [f"gis/generated-{n:02d}-{i:02d}" for n in (1, 2) for i in (1, 2)]
    assert [(one.task_id, one.run) for one in found] == [(task.id, run) for task in tasks for run in range(2)]
    assert load_trajectories(here.rollouts("base", "gis")) == found
    assert all(one.success is None and one.verdicts == () for one in found)  # nobody wrote a check
    assert not list(here.generated("gis").glob("*/attempts.parquet"))
    judged, score = judge.run(here, "base", "gis")
    assert len(judged) == 8 and score.trajectories == 0


def test_no_task_left_is_said(tmp_path, monkeypatch, tiny):
    answering(monkeypatch, lambda messages: reply("Click here.", "Press there."))
    with pytest.raises(StageError, match="no task of setter for gis is left: .*generated/gis says why"):
        explore.run(run_with(tmp_path, *tiny), "base", "gis")


# ---- in notebook 03 --------------------------------------------------------------------------------------
def test_the_replies_by_hand_show_every_reason_and_one_reply_that_goes_back():
    rounds, messages = rounds_by_hand()
    assert {item.reason for one in rounds for item in one.dropped} == {
        "duplicate", "low-level hint", "infeasible", "close to a test task"
    }  # fmt: skip
    assert sum("That cannot be used" in message for message in messages) == 1
    assert "written by hand" in BY_HAND.read_text()
    table = rounds_table(rounds)
    assert (
        len(table) == 16
        and set(table["round"]) == {1, 2}
        and 8 <= (table["outcome"] == "accepted").sum() < 12
    )


@pytest.mark.slow
def test_a_whole_run_whose_tasks_a_served_model_sets(tmp_path):
    """Its judge is lenient and its rounds are small: what counts is that no stage wants checks of the train
    tasks.
    """
    held_out = [task.instruction for task in test_tasks("gis")]
    pool = draws.template_tasks(load_profile("smoke", ("explore.base.tasks=200",)), "base", "gis")
    proposals = [Proposal(instruction=task.instruction, steps=2) for task in pool]
    known = examples_of("gis")
    left = iter([one.instruction for one in sieve(proposals, known, held_out)[0]])

    def answer(asked):
        return 200, FINE if "You check exercises" in words_of(asked) else reply(
            *(next(left) for _ in range(4)), steps=2
        )

    server, here = Server(answer), Run(str(tmp_path / "run"))
    Thread(target=server.serve_forever, daemon=True).start()
    profile = load_profile("smoke", (
        "apps=[gis]", "systems=[base, stage2]", "models.generator=setter", f"serving.generator={server.url}",
        "generator.rounds=2", "generator.tasks=4", "prices.generator=[1.0, 2.0]",
    ))  # fmt: skip
    reproduce(here, profile, 2, "results", console=Console(file=io.StringIO()))
    server.shutdown()
    (used,) = [row for row in usage_table(here).to_dict("records") if row["role"] == "generator"]
    assert (used["stage"], used["requests"]) == ("explore/base/gis", len(server.asked)) and used["cost"] > 0
    tasks = train_tasks(here, "gis")
    played = load_trajectories(here.rollouts("specialist", "gis"))
    assert len(tasks) == 8 and {one.task_id for one in played} == {task.id for task in tasks}
    assert here.table1.exists() and (here.generated("gis") / "done.json").exists()
    shown = (here.folder / "notebooks" / "03_explore-base-gis.ipynb").read_text()
    assert "replies by setter" in shown and tasks[0].instruction in shown
