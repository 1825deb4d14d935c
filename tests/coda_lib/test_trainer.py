"""The trainers: eq. 2 and 3 against a direct computation, the frozen executor, and going on after a kill."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from PIL import ImageChops
from tiny_models import LABEL, SIZE, ClickingModel, hashed_click, made_up, pictures_of, screen, words_of
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from trl import SFTTrainer
from trl.trainer.utils import split_pixel_values_by_grid

from coda_lib.action import Action
from coda_lib.config import GeneralizeSettings, SamplingSettings, SpecializeSettings
from coda_lib.dataset import grpo_rows, sft_rows
from coda_lib.errors import UserError
from coda_lib.executor import Executor
from coda_lib.grammar import parse_actions
from coda_lib.models.chat import Message, ReplayModel, Sampling
from coda_lib.models.local import Features, LocalModel, load_network, load_processor
from coda_lib.models.shared_prefix_trainer import SharedPrefixTrainer
from coda_lib.reward import reward
from coda_lib.trainer import ActionReward, SpecializeTrainer, generalize, specialize

pytest_plugins = ("tiny_checkpoints",)

G, PLANS, TOKENS, BETA, EPSILON = 4, 8, 6, 0.3, 0.05
ACTS = (
    ("Click 'Grid'.", Action.click(0.25, 0.5)),
    ("Click 'Axes'.", Action.click(0.75, 0.75)),
    ("DONE", Action.done()),
)


def settings(**changes: Any) -> SpecializeSettings:
    given = dict(
        group_size=G, completions_per_step=PLANS, steps=1, learning_rate=1e-3, beta=BETA, epsilon=EPSILON,
        reach=2,
    )  # fmt: skip
    return SpecializeSettings(**(given | changes))


def sampling(**changes: Any) -> SamplingSettings:
    return SamplingSettings(**(dict(temperature=1.0, top_p=0.9, max_new_tokens=TOKENS) | changes))


def scripted(reply: Callable[[list[Message]], str] = hashed_click) -> Executor:
    return Executor(ReplayModel(reply), Sampling(temperature=0))


@pytest.fixture
def rows() -> Dataset:
    other = made_up(
        1, ACTS, instruction="turn the grid and the axes on, and then off"
    )  # prompts of different lengths
    return grpo_rows([made_up(0, ACTS), other], "compact", LABEL)


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_adapters_train_the_language_model_alone_and_leave_a_checkpoint_as_every_other(
    rows, tiny_planner, tmp_path, unrounded
):
    ways = {
        "stage 1": lambda folder: specialize(rows, tiny_planner, scripted(), settings(lora=2, steps=2),
        sampling(), folder, 7),
        "stage 2": lambda folder: generalize(
            sft_rows([made_up(0, ACTS)], "compact", LABEL), tiny_planner,
            GeneralizeSettings(steps=2, batch_size=2, learning_rate=1e-2, lora=2), folder, 7,
        ),
    }  # fmt: skip
    before = load_network(tiny_planner, trainable=False, device="cpu").state_dict()
    for way, train in ways.items():
        after = load_network(train(tmp_path / way), trainable=False, device="cpu").state_dict()
        changed = {name for name, weights in after.items() if not torch.equal(weights, before[name])}
        assert changed and all("language_model.layers" in name and "_proj" in name for name in changed), way
        assert load_processor(tmp_path / way).tokenizer.vocab_size


def test_a_step_in_several_passes_is_the_step_in_one(rows, tiny_planner, tmp_path, unrounded):
    ways = {
        "stage 1": lambda folder, **how: specialize(rows, tiny_planner, scripted(), settings(**how),
        sampling(), folder, 7),
        "stage 2": lambda folder, **how: generalize(
            sft_rows([made_up(i, ACTS) for i in range(3)], "compact", LABEL), tiny_planner,
            GeneralizeSettings(steps=2, batch_size=4, learning_rate=1e-3, **how), folder, 7,
        ),
    }  # fmt: skip
    for way, train in ways.items():
        whole, parts = (train(tmp_path / f"{way}{i}", at_once=i) for i in (None, 2))
        (one, *_), (other, *_) = log_of(whole), log_of(parts)
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-5)
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-3) and one["grad_norm"] > 0
        first, second = (
            load_network(folder, trainable=False, device="cpu").state_dict() for folder in (whole, parts)
        )
        assert all(torch.allclose(weights, second[name], atol=1e-4) for name, weights in first.items())


def test_a_tower_at_rest_sees_each_picture_once_and_the_training_is_the_same(
    rows, tiny_planner, tmp_path, monkeypatch, unrounded
):
    ways = {
        "stage 1": lambda folder, **how: specialize(rows, tiny_planner, scripted(), settings(steps=2, **how),
        sampling(), folder, 7),
        "stage 2": lambda folder, **how: generalize(
            sft_rows([made_up(i, ACTS) for i in range(3)], "compact", LABEL), tiny_planner,
            GeneralizeSettings(steps=2, batch_size=4, learning_rate=1e-3, **how), folder, 7,
        ),
    }  # fmt: skip
    see, serve, seen = Qwen2_5_VLModel.get_image_features, Features.serve, []

    def counted(network: Any, pixels: torch.Tensor, grids: torch.Tensor, **options: Any) -> Any:
        seen.extend(part.numpy().tobytes() for part in pixels.split(grids.prod(-1).tolist()))
        return see(network, pixels, grids, **options)

    monkeypatch.setattr(Qwen2_5_VLModel, "get_image_features", counted)
    for way, train in ways.items():
        seen.clear()
        monkeypatch.setattr(Features, "serve", serve)
        once = train(tmp_path / f"{way} once", frozen_vision=True)
        assert len(seen) == len(set(seen)) > 1, way
        monkeypatch.setattr(Features, "serve", lambda self, network: None)
        always = train(tmp_path / f"{way} always", frozen_vision=True)
        assert len(seen) > 2 * len(set(seen))
        first, second = (load_network(f, trainable=False, device="cpu").state_dict() for f in (once, always))
        assert all(torch.allclose(weights, second[name], atol=1e-4) for name, weights in first.items())


# ---- eq. 2 and 3 -----------------------------------------------------------------------------------------
def uneven(trainer: SharedPrefixTrainer, *args: Any, **kwargs: Any) -> tuple[list[list[int]], None]:
    """Sample plans as TRL does, then end them after 1 to 6 tokens: an untrained planner seldom ends one."""
    plans, nothing = GENERATE(trainer, *args, **kwargs)
    return [[*plan[: i % TOKENS], trainer._tokenizer.eos_token_id] for i, plan in enumerate(plans)], nothing


GENERATE = SharedPrefixTrainer._generate_single_turn
LOSS = SharedPrefixTrainer._compute_loss


def log_probabilities(
    network: torch.nn.Module, batch: dict[str, Any], i: int, temperature: float
) -> torch.Tensor:
    """log π of each token of plan i, from the logits of this plan alone: no padding, no other row."""
    prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()]
    plan = batch["completion_ids"][i][batch["completion_mask"][i].bool()]
    ids = torch.cat([prompt, plan]).unsqueeze(0)
    apart = batch if isinstance(batch["pixel_values"], list) else split_pixel_values_by_grid(batch)
    logits = network(
        input_ids=ids, attention_mask=torch.ones_like(ids),
        pixel_values=apart["pixel_values"][i], image_grid_thw=apart["image_grid_thw"][i],
        mm_token_type_ids=(ids == network.config.image_token_id).int(),
    ).logits[0]  # fmt: skip
    chosen = torch.log_softmax(logits[len(prompt) - 1 : -1] / temperature, dim=-1)
    return chosen.gather(1, plan.unsqueeze(1)).squeeze(1)


def gradient(network: torch.nn.Module, loss: torch.Tensor) -> torch.Tensor:
    found = torch.autograd.grad(loss, list(network.parameters()), allow_unused=True, retain_graph=True)
    pairs = zip(found, network.parameters(), strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])


class Batch:
    """One batch as the trainer saw it: its inputs, its loss, the gradient, and the planner at that time."""

    inputs: dict[str, Any]
    loss: torch.Tensor
    gradient: torch.Tensor
    planner: torch.nn.Module
    old: list[torch.Tensor]

    def plan(self, i: int) -> torch.Tensor:
        return self.inputs["completion_ids"][i][self.inputs["completion_mask"][i].bool()]


def one_batch(
    monkeypatch: pytest.MonkeyPatch, rows: Dataset, planner: Path, folder: Path, drift: float, beta: float,
    temperature: float, shared: bool = True,
) -> Batch:  # fmt: skip
    """Run one step of `specialize`; after sampling the planner moves by `drift`, so that it is not what
    sampled.
    """
    kept = Batch()

    def compute(trainer: SharedPrefixTrainer, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        bare = load_network(
            planner, trainable=True, device="cpu"
        )  # without what TRL puts into the trained one
        with torch.no_grad():
            kept.old = [log_probabilities(bare, inputs, i, temperature) for i in range(PLANS)]
            torch.manual_seed(5)
            for parameter in model.parameters():
                parameter += drift * torch.randn_like(parameter)
        if drift:
            padded = torch.nn.utils.rnn.pad_sequence(kept.old, batch_first=True)
            inputs["old_per_token_logps"] = padded
        loss = LOSS(trainer, model, inputs)
        bare.load_state_dict(model.state_dict())
        kept.inputs, kept.loss, kept.planner, kept.gradient = (
            inputs,
            loss.detach(),
            bare,
            gradient(model, loss),
        )
        return loss

    monkeypatch.setattr(SharedPrefixTrainer, "_generate_single_turn", uneven)
    monkeypatch.setattr(SharedPrefixTrainer, "_compute_loss", compute)
    specialize(
        rows,
        planner,
        scripted(),
        settings(beta=beta, shared_prefix=shared),
        sampling(temperature=temperature),
        folder,
        4,
    )
    return kept


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_loss_and_its_gradient_are_those_of_eq_3(
    monkeypatch, rows, tiny_planner, tmp_path, temperature, shared
):
    batch = one_batch(monkeypatch, rows, tiny_planner, tmp_path, 0.01, BETA, temperature, shared)
    base = load_network(tiny_planner, trainable=False, device="cpu")
    terms, ratios, divergences = [], [], []
    for i, advantage in enumerate(batch.inputs["advantages"]):
        log_new = log_probabilities(batch.planner, batch.inputs, i, temperature)
        log_reference = log_probabilities(base, batch.inputs, i, temperature)
        ratio = torch.exp(log_new - batch.old[i])
        clipped = torch.clamp(ratio, 1 - EPSILON, 1 + EPSILON)
        divergence = torch.exp(log_reference - log_new) - (log_reference - log_new) - 1
        terms.append((torch.minimum(ratio * advantage, clipped * advantage) - BETA * divergence).mean())
        ratios.append(ratio.detach())
        divergences.append(divergence.detach())
    loss = -torch.stack(terms).mean()

    ratio_T, divergence_T = torch.cat(ratios), torch.cat(divergences)
    assert ((ratio_T < 1 - EPSILON) | (ratio_T > 1 + EPSILON)).any() and (ratio_T - 1).abs().min() > 0
    assert divergence_T.mean() > 1e-4
    assert not batch.inputs["prompt_mask"].all()  # some prompts are padded, on the left
    assert {len(r) for r in ratios} == set(
        range(1, TOKENS + 1)
    )  # the mean over a plan is not the mean over all tokens
    torch.testing.assert_close(batch.loss, loss.detach(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(batch.gradient, gradient(batch.planner, loss), rtol=1e-3, atol=1e-5)


def test_advantages_are_rewards_normalised_within_the_group_of_a_state(
    monkeypatch, rows, tiny_planner, tmp_path
):
    batch = one_batch(monkeypatch, rows, tiny_planner, tmp_path, drift=0.0, beta=BETA, temperature=1.0)
    words = load_processor(tiny_planner).tokenizer
    labels = {row["instruction"] + turns_of(row): parse_actions(row["target"], SIZE) for row in rows}
    groups: dict[str, list[int]] = {}
    for i in range(PLANS):
        prompt = words.decode(
            batch.inputs["prompt_ids"][i][batch.inputs["prompt_mask"][i].bool()], skip_special_tokens=True
        )
        (state,) = [state for state in labels if prompt == f"user\n{state}\nassistant\n"]
        groups.setdefault(state, []).append(i)
    assert sorted(len(members) for members in groups.values()) == [G] * (PLANS // G)
    spread = 0
    for state, members in groups.items():
        plans = [words.decode(batch.plan(i), skip_special_tokens=True).strip() for i in members]
        actions = [parse_actions(hashed_click(plan), SIZE) if plan else () for plan in plans]
        reward_G = torch.tensor([reward(action, labels[state], 2) for action in actions])
        expected_G = (reward_G - reward_G.mean()) / (reward_G.std() + 1e-4)  # sample deviation
        torch.testing.assert_close(batch.inputs["advantages"][members], expected_G, rtol=1e-3, atol=1e-4)
        spread += float(reward_G.std())
    assert spread > 0.1


def turns_of(row: dict[str, Any]) -> str:
    return "\n" + "".join(f"{turn['plan']} " for turn in row["turns"]) if row["turns"] else ""


def test_advantages_are_applied_to_planning_tokens_and_nothing_else(
    monkeypatch, rows, tiny_planner, tmp_path
):
    batch = one_batch(monkeypatch, rows, tiny_planner, tmp_path, drift=0.0, beta=0.0, temperature=1.0)
    tokens = [log_probabilities(batch.planner, batch.inputs, i, 1.0) for i in range(PLANS)]
    likelihood = torch.stack(
        [a * t.mean() for a, t in zip(batch.inputs["advantages"], tokens, strict=True)]
    ).mean()
    assert batch.inputs["advantages"].abs().max() > 0.5
    assert (
        int(batch.inputs["completion_mask"].sum())
        == sum(len(t) for t in tokens)
        < batch.inputs["completion_mask"].numel()
    )
    torch.testing.assert_close(batch.gradient, gradient(batch.planner, -likelihood), rtol=1e-3, atol=1e-6)


# ---- the reward function ---------------------------------------------------------------------------------
def columns(rows: Dataset) -> dict[str, Any]:
    return {name: list(rows[name]) for name in ("images", "target", "instruction", "turns")}


class State:
    global_step = 0


def ask(
    executor: Executor, rows: Dataset, plans: Sequence[str], step: int = 0, **changes: Any
) -> list[float]:
    state = State()
    state.global_step = step
    completions = [[{"role": "assistant", "content": plan}] for plan in plans]
    called = {name: changes.pop(name) for name in ("log_metric",) if name in changes}
    distance, group = changes.pop("distance", True), changes.pop("group", 2)
    given = settings(**changes, group_size=group, completions_per_step=group)
    return ActionReward(executor, 4, given, distance)(
        completions=completions, **columns(rows), trainer_state=state, other=1, **called
    )


@pytest.mark.parametrize("distance", [True, False])
def test_rewards_are_those_of_the_executors_actions(distance):
    acts = [
        ("a", Action.click(0.25, 0.5)), ("b", Action.type_text("x^2")), ("c", Action.scroll(0.5, 0.5,
         "down")),
        ("d", Action.hotkey("ctrl s")), ("e", Action.drag(0.25, 0.25, 0.75, 0.75)), ("f", Action.click(0.25,
         0.5)),
        ("g", Action.done()), ("h", Action.answer("12")), ("i", Action.click(0.5, 0.5)), ("j",
         Action.click(0.5, 0.5)),
    ]  # fmt: skip
    replies = {
        "one": "click(start_box='(42,42)')", "two": "type(content='x^3')", "four": "hotkey(key='ctrl s')",
        "three": "scroll(start_box='(42,42)', direction='up')",
        "five": "drag(start_box='(21,21)', end_box='(60,60)')",
        "six": "no action", "nine": "click(start_box='(42,42)')\n\nclick(start_box='(1,1)')",
    }  # fmt: skip
    thought = "Thought: two\nAction: type(content='other')"
    plans = ["one", thought, "three", "four", "five", "six", "DONE", "ANS 13", "nine", ""]
    rows = grpo_rows([made_up(0, acts)], "compact", LABEL)
    executor = scripted(lambda conversation: replies[words_of(conversation)])
    written = [replies[name] for name in ("one", "two", "three", "four", "five")]
    written += [None, "finished()", "answer(content='13')", replies["nine"], None]
    actions = [parse_actions(text, SIZE) if text else () for text in written]
    labels = [parse_actions(target, SIZE) for target in rows["target"]]
    expected = [reward(action, label, 2, distance) for action, label in zip(actions, labels, strict=True)]
    assert ask(executor, rows, plans, distance=distance) == expected
    assert len({round(value, 6) for value in expected}) >= (
        7 if distance else 3
    )  # the cases can be told apart


@pytest.mark.parametrize("distance", [True, False])
def test_groups_without_a_right_plan_are_counted_and_gated_if_wanted(distance):
    act = Action.click(0.5, 0.5)
    replies = {
        "right": "click(start_box='(42,42)')", "near": "click(start_box='(44,44)')", "far": "wait()",
        "wrong": "click(start_box='(62,42)')", "none": "no action",
    }  # fmt: skip
    plans = ["right", "wrong", "far", "wrong", "none", "far", "near", "wrong", "none"]
    rows = grpo_rows([made_up(0, [(str(i), act) for i in range(9)])], "compact", LABEL)
    executor, told = scripted(lambda conversation: replies[words_of(conversation)]), []
    how = {"reach": 0.1, "distance": distance, "group": 3, "log_metric": lambda *metric: told.append(metric)}
    plain, gated = (ask(executor, rows, plans, gate=gate, **how) for gate in (False, True))
    middle = 1 / 3  # of 1, 0 and 0: a click of the right type where nothing is right
    without = plain[3:6]
    if distance:
        assert told == [("frac_without_right", pytest.approx(2 / 3))] * 2
        assert gated == [*plain[:3], *[pytest.approx(middle)] * 3, *[pytest.approx(sum(plain[6:]) / 3)] * 3]
    else:  # any click is of the right type
        assert told == [("frac_without_right", 0.0)] * 2 and gated == plain
    assert without == [1.0, 0.0, 0.0]


def test_a_part_of_a_group_is_not_counted_and_cannot_be_gated():
    rows = grpo_rows([made_up(0, [(str(i), Action.click(0.5, 0.5)) for i in range(4)])], "compact", LABEL)
    executor, told = scripted(lambda _: "wait()"), []
    how = {"group": 3, "log_metric": lambda *metric: told.append(metric)}
    assert ask(executor, rows, ["a"] * 4, **how) == [0.0] * 4 and not told
    with pytest.raises(UserError, match="whole groups in each process"):
        ask(executor, rows, ["a"] * 4, gate=True, **how)


def test_a_perfect_plan_of_a_row_earns_two(rows):
    lines = {plan: target for (plan, _), target in zip(ACTS, rows["target"], strict=False)}
    assert ask(scripted(lambda c: lines[words_of(c)]), rows, [plan for plan, _ in ACTS] * 2) == [2.0] * 6


@pytest.mark.parametrize("prompts", ["compact", "full"])
def test_both_screenshots_reach_the_executor_as_they_were(rows, tiny_planner, tmp_path, prompts):
    seen: list[list[Message]] = []

    def look(conversation: list[Message]) -> str:
        seen.append(conversation)
        return hashed_click(conversation)

    executor = Executor(ReplayModel(look), Sampling(temperature=0), prompts)
    specialize(
        rows, tiny_planner, executor, settings(completions_per_step=4 * len(rows)), sampling(), tmp_path, 0
    )
    pairs = {tuple(i if i else 0 for i in (max(step - 1, 0), step)) for step in range(3)}
    expected = {tuple(10 * number + i for i in pair) for pair in pairs for number in (0, 1)}
    shown = {tuple(number_of(picture) for picture in pictures_of(conversation)) for conversation in seen}
    assert len(seen) > 20 and shown == ({pair[1:] for pair in expected} if prompts == "compact" else expected)


def number_of(picture: Any) -> int:
    (number,) = [
        n for n in range(20) if not ImageChops.difference(picture.convert("RGB"), screen(n)).getbbox()
    ]
    return number


# ---- the frozen executor ---------------------------------------------------------------------------------
def digest(network: torch.nn.Module) -> str:
    state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    parts = [name.encode() + value.detach().numpy().tobytes() for name, value in sorted(state.items())]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_the_executor_does_not_change_by_one_bit_and_the_planner_does(
    rows, tiny_planner, tiny_executor, tmp_path
):
    executor = Executor(ClickingModel(tiny_executor), Sampling(temperature=1.0, max_new_tokens=4))
    files = {path.name: path.read_bytes() for path in (*tiny_executor.iterdir(), *tiny_planner.iterdir())}
    before = digest(executor.model.network)
    assert not any(parameter.requires_grad for parameter in executor.model.network.parameters())
    calls = []
    generate = executor.model.generate
    executor.model.generate = lambda *args: calls.append(args) or generate(*args)
    specialize(rows, tiny_planner, executor, settings(steps=2, beta=0.01), sampling(), tmp_path, 0)

    assert len(calls) == 2 and not executor.trainable
    assert digest(executor.model.network) == before
    assert not any(p.requires_grad or p.grad is not None for p in executor.model.network.parameters())
    assert {
        path.name: path.read_bytes() for path in (*tiny_executor.iterdir(), *tiny_planner.iterdir())
    } == files
    trained, base = LocalModel(tmp_path).network, LocalModel(tiny_planner).network
    moved = [
        name for name, value in trained.named_parameters() if not torch.equal(value, base.get_parameter(name))
    ]
    assert "model.language_model.layers.0.self_attn.q_proj.weight" in moved
    assert "model.visual.patch_embed.proj.weight" in moved


# ---- what is trained on ----------------------------------------------------------------------------------
def test_memory_that_runs_out_is_one_message_that_says_what_to_lower(
    rows, tiny_planner, tmp_path, monkeypatch
):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    monkeypatch.setattr(SpecializeTrainer, "compute_loss", full)
    with pytest.raises(
        UserError, match=r"lower at_once, .* \(CUDA out of memory. Tried to allocate 20 GiB\)"
    ):
        specialize(rows, tiny_planner, scripted(), settings(), sampling(), tmp_path, 0)


def test_fewer_rows_than_a_batch_has_groups_are_enough(rows, tiny_planner, tmp_path):
    specialize(rows.select([0]), tiny_planner, scripted(), settings(steps=2), sampling(), tmp_path, 0)
    assert [line["step"] for line in log_of(tmp_path)] == [1, 2]


def test_no_row_is_one_clear_message(rows, tiny_planner, tmp_path):
    with pytest.raises(UserError, match="^specialize: no positive step to learn from.*explore more"):
        specialize(rows.select([]), tiny_planner, scripted(), settings(), sampling(), tmp_path, 0)
    with pytest.raises(UserError, match="^generalize: no positive step to learn from.*explore more"):
        generalize(
            sft_rows([], "compact", LABEL),
            tiny_planner,
            GeneralizeSettings(steps=1, batch_size=1, learning_rate=1),
            tmp_path,
            0,
        )
    assert not list(tmp_path.iterdir())


def test_a_planner_that_is_not_whole_is_one_clear_message(rows, tmp_path):
    sft = sft_rows([made_up()], "compact", LABEL)
    with pytest.raises(UserError, match="no checkpoint at .*nowhere"):
        specialize(rows, tmp_path / "nowhere", scripted(), settings(), sampling(), tmp_path, 0)
    with pytest.raises(UserError, match="no checkpoint at .*nowhere"):
        generalize(
            sft, tmp_path / "nowhere", GeneralizeSettings(steps=1, batch_size=1, learning_rate=1), tmp_path, 0
        )


# ---- stage 2 ---------------------------------------------------------------------------------------------
def test_generalize_trains_a_fresh_planner_and_lowers_the_loss(tiny_planner, tmp_path):
    before = {path.name: path.read_bytes() for path in tiny_planner.iterdir()}
    rows = sft_rows([made_up(0, ACTS), made_up(1, ACTS)], "compact", LABEL)
    generalize(
        rows, tiny_planner, GeneralizeSettings(epochs=10, batch_size=4, learning_rate=1e-2), tmp_path, 0
    )
    losses = [line["loss"] for line in log_of(tmp_path)]
    assert [line["step"] for line in log_of(tmp_path)] == list(
        range(1, 21)
    )  # 6 rows, 4 a batch: two steps a pass
    assert losses[-1] < 0.5 * losses[0]
    assert {path.name: path.read_bytes() for path in tiny_planner.iterdir()} == before
    network, base = LocalModel(tmp_path).network, LocalModel(tiny_planner).network
    assert digest(network) != digest(base)


def test_generalize_learns_the_tokens_of_the_plan_alone(monkeypatch, tiny_planner, tmp_path):
    seen: list[dict[str, torch.Tensor]] = []
    compute = SFTTrainer.compute_loss

    def look(self: SFTTrainer, model: Any, inputs: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        seen.append({name: value.clone() for name, value in inputs.items()})
        return compute(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(SFTTrainer, "compute_loss", look)
    rows = sft_rows([made_up(0, ACTS)], "compact", LABEL)
    generalize(rows, tiny_planner, GeneralizeSettings(steps=1, batch_size=3, learning_rate=1e-9), tmp_path, 0)
    words = load_processor(tiny_planner).tokenizer
    (batch,) = seen
    learnt = sorted(words.decode(labels[labels != -100]) for labels in batch["labels"])
    assert learnt == sorted(f"{plan}<|im_end|>" for plan, _ in ACTS)  # and not the newline behind it
    assert tuple(batch["image_grid_thw"].shape) == (6, 3)  # two screenshots a row


# ---- killed and started again ----------------------------------------------------------------------------
class Killed(Exception):
    pass


def checkpoint_of(folder: Path) -> dict[str, bytes]:
    """The files that a training leaves for others."""
    return {
        path.name: path.read_bytes()
        for path in folder.glob("*")
        if path.is_file() and path.name != "metrics.jsonl"
    }


def test_specialize_goes_on_after_a_kill_as_if_nothing_had_been(rows, tiny_planner, tiny_executor, tmp_path):
    few = settings(group_size=2, completions_per_step=4, steps=12, beta=0.01)

    def sampled() -> Executor:
        return Executor(ClickingModel(tiny_executor), Sampling(temperature=1.0, max_new_tokens=3))

    whole, halved = tmp_path / "whole", tmp_path / "halved"
    specialize(rows, tiny_planner, sampled(), few, sampling(), whole, 7)

    dying = sampled()
    generate, calls = dying.model.generate, []

    def die(*args: Any) -> list[str]:
        calls.append(args)
        if len(calls) > 11:
            raise Killed
        return generate(*args)

    dying.model.generate = die
    with pytest.raises(Killed):
        specialize(rows, tiny_planner, dying, few, sampling(), halved, 7)
    assert [line["step"] for line in log_of(halved)] == list(range(1, 12))
    assert [path.name for path in (halved / "checkpoints").glob("checkpoint-*")] == ["checkpoint-10"]
    (halved / "metrics.jsonl").open("a").write('{"step": 12, "lo')  # the kill cut this line
    broken = halved / "checkpoints" / "checkpoint-11"
    broken.mkdir()
    (broken / "model.safetensors").write_bytes(b"half")
    specialize(rows, tiny_planner, sampled(), few, sampling(), halved, 7)

    assert [line["step"] for line in log_of(halved)] == list(range(1, 13))
    for line, other in zip(log_of(whole), log_of(halved), strict=True):
        drop = ("step_time",)
        assert {k: v for k, v in line.items() if k not in drop} == {
            k: v for k, v in other.items() if k not in drop
        }
    assert (
        digest(LocalModel(whole).network)
        == digest(LocalModel(halved).network)
        != digest(LocalModel(tiny_planner).network)
    )

    specialize(rows, tiny_planner, dying, few, sampling(), halved, 7)  # nothing is left to do
    assert checkpoint_of(halved) == checkpoint_of(
        whole
    )  # nor does a name of this machine's folders stand there
    assert [line["step"] for line in log_of(halved)] == list(range(1, 13))


def test_generalize_goes_on_after_a_kill_as_if_nothing_had_been(monkeypatch, tiny_planner, tmp_path):
    rows = sft_rows([made_up(0, ACTS), made_up(1, ACTS)], "compact", LABEL)
    few = GeneralizeSettings(steps=11, batch_size=4, learning_rate=1e-3)  # ends in the middle of a pass
    whole, halved = tmp_path / "whole", tmp_path / "halved"
    generalize(rows, tiny_planner, few, whole, 7)
    compute, calls = SFTTrainer.compute_loss, []

    def die(self: SFTTrainer, *args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) > 10:
            raise Killed
        return compute(self, *args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(SFTTrainer, "compute_loss", die)
        generalize(rows, tiny_planner, few, halved, 7)
    generalize(rows, tiny_planner, few, halved, 7)
    assert [line["step"] for line in log_of(halved)] == list(range(1, 12))
    assert [line["loss"] for line in log_of(halved)] == [line["loss"] for line in log_of(whole)]
    assert digest(LocalModel(halved).network) == digest(LocalModel(whole).network)
    generalize(rows, tiny_planner, few, halved, 7)  # nothing is left to do
    assert checkpoint_of(halved) == checkpoint_of(whole)
    assert [line["step"] for line in log_of(halved)] == list(range(1, 12))
