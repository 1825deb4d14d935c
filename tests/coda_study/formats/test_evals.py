"""Logs of Inspect: its own library reads what we write; without it nothing is written."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from tiny_models import made_up

from coda_lib.action import Action
from coda_lib.errors import UserError
from coda_lib.judge import Verdict, format_verdict
from coda_lib.trajectory import save_trajectories
from coda_study.formats import convert


@pytest.fixture
def source(tmp_path):
    acts = [("Click 'Grid'.", Action.click(0.5, 0.25)), ("DONE", Action.done())]
    yes = made_up(1, acts, success=True, verdicts=(format_verdict(Verdict(True)), "no verdict"))
    no = replace(yes, run=1, success=False, verdicts=("no verdict",))
    unknown = replace(yes, task_id="gis/<b>", app="gis", success=None, verdicts=())
    save_trajectories(tmp_path / "ours.parquet", [yes, no, unknown])
    return tmp_path / "ours.parquet"


def test_inspect_reads_a_sample_for_each_episode(source, tmp_path):
    log = pytest.importorskip("inspect_ai.log")
    assert convert(source, tmp_path / "log.eval", "inspect") == ("coda", 3)
    read = log.read_eval_log(str(tmp_path / "log.eval"), resolve_attachments=True)
    assert read.status == "success" and read.results.scores[0].metrics["accuracy"].value == 0.5
    samples = {(sample.id, sample.epoch): sample for sample in read.samples}
    assert len(samples) == 3 and read.eval.model.startswith("coda/")
    keys = sorted(samples, key=lambda key: (key[0].startswith("gis"), key))
    first, second, third = (samples[key] for key in keys)
    assert [sample.scores["check"].value for sample in (first, second, third)] == ["C", "I", "N"]
    assert [sample.scores["judge"].value for sample in (first, second)] == ["C", "N"]
    assert "judge" not in third.scores
    assert [message.role for message in first.messages] == ["user", "assistant", "user", "assistant", "user"]
    picture, text = first.messages[0].content
    assert picture.image.startswith("data:image/png;base64,") and text.text == first.input
    assert first.messages[1].content.startswith("Click 'Grid'.\n\nclick(")


def test_without_inspect_nothing_is_written(source, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(UserError, match="pip install inspect_ai=="):
        convert(source, tmp_path / "log.eval", "inspect")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours.parquet"]


def test_a_log_is_of_one_planner(source, tmp_path):
    pytest.importorskip("inspect_ai.log")
    save_trajectories(tmp_path / "two.parquet", [made_up(1), replace(made_up(1), planner="another")])
    with pytest.raises(UserError, match="of one planner, here are 2"):
        convert(tmp_path / "two.parquet", tmp_path / "log.eval", "inspect")
