"""Estimates: sizes as published, a step of stage 1 as torch counts it, and the messages where something is
missing.
"""

from __future__ import annotations

import json
from itertools import accumulate

import pytest
import torch
from test_trainer import ACTS, PLANS, TOKENS, sampling, settings
from tiny_models import LABEL, SIZE, made_up
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from coda_lib.config import load_profile
from coda_lib.dataset import grpo_rows
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.models import local as networks
from coda_lib.models.chat import Sampling
from coda_lib.models.local import LocalModel, load_network
from coda_lib.paths import REPO
from coda_lib.trainer import specialize
from coda_study.cost import Network
from coda_study.estimate import Request, Workload, estimate, network

pytest_plugins = ("tiny_checkpoints",)
PUBLISHED = {
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976, "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "ByteDance-Seed/UI-TARS-1.5-7B": 8_292_166_656, "Qwen/Qwen2.5-VL-32B-Instruct": 33_452_718_336,
    "Qwen/Qwen2.5-VL-72B-Instruct": 73_410_777_344,  # as we compute it: nobody to compare with was found
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_released_models_have_their_published_sizes(name):
    assert network(name).parameters == PUBLISHED[name]


def test_a_model_of_unknown_size_and_a_profile_without_hardware_are_errors():
    with pytest.raises(
        UserError,
        match="the sizes of some/model are not known: add them to data/models.yaml, which has Qwen/",
    ):
        network("some/model")
    with pytest.raises(UserError, match="laptop names no hardware: `coda estimate gpu`"):
        estimate(load_profile("laptop"))


def test_a_step_of_stage_1_is_what_torch_counts(tiny_planner, tiny_executor, tmp_path, monkeypatch):
    def eager(*given, **how):  # torch's own kernel of attention is not counted on every machine
        loaded = load_network(*given, **how)
        loaded.set_attn_implementation("eager")
        return loaded

    monkeypatch.setattr("coda_lib.trainer.load_network", eager)
    monkeypatch.setattr(networks, "load_network", eager)
    executor = Executor(LocalModel(tiny_executor, device="cpu"), Sampling(max_new_tokens=TOKENS))
    executor.model.shared = False
    rows = grpo_rows([made_up(0, ACTS)], "compact", LABEL)
    with FlopCounterMode(display=False) as counted:
        folder = specialize(
            rows, tiny_planner, executor, settings(beta=0.0, shared_prefix=False), sampling(), tmp_path, 7
        )
    (step,) = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    planner, acting = (
        Network(load_network(path, False, "cpu").config) for path in (tiny_planner, tiny_executor)
    )
    prompt = round(step["num_tokens"] / PLANS - step["completions/mean_length"])
    words = prompt - 2 * planner.image_tokens(SIZE)
    plans = Request(planner, words, [SIZE] * 2, TOKENS)
    actions = Request(acting, words + TOKENS, [SIZE] * 2, TOKENS)
    predicted = PLANS * (
        plans.flops + actions.flops + plans.pass_flops(3)
    )  # on a CPU nothing is computed again
    assert counted.get_total_flops() == pytest.approx(predicted, rel=0.15)


@pytest.mark.parametrize(
    "layers, inner, samples, tokens, logits",
    [(8, 1024, 2, 512, 16), (16, 1024, 2, 512, 64), (24, 512, 4, 256, 16)],
)
def test_a_training_pass_holds_what_torch_allocates(layers, inner, samples, tokens, logits):
    text = {
        "hidden_size": 256, "num_hidden_layers": layers, "num_attention_heads": 8, "num_key_value_heads": 2,
        "intermediate_size": inner, "vocab_size": 4000, "bos_token_id": None, "eos_token_id": None,
        "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]},
    }  # fmt: skip
    vision = {"depth": 1, "hidden_size": 32, "num_heads": 2, "intermediate_size": 32, "out_hidden_size": 256}
    trained = Qwen2_5_VLForConditionalGeneration(
        Qwen2_5_VLConfig(text_config=text, vision_config=vision)
    ).train()
    trained.gradient_checkpointing_enable()
    ids = torch.randint(0, 3900, (samples, tokens))

    def learn() -> None:
        asked = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "logits_to_keep": logits + 1,
            "use_cache": False,
        }
        scores = torch.log_softmax(trained(**asked).logits[:, :-1].float(), -1)
        scores.gather(-1, ids[:, -logits:, None]).mean().backward()

    learn()  # the gradients are there from now on
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        learn()
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    most = max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))
    assert Network(trained.config).activation_bytes(samples, tokens, logits, width=4) == pytest.approx(
        most, rel=0.15
    )


@pytest.mark.parametrize("name", ["gpu", "paper"])
def test_the_profiles_are_estimated_to_the_end(name, coda):
    code, shown, _ = coda("estimate", name, "--json")
    costs = json.loads(shown)
    assert code == 0 and costs["parameters"]["planner"] == PUBLISHED[load_profile(name).models.planner]
    assert [work["name"] for work in costs["step"]] == ["plans", "actions", "reference", "policy and update"]
    assert [work["name"] for work in costs["stages"]][2] == "specialize" and all(
        work["seconds"] > 0 for work in costs["stages"]
    )
    step, whole = sum(work["seconds"] for work in costs["step"]), costs["stages"][2]["seconds"]
    assert whole == pytest.approx(4 * load_profile(name).specialize.steps * step)
    assert [work["name"] for work in costs["stages"]][-2:] == ["evaluate", "baselines"]
    assert costs["memory"]["total"] < 80e9  # or the profile would not run on what it names
    assert torch.cuda.is_available() or any("H100" in line for line in costs["missing"])
    shown = coda("estimate", name)[1]
    if name == "gpu":  # the documentation shows it
        table = "\n".join(line.rstrip() for line in shown.partition("missing here")[0].strip().splitlines())
        assert any(table in page.read_text() for page in (REPO / "README.md", *(REPO / "docs").rglob("*.md")))
    assert "GPU-hours" in shown and "missing here: " in shown and load_profile(name).models.planner in shown


def test_with_shared_prefixes_a_training_pass_reads_each_prompt_once():
    shared, stock = (
        estimate(load_profile("gpu", (f"specialize.shared_prefix={value}",))) for value in ("true", "false")
    )
    settings, hardware = shared.profile.specialize, shared.profile.hardware
    ours, theirs = (next(work for work in each.step if work.name == "reference") for each in (shared, stock))
    plan = hardware.plan_tokens
    prompt = theirs.read / settings.completions_per_step - plan
    rows = settings.completions_per_step / settings.at_once  # a pass takes half of a group
    assert ours.read == pytest.approx(rows * prompt + settings.completions_per_step * (plan + 1))
    assert ours.flops < theirs.flops / 3


def test_a_planner_that_does_not_fit_is_listed_as_missing():
    full = estimate(load_profile("gpu", ("specialize.lora=null", "specialize.at_once=1")))
    adapters = estimate(load_profile("gpu"))
    assert full.memory.weights == 4 * 8_292_166_656 and full.memory.optimizer == 2 * full.memory.weights
    assert any("GB on each GPU to train; a H100" in line for line in full.missing)
    assert not any("to train" in line for line in adapters.missing)
    halves = estimate(load_profile("gpu", ("hardware.gpus=2",)))
    assert halves.stages[2].models_s == pytest.approx(adapters.stages[2].models_s / 2)


def test_adapters_are_counted_as_peft_makes_them(tiny_planner, tmp_path):
    from coda_lib.trainer import adapter_settings

    peft = pytest.importorskip("peft")
    loaded = load_network(tiny_planner, False, "cpu")
    made = peft.get_peft_model(loaded, adapter_settings(settings(lora=3)))
    trained = sum(weights.numel() for weights in made.parameters() if weights.requires_grad)
    assert Network(loaded.config).adapter_parameters(3) == trained


def test_what_is_played_to_be_beaten_and_at_temperature_0_is_counted():
    def work(*changes: str) -> dict[str, Workload]:
        return {stage.name: stage for stage in estimate(load_profile("gpu", changes)).stages}

    few = work("perturb=false")
    # 8 runs and one at temperature 0; perturbed runs all differ
    assert work("perturb=true")["evaluate"].written == pytest.approx(16 / 9 * few["evaluate"].written)
    assert few["baselines"].written == 0 < few["baselines"].environments_s  # blind agents ask no model
    tried = work("perturb=false", "baselines.temperatures=[0.0,1.0]", "baselines.tasks=127")
    episodes = 2 * 4 * 127 + 8 * 127  # development tasks, and the best temperature on the test tasks
    of_system = few["evaluate"].written / 4 / 9 / 127
    assert tried["baselines"].written == pytest.approx(episodes * of_system)
    sealed = work("perturb=false", "sealed={tasks: 127, seed: 5, runs: 2}")
    assert sealed["evaluate"].written == pytest.approx(17 / 9 * few["evaluate"].written)
