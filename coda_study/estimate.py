"""An estimate of what a profile costs: memory, tokens, operations and hours.

No weights are loaded.  Operations are counted as in `cost`.  Models and environments work at the same time,
so the larger of the two times counts.  The models' time is the arithmetic at a share of the GPU's peak plus,
for tokens that are written one by one, passes over the weights at the speed of the memory; a pass serves all
replies that are written together.  The assumptions are in the profile's `hardware`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
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
BLIND = 3  # agents of stage `baselines` that look at no screen


def network(name: str) -> Network:
    """The network of a checkpoint, from its folder or data/models.yaml.  UserError for an unknown model."""
    path = Path(checkpoint_path(name))
    if path.is_absolute():
        return Network(AutoConfig.from_pretrained(path))
    known = yaml.safe_load(MODELS.read_text(encoding="utf-8"))
    if name not in known:
        fault = f"the sizes of {name} are not known"
        raise UserError(f"{fault}: add them to data/{MODELS.name}, which has {', '.join(known)}")
    text = dict(known[name])
    tied, inner = text.pop("tie_word_embeddings"), text.pop("vision_intermediate_size")
    vision = VISION | {"intermediate_size": inner, "out_hidden_size": text["hidden_size"]}
    return Network(Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=tied))


@dataclass(frozen=True)
class Request:
    """One request to a model."""

    network: Network
    text: int  # text tokens of the prompt
    pictures: Sequence[tuple[int, int]]  # (width, height) in pixels after resizing
    reply: int  # tokens of the reply

    @property
    def prompt(self) -> int:
        return self.text + sum(map(self.network.image_tokens, self.pictures))

    @property
    def flops(self) -> float:
        return self.network.reply_flops(self.prompt, self.pictures, self.reply)

    def pass_flops(self, passes: int = 1) -> float:
        """Operations of training passes over prompt and reply; logits are computed for the reply alone."""
        return passes * self.network.forward_flops(self.prompt + self.reply, self.pictures, self.reply + 1)


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
        return sum(astuple(self))


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
        fault = f"profile {profile.name} names no hardware"
        raise UserError(f"{fault}: `coda estimate gpu`, `coda estimate paper`")
    networks = {role: network(getattr(profile.models, role)) for role in ("planner", "executor", "judge")}
    run = _Run(profile, profile.hardware, networks)
    step, memory, serving, disk = run.grpo_step(), run.training_memory(), run.serving(), run.disk()
    missing = tuple(run.missing(memory, serving, disk))
    return Estimate(profile, networks, step, run.stages(step), memory, serving, disk, missing)


class _Run:
    """The work of a profile's run, stage by stage."""

    def __init__(self, profile: Profile, hardware: Hardware, networks: dict[str, Network]):
        self.profile, self.hardware, self.networks = profile, hardware, networks
        self.gpus = hardware.nodes * hardware.gpus
        test = [task for app in profile.apps for task in test_tasks(app)[: profile.test_tasks]]
        self.explored = {planner: self._exploring(wanted) for planner, wanted in profile.explore.items()}
        runs, sealed, tried = profile.evaluation_runs, profile.sealed, profile.baselines
        played, self.steps = self._episodes(test, runs)
        greedy = played if profile.perturb else len(test)  # unperturbed, all runs at temperature 0 are one
        more = sealed.tasks * sealed.runs * len(profile.apps) if sealed else 0
        self.tested = len(profile.systems) * (played + greedy + more)
        tries = len(tried.temperatures) * tried.tasks * tried.runs * len(profile.apps)
        self.best, self.blind = tries + played * bool(tries), BLIND * played
        h, longest = hardware, ceil(max(steps for _, steps in self.explored.values()))
        # two screenshots, instructions and history; for an action the plan as well; for a verdict all screens
        self.plans = self._request("planner", h.prompt_tokens, 2, h.plan_tokens)
        self.actions = self._request("executor", h.prompt_tokens + h.plan_tokens, 2, h.action_tokens)
        self.verdicts = self._request("judge", h.prompt_tokens, longest + 1, h.verdict_tokens)
        adapters, planner = profile.specialize.lora, networks["planner"]
        self.trained = planner.adapter_parameters(adapters) if adapters else planner.parameters  # in number

    def _request(self, role: str, text: int, screens: int, reply: int) -> Request:
        network = self.networks[role]
        screen = ResizeRule(network.patch, *self.hardware.pixels)(self.hardware.screen)
        return Request(network, text, [screen] * screens, reply)

    def _exploring(self, wanted: ExploreSettings) -> tuple[int, float]:
        profile, seed, generator = self.profile, self.profile.seed, self.profile.generator
        tasks = []
        for app in profile.apps:
            tasks += draw(space(app), "train", wanted.tasks, seed, desk_class(app).defaults, wanted.grades)
        count, steps = self._episodes(tasks, wanted.runs)
        if profile.models.generator:
            # its tasks are not known yet: as many as it is asked for, of the same mean length
            count = generator.rounds * generator.tasks * len(profile.apps) * wanted.runs
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
        speed = self.gpus * self.hardware.bandwidth_gbs * GB
        return ceil(count / at_once) * request.reply * weights / speed

    def generated(
        self, name: str, requests: Sequence[tuple[Request, float]], at_once: int, environments_s: float = 0.0
    ) -> Workload:
        flops = sum(request.flops * count for request, count in requests)
        writing_s = sum(self._writing_s(request, count, at_once) for request, count in requests)
        read = sum(request.prompt * count for request, count in requests)
        written = sum(request.reply * count for request, count in requests)
        return Workload(name, flops, read, written, self._arithmetic_s(flops) + writing_s, environments_s)

    def played(self, name: str, episodes: int, steps: float) -> Workload:
        fleet, count = self.profile.fleet, episodes * steps
        at_once = max(1, fleet.workers * fleet.side_by_side or self.profile.concurrency)
        waited = episodes * (self.hardware.reset_s + steps * self.hardware.step_s) / at_once
        return self.generated(name, [(self.plans, count), (self.actions, count)], at_once, waited)

    def baselines(self) -> Workload:
        """The base planner at other temperatures, and those that ask no model."""
        tried, blind = (self.played("baselines", count, self.steps) for count in (self.best, self.blind))
        return replace(tried, environments_s=tried.environments_s + blind.environments_s)

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
        together = min(settings.group_size, settings.at_once or settings.completions_per_step)
        if together == 1 or not settings.shared_prefix:
            return plans, 1
        return replace(plans, reply=together * (plans.reply + 1)), together

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
        profile, settings, stages = self.profile, self.profile.generalize, []
        times = profile.specialize.steps * len(profile.apps)
        fields = ("flops", "read", "written", "seconds")
        specialize = (times * sum(getattr(phase, field) for phase in step) for field in fields)
        specialize = Workload("specialize", *specialize)
        for planner, (episodes, steps) in self.explored.items():
            name = "explore" if planner == "base" else f"explore, {planner}s"
            stages.append(self.played(name, episodes, steps))
            verdicts = [(self.verdicts, episodes * profile.judge.votes)]
            stages.append(self.generated("judge", verdicts, profile.concurrency))
            if planner != "specialist":
                stages.append(specialize)
        rows = settings.steps and settings.steps * settings.batch_size
        rows = rows or settings.epochs * episodes * steps * self.hardware.kept
        generalize = self.training("generalize", self.plans, rows, self.passes(settings))
        return (*stages, generalize, self.played("evaluate", self.tested, self.steps), self.baselines())

    # -- memory and disk -------------------------------------------------------------------------------------
    def training_memory(self) -> Memory:
        """Weights, gradients and optimizer are sharded among the GPUs; each GPU works on its own samples."""
        settings, network, plans = self.profile.specialize, self.networks["planner"], self.plans
        (row, together), samples = self.rows, ceil(settings.completions_per_step / self.gpus)
        at_once = ceil(min(samples, settings.at_once or samples) / together)
        activations = network.activation_bytes(at_once, row.prompt + row.reply, row.reply)
        working = max(activations, samples * network.cache_bytes(plans.prompt + plans.reply))
        trained = WHOLE * self.trained
        weights = HALF * network.parameters + trained if settings.lora else trained
        reference = 0 if settings.lora or not settings.beta else WHOLE * network.parameters
        shared = (weights, trained, 2 * trained, reference)
        return Memory(*(size / self.gpus for size in shared), working)

    def serving(self) -> dict[str, float]:
        sizes = {}
        for role, request in (("planner", self.plans), ("executor", self.actions), ("judge", self.verdicts)):
            cache = request.network.cache_bytes(self.profile.concurrency * (request.prompt + request.reply))
            sizes[role] = HALF * request.network.parameters + cache
        return sizes

    def disk(self) -> float:
        """Trained weights and trainer checkpoints of each specialist and the generalist; screenshots."""
        planner = WHOLE * (self.networks["planner"].parameters + 3 * self.trained)
        played = (*self.explored.values(), (self.tested + self.best + self.blind, self.steps))
        screenshots = sum(episodes * (steps + 1) for episodes, steps in played)
        return (len(self.profile.apps) + 1) * planner + screenshots * self.hardware.screenshot_kb * 1e3

    def missing(self, memory: Memory, serving: dict[str, float], disk: float) -> list[str]:
        """What this machine lacks, one line each."""
        h, gpus, node = self.hardware, torch.cuda.device_count(), self.hardware.gpus * self.hardware.memory_gb
        lacking = []
        if gpus < h.gpus:
            lacking.append(f"{h.gpus} × {h.gpu} on each of {h.nodes} nodes; here are {gpus} GPUs")
        if memory.total > h.memory_gb * GB:
            lacking.append(
                f"{memory.total / GB:.0f} GB on each GPU to train; a {h.gpu} has {h.memory_gb:g} GB"
            )
        for role, size in serving.items():
            if size > node * GB:
                lacking.append(f"{size / GB:.0f} GB to serve the {role}; a node has {node:g} GB")
        if (free := psutil.disk_usage(str(RESULTS.parent)).free) < disk:
            lacking.append(f"{disk / GB:.0f} GB of disk; {free / GB:.0f} GB are free")
        for name, extra in (("vllm", "gpu"), ("peft", "scale"), ("ray", "scale")):
            if not find_spec(name):
                lacking.append(f"{name}: pip install --editable '.[{extra}]'")
        return lacking + ([] if shutil.which("nvidia-smi") else ["an NVIDIA driver"])
