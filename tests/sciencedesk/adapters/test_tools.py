"""ScienceDesk as tools: what a trainer sees of it, and a step of TRL's own trainer on it."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from coda_lib.grammar import format_action
from coda_lib.task import test_tasks
from sciencedesk.adapters.tools import DeskTools
from sciencedesk.env import ScienceDesk
from sciencedesk.script import to_action

TASK = next(task for task in test_tasks("gis") if len(task.solution) == 1 and not task.ans)


def script() -> str:
    """The action that solves TASK, in the grammar."""
    env = ScienceDesk("gis")
    env.reset(TASK)
    height, width, _ = env.render().shape
    text = format_action(to_action(env.desk, TASK.solution[0]), (width, height))
    env.close()
    return text


@pytest.fixture
def tools():
    made = DeskTools("gis", pictures=False)
    yield made
    made._env.close()


def test_a_solved_task_earns_1_and_an_unfinished_one_0(tools):
    told = tools.reset(task=TASK.id, prompt="a column that is ignored")
    assert told.startswith(TASK.instruction + "\n") and len(told.splitlines()) > 5
    assert tools.act(script()) != told.partition("\n")[2] and tools.get_reward() == 0.0
    assert tools.act("finished()") == "the task is over" and tools.get_reward() == 1.0
    assert tools.act("finished()") == "the task is over"
    tools.reset(task=TASK.id)
    tools.act("finished()")
    assert tools.get_reward() == 0.0


def test_what_is_no_action_is_said_and_changes_nothing(tools):
    screen = tools.reset(task=TASK.id).partition("\n")[2]
    assert tools.act("click the button").startswith("no action: ")
    assert tools.act("click(start_box='(9999,1)')").startswith("no action: ")
    assert tools.act("wait()") == screen


def test_models_that_see_get_pictures(tools):
    tools._pictures = True
    words, picture = tools.reset(seed=3)
    assert words["text"] == f"{tools._env.task.instruction}\n" and picture["image"].size == (336, 252)
    (_, after) = tools.act("wait()")
    assert isinstance(after["image"], Image.Image)


@pytest.mark.filterwarnings("ignore:You are using 'environment_factory'")
def test_trl_trains_a_step_on_it_without_our_trainer(tmp_path):
    """An untrained network, whose replies are given: half of a group solves the task, and the step moves the
    weights.
    """
    import torch
    from datasets import Dataset
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl import GRPOConfig, GRPOTrainer
    from trl.chat_template_utils import qwen3_chat_template

    from base_models.architecture import tokenizer

    words = tokenizer(["Turn the grid on."], vocabulary=300)
    words.chat_template = qwen3_chat_template
    sizes = dict(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    torch.manual_seed(0)
    network = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(words), max_position_embeddings=16_384, **sizes))

    def reply(action: str) -> list[int]:
        call = json.dumps({"name": "act", "arguments": {"action": action}})
        return words.encode(f"<tool_call>\n{call}\n</tool_call>") + [words.eos_token_id]

    turns = iter(
        [[reply(script()), reply("finished()")] * 2, [reply("finished()")] * 4, [words.encode("Ready.")] * 4]
    )

    class Scripted(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids, *arguments, **options):
            return next(turns), None

    rows = Dataset.from_list([{"prompt": [{"role": "user", "content": "Solve the task. "}], "task": TASK.id}])
    settings = GRPOConfig(
        str(tmp_path), max_steps=1, per_device_train_batch_size=4, num_generations=4,
        max_completion_length=8192, learning_rate=0.1, report_to=[], use_cpu=True, bf16=False,
        logging_steps=1, save_strategy="no",
    )  # fmt: skip
    factory = lambda: DeskTools("gis", pictures=False)  # noqa: E731
    trainer = Scripted(
        network, args=settings, train_dataset=rows, processing_class=words, environment_factory=factory
    )
    before = [parameter.detach().clone() for parameter in network.parameters()]
    trainer.train()
    log = next(entry for entry in trainer.state.log_history if "reward" in entry)
    assert log["rewards/DeskTools/mean"] == log["reward"] == 0.5
    assert log["tools/call_frequency"] == 2.0 and log["tools/failure_frequency"] == 0.0
    assert any(not torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True))
