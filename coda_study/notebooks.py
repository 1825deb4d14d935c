"""What a notebook does before its own work: it checks its parameters, and opens the run that it reads.

In IPython this module is loaded with the package.  An expected failure is then one line, not a traceback;
where papermill runs the cells, by the pipeline or by hand, the executed copy keeps the traceback.
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock
from IPython import get_ipython

from coda_lib.applications import ALL_APPS, DESKTOP_APPS
from coda_lib.config import EXPLORERS, SYSTEMS, Profile, load_profile, profile_names
from coda_lib.config.sections import LAST_SEED
from coda_lib.errors import StageError, UserError
from coda_lib.files import write_bytes
from coda_lib.paths import REFERENCE, RESULTS, display
from coda_study.owned import belongs, claim, remove
from coda_study.run import Run, explorers

KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
RANGES = {  # least and largest value of a whole number
    "runs": (1, None), "states": (1, None), "plans": (1, None), "count": (1, None), "samples": (1, None),
    "group": (2, None), "threads": (1, 1024), "number": (0, None), "seed": (0, LAST_SEED),
}  # fmt: skip
CHOICES: dict[str, Callable[[], tuple[str, ...]]] = {
    "profile": lambda: tuple(profile_names()), "app": lambda: ALL_APPS, "planner": lambda: EXPLORERS,
    "system": lambda: SYSTEMS, "kind": lambda: DESKTOP_APPS,
}  # fmt: skip
INJECTED = "# Parameters\n"  # how papermill begins the cell with what it was given
STAGES = {  # where the files of a run lie: the stage of `coda reproduce --until` that makes them
    "rollouts/base": "explore", "judged/base": "judge", "rollouts/specialist": "explore_specialists",
    "judged/specialist": "judge_specialists", "rollouts": "specialize", "judged": "specialize",
    **dict.fromkeys(EXPLORERS[1:], "specialize"),
    "generalist": "generalize", "evaluation": "evaluate", "baselines": "baselines",
    "judges": "judges", "ablations": "ablations", "curve": "curve", "tables/ablations": "ablations",
    "tables/curve": "curve", "tables": "results",
}  # fmt: skip
CHECK, COPY = Run("check"), Run("check-copy")  # the run of `make check`, and what notebooks work on of it
UNUSED = frozenset(("notebooks", "view", "fleet", "snakemake.log", ".snakemake", "manifest.json"))


def install() -> None:
    """Show expected failures as one line in the IPython of this process, and check its parameters."""
    if shell := get_ipython():
        shell.set_custom_exc((UserError, StageError, FileNotFoundError), _show)
        check_parameters(shell.user_ns)


def _show(shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace  # for %tb
    said = absent(error) if isinstance(error, FileNotFoundError) else str(error)
    if said and is_read():
        shell._showtraceback(kind, error, [f"error: {said}"])
    else:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def absent(error: FileNotFoundError) -> str:
    """That a run's file is not there, and the command that makes it; "" of other files."""
    path = Path(os.fsdecode(error.filename or str(error))).absolute()  # Arrow has the path as text
    if not path.is_relative_to(RESULTS) or path.is_relative_to(REFERENCE) or path.parent == RESULTS:
        return ""
    said = f"{display(path)} is not there"
    with suppress(UserError):  # of a folder that is no run, or whose profile cannot be read
        run = Run(path.relative_to(RESULTS).parts[0])
        own = run.name if run.name in profile_names() and not run.profile_file.exists() else None
        if _stage_of(path.relative_to(run.folder).as_posix()):
            return f"{said}: it is made by {_command(run, run.profile(own), path, '')}"
    return said


def is_read() -> bool:
    """Whether a person runs the cells of this process: it is a notebook's, and papermill does not."""
    shell = get_ipython()
    if not shell or any(cell.startswith(INJECTED) for cell in shell.user_ns.get("In", ())):
        return False
    with suppress(psutil.Error):
        return not any("papermill" in word for word in psutil.Process().parent().cmdline())
    return True


def fault_of(name: str, kind: str, value: Any) -> str | None:
    """What is wrong with the value of a parameter that is declared with a type by name; None if nothing."""
    allowed = KINDS.get(kind, (type(value),))
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        return f"parameter {name} must be {kind}, not {value!r}"
    least, most = RANGES.get(name, (None, None))
    if (least is not None and value < least) or (most is not None and value > most):
        return f"parameter {name} must be at least {least}{f', at most {most}' if most else ''}, not {value}"
    if name in CHOICES and value not in CHOICES[name]():
        return f"parameter {name} is {value!r}: choose one of {', '.join(CHOICES[name]())}"
    return None


def check_parameters(names: Mapping[str, Any]) -> None:
    """UserError for a parameter in the names of a notebook's cells that has a value it cannot have, or that
    papermill set and the notebook does not declare.
    """
    declared = names.get("__annotations__", {})
    if not {"profile", "run"} <= declared.keys():
        return  # no notebook of the kit
    for cell in names.get("In", ()):
        for node in ast.parse(cell).body if cell.startswith(INJECTED) else ():
            given = node.targets[0].id if isinstance(node, ast.Assign) else "profile"
            if given not in declared:
                known = ", ".join(declared)
                raise UserError(f"unknown parameter {given!r}: this notebook declares {known}")
    for name, kind in declared.items():
        if name in names and (fault := fault_of(name, getattr(kind, "__name__", ""), names[name])):
            raise UserError(fault)


def task_number(tasks: Sequence[Any], number: int) -> Any:
    """The task with this number, counted from 0.  UserError where there is none."""
    if not number < len(tasks):
        raise UserError(f"parameter number must be at most {len(tasks) - 1}, the last task's, not {number}")
    return tasks[number]


def open_run(name: str, profile: str, stage: str, *names: str) -> Run:
    """The run that the notebook of a stage, such as ('judge', 'base', 'gis'), reads and writes.

    Where a person runs the cells and the run lacks what `inputs` lists, or `make reproduce` would begin it, a
    copy of the finished run of `make check` takes its place if that has it all; a line says so.  UserError
    for wrong parameters, another profile than the run's, and missing files, with the command that makes them.
    """
    if shell := get_ipython():
        check_parameters(shell.user_ns)
    run = Run(name)
    settings = run.profile(profile)
    missing = _missing(run, settings, stage, *names)
    begins = stage in ("explore", "evaluate") and not run.profile_file.exists()
    unbegun = begins and name == profile  # that of `make reproduce`; one with a name of its own begins here
    command = _command(run, settings, missing[0] if missing else None, stage)
    if (missing or unbegun) and is_read() and (copy := _copy_of_check(stage, *names)):
        lacks = f"has no {display(missing[0])}" if missing else "is not there"
        shown = f"shown is the small run of `make check`, in a copy ({display(copy.folder)})"
        print(f"Run {run.folder.name} {lacks}: {shown}. Your own is made by {command}")
        return copy
    if missing:
        raise UserError(f"{display(missing[0])} is not there: it is made by {command}")
    return run


def inputs(run: Run, profile: Profile, stage: str, *names: str) -> list[Path]:
    """The files of earlier stages that a stage reads.  UserError for a name that it cannot have."""
    base = [run.judged("base", app) for app in profile.apps]
    match stage, *names:
        case "explore" | "evaluate", player, app:
            return [] if player in ("base", "executor") else _weights(run, player, app)
        case "judge", planner, app:
            return [run.rollouts(planner, app)]
        case "reward" | "labels", app:
            return [run.judged("base", app)]
        case "specialize", planner, app:
            if not (before := explorers(profile, planner)):
                raise UserError("parameter planner is 'base': choose one that is trained, such as specialist")
            trained = [path for name in before[1:] for path in _weights(run, name, app)]
            return [*(run.judged(name, app) for name in before), *trained]
        case ("curve" | "base_models",):
            return []
        case ("generalize",):
            return [run.judged(name, app) for app in profile.apps for name in explorers(profile)[1:]]
        case "baselines", app:
            return [run.rollouts("base", app), run.trajectories("base", app)]
        case "judges", app:
            rollouts = [run.rollouts(planner, app) for planner in ("base", "specialist")]
            return [*rollouts, run.trajectories("stage2", app)]
        case ("results",):
            played = [run.evaluation(*pair) for pair in product(profile.systems, profile.apps)]
            logs = [
                folder / "metrics.jsonl" for folder in (*map(run.specialist, profile.apps), run.generalist)
            ]
            return [*played, *map(run.baselines, profile.apps), *map(run.judges, profile.apps), *logs]
        case ("how_sure",):
            played = [run.greedy(*pair) for pair in product(profile.systems, profile.apps)]
            return [*played, *map(run.baselines, profile.apps)]
        case "variant", name:
            if name not in profile.ablations:
                known = ", ".join(profile.ablations) or "none"
                raise UserError(f"profile {profile.name} has no ablation {name!r}; it has {known}")
            return base
        case "transfer", app:
            return _weights(run, "generalist", app)
        case ("ablations",):
            return [*base, *map(run.label_votes, profile.apps), *map(run.ablation, profile.ablations)]
    raise NotImplementedError(f"what stage {'/'.join((stage, *names))} reads is not listed")


def _weights(run: Run, planner: str, app: str) -> list[Path]:
    return [Path(str(run.planner_checkpoint(planner, app)), "config.json")]


def _missing(run: Run, profile: Profile, stage: str, *names: str) -> list[Path]:
    return [path for path in inputs(run, profile, stage, *names) if not path.exists()]


def _command(run: Run, profile: Profile, path: Path | None, until: str) -> str:
    """The command that makes a file of a run, or without one does a stage."""
    home = run if path is None or path.is_relative_to(run.folder) else run.explorer(profile)
    if path:
        place = path.relative_to(home.folder).as_posix()
        until = _stage_of(place)
    name = "" if home.name == profile.name else f" --run {home.name}"
    changed = "" if profile == load_profile(profile.name) else ", with each --set it was begun with"
    return f"`coda reproduce --profile {profile.name}{name} --until {until}`{changed}"


def _stage_of(place: str) -> str:
    """The stage that makes a file of a run; "" of one that no stage does."""
    return next((stage for start, stage in STAGES.items() if place.startswith(start)), "")


def _copy_of_check(stage: str, *names: str) -> Run | None:
    """A copy of the finished run of `make check`, made again after another check; None if it lacks an input.

    Notebooks train and play in it, and the check's own files stay as they are.
    """
    if not CHECK.manifest.is_file() or _missing(CHECK, CHECK.profile(), stage, *names):
        return None
    with FileLock(COPY.folder.with_name(f".{COPY.name}.lock")):
        if not COPY.manifest.is_file() or COPY.manifest.read_bytes() != CHECK.manifest.read_bytes():
            claim(COPY.folder, "run")
            for path in filter(belongs, list(COPY.folder.iterdir())):
                remove(path)
            for path in filter(belongs, list(CHECK.folder.iterdir())):
                if path.name not in UNUSED:
                    copy = shutil.copytree if path.is_dir() else shutil.copyfile
                    copy(path, COPY.folder / path.name)
            write_bytes(COPY.manifest, CHECK.manifest.read_bytes())  # last: it says that the copy is whole
    return COPY
