"""An estimate of what a profile costs: memory, tokens, operations and hours, from the sizes of its networks
alone.

No weights are loaded.  Operations are counted as in `cost`.  Models and environments work at the same time,
so the larger of the two times counts.  The models' time is the arithmetic at a share of the GPU's peak plus,
for tokens that are written one by one, passes over the weights at the speed of the memory; a pass serves all
replies that are written together.  The assumptions are in the profile's `hardware`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import mean

import psutil
import torch
import yaml
from transformers import AutoConfig, Qwen2_5_VLConfig

from coda_lib.config import ExploreSettings, Hardware, Profile, TrainingSettings
from coda_lib.errors import UserError
from coda_lib.models.chat import ResizeRule
from coda_lib.paths import DATA, RESULTS, checkpoint_path
from coda_lib.task import Task, test_tasks
from coda_study.cost import Network
from sciencedesk.env import desk_class
from sciencedesk.space import draw, space

MODELS = DATA / "models.yaml"
VISION = {
    "depth": 32, "hidden_size": 1280, "num_heads": 16, "patch_size": 14, "spatial_merge_size": 2,
    "temporal_patch_size": 2, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
}  # of all released sizes  # fmt: skip
HALF, WHOLE = 2, 4  # bytes of a 16-bit and of a 32-bit number
GB, TERA = 1e9, 1e12


def network(name: str) -> Network:
    """The network of a checkpoint, from its folder or data/models.yaml.  UserError for an unknown model."""
    path = Path(checkpoint_path(name))
    if path.is_absolute():
        return Network(AutoConfig.from_pretrained(path))
    known = yaml.safe_load(MODELS.read_text(encoding="utf-8"))
    if name not in known:
        raise UserError(
            f"the sizes of {name} are not known: add them to data/{MODELS.name}, which has {', '.join(known)}"
        )
    text = dict(known[name])
    tied, inner = text.pop("tie_word_embeddings"), text.pop("vision_intermediate_size")
    vision = VISION | {"intermediate_size": inner, "out_hidden_size": text["hidden_size"]}
    return Network(Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=tied))


@dataclass(frozen=True)
class Request:
    """One request to a model."""

    network: Network
    words: int  # text tokens of the prompt
    pictures: Sequence[tuple[int, int]]  # (width, height) in pixels after resizing
    reply: int  # tokens of the reply

    @property
    def prompt(self) -> int:
        return self.words + sum(map(self.network.image_tokens, self.pictures))

    @property
    def flops(self) -> float:
        return self.network.reply_flops(self.prompt, self.pictures, self.reply)

    def pass_flops(self, passes: int = 1) -> float:
        """Operations of training passes over prompt and reply; logits are computed for the reply alone."""
        return passes * self.network.forward_flops(self.prompt + self.reply, self.pictures, self.reply + 1)


def plan_request(planner: Network, hardware: Hardware) -> Request:
    """The request for one plan: two screenshots, instructions and history."""
    return Request(planner, hardware.prompt_tokens, [_resized(planner, hardware)] * 2, hardware.plan_tokens)


def action_request(executor: Network, hardware: Hardware) -> Request:
    """The request for one action: the same and the plan."""
    words = hardware.prompt_tokens + hardware.plan_tokens
    return Request(executor, words, [_resized(executor, hardware)] * 2, hardware.action_tokens)


def _resized(reader: Network, hardware: Hardware) -> tuple[int, int]:
    return ResizeRule(reader.patch, *hardware.pixels)(hardware.screen)


@dataclass(frozen=True)
class Workload:
    """The work of a stage or of a phase of a step."""

    name: str
    flops: float
    read: float  # tokens
    written: float  # tokens
    models_s: float  # seconds of the models
    environments_s: float = 0.0  # seconds of the environments, at the same time

    @property
    def seconds(self) -> float:
        return max(self.models_s, self.environments_s)


@dataclass(frozen=True)
class Memory:
    """Bytes on each GPU that trains."""

    weights: float
    gradients: float
    optimizer: float
    reference: float
    # the larger of the activations of a training pass and the keys and values of all prompts and replies
    working: float

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.reference + self.working


@dataclass(frozen=True)
class Estimate:
    profile: Profile
    networks: dict[str, Network]  # by role
    step: tuple[Workload, ...]  # the phases of one step of stage 1
    stages: tuple[Workload, ...]
    memory: Memory  # of a GPU that trains in stage 1
    serving: dict[str, float]  # bytes by role: weights, and keys and values of `concurrency` prompts
    disk: float  # bytes
    missing: tuple[str, ...]

    @property
    def gpus(self) -> int:
        return self.profile.hardware.nodes * self.profile.hardware.gpus


def estimate(profile: Profile) -> Estimate:
    """The estimate for a profile.  UserError if it has no `hardware`, and as of `network`."""
    if profile.hardware is None:
        raise UserError(
            f"profile {profile.name} names no hardware: `coda estimate gpu`, `coda estimate paper`"
        )
    networks = {role: network(getattr(profile.models, role)) for role in ("planner", "executor", "judge")}
    run = _Run(profile, profile.hardware, networks)
    step, memory, disk = run.grpo_step(), run.training_memory(), run.disk()
    return Estimate(
        profile,
        networks,
        step,
        run.stages(step),
        memory,
        run.serving(),
        disk,
        tuple(run.missing(memory, disk)),
    )


class _Run:
    """The work of a profile's run, stage by stage."""

    def __init__(self, profile: Profile, hardware: Hardware, networks: dict[str, Network]):
        self.profile, self.hardware, self.networks = profile, hardware, networks
        self.gpus = hardware.nodes * hardware.gpus
        test = [task for app in profile.apps for task in test_tasks(app)[: profile.test_tasks]]
        self.explored = {planner: self._exploring(wanted) for planner, wanted in profile.explore.items()}
        self.tested = self._episodes(test, profile.evaluation_runs * len(profile.systems))
        self.plans = plan_request(networks["planner"], hardware)
        self.actions = action_request(networks["executor"], hardware)
        screens = [_resized(networks["judge"], hardware)] * (
            ceil(max(steps for _, steps in self.explored.values())) + 1
        )
        self.verdicts = Request(networks["judge"], hardware.prompt_tokens, screens, hardware.verdict_tokens)
        adapters, planner = profile.specialize.lora, networks["planner"]
        self.trained = planner.adapter_parameters(adapters) if adapters else planner.parameters  # in number

    def _exploring(self, wanted: ExploreSettings) -> tuple[int, float]:
        profile = self.profile
        drawn = (
            draw(space(a), "train", wanted.tasks, profile.seed, desk_class(a).defaults, wanted.grades)
            for a in profile.apps
        )
        count, steps = self._episodes([task for tasks in drawn for task in tasks], wanted.runs)
        if (
            profile.models.generator
        ):  # its tasks are not known yet: as many as it is asked for, of the same mean length
            count = profile.generator.rounds * profile.generator.tasks * len(profile.apps) * wanted.runs
        return count, steps

    def _episodes(self, tasks: Sequence[Task], runs: int) -> tuple[int, float]:
        """Number of episodes, and the mean of their step limits."""
        limit = self.profile.step_limit
        return len(tasks) * runs, mean(min(task.steps, limit or task.steps) for task in tasks)

    # -- time ------------------------------------------------------------------------------------------------
    def _arithmetic_s(self, flops: float) -> float:
        return flops / (self.gpus * self.hardware.tflops * TERA * self.hardware.share)

    def _writing_s(self, request: Request, count: float, at_once: int) -> float:
        """Seconds of the passes over the weights that write `count` replies, `at_once` in each pass."""
        weights = HALF * request.network.parameters
        return (
            ceil(count / at_once) * request.reply * weights / (self.gpus * self.hardware.bandwidth_gbs * GB)
        )

    def generated(
        self, name: str, requests: Sequence[tuple[Request, float]], at_once: int, environments_s: float = 0.0
    ) -> Workload:
        flops = sum(request.flops * count for request, count in requests)
        seconds = self._arithmetic_s(flops) + sum(
            self._writing_s(request, count, at_once) for request, count in requests
        )
        read, written = (
            sum(getattr(request, side) * count for request, count in requests) for side in ("prompt", "reply")
        )
        return Workload(name, flops, read, written, seconds, environments_s)

    def played(self, name: str, episodes: int, steps: float) -> Workload:
        h = self.hardware
        side_by_side = max(
            1, self.profile.fleet.workers * self.profile.fleet.side_by_side or self.profile.concurrency
        )
        waited = episodes * (h.reset_s + steps * h.step_s) / side_by_side
        return self.generated(
            name, [(self.plans, episodes * steps), (self.actions, episodes * steps)], side_by_side, waited
        )

    def training(self, name: str, request: Request, count: float, passes: float) -> Workload:
        flops = count * request.pass_flops(passes)
        return Workload(name, flops, count * (request.prompt + request.reply), 0, self._arithmetic_s(flops))

    def passes(self, settings: TrainingSettings) -> int:
        """Forward passes that a training pass is worth: forward, recomputed forward, and backward, which is
        worth two, or one where the network's own weights are frozen."""
        return 3 if settings.lora else 4

    @property
    def rows(self) -> tuple[Request, int]:
        """A row of a training pass, and how many plans of one state it holds (with a shared prefix)."""
        settings, plans = self.profile.specialize, self.plans
        together = (
            min(settings.group_size, settings.at_once or settings.completions_per_step)
            if settings.shared_prefix
            else 1
        )
        return replace(plans, reply=together * (plans.reply + 1) if together > 1 else plans.reply), together

    def grpo_step(self) -> tuple[Workload, ...]:
        settings, plans, (rows, together) = self.profile.specialize, self.plans, self.rows
        count = settings.completions_per_step
        reference = [self.training("reference", rows, count / together, 1)] if settings.beta else []
        return (
            self.generated("plans", [(plans, count)], count),
            self.generated("actions", [(self.actions, count)], count),
            *reference,
            self.training("policy and update", rows, count / together, self.passes(settings)),
        )

    def stages(self, step: Sequence[Workload]) -> tuple[Workload, ...]:
        profile, exploring = self.profile, []
        times = profile.specialize.steps * len(profile.apps)
        specialize = Workload(
            "specialize",
            *(
                times * sum(getattr(phase, field) for phase in step)
                for field in ("flops", "read", "written", "seconds")
            ),
        )
        rows = profile.generalize.steps and profile.generalize.steps * profile.generalize.batch_size
        for planner, (episodes, steps) in self.explored.items():
            name = "explore" if planner == "base" else f"explore, {planner}s"
            judged = self.generated(
                "judge", [(self.verdicts, episodes * profile.judge.votes)], profile.concurrency
            )
            exploring += [
                self.played(name, episodes, steps),
                judged,
                *([] if planner == "specialist" else [specialize]),
            ]
        rows = rows or profile.generalize.epochs * episodes * steps * self.hardware.kept
        generalize = self.training("generalize", self.plans, rows, self.passes(profile.generalize))
        return (*exploring, generalize, self.played("evaluate", *self.tested))

    # -- memory and disk -------------------------------------------------------------------------------------
    def training_memory(self) -> Memory:
        """Weights, gradients and optimizer are sharded among the GPUs; each GPU works on its own samples."""
        settings, net, plans, own = (
            self.profile.specialize,
            self.networks["planner"],
            self.plans,
            self.trained,
        )
        (row, together), each = self.rows, ceil(settings.completions_per_step / self.gpus)
        at_once = ceil(min(each, settings.at_once or each) / together)
        working = max(
            net.activation_bytes(at_once, row.prompt + row.reply, row.reply),
            each * net.cache_bytes(plans.prompt + plans.reply),
        )
        weights = HALF * net.parameters + WHOLE * own if settings.lora else WHOLE * own
        reference = 0 if settings.lora or not settings.beta else WHOLE * net.parameters
        shared = (weights, WHOLE * own, 2 * WHOLE * own, reference)
        return Memory(*(size / self.gpus for size in shared), working)

    def serving(self) -> dict[str, float]:
        at_once = self.profile.concurrency
        requests = {"planner": self.plans, "executor": self.actions, "judge": self.verdicts}
        tokens = {role: at_once * (request.prompt + request.reply) for role, request in requests.items()}
        return {
            role: HALF * net.parameters + net.cache_bytes(tokens[role]) for role, net in self.networks.items()
        }

    def disk(self) -> float:
        """Trained weights and trainer checkpoints of each specialist and the generalist; screenshots."""
        trained = (
            (len(self.profile.apps) + 1) * WHOLE * (self.networks["planner"].parameters + 3 * self.trained)
        )
        screenshots = sum(
            episodes * (steps + 1) for episodes, steps in (*self.explored.values(), self.tested)
        )
        return trained + screenshots * self.hardware.screenshot_kb * 1e3

    def missing(self, memory: Memory, disk: float) -> list[str]:
        """What this machine lacks, one line each."""
        h, gpus = self.hardware, torch.cuda.device_count()
        lacking = []
        if gpus < h.gpus:
            lacking.append(f"{h.gpus} × {h.gpu} on each of {h.nodes} nodes; here are {gpus} GPUs")
        if memory.total > h.memory_gb * GB:
            lacking.append(
                f"{memory.total / GB:.0f} GB on each GPU to train; a {h.gpu} has {h.memory_gb:g} GB"
            )
        for role, needed in self.serving().items():
            if needed > h.gpus * h.memory_gb * GB:
                lacking.append(
                    f"{needed / GB:.0f} GB to serve the {role}; a node has {h.gpus * h.memory_gb:g} GB"
                )
        if (free := psutil.disk_usage(str(RESULTS.parent)).free) < disk:
            lacking.append(f"{disk / GB:.0f} GB of disk; {free / GB:.0f} GB are free")
        wanted = {"vllm": "gpu", "peft": "scale", "ray": "scale"}
        lacking += [
            f"{name}: pip install --editable '.[{extra}]'"
            for name, extra in wanted.items()
            if not find_spec(name)
        ]
        return lacking + ([] if shutil.which("nvidia-smi") else ["an NVIDIA driver"])
