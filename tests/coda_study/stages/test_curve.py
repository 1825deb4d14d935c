"""The curve over numbers of tasks: its points, and stage 2 from other starts."""

from __future__ import annotations

import pandas as pd
import pytest
from tiny_models import made_up, save_tiny

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.models.local import load_network, load_processor
from coda_study.run import Run
from coda_study.show import task_curve
from coda_study.stages import curve


@pytest.fixture
def run(tmp_path) -> Run:
    processor = load_processor(known := save_tiny(tmp_path / "known"))
    processor.image_processor.size = {
        "shortest_edge": 28 * 28,
        "longest_edge": 336 * 224,
    }  # of other software
    processor.save_pretrained(known)
    made = Run(str(tmp_path / "run"))
    starts = f"{{known: {known}, scratch: null}}"
    change = f"curve={{app: algebra, tasks: [2, 4], episodes: 8, labels: [voting], starts: {starts}}}"
    planner = f"models.planner={save_tiny(tmp_path / 'base', seed=1)}"
    made.store(load_profile("smoke", (planner, change, "generalize.steps=2")))
    return made


def test_a_start_has_a_name_of_its_own():
    for name, wrong in {"truth": "cannot be called truth", "../x": r"starts"}.items():
        with pytest.raises(UserError, match=wrong):
            load_profile(
                "smoke", (f"curve={{app: algebra, tasks: [2], episodes: 2, starts: {{{name}: null}}}}",)
            )


def test_labels_or_starts_are_needed():
    curve_of = "curve={app: algebra, tasks: [2], episodes: 2, labels: []%s}"
    assert load_profile("smoke", (curve_of % ", starts: {scratch: null}",)).curve.labels == ()
    with pytest.raises(UserError, match="needs labels or starts"):
        load_profile("smoke", (curve_of % "",))


def test_points_are_the_base_planner_labels_and_starts(run):
    points = curve.points_of(run.profile().curve)
    assert points == [
        (0, "base"),
        *[(tasks, name) for tasks in (2, 4) for name in ("voting", "known", "scratch")],
    ]


def test_stage_2_begins_with_a_start_or_with_random_weights(run, monkeypatch):
    judged = [made_up(number) for number in range(3)]
    monkeypatch.setattr(
        curve, "labelled", lambda here, tasks, labels: (judged, lambda attempt: range(len(attempt.steps)))
    )
    begun = []
    monkeypatch.setattr(
        "coda_lib.trainer.generalize", lambda rows, start, *rest: begun.append((len(rows), start))
    )
    for name in ("known", "scratch"):
        curve.train(run, 2, name)
    (known_rows, known), (rows, scratch) = begun
    assert known_rows == rows > 0
    assert (known, scratch) == tuple(run.curve(0, name).with_suffix("") for name in ("known", "scratch"))
    theirs, ours = (dict(load_network(path, trainable=False, device="cpu").named_parameters())
                    for path in (run.profile().curve.starts["known"], known))  # fmt: skip
    assert all((weights.bfloat16() == ours[name]).all() for name, weights in theirs.items())
    assert (
        load_processor(known).image_processor.size
        == load_processor(run.profile().models.planner).image_processor.size
    )
    base, random = (
        load_network(path, trainable=False, device="cpu") for path in (run.profile().models.planner, scratch)
    )
    assert base.config.to_dict().keys() == random.config.to_dict().keys()
    drawn = dict(random.named_parameters())
    assert any((weights != drawn[name]).any() for name, weights in base.named_parameters())
    assert all((weights == weights.bfloat16()).all() for weights in drawn.values())
    kept = (scratch / "model.safetensors").read_bytes()
    assert curve.beginning(None, run.profile().models.planner, scratch, seed=9) == scratch
    assert (scratch / "model.safetensors").read_bytes() == kept  # made once


def test_the_figure_has_a_line_for_each_start():
    rows = pd.DataFrame(
        [
            (0, "base", 5, 3, 8),
            *[(n, name, n, n - 1, n + 2) for n in (2, 4) for name in ("voting", "known", "scratch")],
        ],
        columns=["tasks", "labels", "value", "low", "high"],
    )
    labels = {text.get_text() for text in task_curve(rows).axes[0].get_legend().get_texts()}
    assert labels == {"base planner", "labels of the judge", "stage 2 from known", "stage 2 from scratch"}
