"""`make bench ARGS=--training` on a CPU: the trainer's own steps, stock TRL and shared prefixes, with tiny
networks.
"""

from __future__ import annotations

import gc
import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from typer.testing import CliRunner

from coda_lib import trainer
from coda_lib.config import Profile, load_profile
from tools.bench import __main__ as command
from tools.bench import training
from tools.bench.operations import Operations
from tools.bench.training import WAYS, Clock, Report, measure_training

pytest.importorskip("peft")
PHASES = {"prepare", "plans", "actions", "reference", "policy", "update"}
G, COUNT, PROMPT, PLAN, ACTION = 4, 8, 300, 10, 6  # plans, and tokens
TOKENS = torch.arange(2, 62).reshape(2, 30)


def configuration(width: int) -> Qwen2_5_VLConfig:
    """Patches, merging and windows as in the released models."""
    text = dict(
        hidden_size=width, num_hidden_layers=3, num_attention_heads=width // 32,
        num_key_value_heads=width // 64,
        intermediate_size=4 * width, vocab_size=1000, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10000.0},
    )  # fmt: skip
    vision = dict(
        depth=4, hidden_size=128, num_heads=4, intermediate_size=512, out_hidden_size=width, patch_size=14,
        spatial_merge_size=2,
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
def trainings(monkeypatch: pytest.MonkeyPatch, folders) -> list[list[dict[str, Any]]]:
    """Measure little, and call the tiny planner "3b"; give the logged steps of each training that was
    measured.
    """
    logs = []

    def specialize(*given: Any, **how: Any) -> Path:
        assert issubclass(how["kind"], trainer.SpecializeTrainer)
        folder = trainer.specialize(*given, **how)
        assert not list(folder.rglob("*.safetensors"))
        logs.append([json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()])
        return folder

    monkeypatch.setattr(training, "_STEPS", 2)
    monkeypatch.setattr(training, "specialize", specialize)
    monkeypatch.setitem(training.SIZES, "3b", folders["planner"])
    return logs


@pytest.fixture
def bench():
    """Give a function that runs `python -m tools.bench` in this process and returns exit code and output."""
    app = typer.Typer()
    app.command()(command.bench)

    def bench(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
        return result.exit_code, result.output

    return bench


def profile(folders: dict[str, str], lora: int | None = 4) -> Profile:
    changes: dict[str, Any] = {
        "models.executor": folders["executor"], "specialize.group_size": G,
        "specialize.completions_per_step": COUNT,
        "specialize.at_once": None, "specialize.lora": lora, "hardware.screen": [120, 80],
        "hardware.prompt_tokens": PROMPT,
        "hardware.plan_tokens": PLAN, "hardware.action_tokens": ACTION,
    }  # fmt: skip
    return load_profile("gpu", tuple(f"{field}={json.dumps(value)}" for field, value in changes.items()))


def measured(folders: dict[str, str], lora: int | None = 4) -> Report:
    return measure_training(Console(file=io.StringIO()), "3b", profile(folders, lora))


@pytest.mark.parametrize("lora", [4, None])
def test_both_ways_train_alike_and_the_phases_cover_their_steps(folders, trainings, lora):
    report = measured(folders, lora)
    assert {(phase.way, phase.name) for phase in report.phases} == {
        (way, name) for way in WAYS for name in PHASES
    }
    assert report.loss_difference < 1e-5 and report.gradient_difference < 1e-4
    for way, (*_, first, second) in zip(WAYS, trainings, strict=True):
        steps = report.seconds(way) - report.seconds(
            way, "update"
        )  # TRL's own clock starts and stops with `training_step`
        assert steps == pytest.approx((first["step_time"] + second["step_time"]) / 2, rel=0.3)


def test_shared_prefixes_read_each_state_once(folders):
    """Without a GPU the released sizes have one group a step: one state for four plans."""
    tokens = {(phase.way, phase.name): phase.tokens for phase in measured(folders).phases}
    prompt = PROMPT + 2 * 4 * 3  # two pictures
    stock, shared = tokens["stock TRL", "policy"], tokens["shared prefix", "policy"]
    assert stock == tokens["stock TRL", "reference"] <= G * (prompt + PLAN) and stock >= G * prompt
    assert shared == tokens["shared prefix", "reference"] <= prompt + G * (PLAN + 1) and shared >= prompt
    assert tokens["stock TRL", "plans"] >= G * prompt and tokens["shared prefix", "plans"] < 2 * prompt
    assert tokens["stock TRL", "actions"] > tokens["shared prefix", "actions"] > 0
    assert tokens["stock TRL", "update"] == 0


def test_without_a_gpu_a_released_size_has_one_layer(folders):
    cut = training._cut(training.network(folders["planner"])).config
    assert cut.text_config.num_hidden_layers == 1 and cut.vision_config.depth == 4


def test_operations_of_both_ways_are_counted(folders):
    report = measured(folders)
    flops = {(phase.way, phase.name): phase.tflops for phase in report.phases}
    assert flops["stock TRL", "policy"] > 2 * flops["shared prefix", "policy"] > 0
    assert all(phase.share is None and phase.memory_gb > 0.1 for phase in report.phases)


def test_on_a_gpu_the_clock_waits_for_it_and_each_phase_has_its_own_peak_memory(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name, value in (
        ("synchronize", None),
        ("reset_peak_memory_stats", None),
        ("max_memory_allocated", 3_000),
    ):
        monkeypatch.setattr(torch.cuda, name, lambda name=name, value=value: calls.append(name) or value)
    monkeypatch.setattr(Clock, "watch", lambda *_: None)
    timer = Clock(torch.nn.Identity())
    timer.on_step_begin()
    with timer.phase("policy"), timer.phase("plans"):
        calls.append("work")
    timer.on_step_end()
    around = ["max_memory_allocated", "synchronize", "reset_peak_memory_stats"]
    assert calls == [*around[1:], *around, *around, "work", *around, *around, *around]
    assert {name: moment.memory for name, moment in timer.steps[0].items()} == dict.fromkeys(
        ("update", "policy", "plans"), 3_000
    )


def test_a_way_that_does_not_fit_is_reported_and_the_other_measured(folders, monkeypatch, bench):
    specialize = training.specialize

    def short(rows: Any, planner: Path, executor: Any, settings: Any, *given: Any, **how: Any) -> Path:
        if not settings.shared_prefix:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")
        return specialize(rows, planner, executor, settings, *given, **how)

    monkeypatch.setattr(training, "specialize", short)
    monkeypatch.setattr(training, "measure_training", lambda console, size: measured(folders))
    code, shown = bench("--training", "--size", "3b", "--json")
    report = json.loads(shown)
    assert code == 1 and list(report["failed"]) == ["stock TRL"] and report["loss_difference"] is None
    assert {phase["way"] for phase in report["phases"]} == {"shared prefix"}


def test_the_command_shows_both_ways_and_how_they_compare(folders, monkeypatch, bench):
    monkeypatch.setattr(training, "measure_training", lambda console, size: measured(folders))
    code, shown = bench("--training", "--size", "3b")
    assert code == 0 and "4 plans a step in groups of 4; adapters of rank 4 trained" in shown
    assert "times as fast; policy and reference" in shown and "first step: losses differ by" in shown


def test_an_unknown_size_is_one_clear_error(bench):
    code, shown = bench("--training", "--size", "72b")
    assert code == 2 and "72b" in shown and "laptop" in shown


def test_the_laptops_own_models_are_measured_with_its_profile(monkeypatch, trainings):
    few = load_profile(
        "laptop", ("specialize.completions_per_step=32",)
    )  # of fewer none might earn more than another
    report = measure_training(Console(file=io.StringIO()), "laptop", few)
    assert report.settings["planner"].endswith("planner") and report.gradient_difference < 1e-3
    tokens = {
        way: sum(phase.tokens for phase in report.phases if phase.way == way)
        for way in ("stock TRL", "shared prefix")
    }
    assert tokens["stock TRL"] > 2 * tokens["shared prefix"]  # seconds depend on what else runs


def network_of(width: int) -> torch.nn.Module:
    return Qwen2_5_VLForConditionalGeneration(configuration(width)).train()


def backward(network: torch.nn.Module) -> None:
    network(input_ids=TOKENS).logits.sum().backward()


def tensors() -> int:
    return sum(isinstance(thing, torch.Tensor) for thing in gc.get_objects())


@pytest.mark.parametrize("checkpointed", [False, True])
def test_operations_are_those_that_torch_counts(checkpointed):
    network = network_of(128)
    if checkpointed:
        network.gradient_checkpointing_enable({"use_reentrant": False})
    with Operations() as ours, FlopCounterMode(display=False) as torchs:
        backward(network)
    assert ours.total == torchs.get_total_flops() > 10**7
    network.requires_grad_(False)
    with FlopCounterMode(display=False) as torchs, torch.no_grad():
        network(input_ids=TOKENS)
    with (
        Operations() as ours,
        torch.inference_mode(),
    ):  # products come whole there, not as the operations that they are made of
        network(input_ids=TOKENS)
    assert ours.total == torchs.get_total_flops() > 10**6


def test_counting_keeps_no_activation_of_a_checkpointed_pass():
    """As torch's counter does until the next garbage collection, which a GPU's memory does not set off."""
    network = network_of(128)
    network.gradient_checkpointing_enable({"use_reentrant": False})
    gc.collect()
    gc.disable()
    try:
        with Operations():
            backward(network)
            before = tensors()
            backward(network)
            assert tensors() == before
    finally:
        gc.enable()


def test_a_product_with_a_result_of_another_type_is_counted():
    """As TRL's kernels ask for it on a GPU."""
    with torch.device("meta"), Operations() as operations:
        left, right = torch.zeros(3, 4, dtype=torch.bfloat16), torch.zeros(4, 5, dtype=torch.bfloat16)
        added = torch.zeros(3, 5)
        torch.addmm(added, left, right, out_dtype=torch.float32, out=added)
    assert operations.total == 2 * 3 * 4 * 5


def test_too_little_memory_inside_the_training_is_reported_too(folders, monkeypatch, bench):
    def short(self: Any, *_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")

    monkeypatch.setattr(trainer.SpecializeTrainer, "training_step", short)
    monkeypatch.setattr(training, "measure_training", lambda console, size: measured(folders))
    code, shown = bench("--training", "--size", "3b", "--json")
    report = json.loads(shown)
    assert code == 1 and list(report["failed"]) == list(WAYS) and not report["phases"]
    assert all("lower specialize.at_once" in reason for reason in report["failed"].values())
