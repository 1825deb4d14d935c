"""The recipe from end to end: what it learns from and keeps, what begins with what, and its cards."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from tiny_models import made_up

from base_models import cards, data, recipe
from base_models.accounts import Asked
from base_models.cards import pairs
from base_models.letters import processor
from base_models.network import Pointer
from base_models.seeing import Reader
from base_models.training_tasks import judge_tasks
from coda_lib.environment import EnvironmentFault
from coda_lib.models.local import load_network
from coda_lib.paths import CHECKPOINTS
from coda_lib.trajectory import StopReason, Trajectory
from coda_study.owned import claim


def test_of_each_task_as_many_solved_as_failed_rollouts_make_pairs():
    outcomes = {
        "gis/a": [True, False, False],
        "gis/b": [True, True],
        "gis/c": [False, True, False, True, True],
    }
    played = [
        made_up(task_id=name, run=i, success=s) for name, some in outcomes.items() for i, s in enumerate(some)
    ]
    drawn = [(t.task_id, t.run) for t in pairs(played)]
    assert sorted(drawn) == [("gis/a", 0), ("gis/a", 1), *[("gis/c", run) for run in range(4)]]


def test_the_figures_of_the_judge_rest_on_tasks_that_it_never_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "trained_agent", lambda folder, name, profile: f"{name} of {profile}")
    monkeypatch.setattr(
        data,
        "rollout",
        lambda agent, jobs, *_, **__: [made_up(task_id=task.id, run=run) for task, run in jobs],
    )
    made = data.Data(tmp_path, ["gis"], data.Recipe(rollouts=40, unseen=30, tries=2))
    (learned,), (held_out,) = made.rollouts(), made.rollouts(unseen=True)
    assert len(learned) == 80 and len(held_out) == 60
    assert {t.task_id for t in learned} <= {task.id for _, task in judge_tasks("gis")}
    assert all("-development-" in t.task_id for t in held_out)
    assert made.rollouts() == [learned]  # kept


def test_applications_may_have_fewer_tasks_than_others(tmp_path, monkeypatch):
    counts = {"PyMOL": 60, "KAlgebra": 30}
    played = {app: [made_up(task_id=f"{app}/{i}") for i in range(count)] for app, count in counts.items()}

    def play(_, app, name, tasks, concurrency):
        assert tasks, name
        return tasks

    monkeypatch.setattr(data, "judge_tasks", lambda app: [((), task) for task in played[app]])
    monkeypatch.setattr(data.Data, "_played", play)
    assert [len(of_app) for of_app in data.Data(tmp_path, list(counts), data.Recipe()).rollouts()] == [60, 30]


def test_answers_are_of_questions_and_in_real_applications_of_demonstrations(tmp_path, monkeypatch):
    made = data.Data(tmp_path, ["gis"], data.Recipe(questions=4))
    (answers,) = made.answers
    assert len(answers) > 4 and all("answer" in one.step for one in answers)
    assert (tmp_path / "answers" / "gis.parquet").is_file()
    ends = [answers[0], replace(answers[0], step=None), replace(answers[0], step={"click": "Map"})]
    monkeypatch.setattr(data.Data, "demonstrations", [[[answers[1], end] for end in ends]])
    assert data.Data(tmp_path, ["PyMOL"], data.Recipe()).answers == [[answers[0]]]


def test_walks_through_real_applications_are_kept_piece_by_piece(tmp_path, monkeypatch):
    asked = []

    def collect(app: str, length: int, seed: str) -> list[Asked]:
        asked.append((app, length, seed))
        if len(asked) == 4:
            raise EnvironmentFault("it broke ten times")
        return [Asked(f"{app} {seed} {i}", "yes", True) for i in range(length)]

    monkeypatch.setattr(data, "collect", collect)
    apps, sizes = ["KAlgebra", "PyMOL"], replace(data.Recipe.of(["KAlgebra", "PyMOL"]), walk=1_200)
    with pytest.raises(EnvironmentFault):
        _ = data.Data(tmp_path, apps, sizes).walks
    walks = data.Data(tmp_path, apps, sizes).walks
    assert [len(walk) for walk in walks] == [1_200, 1_200] and len(
        {step.instruction for walk in walks for step in walk}
    ) == 2_400
    assert len(asked) == 7 and max(Counter(asked).values()) == 2  # the broken piece alone was asked for twice


def test_rollouts_in_real_applications_are_kept_piece_by_piece_without_those_that_broke(
    tmp_path, monkeypatch
):
    asked = []

    def rollout(
        agent: str, jobs: list, make: object, seed: int, concurrency: int, report: object
    ) -> list[Trajectory]:
        asked.append((len(jobs), concurrency))
        if (
            len(jobs) == 40 and asked.count((40, 1)) == 1
        ):  # the last piece, the first time; threads begin in any order
            raise KeyboardInterrupt
        broken = replace(made_up(task_id=jobs[0][0].id), stop=StopReason.ENVIRONMENT_ERROR, success=None)
        return [broken, *(made_up(task_id=task.id, run=run) for task, run in jobs[1:])]

    monkeypatch.setattr(data, "trained_agent", lambda folder, name, profile: f"{name} of {profile}")
    monkeypatch.setattr(data, "rollout", rollout)
    made = data.Data(tmp_path, ["PyMOL", "KAlgebra"], data.Recipe(rollouts=120, tries=2))
    with pytest.raises(KeyboardInterrupt):
        made.rollouts()
    played = made.rollouts()
    assert [len(of_app) for of_app in played] == [240 - 3, 240 - 3]
    assert [{t.task_id.partition("/")[0] for t in of_app} for of_app in played] == [{"PyMOL"}, {"KAlgebra"}]
    assert Counter(asked) == {(100, 1): 4, (40, 1): 3}  # the broken piece alone was played twice


def test_a_recipe_is_smaller_for_real_applications_and_its_card_names_them(tmp_path):
    apps = ["PyMOL", "GrassGIS"]
    made = data.Data(tmp_path, apps, data.Recipe.of(apps))
    assert (
        made.recipe.seeing.screens < data.Recipe.of(["gis"]).seeing.screens and not made.recipe.seeing.letters
    )
    card = recipe.card("executor", [cards.Figure("PyMOL", "row", True, 20, 18, 1)], made)
    assert "In the desktop profile" in card and "It works in PyMOL, GrassGIS only." in card
    assert "| PyMOL | row | held back | 20 | 90.0" in card and "screens 10,000" in card


def test_a_trial_is_a_share_of_the_recipe():
    small = data.Recipe().scaled(0.001)
    assert small.seeing.letters == 28 and small.roles.planner == 9
    assert small.walk == 8 and small.demonstrations == 2
    assert (small.split, small.tries) == (data.Recipe().split, data.Recipe().tries)


@pytest.mark.parametrize("apps", [["gis"], ["PyMOL"]])
def test_each_part_begins_with_the_one_before_it(tmp_path, monkeypatch, apps):
    torch.manual_seed(0)
    begun, loaded, taught = [], [], []
    new = Pointer(Reader(), len(processor().tokenizer))

    def see(folder, walks, unseen, steps, start):
        begun.append(start)
        folder.mkdir()
        new.write(folder / recipe.WEIGHTS)

    def teach(folder, pointer, *rest):
        roles = iter(recipe.ROLES[len(taught) :])
        taught.append(next(roles))
        if taught[-1] == "executor":
            assert [*rest[-1]] == [app for app in apps if app == "gis"]
        elif taught[-1] == "planner":
            assert isinstance(rest[-1], data.Roles)
        else:
            pools, unseen, held, steps, name = rest
            assert name == taught[-1] and unseen == ["told"] * held and steps > 1_000
            assert pools == [["told"], ["screen"], ["played"] if name == "judge" else []]
        pointer.write(folder / f"{taught[-1]}.safetensors")

    load = Pointer.load
    monkeypatch.setattr(Pointer, "load", lambda path: loaded.append(path.name) or load(path))
    monkeypatch.setattr(recipe, "train_to_see", see)
    for name in ("train_executor", "train_planner", "train_judge"):
        monkeypatch.setattr(recipe, name, teach)
    monkeypatch.setattr(recipe, "measured", lambda _, role: [cards.Figure(role, "row", False, 2, 1, 0)])
    for name in ("walks", "test_walks", "demonstrations", "answers", "shown"):
        monkeypatch.setattr(data.Data, name, [["one"]])
    monkeypatch.setattr(data.Data, "told", [["told"] * (data.Recipe.of(apps).roles.held + 1)])
    monkeypatch.setattr(data.Data, "told_screens", [["screen"]])
    monkeypatch.setattr(data.Data, "told_rollouts", lambda self: [["played"]])
    claim(tmp_path, "base models")
    figures = recipe.train_all(tmp_path, apps)
    assert list(figures) == list(recipe.ROLES) and figures["judge"][0].app == "judge"
    assert begun == [None if apps == ["gis"] else CHECKPOINTS / "seeing" / "pointer.safetensors"]
    assert taught == list(recipe.ROLES)
    begins = zip(("pointer", "pointer", "planner", "base_judge"), recipe.ROLES, strict=True)
    assert loaded == [f"{name}.safetensors" for pair in begins for name in pair]
    before = list(loaded)
    recipe.train_all(tmp_path, apps)  # all is there
    assert loaded == before and len(begun) == 1
    assert "# Seeing" in (tmp_path / "seeing" / "README.md").read_text()
    for role in recipe.ROLES:
        assert load_network(tmp_path / role, trainable=False, device="cpu")
        assert f"# Tiny {role.replace('_', ' ')}" in (tmp_path / role / "README.md").read_text()
