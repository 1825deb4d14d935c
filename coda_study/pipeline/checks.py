"""What must hold before a run starts: its stage, folder and checkpoints can be used, and servers answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import httpx

from coda_lib.config import Profile, Role
from coda_lib.errors import UserError, one_line
from coda_lib.models.bounded import uses_proxies
from coda_lib.paths import checkpoint_path, display, require_checkpoint
from coda_study.owned import in_reference, is_free
from coda_study.run import Run
from sciencedesk.sets import check_knowledge

STAGES = (  # in the order of the story; names for --until
    "quickstart", "sciencedesk", "planner_executor", "explore", "judge", "reward", "specialize",
    "explore_specialists", "judge_specialists", "generalize", "evaluate", "baselines", "judges", "results",
    "ablations", "curve", "real_apps", "virtual_machines", "solutions", "everything", "base_models",
)  # fmt: skip
ALONE = (  # need no exploration of the run
    "quickstart", "sciencedesk", "planner_executor", "curve", "real_apps", "virtual_machines", "base_models",
)  # fmt: skip
PATIENCE_S = 10.0  # for a server to say that it is there


def check(run: Run, profile: Profile, until: str, fresh: bool, cluster: Path | None) -> None:
    """UserError for a stage, a folder of a run or of a cluster, or a checkpoint that cannot be used."""
    folder, another = display(run.folder), "choose another name with --run"
    if until not in STAGES:
        raise UserError(f"unknown stage {until!r}: choose one of {', '.join(STAGES)}")
    if until == "curve" and not profile.curve:
        known = "take --profile ablations, or give it one with --set"
        raise UserError(f"profile {profile.name} has no curve: {known}")
    if in_reference(run.folder):
        raise UserError(f"{folder} belongs to the committed results, which stay; {another}")
    if not is_free(run.folder):
        run.require_marked()
    if os.path.lexists(run.profile_file) and not fresh and (name := run.profile().name) != profile.name:
        raise UserError(f"{folder} was made with profile {name}, not {profile.name}; {another}")
    if cluster and not (cluster / "config.yaml").is_file():
        known = "name a folder such as profiles/slurm or profiles/kubernetes"
        raise UserError(f"{display(cluster)} has no config.yaml: {known}")
    if until != "base_models":
        for role, name in profile.models:
            if name is not None:
                require_checkpoint(role, name)
        check_knowledge(Path(checkpoint_path(profile.models.planner)), profile.apps, profile.knowledge)
    for field, name in profile.curve.checkpoints.items() if profile.curve else ():
        require_checkpoint(field, name)


def check_explored(run: Run, profile: Profile, until: str) -> None:
    """UserError if a run uses its own exploration, or that of a run which lacks what `until` needs of it."""
    explorer, name = run.explorer(profile), run.folder.name
    if profile.explored and explorer.folder == run.folder:
        raise UserError(f"explored: run {name} cannot use its own exploration; leave the field out")
    if not profile.explored or until in ALONE:
        return
    judged = () if until == "explore" else (explorer.judged, explorer.judge_scores)
    paths = [file("base", app) for file in (explorer.rollouts, *judged) for app in profile.apps]
    if absent := [path for path in paths if not path.exists()]:
        other = explorer.folder.name
        uses = f"run {name} uses the exploration of run {other}, which has no {display(absent[0])}"
        raise UserError(f"{uses}: run {other} first, at least --until judge")


def require_models(profile: Profile) -> None:
    """UserError for a model server that does not answer, and a checkpoint neither here nor on the hub."""
    for role in get_args(Role):
        address, name = getattr(profile.serving, role), getattr(profile.models, role)
        if name is None:
            continue
        if served := address.startswith("http"):
            _require_server(f"serving.{role}", address)
        if not served or role == "planner":  # which is trained here, wherever it acts
            _require_on_hub(f"models.{role}", name)
    for field, name in profile.curve.checkpoints.items() if profile.curve else ():
        _require_on_hub(field, name)


def _require_server(field: str, address: str) -> None:
    try:
        by_proxy = uses_proxies(address)
        with httpx.stream("GET", f"{address.rstrip('/')}/models", timeout=PATIENCE_S, trust_env=by_proxy):
            return  # whatever it says: not every server lists its models
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fault = f"{address} does not answer ({one_line(error)}): start the server first"
        raise UserError(f"{field}: {fault}") from error


def _require_on_hub(field: str, name: str) -> None:
    from huggingface_hub import hf_hub_download

    if Path(checkpoint_path(name)).is_absolute():
        return
    try:
        hf_hub_download(name, "config.json")  # from the cache, if it is there
    except Exception as error:  # of the network, the hub's client or its checks of the name
        fault = f"{name} is no folder here, and the hub does not give it ({one_line(error)})"
        advice = "name a folder, or fetch it where there is a network with `hf download`"
        raise UserError(f"{field}: {fault}: {advice}") from error
