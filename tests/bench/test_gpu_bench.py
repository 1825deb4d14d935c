"""`coda bench --gpu` on a CPU: the very step that is measured, with tiny networks of the real architecture."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import torch
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen2_5_VLConfig

from coda_lib.bench import gpu as bench_gpu
from coda_lib.bench.cost import Network
from coda_lib.bench.estimate import action_request, network, plan_request
from coda_lib.bench.gpu import MODELS, Report, measure
from coda_lib.bench.gpu_step import HALF, Step, _random
from coda_lib.config import Profile, load_profile

pytest.importorskip("peft")
CPU, PHASES = torch.device("cpu"), ["plans", "actions", "reference", "policy", "update"]
G, AT_ONCE, WORDS, PLAN, ACTION, PICTURE = 4, 2, 30, 10, 6, 4 * 3  # tokens


def configuration(width: int) -> Qwen2_5_VLConfig:
    """Patches, merging and windows as in the released models; marks that the vocabulary of 400 has."""
    text = dict(
        hidden_size=width, num_hidden_layers=3, num_attention_heads=width // 32, num_key_value_heads=width // 64,
        intermediate_size=4 * width, vocab_size=400, bos_token_id=None, eos_token_id=1, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10000.0},
    )  # fmt: skip
    vision = dict(
        depth=4, hidden_size=128, num_heads=4, intermediate_size=512, out_hidden_size=width, patch_size=14, spatial_merge_size=2,
        temporal_patch_size=2, window_size=112, fullatt_block_indexes=[1, 3],
    )  # fmt: skip
    marks = dict(image_token_id=390, video_token_id=391, vision_start_token_id=392, vision_end_token_id=393)
    return Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True, **marks)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give what stands for checkpoints: folders with a configuration and no weights."""
    torch.set_num_threads(1)
    made = {name: tmp_path_factory.mktemp(name) for name in ("planner", "executor")}
    for (name, folder), width in zip(made.items(), (128, 64), strict=True):
        configuration(width).save_pretrained(folder)
        assert [path.name for path in folder.iterdir()] == ["config.json"], name
    return {name: str(folder) for name, folder in made.items()}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_gpu, "_SIDE", 64)
    monkeypatch.setattr(bench_gpu, "_STEPS", 2)


def profile(folders: dict[str, str], lora: int | None = 4, at_once: int | None = AT_ONCE) -> Profile:
    changes: dict[str, Any] = {
        "models.executor": folders["executor"], "specialize.group_size": G, "specialize.completions_per_step": G,
        "specialize.at_once": at_once, "specialize.lora": lora, "hardware.screen": [120, 80], "hardware.prompt_tokens": WORDS,
        "hardware.plan_tokens": PLAN, "hardware.action_tokens": ACTION,
    }  # fmt: skip
    return load_profile("gpu", tuple(f"{field}={json.dumps(value)}" for field, value in changes.items()))


def step_of(folders: dict[str, str], **changes: Any) -> Step:
    planner, executor = network(folders["planner"]), network(folders["executor"])
    return Step(planner, executor, profile(folders, **changes), CPU)


def measured(folders: dict[str, str], *names: str) -> Report:
    return measure(Console(file=io.StringIO()), names or [folders["planner"]], profile(folders), CPU)


def weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("lora", [4, None])
def test_operations_are_those_that_torch_counts(folders, lora):
    step = step_of(folders, lora=lora)
    for each in (step.executor, step.policy, step.reference):
        (each.get_base_model() if hasattr(each, "get_base_model") else each).set_attn_implementation("eager")
    loads = step.loads()
    assert list(step.phases) == list(loads) == PHASES
    for name, work in step.phases.items():
        with FlopCounterMode(display=False) as counted:
            work()
        assert loads[name][2] == pytest.approx(counted.get_total_flops(), rel=0.15, abs=1), name


@pytest.mark.parametrize("lora", [4, None])
def test_what_is_trained_moves_and_nothing_else_does(folders, lora):
    step = step_of(folders, lora=lora)
    before = {name: weights(getattr(step, name)) for name in ("policy", "executor", "reference")}
    for _ in range(2):  # the first step moves one half of each adapter: the other half starts at zero
        for work in step.phases.values():
            work()
    after = {name: weights(getattr(step, name)) for name in before}
    trained = {name for name, parameter in step.policy.named_parameters() if parameter.requires_grad}
    moved = {name for name, old in before["policy"].items() if not torch.equal(old, after["policy"][name])}
    assert trained == moved and (len(trained) == 3 * 7 * 2 if lora else trained == set(before["policy"]))
    assert all(after["policy"][name].dtype == torch.float32 for name in trained)
    assert all(torch.equal(old, after["executor"][name]) and old.dtype == HALF for name, old in before["executor"].items())
    if lora:  # the reference is the policy without its adapters, and these alone have moved
        assert step.reference is step.policy and all("lora_" in name for name in trained)
    else:
        assert all(torch.equal(old, after["reference"][name]) for name, old in before["reference"].items())


def test_prompts_and_replies_have_the_lengths_that_the_plan_assumes(folders):
    step = step_of(folders)
    assert step.asked.prompt == WORDS + 2 * PICTURE and step.told.prompt == WORDS + PLAN + 2 * PICTURE
    for inputs, asked in ((step.prompt, step.asked), (step.orders, step.told)):
        assert inputs["input_ids"].shape == (G, asked.prompt)
        assert (inputs["input_ids"] == 390).sum() == G * 2 * PICTURE and inputs["image_grid_thw"].tolist() == [[1, 6, 8]] * 2 * G
        assert inputs["pixel_values"].shape == (2 * G * 48, 3 * 2 * 14 * 14)
    for work in list(step.phases.values())[:4]:
        work()
    assert step.plans_GT.shape == step.then_GT.shape == (G, PLAN) and step.gains_G.shape == (G,)
    assert not torch.isin(step.plans_GT, torch.tensor([390, 391])).any() and len(step.plans_GT.unique(dim=0)) == G
    real, hardware = load_profile("gpu"), load_profile("gpu").hardware
    assert plan_request(network(MODELS[0]), hardware).prompt == 900 + 2 * 28 * 17  # 1280 x 800 is seen at 784 x 476
    assert action_request(network(real.models.executor), hardware).prompt == 980 + 2 * 28 * 17


def test_the_adapters_start_at_the_reference_and_portions_add_up_to_the_whole(folders):
    found = []
    for at_once in (AT_ONCE, None):
        step = step_of(folders, at_once=at_once)
        for name in ("plans", "actions", "reference", "policy"):
            step.phases[name]()
        with torch.no_grad():
            now = torch.cat([step._log_probabilities(step.policy, rows) for rows in step._portions()])
        assert torch.allclose(now, step.then_GT, atol=1e-3) and (now < 0).all()
        found.append(torch.cat([weight.grad.flatten() for weight in step.trained]))
    assert len(step._portions()) == 1 and found[0].norm() > 0
    assert torch.nn.functional.cosine_similarity(*found, dim=0) > 0.99  # of 16 bits


def test_a_step_is_measured(folders):
    report = measured(folders)
    name = folders["planner"]
    assert [(phase.model, phase.name) for phase in report.phases] == [(name, phase) for phase in PHASES] and not report.failed
    prompt, whole = WORDS + 2 * PICTURE, WORDS + 2 * PICTURE + PLAN  # what the executor is told is as long as the latter
    read = [(phase.read, phase.written) for phase in report.phases]
    assert read == [(G * prompt, G * PLAN), (G * whole, G * ACTION), (G * whole, 0), (G * whole, 0), (0, 0)]
    peak = 1e12 * report.hardware["peak_tflops"]
    assert all(phase.seconds > 0 and phase.memory_gb is None for phase in report.phases) and peak > 0
    for phase in report.phases[:4]:
        assert phase.share == pytest.approx(phase.flops / phase.seconds / peak)
        assert phase.tokens_s == pytest.approx((phase.written or phase.read) / phase.seconds)
    both = report.together(name)
    assert both.seconds == pytest.approx(sum(phase.seconds for phase in report.phases))
    assert both.share == pytest.approx(both.flops / both.seconds / peak)
    assert report.versions["torch"] and report.versions["peft"] and report.settings["group_size"] == G


def test_on_a_gpu_the_clock_waits_for_it_and_the_memory_is_that_of_the_phase(monkeypatch):
    log = []
    for name, told in (("synchronize", None), ("reset_peak_memory_stats", None), ("max_memory_allocated", 3e9)):
        monkeypatch.setattr(torch.cuda, name, lambda device, name=name, told=told: log.append(name) or told)
    seconds, memory = bench_gpu._timed(lambda: log.append("work"), torch.device("cuda"))
    assert log == ["synchronize", "reset_peak_memory_stats", "work", "synchronize", "max_memory_allocated"]
    assert seconds > 0 and memory == 3.0


def test_a_model_that_does_not_fit_is_said_and_the_next_one_measured(folders, monkeypatch, coda):
    learn = Step.learn

    def short(step: Step) -> None:
        if step.asked.network == network(folders["planner"]):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")
        learn(step)

    monkeypatch.setattr(Step, "learn", short)
    monkeypatch.setattr(bench_gpu, "measure_gpu", lambda console, models: measured(folders, *models))
    words = "bench", "--gpu", "--model", folders["planner"], "--model", folders["executor"]
    code, shown, _ = coda(*words, "--json")
    found = json.loads(shown)
    assert code == 0 and list(found["failed"]) == [folders["planner"]]
    assert "specialize.at_once" in found["failed"][folders["planner"]] and "1.00 GiB" in found["failed"][folders["planner"]]
    assert [phase["name"] for phase in found["phases"]] == PHASES
    assert all(phase["model"] == folders["executor"] and phase["tokens_s"] >= 0 for phase in found["phases"])
    code, shown, _ = coda(*words)
    assert code == 0 and f"{folders['planner']} does not fit: " in shown and "together" in shown and "of the peak" in shown
    assert f"{G} plans for two screens of 120 × 80; adapters of rank 4 are trained, {AT_ONCE} plans at once" in shown
    code, shown, _ = coda(*words[:4])
    assert code == 1 and "does not fit" in shown and "together" not in shown


def test_without_a_gpu_or_with_an_unknown_model_one_message(coda, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, shown, said = coda("bench", "--gpu")
    assert code == 2 and not shown and "torch finds none here: run it where `nvidia-smi` lists one" in " ".join(said.split())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    code, _, said = coda("bench", "--gpu", "--model", "some/model")
    assert code == 2 and "the sizes of some/model are not known" in said


@pytest.mark.parametrize("name", MODELS)
def test_the_real_sizes_are_built_as_the_tiny_ones(name):
    config = network(name).config
    head = config.text_config.hidden_size // config.text_config.num_attention_heads
    built = _random(config, HALF, torch.device("meta"))
    assert sum(weight.numel() for weight in built.parameters()) == Network(config).parameters
    assert {weight.dtype for weight in built.parameters()} == {HALF}
    assert {tensor.device.type for tensor in [*built.parameters(), *built.buffers()]} == {"meta"}  # nothing is left elsewhere
    assert sum(built.model.language_model.rotary_emb.mrope_section) == head // 2
