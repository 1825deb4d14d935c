"""GRPO groups that a training keeps to be looked at."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tiny_models import hashed_click, made_up

from coda_lib.config import SpecializeSettings
from coda_lib.dataset import grpo_rows
from coda_lib.executor import Executor
from coda_lib.models.chat import ReplayModel, Sampling
from coda_lib.reward import RIGHT
from coda_lib.trainer import ActionReward
from coda_study.run import Run
from coda_study.show.viewer import Evidence
from coda_study.show.viewer.sources import read_groups
from coda_study.stages.groups import EACH, KeepingReward

G, STATES, STEPS = 4, 3, 9
PLANS = ["Click 'Grid'.", "Click 'Axes'.", "DONE", "Click 'Grid'."] * STATES


class State:
    global_step = 0


def columns(step: int) -> dict:
    trajectories = [made_up(i) for i in range(STATES)]
    rows = [grpo_rows(trajectories, "compact", lambda t: [0])[i // G] for i in range(G * STATES)]
    state = State()
    state.global_step = step
    given = {name: [row[name] for row in rows] for name in ("images", "target", "instruction", "turns")}
    return given | {
        "completions": [[{"role": "assistant", "content": plan}] for plan in PLANS],
        "trainer_state": state,
    }


@pytest.fixture
def executor() -> Executor:
    return Executor(ReplayModel(hashed_click), Sampling())


def test_the_stage_counts_and_gates_groups_as_the_profile_says(executor, tmp_path):
    given = {"group_size": G, "completions_per_step": G * STATES, "steps": STEPS, "beta": 0, "epsilon": 0.2}
    earned, told = {}, []
    for gate in (False, True):
        settings = SpecializeSettings(**given, learning_rate=1e-3, reach=0.7, gate=gate)
        keeping = KeepingReward(executor, 4, settings, tmp_path / str(gate))
        earned[gate] = keeping(**columns(0), log_metric=lambda *metric: told.append(metric))
    plain, gated = ([part[i : i + G] for i in range(0, G * STATES, G)] for part in earned.values())
    wrong = [max(group) < RIGHT for group in plain]
    assert told == [("frac_without_right", pytest.approx(sum(wrong) / STATES))] * 2 and any(wrong)
    assert any(len(set(group)) > 1 for group in plain)
    for of_plain, of_gated, is_wrong in zip(plain, gated, wrong, strict=True):
        assert of_gated == ([pytest.approx(sum(of_plain) / G)] * G if is_wrong else of_plain)


def test_rewards_stay_and_some_groups_are_kept(executor, tmp_path):
    given = {"group_size": G, "completions_per_step": G * STATES, "steps": STEPS}
    settings = SpecializeSettings(**given, learning_rate=1e-3, beta=0, epsilon=0.2, reach=2)
    here = Run(str(tmp_path / "run"))
    keeping, plain = (
        KeepingReward(executor, 4, settings, here.groups("algebra")),
        ActionReward(executor, 4, settings),
    )
    for step in range(STEPS):
        assert keeping(**columns(step)) == plain(**columns(step))
    paths = sorted(here.groups("algebra").glob("*.parquet"))
    assert [path.stem for path in paths] == ["00001", "00003", "00005", "00007", "00009"]
    groups = pq.read_table(paths[0]).to_pylist()
    assert len(groups) == EACH and groups[0]["step"] == 1
    assert [plan["plan"] for plan in groups[0]["plans"]] == PLANS[:G]
    assert (
        groups[0]["plans"][0]["reward"]
        == groups[0]["plans"][3]["reward"]
        > groups[0]["plans"][2]["reward"]
        == 0
    )

    evidence = Evidence("groups")
    read_groups(here, "specialist", "algebra", evidence)
    shown = evidence.groups[0]
    assert len(evidence.groups) == 5 * EACH and sum(
        plan["advantage"] for plan in shown["plans"]
    ) == pytest.approx(0)
    assert shown["target"] == [{"type": "click", "label": "click", "x": 0.25, "y": 0.5}]
