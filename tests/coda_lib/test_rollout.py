"""Rolling out: how episodes end, what is kept of them, and that side by side is the same as one by one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tiny_models import SIZE, ClickingModel, Counter, screen, task

from coda_lib.action import Action
from coda_lib.agent import Decision, DualAgent, SoloAgent
from coda_lib.environment import EnvironmentFault
from coda_lib.executor import Executor
from coda_lib.models.chat import Sampling
from coda_lib.models.local import LocalModel
from coda_lib.planner import Observation, Planner, Turn
from coda_lib.rollout import episodes, jobs, rollout
from coda_lib.trajectory import StopReason, Trajectory, save_trajectories

pytest_plugins = ("tiny_checkpoints",)

CLICK, WAIT = Action.click(0.25, 0.5), Action.wait()
CLICKED = "click(start_box='(21,42)')"


class Script:
    """An agent that does what a function of (instruction, step number) says; it remembers what it saw."""

    name = "script"

    def __init__(self, act: Callable[[str, int], Action | Sequence[Action] | str]):
        self.act = act
        self.seen: list[list[Observation]] = []
        self.seeds: list[int] = []

    def decide(self, observations: Sequence[Observation], seed: int) -> list[Decision]:
        self.seen.append(list(observations))
        self.seeds.append(seed)
        return [self._one(observation) for observation in observations]

    def _one(self, observation: Observation) -> Decision:
        what = self.act(observation.instruction, len(observation.history))
        if isinstance(what, str):
            return Decision("", what, (), "not parsable")
        actions = (what,) if isinstance(what, Action) else tuple(what)
        return Decision(f"plan {len(observation.history)}", "reply", actions)


def in_order(*acts: Action | Sequence[Action] | str) -> Script:
    return Script(lambda instruction, step: acts[step])


def play(agent: Script, steps: int = 5, **changes: object) -> Trajectory:
    (trajectory,) = rollout(agent, [(task(3, steps), 0)], Counter, 0, **changes)
    return trajectory


# ---- how an episode ends ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("acts", "stop", "answer", "success", "steps"),
    [
        ((CLICK, CLICK, Action.done()), StopReason.DONE, None, True, 3),
        ((CLICK, Action.done()), StopReason.DONE, None, False, 2),
        ((CLICK, CLICK, Action.fail()), StopReason.FAIL, None, False, 3),
        ((Action.answer("12 cm"),), StopReason.ANS, "12 cm", False, 1),
        ((WAIT, CLICK, WAIT, CLICK, Action.done()), StopReason.DONE, None, True, 5),
        ((WAIT,) * 5, StopReason.STEP_LIMIT, None, False, 5),
        ((CLICK,) * 5, StopReason.STEP_LIMIT, None, False, 5),
        (("?", CLICK, "?", CLICK, "?"), StopReason.STEP_LIMIT, None, False, 5),
        (
            ((CLICK, CLICK, Action.done(), CLICK),),
            StopReason.DONE,
            None,
            True,
            1,
        ),  # nothing happens after the end
        ((CLICK, Action.hotkey("esc")), StopReason.ENVIRONMENT_ERROR, None, None, 2),
    ],
)
def test_how_an_episode_ends(acts, stop, answer, success, steps):
    trajectory = play(in_order(*acts))
    assert (trajectory.stop, trajectory.answer, trajectory.success) == (stop, answer, success)
    assert len(trajectory.steps) == steps and trajectory.verdicts == ()
    assert (trajectory.task_id, trajectory.app, trajectory.instruction) == (
        "algebra/T-03",
        "algebra",
        "task 3",
    )
    assert trajectory.planner == "script"


@pytest.mark.parametrize(("own", "given", "steps"), [(5, None, 5), (5, 3, 3), (3, 5, 3), (1, 1, 1)])
def test_the_step_limit_is_the_tasks_or_the_smaller_one_given(own, given, steps):
    trajectory = play(in_order(*(CLICK,) * 5), own, step_limit=given)
    assert len(trajectory.steps) == steps and trajectory.stop == StopReason.STEP_LIMIT


def test_the_end_at_the_last_allowed_step_is_no_step_limit():
    assert play(in_order(CLICK, CLICK, Action.done()), 3).stop == StopReason.DONE
    assert play(in_order(CLICK, Action.hotkey("esc")), 2).stop == StopReason.ENVIRONMENT_ERROR


def test_a_check_that_the_environment_cannot_make_is_no_failed_task():
    class Unsure(Counter):
        def check(self, stop: StopReason, answer: str | None = None) -> bool:
            raise EnvironmentFault("no state")

    (trajectory,) = rollout(in_order(Action.done()), [(task(), 0)], Unsure, 0)
    assert (trajectory.stop, trajectory.success) == (StopReason.ENVIRONMENT_ERROR, None)


def test_a_broken_episode_leaves_the_others_alone():
    agent = Script(
        lambda instruction, step: (
            Action.hotkey("esc") if instruction == "task 1" else (CLICK, CLICK, Action.done())[step]
        )
    )
    found = rollout(agent, jobs([task(i) for i in range(3)], 2), Counter, 0, concurrency=2)
    assert [t.success for t in found] == [True, True, None, None, True, True]


class Named(Counter):
    """One of few environments; the first breaks whatever it plays."""

    made = 0
    lost = False

    def __init__(self) -> None:
        super().__init__()
        if Named.made == 2:
            raise EnvironmentFault("none is left")
        Named.made += 1
        self.number = Named.made

    def step(self, action: Action):
        if self.number == 1:
            raise EnvironmentFault("it always breaks")
        return super().step(action)


def test_what_broke_is_tried_again_elsewhere():
    """It was tried again at once in the environment that had become free: the broken one."""
    Named.made = 0
    agent = in_order(CLICK, CLICK, Action.done())
    found = rollout(agent, jobs([task(i) for i in range(8)], 1), Named, 0, concurrency=2)
    assert [t.success for t in found] == [True] * 8
    Named.made = 1  # one environment alone
    assert [
        t.success for t in rollout(agent, jobs([task(i) for i in range(2)], 1), Named, 0, concurrency=2)
    ] == [True] * 2


# ---- what is kept ----------------------------------------------------------------------------------------
def test_steps_keep_what_was_seen_planned_and_done():
    agent = in_order(CLICK, "what?", (CLICK, WAIT), Action.done())
    trajectory = play(agent)
    assert [np.array(step.image).tolist() for step in trajectory.steps] == [
        np.array(screen(i)).tolist() for i in (0, 1, 1, 2)
    ]
    assert [step.actions for step in trajectory.steps] == [(CLICK,), (), (CLICK, WAIT), (Action.done(),)]
    assert [step.plan for step in trajectory.steps] == ["plan 0", "what?", "plan 2", "plan 3"]
    assert [step.reply for step in trajectory.steps] == ["reply", "what?", "reply", "reply"]
    assert [step.error for step in trajectory.steps] == [None, "not parsable", None, None]
    assert trajectory.final_screenshot == trajectory.steps[3].screenshot


def test_the_agent_sees_the_last_two_screens_and_what_was_done():
    agent = in_order(CLICK, "what?", (CLICK, WAIT), Action.done())
    play(agent)
    shots = [[np.array(shot) for shot in (o.previous, o.current)] for (o,) in agent.seen]
    clicks = [
        [next(n for n in range(5) if (shot == np.array(screen(n))).all()) for shot in pair] for pair in shots
    ]
    assert clicks == [[0, 0], [0, 1], [1, 1], [1, 2]]
    (last,) = agent.seen[-1]
    assert last.history == (Turn("plan 0", CLICKED), Turn("", ""), Turn("plan 2", f"{CLICKED}\n\nwait()"))
    assert (last.instruction, agent.seen[0][0].history) == ("task 3", ())


@pytest.mark.parametrize("planned", ["Action: click()", "Thought:"])
def test_raw_replies_that_cannot_be_read_are_kept(planned):
    def answers(replies: Sequence[str]) -> object:
        return type(
            "Model", (), {"generate": lambda self, c, sampling, seed: [replies[seed // 1000 % 2]] * len(c)}
        )()

    planner, executor = (
        Planner(answers([planned] * 2), Sampling()),
        Executor(answers(["gar", "bage"]), Sampling()),
    )
    (trajectory,) = rollout(DualAgent(planner, executor, "base"), [(task(steps=2), 0)], Counter, 0)
    assert [(step.plan, step.actions, bool(step.error)) for step in trajectory.steps] == [
        (planned, (), True)
    ] * 2

    planner = Planner(answers(["Click it."] * 2), Sampling())
    (trajectory,) = rollout(DualAgent(planner, executor, "base"), [(task(steps=1), 0)], Counter, 0)
    (step,) = trajectory.steps
    assert (step.plan, step.reply, step.actions) == (
        "Click it.",
        "gar",
        (),
    ) and "gar" in step.error  # the third try's

    (trajectory,) = rollout(SoloAgent(executor), [(task(steps=1), 0)], Counter, 0)
    assert (trajectory.steps[0].reply, trajectory.planner) == ("gar", "executor")


# ---- side by side ----------------------------------------------------------------------------------------
def varied(instruction: str, step: int) -> Action:
    """Episodes of different lengths."""
    return Action.done() if step == zlib.crc32(instruction.encode()) % 4 else CLICK


@pytest.mark.parametrize("concurrency", [1, 2, 3, 7, 64])
def test_concurrency_changes_neither_which_episodes_are_run_nor_their_order(concurrency):
    made: list[Counter] = []

    def make() -> Counter:
        made.append(Counter())
        return made[-1]

    play = jobs([task(i) for i in range(5)], 3)
    agent = Script(varied)
    found = rollout(agent, play, make, 0, concurrency)
    assert [(t.task_id, t.run) for t in found] == [(job.id, run) for job, run in play]
    assert sorted(name for env in made for name in env.log) == sorted(job.id for job, _ in play)  # each once
    assert len(made) == min(concurrency, 15)
    assert max(len(batch) for batch in agent.seen) == min(concurrency, 15)
    assert found == rollout(Script(varied), play, Counter, 0, 1)
    assert len({len(t.steps) for t in found}) > 1


def test_every_tick_asks_in_one_batch_with_a_seed_of_its_own():
    agent = Script(varied)
    rollout(agent, jobs([task(i) for i in range(4)], 2), Counter, 9, concurrency=4)
    assert len(set(agent.seeds)) == len(agent.seeds) and agent.seeds[0] == 9


def test_progress_counts_what_is_done():
    told: list[tuple[int, int]] = []
    rollout(
        Script(varied),
        jobs([task(i) for i in range(5)], 2),
        Counter,
        0,
        3,
        progress=lambda *now: told.append(now),
    )
    assert told[-1] == (10, 10) and told == sorted(told) and {total for _, total in told} == {10}


def test_no_job_is_no_episode():
    assert rollout(Script(varied), [], Counter, 0) == []


def saved(path: Path, planner: Path, executor: Path, seed: int) -> bytes:
    mind = Planner(LocalModel(planner), Sampling(1.0, 0.9, 6))
    hand = Executor(ClickingModel(executor), Sampling(1.0, 0.9, 6))
    play = jobs([task(i, steps=3) for i in range(3)], 2)
    save_trajectories(path, rollout(DualAgent(mind, hand, "base"), play, Counter, seed, concurrency=4))
    return path.read_bytes()


def test_the_same_seed_gives_the_same_bytes(tiny_planner, tiny_executor, tmp_path):
    first = saved(tmp_path / "a.parquet", tiny_planner, tiny_executor, 1)
    assert saved(tmp_path / "b.parquet", tiny_planner, tiny_executor, 1) == first
    assert saved(tmp_path / "c.parquet", tiny_planner, tiny_executor, 2) != first


# ---- jobs and tables -------------------------------------------------------------------------------------
def test_jobs_are_every_task_so_many_times():
    one, two = task(1), task(2)
    assert jobs([one, two], 3) == [(one, 0), (one, 1), (one, 2), (two, 0), (two, 1), (two, 2)]


def test_an_evaluation_table_has_one_row_an_episode():
    ends = {"task 0": Action.done(), "task 1": Action.answer("7"), "task 2": Action.hotkey("esc")}
    agent = Script(lambda instruction, step: CLICK if step < 2 else ends[instruction])
    tasks = [task(i, grade="ABC"[i]) for i in range(3)]
    table = episodes(rollout(agent, jobs(tasks, 1), Counter, 0), tasks, "stage1", 7)
    assert list(table.columns) == [
        "task_id",
        "app",
        "grade",
        "run",
        "system",
        "success",
        "stop",
        "steps",
        "answer",
        "seed",
    ]
    assert table.task_id.tolist() == [t.id for t in tasks] and table.grade.tolist() == ["A", "B", "C"]
    assert table.stop.tolist() == ["DONE", "ANS", "ENVIRONMENT_ERROR"] and table.steps.tolist() == [3, 3, 3]
    assert table.success[0] is True and table.success[1] is False and table.success[2] is None
    assert table.answer.tolist()[1] == "7" and set(table.system) == {"stage1"} and set(table.seed) == {7}


def test_a_made_up_screen_has_the_size_that_the_tests_assume():
    assert screen(0).size == SIZE
