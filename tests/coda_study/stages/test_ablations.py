"""Ablations: who labels, what is trained with what, and what the tables make of it."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset
from tiny_models import NO, RULE, YES, made_up

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.files import write_text
from coda_lib.judge import Judge, Verdict, format_verdict
from coda_lib.models.chat import ReplayModel
from coda_lib.trajectory import load_trajectories, save_trajectories
from coda_study.draws import train_tasks
from coda_study.evaluation import ablations as ablation_tables
from coda_study.evaluation.ablations import executors, novel, variants
from coda_study.evaluation.statistics import EpisodesError
from coda_study.run import Run
from coda_study.stages import ablations
from coda_study.stages import judges as other_judges
from coda_study.stages import labels as labels_stage

APPS = ("algebra", "gis")
CHANGES = (
    "apps=[algebra, gis]", "evaluation_runs=4", "bootstrap_resamples=300", "judge.trim=false",
    "ablations={}", "ablations.truth={labels: truth}", "ablations.joint={joint: true}",
    "ablations.big={group_size: 16}",
    "ablations.coupled={coupled: true, distance: false}", "ablations.low={labels: two resolutions}",
)  # fmt: skip
UNCLEAN = format_verdict(Verdict(True, (2,)))


@pytest.fixture
def run(tmp_path) -> Run:
    made = Run(str(tmp_path / "run"))
    made.store(load_profile("laptop", CHANGES))
    return made


def test_a_group_that_does_not_divide_a_step_is_refused():
    with pytest.raises(
        UserError, match="ablations.x: completions_per_step 128 is no multiple of group_size 7"
    ):
        load_profile("laptop", ("ablations.x={group_size: 7}",))
    with pytest.raises(UserError, match="ablations.x.labels"):
        load_profile("laptop", ("ablations.x={labels: mine}",))


# ---- labels ----------------------------------------------------------------------------------------------


@pytest.fixture
def judged(run, monkeypatch) -> Run:
    """Give a run with five attempts at tasks of one step: what the judge says of them, whether they are
    solved.
    """
    tasks = train_tasks(run, "algebra")
    task = next(task for task in tasks if len(task.solution) == 1 and task.ans is None)
    slow = (("Click 'Grid'.", made_up().steps[0].actions[0]),) * 2 + (
        ("DONE", made_up().steps[1].actions[0]),
    )
    attempts = [
        made_up(0, verdicts=(YES,) * 4), made_up(1, verdicts=(YES,) * 4, success=False), made_up(2,
        verdicts=(NO,)),
        made_up(3, slow, verdicts=(YES, YES, UNCLEAN, YES)), made_up(4, slow, verdicts=(NO,)),
    ]  # fmt: skip
    save_trajectories(
        run.judged("base", "algebra"), [replace(t, task_id=task.id, run=i) for i, t in enumerate(attempts)]
    )
    other = train_tasks(run, "gis")[0]
    failed = made_up(task_id=other.id, app="gis", verdicts=(NO,), success=False)
    save_trajectories(run.judged("base", "gis"), [failed])
    said = {
        "low": iter([YES, NO, YES, YES, YES] + [YES] * 4),
        "base": iter([NO, YES, YES, NO, NO] + [YES] * 2),
    }
    counts = {"judge": 4, "low": 2, "base": 2}

    def load_judges(profile):
        return {
            n: lambda n=n: Judge(ReplayModel(said.get(n, iter(()))), votes=counts[n], rule=RULE)
            for n in counts
        }

    monkeypatch.setattr(labels_stage, "load_judges", load_judges)
    labels_stage.run(run, "algebra")
    said |= {"low": iter([NO]), "base": iter([NO])}
    labels_stage.run(run, "gis")
    return run


def test_true_labels_can_leave_needless_steps_out(judged):
    """Of a solved attempt with the same click twice: the second click and the end, if read."""
    attempts = load_trajectories(judged.judged("base", "algebra"))
    slow = attempts[3]
    (task,) = (task for task in train_tasks(judged, "algebra") if task.id == slow.task_id)
    scripted = replace(task, solution=({"click": "Grid"},))
    plain, trimmed = (labels_stage.true_labels([scripted], trim) for trim in (False, True))
    assert not plain(slow) and list(trimmed(slow)) == [1, 2]
    assert not trimmed(replace(slow, success=False))
    unread = replace(slow.steps[1], error="no action")
    assert list(trimmed(replace(slow, steps=(slow.steps[0], unread, slow.steps[2])))) == [2]


@pytest.mark.parametrize(
    ("labels", "clean"),
    [
        ("voting", {0, 1}),  # the third vote finds a needless step in 3
        ("single", {0, 1, 3}),
        ("base judge", {1, 2}),
        (
            "two resolutions",
            {0, 3},
        ),  # the small screenshots refuse 1, the full ones 2 and 4; two votes have not seen 3's fault
        ("ensemble", {1}),
        ("truth", {0, 2}),  # 1 is not solved, 3 and 4 take more steps than the script
        ("failed", {1}),
        ("shuffled", {3, 4}),  # two, as the rule takes, and others
    ],
)
def test_each_rule_labels_its_own_attempts(judged, labels, clean):
    label = labels_stage.labeller(judged, "algebra", labels)
    attempts = load_trajectories(judged.judged("base", "algebra"))
    assert {t.run for t in attempts if label(t)} == clean
    assert all(list(label(t)) == list(range(len(t.steps))) for t in attempts if t.run in clean)
    broken = replace(
        attempts[0], steps=(replace(attempts[0].steps[0], error="no action"), *attempts[0].steps[1:])
    )
    assert not label(broken)
    assert len(ablations.training_rows(judged, "algebra", labels)) == sum(
        len(attempts[i].steps) for i in clean
    )


def test_the_quality_of_labels_is_counted_in_steps(judged):
    table = labels_stage.label_quality(judged).set_index("labels")
    assert table.loc["voting"].tolist() == [2, 4, 50.0]
    assert table.loc["truth", "failed"] == 0
    assert table.loc["single", ["attempts", "steps"]].tolist() == [3, 7]


def test_the_real_judges_are_those_of_table_2():
    assert set(other_judges.load_judges(load_profile("laptop"))) == {"judge", "low", "base"}


# ---- training --------------------------------------------------------------------------------------------


@pytest.fixture
def trained(run, monkeypatch) -> list[dict]:
    """Give what each training was called with."""
    calls: list[dict] = []

    def record(coupled: bool):
        def train(rows, planner, executor, settings, sampling, folder, seed, distance=True, progress=None):
            progress(settings.steps, settings.steps)
            calls.append({"rows": list(rows["x"]), "settings": settings, "folder": folder, "seed": seed,
                          "distance": distance, "coupled": coupled})  # fmt: skip

        return train

    monkeypatch.setattr("coda_lib.trainer.specialize", record(False))
    monkeypatch.setattr("coda_study.stages.coupled.specialize_coupled", record(True))
    monkeypatch.setattr(ablations.Executor, "load", lambda *given: None)
    monkeypatch.setattr(
        ablations, "training_rows", lambda run, app, labels: Dataset.from_dict({"x": [f"{app} {labels}"]})
    )
    return calls


def test_a_variant_changes_one_thing(run, trained):
    usual = run.profile().specialize
    moves = []
    trained_for = ablations.train_variant(run, "truth", lambda *move: moves.append(move))
    assert trained_for == {app: run.variant("truth", app) for app in APPS}
    assert moves == [
        (usual.steps, 2 * usual.steps),
        (2 * usual.steps, 2 * usual.steps),
    ]  # of both trainings together
    assert ablations.logs(run, "truth")["gis"].parent == run.variant("truth", "gis")
    assert [call["rows"] for call in trained] == [["algebra truth"], ["gis truth"]]
    assert all(call["settings"] == usual and call["distance"] and not call["coupled"] for call in trained)
    assert len({call["seed"] for call in trained}) == 2
    del trained[:]
    ablations.train_variant(run, "big")
    assert {call["settings"] for call in trained} == {usual.model_copy(update={"group_size": 16})}
    del trained[:]
    ablations.train_variant(run, "coupled")
    assert [(call["coupled"], call["distance"]) for call in trained] == [(True, False)] * 2


def test_one_planner_for_all_has_all_rows_and_as_many_steps(run, trained):
    assert ablations.train_variant(run, "joint") == dict.fromkeys(APPS, run.variant("joint", "all"))
    (call,) = trained
    assert (
        call["rows"] == ["algebra voting", "gis voting"]
        and call["settings"].steps == 2 * run.profile().specialize.steps
    )


# ---- tables ----------------------------------------------------------------------------------------------


def episodes(system: str, app: str, share: float, tasks: int = 6) -> pd.DataFrame:
    rng = np.random.default_rng(3)  # the same draws for all, so that a larger share solves more
    rows = [
        (f"{app}/{t}", app, "A", r, system, bool(rng.random() < share), "DONE")
        for t in range(tasks)
        for r in range(4)
    ]
    return pd.DataFrame(rows, columns=["task_id", "app", "grade", "run", "system", "success", "stop"])


def put(path, table: pd.DataFrame) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(path, index=False)


@pytest.fixture
def played(run) -> Run:
    shares = {"base": 0.1, "executor": 0.2, "stage1": 0.5, "stage2": 0.7}
    for app in APPS:
        for system, share in shares.items():
            put(run.evaluation(system, app), episodes(system, app, share))
        of = [("base, tree", 0.3), ("stage2, tree", 0.9), ("base, coder", 0.6), ("stage2, coder", 0.1)]
        put(run.transfer(app), pd.concat([episodes(system, app, share) for system, share in of]))
        write_text(
            run.specialist(app) / "metrics.jsonl",
            "".join(f'{{"step": {i}, "reward": {i}}}\n' for i in range(40)),
        )
    for i, name in enumerate(run.profile().ablations):
        put(run.ablation(name), pd.concat([episodes(name, app, 0.2 * i) for app in APPS]))
        for part in ("all",) if name == "joint" else APPS:
            write_text(
                run.variant(name, part) / "metrics.jsonl",
                '{"step": 1, "reward": 1.5}\n{"step": 2, "reward": 0.5}\n',
            )
    return run


def test_each_variant_stands_beside_stage_1(played):
    table = variants(played, resamples=300).set_index("variant")
    assert list(table.index) == ["stage1", *played.profile().ablations]
    means = pd.concat(pd.read_parquet(played.ablation(name)) for name in played.profile().ablations)
    expected = means.groupby(["system", "app"])["success"].mean().unstack().mean(axis=1) * 100
    for name, row in table.iloc[1:].iterrows():
        assert row["value"] == pytest.approx(expected[name])
        assert row["difference"] == pytest.approx(row["value"] - table.loc["stage1", "value"])
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]
    assert np.isnan(table.loc["stage1", "difference"]) and table.loc["truth", "difference"] < 0
    assert (
        table.loc["coupled", "changed"] == "distance: False, coupled: True"
        and table.loc["stage1", "changed"] == ""
    )
    assert table.loc["stage1", ["reward_first", "reward_last"]].tolist() == [4.5, 34.5]
    assert table.loc["joint", ["reward_first", "tasks", "runs"]].tolist() == [1.0, 12, 4]


def another_seed(run: Run, seed: int, lacks: str) -> Run:
    """A copy of a run with another seed, another luck of stage 1, and without one of the ablations."""
    folder = shutil.copytree(run.folder, run.folder.with_name(f"{run.folder.name}-seed{seed}"))
    profile = run.profile()
    rest = {name: variant for name, variant in profile.ablations.items() if name != lacks}
    Run(str(folder)).store(profile.model_copy(update={"seed": seed, "ablations": rest}))
    for app in APPS:
        put(Run(str(folder)).evaluation("stage1", app), episodes("stage1", app, seed / 10))
    return Run(str(folder))


def test_seeds_are_pooled_and_each_variant_meets_the_stage_1_of_its_own_seeds(played):
    seeds = [another_seed(played, 3, "truth"), another_seed(played, 4, "coupled")]
    table = variants(played, *seeds, resamples=300).set_index("variant")
    assert table["seeds"].to_dict() == {
        "stage1": 3,
        **dict.fromkeys(played.profile().ablations, 3),
        "truth": 2,
        "coupled": 2,
    }
    alone = {run: variants(run, resamples=300).set_index("variant") for run in (played, *seeds)}
    for name, having in {"joint": alone, "truth": (played, seeds[1]), "coupled": (played, seeds[0])}.items():
        row = table.loc[name]
        assert row["difference"] == pytest.approx(
            np.mean([alone[run].loc[name, "difference"] for run in having])
        )
        assert row["difference_low"] < row["difference"] < row["difference_high"] and row["runs"] == 4 * len(
            having
        )
    of_tasks = alone[played].loc["joint"]
    assert table.loc["joint", "difference_high"] - table.loc["joint", "difference_low"] > 0.9 * (
        of_tasks["difference_high"] - of_tasks["difference_low"]
    )
    assert "seeds" in ablation_tables.layout(table.reset_index())
    assert "seeds" not in ablation_tables.layout(alone[played].reset_index())


def test_runs_of_two_studies_make_no_table(played):
    other = another_seed(played, 3, "truth")
    profile = other.profile()
    other.store(profile.model_copy(update={"evaluation_runs": 3}))
    with pytest.raises(UserError, match="is another study than .*: it differs in evaluation_runs"):
        variants(played, other)


def test_a_variant_without_all_its_episodes_makes_no_table(played):
    whole = pd.read_parquet(played.ablation("truth"))
    put(played.ablation("truth"), whole[1:])
    with pytest.raises(EpisodesError, match="system 'truth': 1 of 48 episodes missing: algebra/0 run 0"):
        variants(played, resamples=300)


def test_executors_are_compared_with_the_same_executor(played):
    table = executors(played, 300).set_index(["executor", "planner"])
    assert list(table.index) == [
        (kind, planner) for kind in ("usual", "tree", "coder") for planner in ("base", "stage2")
    ]
    gap = table["value"].unstack()["stage2"] - table["value"].unstack()["base"]
    for kind in ("usual", "tree", "coder"):
        assert table.loc[(kind, "stage2"), "difference"] == pytest.approx(gap[kind])
    assert gap["tree"] > 0 > gap["coder"]


def test_novel_software_is_a_table_of_its_own(run):
    shares = {"base": 0.1, "executor": 0.9, "stage2": 0.5}
    put(
        run.transfer("spectra"),
        pd.concat([episodes(system, "spectra", share) for system, share in shares.items()]),
    )
    table = novel(run, "spectra", 300).set_index("system")
    assert list(table.index) == ["base", "executor", "stage2"] and table.loc["executor", "difference"] > 0


def test_logs_are_those_of_the_variant(played):
    assert set(ablation_tables.reward_logs(played, "joint")) == {"all"}
    assert set(ablation_tables.reward_logs(played, "stage1")) == set(APPS)


def test_the_committed_tables_are_laid_out_for_people(played, monkeypatch, tmp_path):
    monkeypatch.setattr(ablation_tables, "REFERENCE", tmp_path)
    assert ablation_tables.committed_tables() == {}
    table = variants(played, resamples=300)
    write_text(
        tmp_path / "ablations" / "tables" / "ablations.csv", table.to_csv(index=False, float_format="%.6g")
    )
    ((about, shown),) = ablation_tables.committed_tables().items()
    assert about.startswith("Stage 1 with one thing changed") and list(shown["variant"]) == list(
        table["variant"]
    )
    first, other = shown.iloc[0], shown.iloc[1]
    assert first["difference"] == first["changed"] == "" and first["Overall Average@k"].startswith(
        f"{table['value'][0]:.1f} ["
    )
    change, _, interval = other["difference"].partition(" ")
    assert change == f"{table['difference'][1]:+.1f}" and re.fullmatch(r"\[\S+, \S+\]", interval)
