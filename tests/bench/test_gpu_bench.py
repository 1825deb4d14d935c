"""`coda bench --gpu` on a CPU: the trainer's own step, timed with tiny networks of the real architecture."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen2_5_VLConfig

from coda_lib import trainer
from coda_lib.bench import clock
from coda_lib.bench import gpu as bench_gpu
from coda_lib.bench.estimate import network
from coda_lib.bench.gpu import Report, measure
from coda_lib.config import Profile, load_profile
from coda_lib.files import read_json
from coda_lib.models import local

pytest.importorskip("peft")
PHASES = ["plans", "actions", "reference", "policy", "update"]
G, COUNT, AT_ONCE, PROMPT, PLAN, ACTION, PICTURE = 4, 8, 2, 300, 10, 6, 4 * 3  # plans and tokens


def configuration(width: int) -> Qwen2_5_VLConfig:
    """Patches, merging and windows as in the released models."""
    text = dict(
        hidden_size=width, num_hidden_layers=3, num_attention_heads=width // 32, num_key_value_heads=width // 64,
        intermediate_size=4 * width, vocab_size=1000, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10000.0},
    )  # fmt: skip
    vision = dict(
        depth=4, hidden_size=128, num_heads=4, intermediate_size=512, out_hidden_size=width, patch_size=14, spatial_merge_size=2,
        temporal_patch_size=2, window_size=112, fullatt_block_indexes=[1, 3],
    )  # fmt: skip
    return Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give folders with a configuration and no weights."""
    torch.set_num_threads(1)
    made = {name: tmp_path_factory.mktemp(name) for name in ("planner", "executor")}
    for folder, width in zip(made.values(), (128, 64), strict=True):
        configuration(width).save_pretrained(folder)
    return {name: str(folder) for name, folder in made.items()}


@pytest.fixture(autouse=True)
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Measure little; give the logged steps of each training that was measured."""
    logs = []

    def specialize(*given: Any, **how: Any) -> Path:
        assert issubclass(how["kind"], trainer.SpecializeTrainer)
        folder = trainer.specialize(*given, **how)
        assert not list(folder.rglob("*.safetensors"))
        logs.append([json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()])
        return folder

    monkeypatch.setattr(bench_gpu, "_SIDE", 64)
    monkeypatch.setattr(bench_gpu, "_STEPS", 2)
    monkeypatch.setattr(bench_gpu, "specialize", specialize)
    return logs


def profile(folders: dict[str, str], lora: int | None = 4) -> Profile:
    changes: dict[str, Any] = {
        "models.executor": folders["executor"], "specialize.group_size": G, "specialize.completions_per_step": COUNT,
        "specialize.at_once": AT_ONCE, "specialize.lora": lora, "hardware.screen": [120, 80], "hardware.prompt_tokens": PROMPT,
        "hardware.plan_tokens": PLAN, "hardware.action_tokens": ACTION,
    }  # fmt: skip
    return load_profile("gpu", tuple(f"{field}={json.dumps(value)}" for field, value in changes.items()))


def measured(folders: dict[str, str], *names: str, **changes: Any) -> Report:
    return measure(Console(file=io.StringIO()), names or [folders["planner"]], profile(folders, **changes))


def test_the_phases_cover_the_step_of_the_trainer(folders, trainings):
    report = measured(folders)
    assert [(phase.model, phase.name) for phase in report.phases] == [(folders["planner"], name) for name in PHASES]
    ((*_, first, second),) = trainings
    phases, peak = {phase.name: phase for phase in report.phases}, 1e12 * report.hardware["peak_tflops"]
    training = sum(phases[name].seconds for name in PHASES[:4])  # TRL's own clock starts and stops with `training_step`
    assert training == pytest.approx((first["step_time"] + second["step_time"]) / 2, rel=0.02)
    prompt, reply = PROMPT + 2 * PICTURE, PLAN
    assert second["num_tokens"] == pytest.approx(3 * COUNT * (prompt + reply), rel=0.01)  # so far; a plan may end early
    counts = {name: (phase.read // COUNT, phase.written // COUNT) for name, phase in phases.items()}
    assert counts["plans"] == (prompt, reply) and counts["reference"] == counts["policy"] == (prompt + reply, 0)
    assert counts["actions"][0] > PLAN + 2 * PICTURE and counts["actions"][1] == ACTION and counts["update"] == (0, 0)
    for phase in report.phases:
        assert phase.seconds > 0 and phase.memory_gb is None
        assert phase.share == pytest.approx(phase.flops / phase.seconds / peak)
    together = report.together(folders["planner"])
    assert together.seconds == pytest.approx(sum(phase.seconds for phase in report.phases))
    assert report.versions["torch"] and report.versions["peft"] and report.settings["group_size"] == G


@pytest.mark.parametrize("lora", [4, None])
def test_operations_are_those_that_torch_counts(folders, monkeypatch, lora):
    load = local.load_network

    def eager(*given: Any, **how: Any) -> torch.nn.Module:  # torch's own kernel of attention is not counted on every machine
        loaded = load(*given, **how)
        loaded.set_attn_implementation("eager")
        return loaded

    monkeypatch.setattr(trainer, "load_network", eager)
    monkeypatch.setattr(local, "load_network", eager)
    planner, executor = (network(folders[name]) for name in ("planner", "executor"))
    with FlopCounterMode(display=False) as counted:
        phases = bench_gpu._measured("planner", planner, executor, profile(folders, lora), 1.0)
    assert 3 * sum(phase.flops for phase in phases) == pytest.approx(counted.get_total_flops(), rel=0.15)


def test_on_a_gpu_the_clock_waits_for_it_and_each_phase_has_its_own_peak_memory(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name, value in (("synchronize", None), ("reset_peak_memory_stats", None), ("max_memory_allocated", 3_000)):
        monkeypatch.setattr(torch.cuda, name, lambda name=name, value=value: calls.append(name) or value)
    timer = clock.Clock()
    timer.on_step_begin()
    with timer.phase("policy"), timer.phase("plans"):
        calls.append("work")
    timer.on_step_end()
    around = ["max_memory_allocated", "synchronize", "reset_peak_memory_stats"]
    assert calls == [*around[1:], *around, *around, "work", *around, *around, *around]
    assert {name: memory for name, (_, memory) in timer.steps[0].items()} == dict.fromkeys(("update", "policy", "plans"), 3_000)


def test_a_model_that_does_not_fit_is_reported_and_the_next_one_measured(folders, monkeypatch, coda):
    specialize = bench_gpu.specialize

    def short(rows: Any, planner: Path, *given: Any, **how: Any) -> Path:
        if read_json(planner / "config.json")["text_config"]["hidden_size"] == 128:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")
        return specialize(rows, planner, *given, **how)

    monkeypatch.setattr(bench_gpu, "specialize", short)
    monkeypatch.setattr(bench_gpu, "measure_gpu", lambda console, models: measured(folders, *models))
    command = "bench", "--gpu", "--model", folders["planner"], "--model", folders["executor"]
    code, shown, _ = coda(*command, "--json")
    report = json.loads(shown)
    assert code == 0 and list(report["failed"]) == [folders["planner"]]
    assert "specialize.at_once" in report["failed"][folders["planner"]] and "1.00 GiB" in report["failed"][folders["planner"]]
    assert [(phase["model"], phase["name"]) for phase in report["phases"]] == [(folders["executor"], name) for name in PHASES]
    code, shown, _ = coda(*command)
    assert code == 0 and f"{folders['planner']} does not fit: " in shown and "together" in shown and "of the peak" in shown
    assert f"{COUNT} plans for two screens of 120 × 80; adapters of rank 4 are trained, {AT_ONCE} plans at once" in shown
    code, shown, _ = coda(*command[:4])
    assert code == 1 and "does not fit" in shown and "together" not in shown


def test_without_a_gpu_or_with_an_unknown_model_one_message(coda, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, shown, message = coda("bench", "--gpu")
    assert code == 2 and not shown and "torch finds none here: run it where `nvidia-smi` lists one" in " ".join(message.split())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    code, _, message = coda("bench", "--gpu", "--model", "some/model")
    assert code == 2 and "the sizes of some/model are not known" in message
