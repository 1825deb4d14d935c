"""How the base models are trained and measured: batches, figures, cards, and the recipe from end to end."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from tiny_models import NO, YES, made_up, save_tiny

from base_models import data, recipe
from base_models.attempts import AttemptMaker, Question
from base_models.checks import judging, paired, unseen_attempts
from base_models.rows import Row
from base_models.training import batch_of, packed_batch
from base_models.training_tasks import development_tasks, judge_tasks
from coda_lib.action import Action
from coda_lib.applications import APPS, DESKTOP_APPS
from coda_lib.environment import EnvironmentFault
from coda_lib.files import read_json
from coda_lib.models.chat import ReplayModel
from coda_lib.models.local import encode, load_network, load_processor
from coda_lib.paths import CHECKPOINTS
from coda_lib.trajectory import StopReason, Trajectory, decode_image


def test_what_is_given_is_not_learned(tmp_path):
    processor = load_processor(save_tiny(tmp_path / "judge"))
    row = Row([{"role": "user", "content": [{"type": "text", "text": "Turn"}]}], "DONE", given="off\n")
    inputs, labels = batch_of(processor, [row])
    learned = inputs["input_ids"][0][labels[0] >= 0].tolist()
    assert processor.tokenizer.decode(learned) == f"DONE{processor.tokenizer.eos_token}"
    assert "off" in processor.tokenizer.decode(inputs["input_ids"][0])
    _, labels = batch_of(processor, [replace(row, whole=False)])  # the beginning of a reply does not end it
    assert processor.tokenizer.decode(labels[0][labels[0] >= 0].tolist()) == "DONE"


def test_of_each_task_as_many_solved_as_failed_rollouts_make_pairs():
    outcomes = {
        "gis/a": [True, False, False],
        "gis/b": [True, True],
        "gis/c": [False, True, False, True, True],
    }
    played = [
        made_up(task_id=name, run=i, success=s) for name, some in outcomes.items() for i, s in enumerate(some)
    ]
    drawn = [(t.task_id, t.run) for t in paired(played)]
    assert sorted(drawn) == [("gis/a", 0), ("gis/a", 1), *[("gis/c", run) for run in range(4)]]


def test_a_judges_card_tells_one_that_looks_from_one_that_does_not(walks, monkeypatch):
    tasks = [task for _, task in development_tasks("gis")[:6]]
    ended = {
        success: made_up(number=int(success), acts=[("DONE", Action.done())], success=success)
        for success in (True, False)
    }
    played = [
        replace(ended[ok], task_id=task.id, run=int(ok), app="gis") for task in tasks for ok in (True, False)
    ]
    solved = decode_image(ended[True].screenshots[-1]).tobytes()

    def looks(messages) -> str:
        last = [part["image"] for part in messages[-1]["content"] if part["type"] == "image"][-1]
        return YES if last.tobytes() == solved else NO

    replay, faults = AttemptMaker.rollout, [EnvironmentFault("the window closed")]

    def breaks_once(*arguments):
        if faults:
            raise faults.pop()
        return replay(*arguments)

    monkeypatch.setattr(AttemptMaker, "rollout", breaks_once)
    attempts = unseen_attempts(walks[APPS.index("gis")], played, count=12, seed="0")
    assert {kind: len(of_kind) for kind, of_kind in attempts.items()} == {
        "walk": 12,
        "script": 12,
        "rollout": 12,
        "pair": 12,
    }
    looking = judging(ReplayModel(looks), attempts, seed=0)
    assert looking["rollouts"] == looking["pairs"] == 12 and looking["rollout_successes"] == 0.5
    assert looking["pair_accuracy"] == looking["pair_precision"] == looking["pair_recall"] == 1
    assert looking["pair_accuracy_swapped"] < 0.8
    credulous = judging(ReplayModel(lambda _: YES), attempts, seed=0)
    assert credulous["pair_recall"] == credulous["pair_recall_swapped"] == 1
    assert (
        credulous["pair_accuracy"] == credulous["pair_precision"] == credulous["pair_accuracy_swapped"] == 0.5
    )
    mumbling = judging(ReplayModel(lambda _: "perhaps"), attempts, seed=0)
    assert mumbling["pair_invalid"] == 12 and mumbling["pair_accuracy"] == mumbling["pair_recall"] == 0


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


def test_the_figures_of_the_judge_rest_on_all_tasks_that_were_tried_for_them(tmp_path, monkeypatch):
    made = data.Data(tmp_path, ["gis"], data.Recipe(rollouts=2, unseen=5, samples=30))
    asked = []
    monkeypatch.setattr(data.Data, "test_walks", [["a walk"]])
    monkeypatch.setattr(
        data.Data, "rollouts", lambda self, unseen: [[made_up(task_id=f"gis/{i}") for i in range(5)]]
    )
    monkeypatch.setattr(
        data.Data, "_stored", lambda self, name, make: asked.append(name) or {"rollout": make.args[1]}
    )
    assert len(made.unseen_attempts()["rollout"]) == 5 and asked == ["unseen_attempts/000000/gis"]


def test_applications_may_have_fewer_tasks_than_others(tmp_path, monkeypatch):
    counts = {"PyMOL": 60, "KAlgebra": 30}
    played = {app: [made_up(task_id=f"{app}/{i}") for i in range(count)] for app, count in counts.items()}

    def play(_, app, name, tasks, concurrency):
        assert tasks, name
        return tasks

    monkeypatch.setattr(data, "judge_tasks", lambda app: [((), task) for task in played[app]])
    monkeypatch.setattr(data.Data, "_played", play)
    assert [len(of_app) for of_app in data.Data(tmp_path, list(counts), data.Recipe()).rollouts()] == [60, 30]


def test_walks_through_real_applications_are_kept_piece_by_piece(tmp_path, monkeypatch):
    asked = []

    def collect(app: str, length: int, seed: str) -> list[Question]:
        asked.append((app, length, seed))
        if len(asked) == 4:
            raise EnvironmentFault("it broke ten times")
        return [Question(f"{app} {seed} {i}", None, "yes") for i in range(length)]

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


def test_a_recipe_is_smaller_for_real_applications_and_its_card_names_them():
    sizes = data.Recipe.of(["PyMOL", "GrassGIS"])
    assert sizes.walk < data.Recipe.of(["gis"]).walk == data.Recipe().walk
    card = recipe.card("executor", {"click_inside": 0.5}, sizes, ["PyMOL", "GrassGIS"])
    assert "In the desktop profile" in card and "It works in PyMOL, GrassGIS only." in card
    assert (
        "begun with ScienceDesk's executor. Then:\n\n* 800 steps with batches of 16. Screens for the "
        "vision tower" in card
    )


@pytest.mark.parametrize("apps", [["gis"], ["PyMOL"]])
def test_each_part_begins_with_the_one_before_it(tmp_path, monkeypatch, apps):
    chain = []
    monkeypatch.setattr(recipe, "train_tower", lambda _: chain.append(tmp_path / "tower"))
    monkeypatch.setattr(recipe, "measured", lambda _, role: {"role": role})
    monkeypatch.setattr(recipe, "part", lambda folder, load, _: chain.extend([*load.args, folder]))
    assert list(recipe.train_all(tmp_path, apps)) == list(recipe.ROLES)
    # a real one has no tower of its own
    first = tmp_path / "reader" if apps == ["gis"] else CHECKPOINTS / "executor"
    assert chain[-8:] == [first] + [tmp_path / role for role in recipe.ROLES for _ in range(2)][:-1]
    assert len(chain) == (11 if apps == ["gis"] else 8)


@pytest.mark.parametrize("role", recipe.ROLES)
def test_a_committed_card_is_what_the_recipe_writes(role):
    """What was written by hand about its weights stands below."""
    committed = (CHECKPOINTS / role / "README.md").read_text()
    figures = read_json(CHECKPOINTS / role / "figures.json")["figures"]
    samples = 120 if "judge" in role else 1000
    assert committed.startswith(recipe.card(role, figures, replace(data.Recipe(), samples=samples)))


@pytest.mark.parametrize("first", ["walks", "judged_walks"])
@pytest.mark.parametrize("apps", [["gis"], list(DESKTOP_APPS)])
def test_judges_learn_from_the_beginnings_of_the_walks(tmp_path, monkeypatch, apps, first):
    files = {}
    monkeypatch.setattr(
        data, "collect", lambda app, length, seed: [f"{app} {seed} {i}" for i in range(length)]
    )

    def stored(_, name, make):
        return files[name] if name in files else files.setdefault(name, make())

    monkeypatch.setattr(data.Data, "_stored", stored)
    made = data.Data(tmp_path, apps, data.Recipe(walk=1_200, judged_walk=700))
    getattr(made, first)
    assert [len(walk) for walk in made.walks] == [1_200] * len(apps)
    assert made.judged_walks == [walk[:700] for walk in made.walks]


@pytest.mark.parametrize("role", recipe.ROLES)
def test_a_committed_card_of_real_applications_is_what_the_recipe_writes(role):
    apps = list(read_json(CHECKPOINTS / "desktop" / role / "split.json"))
    figures = read_json(CHECKPOINTS / "desktop" / role / "figures.json")["figures"]
    committed = (CHECKPOINTS / "desktop" / role / "README.md").read_text()
    assert committed.startswith(recipe.card(role, figures, data.Recipe.of(apps), apps))


def test_many_questions_about_an_attempt_are_to_the_model_as_one_row_each(walks, tmp_path):
    folder = save_tiny(tmp_path / "judge")
    processor, network = load_processor(folder), load_network(folder, trainable=False, device="cpu")
    network.set_attn_implementation("sdpa")
    attempts = [
        AttemptMaker(walks[0]).stretch(random.Random(0)),
        AttemptMaker(walks[1]).screen(random.Random(1)),
    ]
    inputs, labels = packed_batch(processor, network, [attempt.rows for attempt in attempts])
    together = network(**inputs).logits
    for i, attempt in enumerate(attempts):
        learned = (labels[i] >= 0).nonzero()[:, 0]
        starts = [int(k) for k in learned if labels[i, k - 1] < 0]  # where a reply begins
        assert len(starts) == len(attempt.rows) > 2
        for k, row, question in zip(starts, attempt.rows, attempt.questions, strict=True):
            alone = network(**encode(processor, [row.messages])).logits[0, -1]
            assert torch.allclose(together[i, k - 1], alone, atol=1e-4)
            reply = processor.tokenizer(row.reply, add_special_tokens=False)["input_ids"]
            assert labels[i, k : k + len(reply)].tolist() == reply
            ended = (
                k + len(reply) < labels.shape[1]
                and labels[i, k + len(reply)] == processor.tokenizer.eos_token_id
            )
            assert ended == question.whole == row.reply.endswith(("}", "."))
