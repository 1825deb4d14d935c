"""Messages for the trainers of others: TRL's own loader and collator read them, and no text breaks them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from datasets import load_dataset
from PIL import Image
from tiny_models import NO, YES, made_up, save_tiny
from trl import SFTConfig, SFTTrainer
from trl.data_utils import prepare_multimodal_messages

from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.judge import Verdict, format_verdict
from coda_lib.models.local import load_processor
from coda_lib.planner import format_plan
from coda_lib.trajectory import save_trajectories
from coda_study.formats import convert
from coda_study.run import Run

PLANS = ["Click 'Grid'.", "DONE"]  # of `made_up`


@pytest.fixture
def folder(tmp_path):
    """Two accepted attempts of two steps, and one that is not accepted."""
    judged = [made_up(1), made_up(2, instruction="a <image> of <video>"), made_up(3, verdicts=(YES, NO))]
    save_trajectories(tmp_path / "judged.parquet", judged)
    lines: list[str] = []
    assert convert(tmp_path / "judged.parquet", tmp_path / "out", "messages", lines.append) == ("coda", 3)
    assert lines == ["labels: steps of attempts that all votes call correct and clean"]
    return tmp_path / "out"


def rows_of(folder):
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


def test_trl_loads_collates_and_trains_on_them(folder, tmp_path):
    rows = load_dataset("parquet", data_files=str(folder / "train.parquet"), split="train",
                        cache_dir=str(tmp_path / "cache"))  # fmt: skip
    processor = load_processor(save_tiny(tmp_path / "model"))
    settings = SFTConfig(str(tmp_path / "trained"), max_steps=1, max_length=None, report_to="none",
                         per_device_train_batch_size=4, use_cpu=True)  # fmt: skip
    trainer = SFTTrainer(str(tmp_path / "model"), settings, train_dataset=rows, processing_class=processor)
    batch = next(iter(trainer.get_train_dataloader()))
    assert len(batch["input_ids"]) == 4 and len(batch["image_grid_thw"]) == 8  # two screens a step
    learned = [ids[labels != -100] for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)]
    said = sorted(processor.decode(ids, skip_special_tokens=True).strip() for ids in learned)
    assert said == sorted(2 * [format_plan(plan, "full") for plan in PLANS])
    trainer.train()
    assert trainer.state.log_history[-1]["train_loss"] > 0


def test_the_lines_have_the_form_of_llama_factory_and_ms_swift(folder):
    rows, trl = rows_of(folder), load_parquet(folder)
    index = json.loads((folder / "dataset_info.json").read_text())["coda"]
    assert (folder / index["file_name"]).is_file() and index["formatting"] == "sharegpt"
    assert len(rows) == len(trl) == 4
    for row, other in zip(rows, trl, strict=True):
        system, user, assistant = row["messages"]
        assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant"]
        assert user["content"].count("<image>") == len(row["images"]) == 2
        assert "<image>" not in system["content"] + assistant["content"]
        screens = [Image.open(folder / name).convert("RGB").tobytes() for name in row["images"]]
        assert screens == [image.convert("RGB").tobytes() for image in other["images"]]
        assert assistant["content"] == other["completion"][0]["content"][0]["text"]
        filled = prepare_multimodal_messages(other["prompt"], images=other["images"])
        assert [part["type"] for part in filled[1]["content"]].count("image") == 2
    assert "a < image> of < video>" in rows[2]["messages"][1]["content"]  # a text is no place for a file
    assert "a <image> of <video>" in trl[2]["prompt"][1]["content"][0]["text"]


def load_parquet(folder):
    path = str(folder / "train.parquet")
    return load_dataset("parquet", data_files=path, split="train", cache_dir=str(folder / "cache"))


def test_a_file_of_a_run_has_the_labels_of_its_run(tmp_path):
    run, lines = Run(str(tmp_path / "run")), []
    run.store(load_profile("smoke", ("judge.votes=2", "judge.trim=true")))
    wordy = format_verdict(Verdict(True, (1,)))
    save_trajectories(run.judged("base", "gis"), [made_up(1, verdicts=(YES, wordy))])
    convert(run.judged("base", "gis"), tmp_path / "out", "messages", lines.append)
    assert [row["messages"][-1]["content"] for row in rows_of(tmp_path / "out")] == ["Thought: DONE"]
    assert lines == ["labels: by the rule of run run, voting@2, trimmed"]


def test_what_is_not_judged_is_one_clear_error(tmp_path):
    save_trajectories(tmp_path / "ours.parquet", [replace(made_up(1), verdicts=())])
    with pytest.raises(UserError, match="none of 1 trajectories has a labelled step, 0 are judged"):
        convert(tmp_path / "ours.parquet", tmp_path / "out", "messages")
    assert not (tmp_path / "out").exists()
