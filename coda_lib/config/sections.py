"""The sections of a profile, each with the range of its numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from coda_lib.applications import App

LAST_SEED = 2**32 - 1  # of NumPy's random numbers, and so of transformers'
Whole = Annotated[int, Field(strict=True)]  # so that true is not 1
Real = Annotated[float, BeforeValidator(lambda value: str(value) if isinstance(value, bool) else value)]
Count = Annotated[Whole, Field(ge=1)]
Number = Annotated[Whole, Field(ge=0)]
Positive = Annotated[Real, Field(gt=0)]
Share = Annotated[Real, Field(gt=0, le=1)]
NotNegative = Annotated[Real, Field(ge=0)]
Threads = Annotated[Whole, Field(ge=1, le=1024)]


class Section(BaseModel):
    """A part of a profile: cannot change, knows no other fields, and has no infinite number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


SYSTEMS = ("base", "executor", "stage1", "stage2")  # rows of Table 1, in its order
ROUNDS = ("round1", "round2", "round3", "round4", "round5")
# the planners that explore: the base one, after each round of training that a profile has, after all
EXPLORERS = ("base", *ROUNDS, "specialist")
LABELS = ("voting", "base judge", "single", "two resolutions", "ensemble", "truth", "failed", "shuffled")
Grade = Literal["A", "B", "C", "D"]
Explorer = Literal[EXPLORERS]
System = Literal[SYSTEMS]
Role = Literal["planner", "executor", "judge", "generator"]


class Models(Section):
    """Checkpoints: a path such as data/checkpoints/planner, or a name on the Hugging Face hub."""

    planner: str
    executor: str
    judge: str
    base_judge: str = "data/checkpoints/base_judge"  # the judge before it was tuned on a planner's attempts
    coder: str = "data/checkpoints/executor"  # writes the texts that a planner delegates (an ablation)
    generator: str | None = None  # any chat model, which sets the train tasks; None: they come from templates


Where = Annotated[str, Field(pattern=r"^(local|started|https?://\S+)$")]


class Serving(Section):
    """Where each model runs: 'local' is in the stage's own process, 'started' behind a server that the stage
    starts and ends, and an address such as http://host:8000/v1 is a server that runs already and calls the
    model by the checkpoint's name.
    """

    planner: Where = "local"  # when it acts; it is always trained in the stage's own process
    executor: Where = "local"
    judge: Where = "local"
    generator: Where = "local"
    options: tuple[str, ...] = ()  # for vLLM where it is started, such as --gpu-memory-utilization=0.4


class FleetSettings(Section):
    """Who plays episodes: the stage itself, in one batch, or the workers of a fleet."""

    workers: Annotated[Whole, Field(ge=0, le=10_000)] = 0  # processes; 0: no fleet
    side_by_side: Count = 16  # environments of each
    ray: str | None = None  # a Ray cluster: its address, 'auto' or 'local'; None: processes of this machine


class SamplingSettings(Section):
    temperature: NotNegative
    top_p: Share
    max_new_tokens: Count


class JudgeSettings(SamplingSettings):
    votes: Count  # independent replies about a trajectory, at most
    # all agree, over half, `agree`; one vote
    rule: Literal["unanimous", "majority", "agreement", "single"] = "unanimous"
    agree: Count | None = None  # votes that must agree under the rule `agreement`
    trim: bool = False  # an accepted attempt with redundant steps is learned from, too, without these
    repeats: Count = 1  # attempts at one task whose labelled plans must be the same
    # what is shown of an attempt: all screens after the task (as in the paper); or before it what each step
    # changed and the last screen, in pictures or in the words that RapidOCR reads
    shows: Literal["screens", "changes", "words"] = "screens"

    @model_validator(mode="after")
    def _agree_with_agreement(self) -> JudgeSettings:
        if (self.rule == "agreement") != (self.agree is not None):
            raise ValueError("give agree with rule: agreement, and with no other rule")
        if self.agree and self.agree > self.votes:
            raise ValueError(f"agree {self.agree} is more than votes {self.votes}")
        return self


class ExploreSettings(Section):
    """What a planner explores in each application: train tasks drawn for it."""

    tasks: Count
    grades: Annotated[dict[Grade, Positive], Field(min_length=1)]  # how many of each, in proportion
    runs: Count  # episodes of each task


class SealedSettings(Section):
    """Further test tasks, drawn by a seed that is written down before anything is trained."""

    tasks: Count  # an application
    seed: Annotated[Whole, Field(ge=0, le=LAST_SEED)]  # of the draw; the same for every seed of a run
    runs: Count = 1  # episodes of each task


class BaselineSettings(Section):
    """What stands beside Table 1 to be beaten (notebook 19); blind agents are played in any case."""

    # of base planner and executor; the best one, by application, gives a row of its own; none: no such row
    temperatures: tuple[NotNegative, ...] = ()
    tasks: Count = 60  # of the development region an application, on which a temperature is chosen
    runs: Count = 1  # episodes of each at each temperature


class CurveSettings(Section):
    """How success grows with the number of distinct train tasks, at one number of episodes (notebook 17)."""

    app: App
    tasks: Annotated[tuple[Count, ...], Field(min_length=1)]
    episodes: Count  # of the base planner, for each number of tasks
    # who says "clean" for stage 1; empty: only `starts`
    labels: tuple[Literal["voting", "truth"], ...] = ("voting", "truth")
    # planners that begin stage 2 on the judge's labels: a checkpoint, or null for random weights
    starts: dict[Annotated[str, Field(pattern=r"^[a-z0-9_]+$")], str | None] = {}

    @property
    def checkpoints(self) -> dict[str, str]:
        """The checkpoints of the starts, by their fields in a profile; random weights have none."""
        return {
            f"curve.starts.{name}": checkpoint
            for name, checkpoint in self.starts.items()
            if checkpoint is not None
        }

    @model_validator(mode="after")
    def _whole_runs(self) -> CurveSettings:
        for tasks in self.tasks:
            if self.episodes % tasks:
                raise ValueError(f"{self.episodes} episodes cannot be shared by {tasks} tasks alike")
        if not (self.labels or self.starts):
            raise ValueError("a curve needs labels or starts")
        if taken := {"voting", "truth", "base", "judged"} & self.starts.keys():
            raise ValueError(f"a start cannot be called {taken.pop()}: points of the curve are")
        return self


class GeneratorSettings(SamplingSettings):
    """The train tasks of `models.generator`, for each application."""

    temperature: NotNegative = 1.0
    top_p: Share = 1.0
    max_new_tokens: Count = 4096
    rounds: Count = 5  # calls, each told how the last tasks went
    tasks: Count = 20  # of a call (paper, section 4)


class JudgesSettings(Section):
    """Table 2: several judges vote on a mix of the run's trajectories."""

    trajectories: Count = 32  # of each planner (base, specialist, generalist) in each application
    low_resolution: Share = 0.75  # width and height of a small screenshot, as shares of the full one


class TrainingSettings(Section):
    """What both stages of training share."""

    learning_rate: Positive
    # torch threads; part of the result to the last bit, hence here and not on the command line
    threads: Threads = 1
    # of the samples behind an optimizer step, those in one pass of a device; None: its share
    at_once: Count | None = None
    # train by several processes: a configuration of `accelerate launch`, as in profiles/accelerate
    accelerate: str | None = None
    # rank of adapters on the language model, which alone are trained then; None: all weights are
    lora: Count | None = None
    frozen_vision: bool = False  # the vision tower stays as it is
    # largest share of states whose right plan ends the episode
    endings: Annotated[Real, Field(ge=0, le=1)] = 1.0
    # of the learning rate, after `warm_up` steps in which it rises from 0
    schedule: Literal["constant", "cosine"] = "constant"
    warm_up: Number = 0
    # who is told of each step beside metrics.jsonl
    track: Literal["none", "tensorboard", "trackio", "wandb"] = "none"


class SpecializeSettings(TrainingSettings):
    """Stage 1: decoupled GRPO, one specialist an application."""

    group_size: Annotated[Whole, Field(ge=2)]  # G of eq. 2: plans sampled for one state
    completions_per_step: Count  # plans behind one optimizer step: a multiple of group_size
    steps: Count  # optimizer steps
    beta: NotNegative  # β of eq. 3, weight of the KL term
    epsilon: Share  # ε of eq. 3, clip range
    epsilon_high: Share | None = None  # its upper side; None: as the lower one
    # L1 distance, in sides of the screen, at which a point earns no r_dist
    reach: Annotated[Real, Field(gt=0, le=2)] = 0.1
    # writes the plans; None: the network itself does
    vllm_server: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    # each state is encoded once for its G plans; False: stock TRL, with the same loss and gradient
    shared_prefix: bool = True
    # states in shuffled passes, or by how much their task's runs differed
    draw: Literal["passes", "spread"] = "passes"
    refills: Number = 0  # times a step that states whose plans all earn the same are replaced
    gate: bool = False  # a group of plans without a right one teaches nothing (`reward.RIGHT`)

    @model_validator(mode="after")
    def _whole_groups(self) -> SpecializeSettings:
        for name in ("group_size", "at_once"):
            if (size := getattr(self, name)) and self.completions_per_step % size:
                raise ValueError(
                    f"completions_per_step {self.completions_per_step} is no multiple of {name} {size}"
                )
        return self


class Variant(Section):
    """What an ablation changes in stage 1; all else is as in the run."""

    # who says "clean"; the last two are controls: attempts that failed, and as many as the rule's, any ones
    labels: Literal[LABELS] = "voting"
    distance: bool = True  # with r_dist in the reward (eq. 1)
    # G of eq. 2; None: the run's, with as many plans a step in any case
    group_size: Annotated[Whole, Field(ge=2)] | None = None
    coupled: bool = False  # the executor is trained as well, on the same rewards
    # one planner for all applications, with as many steps as the specialists have together
    joint: bool = False


class GeneralizeSettings(TrainingSettings):
    """Stage 2: supervised fine-tuning of a fresh base planner."""

    steps: Count | None = None  # optimizer steps; either these
    epochs: Positive | None = None  # or passes over the data
    batch_size: Count

    @model_validator(mode="after")
    def _one_length(self) -> GeneralizeSettings:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(
                f"give either steps or epochs, not {'neither' if self.steps is None else 'both'}"
            )
        if self.at_once and self.batch_size % self.at_once:
            raise ValueError(f"batch_size {self.batch_size} is no multiple of at_once {self.at_once}")
        return self


class Hardware(Section):
    """The hardware of `coda estimate` and `make bench`: peaks of data sheets, and assumptions."""

    gpu: str
    nodes: Count
    gpus: Count  # of each node
    memory_gb: Positive  # of each GPU
    tflops: Positive  # of each GPU: dense, 16 bits, at its peak
    bandwidth_gbs: Positive  # of each GPU's memory, GB/s
    share: Share  # of that peak which training and reading reach; assumed
    screen: tuple[Count, Count]  # (width, height) in pixels
    pixels: tuple[Count, Count]  # of a picture as a network sees it, at least and at most
    prompt_tokens: Count  # words of a prompt, the history among them; assumed
    plan_tokens: Count  # of a plan; assumed
    action_tokens: Count  # of an action; assumed
    verdict_tokens: Count  # of a verdict; assumed
    step_s: Positive  # of an environment: an action, and the picture that stands still after it
    reset_s: Positive
    kept: Share  # of the attempts' steps, those that stage 2 learns from; assumed
    screenshot_kb: Positive  # as it is stored


class BaseModelSettings(Section):
    """The appendix that trains the laptop's base models from scratch."""

    scale: Share = 1.0  # share of the recipe's samples and steps
    publish: bool = False  # replace data/checkpoints/ by what was trained
    threads: Threads = 1  # torch threads
    processes: Threads = 1  # that learn side by side, each from batches of its own
