"""What a profile will cost before anything is bought: memory, tokens, operations and hours, from the models' sizes alone.

No weights are loaded.  Operations are those of `cost`.  Of two times that go on at once, the models' and the environments',
the larger one counts.  The models' is that of the arithmetic at a share of the peak and, for what is written token by token, of
passes over the weights at the memory's speed, each shared by all that write at once.  What is assumed stands in the profile's
`hardware`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import mean

import psutil
import torch
import yaml
from transformers import AutoConfig, Qwen2_5_VLConfig

from coda_lib.bench.cost import Network
from coda_lib.config import Hardware, Profile, SpecializeSettings, TrainingSettings
from coda_lib.envs.sciencedesk.env import desk_class
from coda_lib.errors import UserError
from coda_lib.explore import train_pool
from coda_lib.models.chat import Sight
from coda_lib.paths import DATA, RESULTS, checkpoint_path
from coda_lib.task import Task, test_tasks

MODELS = DATA / "models.yaml"
VISION = {
    "depth": 32, "hidden_size": 1280, "num_heads": 16, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
    "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
}  # of all released sizes  # fmt: skip
HALF, WHOLE = 2, 4  # bytes of a number
GB, TERA = 1e9, 1e12


def network(name: str) -> Network:
    """A checkpoint's configuration: of its folder, or of data/models.yaml.  UserError for a model that neither knows."""
    path = Path(checkpoint_path(name))
    if path.is_absolute():
        return Network(AutoConfig.from_pretrained(path))
    known = yaml.safe_load(MODELS.read_text(encoding="utf-8"))
    if name not in known:
        raise UserError(f"the sizes of {name} are not known: add them to data/{MODELS.name}, which has {', '.join(known)}")
    text = dict(known[name])
    tied, inner = text.pop("tie_word_embeddings"), text.pop("vision_intermediate_size")
    vision = VISION | {"intermediate_size": inner, "out_hidden_size": text["hidden_size"]}
    return Network(Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=tied))


@dataclass(frozen=True)
class Request:
    """What a model is asked at once."""

    network: Network
    words: int  # tokens of text that are read
    pictures: Sequence[tuple[int, int]]  # (width, height) in pixels, as they are seen
    reply: int  # tokens that are written

    @property
    def prompt(self) -> int:
        return self.words + sum(map(self.network.image_tokens, self.pictures))

    @property
    def flops(self) -> float:
        return self.network.reply_flops(self.prompt, self.pictures, self.reply)

    def pass_flops(self, passes: int = 1) -> float:
        """Of training passes over prompt and reply together; only the reply's scores are computed."""
        return passes * self.network.forward_flops(self.prompt + self.reply, self.pictures, self.reply + 1)


def plan_request(planner: Network, hardware: Hardware) -> Request:
    """What a planner is asked for one plan: two screenshots and the instructions with the history."""
    return Request(planner, hardware.prompt_tokens, [_seen(planner, hardware)] * 2, hardware.plan_tokens)


def action_request(executor: Network, hardware: Hardware) -> Request:
    """What an executor is asked for one action: the same and the plan."""
    words = hardware.prompt_tokens + hardware.plan_tokens
    return Request(executor, words, [_seen(executor, hardware)] * 2, hardware.action_tokens)


def _seen(asked: Network, hardware: Hardware) -> tuple[int, int]:
    return Sight(asked.patch, *hardware.pixels)(hardware.screen)


@dataclass(frozen=True)
class Part:
    """What a stage, or a phase of one, asks for."""

    name: str
    flops: float
    read: float  # tokens
    written: float  # tokens
    models_s: float  # seconds that the models take
    environments_s: float = 0.0  # seconds that the environments take, meanwhile

    @property
    def seconds(self) -> float:
        return max(self.models_s, self.environments_s)


@dataclass(frozen=True)
class Memory:
    """Bytes on each GPU that trains, by what they are for."""

    weights: float
    gradients: float
    optimizer: float
    reference: float
    working: float  # activations of a training pass, or what generation keeps of all prompts and replies, whichever is more

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.reference + self.working


@dataclass(frozen=True)
class Plan:
    profile: Profile
    networks: dict[str, Network]  # by role
    step: tuple[Part, ...]  # the phases of one step of stage 1
    stages: tuple[Part, ...]
    memory: Memory  # of a GPU that trains in stage 1
    serving: dict[str, float]  # bytes of the weights of each served model, and of what `concurrency` prompts keep
    disk: float  # bytes
    missing: tuple[str, ...]

    @property
    def gpus(self) -> int:
        return self.profile.hardware.nodes * self.profile.hardware.gpus


def plan(profile: Profile) -> Plan:
    """UserError for a profile without `hardware`, and as of `network`."""
    if profile.hardware is None:
        raise UserError(f"profile {profile.name} is not planned for any hardware: `coda plan gpu`, `coda plan paper`")
    networks = {role: network(getattr(profile.models, role)) for role in ("planner", "executor", "judge")}
    whole = _Planner(profile, profile.hardware, networks)
    step = whole.grpo_step()
    memory, disk = whole.training_memory(profile.specialize), whole.disk()
    return Plan(
        profile, networks, step, whole.stages(step), memory, whole.serving(), disk, tuple(whole.missing(memory, disk))
    )  # fmt: skip


class _Planner:
    def __init__(self, profile: Profile, hardware: Hardware, networks: dict[str, Network]):
        self.profile, self.hardware, self.networks = profile, hardware, networks
        self.gpus = hardware.nodes * hardware.gpus
        pools = {app: train_pool(app, desk_class(app).defaults) for app in profile.apps}
        train = [
            task for app in profile.apps
            for task in [one for one in pools[app] if one.grade in profile.train_grades][: profile.train_tasks]
        ]  # fmt: skip
        test = [task for app in profile.apps for task in test_tasks(app)[: profile.test_tasks]]
        self.explored = self._episodes(train, profile.rollouts_per_task)
        if profile.models.generator:  # whose tasks nobody knows yet: as many as it is asked for, as long as the others
            made = profile.generator.rounds * profile.generator.tasks * len(profile.apps)
            self.explored = (made * profile.rollouts_per_task, self.explored[1])
        self.tested = self._episodes(test, profile.evaluation_runs * len(profile.systems))

    def _episodes(self, tasks: Sequence[Task], runs: int) -> tuple[int, float]:
        """How many, and steps of each at most."""
        limit = self.profile.step_limit
        return len(tasks) * runs, mean(min(task.steps, limit or task.steps) for task in tasks)

    # -- what is asked ---------------------------------------------------------------------------------------------------
    def plans(self) -> Request:
        return plan_request(self.networks["planner"], self.hardware)

    def actions(self) -> Request:
        return action_request(self.networks["executor"], self.hardware)

    def verdicts(self) -> Request:
        h, judge, (_, steps) = self.hardware, self.networks["judge"], self.explored
        return Request(judge, h.prompt_tokens, [_seen(judge, h)] * (ceil(steps) + 1), h.verdict_tokens)

    # -- how long it takes -----------------------------------------------------------------------------------------------
    def _arithmetic_s(self, flops: float) -> float:
        return flops / (self.gpus * self.hardware.tflops * TERA * self.hardware.share)

    def _writing_s(self, asked: Request, count: float, at_once: int) -> float:
        """Of the passes over the weights for what is written, `at_once` replies in each."""
        weights = HALF * asked.network.parameters
        return ceil(count / at_once) * asked.reply * weights / (self.gpus * self.hardware.bandwidth_gbs * GB)

    def part(self, name: str, asked: Sequence[tuple[Request, float]], at_once: int, environments_s: float = 0.0) -> Part:
        flops = sum(one.flops * count for one, count in asked)
        seconds = self._arithmetic_s(flops) + sum(self._writing_s(one, count, at_once) for one, count in asked)
        read, written = (sum(getattr(one, name) * count for one, count in asked) for name in ("prompt", "reply"))
        return Part(name, flops, read, written, seconds, environments_s)

    def played(self, name: str, episodes: int, steps: float) -> Part:
        h = self.hardware
        side_by_side = max(1, self.profile.fleet.workers * self.profile.fleet.side_by_side or self.profile.concurrency)
        waited = episodes * (h.reset_s + steps * h.step_s) / side_by_side
        return self.part(name, [(self.plans(), episodes * steps), (self.actions(), episodes * steps)], side_by_side, waited)

    def trained(self, name: str, asked: Request, count: float, passes: float) -> Part:
        flops = count * asked.pass_flops() * passes
        return Part(name, flops, count * (asked.prompt + asked.reply), 0, self._arithmetic_s(flops))

    def passes(self, settings: TrainingSettings) -> int:
        """Forward, forward once more for what was not kept, and backward: twice as much as forward, once where no weight of the
        network itself is trained."""
        return 3 if settings.lora else 4

    def grpo_step(self) -> tuple[Part, ...]:
        settings, plans = self.profile.specialize, self.plans()
        count = settings.completions_per_step
        reference = [self.trained("reference", plans, count, 1)] if settings.beta else []
        return (
            self.part("plans", [(plans, count)], count),
            self.part("actions", [(self.actions(), count)], count),
            *reference,
            self.trained("policy and update", plans, count, self.passes(settings)),
        )

    def stages(self, step: Sequence[Part]) -> tuple[Part, ...]:
        profile, (episodes, steps) = self.profile, self.explored
        judged = self.part("judge", [(self.verdicts(), episodes * profile.judge.votes)], profile.concurrency)
        times = profile.specialize.steps * len(profile.apps)
        specialize = Part("specialize", *(
            times * sum(getattr(part, name) for part in step) for name in ("flops", "read", "written", "seconds")
        ))  # fmt: skip
        rows = profile.generalize.steps and profile.generalize.steps * profile.generalize.batch_size
        rows = rows or profile.generalize.epochs * episodes * steps * self.hardware.kept
        return (
            self.played("explore", episodes, steps), judged, specialize,
            self.played("explore, specialists", episodes, steps), judged,
            self.trained("generalize", self.plans(), rows, self.passes(profile.generalize)),
            self.played("evaluate", *self.tested),
        )  # fmt: skip

    # -- what it fills ---------------------------------------------------------------------------------------------------
    def training_memory(self, settings: SpecializeSettings) -> Memory:
        """Weights and all that belongs to them are shared out among the GPUs; each works on its own samples."""
        net, plans = self.networks["planner"], self.plans()
        own = net.adapter_parameters(settings.lora) if settings.lora else net.parameters
        tokens, each = plans.prompt + plans.reply, ceil(settings.completions_per_step / self.gpus)
        working = max(
            net.activation_bytes(min(each, settings.at_once or each), tokens, plans.reply), each * net.cache_bytes(tokens)
        )
        weights = HALF * net.parameters + WHOLE * own if settings.lora else WHOLE * own
        reference = 0 if settings.lora or not self.profile.specialize.beta else WHOLE * net.parameters
        shared = (weights, WHOLE * own, 2 * WHOLE * own, reference)
        return Memory(*(one / self.gpus for one in shared), working)

    def serving(self) -> dict[str, float]:
        at_once = self.profile.concurrency
        asked = {"planner": self.plans(), "executor": self.actions(), "judge": self.verdicts()}
        return {
            role: HALF * one.network.parameters + at_once * one.network.cache_bytes(one.prompt + one.reply)
            for role, one in asked.items()
        }

    def disk(self) -> float:
        """Trained weights with what their trainers go on from, for each application and the generalist; screenshots."""
        settings, net = self.profile.specialize, self.networks["planner"]
        own = net.adapter_parameters(settings.lora) if settings.lora else net.parameters
        trained = (len(self.profile.apps) + 1) * (WHOLE * net.parameters + 3 * WHOLE * own)
        kept = sum(episodes * (steps + 1) for episodes, steps in (self.explored, self.explored, self.tested))
        return trained + kept * self.hardware.screenshot_kb * 1e3

    def missing(self, memory: Memory, disk: float) -> list[str]:
        """What this machine lacks, a line each."""
        h, here = self.hardware, torch.cuda.device_count()
        found = []
        if here < h.gpus:
            found.append(f"{h.gpus} × {h.gpu} on each of {h.nodes} nodes; here are {here} GPUs")
        if memory.total > h.memory_gb * GB:
            found.append(f"{memory.total / GB:.0f} GB on each GPU to train; a {h.gpu} has {h.memory_gb:g} GB")
        for role, needed in self.serving().items():
            if needed > h.gpus * h.memory_gb * GB:
                found.append(f"{needed / GB:.0f} GB to serve the {role}; a node has {h.gpus * h.memory_gb:g} GB")
        if (free := psutil.disk_usage(str(RESULTS.parent)).free) < disk:
            found.append(f"{disk / GB:.0f} GB of disk; {free / GB:.0f} GB are free")
        wanted = {"vllm": "gpu", "peft": "scale", "ray": "scale"}
        found += [f"{name}: pip install --editable '.[{extra}]'" for name, extra in wanted.items() if not find_spec(name)]
        return found + ([] if shutil.which("nvidia-smi") else ["an NVIDIA driver"])
