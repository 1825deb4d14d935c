"""Shared prefixes against the plain way: the same tokens sampled, the same log-probabilities, the same
gradient.
"""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from tiny_models import save_tiny, screen
from transformers import GenerationConfig

from coda_lib.models.chat import Message, Sampling, image, text
from coda_lib.models.local import Features, LocalModel, encode
from coda_lib.models.shared_prefix import GroupRows, prompts_of, sample


def ask(*parts: str | Image.Image) -> list[Message]:
    return [
        {"role": "user", "content": [text(part) if isinstance(part, str) else image(part) for part in parts]}
    ]


# ragged: no picture, one, two, and two of which one is larger; short texts, and one more than ten times as
# long
ASKED = [
    ask("x"),
    ask(screen(1), "turn the grid on"),
    ask(screen(1), screen(2), "turn the grid on, and then off, and then on again; " * 6),
    ask(screen(2), screen(3).resize((112, 56)), "x"),
]
SAMPLINGS = [Sampling(0, 1.0, 8), Sampling(1.0, 1.0, 8), Sampling(0.8, 0.9, 8)]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> LocalModel:
    """Give a network whose replies depend on every part of a prompt: its weights are large."""
    return LocalModel(save_tiny(tmp_path_factory.mktemp("model") / "wild", seed=4, spread=0.5))


def plain(model: LocalModel, conversations: list[list[Message]], sampling: Sampling, seed: int) -> list[str]:
    """The replies of transformers' own `generate`."""
    inputs = encode(model.processor, conversations)
    draw = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
    torch.manual_seed(seed)
    output = model.network.generate(
        **inputs,
        **(draw if sampling.temperature else {"do_sample": False}),
        max_new_tokens=sampling.max_new_tokens,
        pad_token_id=model.processor.tokenizer.pad_token_id,
    )
    return model.processor.tokenizer.batch_decode(
        output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
    )


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda sampling: f"temperature {sampling.temperature}")
def test_replies_are_those_of_generate_on_the_repeated_prompts(model, sampling):
    repeated = [conversation for conversation in ASKED for _ in range(3)]
    expected = plain(model, repeated, sampling, 5)
    assert len(set(expected)) > 3
    assert model.generate(repeated, sampling, 5) == expected
    mixed = repeated[::2] + repeated[1::2]  # equal prompts need not stand side by side
    assert model.generate(mixed, sampling, 5) == plain(model, mixed, sampling, 5)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda sampling: f"temperature {sampling.temperature}")
def test_prompts_with_the_same_pictures_share_them_and_reply_as_alone(model, sampling):
    words = ("x", "turn the grid on", "Click 'Grid'.", "turn the grid on, and then off")
    asked = [ask(screen(i), screen(3), word) for word in words for i in (1, 2)]
    assert model.generate(asked, sampling, 6) == plain(model, asked, sampling, 6)


def test_prompts_with_and_without_pictures_stand_in_one_batch(model):
    asked = [ask(screen(1), "x"), ask("x"), ask(screen(1), "y"), ask("y")]
    assert model.generate(asked, SAMPLINGS[1], 6) == plain(model, asked, SAMPLINGS[1], 6)


def test_repetition_penalty_and_other_settings_of_a_checkpoint_hold(model):
    model.network.generation_config.repetition_penalty = 1.7
    try:
        expected = plain(model, ASKED, SAMPLINGS[0], 0)
        assert model.generate(ASKED, SAMPLINGS[0], 0) == expected
    finally:
        model.network.generation_config.repetition_penalty = None
    assert model.generate(ASKED, SAMPLINGS[0], 0) != expected


def test_each_distinct_prompt_is_read_once(model, monkeypatch):
    read = []
    forward = type(model.network.model.language_model).forward

    def counted(self, *args, inputs_embeds, **kwargs):
        read.append(inputs_embeds.shape[:2].numel())
        return forward(self, *args, inputs_embeds=inputs_embeds, **kwargs)

    monkeypatch.setattr(type(model.network.model.language_model), "forward", counted)
    once = Sampling(0, 1.0, 1)
    model.generate([ASKED[2]], once, 0)
    alone = sum(read)
    read.clear()
    model.generate([ASKED[2]] * 8, once, 0)
    assert sum(read) == alone
    read.clear()
    model.generate([ask(screen(1), screen(2), word) for word in ("x", "y", "z", "on")], once, 0)
    assert sum(read) < 2 * alone  # pictures once, and four short texts


def test_short_prompts_are_not_padded_to_the_longest(model, monkeypatch):
    read = []
    forward = type(model.network.model.language_model).forward

    def counted(self, *args, inputs_embeds, **kwargs):
        read.append(tuple(inputs_embeds.shape[:2]))
        return forward(self, *args, inputs_embeds=inputs_embeds, **kwargs)

    monkeypatch.setattr(type(model.network.model.language_model), "forward", counted)
    inputs = encode(model.processor, ASKED)
    model.generate(ASKED, SAMPLINGS[0], 0)
    prompts = [shape for shape in read if shape[1] > 1]
    real, padded = int(inputs["attention_mask"].sum()), inputs["input_ids"].numel()
    assert sum(rows for rows, _ in prompts) == len(ASKED)
    assert real <= sum(rows * length for rows, length in prompts) < 1.34 * real < 0.7 * padded


def test_a_picture_is_seen_once_and_kept_until_there_is_no_room(model, monkeypatch):
    seen = []
    look = model.network.model.get_image_features
    monkeypatch.setattr(
        model.network.model, "get_image_features", lambda *a, **k: seen.append(len(a[1])) or look(*a, **k)
    )
    model._seen.clear()
    first = model.generate(ASKED, SAMPLINGS[0], 0)
    assert sum(seen) == 3  # of five pictures in four prompts
    assert model.generate(ASKED, SAMPLINGS[0], 0) == first and sum(seen) == 3
    monkeypatch.setattr(Features, "_ROOM", 0)
    assert model.generate(ASKED, SAMPLINGS[0], 0) == first and not model._seen


def test_models_with_one_tower_see_a_picture_once(model, tmp_path, monkeypatch):
    words, tower = (LocalModel(model.name, device="cpu") for _ in range(2))
    with torch.no_grad():
        next(tower.network.model.visual.parameters()).add_(0.1)
        words.network.lm_head.weight.add_(0.1)
    for name, changed in (("words", words), ("tower", tower)):
        changed.network.save_pretrained(tmp_path / name)
        changed.processor.save_pretrained(tmp_path / name)
    model._seen.clear()
    like, other = (LocalModel(tmp_path / name, device="cpu") for name in ("words", "tower"))
    model._see([screen(1)])
    assert like._seen is model._seen and len(like._seen) == 1 and not other._seen
    assert not torch.equal(other._see([screen(1)])[0][0], model._see([screen(1)])[0][0])


def test_how_a_picture_is_seen_does_not_depend_on_those_that_come_with_it(model):
    model._seen.clear()
    together = [features for features, _ in model._see([screen(1), screen(2), screen(3)])]
    model._seen.clear()
    assert all(
        torch.equal(model._see([screen(number)])[0][0], features)
        for number, features in enumerate(together, 1)
    )


def test_no_feature_of_a_network_that_is_trained_is_kept(tmp_path):
    model = LocalModel(save_tiny(tmp_path / "wild", seed=4, spread=0.5))
    model.network.requires_grad_(True)
    before = model.generate(ASKED, SAMPLINGS[0], 0)
    with torch.no_grad():
        for parameter in model.network.model.visual.parameters():
            parameter.mul_(-1.5)
    after = model.generate(ASKED, SAMPLINGS[0], 0)
    assert after != before and after == plain(model, ASKED, SAMPLINGS[0], 0)


def test_a_batch_of_the_sampler_may_end_at_once_or_never(model):
    inputs = encode(model.processor, ASKED)
    prompts = prompts_of(model.network, inputs)
    first = int(sample(model.network, prompts, [1], GenerationConfig(max_new_tokens=1, pad_token_id=0))[0, 0])
    config = GenerationConfig(max_new_tokens=4, pad_token_id=0, eos_token_id=first)
    assert sample(model.network, prompts, [1, 1], config).tolist() == [[first], [first]]
    config.eos_token_id = 299
    assert sample(model.network, prompts, [1], config).shape == (1, 4)


# ---- the rows of a group ---------------------------------------------------------------------------------
def plans(lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Random plans, padded on the right: ids and which of them are real."""
    torch.manual_seed(8)
    real_NT = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return torch.randint(20, 200, real_NT.shape) * real_NT, real_NT


CASES = {  # prompts of ASKED, state of each plan, tokens of each plan
    "unequal plans": ([1, 2], [0, 0, 0, 1, 1, 1], [5, 1, 3, 2, 5, 4]),
    "plans of one token": ([2, 3], [0, 0, 1, 1], [1, 1, 1, 1]),
    "one plan a state": ([1, 3, 2], [0, 1, 2], [2, 4, 1]),
    "groups torn apart": ([3, 1], [1, 0, 1, 1], [3, 3, 2, 5]),
    "no picture": ([0], [0, 0], [2, 3]),
}


@pytest.mark.parametrize("case", CASES)
def test_log_probabilities_and_gradient_are_those_of_each_plan_by_itself(model, case):
    which, states, lengths = CASES[case]
    network = model.network.requires_grad_(True)
    plans_NT, real_NT = plans(lengths)
    weights_NT = torch.rand(plans_NT.shape) * real_NT

    inputs = encode(model.processor, [ASKED[i] for i in which])
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    if "pixel_values" in inputs:
        kinds = (ids == network.config.image_token_id).int()
        positions, _ = network.model.get_rope_index(ids, kinds, inputs["image_grid_thw"], attention_mask=mask)
    else:
        positions = (mask.cumsum(-1) - 1).clamp(min=0).expand(3, -1, -1)
    rows = GroupRows.of(ids, mask, positions, plans_NT, real_NT, states)
    pictures = {name: inputs[name] for name in ("pixel_values", "image_grid_thw") if name in inputs}
    logits = network(
        input_ids=rows.ids_SL,
        attention_mask={"full_attention": rows.mask_S1LL},
        position_ids=rows.positions_3SL,
        **pictures,
    ).logits
    row, column = rows.places_NT
    shared = torch.log_softmax(logits[row, column - 1], -1).gather(-1, plans_NT[..., None])[..., 0]
    assert (rows.labels_SL[row, column] == plans_NT)[real_NT.bool()].all() and (
        rows.labels_SL != -100
    ).sum() == real_NT.sum()
    assert rows.ids_SL.shape[1] == max(  # no place for the padding of plans
        ids.shape[1] - 1 + sum(n + 1 for n, state in zip(lengths, states, strict=True) if state == one)
        for one in states
    )

    alone = []
    for state, plan, real in zip(states, plans_NT, real_NT, strict=True):
        prompt = encode(model.processor, [ASKED[which[state]]])
        ids = torch.cat([prompt["input_ids"][0], plan[real.bool()]])[None]
        kinds = (ids == network.config.image_token_id).int()
        some = {name: prompt[name] for name in ("pixel_values", "image_grid_thw") if name in prompt}
        logits = network(
            input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=kinds, **some
        ).logits[0]
        start = prompt["input_ids"].shape[1]
        alone.append(torch.log_softmax(logits[start - 1 : -1], -1).gather(-1, ids[0, start:, None])[:, 0])
    expected = torch.nn.utils.rnn.pad_sequence(alone, batch_first=True)

    torch.testing.assert_close(shared * real_NT, expected * real_NT, rtol=1e-5, atol=1e-5)
    parameters = list(network.parameters())
    gradients = []
    for logps in (shared, expected):
        found = torch.autograd.grad(
            (logps * weights_NT).sum(), parameters, allow_unused=True, retain_graph=True
        )
        slopes = (torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True))
        gradients.append(torch.cat([slope.flatten() for slope in slopes]))
    network.requires_grad_(False)
    assert (gradients[0] - gradients[1]).norm() < 1e-5 * gradients[1].norm()
