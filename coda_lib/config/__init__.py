"""Profiles: every number that sizes a run, read from profiles/NAME.yaml, validated, stored with the run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from coda_lib.applications import App
from coda_lib.config.sections import (
    EXPLORERS,
    LAST_SEED,
    SYSTEMS,
    BaselineSettings,
    BaseModelSettings,
    Count,
    CurveSettings,
    Explorer,
    ExploreSettings,
    FleetSettings,
    GeneralizeSettings,
    GeneratorSettings,
    Hardware,
    JudgeSettings,
    JudgesSettings,
    Models,
    NotNegative,
    Role,
    SamplingSettings,
    SealedSettings,
    Section,
    Serving,
    SpecializeSettings,
    System,
    Threads,
    TrainingSettings,
    Variant,
    Whole,
)  # fmt: skip
from coda_lib.errors import UserError, describe
from coda_lib.files import read_yaml
from coda_lib.paths import PROFILES, display

__all__ = [
    "EXPLORERS", "SYSTEMS", "Count", "ExploreSettings", "FleetSettings", "GeneralizeSettings",
    "Hardware", "JudgeSettings", "Models", "Profile", "Role", "SamplingSettings", "Section", "Serving",
    "SpecializeSettings", "System", "TrainingSettings", "Variant", "load_profile", "profile_names",
    "profile_text", "read_profile",
]  # fmt: skip


class Profile(Section):
    """One size of a run. The files in profiles/ say unit, meaning and source beside every number."""

    name: str
    seed: Annotated[Whole, Field(ge=0, le=LAST_SEED)]
    # run beside this one whose draw of tasks, base rollouts and judgments it uses; None: its own
    explored: str | None = None
    apps: Annotated[tuple[App, ...], Field(min_length=1)]
    models: Models
    serving: Serving = Serving()
    fleet: FleetSettings = FleetSettings()
    # of a million tokens read and written, where a model is served
    prices: dict[Role, tuple[NotNegative, NotNegative]] = {}
    prompts: Literal["compact", "full", "turns"]
    explore: dict[Explorer, ExploreSettings]  # without rounds, specialists are trained at once
    knowledge: Count | None = None  # split of goals that the planner was taught (data/tasks/knowledge.yaml)
    test_tasks: Count | None  # per application; None: all of them
    evaluation_runs: Count  # k of Average@k and Pass@k
    perturb: bool = False  # whether each run of a task starts in another window, state and wording
    sealed: SealedSettings | None = None  # None: the test tasks alone
    baselines: BaselineSettings = BaselineSettings()
    curve: CurveSettings | None = None  # None: no such study
    systems: Annotated[tuple[System, ...], Field(min_length=1)]
    step_limit: Count | None  # steps an episode; None: each task's own limit
    concurrency: Count  # episodes played side by side; their model calls go in one batch
    planner: SamplingSettings
    executor: SamplingSettings
    judge: JudgeSettings
    judges: JudgesSettings = JudgesSettings()
    generator: GeneratorSettings = GeneratorSettings()
    specialize: SpecializeSettings
    generalize: GeneralizeSettings
    # by name, which becomes that of a file
    ablations: dict[Annotated[str, Field(pattern="^[a-z0-9-]+$")], Variant] = {}
    base_models: BaseModelSettings = BaseModelSettings()
    hardware: Hardware | None = None
    bootstrap_resamples: Count
    threads: Threads = 1  # torch threads of the stages that do not set their own

    @model_validator(mode="after")
    def _agree(self) -> Profile:
        if missing := {"base", "specialist"} - self.explore.keys():
            raise ValueError(f"explore: {' and '.join(sorted(missing))} missing")
        for field, values in (("apps", self.apps), ("systems", self.systems)):
            if len(set(values)) < len(values):
                raise ValueError(f"{field} names one twice: {', '.join(values)}")
        for name, variant in self.ablations.items():
            if (group := variant.group_size) and (step := self.specialize.completions_per_step) % group:
                raise ValueError(
                    f"ablations.{name}: completions_per_step {step} is no multiple of group_size {group}"
                )
        return self


def profile_names() -> list[str]:
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


def load_profile(name: str, overrides: tuple[str, ...] = ()) -> Profile:
    """Return profiles/<name>.yaml with overrides such as 'specialize.steps=10' applied.

    Raises UserError naming the file and the field (or the override) at fault.
    """
    if name not in profile_names():
        raise UserError(f"unknown profile {name!r}: choose one of {', '.join(profile_names())}")
    return read_profile(PROFILES / f"{name}.yaml", overrides)


def read_profile(path: Path, overrides: tuple[str, ...] = ()) -> Profile:
    """Return the profile in the file `path`; raises UserError naming the file and the field at fault."""
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise UserError(f"{display(path)}: expected 'field: value' lines")
    for override in overrides:
        _apply(override, values)
    try:
        return Profile.model_validate(values)
    except ValidationError as error:
        source = display(path) + (f" with --set {' --set '.join(overrides)}" if overrides else "")
        raise UserError(f"{source}: {describe(error.errors())}") from error


def profile_text(profile: Profile) -> str:
    return yaml.safe_dump(profile.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _apply(override: str, values: dict[str, Any]) -> None:
    field, equals, text = override.partition("=")
    if not equals:
        raise UserError(f"--set {override}: expected FIELD=VALUE, as in specialize.steps=10")
    *sections, last = field.strip().split(".")
    if last == "name" and not sections:
        raise UserError("--set name: a profile's name cannot be changed; use --run to name the run")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise UserError(f"--set {override}: {section} has no fields of its own")
    try:
        values[last] = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: of an impossible date
        raise UserError(f"--set {override}: {text!r} is not a YAML value") from error
